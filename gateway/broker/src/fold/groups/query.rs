//! Questions about groups and topics' kept events. Read only; bodies are read by the pool.

use framegate_storage::Lsn;

use super::super::postponed::Postponed;
use super::super::reader::HistoryJob;
use super::super::{AnswerTo, Core};
use super::define::place_of;
use super::{MemberKey, MemberLive};
use crate::error::{BrokerError, Kind};
use crate::group::{GroupInfo, GroupStart, HistoryQuery, MemberInfo, MemberState, Presence};
use crate::ids::{Offset, QueueId};
use crate::limits::{GROUP_GAP_MAX, HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX, SLOW_MEMBER_MS};
use crate::name::Name;
use crate::request::Reply;
use crate::state::OPEN_BLOCK;

impl Core {
    /// All groups of a vhost, or of one topic.
    pub(in crate::fold) fn groups_query(
        &self,
        vhost: &Name,
        topic: Option<&Name>,
    ) -> Result<Reply, BrokerError> {
        if let Some(topic) = topic {
            self.topic_named(vhost, topic).ok_or_else(|| Self::missing(Kind::Topic, topic, vhost))?;
        }
        let wanted = self.durable.groups().filter(|g| g.vhost == *vhost);
        let wanted = wanted.filter(|g| topic.is_none_or(|t| g.spec.topic == *t));
        let mut groups: Vec<GroupInfo> = wanted.filter_map(|g| self.group_info(g.id)).collect();
        groups.sort_by(|a, b| (&a.spec.topic, &a.spec.name).cmp(&(&b.spec.topic, &b.spec.name)));
        Ok(Reply::Groups(groups))
    }

    /// Who hears of a topic.
    pub(in crate::fold) fn presence(&self, vhost: &Name, topic: &Name) -> Result<Reply, BrokerError> {
        let id = self.editor.current().topic(vhost, topic);
        let id = id.ok_or_else(|| Self::missing(Kind::Topic, topic, vhost))?;
        let members = self.groups.of(id).into_iter().flat_map(|g| self.members(g)).collect();
        Ok(Reply::Presence(Presence { subscribers: self.editor.subscribers(vhost, topic), members }))
    }

    /// A group as it is now.
    pub(super) fn group_info(&self, id: QueueId) -> Option<GroupInfo> {
        let (state, live) = (self.durable.group(id)?, self.live.get(&id)?);
        let group = self.groups.live.get(&id)?;
        Some(GroupInfo {
            spec: state.spec.clone(),
            floor: Offset(state.floor()),
            settled_above: state.settled().len(),
            gaps: state.settled().run_count() as u64,
            lag: self.group_lag(id),
            unacked: live.leased,
            waiting: group.due.len() as u64,
            paused: state.next_open(group.cursor) >= state.floor() + GROUP_GAP_MAX,
            counts: state.counts,
            members: self.members(id),
        })
    }

    /// The answer to a declare.
    pub(super) fn group_reply(&self, id: QueueId) -> Reply {
        self.group_info(id).map_or(Reply::Done, |info| Reply::Group(Box::new(info)))
    }

    /// One group.
    pub(in crate::fold) fn group_query(
        &self,
        vhost: &Name,
        topic: &Name,
        group: &Name,
    ) -> Result<Reply, BrokerError> {
        self.group_named(vhost, topic, group).map(|id| self.group_reply(id))
    }

    /// Events that a group has not settled.
    pub(in crate::fold) fn group_lag(&self, id: QueueId) -> u64 {
        let Some((group, topic)) = self.group_and_topic(id) else { return 0 };
        topic.entries.next().saturating_sub(group.floor()).saturating_sub(group.settled().len())
    }

    fn members(&self, id: QueueId) -> Vec<MemberInfo> {
        let (Some(group), Some(state)) = (self.groups.live.get(&id), self.durable.group(id)) else {
            return Vec::new();
        };
        let name = &state.spec.name;
        let mut members: Vec<MemberInfo> =
            group.members.iter().map(|(key, member)| self.member_info(name, *key, member)).collect();
        members.sort_by_key(|m| (m.since_ms, m.connection, m.consumer));
        members
    }

    fn member_info(&self, group: &Name, key: MemberKey, member: &MemberLive) -> MemberInfo {
        let connection = self.connections.get(&key.0);
        let held = connection.and_then(|c| c.consumers.get(&key.1)).map_or(0, |c| c.held.len() as u64);
        let slow = member.full_since_ms.is_some_and(|s| self.now.mono_ms.saturating_sub(s) > SLOW_MEMBER_MS);
        MemberInfo {
            group: group.clone(),
            name: member.name.clone(),
            connection: key.0,
            consumer: key.1,
            label: connection.map(|c| c.label.clone()).unwrap_or_default(),
            user: connection.map(|c| c.user.clone()).unwrap_or_default(),
            since_ms: member.since_ms,
            unacked: held,
            assigned: member.assigned.len() as u64,
            state: if slow { MemberState::Slow } else { MemberState::Healthy },
        }
    }

    /// Kept events of a topic; the answer comes when they have been read. It ends before an event whose body is being
    /// written again, and waits when that is the first one.
    pub(in crate::fold) fn history(&mut self, to: AnswerTo, vhost: &Name, query: HistoryQuery) {
        match self.history_job(to, vhost, &query) {
            Ok(None) => self.postpone(Postponed::History(to, vhost.clone(), query)),
            Ok(Some(job)) => {
                if let Err(error) = self.reader.history(job) {
                    self.answer(to, Lsn(0), Err(error));
                }
            }
            Err(error) => self.answer(to, Lsn(0), Err(error)),
        }
    }

    /// `None`: the first body cannot be read before the open block is closed.
    fn history_job(
        &self,
        to: AnswerTo,
        vhost: &Name,
        query: &HistoryQuery,
    ) -> Result<Option<HistoryJob>, BrokerError> {
        let id = self.editor.current().topic(vhost, &query.topic);
        let found = id.and_then(|id| Some((id, self.durable.topic(id)?)));
        let (id, topic) = found.ok_or_else(|| Self::missing(Kind::Topic, &query.topic, vhost))?;
        let max = u64::from(query.max.clamp(1, HISTORY_EVENTS_MAX));
        let upto = self.visible_to;
        let shown = topic.after(upto);
        let until = query.until_ms.map_or(shown, |ms| topic.since(ms.saturating_add(1)));
        let end = query.before.map_or(shown, |b| b.0).min(shown).min(until);
        let mut offset = match query.from {
            GroupStart::Latest => end.saturating_sub(max).max(topic.entries.first()),
            place => place_of(topic, place),
        };
        let (mut events, mut bytes) = (Vec::new(), 0);
        while offset < end && (events.len() as u64) < max && bytes < HISTORY_BYTES_MAX {
            let Some(entry) = topic.entries.get(offset) else { break };
            if entry.block == OPEN_BLOCK {
                if events.is_empty() {
                    return Ok(None);
                }
                break;
            }
            bytes += entry.len as usize;
            events.push(self.unread(id, topic, offset, entry));
            offset += 1;
        }
        Ok(Some(HistoryJob { to, events, next: (offset < end).then_some(Offset(offset)) }))
    }
}
