//! Exchanges for delayed messages: what is early stands in one hidden queue per vhost, and is routed when its time has
//! come, by the topology of then. Delays of queues are elsewhere.
//!
//! The hidden queue is a queue of the log like any other: it survives a restart, and its frames leave memory when
//! memory is short. It has no name that routing knows, so nobody publishes to it or consumes it. A message leaves it in the
//! block in which its copies come in.

use std::collections::VecDeque;

use framegate_frame::Frame;
use framegate_storage::Lsn;

use super::Core;
use super::live::QueueLive;
use super::timers::Timer;
use crate::definition::{HeaderValue, QueueSpec};
use crate::ids::{QueueId, Seq};
use crate::limits::{READ_AHEAD_BYTES, SLICE_MESSAGES_MAX};
use crate::message::Envelope;
use crate::name::Name;
use crate::record::{Body, Record, SeqSet};
use crate::routing::{Parts, Targets};
use crate::state::{OPEN_BLOCK, QueueState, Times};

/// Name of the hidden queues; nobody can declare it.
pub(crate) const PARK: &str = "amq.framegate.delayed";
/// Name of the hidden queues of jobs that have ended and are kept; nobody can declare it.
pub(crate) const KEPT: &str = "amq.framegate.jobs";
/// Bodies asked for at once.
const LOADS_MAX: usize = 4096;

/// Whether it is a hidden queue.
pub(super) fn is_hidden(queue: &QueueState) -> bool {
    is_park_queue(queue) || queue.spec.name == KEPT
}

/// Whether it holds early messages.
pub(super) fn is_park_queue(queue: &QueueState) -> bool {
    queue.spec.name == PARK
}

impl Core {
    /// A queue that holds early messages.
    pub(super) fn is_park(&self, queue: QueueId) -> bool {
        !self.parks.is_empty() && self.parks.contains_key(&queue)
    }

    /// Holds a message for an exchange until its time has come. Gives the position of its record and where its frame stands;
    /// None when there is no id left for the queue that holds it.
    pub(super) fn park(
        &mut self,
        vhost: &Name,
        exchange: &Name,
        envelope: &Envelope,
        frame: &Frame,
        body: Option<Body>,
        len: u32,
    ) -> Option<(Lsn, Option<Body>)> {
        let mut held = envelope.clone();
        held.exchange = exchange.clone();
        if held.expires_at_ms != 0 {
            // its time to live begins when it is routed
            let delay_ms = held.deliver_at_ms.saturating_sub(held.time_ms);
            held.expires_at_ms = held.expires_at_ms.saturating_add(delay_ms);
        }
        let queue = self.park_of(vhost)?;
        let (_, lsn, stands) = self.enqueue(queue, held, Some(frame), body, len);
        Some((lsn, stands))
    }

    /// The vhost's hidden queue, made when it is missing.
    fn park_of(&mut self, vhost: &Name) -> Option<QueueId> {
        let known = self
            .parks
            .keys()
            .copied()
            .find(|id| self.durable.queue(*id).is_some_and(|queue| queue.vhost == *vhost));
        if known.is_some() {
            return known;
        }
        let id = self.hidden_queue(vhost, PARK)?;
        self.parks.insert(id, VecDeque::new());
        Some(id)
    }

    /// A new queue that nobody sees. `None`: no id is left.
    pub(super) fn hidden_queue(&mut self, vhost: &Name, name: &'static str) -> Option<QueueId> {
        let id = self.durable.next_queue()?;
        let spec = QueueSpec { name: Name::from_static(name), durable: true, ..QueueSpec::default() };
        let properties = spec.properties.clone();
        self.log(Record::DefineQueue { id, vhost: vhost.clone(), spec: Box::new(spec) }, None, true);
        let first = self.durable.queue(id).map_or(1, |q| q.slots.next());
        self.live.insert(id, QueueLive::new(first, 0, None, &properties));
        Some(id)
    }

    /// Sets the timer of a held message. Called in the order of their times after a start, so that what is due already
    /// keeps that order.
    pub(super) fn hold(&mut self, park: QueueId, seq: Seq, times: Times) {
        match times.deliver_at_ms.checked_sub(self.now.wall_ms) {
            None | Some(0) => self.park_due(park, seq.0),
            Some(after) => {
                let due = self.now.mono_ms.saturating_add(after);
                self.timers.add(due, Timer::Parked(park, seq.0));
            }
        }
    }

    /// A held message's time has come.
    pub(super) fn park_due(&mut self, park: QueueId, seq: u64) {
        if let Some(due) = self.parks.get_mut(&park) {
            due.push_back(seq);
            self.mark_dirty(park);
        }
    }

    /// Routes what is due, in the order of its times, a slice of it.
    pub(super) fn move_due(&mut self, park: QueueId) {
        for _ in 0..SLICE_MESSAGES_MAX {
            let Some(seq) = self.parks.get(&park).and_then(|due| due.front().copied()) else { return };
            let there = self.durable.queue(park).is_some_and(|queue| queue.slots.get(seq).is_some());
            let frame = self.live.get(&park).and_then(|live| live.frames.get(&seq).cloned());
            if there && frame.is_none() && self.load_due(park) {
                return;
            }
            if let Some(due) = self.parks.get_mut(&park) {
                due.pop_front();
            }
            if let Some(frame) = frame.filter(|_| there) {
                self.route_due(park, Seq(seq), &frame);
            }
        }
        self.mark_dirty(park);
    }

    fn route_due(&mut self, park: QueueId, seq: Seq, frame: &Frame) {
        let Some(state) = self.durable.queue(park) else { return };
        let (Some(mut envelope), Some(slot)) = (state.envelope(seq), state.slots.get(seq.0).copied()) else {
            return;
        };
        let vhost = state.vhost.clone();
        let open = (slot.block == OPEN_BLOCK).then(|| {
            let block = framegate_storage::Pos(slot.block);
            framegate_storage::BodyRef { block, offset: slot.offset, len: slot.len }
        });
        let body = slot.body().or(open).map(Body::At);
        envelope.deliver_at_ms = 0;
        envelope.time_ms = self.now.wall_ms;
        // the publish was remembered when it was held
        envelope.dedup = None;
        let mut targets = Targets::default();
        let headers = self.shared.headers.clone();
        let read = |visit: &mut dyn FnMut(&str, HeaderValue<'_>)| headers.read(frame, visit);
        let property = |property| crate::headers::property(frame, property);
        let parts = Parts { keys: &envelope.keys, headers: &read, property: &property, delayed: false };
        let routed =
            self.editor.current().route_parts(&vhost, &envelope.exchange, &parts, &mut targets).is_ok();
        if routed {
            self.place(&vhost, envelope, frame, body, &targets);
        }
        self.remove(park, &SeqSet::one(seq));
    }

    /// Has the bodies of what is due read; they come back through the inbox. False when the first one cannot be read.
    fn load_due(&mut self, park: QueueId) -> bool {
        let (Some(due), Some(state), Some(live)) =
            (self.parks.get(&park), self.durable.queue(park), self.live.get_mut(&park))
        else {
            return false;
        };
        if live.loading {
            return true;
        }
        let mut wanted = Vec::new();
        let mut bytes = 0;
        let mut moving = false;
        for seq in due.iter().take(LOADS_MAX).filter(|seq| !live.frames.contains_key(seq)) {
            let Some(slot) = state.slots.get(*seq) else { continue };
            moving |= slot.block == OPEN_BLOCK;
            let Some(body) = slot.body() else { continue };
            wanted.push((Seq(*seq), body));
            bytes += body.len as usize;
            if bytes >= READ_AHEAD_BYTES {
                break;
            }
        }
        if wanted.is_empty() {
            if moving {
                // it is being written again, and can be read when that block is closed
                self.mark_dirty(park);
            }
            return moving;
        }
        live.loading = true;
        self.reader.load(park, wanted);
        true
    }
}
