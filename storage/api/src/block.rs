//! A block: what one pass of the fold appends, and the unit of atomicity in the log.

use bytes::Bytes;

use crate::ids::{Epoch, Lsn, Pos};

/// One append. Either all of its records are in the log after a crash, or none.
#[derive(Debug, Clone)]
pub struct Block {
    /// LSN of the first record: the previous block's `first` + `count`.
    pub first: Lsn,
    /// Number of records in `records`; at least 1.
    pub count: u32,
    /// Broker clock in ms since the Unix epoch; never decreasing over the log.
    pub time_ms: u64,
    /// Chunks whose concatenation is the records' bytes. A large body is a chunk of its own, written
    /// from where it is; small ones share a chunk.
    pub records: Vec<Bytes>,
    /// Whether somebody waits for this block to be on stable storage.
    pub sync: bool,
    /// What the block says about itself.
    pub flags: BlockFlags,
}

impl Block {
    /// Total length of `records` in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.iter().map(Bytes::len).sum()
    }

    /// True when there are no record bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.iter().all(Bytes::is_empty)
    }

    /// LSN of the last record of the block.
    #[must_use]
    pub fn last(&self) -> Lsn {
        Lsn(self.first.0 + u64::from(self.count) - 1)
    }
}

/// Flags of a block, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockFlags {
    /// The last block of an orderly stop. Recovery treats the log after it as empty.
    pub clean_shutdown: bool,
}

/// A block as read back.
#[derive(Debug, Clone)]
pub struct StoredBlock {
    /// Where it starts.
    pub pos: Pos,
    /// Epoch of the owner that wrote it.
    pub epoch: Epoch,
    /// LSN of the first record.
    pub first: Lsn,
    /// Number of records.
    pub count: u32,
    /// Broker clock when it was made, ms since the Unix epoch.
    pub time_ms: u64,
    /// What the block says about itself.
    pub flags: BlockFlags,
    /// The records' bytes, in one piece.
    pub records: Bytes,
}

/// Some bytes inside a block's records: how a body is found again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BodyRef {
    /// The block.
    pub block: Pos,
    /// Offset of the first byte within the block's record bytes.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
}
