//! Length and byte limits of queues: what a full queue refuses, and what it drops. Only ready messages count.

use std::collections::HashMap;

use framegate_frame::Frame;

use super::Core;
use crate::definition::Overflow;
use crate::error::BrokerError;
use crate::ids::{QueueId, Seq};
use crate::limits::SLICE_MESSAGES_MAX;
use crate::message::{DeathReason, Envelope};
use crate::name::Name;
use crate::record::SeqSet;
use crate::routing::Targets;
use crate::state::VOLATILE_BIT;

/// Queues and refused messages that one look at full queues handles.
const RELIEVE_MAX: usize = SLICE_MESSAGES_MAX;

/// Full queues that are looked at one within the other.
const LOOKS_MAX: u8 = 4;

/// Bytes of a message that count against a limit.
pub(super) fn data_bytes(frame: &Frame) -> u32 {
    u32::try_from(frame.data().len()).unwrap_or(u32::MAX)
}

impl Core {
    /// So many more messages and bytes would be too many.
    fn is_over(&self, queue: QueueId, more: u64, bytes: u64) -> bool {
        let (Some(state), Some(live)) = (self.state(queue).queue(queue), self.live.get(&queue)) else {
            return false;
        };
        let properties = &state.spec.properties;
        properties.length_max.is_some_and(|max| self.ready_count(queue) + more > max)
            || properties.bytes_max.is_some_and(|max| live.ready.bytes() + bytes > max)
    }

    fn overflow(&self, queue: QueueId) -> Option<Overflow> {
        self.state(queue).queue(queue).filter(|q| q.is_limited()).map(|q| q.spec.properties.overflow)
    }

    /// The queue takes no more by its own will. Whoever could take something takes it first.
    fn is_full(&mut self, queue: QueueId, more: u64, bytes: u64) -> bool {
        if !self.is_over(queue, more, bytes) {
            return false;
        }
        // what is dispatched may expire, die and find another full queue: that one is taken as it is
        if self.looks >= LOOKS_MAX {
            return true;
        }
        self.looks += 1;
        self.dispatch(queue);
        self.looks -= 1;
        self.is_over(queue, more, bytes)
    }

    /// The name of a queue that refuses a message, because it is full and does not drop its head.
    pub(super) fn refuses(&mut self, queue: QueueId, envelope: &Envelope, frame: &Frame) -> Option<Name> {
        let overflow = self.overflow(queue).filter(|o| *o != Overflow::DropHead)?;
        if !self.is_full(queue, 1, data_bytes(frame).into()) {
            return None;
        }
        if overflow == Overflow::RejectPublishDeadLetter {
            self.refuse_into_letter(queue, envelope, Some(frame));
        }
        self.state(queue).queue(queue).map(|q| q.spec.name.clone())
    }

    /// The same for a dead letter that is not in memory: it ends here.
    pub(super) fn refuses_unread(&mut self, queue: QueueId) -> bool {
        self.overflow(queue).is_some_and(|o| o != Overflow::DropHead) && self.is_full(queue, 1, 0)
    }

    /// Finds out whether a part of an atomic request would be refused; `taken` is what its other parts bring.
    pub(super) fn check_room(
        &mut self,
        targets: &Targets,
        frame: &Frame,
        taken: &mut HashMap<QueueId, (u64, u64)>,
    ) -> Result<(), BrokerError> {
        for queue in &targets.queues {
            if self.overflow(*queue).is_none_or(|o| o == Overflow::DropHead) {
                continue;
            }
            let (messages, bytes) = taken.entry(*queue).or_default();
            *messages += 1;
            *bytes += u64::from(data_bytes(frame));
            let (messages, bytes) = (*messages, *bytes);
            if self.is_full(*queue, messages, bytes) {
                let name = self.state(*queue).queue(*queue).map(|q| q.spec.name.clone());
                return Err(BrokerError::QueueFull { name: name.unwrap_or_default() });
            }
        }
        Ok(())
    }

    /// Messages became ready in a queue: it is looked at when whatever brought them is done.
    pub(super) fn mark_overfull(&mut self, queue: QueueId) {
        if self.overflow(queue) != Some(Overflow::DropHead) || !self.is_over(queue, 0, 0) {
            return;
        }
        if let Some(live) = self.live.get_mut(&queue).filter(|l| !l.overfull) {
            live.overfull = true;
            self.overfull.push_back(queue);
        }
    }

    /// Sends refused messages where they go, and drops the heads of queues that hold too many. What dropping fills comes
    /// after it, so that no chain of queues is deeper than one.
    pub(super) fn relieve(&mut self) {
        for _ in 0..RELIEVE_MAX {
            if self.next_letter() {
                continue;
            }
            let Some(queue) = self.overfull.pop_front() else { return };
            if let Some(live) = self.live.get_mut(&queue) {
                live.overfull = false;
            }
            if self.is_full(queue, 0, 0) {
                self.drop_heads(queue);
            }
        }
    }

    /// Something is left of that.
    pub(super) fn is_overfull(&self) -> bool {
        !self.overfull.is_empty() || !self.letters.is_empty()
    }

    /// Drops the head until the limits hold, a slice at a time.
    fn drop_heads(&mut self, queue: QueueId) {
        let ready = self.ready_count(queue);
        let state = if queue.0 & VOLATILE_BIT != 0 { &self.volatile } else { &self.durable };
        let (Some(state), Some(live)) = (state.queue(queue), self.live.get_mut(&queue)) else { return };
        let properties = &state.spec.properties;
        let (length_max, bytes_max) =
            (properties.length_max.unwrap_or(u64::MAX), properties.bytes_max.unwrap_or(u64::MAX));
        let mut heads = Vec::new();
        while heads.len() < SLICE_MESSAGES_MAX
            && (ready.saturating_sub(heads.len() as u64) > length_max || live.ready.bytes() > bytes_max)
        {
            let Some(seq) = live.ready.next(state, u64::MAX) else { break };
            live.ready.take(seq, state.weight(Seq(seq)));
            heads.push(Seq(seq));
        }
        if heads.is_empty() {
            return;
        }
        self.dead_letter(queue, &SeqSet::from_unsorted(heads), DeathReason::MaxLen);
        self.mark_overfull(queue);
        // another one is at the head: it may have expired, or will
        self.mark_dirty(queue);
    }
}
