//! What a backend can do and how full it is.

use crate::ids::Pos;

/// Fixed properties of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Largest block in record bytes; the caller never hands over more.
    pub block_bytes_max: usize,
    /// Blocks that may be in flight before the fold lets its open block grow.
    pub pipelining: usize,
    /// Whether several processes can own shards of this store: nothing is delivered before it is durable.
    pub shared: bool,
    /// Whether a synced block survives a process kill.
    pub durable: bool,
}

/// A piece of a log whose space is given back as a whole: the blocks whose position lies in `first..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Position at which it begins.
    pub first: Pos,
    /// Position at which the next one may begin.
    pub end: Pos,
    /// Bytes that come back when it goes.
    pub bytes: u64,
}

/// Space a shard takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Bytes on disk, preallocated space included.
    pub disk_bytes: u64,
    /// Bytes of blocks that can still be read.
    pub log_bytes: u64,
    /// Number of segments or their equivalent.
    pub segments: u64,
    /// Free bytes on the file system, if known.
    pub free_bytes: Option<u64>,
    /// Appends handed over that are not yet reported.
    pub blocks_in_flight: u64,
    /// Syncs since the claim.
    pub syncs: u64,
    /// Group writes since the claim.
    pub writes: u64,
}
