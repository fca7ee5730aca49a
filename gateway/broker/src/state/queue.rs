//! A queue's messages as the log knows them: one slot each, no bodies, no consumers.

use std::collections::HashMap;

use framegate_storage::{BodyRef, Pos};

use super::aside::Aside;
use super::pages::{Gone, Pages};
use crate::definition::{PriorityMode, QueueSpec};
use crate::ids::{QueueId, Seq};
use crate::message::{Envelope, Keys};
use crate::name::Name;
use crate::record::Body;

/// Different (exchange, keys) that a queue remembers once for all its messages; more go beside their slot.
const ROUTES_MAX: usize = 4096;
/// Block of a body that stands in the open block, whose position is not known yet.
pub(crate) const OPEN_BLOCK: u64 = u64::MAX;
/// Block of a body that is in memory only.
pub(crate) const NO_BLOCK: u64 = u64::MAX - 1;

/// One message. 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Block that holds the body, `OPEN_BLOCK` or `NO_BLOCK`.
    pub(crate) block: u64,
    /// When the broker took it.
    pub(crate) time_ms: u64,
    /// Offset of the frame in the block.
    pub(crate) offset: u32,
    /// Length of the frame; 0: the slot is empty.
    pub(crate) len: u32,
    /// Which route of the queue, unless the envelope stands aside.
    route: u32,
    /// Failed deliveries that were recorded.
    pub(crate) attempts: u16,
    flags: u8,
}

const PERSISTENT: u8 = 1;
const TRANSIENT: u8 = 2;
const ASIDE: u8 = 4;

impl Slot {
    /// Not in the log: lost at a restart, and its ack is not logged either.
    pub(crate) fn is_transient(&self) -> bool {
        self.flags & TRANSIENT != 0
    }

    /// Where the frame can be read again.
    pub(crate) fn body(&self) -> Option<BodyRef> {
        let known = self.block < NO_BLOCK;
        known.then_some(BodyRef { block: Pos(self.block), offset: self.offset, len: self.len })
    }
}

impl Gone for Slot {
    fn gone() -> Self {
        Self { block: NO_BLOCK, time_ms: 0, offset: 0, len: 0, route: 0, attempts: 0, flags: 0 }
    }

    fn is_gone(&self) -> bool {
        self.len == 0
    }
}

/// When a message is ready and when it is no longer, in ms since the Unix epoch; 0: at once, and never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Times {
    pub(crate) deliver_at_ms: u64,
    pub(crate) expires_at_ms: u64,
}

impl Times {
    /// As the envelope says.
    pub(crate) fn of(envelope: &Envelope) -> Self {
        Self { deliver_at_ms: envelope.deliver_at_ms, expires_at_ms: envelope.expires_at_ms }
    }
}

/// What the ready order has to know of a message: 0 and 0 in a plain queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Weight {
    /// Its priority as the queue counts it.
    pub(crate) rank: i32,
    /// What it counts against the queue's byte limit.
    pub(crate) bytes: u32,
    /// Before others of its rank, and the newest of those that are so first.
    pub(crate) newest_first: bool,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct QueueState {
    /// Its id.
    pub(crate) id: QueueId,
    /// Where.
    pub(crate) vhost: Name,
    /// What it is.
    pub(crate) spec: QueueSpec,
    /// Its messages.
    pub(crate) slots: Pages<Slot>,
    /// Messages in it.
    pub(crate) count: u64,
    /// Frame bytes in it.
    pub(crate) bytes: u64,
    /// Sequence number that a reader of the log expects next.
    pub(crate) next_logged: u64,
    /// Everything up to here may have been seen.
    pub(crate) delivered: u64,
    pub(super) routes: Vec<(Name, Keys)>,
    pub(super) route_of: HashMap<(Name, Keys), u32>,
    pub(super) aside: Aside,
}

impl QueueState {
    /// Empty.
    pub(crate) fn new(id: QueueId, vhost: Name, spec: QueueSpec) -> Self {
        Self {
            id,
            vhost,
            spec,
            slots: Pages::starting_at(1),
            count: 0,
            bytes: 0,
            next_logged: 1,
            delivered: 0,
            routes: Vec::new(),
            route_of: HashMap::new(),
            aside: Aside::default(),
        }
    }

    /// Its first message gets a number above that one.
    pub(super) fn begin_after(&mut self, number: u64) {
        self.slots.skip_to(number + 1);
        self.next_logged = number + 1;
    }

    /// A message comes in. `logged`: a reader of the log will see it too.
    pub(super) fn enqueue(&mut self, seq: Seq, envelope: Envelope, body: Body, block: u64, logged: bool) {
        let (block, offset) = match body {
            Body::Here { offset, .. } => (block, offset),
            Body::At(at) => (at.block.0, at.offset),
            Body::Memory { .. } => (NO_BLOCK, 0),
        };
        let mut flags = if envelope.persistent { PERSISTENT } else { 0 };
        if !logged {
            flags |= TRANSIENT;
        }
        let attempts = u16::try_from(envelope.attempts).unwrap_or(u16::MAX);
        let (time_ms, len) = (envelope.time_ms, body.len());
        let route = self.route(envelope, seq, &mut flags);
        self.slots.put(seq.0, Slot { block, time_ms, offset, len, route, attempts, flags });
        self.count += 1;
        self.bytes += u64::from(len);
        if logged {
            self.next_logged = seq.0 + 1;
        }
    }

    /// Remembers the envelope: by route when there is nothing else in it, else beside the slot.
    fn route(&mut self, envelope: Envelope, seq: Seq, flags: &mut u8) -> u32 {
        let plain = envelope.priority.is_none()
            && !envelope.newest_first
            && envelope.deliver_at_ms == 0
            && envelope.expires_at_ms == 0
            && envelope.dedup.is_none()
            && envelope.publisher.is_none()
            && envelope.data_bytes == 0
            && envelope.deaths.is_empty();
        // the last route used is mostly the next one
        let last = self.routes.len().wrapping_sub(1);
        let same = |r: &(Name, Keys)| r.0 == envelope.exchange && r.1 == envelope.keys;
        if plain && self.routes.last().is_some_and(same) {
            return last as u32;
        }
        if plain {
            let key = (envelope.exchange.clone(), envelope.keys.clone());
            if let Some(route) = self.route_of.get(&key) {
                return *route;
            }
            if self.routes.len() < ROUTES_MAX {
                let route = self.routes.len() as u32;
                self.routes.push(key.clone());
                self.route_of.insert(key, route);
                return route;
            }
        }
        *flags |= ASIDE;
        self.aside.insert(seq.0, envelope);
        0
    }

    /// A message's envelope.
    pub(crate) fn envelope(&self, seq: Seq) -> Option<Envelope> {
        let slot = self.slots.get(seq.0)?;
        if slot.flags & ASIDE != 0 {
            let mut envelope = self.aside.get(seq.0)?.clone();
            envelope.attempts = slot.attempts.into();
            return Some(envelope);
        }
        let (exchange, keys) = self.routes.get(slot.route as usize)?.clone();
        Some(Envelope {
            exchange,
            keys,
            persistent: slot.flags & PERSISTENT != 0,
            time_ms: slot.time_ms,
            attempts: slot.attempts.into(),
            ..Envelope::default()
        })
    }

    /// It has a length or byte limit.
    pub(crate) fn is_limited(&self) -> bool {
        self.spec.properties.length_max.is_some() || self.spec.properties.bytes_max.is_some()
    }

    /// Messages differ in more than their numbers: `weight` says how.
    pub(crate) fn has_weights(&self) -> bool {
        self.spec.properties.priority != PriorityMode::None || self.spec.properties.bytes_max.is_some()
    }

    /// What the ready order has to know of a message.
    pub(crate) fn weight(&self, seq: Seq) -> Weight {
        if !self.has_weights() {
            return Weight::default();
        }
        let slot = self.slots.get(seq.0);
        let aside = slot.filter(|s| s.flags & ASIDE != 0).and_then(|_| self.aside.get(seq.0));
        let rank = self.spec.properties.priority.rank(aside.and_then(|e| e.priority));
        Weight {
            rank,
            bytes: aside.map_or(0, |e| e.data_bytes),
            newest_first: aside.is_some_and(|e| e.newest_first),
        }
    }

    /// When a message is ready and when it is no longer.
    pub(crate) fn times(&self, seq: Seq) -> Times {
        let aside =
            self.slots.get(seq.0).filter(|s| s.flags & ASIDE != 0).and_then(|_| self.aside.get(seq.0));
        aside.map_or(Times::default(), Times::of)
    }

    /// Every message that has a time.
    pub(crate) fn timed(&self) -> impl Iterator<Item = (Seq, Times)> {
        self.aside.iter().map(|(seq, e)| (Seq(seq), Times::of(e))).filter(|(_, t)| *t != Times::default())
    }

    /// A message's body stands elsewhere from now on. It may be another one, of another length.
    pub(super) fn move_body(&mut self, seq: Seq, block: u64, offset: u32, len: u32) {
        if let Some(slot) = self.slots.get_mut(seq.0) {
            self.bytes = self.bytes - u64::from(slot.len) + u64::from(len);
            (slot.block, slot.offset, slot.len) = (block, offset, len);
        }
    }

    /// Messages are gone; numbers that are not there are passed over.
    pub(super) fn remove_run(&mut self, first: u64, len: u64) {
        let end = first.saturating_add(len);
        let mut at = first;
        while let Some((seq, _)) = self.slots.at_or_after(at).filter(|(seq, _)| *seq < end) {
            self.remove(Seq(seq));
            at = seq + 1;
        }
    }

    /// A message is gone.
    fn remove(&mut self, seq: Seq) {
        if let Some(slot) = self.slots.take(seq.0) {
            self.count -= 1;
            self.bytes -= u64::from(slot.len);
            if slot.flags & ASIDE != 0 {
                self.aside.remove(seq.0);
            }
        }
    }
}
