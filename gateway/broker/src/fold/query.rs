//! Questions about what is there. Read only.

use super::delayed::is_hidden;
use super::{Core, DETACHED};
use crate::error::{BrokerError, Kind};
use crate::ids::{Offset, QueueId};
use crate::name::Name;
use crate::request::{ConnectionInfo, ExchangeInfo, Query, QueueInfo, Reply, Stats, TopicInfo};
use crate::state::TopicState;

impl Core {
    /// Answers a question about a vhost.
    pub(super) fn query(&self, vhost: &Name, query: Query) -> Result<Reply, BrokerError> {
        Ok(match query {
            Query::Queues => {
                let states = self
                    .durable
                    .queues()
                    .chain(self.volatile.queues())
                    .filter(|q| q.vhost == *vhost && !is_hidden(q));
                let mut queues: Vec<QueueInfo> = states.filter_map(|q| self.queue_info(q.id)).collect();
                queues.sort_by(|a, b| a.name.cmp(&b.name));
                Reply::Queues(queues)
            }
            Query::Queue(name) => {
                let id = self.editor.current().queue(vhost, &name);
                let info = id.and_then(|id| self.queue_info(id));
                Reply::Queue(info.ok_or_else(|| Self::missing(Kind::Queue, &name, vhost))?)
            }
            Query::Exchanges => {
                let mut exchanges: Vec<ExchangeInfo> =
                    self.editor.exchanges(vhost).into_iter().map(exchange_info).collect();
                exchanges.sort_by(|a, b| a.name.cmp(&b.name));
                Reply::Exchanges(exchanges)
            }
            Query::Bindings { exchange, queue } => {
                Reply::Bindings(self.editor.bindings(vhost, exchange.as_deref(), queue.as_ref()))
            }
            Query::Topics => {
                let mut topics: Vec<TopicInfo> =
                    self.durable.topics().filter(|t| t.vhost == *vhost).map(|t| self.topic_info(t)).collect();
                topics.sort_by(|a, b| a.name.cmp(&b.name));
                Reply::Topics(topics)
            }
            Query::Topic(name) => {
                let topic =
                    self.topic_named(vhost, &name).ok_or_else(|| Self::missing(Kind::Topic, &name, vhost))?;
                Reply::Topic(self.topic_info(topic))
            }
            Query::Events { after, max } => Reply::Events(self.kept_events(vhost, after, max as usize)),
            Query::Groups(topic) => self.groups_query(vhost, topic.as_ref())?,
            Query::Group { topic, group } => self.group_query(vhost, &topic, &group)?,
            Query::Presence(topic) => self.presence(vhost, &topic)?,
            // answered by the reader pool; nobody sends it here
            Query::History(_) => return Err(BrokerError::NotSupported { what: "a history query here" }),
            Query::Connections => {
                let mut connections: Vec<ConnectionInfo> = self
                    .connections
                    .iter()
                    .filter(|(id, _)| **id != DETACHED)
                    .map(|(id, c)| ConnectionInfo {
                        id: *id,
                        label: c.label.clone(),
                        user: c.user.clone(),
                        vhost: c.vhost.clone(),
                        consumers: u32::try_from(c.consumers.values().filter(|c| c.active).count())
                            .unwrap_or(u32::MAX),
                        unacked: c.consumers.values().map(|c| c.held.len() as u64).sum(),
                    })
                    .collect();
                connections.sort_by_key(|c| c.id);
                Reply::Connections(connections)
            }
            Query::Stats => Reply::Stats(self.stats()),
        })
    }

    fn stats(&self) -> Stats {
        let mut stats = Stats {
            connections: (self.connections.len() as u64).saturating_sub(1),
            topics: self.durable.topics().count() as u64,
            subscriptions: self.shared.subscriptions(),
            ..Stats::default()
        };
        for queue in self.durable.queues().chain(self.volatile.queues()).filter(|q| !is_hidden(q)) {
            stats.queues += 1;
            stats.ready += self.ready_count(queue.id);
            if let Some(live) = self.live.get(&queue.id) {
                stats.unacked += live.leased;
                stats.consumers += u64::from(live.consumers);
            }
        }
        stats.exchanges = self.shared.vhosts.iter().map(|v| self.editor.exchanges(v).len() as u64).sum();
        stats
    }

    /// A queue as it is now.
    pub(super) fn queue_info(&self, id: QueueId) -> Option<QueueInfo> {
        let (state, live) = (self.state(id).queue(id)?, self.live.get(&id)?);
        Some(QueueInfo {
            name: state.spec.name.clone(),
            durable: state.spec.durable,
            exclusive: state.spec.exclusive,
            auto_delete: state.spec.auto_delete,
            properties: state.spec.properties.clone(),
            ready: self.ready_count(id),
            unacked: live.leased,
            bytes: state.bytes,
            consumers: live.consumers,
        })
    }

    /// The answer to a declare.
    pub(super) fn queue_reply(&self, id: QueueId) -> Reply {
        self.queue_info(id).map_or(Reply::Done, Reply::Queue)
    }

    /// An exchange as it is now.
    pub(super) fn exchange_info(&self, vhost: &Name, name: &Name) -> Result<ExchangeInfo, BrokerError> {
        let spec = self.editor.current().exchange(vhost, name);
        spec.map(exchange_info).ok_or_else(|| Self::missing(Kind::Exchange, name, vhost))
    }

    /// A topic by name.
    pub(super) fn topic_named(&self, vhost: &Name, name: &Name) -> Option<&TopicState> {
        self.durable.topic(self.editor.current().topic(vhost, name)?)
    }

    /// A topic as it is now.
    pub(super) fn topic_info(&self, topic: &TopicState) -> TopicInfo {
        TopicInfo {
            name: topic.spec.name.clone(),
            first: Offset(topic.entries.first()),
            next: Offset(topic.entries.next()),
            bytes: topic.bytes,
            subscribers: self.editor.subscribers(&topic.vhost, &topic.spec.name),
            age_ms_max: topic.spec.age_ms_max.unwrap_or(self.shared.limits.topic_age_ms_max),
            bytes_max: topic.spec.bytes_max.unwrap_or(self.shared.limits.topic_bytes_max),
        }
    }
}

fn exchange_info(spec: &crate::definition::ExchangeSpec) -> ExchangeInfo {
    ExchangeInfo {
        name: spec.name.clone(),
        kind: spec.kind.clone(),
        durable: spec.durable,
        auto_delete: spec.auto_delete,
        internal: spec.internal,
        alternate: spec.alternate.clone(),
    }
}
