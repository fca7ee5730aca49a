//! A consumer group as the contract describes it: which offsets of its topic are settled, and where each other one is. What
//! the broker may choose (when an event that is too old is passed over, how long a jittered wait is) is taken over from it
//! and judged (`adopt.rs`).

mod adopt;
mod settle;
mod take;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

pub(in crate::fold) use adopt::Shown;

use super::topic::Topic;
use super::{Answered, Gate, Lease, Model, Waiter};
use crate::group::{Distribution, Filter, GroupCounts, GroupSpec, GroupStart, KeySource, Member};
use crate::ids::{ConnectionId, ConsumerId};
use crate::message::DeathReason;
use crate::name::Name;
use crate::request::{Consume, Fetch};

/// Topic and name.
pub(in crate::fold) type GroupKey = (Name, Name);

/// A consumer, or somebody who pulls.
pub(super) type Whom = (ConnectionId, ConsumerId);

/// A member.
#[derive(Clone)]
pub(in crate::fold) struct MemberNow {
    pub(super) filter: Option<std::sync::Arc<dyn Filter>>,
    /// Counts who came in the group.
    pub(super) came: u64,
}

impl std::fmt::Debug for MemberNow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "member {}", self.came)
    }
}

/// How long a failed event may have to wait: until between these times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fold) struct Wait {
    pub(super) attempts: u32,
    /// Wall time in ms; 0: at once.
    pub(super) least_ms: u64,
    pub(super) most_ms: u64,
}

/// See the module.
#[derive(Debug, Clone)]
pub(in crate::fold) struct Group {
    pub(in crate::fold) spec: GroupSpec,
    pub(super) incarnation: u64,
    /// When something of it may be seen.
    pub(super) gate: Gate,
    pub(in crate::fold) floor: u64,
    /// At or above the floor.
    pub(in crate::fold) settled: BTreeSet<u64>,
    pub(in crate::fold) failed: BTreeMap<u64, Wait>,
    pub(in crate::fold) counts: GroupCounts,
    /// Everything below it was passed at some time.
    high: u64,
    /// The same, in this life of the broker.
    sure: u64,

    // what a restart forgets
    pub(in crate::fold) leases: BTreeMap<u64, Lease>,
    /// They are dead-lettered, when the broker has their bodies.
    pub(in crate::fold) dying: BTreeMap<u64, DeathReason>,
    undeliverable: BTreeMap<u64, u32>,
    pub(in crate::fold) members: BTreeMap<Whom, MemberNow>,
    /// Who was a member at some time of this pass.
    lately: BTreeMap<Whom, MemberNow>,
    came: u64,
    /// Who has the events of a key, who had come until then, and the pass.
    owners: BTreeMap<String, (Whom, u64, usize)>,
    /// Below it, somebody saw everything that is delivered again.
    seen: u64,
}

impl Group {
    fn new(spec: GroupSpec, incarnation: u64, floor: u64, gate: Gate) -> Self {
        Self {
            spec,
            incarnation,
            gate,
            floor,
            settled: BTreeSet::new(),
            failed: BTreeMap::new(),
            counts: GroupCounts::default(),
            high: floor,
            sure: 0,
            leases: BTreeMap::new(),
            dying: BTreeMap::new(),
            undeliverable: BTreeMap::new(),
            members: BTreeMap::new(),
            lately: BTreeMap::new(),
            came: 0,
            owners: BTreeMap::new(),
            seen: 0,
        }
    }

    pub(super) fn is_open(&self, offset: u64) -> bool {
        offset >= self.floor && !self.settled.contains(&offset)
    }

    /// It waits for nothing but a member.
    fn is_ready(&self, offset: u64, wall_ms: u64) -> bool {
        self.is_open(offset)
            && !self.leases.contains_key(&offset)
            && !self.dying.contains_key(&offset)
            && self.failed.get(&offset).is_none_or(|wait| wait.least_ms <= wall_ms)
    }

    fn attempts(&self, offset: u64) -> u32 {
        self.failed.get(&offset).map_or(0, |wait| wait.attempts)
    }

    /// Failed ones that wait for their time.
    pub(in crate::fold) fn waiting(&self, wall_ms: u64) -> u64 {
        self.failed.values().filter(|wait| wait.most_ms > wall_ms).count() as u64
    }

    /// These are settled, as far as they were not.
    fn settle(&mut self, offsets: &[u64]) -> u64 {
        let mut count = 0;
        for offset in offsets {
            if self.is_open(*offset) {
                self.settled.insert(*offset);
                count += 1;
            }
            self.failed.remove(offset);
            self.undeliverable.remove(offset);
        }
        while self.settled.remove(&self.floor) {
            self.floor += 1;
        }
        count
    }

    /// The topic keeps nothing below.
    fn retain(&mut self, first: u64) {
        if first <= self.floor {
            return;
        }
        let kept = self.settled.split_off(&first);
        let settled = std::mem::replace(&mut self.settled, kept).len() as u64;
        self.counts.lost += first - self.floor - settled;
        self.floor = first;
        while self.settled.remove(&self.floor) {
            self.floor += 1;
        }
        self.failed = self.failed.split_off(&self.floor);
        self.dying = self.dying.split_off(&self.floor);
    }

    pub(super) fn restart(&mut self, clean: bool) {
        self.seen = if clean { self.seen.max(self.sure) } else { 0 };
        self.sure = 0;
        self.gate = Gate::Free;
        self.leases.clear();
        self.dying.clear();
        self.undeliverable.clear();
        self.members.clear();
        self.lately.clear();
        self.owners.clear();
    }

    fn is_balanced(&self) -> bool {
        self.spec.distribution == Distribution::LoadBalance
    }

    fn attribute(&self) -> Option<&Name> {
        match &self.spec.distribution {
            Distribution::Sticky(KeySource::Attribute(name)) => Some(name),
            _ => None,
        }
    }
}

fn place_of(topic: &Topic, model: &Model, start: GroupStart) -> u64 {
    let (first, next) = (topic.first(), topic.next);
    match start {
        GroupStart::Earliest => first,
        GroupStart::Latest => next,
        GroupStart::Offset(offset) => offset.0.clamp(first, next),
        GroupStart::Time(time_ms) => {
            let later = |at: &usize| model.events[*at].envelope.time_ms >= time_ms;
            topic.events.iter().position(later).map_or(next, |at| first + at as u64)
        }
    }
}

impl Model {
    pub(super) fn group_mut(&mut self, key: &GroupKey) -> Option<&mut Group> {
        self.world.groups.get_mut(key).map(Rc::make_mut)
    }

    pub(super) fn group_keys(&self) -> Vec<GroupKey> {
        self.world.groups.keys().cloned().collect()
    }

    /// The group of a consumer or of a pull.
    pub(super) fn group_of(&self, incarnation: u64) -> Option<GroupKey> {
        self.world.groups.iter().find(|(_, g)| g.incarnation == incarnation).map(|(key, _)| key.clone())
    }

    pub(super) fn declare_group(&mut self, spec: &GroupSpec) -> (Gate, Answered) {
        let key = (spec.topic.clone(), spec.name.clone());
        if let Some(group) = self.world.groups.get(&key) {
            return match group.spec.check_equal(spec) {
                Ok(()) => (Gate::Free, Answered::Group),
                Err(_) => (Gate::Free, Answered::Because("inequivalent")),
            };
        }
        if !self.world.topics.contains_key(&spec.topic) {
            self.make_topic(crate::definition::TopicSpec {
                name: spec.topic.clone(),
                age_ms_max: None,
                bytes_max: None,
            });
        }
        let floor = self.world.topics.get(&spec.topic).map_or(0, |t| place_of(t, self, spec.start));
        let group = Group::new(spec.clone(), self.uid(), floor, Gate::Logged(self.pass()));
        self.world.groups.insert(key, Rc::new(group));
        (Gate::Logged(self.pass()), Answered::Group)
    }

    pub(super) fn delete_group(&mut self, topic: &Name, name: &Name) -> (Gate, Answered) {
        let key = (topic.clone(), name.clone());
        let Some(lag) = self.world.groups.get(&key).map(|g| self.lag(g)) else {
            return (Gate::Free, Answered::Because("not found"));
        };
        let order = self.uid();
        self.drop_group(&key, order);
        (Gate::Logged(self.pass()), Answered::Removed(lag))
    }

    fn drop_group(&mut self, key: &GroupKey, order: u64) {
        let Some(incarnation) = self.world.groups.get(key).map(|g| g.incarnation) else { return };
        self.end_takers_of(incarnation, order);
        self.world.groups.remove(key);
        self.forget_holders();
    }

    /// Groups go with their topic.
    pub(super) fn drop_groups_of(&mut self, topic: &Name) {
        let order = self.uid();
        for key in self.group_keys().into_iter().filter(|key| key.0 == *topic) {
            self.drop_group(&key, order);
        }
    }

    pub(super) fn seek_group(&mut self, topic: &Name, name: &Name, to: GroupStart) -> (Gate, Answered) {
        let key = (topic.clone(), name.clone());
        let floor = self.world.topics.get(topic).map_or(0, |t| place_of(t, self, to));
        let Some(group) = self.group_mut(&key) else { return (Gate::Free, Answered::Because("not found")) };
        group.floor = floor;
        group.settled.clear();
        group.failed.clear();
        group.leases.clear();
        group.dying.clear();
        group.undeliverable.clear();
        group.owners.clear();
        group.seen = group.seen.max(group.sure);
        self.forget_holders();
        (Gate::Logged(self.pass()), Answered::Group)
    }

    /// Events that a group has not settled.
    pub(in crate::fold) fn lag(&self, group: &Group) -> u64 {
        let next = self.world.topics.get(&group.spec.topic).map_or(0, |t| t.next);
        next.saturating_sub(group.floor).saturating_sub(group.settled.len() as u64)
    }

    /// A topic keeps nothing below.
    pub(super) fn retain_groups(&mut self, topic: &Name, first: u64) {
        for key in self.group_keys().into_iter().filter(|key| key.0 == *topic) {
            let Some(group) = self.group_mut(&key) else { continue };
            let lost = group.counts.lost;
            group.retain(first);
            if group.counts.lost > lost {
                self.met("events lost to a group");
            }
        }
    }

    pub(super) fn consume_group(&mut self, id: ConnectionId, consume: &Consume, member: &Member) -> Answered {
        let key = (consume.queue.clone(), member.group.clone());
        let Some(group) = self.world.groups.get(&key) else { return Answered::Because("not found") };
        let (incarnation, lease_ms) = (group.incarnation, group.spec.lease_ms);
        let consume = Consume { lease_ms: consume.lease_ms.or(lease_ms), ..consume.clone() };
        let answer = self.start_consumer(id, &consume, incarnation);
        if answer == Answered::Done {
            self.join_group(&key, (id, consume.consumer), member);
        }
        answer
    }

    fn join_group(&mut self, key: &GroupKey, whom: Whom, member: &Member) {
        let Some(group) = self.group_mut(key) else { return };
        if group.members.contains_key(&whom) {
            return;
        }
        group.came += 1;
        let now = MemberNow { filter: member.filter.clone(), came: group.came };
        group.lately.insert(whom, now.clone());
        group.members.insert(whom, now);
    }

    pub(super) fn fetch_group(
        &mut self,
        id: ConnectionId,
        request: crate::ids::RequestId,
        fetch: &Fetch,
        member: &Member,
    ) {
        let key = (fetch.queue.clone(), member.group.clone());
        let Some(group) = self.world.groups.get(&key) else {
            let what = super::What::Reply(request, Answered::Because("not found"), None);
            return self.expect(id, Gate::Free, what);
        };
        let (incarnation, lease_ms) = (group.incarnation, group.spec.lease_ms);
        let fetch = Fetch { lease_ms: fetch.lease_ms.or(lease_ms), ..fetch.clone() };
        if self.start_pull(id, request, &fetch, incarnation) {
            self.join_group(&key, (id, fetch.consumer), member);
        }
    }

    /// Whoever neither consumes nor waits is no member any more.
    pub(super) fn forget_members(&mut self) {
        let mut gone = Vec::new();
        for (key, group) in &self.world.groups {
            for whom in group.members.keys() {
                let known = self.connections.get(&whom.0).and_then(|c| c.consumers.get(&whom.1));
                let active = known.is_some_and(|c| c.active && c.incarnation == group.incarnation);
                let waits = |w: &&Waiter| {
                    w.connection == whom.0
                        && w.fetch.consumer == whom.1
                        && w.incarnation == group.incarnation
                        && !w.orphan
                };
                if !active && !self.waiters.iter().any(|w| waits(&w)) {
                    gone.push((key.clone(), *whom));
                }
            }
        }
        for (key, whom) in gone {
            if let Some(group) = self.group_mut(&key) {
                group.members.remove(&whom);
            }
        }
    }

    /// A pass is over: only those who are members now are.
    pub(super) fn settle_members(&mut self) {
        for key in self.group_keys() {
            if let Some(group) = self.group_mut(&key) {
                group.lately = group.members.clone();
            }
        }
    }

    /// Leases of groups that ran out, until a time.
    pub(super) fn tick_groups(&mut self, until_ms: u64) {
        let mono_ms = self.now.mono_ms.min(until_ms);
        for key in self.group_keys() {
            let due: Vec<u64> = self.world.groups[&key]
                .leases
                .iter()
                .filter(|(_, lease)| lease.deadline_ms.is_some_and(|due| due <= mono_ms))
                .map(|(offset, _)| *offset)
                .collect();
            if !due.is_empty() {
                self.met("a lease of a group ran out");
                self.fail_group(&key, &due, Some(0));
            }
        }
    }

    /// When something of a group is due next, by the monotonic clock.
    pub(super) fn groups_due(&self) -> impl Iterator<Item = u64> + '_ {
        let now = self.now;
        self.world.groups.values().flat_map(move |group| {
            let retries = group.failed.values().map(|w| w.most_ms).filter(move |due| *due > now.wall_ms);
            let retries = retries.map(move |due| now.mono_ms + due - now.wall_ms);
            let topic = self.world.topics.get(&group.spec.topic);
            let events = topic.into_iter().flat_map(|t| &t.events).map(|at| &self.events[*at].envelope);
            let ends = events
                .flat_map(move |e| [e.expires_at_ms, group.spec.ttl_ms.map_or(0, |ttl| e.time_ms + ttl)]);
            let ends =
                ends.filter(move |end| *end > now.wall_ms).map(move |end| now.mono_ms + end - now.wall_ms);
            group.leases.values().filter_map(|l| l.deadline_ms).chain(retries).chain(ends)
        })
    }
}
