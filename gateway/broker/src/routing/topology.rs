//! The topology: which exchanges, queues, topics, bindings and live subscriptions there are. An immutable snapshot
//! that publishers route by without a lock; `TopologyEditor` makes the next one. Knows names and ids, no messages.
//!
//! Everything is shared between snapshots: names stand in up to 64 `Arc` maps by hash, each exchange has one `Arc`
//! with its binding table, and tables are split again, so that a definition copies a few kilobytes, however much
//! there is.

use std::collections::HashMap;
use std::sync::Arc;

use super::direct::Direct;
use super::entries::Entry;
use super::fanout::Fanout;
use super::hash::Seed;
use super::hashed::Hashed;
use super::headers::Headers;
use super::shared_map::SharedMap;
use super::topic::Trie;
use crate::AMQ_TOPIC;
use crate::definition::{BindingSpec, ExchangeKind, ExchangeSpec};
use crate::event::AMQ_EVENT;
use crate::ids::{QueueId, TopicId};
use crate::name::Name;

/// Exchanges that every vhost has; all durable. The one for broker events is the broker's own to publish to.
pub(super) const PREDECLARED: [(&str, ExchangeKind, bool); 8] = [
    ("", ExchangeKind::Direct, false),
    ("amq.direct", ExchangeKind::Direct, false),
    ("amq.fanout", ExchangeKind::Fanout, false),
    (AMQ_TOPIC, ExchangeKind::Topic, false),
    ("amq.headers", ExchangeKind::Headers, false),
    ("amq.match", ExchangeKind::Headers, false),
    // clients of other brokers look for it; nothing is published to it
    ("amq.rabbitmq.trace", ExchangeKind::Topic, true),
    (AMQ_EVENT, ExchangeKind::Topic, true),
];

/// Whether the exchange is one that every vhost has and nobody may delete.
pub(crate) fn is_predeclared(exchange: &str) -> bool {
    PREDECLARED.iter().any(|(name, _, _)| *name == exchange)
}

/// A snapshot of all definitions that routing needs. A clone copies one pointer a vhost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Topology {
    /// Grows with each snapshot.
    pub(super) version: u64,
    pub(super) vhosts: HashMap<Name, Arc<Vhost>, Seed>,
}

/// One vhost: three namespaces, and the patterns of live topic subscriptions.
#[derive(Debug, Clone, Default)]
pub(super) struct Vhost {
    pub(super) exchanges: SharedMap<Name, Arc<Exchange>>,
    pub(super) queues: SharedMap<Name, QueueId>,
    pub(super) topics: SharedMap<Name, TopicId>,
    /// Entries lead to watches; they hang on `amq.topic`, beside its bindings.
    pub(super) watches: Trie,
}

/// An exchange and its bindings.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    pub(super) spec: ExchangeSpec,
    pub(super) table: Table,
}

/// Bindings, in the shape that the kind of the exchange looks them up in.
#[derive(Debug, Clone)]
pub(super) enum Table {
    /// The default exchange: every queue, then every topic, by its name. Has no bindings of its own.
    Names,
    /// `amq.topic`: its bindings, the topics by their names, and the watches.
    Topics(Trie),
    Direct(Direct),
    Fanout(Fanout),
    Topic(Trie),
    Headers(Headers),
    Hashed(Hashed),
}

impl Topology {
    /// The queue of that name.
    pub(crate) fn queue(&self, vhost: &str, name: &str) -> Option<QueueId> {
        self.vhosts.get(vhost)?.queues.get(name).copied()
    }

    /// The topic of that name.
    pub(crate) fn topic(&self, vhost: &str, name: &str) -> Option<TopicId> {
        self.vhosts.get(vhost)?.topics.get(name).copied()
    }

    /// The exchange of that name; the empty name is the default exchange.
    pub(crate) fn exchange(&self, vhost: &str, name: &str) -> Option<&ExchangeSpec> {
        self.vhosts.get(vhost)?.exchanges.get(name).map(|exchange| &exchange.spec)
    }

    /// Whether the vhost exists.
    #[cfg(test)]
    pub(crate) fn has_vhost(&self, name: &str) -> bool {
        self.vhosts.contains_key(name)
    }
}

impl Vhost {
    /// A vhost with the predeclared exchanges.
    pub(super) fn new() -> Self {
        let mut vhost = Self::default();
        for (name, kind, internal) in PREDECLARED {
            let (name, durable) = (Name::from_static(name), true);
            let spec = ExchangeSpec {
                name: name.clone(),
                kind,
                durable,
                auto_delete: false,
                internal,
                alternate: None,
            };
            vhost.exchanges.insert(name, Arc::new(Exchange::new(spec)));
        }
        vhost
    }
}

impl Exchange {
    pub(super) fn new(spec: ExchangeSpec) -> Self {
        let table = match (spec.kind.routes_as(), spec.name.as_str()) {
            (_, "") => Table::Names,
            (_, AMQ_TOPIC) => Table::Topics(Trie::default()),
            (ExchangeKind::Fanout, _) => Table::Fanout(Fanout::default()),
            (ExchangeKind::Topic, _) => Table::Topic(Trie::default()),
            (ExchangeKind::Headers, _) => Table::Headers(Headers::default()),
            (ExchangeKind::ConsistentHash(on), _) => Table::Hashed(Hashed::new(on.clone())),
            // what a delayed exchange routes as is never delayed itself
            (ExchangeKind::Direct | ExchangeKind::Delayed(_), _) => Table::Direct(Direct::default()),
        };
        Self { spec, table }
    }
}

impl Table {
    /// Adds a binding, whose order is above those of all others of the exchange.
    pub(super) fn bind(&mut self, binding: &BindingSpec, entry: Entry) {
        match self {
            Self::Names => {}
            Self::Direct(direct) => direct.bind(binding.key.clone(), entry),
            Self::Fanout(fanout) => fanout.bind(entry),
            Self::Topic(trie) | Self::Topics(trie) => trie.bind(&binding.key, entry),
            Self::Headers(headers) => headers.bind(&binding.arguments, entry),
            Self::Hashed(hashed) => hashed.bind(binding, entry),
        }
    }

    /// Removes a binding.
    pub(super) fn unbind(&mut self, binding: &BindingSpec, order: u64) {
        match self {
            Self::Names => {}
            Self::Direct(direct) => direct.unbind(&binding.key, order),
            Self::Fanout(fanout) => fanout.unbind(order),
            Self::Topic(trie) | Self::Topics(trie) => trie.unbind(&binding.key, order),
            Self::Headers(headers) => headers.unbind(&binding.arguments, order),
            Self::Hashed(hashed) => hashed.unbind(&binding.key, order),
        }
    }
}
