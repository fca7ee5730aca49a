//! Counters of a journal, for `/metrics` and benches. Only counts; nothing decides by them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets of the group sizes: bucket n counts groups of 2^n to 2^(n+1) - 1 blocks.
pub const GROUP_BUCKETS: usize = 16;

/// Counters since the journal was opened. Read with `Ordering::Relaxed`.
#[derive(Debug, Default)]
pub struct JournalMetrics {
    /// Bytes written to segments, headers included, preallocation excluded.
    pub bytes_written: AtomicU64,
    /// Record bytes copied on the way (chunks below 4 KiB); the rest is written from where it was.
    pub bytes_copied: AtomicU64,
    /// Vectored writes to segments.
    pub writes: AtomicU64,
    /// Syncs of segments.
    pub syncs: AtomicU64,
    /// Time spent in those syncs, in microseconds.
    pub sync_us: AtomicU64,
    /// Blocks written.
    pub blocks: AtomicU64,
    /// Marks written by the journal itself.
    pub marks: AtomicU64,
    /// Groups by number of blocks.
    pub groups: [AtomicU64; GROUP_BUCKETS],
    /// Times a write found no room.
    pub full: AtomicU64,
    /// Segments begun.
    pub segments: AtomicU64,
    /// Segments begun without a spare being ready: their syncs are slower.
    pub segments_unprepared: AtomicU64,
    /// Segments deleted.
    pub segments_deleted: AtomicU64,
}

impl JournalMetrics {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Relaxed);
    }

    pub(crate) fn group(&self, blocks: usize) {
        let bucket = (blocks.max(1).ilog2() as usize).min(GROUP_BUCKETS - 1);
        self.groups[bucket].fetch_add(1, Relaxed);
    }
}
