//! What becomes of an event that a member had: settled, tried again, dead-lettered. Also what becomes of a group when
//! its topic no longer keeps what it has not settled.

use super::super::dead_letter::bury;
use super::super::{Core, timers::Timer};
use crate::definition::TopicSpec;
use crate::ids::{Offset, QueueId, Seq, TopicId};
use crate::limits::SLICE_MESSAGES_MAX;
use crate::message::DeathReason;
use crate::metrics::Metrics;
use crate::name::Name;
use crate::record::{Body, Record, SeqSet, Settled};
use crate::routing::{Parts, Targets};
use crate::state::GroupState;

/// When a failed event is tried again.
#[derive(Debug, Clone, Copy)]
pub(in crate::fold) enum Again {
    /// At once: the lease ran out or its holder is gone.
    AtOnce,
    /// As the group's retry says.
    ByRetry,
    /// After so many ms.
    After(u64),
}

impl Core {
    /// These are settled for good, by one record. Those that are so already are passed over.
    pub(in crate::fold) fn settle_group(&mut self, id: QueueId, seqs: &SeqSet, how: Settled) {
        let Some(group) = self.durable.group(id).filter(|_| !seqs.is_empty()) else { return };
        let mut offsets = SeqSet::default();
        for seq in seqs.iter().filter(|seq| group.is_open(seq.0)) {
            offsets.push(seq);
        }
        for seq in seqs.iter() {
            self.uncache(id, seq);
            if let Some(live) = self.live.get_mut(&id) {
                live.undeliverable.remove(&seq.0);
            }
        }
        if offsets.is_empty() {
            return;
        }
        if matches!(how, Settled::Dropped | Settled::DroppedNested) {
            Metrics::add(&self.shared.metrics.dead_letters_dropped, offsets.len());
        }
        self.log(Record::SettleGroup { id, how, offsets }, None, false);
        // the floor may have moved: a group that paused goes on
        self.mark_dirty(id);
    }

    /// A delivery of these failed: tried again, or dead-lettered when it was tried often enough.
    pub(in crate::fold) fn fail_group(&mut self, id: QueueId, seqs: &SeqSet, again: Again) {
        let Some(group) = self.durable.group(id) else { return };
        let (retry, now) = (group.spec.retry, self.now.wall_ms);
        let (mut dead, mut failed) = (SeqSet::default(), Vec::new());
        for seq in seqs.iter().filter(|seq| group.is_open(seq.0)) {
            let attempts = group.attempts(seq.0).saturating_add(1);
            if retry.attempts_max != 0 && attempts >= retry.attempts_max {
                dead.push(seq);
                continue;
            }
            let wait_ms = match again {
                Again::AtOnce => 0,
                Again::After(ms) => ms,
                Again::ByRetry => retry.wait_ms(attempts, chance(id, seq.0, attempts, now)),
            };
            failed.push((seq.0, if wait_ms == 0 { 0 } else { now.saturating_add(wait_ms) }));
        }
        Metrics::add(&self.shared.metrics.requeued, failed.len() as u64);
        if !failed.is_empty() {
            self.log(Record::FailGroup { id, failed: failed.clone() }, None, false);
        }
        for (offset, due_ms) in failed {
            if due_ms != 0 {
                self.hold_back(id, offset, due_ms);
            } else if let Some(group) = self.groups.live.get_mut(&id) {
                group.returned.insert(offset);
            }
        }
        if !dead.is_empty() {
            self.kill(id, &dead, DeathReason::DeliveryLimit);
        }
        self.mark_dirty(id);
    }

    /// An event waits for its next attempt.
    pub(super) fn hold_back(&mut self, id: QueueId, offset: u64, due_ms: u64) {
        let due = self.now.mono_ms.saturating_add(due_ms.saturating_sub(self.now.wall_ms));
        let Some(group) = self.groups.live.get_mut(&id) else { return };
        if group.due.insert(offset, due).is_none() {
            group.due_at.insert((due, offset));
            if let Some(live) = self.live.get_mut(&id) {
                live.held += 1;
            }
        }
        self.watch_due(id);
    }

    fn watch_due(&mut self, id: QueueId) {
        let Some(group) = self.groups.live.get_mut(&id) else { return };
        let Some((due, _)) = group.due_at.first().copied() else { return };
        if group.timer_ms == 0 || due < group.timer_ms {
            group.timer_ms = due;
            self.timers.add(due, Timer::Retry(id));
        }
    }

    /// The time of failed events has come.
    pub(in crate::fold) fn retry_due(&mut self, id: QueueId) {
        let now = self.now.mono_ms;
        let (Some(group), Some(live)) = (self.groups.live.get_mut(&id), self.live.get_mut(&id)) else {
            return;
        };
        if group.timer_ms > now {
            return;
        }
        group.timer_ms = 0;
        for _ in 0..SLICE_MESSAGES_MAX {
            let Some((due, offset)) = group.due_at.first().copied().filter(|d| d.0 <= now) else { break };
            group.due_at.remove(&(due, offset));
            group.due.remove(&offset);
            live.held -= 1;
            // at or above the cursor it stands where it is found
            if offset < group.cursor {
                group.returned.insert(offset);
            }
        }
        self.watch_due(id);
        self.mark_dirty(id);
    }

    /// Dead-letters these as soon as their bodies are in memory: subscribers of the dead-letter topic are shown them.
    pub(in crate::fold) fn kill(&mut self, id: QueueId, seqs: &SeqSet, reason: DeathReason) {
        let Some(group) = self.durable.group(id) else { return };
        let open: Vec<u64> = seqs.iter().map(|s| s.0).filter(|o| group.is_open(*o)).collect();
        let (Some(group), Some(live)) = (self.groups.live.get_mut(&id), self.live.get_mut(&id)) else {
            return;
        };
        for offset in open {
            if group.dying.insert(offset, reason).is_none() {
                live.held += 1;
            }
        }
        self.bury_events(id);
    }

    /// Dead-letters what can be: the copy and the end of the original are one block.
    pub(super) fn bury_events(&mut self, id: QueueId) {
        let Some(group) = self.groups.live.get(&id).filter(|g| !g.dying.is_empty()) else { return };
        let dying: Vec<(u64, DeathReason)> =
            group.dying.iter().take(SLICE_MESSAGES_MAX).map(|(o, r)| (*o, *r)).collect();
        let mut missing = false;
        let [mut moved, mut dropped, mut nested] = [const { Vec::new() }; 3];
        for (offset, reason) in dying {
            let how = match self.durable.group(id) {
                Some(group) if self.is_nested(group, offset) => Settled::DroppedNested,
                Some(group) if group.spec.dead_letter_topic.is_none() => Settled::Dropped,
                _ if !self.is_resident(id, offset) => {
                    missing = true;
                    continue;
                }
                _ => self.bury_event(id, offset, reason),
            };
            if let (Some(group), Some(live)) = (self.groups.live.get_mut(&id), self.live.get_mut(&id))
                && group.dying.remove(&offset).is_some()
            {
                live.held -= 1;
            }
            match how {
                Settled::DeadLettered => moved.push(Seq(offset)),
                Settled::DroppedNested => nested.push(Seq(offset)),
                _ => dropped.push(Seq(offset)),
            }
        }
        self.settle_group(id, &SeqSet::from_unsorted(moved), Settled::DeadLettered);
        self.settle_group(id, &SeqSet::from_unsorted(nested), Settled::DroppedNested);
        self.settle_group(id, &SeqSet::from_unsorted(dropped), Settled::Dropped);
        if missing {
            self.load_group(id);
        }
    }

    /// A dead letter that stands in a dead-letter topic.
    fn is_nested(&self, group: &GroupState, offset: u64) -> bool {
        let Some(topic) = self.durable.topic(group.topic) else { return false };
        let name = (group.vhost.clone(), topic.spec.name.clone());
        self.groups.dead.contains_key(&name) && !topic.envelope(Offset(offset)).deaths.is_empty()
    }

    /// Publishes a dead letter to the group's dead-letter topic, which is made when it is missing.
    fn bury_event(&mut self, id: QueueId, offset: u64, reason: DeathReason) -> Settled {
        let Some((group, topic)) = self.group_and_topic(id) else { return Settled::Dropped };
        let Some(dead) = group.spec.dead_letter_topic.clone() else { return Settled::Dropped };
        let (vhost, name) = (group.vhost.clone(), group.spec.name.clone());
        let attempts = group.attempts(offset).saturating_add(1);
        let mut envelope = topic.envelope(Offset(offset));
        let body = topic.entries.get(offset).map(|e| Body::At(e.body()));
        let frame = self.live.get(&id).and_then(|l| l.frames.get(&offset).cloned());
        let (Some(frame), Some(body)) = (frame, body) else { return Settled::Dropped };
        let dead_topic = match self.editor.current().topic(&vhost, &dead) {
            Some(topic) => topic,
            None => {
                let spec = TopicSpec { name: dead.clone(), age_ms_max: None, bytes_max: None };
                match self.make_topic(&vhost, spec) {
                    Ok(topic) => topic,
                    Err(error) => {
                        tracing::warn!(group = %name, topic = %dead, %error, "a dead letter is dropped");
                        return Settled::Dropped;
                    }
                }
            }
        };
        bury(&mut envelope, &name, reason, self.now.wall_ms);
        envelope.exchange = Name::from_static(crate::AMQ_TOPIC);
        envelope.keys = smallvec::smallvec![dead];
        envelope.attempts = attempts;
        let mut targets = Targets::default();
        let headers = self.shared.headers.clone();
        let read =
            |visit: &mut dyn FnMut(&str, crate::definition::HeaderValue<'_>)| headers.read(&frame, visit);
        let property = |property| crate::headers::property(&frame, property);
        let parts = Parts { keys: &envelope.keys, headers: &read, property: &property, delayed: false };
        // without the exchange, the topic alone gets it
        let _ = self.editor.current().route_parts(&vhost, &envelope.exchange, &parts, &mut targets);
        if !targets.topics.contains(&dead_topic) {
            targets.topics.insert(0, dead_topic);
        }
        self.place(&vhost, envelope, &frame, Some(body), &targets);
        Metrics::add(&self.shared.metrics.dead_lettered, 1);
        Settled::DeadLettered
    }

    /// A topic keeps less than before: its groups jump to what is kept.
    pub(in crate::fold) fn groups_retained(&mut self, topic: TopicId) {
        for id in self.groups.of(topic) {
            let Some(state) = self.durable.group(id) else { continue };
            let (floor, lost, name) = (state.floor(), state.counts.lost, state.spec.name.clone());
            let (Some(group), Some(live)) = (self.groups.live.get_mut(&id), self.live.get_mut(&id)) else {
                continue;
            };
            group.cursor = group.cursor.max(floor);
            group.returned = group.returned.split_off(&floor);
            let kept = group.due.split_off(&floor);
            for (offset, due) in std::mem::replace(&mut group.due, kept) {
                group.due_at.remove(&(due, offset));
                live.held -= 1;
            }
            let kept = group.dying.split_off(&floor);
            live.held -= std::mem::replace(&mut group.dying, kept).len() as u64;
            for member in group.members.values_mut() {
                let before = member.assigned.len();
                member.assigned = member.assigned.split_off(&floor);
                group.assigned -= before - member.assigned.len();
            }
            let told = std::mem::replace(&mut group.lost_told, lost);
            let stale: Vec<u64> = live.frames.keys().copied().filter(|offset| *offset < floor).collect();
            for offset in stale {
                self.uncache(id, Seq(offset));
            }
            if lost > told {
                Metrics::add(&self.shared.metrics.group_lost, lost - told);
                tracing::warn!(group = %name, events = lost - told, "a topic no longer keeps what a group has not settled");
            }
            self.mark_dirty(id);
        }
    }
}

/// Picks the jitter of a wait. It need not surprise anybody, it must only differ from event to event.
fn chance(id: QueueId, offset: u64, attempt: u32, now_ms: u64) -> u64 {
    let mut bytes = [0; 24];
    bytes[..4].copy_from_slice(&id.0.to_le_bytes());
    bytes[4..8].copy_from_slice(&attempt.to_le_bytes());
    bytes[8..16].copy_from_slice(&offset.to_le_bytes());
    bytes[16..].copy_from_slice(&now_ms.to_le_bytes());
    super::sticky::hash_of(&bytes)
}
