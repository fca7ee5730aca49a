//! The storage interface: one fenced, single-owner log per shard.
//!
//! A backend stores blocks of opaque records and gives them back in order. It knows no queues, no
//! topics and no protocols: the state machine above it is a fold over this log, so every backend
//! behaves alike. Calls that return data block the calling thread (never call them from the fold or
//! from an async task); `append` never blocks on the disk.

mod block;
mod caps;
mod error;
mod front;
mod ids;
mod store;
mod wire;

#[cfg(feature = "conformance")]
pub mod conformance;

pub use block::{Block, BlockFlags, BodyRef, StoredBlock};
pub use caps::{Caps, Extent, Usage};
pub use error::{Resource, StoreError};
pub use front::Front;
pub use ids::{Epoch, Generation, Lsn, Pos, ShardId};
pub use store::{Claim, Report, ReportFn, ShardStore, Snapshot};
pub use wire::{VARINT_BYTES_MAX, put_varint, take_varint, varint_len};
