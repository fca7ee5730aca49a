//! A topic's events as the log knows them: dense offsets, no bodies, no subscribers.

use framegate_storage::{BodyRef, Lsn, Pos};

use super::aside::Aside;
use super::pages::{Gone, Pages};
use crate::definition::TopicSpec;
use crate::ids::{Offset, TopicId};
use crate::message::Envelope;
use crate::name::Name;

/// One event. 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TopicEntry {
    /// Its position in the log; 0: the entry is empty.
    pub(crate) lsn: u64,
    /// Block that holds the body.
    pub(crate) block: u64,
    /// When the broker took it.
    pub(crate) time_ms: u64,
    /// Offset of the frame in the block.
    pub(crate) offset: u32,
    /// Length of the frame.
    pub(crate) len: u32,
}

impl TopicEntry {
    /// Where the frame can be read again.
    pub(crate) fn body(&self) -> BodyRef {
        BodyRef { block: Pos(self.block), offset: self.offset, len: self.len }
    }
}

impl Gone for TopicEntry {
    fn gone() -> Self {
        Self { lsn: 0, block: 0, time_ms: 0, offset: 0, len: 0 }
    }

    fn is_gone(&self) -> bool {
        self.lsn == 0
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct TopicState {
    /// Its id.
    pub(crate) id: TopicId,
    /// Where.
    pub(crate) vhost: Name,
    /// What it is.
    pub(crate) spec: TopicSpec,
    /// Its events by offset.
    pub(crate) entries: Pages<TopicEntry>,
    /// Frame bytes kept.
    pub(crate) bytes: u64,
    /// Position of the newest event that is not kept any more.
    pub(crate) gone_to: Lsn,
    /// Position of the record by which it went; 0: before the snapshot that it was read from.
    pub(crate) gone_at: Lsn,
    pub(super) aside: Aside,
}

impl TopicState {
    /// Empty.
    pub(crate) fn new(id: TopicId, vhost: Name, spec: TopicSpec) -> Self {
        let entries = Pages::starting_at(0);
        Self { id, vhost, spec, entries, bytes: 0, gone_to: Lsn(0), gone_at: Lsn(0), aside: Aside::default() }
    }

    /// An event comes in.
    pub(super) fn append(&mut self, offset: Offset, entry: TopicEntry, envelope: Envelope) {
        let own = envelope.keys.len() == 1 && envelope.keys[0] == self.spec.name;
        let plain = Envelope {
            exchange: envelope.exchange.clone(),
            keys: envelope.keys.clone(),
            persistent: envelope.persistent,
            time_ms: envelope.time_ms,
            ..Envelope::default()
        };
        if !own || envelope.exchange != crate::AMQ_TOPIC || !envelope.persistent || plain != envelope {
            self.aside.insert(offset.0, envelope);
        }
        self.bytes += u64::from(entry.len);
        self.entries.put(offset.0, entry);
    }

    /// Events below `first` are no longer kept, says the record at `at`.
    pub(super) fn retain(&mut self, first: Offset, at: Lsn) {
        while let Some((number, entry)) = self.entries.at_or_after(0).filter(|(n, _)| *n < first.0) {
            self.bytes -= u64::from(entry.len);
            (self.gone_to, self.gone_at) = (Lsn(entry.lsn), at);
            self.entries.take(number);
        }
        self.aside.keep_from(first.0);
    }

    /// An event's envelope.
    pub(crate) fn envelope(&self, offset: Offset) -> Envelope {
        if let Some(envelope) = self.aside.get(offset.0) {
            return envelope.clone();
        }
        Envelope {
            exchange: Name::from_static(crate::AMQ_TOPIC),
            keys: smallvec::smallvec![self.spec.name.clone()],
            persistent: true,
            time_ms: self.entries.get(offset.0).map_or(0, |e| e.time_ms),
            ..Envelope::default()
        }
    }

    /// When an event expires, in ms since the Unix epoch; 0: never.
    pub(crate) fn expires_at_ms(&self, offset: Offset) -> u64 {
        self.aside.get(offset.0).map_or(0, |e| e.expires_at_ms)
    }

    /// Offset of the first event above a position.
    pub(crate) fn after(&self, position: Lsn) -> u64 {
        self.search(|e| e.lsn > position.0)
    }

    /// Offset of the first event at or after a time.
    pub(crate) fn since(&self, time_ms: u64) -> u64 {
        self.search(|e| e.time_ms >= time_ms)
    }

    /// Offset of the first event that is `beyond`; they are so from some offset on.
    fn search(&self, beyond: impl Fn(&TopicEntry) -> bool) -> u64 {
        let (mut low, mut high) = (self.entries.first(), self.entries.next());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entries.get(middle).is_some_and(&beyond) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}
