//! What the broker says of its groups after a pass: what it chose is taken over if it might, and everything else is as it
//! must be.

use std::collections::BTreeMap;

use framegate_frame::Frame;
use framegate_storage::BodyRef;

use super::{GroupKey, MemberNow};
use crate::definition::TopicSpec;
use crate::fold::model::{Gate, Model};
use crate::group::{Distribution, GroupCounts};
use crate::message::{Death, Envelope};
use crate::name::Name;

/// What the broker's log says of a group.
#[derive(Debug)]
pub(in crate::fold) struct Shown {
    pub(in crate::fold) floor: u64,
    pub(in crate::fold) settled: Vec<u64>,
    /// Offset, attempts, due in wall ms.
    pub(in crate::fold) failed: Vec<(u64, u32, u64)>,
    pub(in crate::fold) counts: GroupCounts,
}

impl Shown {
    fn is_settled(&self, offset: u64) -> bool {
        offset < self.floor || self.settled.contains(&offset)
    }
}

impl Model {
    /// Dead letters that came into dead-letter topics, in the order of the log: each is one of those that were dying and are
    /// settled now.
    pub(in crate::fold) fn adopt_dead(
        &mut self,
        came: Vec<(Name, Envelope, BodyRef)>,
        shown: &BTreeMap<GroupKey, Shown>,
        bodies: &BTreeMap<(GroupKey, u64), BodyRef>,
    ) -> Result<(), String> {
        for (topic, envelope, body) in came {
            let found = self.group_keys().into_iter().find_map(|key| {
                let group = &self.world.groups[&key];
                let is_its = group.spec.dead_letter_topic.as_ref() == Some(&topic);
                let is_settled = |o: &u64| shown.get(&key).is_some_and(|shown| shown.is_settled(*o));
                let mut dying = group.dying.keys().filter(|o| is_its && is_settled(o));
                dying.find_map(|offset| {
                    // the frame stands where the original's does: that tells two apart that are alike otherwise
                    if bodies.get(&(key.clone(), *offset)).is_some_and(|its| *its != body) {
                        return None;
                    }
                    let (its, frame) = self.buried_event(&key, *offset)?;
                    // a topic keeps it by the time at which it came there
                    let kept = Envelope { time_ms: self.now.wall_ms, ..its.clone() };
                    (kept == envelope).then(|| (key.clone(), *offset, its, frame))
                })
            });
            let Some((key, offset, envelope, frame)) = found else {
                return Err(format!("'{topic}' has {envelope:?}, which nobody sent there"));
            };
            if !self.world.topics.contains_key(&topic) {
                self.make_topic(TopicSpec { name: topic.clone(), age_ms_max: None, bytes_max: None });
            }
            for queue in self.queues_of(&envelope, &frame) {
                self.offer(&queue, &envelope, &frame);
            }
            let mut topics = self.topics_of(&envelope, &frame);
            if !topics.contains(&topic) {
                topics.insert(0, topic);
            }
            for topic in topics {
                self.append(Some(topic), envelope.clone(), frame.clone(), Gate::Logged(self.pass()));
            }
            if let Some(group) = self.group_mut(&key) {
                group.dying.remove(&offset);
                group.counts.dead_lettered += group.settle(&[offset]);
            }
            self.met("an event was dead-lettered");
        }
        Ok(())
    }

    /// The envelope and frame of the dead letter that a dying event becomes.
    fn buried_event(&self, key: &GroupKey, offset: u64) -> Option<(Envelope, Frame)> {
        let group = &self.world.groups[key];
        let event = &self.events[self.event_of(&key.0, offset)?];
        let (reason, dead) = (*group.dying.get(&offset)?, group.spec.dead_letter_topic.clone()?);
        let mut envelope = event.envelope.clone();
        let same = |d: &Death| d.queue == key.1 && d.reason == reason;
        let mut death = envelope.deaths.iter().find(|d| same(d)).cloned().unwrap_or(Death {
            queue: key.1.clone(),
            reason,
            exchange: envelope.exchange.clone(),
            keys: envelope.keys.clone(),
            count: 0,
            time_ms: self.now.wall_ms,
            ttl_ms: envelope.ttl_ms,
        });
        death.count += 1;
        envelope.deaths.retain(|d| !same(d));
        envelope.deaths.insert(0, death);
        envelope.deaths.truncate(crate::limits::DEATHS_MAX);
        (envelope.expires_at_ms, envelope.ttl_ms, envelope.deliver_at_ms, envelope.dedup) =
            (0, None, 0, None);
        envelope.exchange = Name::from_static(crate::AMQ_TOPIC);
        envelope.keys = smallvec::smallvec![dead];
        envelope.attempts = group.attempts(offset) + 1;
        Some((envelope, event.frame.clone()))
    }

    /// Takes over what the broker chose; an error when it might not.
    pub(in crate::fold) fn adopt(&mut self, key: &GroupKey, shown: &Shown) -> Result<(), String> {
        let wrong = |what: String| Err(format!("group {key:?}: {what}, {shown:?}"));
        let Some(group) = self.world.groups.get(key) else { return wrong("it is not there".to_owned()) };
        let topic = self.world.topics.get(&key.0).ok_or("a group without a topic")?;
        let (mut expired, mut skipped) = (Vec::new(), Vec::new());
        for offset in group.floor..topic.next.max(shown.floor) {
            match (group.is_open(offset), shown.is_settled(offset)) {
                (true, true) => {
                    if !group.is_ready(offset, self.now.wall_ms) {
                        return wrong(format!("{offset} is settled and was not even ready: {group:?}"));
                    }
                    // by those who were members at some moment of this pass
                    let skips = |members: &BTreeMap<_, MemberNow>| {
                        !members.is_empty() && !self.is_taken_by_some(group, offset, members.values())
                    };
                    if group.lately.is_empty() {
                        return wrong(format!("{offset} is settled without members"));
                    } else if self.is_too_old(group, offset) {
                        expired.push(offset);
                    } else if group.spec.distribution == Distribution::Filtered
                        && (skips(&group.members) || skips(&group.lately))
                    {
                        skipped.push(offset);
                    } else {
                        return wrong(format!("{offset} is settled, nobody did that: {group:?}"));
                    }
                }
                (false, false) => return wrong(format!("{offset} is not settled: {group:?}")),
                _ => {}
            }
        }
        if !expired.is_empty() {
            self.met("events of a group expired");
        }
        if !skipped.is_empty() {
            self.met("events matched no filter");
        }
        let last = expired.iter().chain(&skipped).max().copied();
        let Some(group) = self.group_mut(key) else { return Ok(()) };
        group.counts.expired += group.settle(&expired);
        group.counts.skipped += group.settle(&skipped);
        group.high = group.high.max(last.map_or(0, |last| last + 1));
        let failed: Vec<u64> = group.failed.keys().copied().collect();
        if !failed.iter().eq(shown.failed.iter().map(|(offset, ..)| offset)) {
            return wrong(format!("failed are {failed:?}"));
        }
        for (offset, attempts, due_ms) in &shown.failed {
            let Some(wait) = group.failed.get_mut(offset) else { continue };
            let may = (wait.least_ms..=wait.most_ms).contains(due_ms);
            if wait.attempts != *attempts || !may {
                return wrong(format!("{offset} waits as {wait:?} says"));
            }
            (wait.least_ms, wait.most_ms) = (*due_ms, *due_ms);
        }
        if group.floor != shown.floor || group.counts != shown.counts {
            return wrong(format!("floor {} and {:?}", group.floor, group.counts));
        }
        Ok(())
    }
}
