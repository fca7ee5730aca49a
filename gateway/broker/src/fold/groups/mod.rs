//! Consumer groups in the fold: the volatile side of each group.
//!
//! A group has an id among those of queues and a `QueueLive` of its own, so that consumers, credit, leases, tokens and
//! pulls are those of queues. Its messages are the topic's offsets. An offset that is not settled is in one place only:
//!
//! ```text
//! at or above the cursor, not in `due`    not delivered since the start (or since the group was set to a place)
//! `GroupLive::returned`                   ready again
//! `GroupLive::due`                        waits for its next attempt
//! `MemberLive::assigned`                  chosen for a member, waits for its credit
//! `GroupLive::dying`                      is dead-lettered as soon as its body has been read
//! a consumer's `held`                     leased
//! ```

mod assign;
mod bodies;
mod define;
mod deliver;
mod dispatch;
mod members;
mod query;
mod settle;
mod sticky;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use framegate_storage::Lsn;

use super::Core;
use super::live::QueueLive;
use crate::error::{BrokerError, Kind};
use crate::ids::{ConnectionId, ConsumerId, QueueId, Seq, TopicId};
use crate::message::DeathReason;
use crate::name::Name;
use crate::properties::QueueProperties;
use crate::record::Record;
use crate::state::{GroupState, TopicState};
use members::MemberLive;
pub(super) use settle::Again;

/// Whose a member is.
type MemberKey = (ConnectionId, ConsumerId);

/// The volatile side of all groups.
#[derive(Default)]
pub(super) struct Groups {
    live: BTreeMap<QueueId, GroupLive>,
    of: BTreeMap<TopicId, Vec<QueueId>>,
    /// Dead-letter topics by vhost and name, and of how many groups.
    dead: BTreeMap<(Name, Name), usize>,
    /// Topics whose groups are looked at when the log is durable up to there.
    gated: VecDeque<(Lsn, TopicId)>,
}

/// The volatile side of a group beyond its `QueueLive`.
#[derive(Default)]
struct GroupLive {
    /// Nothing from here on was delivered since the start, or since the group was set to a place.
    cursor: u64,
    /// Below the cursor, ready again.
    returned: BTreeSet<u64>,
    members: BTreeMap<MemberKey, MemberLive>,
    /// Offsets that wait for their next attempt, and when that is by the monotonic clock in ms.
    due: BTreeMap<u64, u64>,
    /// The same by time.
    due_at: BTreeSet<(u64, u64)>,
    /// Monotonic time in ms of the timer that looks at them; 0: there is none.
    timer_ms: u64,
    /// Offsets to dead-letter, and why.
    dying: BTreeMap<u64, DeathReason>,
    /// Every offset below it may have been seen.
    seen: u64,
    /// Nothing from here on was passed since the start, wherever the group was set to since.
    passed: u64,
    /// Counts what was assigned, so that members that hold the same take turns.
    turn: u64,
    /// Offsets assigned to members.
    assigned: usize,
    /// Losses that were reported.
    lost_told: u64,
}

impl Groups {
    /// Whether a topic has groups.
    pub(super) fn has(&self, topic: TopicId) -> bool {
        self.of.contains_key(&topic)
    }

    fn of(&self, topic: TopicId) -> Vec<QueueId> {
        self.of.get(&topic).cloned().unwrap_or_default()
    }
}

impl Core {
    /// The volatile side of what a log says; before anything else is decided.
    pub(super) fn start_groups(&mut self) {
        let groups: Vec<_> =
            self.durable.groups().map(|g| (g.id, g.floor(), g.seen, g.counts.lost)).collect();
        for (id, floor, seen, lost_told) in groups {
            self.live.insert(id, takers());
            let live = GroupLive { cursor: floor, seen, lost_told, ..GroupLive::default() };
            self.groups.live.insert(id, live);
            self.know_group(id);
            let now = self.now.wall_ms;
            let waiting: Vec<(u64, u64)> = self.durable.group(id).map_or_else(Vec::new, |g| {
                g.failed().filter(|(_, f)| f.due_ms > now).map(|(offset, f)| (offset, f.due_ms)).collect()
            });
            for (offset, due_ms) in waiting {
                self.hold_back(id, offset, due_ms);
            }
        }
    }

    /// A group by name.
    pub(super) fn group_named(
        &self,
        vhost: &Name,
        topic: &Name,
        group: &Name,
    ) -> Result<QueueId, BrokerError> {
        let found = self.editor.current().topic(vhost, topic).and_then(|topic| {
            let groups = self.groups.of.get(&topic)?;
            groups.iter().find(|g| self.durable.group(**g).is_some_and(|g| g.spec.name == *group)).copied()
        });
        found.ok_or_else(|| Self::missing(Kind::Group, group, vhost))
    }

    /// Notes how far a group has been delivered.
    pub(super) fn mark_group(&mut self, id: QueueId) {
        // a group that was set back has seen more than it has passed again
        let seen = self.groups.live.get(&id).map_or(0, |g| g.passed.max(g.seen));
        if self.durable.group(id).is_some_and(|g| seen > g.seen) {
            self.log(Record::Delivered { queue: id, upto: Seq(seen - 1) }, None, false);
        }
    }

    /// A group with its topic.
    fn group_and_topic(&self, id: QueueId) -> Option<(&GroupState, &TopicState)> {
        let group = self.durable.group(id)?;
        Some((group, self.durable.topic(group.topic)?))
    }

    /// Events became durable: groups of their topics are looked at.
    pub(super) fn groups_durable(&mut self, upto: Lsn) {
        while let Some((_, topic)) = self.groups.gated.pop_front_if(|g| g.0 <= upto) {
            for id in self.groups.of(topic) {
                self.mark_dirty(id);
            }
        }
    }
}

#[cfg(test)]
impl Core {
    /// Panics when an offset of a group is in two places; gives how many are neither leased nor ready.
    pub(super) fn check_group(&self, id: QueueId, leased: &BTreeSet<u64>) -> u64 {
        let (group, live) = (self.durable.group(id).expect("there"), &self.groups.live[&id]);
        let mut places: Vec<u64> =
            live.returned.iter().chain(live.due.keys()).chain(live.dying.keys()).copied().collect();
        places.extend(live.members.values().flat_map(|m| &m.assigned));
        assert_eq!(live.assigned, live.members.values().map(|m| m.assigned.len()).sum::<usize>());
        assert_eq!(live.due_at.len(), live.due.len());
        assert!(places.iter().all(|o| group.is_open(*o)), "what is settled stands nowhere in {id}");
        places.extend(leased);
        let count = places.len();
        places.sort_unstable();
        places.dedup();
        assert_eq!(count, places.len(), "an offset of {id} stands twice");
        (live.due.len() + live.dying.len()) as u64
    }
}

/// The volatile side that a group has in common with queues: takers, leases, frames.
fn takers() -> QueueLive {
    QueueLive::new(0, 0, None, &QueueProperties::default())
}
