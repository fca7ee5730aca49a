//! What a backend's test supplies: stores to open, ways to kill them, faults to inject.

use std::sync::Arc;

use crate::{Pos, ShardStore, StoreError};

/// What a kill takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The process dies: what it had not written is gone.
    Process,
    /// The power goes: what was not synced may be gone, in any combination.
    Power {
        /// Chooses the combination.
        seed: u64,
    },
}

/// A fault to inject. Faults at rest are applied while no store is open, each to the state that the last
/// `kill` left behind (not to the result of an earlier fault).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Live: the next sync fails with an input/output error.
    FailNextSync,
    /// Live: writes find no room.
    NoRoom,
    /// Live: room is back.
    Room,
    /// At rest: of the stored form of the block at `pos` only the first `keep` bytes were written.
    TearBlock {
        /// The newest block.
        pos: Pos,
        /// Bytes of it that are there.
        keep: u64,
    },
    /// At rest: one bit of byte `byte` of the stored form of the block at `pos` is flipped.
    FlipBit {
        /// Any block.
        pos: Pos,
        /// Byte within its stored form.
        byte: u64,
    },
    /// At rest: the newest snapshot does not match its checksum.
    CorruptSnapshot,
    /// At rest: the store says it was written by a newer version.
    NewerFormat,
    /// At rest: the block at `pos` has a flag that this version does not know.
    UnknownFlag {
        /// Any block.
        pos: Pos,
        /// Whether the flag is one of those that may be skipped.
        may_skip: bool,
    },
}

/// What an injection did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Injected {
    /// The fault is in place.
    Done,
    /// The byte lies beyond the block.
    OutOfRange,
}

/// The backend cannot have this fault, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported(pub &'static str);

/// Opens, kills and damages stores of one backend. Choose small limits (blocks of at most 1 MiB, small
/// segments), so that the suite is quick.
pub trait Factory {
    /// Name for the table.
    fn backend(&self) -> String;

    /// A new, empty store; the previous one is forgotten.
    fn create(&mut self) -> Result<Arc<dyn ShardStore>, StoreError>;

    /// Opens what the last store left behind. Every handle of it was dropped before.
    fn open(&mut self) -> Result<Arc<dyn ShardStore>, StoreError>;

    /// Ends `store`, the last handle, without a shutdown.
    fn kill(&mut self, store: Arc<dyn ShardStore>, loss: Loss) -> Result<(), Unsupported>;

    /// Puts a fault in place.
    fn inject(&mut self, fault: Fault) -> Result<Injected, Unsupported>;
}
