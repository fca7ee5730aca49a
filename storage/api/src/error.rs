//! Storage errors by cause.

use std::path::PathBuf;

use crate::ids::{Epoch, Pos};

/// What ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Disk space or quota.
    Disk,
    /// Memory set aside for blocks that are not yet written.
    Memory,
}

/// Why a storage call failed. Cloneable, because one failure ends many waiters.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another owner has claimed the shard: drop all state, never retry.
    #[error("shard was claimed by another owner with epoch {current}")]
    Fenced {
        /// The epoch in force.
        current: Epoch,
    },
    /// No room; a back-pressure signal, not a failure.
    #[error("no room for more data: {what:?}")]
    Full {
        /// What ran out.
        what: Resource,
    },
    /// The block is larger than `Caps::block_bytes_max`.
    #[error("block of {len} bytes is larger than {max}")]
    TooLarge {
        /// Bytes of the block.
        len: usize,
        /// Allowed bytes.
        max: usize,
    },
    /// Nothing is stored there (never written, released or trimmed).
    #[error("nothing is stored at position {pos}")]
    NotFound {
        /// The position asked for.
        pos: Pos,
    },
    /// Stored data does not match its checksum although it had been durable.
    #[error("corrupt data in {} at byte {offset}: {detail}", file.display())]
    Corrupt {
        /// File.
        file: PathBuf,
        /// Byte offset in it.
        offset: u64,
        /// What is wrong and what is lost.
        detail: String,
    },
    /// The directory is used by another process.
    #[error("{} is in use by another process", path.display())]
    InUse {
        /// The directory or lock file.
        path: PathBuf,
    },
    /// The files were written by a newer version.
    #[error("{} has format version {found}, this version reads up to {supported}", path.display())]
    Version {
        /// File.
        path: PathBuf,
        /// Version found.
        found: u16,
        /// Highest version that can be read.
        supported: u16,
    },
    /// Reading or preparing files failed.
    #[error("{action} {}: {detail}", path.display())]
    Io {
        /// What was tried, as a verb phrase.
        action: &'static str,
        /// File or directory.
        path: PathBuf,
        /// The system's words.
        detail: String,
    },
    /// A sync or write failed in a way that must not be retried: stop the shard.
    #[error("fatal storage failure, {action} {}: {detail}", path.display())]
    Fatal {
        /// What was tried, as a verb phrase.
        action: &'static str,
        /// File.
        path: PathBuf,
        /// The system's words, errno included.
        detail: String,
    },
}
