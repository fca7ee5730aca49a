//! Embedded durable storage: one segmented log per shard, committed in groups.
//!
//! A directory holds `LOCK`, `MANIFEST`, `seg-<first LSN>.log`, `snap-<LSN>.fgs` and spare segments. One
//! committer thread writes all blocks that wait with one vectored write and one sync; a maintenance
//! thread prepares and deletes segments; readers use positional reads and never touch the committer.
//! Unix only (positional reads and writes). What is stored is opaque: no record is ever looked into.

mod batch;
mod claim;
mod commit;
mod committer;
#[cfg(feature = "faults")]
pub mod damage;
#[cfg(feature = "faults")]
mod faults;
mod fetch;
mod files;
mod header;
mod journal;
mod maintenance;
mod manifest;
mod metrics;
mod names;
mod options;
mod pending;
mod proof;
mod read;
mod recovery;
mod repair;
mod scan;
mod segments;
mod shared;
#[cfg(feature = "faults")]
pub mod sim;
mod snapshot_file;
mod snapshots;
mod spare;
mod state;
mod writer;

#[cfg(feature = "faults")]
pub use faults::Faults;
pub use files::{DiskFiles, FileHandle, Files};
pub use journal::{Journal, SegmentFile};
pub use metrics::{GROUP_BUCKETS, JournalMetrics};
pub use options::{Options, SyncMode};
pub use repair::{Filler, LostRange, Repaired, repair, repair_with};
