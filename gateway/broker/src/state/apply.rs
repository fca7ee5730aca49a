//! The one place where state changes. Never refuses: what cannot be applied (a queue that is gone) has no effect.

use std::sync::Arc;

use framegate_storage::Lsn;

use super::dedup::{Known, Remembered};
use super::{GROUP_BIT, GroupState, NO_BLOCK, QueueState, State, TopicEntry, TopicState, index};
use crate::definition::BindTarget;
use crate::ids::QueueId;
use crate::limits::SEQ_STEP_AFTER_CRASH;
use crate::record::{Body, Record};

/// Where a record stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    /// Its position in the log; 0 for records that are not logged.
    pub(crate) lsn: Lsn,
    /// The block it stands in, or `OPEN_BLOCK`, or `NO_BLOCK`.
    pub(crate) block: u64,
    /// A reader of the log will see it.
    pub(crate) logged: bool,
}

impl At {
    /// A record of a snapshot: the log knows it, and it stands in no block.
    pub(crate) fn of_snapshot(lsn: Lsn) -> Self {
        Self { lsn, block: NO_BLOCK, logged: true }
    }

    /// Something new is defined, and not said again by a snapshot.
    fn defines(self) -> bool {
        self.logged && self.block != NO_BLOCK
    }

    /// What a snapshot says of remembered publishes it says itself, not through its messages.
    fn remembers(self) -> bool {
        self.logged && self.block != NO_BLOCK
    }
}

impl State {
    /// Applies one record.
    pub(crate) fn apply(&mut self, record: Record, at: At) {
        match record {
            Record::Enqueue { queue, seq, envelope, body } => {
                self.find_queue(queue);
                if let Some(dedup) = envelope.dedup.filter(|_| at.remembers()) {
                    self.dedups.put(&dedup, at.lsn, None, envelope.time_ms);
                }
                if let Some(queue) = self.queue_mut(queue) {
                    queue.enqueue(seq, envelope, body, at.block, at.logged);
                }
            }
            Record::Ack { queue, seqs } => {
                for (first, len) in seqs.runs() {
                    self.jobs.gone(queue, *first, *len);
                }
                if let Some(queue) = self.queue_mut(queue) {
                    for (first, len) in seqs.runs() {
                        queue.remove_run(*first, *len);
                    }
                }
            }
            Record::Return { queue, seqs } => {
                if let Some(queue) = self.queue_mut(queue) {
                    for seq in seqs.iter() {
                        if let Some(slot) = queue.slots.get_mut(seq.0) {
                            slot.attempts = slot.attempts.saturating_add(1);
                        }
                    }
                }
            }
            Record::Delivered { queue, upto } => {
                if let Some(group) = self.group_mut(queue) {
                    group.seen = group.seen.max(upto.0.saturating_add(1));
                }
                if let Some(queue) = self.queue_mut(queue) {
                    queue.delivered = queue.delivered.max(upto.0);
                    // a number that somebody saw is not given again, whether the log knows its message or not
                    queue.next_logged = queue.next_logged.max(upto.0 + 1);
                    queue.slots.skip_to(queue.next_logged);
                }
            }
            Record::Append { topic, offset, envelope, body } => {
                self.find_topic(topic);
                if let Some(dedup) = envelope.dedup.filter(|_| at.remembers()) {
                    self.dedups.put(&dedup, at.lsn, Some(offset), envelope.time_ms);
                }
                let (block, start) = match body {
                    Body::Here { offset, .. } => (at.block, offset),
                    Body::At(at) => (at.block.0, at.offset),
                    Body::Memory { .. } => return,
                };
                let time_ms = envelope.time_ms;
                let entry = TopicEntry { lsn: at.lsn.0, block, time_ms, offset: start, len: body.len() };
                if let Some(topic) = self.topic_mut(topic) {
                    topic.append(offset, entry, envelope);
                }
            }
            Record::Retain { topic, first } => {
                if let Some(topic) = self.topic_mut(topic) {
                    topic.retain(first, at.lsn);
                }
                for group in self.groups.iter_mut().filter(|g| g.topic == topic) {
                    Arc::make_mut(group).retain(first.0);
                }
            }
            Record::DefineQueue { id, vhost, spec } => {
                let mut queue = QueueState::new(id, vhost, *spec);
                if at.defines() {
                    queue.begin_after(self.queues.give(index(id.0)));
                }
                self.queues.put(index(id.0), queue);
            }
            Record::DeleteQueue { id } => {
                self.delete_queue(id);
                self.jobs.queue_gone(id);
            }
            Record::Job(entry) => self.jobs.put(*entry),
            Record::PauseJobs { queue, paused } => self.jobs.pause(queue, paused),
            Record::JobCare { queue, care } => self.jobs.care_for(queue, care),
            Record::JobRules { queue, rules } => self.jobs.rule(queue, rules),
            Record::DefineExchange { vhost, spec } => {
                self.exchanges.insert((vhost, spec.name.clone()), spec);
            }
            Record::DeleteExchange { vhost, name } => {
                self.exchanges.remove(&(vhost.clone(), name.clone()));
                self.bindings.remove_of(&vhost, &name);
                self.bindings.remove_to(&vhost, &BindTarget::Exchange(name));
            }
            Record::Bind { vhost, binding } => self.bindings.insert(vhost, binding),
            Record::Unbind { vhost, binding } => self.bindings.remove(&vhost, &binding),
            Record::DefineTopic { id, vhost, spec } => {
                let mut topic = TopicState::new(id, vhost, spec);
                if at.defines() {
                    topic.entries.skip_to(self.topics.give(index(id.0)));
                }
                self.topics.put(index(id.0), topic);
            }
            Record::DeleteTopic { id } => {
                if let Some(topic) = self.topic(id) {
                    let (vhost, target) = (topic.vhost.clone(), BindTarget::Topic(topic.spec.name.clone()));
                    self.bindings.remove_to(&vhost, &target);
                }
                self.topics.take(index(id.0));
                let gone: Vec<u32> =
                    self.groups.iter().filter(|g| g.topic == id).map(|g| group_index(g.id)).collect();
                for group in gone {
                    self.groups.take(group);
                }
            }
            Record::DefineGroup { id, topic, vhost, spec, floor } => {
                let group = GroupState::new(id, topic, vhost, *spec, floor);
                if at.defines() {
                    self.groups.give(group_index(id));
                }
                self.groups.put(group_index(id), group);
            }
            Record::DeleteGroup { id } => drop(self.groups.take(group_index(id))),
            Record::GroupStands { id, seen, counts, settled, failed } => {
                if let Some(group) = self.group_mut(id) {
                    group.restore(seen, counts, settled.runs(), &failed);
                }
            }
            Record::SeekGroup { id, floor } => {
                if let Some(group) = self.group_mut(id) {
                    group.seek(floor);
                }
            }
            Record::SettleGroup { id, how, offsets } => {
                if let Some(group) = self.group_mut(id) {
                    group.settle(offsets.runs(), how);
                }
            }
            Record::FailGroup { id, failed } => {
                if let Some(group) = self.group_mut(id) {
                    for (offset, due_ms) in failed {
                        group.fail(offset, due_ms);
                    }
                }
            }
            Record::Start { clean } => {
                if !clean {
                    for queue in self.queues.iter_mut().map(Arc::make_mut) {
                        // above it even when it is a multiple itself: the number may have been seen before the cut
                        let next = (queue.slots.next() / SEQ_STEP_AFTER_CRASH + 1) * SEQ_STEP_AFTER_CRASH;
                        queue.slots.skip_to(next);
                        queue.next_logged = next;
                    }
                }
            }
            Record::Spill { queue, seq, body } => {
                let slot = self.queue_mut(queue).and_then(|q| q.slots.get_mut(seq.0));
                if let (Some(slot), Body::Here { offset, .. }) = (slot, body) {
                    slot.block = at.block;
                    slot.offset = offset;
                }
            }
            Record::Move { queue, seq, body } => {
                if let (Some(queue), Some((block, offset))) = (self.queue_mut(queue), place_of(body, at)) {
                    queue.move_body(seq, block, offset, body.len());
                }
            }
            Record::MoveEvent { topic, offset, body } => {
                if let Some(entry) = self.topic_mut(topic).and_then(|t| t.entries.get_mut(offset.0))
                    && let Some((block, start)) = place_of(body, at)
                {
                    (entry.block, entry.offset) = (block, start);
                }
            }
            Record::Standing { queues, topics, .. } => {
                self.queues.have_given(queues);
                self.topics.have_given(topics);
            }
            Record::QueueNumbers { queue, next, delivered } => {
                if let Some(queue) = self.queue_mut(queue) {
                    (queue.next_logged, queue.delivered) = (next.0, delivered.0);
                    queue.slots.skip_to(next.0);
                }
            }
            Record::TopicNumbers { topic, next, gone_to } => {
                if let Some(topic) = self.topic_mut(topic) {
                    topic.gone_to = gone_to;
                    topic.entries.skip_to(next.0);
                }
            }
            Record::Remembered { dedup, lsn, offset, time_ms } => {
                let known = Known { content: dedup.content, lsn, offset };
                self.dedups.restore(Remembered { key: dedup.key, known, time_ms });
            }
            Record::Lost => self.holes = true,
            Record::Tick | Record::At { .. } => {}
        }
    }

    fn delete_queue(&mut self, id: QueueId) {
        if let Some(queue) = self.queues.take(index(id.0)) {
            let target = BindTarget::Queue(queue.spec.name.clone());
            self.bindings.remove_to(&queue.vhost, &target);
        }
    }
}

/// Block and offset of a body that was written again.
fn place_of(body: Body, at: At) -> Option<(u64, u32)> {
    match body {
        Body::Here { offset, .. } => Some((at.block, offset)),
        Body::At(body) => Some((body.block.0, body.offset)),
        Body::Memory { .. } => None,
    }
}

fn group_index(id: QueueId) -> u32 {
    index(id.0 & !GROUP_BIT)
}
