//! What there is: the questions of the fold and of operators, answered from the editor's state with every edit so
//! far. Changes nothing.

use std::sync::Arc;

use super::editor::TopologyEditor;
use super::pattern::pattern_matches;
use super::route::Found;
use crate::definition::{BindTarget, BindingSpec, ExchangeSpec};
use crate::ids::{TopicId, WatchId};
use crate::name::Name;
use crate::request::BindingInfo;

/// How much a vhost holds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) exchanges: usize,
    pub(crate) queues: usize,
    pub(crate) topics: usize,
    pub(crate) bindings: usize,
    pub(crate) watches: usize,
}

impl TopologyEditor {
    /// Vhost and patterns of a watch; the patterns are sorted.
    #[cfg(test)]
    pub(crate) fn watch(&self, id: WatchId) -> Option<(&Name, &[Name])> {
        self.watches.get(id).map(|watch| (&watch.vhost, watch.patterns.as_slice()))
    }

    /// The topics that a watch replays: those whose names match one of its patterns, in no order.
    pub(crate) fn topics_of(&self, id: WatchId) -> Vec<(Name, TopicId)> {
        let Some(watch) = self.watches.get(id) else { return Vec::new() };
        let Some(tables) = self.current.vhosts.get(&watch.vhost) else { return Vec::new() };
        let is_pattern = |pattern: &Name| pattern.contains(['*', '#']);
        if !watch.patterns.iter().any(is_pattern) {
            let named = |name: &Name| Some((name.clone(), *tables.topics.get(&**name)?));
            return watch.patterns.iter().filter_map(named).collect();
        }
        let matches = |name: &Name| watch.patterns.iter().any(|pattern| pattern_matches(pattern, name));
        tables.topics.iter().filter(|(name, _)| matches(name)).map(|(name, id)| (name.clone(), *id)).collect()
    }

    /// Live subscriptions with a pattern that matches a topic name.
    pub(crate) fn subscribers(&self, vhost: &str, topic: &str) -> u32 {
        let Some(tables) = self.current.vhosts.get(vhost) else { return 0 };
        let mut found = Found::default();
        tables.watches.find(topic, &mut found);
        let mut ids: Vec<u64> = found.entries.iter().map(|entry| entry.order).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().map(|id| self.watches.subscribers(WatchId(id as u32))).sum()
    }

    /// Whether a binding hangs on the exchange.
    pub(crate) fn is_used(&self, vhost: &str, exchange: &str) -> bool {
        self.books.get(vhost).is_some_and(|book| book.is_used(exchange))
    }

    /// Whether a binding leads to the topic.
    pub(crate) fn is_bound(&self, vhost: &str, topic: &Name) -> bool {
        let target = BindTarget::Topic(topic.clone());
        self.books.get(vhost).is_some_and(|book| !book.leading_to(&target).is_empty())
    }

    /// Every exchange, by name.
    pub(crate) fn exchanges(&self, vhost: &str) -> Vec<&ExchangeSpec> {
        let Some(tables) = self.current.vhosts.get(vhost) else { return Vec::new() };
        let mut specs: Vec<&ExchangeSpec> =
            tables.exchanges.iter().map(|(_, exchange)| &exchange.spec).collect();
        specs.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        specs
    }

    /// Bindings of one exchange or of all, leading to one queue or anywhere, in the order in which they were made.
    pub(crate) fn bindings(
        &self,
        vhost: &str,
        exchange: Option<&str>,
        queue: Option<&Name>,
    ) -> Vec<BindingInfo> {
        let Some(book) = self.books.get(vhost) else { return Vec::new() };
        let info = |binding: Arc<BindingSpec>| BindingInfo {
            exchange: binding.exchange.clone(),
            target: binding.target.clone(),
            key: binding.key.clone(),
            arguments: binding.arguments.clone(),
        };
        book.list(exchange, queue).into_iter().map(info).collect()
    }

    /// How much the vhost holds.
    pub(crate) fn counts(&self, vhost: &str) -> Counts {
        let (Some(tables), Some(book)) = (self.current.vhosts.get(vhost), self.books.get(vhost)) else {
            return Counts::default();
        };
        Counts {
            exchanges: tables.exchanges.len(),
            queues: tables.queues.len(),
            topics: tables.topics.len(),
            bindings: book.len(),
            watches: self.watches.count(vhost),
        }
    }
}
