//! Publishes that are remembered, so that a repeated one is stored once: 10 minutes and a million keys.

use std::collections::HashMap;

use framegate_storage::Lsn;

use super::pages::{Gone, Pages};
use crate::ids::Offset;
use crate::message::Dedup;

/// How long a publish is remembered.
const WINDOW_MS: u64 = 10 * 60 * 1000;
/// Publishes that are remembered at most.
const KEYS_MAX: u64 = 1_000_000;

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

/// A publish in the order in which they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) key: [u8; 16],
    pub(crate) known: Known,
    /// When the broker took it; `u64::MAX`: nothing is here.
    pub(crate) time_ms: u64,
}

impl Gone for Remembered {
    fn gone() -> Self {
        let known = Known { content: 0, lsn: Lsn(0), offset: None };
        Self { key: [0; 16], known, time_ms: u64::MAX }
    }

    fn is_gone(&self) -> bool {
        self.time_ms == u64::MAX
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Dedups {
    /// Number in `order` by key.
    at: HashMap<[u8; 16], u64>,
    order: Pages<Remembered>,
}

impl Default for Dedups {
    fn default() -> Self {
        Self { at: HashMap::new(), order: Pages::starting_at(0) }
    }
}

impl Dedups {
    /// A publish of that key, if it is remembered at that time.
    pub(crate) fn get(&self, key: &[u8; 16], now_ms: u64) -> Option<Known> {
        let found = self.order.get(*self.at.get(key)?)?;
        // what has passed the window is forgotten when the next one comes; until then it must not be found
        (found.time_ms.saturating_add(WINDOW_MS) >= now_ms).then_some(found.known)
    }

    /// Remembers a publish. The first one of a key stays (one message in several queues is one publish).
    pub(super) fn put(&mut self, dedup: &Dedup, lsn: Lsn, offset: Option<Offset>, time_ms: u64) {
        while let Some((number, first)) = self.order.at_or_after(0) {
            let is_old = first.time_ms.saturating_add(WINDOW_MS) < time_ms;
            if !is_old && (self.at.len() as u64) < KEYS_MAX {
                break;
            }
            let key = first.key;
            self.at.remove(&key);
            self.order.take(number);
        }
        let known = self.at.get(&dedup.key).and_then(|number| self.order.get_mut(*number));
        if let Some(Remembered { known, .. }) = known {
            // the event of a topic is what a cursor points at
            if let (None, Some(_)) = (known.offset, offset) {
                (known.offset, known.lsn) = (offset, lsn);
            }
            return;
        }
        self.restore(Remembered {
            key: dedup.key,
            known: Known { content: dedup.content, lsn, offset },
            time_ms,
        });
    }

    /// Puts one at the end, as it was remembered.
    pub(super) fn restore(&mut self, remembered: Remembered) {
        let number = self.order.next();
        self.at.insert(remembered.key, number);
        self.order.put(number, remembered);
    }

    /// Publishes that are remembered.
    pub(crate) fn len(&self) -> usize {
        self.at.len()
    }

    /// What is remembered, in order: page pointers, no copy.
    pub(super) fn freeze(&self) -> Pages<Remembered> {
        let Self { at: _, order } = self;
        order.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dedup(n: u8) -> Dedup {
        Dedup { key: [n; 16], content: n.into() }
    }

    #[test]
    fn a_key_is_remembered_for_the_window_and_no_longer() {
        let mut dedups = Dedups::default();
        dedups.put(&dedup(1), Lsn(1), None, 1000);
        dedups.put(&dedup(2), Lsn(2), None, 1001);
        assert!(dedups.get(&[1; 16], 1000 + WINDOW_MS).is_some());
        assert_eq!(dedups.get(&[1; 16], 1001 + WINDOW_MS), None);
        dedups.put(&dedup(3), Lsn(3), None, 1001 + WINDOW_MS);
        assert!(dedups.get(&[2; 16], 1001 + WINDOW_MS).is_some());
        assert_eq!(dedups.freeze().iter().count(), 2);
    }

    #[test]
    fn the_first_publish_of_a_key_stays_and_the_place_in_a_topic_is_added() {
        let mut dedups = Dedups::default();
        dedups.put(&dedup(1), Lsn(1), None, 5);
        dedups.put(&dedup(1), Lsn(2), Some(Offset(7)), 5);
        dedups.put(&dedup(1), Lsn(3), Some(Offset(8)), 5);
        let known = Known { content: 1, lsn: Lsn(2), offset: Some(Offset(7)) };
        assert_eq!(dedups.get(&[1; 16], 5), Some(known));
    }
}
