//! State: what the log says. A fold of records that never refuses and reads nothing but itself and the record, so that
//! the same log gives the same state on any machine. Consumers, leases and clocks are elsewhere.

mod apply;
mod aside;
mod bindings;
mod dedup;
mod export;
mod found;
mod group;
mod hash;
mod jobs;
mod pages;
mod queue;
mod runs;
mod table;
mod topic;

use std::collections::BTreeMap;

pub(crate) use apply::At;
pub(crate) use bindings::Bindings;
pub(crate) use dedup::Dedups;
pub(crate) use export::{Export, Frozen, PAGE_VERSION};
pub(crate) use group::GroupState;
pub(crate) use jobs::{JobEntry, JobOrder3, Jobs};
pub(crate) use queue::{NO_BLOCK, OPEN_BLOCK, QueueState, Times, Weight};
use table::Table;
#[cfg(test)]
pub(crate) use table::have_ids;
pub(crate) use topic::{TopicEntry, TopicState};

use crate::definition::ExchangeSpec;
use crate::ids::{QueueId, TopicId};
use crate::name::Name;
use crate::record::Expected;

/// Bit of a queue id that marks volatile queues.
pub(crate) const VOLATILE_BIT: u32 = 1 << 23;

/// Bit of a queue id that marks consumer groups of topics.
pub(crate) const GROUP_BIT: u32 = 1 << 22;

/// The id is a group's.
pub(crate) fn is_group(id: QueueId) -> bool {
    id.0 & GROUP_BIT != 0
}

/// Durable definitions, messages and topics; or, in a second one, those of volatile queues.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Shared with a snapshot that is being written; so are their pages.
    queues: Table<QueueState>,
    topics: Table<TopicState>,
    groups: Table<GroupState>,
    /// By vhost and name.
    pub(crate) exchanges: BTreeMap<(Name, Name), ExchangeSpec>,
    /// In the order in which they were made.
    pub(crate) bindings: Bindings,
    /// Publishes that are remembered.
    pub(crate) dedups: Dedups,
    /// Jobs.
    pub(crate) jobs: Jobs,
    /// A part of the log was lost in a repair: what follows may speak of queues and topics that nobody knows. Only a
    /// reader of the log asks.
    holes: bool,
}

impl State {
    /// A queue.
    pub(crate) fn queue(&self, id: QueueId) -> Option<&QueueState> {
        self.queues.get(index(id.0))
    }

    /// A queue, to change.
    pub(crate) fn queue_mut(&mut self, id: QueueId) -> Option<&mut QueueState> {
        self.queues.get_mut(index(id.0))
    }

    /// Every queue.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &QueueState> {
        self.queues.iter()
    }

    /// Id that the next queue gets; `None`: all are used.
    pub(crate) fn next_queue(&self) -> Option<QueueId> {
        self.queues.next().map(QueueId)
    }

    /// A topic.
    pub(crate) fn topic(&self, id: TopicId) -> Option<&TopicState> {
        self.topics.get(index(id.0))
    }

    /// A topic, to change.
    fn topic_mut(&mut self, id: TopicId) -> Option<&mut TopicState> {
        self.topics.get_mut(index(id.0))
    }

    /// Every topic.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &TopicState> {
        self.topics.iter()
    }

    /// Memory that messages and events take without their bodies, in bytes.
    pub(crate) fn index_bytes(&self) -> u64 {
        let queues = self.queues().map(|q| q.slots.stored_bytes() + q.aside.stored_bytes());
        queues.chain(self.topics().map(|t| t.entries.stored_bytes() + t.aside.stored_bytes())).sum()
    }

    /// Id that the next topic gets; `None`: all are used.
    pub(crate) fn next_topic(&self) -> Option<TopicId> {
        self.topics.next().map(TopicId)
    }

    /// A consumer group.
    pub(crate) fn group(&self, id: QueueId) -> Option<&GroupState> {
        self.groups.get(index(id.0 & !GROUP_BIT)).filter(|_| is_group(id))
    }

    fn group_mut(&mut self, id: QueueId) -> Option<&mut GroupState> {
        self.groups.get_mut(index(id.0 & !GROUP_BIT)).filter(|_| is_group(id))
    }

    /// Every consumer group.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &GroupState> {
        self.groups.iter()
    }

    /// Id that the next group gets; `None`: all are used.
    pub(crate) fn next_group(&self) -> Option<QueueId> {
        self.groups.next().map(|number| QueueId(number | GROUP_BIT))
    }

    /// After a snapshot of ids: sets a body's block once the block's position is known.
    pub(crate) fn set_block(&mut self, at: Placed, block: framegate_storage::Pos) {
        match at {
            Placed::Queue(id, seq) => {
                if let Some(slot) = self.queue_mut(id).and_then(|q| q.slots.get_mut(seq.0)) {
                    slot.block = block.0;
                }
            }
            Placed::Topic(id, offset) => {
                if let Some(entry) = self.topic_mut(id).and_then(|t| t.entries.get_mut(offset.0)) {
                    entry.block = block.0;
                }
            }
        }
    }
}

/// Something whose body stands in the open block.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Placed {
    /// A message.
    Queue(QueueId, crate::ids::Seq),
    /// An event.
    Topic(TopicId, crate::ids::Offset),
}

impl Expected for State {
    fn queue(&self, id: QueueId) -> Option<(u64, Name)> {
        let known = State::queue(self, id).map(|q| (q.next_logged, q.spec.name.clone()));
        known.or_else(|| self.holes.then(|| (0, found::queue_name(id))))
    }

    fn topic(&self, id: TopicId) -> Option<(u64, Name)> {
        let known = State::topic(self, id).map(|t| (t.entries.next(), t.spec.name.clone()));
        known.or_else(|| self.holes.then(|| (0, found::topic_name(id))))
    }
}

/// Place of an id in its table: without shard and volatile bit.
pub(crate) fn index(id: u32) -> u32 {
    id & (VOLATILE_BIT - 1)
}
