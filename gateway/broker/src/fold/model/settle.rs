//! How leases are settled, and what becomes of messages that are rejected.

use framegate_frame::Frame;

use super::queue::{buried, may_enter};
use super::{Lease, Model, Place};
use crate::definition::Overflow;
use crate::ids::{ConnectionId, ConsumerId, Seq};
use crate::limits::UNDELIVERABLE_MAX;
use crate::message::{DeathReason, Envelope};
use crate::name::Name;
use crate::request::{Outcome, Settle};

impl Model {
    /// Settles what somebody holds, all of it or nothing. Gives how many.
    pub(super) fn settle(&mut self, id: ConnectionId, settle: &Settle) -> Result<u64, &'static str> {
        if let Some((key, offsets)) = self.group_leases(id, &settle.lease) {
            return self.settle_group(id, &settle.lease, &key, &offsets, settle.outcome);
        }
        let mut uids = Vec::new();
        let mut queue_name = None;
        for (name, queue) in &self.world.queues {
            for message in &queue.messages {
                let Some(lease) = message.lease() else { continue };
                let meant = match &settle.lease {
                    crate::request::Lease::Token(token) => lease.token == Some(*token),
                    crate::request::Lease::Positions(consumer, seqs) => {
                        lease.connection == id
                            && lease.consumer == *consumer
                            && queue.number(message).is_some_and(|n| seqs.contains(&Seq(n)))
                    }
                };
                if meant {
                    uids.push(message.uid);
                    queue_name = Some(name.clone());
                }
            }
        }
        let wanted = match &settle.lease {
            crate::request::Lease::Token(_) => 1,
            crate::request::Lease::Positions(consumer, seqs) => {
                let known = self.connections.get(&id).is_some_and(|c| c.consumers.contains_key(consumer));
                let mut distinct = seqs.clone();
                distinct.sort_unstable();
                distinct.dedup();
                if known { distinct.len() } else { usize::MAX }
            }
        };
        if uids.len() != wanted {
            return Err("unknown delivery");
        }
        let Some(name) = queue_name else { return Ok(0) };
        self.apply_outcome(&name, &uids, settle.outcome);
        Ok(uids.len() as u64)
    }

    fn apply_outcome(&mut self, name: &Name, uids: &[u64], outcome: Outcome) {
        let mono_ms = self.now.mono_ms;
        let (mut dead, mut failed, mut delay) = (Vec::new(), Vec::new(), 0);
        let Some(queue) = self.queue_mut(name) else { return };
        let meant = |uid: u64| uids.contains(&uid);
        for message in queue.messages.iter_mut().filter(|m| meant(m.uid)) {
            match outcome {
                Outcome::Ack => {}
                Outcome::Requeue { delay_ms } => {
                    delay = delay_ms;
                    failed.push(message.uid);
                }
                Outcome::Reject => dead.push(message.uid),
                Outcome::Undeliverable => {
                    message.undeliverable += 1;
                    if message.undeliverable >= UNDELIVERABLE_MAX {
                        dead.push(message.uid);
                    } else {
                        failed.push(message.uid);
                    }
                }
                Outcome::Extend { lease_ms } => {
                    if let Place::Leased(lease) = &mut message.place {
                        lease.deadline_ms = Some(mono_ms + lease_ms);
                    }
                }
            }
        }
        let what = match outcome {
            Outcome::Ack => "acked",
            Outcome::Requeue { delay_ms: 0 } => "requeued",
            Outcome::Requeue { .. } => "requeued with a delay",
            Outcome::Reject => "rejected",
            Outcome::Undeliverable => "undeliverable",
            Outcome::Extend { .. } => "extended",
        };
        if outcome == Outcome::Ack {
            queue.messages.retain(|m| !meant(m.uid));
        }
        self.met(what);
        let reason = match outcome {
            Outcome::Undeliverable => DeathReason::Undeliverable,
            _ => DeathReason::Rejected,
        };
        self.dead_letter(name, &dead, reason);
        self.fail(name, &failed, delay);
    }

    /// Messages leave a queue for its dead-letter exchange, in order.
    pub(super) fn dead_letter(&mut self, name: &Name, uids: &[u64], reason: DeathReason) {
        let wall_ms = self.now.wall_ms;
        let Some(queue) = self.queue_mut(name) else { return };
        let spec = queue.spec.clone();
        let (dead, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut queue.messages).into_iter().partition(|m| uids.contains(&m.uid));
        queue.messages = left;
        for message in dead {
            let Some(envelope) = buried(&message.envelope, &spec, reason, wall_ms) else { continue };
            if envelope.deaths[0].count > 1 {
                self.met("died again for the same reason");
            }
            self.send_letter(&envelope, &message.frame);
        }
    }

    /// A dead letter goes wherever its exchange leads, save where it would go round.
    pub(super) fn send_letter(&mut self, envelope: &Envelope, frame: &Frame) {
        for target in self.queues_of(envelope, frame) {
            if may_enter(envelope, &target) {
                self.met("dead-lettered");
                self.offer(&target, envelope, frame);
            } else {
                self.met("a dead letter that would go round");
            }
        }
        for topic in self.topics_of(envelope, frame) {
            self.met("a dead letter in a topic");
            self.append(Some(topic), envelope.clone(), frame.clone(), super::Gate::Logged(self.pass()));
        }
    }

    /// A queue is full and keeps what it has.
    pub(super) fn would_refuse(&self, name: &Name, frame: &Frame) -> bool {
        let Some(queue) = self.world.queues.get(name) else { return false };
        queue.spec.properties.overflow != Overflow::DropHead && queue.is_over(1, frame.data().len() as u64)
    }

    /// A message comes to a queue, which takes it unless it is full; false then.
    pub(super) fn offer(&mut self, name: &Name, envelope: &Envelope, frame: &Frame) -> bool {
        let Some(queue) = self.world.queues.get(name) else { return true };
        let overflow = queue.spec.properties.overflow;
        if !self.would_refuse(name, frame) {
            self.enqueue(name, envelope.clone(), frame);
            return true;
        }
        let spec = queue.spec.clone();
        self.met("a full queue refused");
        if overflow == Overflow::RejectPublishDeadLetter
            && let Some(letter) = buried(envelope, &spec, DeathReason::MaxLen, self.now.wall_ms)
        {
            self.letters.push((letter, frame.clone()));
        }
        false
    }

    /// Everything that a connection, or one of its consumers, holds is ready again. Gives how many.
    pub(super) fn recover(&mut self, id: ConnectionId, consumer: Option<ConsumerId>) -> u64 {
        let mut count = self.return_group_leases(id, consumer);
        for name in self.names() {
            let Some(queue) = self.queue_mut(&name) else { continue };
            let meant = |l: &Lease| l.connection == id && consumer.is_none_or(|c| c == l.consumer);
            let held = queue.messages.iter().filter(|m| m.lease().is_some_and(meant));
            let failed: Vec<u64> = held.map(|m| m.uid).collect();
            count += failed.len() as u64;
            self.fail(&name, &failed, 0);
        }
        self.forget_holders();
        count
    }
}
