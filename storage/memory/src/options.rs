//! Settings of a volatile store. Plain data; it decides nothing.

/// How a `MemoryStore` behaves.
#[derive(Debug, Clone)]
pub struct MemoryOptions {
    /// Largest block in record bytes (default 160 MiB, as the journal).
    pub block_bytes_max: usize,
    /// Blocks in flight before the caller lets its open block grow (default 64).
    pub pipelining: usize,
    /// When set, nothing becomes durable until `MemoryStore::release` says so (default false).
    pub paused: bool,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self { block_bytes_max: 160 << 20, pipelining: 64, paused: false }
    }
}
