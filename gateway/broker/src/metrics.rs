//! Counters of the broker. Plain atomics; the server prints them.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! metrics {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters since the start; all grow only, unless the name says gauge.
        #[derive(Debug, Default)]
        pub struct Metrics { $($(#[$doc])* pub $name: AtomicU64),* }
        impl Metrics {
            /// Every counter with its name, in a fixed order.
            #[must_use]
            pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Ordering::Relaxed))),*]
            }
        }
    };
}

metrics! {
    /// Messages published.
    published,
    /// Frame bytes published.
    published_bytes,
    /// Publishes that reached nobody.
    unroutable,
    /// Messages given to consumers.
    delivered,
    /// Messages acked.
    acked,
    /// Messages that went back to their queue.
    requeued,
    /// Messages rejected.
    rejected,
    /// Messages dead-lettered.
    dead_lettered,
    /// Dead letters of groups that had nowhere to go, or were dead letters before.
    dead_letters_dropped,
    /// Events that a topic no longer keeps and that a group had not settled.
    group_lost,
    /// Events put into feeds, per watch.
    feed_events,
    /// Broker events built, since somebody was bound for them.
    events,
    /// Passes of the fold.
    passes,
    /// Blocks appended.
    blocks,
    /// Records appended.
    records,
    /// Bytes accepted and not yet durable (gauge).
    admission_bytes,
    /// Record bytes that wait for the log (gauge).
    log_queue_bytes,
    /// Memory that the index of messages and events takes, in bytes (gauge).
    index_bytes,
    /// Times that publishers were held for a reason.
    holds,
    /// 1: publishers are held because a write found no room (gauge).
    held_disk_full,
    /// 1: publishers are held because the disk has little room (gauge).
    held_disk_low,
    /// 1: publishers are held because the index is at its limit (gauge).
    held_index_memory,
    /// 1: publishers are held because the log is behind (gauge).
    held_log_queue,
    /// Frame bytes in the body cache (gauge).
    cache_bytes,
    /// Bodies read back from storage.
    bodies_loaded,
    /// Snapshots written.
    snapshots,
    /// Snapshots that could not be written.
    snapshot_failures,
    /// Messages and events in the newest snapshot (gauge).
    snapshot_entries,
    /// When the newest snapshot was written, ms since the Unix epoch; 0: not since the start (gauge).
    snapshot_time_ms,
    /// How long the newest snapshot kept the fold from its work, in microseconds (gauge).
    snapshot_freeze_us,
    /// Body bytes that live in the log, as of the newest snapshot (gauge).
    live_bytes,
    /// Pieces of the log that were found to hold nothing; one is counted until it is gone.
    extents_released,
    /// Pieces of the log that hold nothing and could not be given back.
    release_failures,
    /// Bodies that were written again to empty a piece of the log.
    survivors,
    /// Bytes of them.
    survivor_bytes,
    /// Pauses of consumers because their connection's window was used up.
    paused_busy,
    /// Pauses of queues because the next body was not in memory.
    paused_loading,
    /// Binding comparisons made by routing.
    binding_comparisons,
}

impl Metrics {
    /// Adds to one counter.
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}
