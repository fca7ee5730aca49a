//! Volatile storage: the whole log in memory, gone with the process.
//!
//! It serves installations that want no disk, and it is the oracle of the conformance suite and of the
//! broker's model tests: same contract as the journal, with durability steered by hand when a test asks
//! for it (`MemoryStore::paused`). It touches no file and keeps every block until it is trimmed.

mod lookup;
mod options;
mod reporter;
mod snapshots;
mod state;
mod store;

pub use options::MemoryOptions;
pub use store::MemoryStore;
