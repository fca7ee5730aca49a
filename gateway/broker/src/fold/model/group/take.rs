//! Deliveries of a group's events: to whom, in which order, how often, and that nobody who can take one goes without.

use std::rc::Rc;

use super::{Group, GroupKey, Whom};
use crate::fold::model::consumer::{Terms, terms_of};
use crate::fold::model::driver::text;
use crate::fold::model::{Lease, Model};
use crate::group::Distribution;
use crate::limits::GROUP_GAP_MAX;
use crate::message::{Delivery, Envelope, Position};
use crate::name::Name;

impl Model {
    /// Place of an event in the list of all.
    pub(super) fn event_of(&self, topic: &Name, offset: u64) -> Option<usize> {
        let topic = self.world.topics.get(topic)?;
        topic.events.get(usize::try_from(offset.checked_sub(topic.first())?).ok()?).copied()
    }

    /// It is too old to be delivered.
    pub(super) fn is_too_old(&self, group: &Group, offset: u64) -> bool {
        let Some(at) = self.event_of(&group.spec.topic, offset) else { return false };
        let (event, now) = (&self.events[at].envelope, self.now.wall_ms);
        let old = group.spec.ttl_ms.is_some_and(|ttl| event.time_ms + ttl <= now);
        old || (event.expires_at_ms != 0 && event.expires_at_ms <= now)
    }

    fn key_of(&self, group: &Group, offset: u64) -> Option<String> {
        let at = self.event_of(&group.spec.topic, offset)?;
        self.events[at].frame.attr(group.attribute()?).map(str::to_owned)
    }

    /// Whether a filter of these members takes an event.
    pub(super) fn is_taken_by_some<'m>(
        &self,
        group: &Group,
        offset: u64,
        members: impl Iterator<Item = &'m super::MemberNow>,
    ) -> bool {
        let Some(at) = self.event_of(&group.spec.topic, offset) else { return false };
        let event = &self.events[at];
        let mut members = members;
        members.any(|m| m.filter.as_ref().is_none_or(|f| f.matches(&event.envelope, &event.frame)))
    }

    /// An event goes to a member: is it its turn, and is everything that is said of it so?
    pub(in crate::fold::model) fn give_event(
        &mut self,
        key: &GroupKey,
        whom: Whom,
        terms: Terms,
        delivery: &Delivery,
    ) -> Result<(), String> {
        let now = self.now;
        let group = Rc::clone(self.world.groups.get(key).ok_or("its group is gone")?);
        let Position::Queue(seq) = delivery.position else { return Err("a position in a topic".to_owned()) };
        let offset = seq.0;
        let at = self.event_of(&key.0, offset).ok_or(format!("event {offset} is not kept"))?;
        let event = &self.events[at];
        if self.lo(event.gate) > self.synced || self.lo(group.gate) > self.synced {
            return Err(format!("event {offset} is delivered before it is durable"));
        }
        if !group.is_ready(offset, now.wall_ms) {
            return Err(format!("event {offset} is not ready: {group:?}"));
        }
        if self.is_too_old(&group, offset) {
            return Err(format!("event {offset} is too old"));
        }
        if offset >= group.floor + GROUP_GAP_MAX {
            return Err("the gap is too long".to_owned());
        }
        if event.frame.as_bytes() != delivery.frame.as_bytes() {
            return Err(format!("'{}', not '{}'", text(&delivery.frame), text(&event.frame)));
        }
        let attempts = group.attempts(offset);
        let shown = Envelope { attempts, ..event.envelope.clone() };
        if delivery.envelope != shown || delivery.attempt != attempts + 1 {
            return Err(format!("{:?} attempt {}, not {shown:?}", delivery.envelope, delivery.attempt));
        }
        let must = attempts > 0 || offset < group.seen;
        let must_not = group.is_balanced() && attempts == 0 && offset >= group.high;
        if (must && !delivery.redelivered) || (must_not && delivery.redelivered) {
            return Err(format!(
                "redelivered {}, seen {} high {}",
                delivery.redelivered, group.seen, group.high
            ));
        }
        if delivery.token.is_some() != (terms.tokens && !terms.auto_ack) {
            return Err(format!("token {:?}", delivery.token));
        }
        if delivery.origin.name != key.0 || delivery.origin.seq != offset {
            return Err(format!("origin {:?}", delivery.origin));
        }
        if !group.lately.contains_key(&whom) {
            return Err("it is no member".to_owned());
        }
        self.check_turn(&group, whom, offset)?;
        let (sticky, pass) = (self.key_of(&group, offset), self.pass());
        let deadline_ms = terms.lease_ms.map(|lease| now.mono_ms + lease);
        let lease = Lease { connection: whom.0, consumer: whom.1, deadline_ms, token: delivery.token };
        let redelivered = delivery.redelivered;
        let Some(group) = self.group_mut(key) else { return Ok(()) };
        if let Some(sticky) = sticky {
            let came = group.came;
            group.owners.insert(sticky, (whom, came, pass));
        }
        group.high = group.high.max(offset + 1);
        group.sure = group.sure.max(offset + 1);
        if terms.auto_ack {
            group.settle(&[offset]);
        } else {
            group.leases.insert(offset, lease);
        }
        self.met(if redelivered { "an event again" } else { "an event of a group" });
        Ok(())
    }

    /// A pull from a group is decided.
    pub(in crate::fold::model) fn accept_events(
        &mut self,
        key: &GroupKey,
        id: crate::ids::ConnectionId,
        waiter: &crate::fold::model::Waiter,
        messages: &[Delivery],
        remaining: u64,
        is_cold: bool,
    ) -> Result<(), String> {
        let fetch = &waiter.fetch;
        let (before, terms) = (self.world.clone(), terms_of(fetch));
        for delivery in messages {
            if let Err(why) = self.give_event(key, (id, fetch.consumer), terms, delivery) {
                self.world = before;
                return Err(why);
            }
        }
        let group = &self.world.groups[key];
        let was_over = messages.is_empty() && waiter.deadline_ms < self.now.mono_ms;
        let fewer = messages.len() < fetch.max as usize && group.is_balanced() && !was_over;
        let why = match self.certain_event(group) {
            Some(offset) if fewer && self.is_open() && (messages.is_empty() || !is_cold) => {
                Some(format!("it was given fewer than there are: {offset} is ready"))
            }
            _ if messages.len() > fetch.max as usize => Some("too many".to_owned()),
            _ if messages.is_empty() && waiter.deadline_ms > self.now.mono_ms => {
                Some("an empty answer before its time".to_owned())
            }
            // it may have been decided before a sweep
            _ if remaining > self.world.topics[&key.0].next => Some(format!("{remaining} remaining")),
            _ => None,
        };
        if let Some(why) = why {
            self.world = before;
            return Err(why);
        }
        self.met(if messages.is_empty() { "an empty pull of a group" } else { "pulled from a group" });
        Ok(())
    }

    /// By the group's rule it is this member's, and nothing comes before it.
    fn check_turn(&mut self, group: &Group, whom: Whom, offset: u64) -> Result<(), String> {
        let ready = |o: &u64| group.is_ready(*o, self.now.wall_ms) && !self.is_too_old(group, *o);
        match &group.spec.distribution {
            Distribution::LoadBalance => {
                if let Some(first) = (group.floor..offset).find(ready) {
                    return Err(format!("event {offset}, {first} is first"));
                }
            }
            Distribution::Sticky(_) => {
                let Some(key) = self.key_of(group, offset) else { return Ok(()) };
                let same = |o: &u64| self.key_of(group, *o).as_deref() == Some(key.as_str());
                if let Some(first) =
                    (group.floor..offset).filter(same).find(|o| group.attempts(*o) == 0 && ready(o))
                {
                    return Err(format!("event {offset} of key {key}, {first} is first"));
                }
                // a pull may have been decided before what else was heard in this pass
                let pulls = self.waiters.iter().any(|w| (w.connection, w.fetch.consumer) == whom);
                if let Some((owner, came, pass)) = group.owners.get(&key)
                    && !(pulls && *pass == self.pass())
                    && let Some(there) = group.members.get(owner)
                    && there.came <= *came
                    && *owner != whom
                    && group.lately.get(&whom).is_none_or(|m| m.came <= *came)
                {
                    return Err(format!(
                        "event {offset} of key {key} went to {whom:?}, {owner:?} has that key"
                    ));
                }
                self.met("a sticky event");
            }
            Distribution::Filtered => {
                if !self.is_taken_by_some(group, offset, group.lately.get(&whom).into_iter()) {
                    return Err(format!("event {offset} does not match the member's filter"));
                }
                self.met("a filtered event");
            }
        }
        Ok(())
    }

    /// An event that certainly can be delivered now, to members who all can take one.
    pub(in crate::fold::model) fn certain_event(&self, group: &Group) -> Option<u64> {
        let topic =
            self.world.topics.get(&group.spec.topic).filter(|_| self.hi(group.gate) <= self.durable)?;
        let end = topic.next.min(group.floor + GROUP_GAP_MAX);
        let durable = |o: &u64| {
            let at = self.event_of(&group.spec.topic, *o);
            at.is_some_and(|at| self.hi(self.events[at].gate) <= self.durable)
        };
        let wanted = |o: &u64| match group.spec.distribution {
            Distribution::Filtered => self.is_taken_by_some(group, *o, group.members.values()),
            _ => true,
        };
        let ready = |o: &u64| {
            group.is_ready(*o, self.now.wall_ms)
                && group.failed.get(o).is_none_or(|w| w.most_ms <= self.now.wall_ms)
                && !self.is_too_old(group, *o)
        };
        (group.floor..end).find(|o| durable(o) && ready(o) && wanted(o))
    }

    /// Nobody who can take an event waits while there is one.
    pub(in crate::fold::model) fn all_events_given(&self) -> Result<(), String> {
        if !self.is_open() {
            return Ok(());
        }
        for (key, group) in &self.world.groups {
            let waits = |whom: &Whom| {
                let pulls =
                    |w: &&crate::fold::model::Waiter| w.connection == whom.0 && w.fetch.consumer == whom.1;
                self.waiters.iter().any(|w| w.incarnation == group.incarnation && pulls(&w))
            };
            let able = |whom: &Whom| {
                let known = self.connections.get(&whom.0).and_then(|c| Some((c, c.consumers.get(&whom.1)?)));
                waits(whom)
                    || known.is_some_and(|(connection, known)| {
                        self.can_take(whom.0, whom.1, known)
                            && (!self.is_tight || connection.decided.is_empty())
                    })
            };
            let enough = match group.is_balanced() {
                true => group.members.keys().any(able),
                false => !group.members.is_empty() && group.members.keys().all(able),
            };
            if let Some(offset) = enough.then(|| self.certain_event(group)).flatten() {
                return Err(format!("event {offset} of {key:?} is ready and members can take it: {group:?}"));
            }
        }
        Ok(())
    }
}
