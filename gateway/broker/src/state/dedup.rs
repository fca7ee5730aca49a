//! Publishes that are remembered, so that a repeated one is stored once: 10 minutes and a million keys.

use std::collections::{HashMap, VecDeque};

use framegate_storage::Lsn;

use crate::ids::Offset;
use crate::message::Dedup;

/// How long a publish is remembered.
const WINDOW_MS: u64 = 10 * 60 * 1000;
/// Publishes that are remembered at most.
const KEYS_MAX: usize = 1_000_000;

/// A publish that was taken before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// Hash of its content.
    pub(crate) content: u64,
    /// Its record: the answer to a repeated publish waits for it too.
    pub(crate) lsn: Lsn,
    /// Its place in a topic, if it has one.
    pub(crate) offset: Option<Offset>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Dedups {
    known: HashMap<[u8; 16], Known>,
    order: VecDeque<(u64, [u8; 16])>,
}

impl Dedups {
    /// A publish of that key, if it is remembered at that time.
    pub(crate) fn get(&self, key: &[u8; 16], now_ms: u64) -> Option<Known> {
        // what has passed the window is forgotten when the next one comes; until then it must not be found
        let oldest = self.order.partition_point(|(time, _)| time.saturating_add(WINDOW_MS) < now_ms);
        let known = self.known.get(key)?;
        let is_old = self.order.iter().take(oldest).any(|(_, k)| k == key);
        (!is_old).then_some(*known)
    }

    /// Remembers a publish. The first one of a key stays (one message in several queues is one publish).
    pub(super) fn put(&mut self, dedup: &Dedup, lsn: Lsn, offset: Option<Offset>, time_ms: u64) {
        while self.order.front().is_some_and(|(time, _)| time.saturating_add(WINDOW_MS) < time_ms)
            || self.order.len() >= KEYS_MAX
        {
            if let Some((_, key)) = self.order.pop_front() {
                self.known.remove(&key);
            }
        }
        if let Some(known) = self.known.get_mut(&dedup.key) {
            // the event of a topic is what a cursor points at
            if let (None, Some(_)) = (known.offset, offset) {
                (known.offset, known.lsn) = (offset, lsn);
            }
            return;
        }
        self.known.insert(dedup.key, Known { content: dedup.content, lsn, offset });
        self.order.push_back((time_ms, dedup.key));
    }

    /// Everything, for the state hash.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8; 16], &Known)> {
        self.known.iter()
    }
}
