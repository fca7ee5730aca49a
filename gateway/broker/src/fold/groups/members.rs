//! Members of groups: who joins and leaves, what was chosen for them, how they keep up.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::consume::has_credit;
use super::super::{AnswerTo, Core};
use super::MemberKey;
use crate::error::BrokerError;
use crate::group::{Distribution, Filter, Member};
use crate::ids::{ConnectionId, ConsumerId, QueueId};
use crate::name::Name;
use crate::request::{Consume, Fetch, Reply};
use crate::state::is_group;

/// A member of a group.
pub(super) struct MemberLive {
    pub(super) name: Option<Name>,
    pub(super) filter: Option<Arc<dyn Filter>>,
    /// Wall time in ms at which it came.
    pub(super) since_ms: u64,
    /// Monotonic time in ms since when it holds all that it may hold; None: it does not.
    pub(super) full_since_ms: Option<u64>,
    /// Offsets chosen for it.
    pub(super) assigned: BTreeSet<u64>,
    /// When something was last chosen for it.
    pub(super) turn: u64,
}

impl Core {
    /// A consumer becomes a member.
    pub(in crate::fold) fn consume_group(
        &mut self,
        id: ConnectionId,
        vhost: &Name,
        mut consume: Consume,
        member: Member,
    ) -> Result<Reply, BrokerError> {
        let group = self.group_named(vhost, &consume.queue, &member.group)?;
        let lease_ms = self.durable.group(group).and_then(|g| g.spec.lease_ms);
        consume.lease_ms = consume.lease_ms.or(lease_ms);
        let consumer = consume.consumer;
        let reply = self.consume_at(id, vhost, group, consume)?;
        self.member_joins(group, (id, consumer), member);
        Ok(reply)
    }

    /// A pull: its holder is a member while it waits.
    pub(in crate::fold) fn fetch_group(
        &mut self,
        to: AnswerTo,
        connection: ConnectionId,
        vhost: &Name,
        mut fetch: Fetch,
        member: Member,
    ) {
        let group = match self.group_named(vhost, &fetch.queue, &member.group) {
            Ok(group) => group,
            Err(error) => return self.answer(to, framegate_storage::Lsn(0), Err(error)),
        };
        let lease_ms = self.durable.group(group).and_then(|g| g.spec.lease_ms);
        fetch.lease_ms = fetch.lease_ms.or(lease_ms);
        self.fetch_at(to, connection, group, fetch, Some(member));
    }

    /// From now on events are chosen for it too. What waits for others is chosen again.
    pub(in crate::fold) fn member_joins(&mut self, id: QueueId, key: MemberKey, member: Member) {
        let now = self.now.wall_ms;
        let Some(group) = self.groups.live.get_mut(&id) else { return };
        if group.members.contains_key(&key) {
            return;
        }
        let filter = member.filter;
        let (assigned, full_since_ms) = (BTreeSet::new(), None);
        let live = MemberLive {
            name: member.name,
            filter,
            since_ms: now,
            full_since_ms,
            assigned,
            turn: group.turn,
        };
        group.members.insert(key, live);
        let balanced =
            self.durable.group(id).is_some_and(|g| g.spec.distribution == Distribution::LoadBalance);
        if !balanced {
            let keys: Vec<MemberKey> =
                self.groups.live.get(&id).map(|g| g.members.keys().copied().collect()).unwrap_or_default();
            for key in keys {
                self.unassign(id, key);
            }
        }
        self.mark_dirty(id);
    }

    /// Nothing is chosen for it any more; what was goes to others.
    pub(in crate::fold) fn member_leaves(
        &mut self,
        id: QueueId,
        connection: ConnectionId,
        consumer: ConsumerId,
    ) {
        if !is_group(id) {
            return;
        }
        self.unassign(id, (connection, consumer));
        if let Some(group) = self.groups.live.get_mut(&id) {
            group.members.remove(&(connection, consumer));
        }
        self.mark_dirty(id);
    }

    fn unassign(&mut self, id: QueueId, key: MemberKey) {
        let Some(group) = self.groups.live.get_mut(&id) else { return };
        let Some(member) = group.members.get_mut(&key) else { return };
        let assigned = std::mem::take(&mut member.assigned);
        group.assigned -= assigned.len();
        group.returned.extend(assigned);
    }

    /// A member can take one now. When it may hold no more, that is noted.
    pub(super) fn member_can_take(&mut self, id: QueueId, key: MemberKey) -> bool {
        if self.can_take(key.0, key.1) {
            return true;
        }
        let full = self.connections.get(&key.0).is_some_and(|connection| {
            connection.consumers.get(&key.1).is_some_and(|c| !has_credit(c, &connection.pools))
        });
        let now = self.now.mono_ms;
        let member = self.groups.live.get_mut(&id).and_then(|g| g.members.get_mut(&key));
        if let Some(member) = member.filter(|_| full) {
            member.full_since_ms.get_or_insert(now);
        }
        false
    }

    /// A member settled something.
    pub(in crate::fold) fn member_settles(
        &mut self,
        id: QueueId,
        connection: ConnectionId,
        consumer: ConsumerId,
    ) {
        let group = self.groups.live.get_mut(&id);
        if let Some(member) = group.and_then(|g| g.members.get_mut(&(connection, consumer))) {
            member.full_since_ms = None;
        }
    }
}
