//! Groups are declared, deleted and set to a place.

use std::collections::BTreeSet;

use super::super::Core;
use super::super::define::NO_IDS;
use super::super::live::QueueLive;
use super::{GroupLive, MemberKey, takers};
use crate::definition::TopicSpec;
use crate::error::BrokerError;
use crate::group::{GroupSpec, GroupStart};
use crate::ids::{Offset, QueueId, TopicId};
use crate::limits::GROUPS_MAX;
use crate::name::Name;
use crate::record::Record;
use crate::request::Reply;
use crate::state::TopicState;

impl Core {
    pub(in crate::fold) fn declare_group(
        &mut self,
        vhost: &Name,
        spec: GroupSpec,
    ) -> Result<Reply, BrokerError> {
        spec.check()?;
        if let Ok(id) = self.group_named(vhost, &spec.topic, &spec.name) {
            if let Some(current) = self.durable.group(id) {
                current.spec.check_equal(&spec)?;
            }
            return Ok(self.group_reply(id));
        }
        let count = self.durable.groups().filter(|g| g.vhost == *vhost).count();
        if count >= GROUPS_MAX {
            return Err(BrokerError::Limit { what: "groups of a vhost", max: GROUPS_MAX as u64 });
        }
        let topic = match self.editor.current().topic(vhost, &spec.topic) {
            Some(topic) => topic,
            None => {
                let topic = TopicSpec { name: spec.topic.clone(), age_ms_max: None, bytes_max: None };
                self.make_topic(vhost, topic)?
            }
        };
        let floor = self.durable.topic(topic).map_or(0, |t| place_of(t, spec.start));
        let id = self.durable.next_group().ok_or(NO_IDS)?;
        let spec = Box::new(GroupSpec { start: GroupStart::Offset(Offset(floor)), ..spec });
        let (lsn, _) =
            self.log(Record::DefineGroup { id, topic, vhost: vhost.clone(), spec, floor }, None, true);
        // events of before that may become durable before it: its members get them when it is durable itself
        self.opening.push_back((lsn, id));
        self.live.insert(id, QueueLive { opens_at: lsn, ..takers() });
        self.groups.live.insert(id, GroupLive { cursor: floor, ..GroupLive::default() });
        self.know_group(id);
        Ok(self.group_reply(id))
    }

    pub(in crate::fold) fn delete_group(
        &mut self,
        vhost: &Name,
        topic: &Name,
        group: &Name,
    ) -> Result<Reply, BrokerError> {
        let id = self.group_named(vhost, topic, group)?;
        let lag = self.group_lag(id);
        self.forget_group(id);
        self.log(Record::DeleteGroup { id }, None, true);
        Ok(Reply::Removed { messages: lag })
    }

    /// The groups of a topic that goes; its own record takes them out of the log.
    pub(in crate::fold) fn forget_groups_of(&mut self, topic: TopicId) {
        for id in self.groups.of(topic) {
            self.forget_group(id);
        }
    }

    fn forget_group(&mut self, id: QueueId) {
        self.end_takers(id);
        self.forget_live(id);
        self.groups.live.remove(&id);
        let Some(group) = self.durable.group(id) else { return };
        if let Some(groups) = self.groups.of.get_mut(&group.topic) {
            groups.retain(|g| *g != id);
            if groups.is_empty() {
                self.groups.of.remove(&group.topic);
            }
        }
        let Some(dead) = group.spec.dead_letter_topic.clone() else { return };
        let name = (group.vhost.clone(), dead);
        if let Some(count) = self.groups.dead.get_mut(&name) {
            *count -= 1;
            if *count == 0 {
                self.groups.dead.remove(&name);
            }
        }
    }

    /// A group is found by its topic, and its dead-letter topic is known as one.
    pub(super) fn know_group(&mut self, id: QueueId) {
        let Some(group) = self.durable.group(id) else { return };
        self.groups.of.entry(group.topic).or_default().push(id);
        if let Some(dead) = group.spec.dead_letter_topic.clone() {
            *self.groups.dead.entry((group.vhost.clone(), dead)).or_default() += 1;
        }
    }

    pub(in crate::fold) fn seek_group(
        &mut self,
        vhost: &Name,
        topic: &Name,
        group: &Name,
        to: GroupStart,
    ) -> Result<Reply, BrokerError> {
        let id = self.group_named(vhost, topic, group)?;
        let floor = self.group_and_topic(id).map_or(0, |(_, topic)| place_of(topic, to));
        self.log(Record::SeekGroup { id, floor }, None, true);
        let voided = self.void_leases(id);
        self.uncache_queue(id);
        self.delivered.insert(id);
        if let Some(live) = self.live.get_mut(&id) {
            if let Some(group) = self.groups.live.get_mut(&id) {
                group.seen = group.seen.max(group.passed);
                group.cursor = floor;
                group.returned.clear();
                group.due.clear();
                group.due_at.clear();
                group.dying.clear();
                group.assigned = 0;
                group.members.values_mut().for_each(|m| m.assigned.clear());
            }
            live.undeliverable.clear();
            (live.held, live.leased) = (0, 0);
        }
        for (connection, consumer) in voided {
            self.wake_consumer(connection, consumer);
            self.forget_empty_holder(connection, consumer);
        }
        self.mark_dirty(id);
        Ok(self.group_reply(id))
    }

    /// Ends all leases of a group; gives whose they were. Settling them is an unknown delivery from now on.
    fn void_leases(&mut self, id: QueueId) -> Vec<MemberKey> {
        let mut voided = Vec::new();
        let mut pools = BTreeSet::new();
        // leases of connections that are gone, on their way back
        self.void_work(id);
        let holders = self.live.get(&id).map(|l| l.holders.clone()).unwrap_or_default();
        for (connection_id, consumer) in holders {
            let Some(connection) = self.connections.get_mut(&connection_id) else { continue };
            let Some(holder) = connection.consumers.get_mut(&consumer) else { continue };
            let held = std::mem::take(&mut holder.held);
            if held.is_empty() {
                continue;
            }
            for token in held.values().filter_map(|h| h.token) {
                self.tokens.remove(&token);
            }
            if let Some(pool) = holder.pool.and_then(|p| connection.pools.get_mut(&p)) {
                pool.used = pool.used.saturating_sub(u32::try_from(held.len()).unwrap_or(u32::MAX));
            }
            pools.extend(holder.pool.map(|pool| (connection_id, pool)));
            voided.push((connection_id, consumer));
        }
        for (connection, pool) in pools {
            self.wake_pool(connection, pool);
        }
        voided
    }
}

/// Offset of a place in a topic.
pub(super) fn place_of(topic: &TopicState, place: GroupStart) -> u64 {
    let (first, next) = (topic.entries.first(), topic.entries.next());
    match place {
        GroupStart::Earliest => first,
        GroupStart::Latest => next,
        GroupStart::Offset(offset) => offset.0.clamp(first, next),
        GroupStart::Time(time_ms) => topic.since(time_ms).clamp(first, next),
    }
}
