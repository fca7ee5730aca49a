//! The editor of the topology, owned by the fold thread. Edits are cheap and invisible until `publish` gives the next
//! snapshot. It refuses nothing that `check_bind` would refuse: whoever edits has decided before.

use std::collections::HashMap;
use std::sync::Arc;

use super::book::Book;
use super::entries::{End, Entry};
use super::hash::Seed;
use super::route::Found;
use super::topology::{Exchange, Table, Topology, Vhost};
use super::watches::Watches;
use super::{hashed, headers};
use crate::definition::{BindTarget, BindingSpec, ExchangeKind, ExchangeSpec};
use crate::error::{BrokerError, Kind};
use crate::event::{AMQ_EVENT, EventKind};
use crate::ids::{QueueId, TopicId, WatchId};
use crate::name::Name;

/// Edits the topology; see the module.
#[derive(Debug)]
pub(crate) struct TopologyEditor {
    pub(super) current: Arc<Topology>,
    dirty: bool,
    /// Kinds of broker events that somebody is bound for, in some vhost: one bit each.
    wanted: u32,
    pub(super) books: HashMap<Name, Book, Seed>,
    pub(super) watches: Watches,
}

/// What an edit took away besides what it named.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Removed {
    /// Bindings, in the order in which they were made.
    pub(crate) bindings: Vec<BindingSpec>,
    /// Auto-delete exchanges that lost their last binding by this: the caller deletes them next.
    pub(crate) unused: Vec<Name>,
}

impl TopologyEditor {
    /// These vhosts with their predeclared exchanges, and nothing else. The first `publish` gives them.
    pub(crate) fn new(vhosts: &[Name]) -> Self {
        let tables = vhosts.iter().map(|name| (name.clone(), Arc::new(Vhost::new()))).collect();
        Self {
            current: Arc::new(Topology { version: 0, vhosts: tables }),
            dirty: true,
            wanted: 0,
            books: vhosts.iter().map(|name| (name.clone(), Book::default())).collect(),
            watches: Watches::default(),
        }
    }

    /// The next snapshot; None when nothing changed since the last.
    pub(crate) fn publish(&mut self) -> Option<Arc<Topology>> {
        std::mem::take(&mut self.dirty).then(|| Arc::clone(&self.current))
    }

    /// Version of the topology with every edit so far.
    pub(crate) fn version(&self) -> u64 {
        self.current.version
    }

    /// The topology with every edit so far, published or not.
    pub(crate) fn current(&self) -> &Topology {
        &self.current
    }

    /// Adds an exchange; an exchange of that name stays as it is. True when it was added.
    pub(crate) fn declare_exchange(&mut self, vhost: &str, spec: ExchangeSpec) -> bool {
        let Some(tables) = self.edit(vhost) else { return false };
        if tables.exchanges.get(&*spec.name).is_some() {
            return false;
        }
        tables.exchanges.insert(spec.name.clone(), Arc::new(Exchange::new(spec)));
        true
    }

    /// Deletes an exchange with all bindings on it and to it. Missing is no error.
    pub(crate) fn delete_exchange(&mut self, vhost: &str, name: &Name) -> Removed {
        let Some(book) = self.books.get(vhost) else { return Removed::default() };
        let mut places: Vec<(Name, u64)> =
            book.hanging_on(name).into_iter().map(|order| (name.clone(), order)).collect();
        let to_itself = |place: &(Name, u64)| place.0 != *name;
        places.extend(book.leading_to(&BindTarget::Exchange(name.clone())).into_iter().filter(to_itself));
        let mut removed = self.take_bindings(vhost, places);
        removed.unused.retain(|unused| unused != name);
        if let Some(tables) = self.edit(vhost) {
            tables.exchanges.remove(&**name);
        }
        removed
    }

    /// Whether a binding may be made: exchange and target exist, the exchange is not the default one, the arguments
    /// make sense. True when it would be a new one.
    ///
    /// # Errors
    /// `NotFound`, `Reserved`, or `Invalid` arguments.
    pub(crate) fn check_bind(&self, vhost: &Name, binding: &BindingSpec) -> Result<bool, BrokerError> {
        let missing =
            |kind, name: &Name| BrokerError::NotFound { kind, name: name.clone(), vhost: vhost.clone() };
        let tables = self.current.vhosts.get(vhost).ok_or_else(|| missing(Kind::Vhost, vhost))?;
        let reserved = || BrokerError::Reserved { kind: Kind::Exchange, name: Name::default() };
        if binding.exchange.is_empty() {
            return Err(reserved());
        }
        match &binding.target {
            BindTarget::Exchange(name) if name.is_empty() => return Err(reserved()),
            BindTarget::Exchange(name) if tables.exchanges.get(&**name).is_none() => {
                return Err(missing(Kind::Exchange, name));
            }
            BindTarget::Queue(name) if tables.queues.get(&**name).is_none() => {
                return Err(missing(Kind::Queue, name));
            }
            BindTarget::Topic(name) if tables.topics.get(&**name).is_none() => {
                return Err(missing(Kind::Topic, name));
            }
            BindTarget::Exchange(_) | BindTarget::Queue(_) | BindTarget::Topic(_) => {}
        }
        let exchange = tables
            .exchanges
            .get(&*binding.exchange)
            .ok_or_else(|| missing(Kind::Exchange, &binding.exchange))?;
        match exchange.spec.kind.routes_as() {
            ExchangeKind::Headers => headers::check(&binding.arguments)?,
            ExchangeKind::ConsistentHash(_) => hashed::weight(&binding.key).map(drop)?,
            _ => {}
        }
        Ok(self.books.get(vhost).is_some_and(|book| !book.contains(binding)))
    }

    /// Makes a binding. False when it is there already, or leads from or to nothing.
    pub(crate) fn bind(&mut self, vhost: &str, binding: &BindingSpec) -> bool {
        let Some(tables) = self.current.vhosts.get(vhost) else { return false };
        let end = match &binding.target {
            BindTarget::Queue(name) => tables.queues.get(&**name).copied().map(End::Queue),
            BindTarget::Exchange(name) => tables.exchanges.get(&**name).map(|_| End::Exchange(name.clone())),
            BindTarget::Topic(name) => tables.topics.get(&**name).copied().map(End::Topic),
        };
        let bindable =
            tables.exchanges.get(&*binding.exchange).is_some_and(|e| !matches!(e.table, Table::Names));
        let (Some(end), true, Some(book)) = (end, bindable, self.books.get_mut(vhost)) else { return false };
        let Some(order) = book.add(binding.clone()) else { return false };
        self.edit_table(vhost, &binding.exchange, |table| table.bind(binding, Entry { order, end }));
        self.note_wanted(&binding.exchange);
        true
    }

    /// Removes a binding. Nothing is in the result when it was not there.
    pub(crate) fn unbind(&mut self, vhost: &str, binding: &BindingSpec) -> Removed {
        match self.books.get(vhost).and_then(|book| book.order_of(binding)) {
            Some(order) => self.take_bindings(vhost, vec![(binding.exchange.clone(), order)]),
            None => Removed::default(),
        }
    }

    /// Names a queue.
    pub(crate) fn add_queue(&mut self, vhost: &str, name: Name, id: QueueId) {
        if let Some(tables) = self.edit(vhost) {
            tables.queues.insert(name, id);
        }
    }

    /// Forgets a queue and the bindings to it.
    pub(crate) fn remove_queue(&mut self, vhost: &str, name: &Name) -> Removed {
        let Some(book) = self.books.get(vhost) else { return Removed::default() };
        let places = book.leading_to(&BindTarget::Queue(name.clone()));
        let removed = self.take_bindings(vhost, places);
        if let Some(tables) = self.edit(vhost) {
            tables.queues.remove(&**name);
        }
        removed
    }

    /// Names a topic.
    pub(crate) fn add_topic(&mut self, vhost: &str, name: Name, id: TopicId) {
        if let Some(tables) = self.edit(vhost) {
            tables.topics.insert(name, id);
        }
    }

    /// Forgets a topic and the bindings to it.
    pub(crate) fn remove_topic(&mut self, vhost: &str, name: &Name) -> Removed {
        let Some(book) = self.books.get(vhost) else { return Removed::default() };
        let places = book.leading_to(&BindTarget::Topic(name.clone()));
        let removed = self.take_bindings(vhost, places);
        if let Some(tables) = self.edit(vhost) {
            tables.topics.remove(&**name);
        }
        removed
    }

    /// Counts one more live subscription to these patterns. The same set of patterns has the same id; true when this
    /// is the first subscription to it.
    pub(crate) fn add_watch(&mut self, vhost: &Name, patterns: &[Name]) -> (WatchId, bool) {
        let (id, new) = self.watches.add(vhost, patterns);
        if let (true, Some(watch)) = (new, self.watches.get(id)) {
            let patterns = watch.patterns.clone();
            if let Some(tables) = self.edit(vhost) {
                for pattern in patterns {
                    tables.watches.bind(&pattern, Entry { order: id.0.into(), end: End::Watch(id) });
                }
            }
        }
        (id, new)
    }

    /// Counts one live subscription less; true when nobody watches these patterns any more. An unknown id is no error.
    pub(crate) fn remove_watch(&mut self, id: WatchId) -> bool {
        let Some(watch) = self.watches.remove(id) else { return false };
        if let Some(tables) = self.edit(&watch.vhost) {
            for pattern in &watch.patterns {
                tables.watches.unbind(pattern, id.0.into());
            }
        }
        true
    }

    /// Somebody may be bound for a kind of broker event, in some vhost. One test of one bit.
    #[inline]
    pub(crate) fn wants(&self, kind: EventKind) -> bool {
        self.wanted & kind.bit() != 0
    }

    /// Finds out anew which events are wanted, when the bindings of their exchange have changed.
    fn note_wanted(&mut self, exchange: &str) {
        if exchange != AMQ_EVENT {
            return;
        }
        let is_wanted = |kind: &EventKind| {
            self.current.vhosts.values().filter_map(|tables| tables.exchanges.get(AMQ_EVENT)).any(|events| {
                let mut found = Found::default();
                if let Table::Topic(trie) = &events.table {
                    trie.find(kind.name(), &mut found);
                }
                !found.entries.is_empty()
            })
        };
        self.wanted =
            EventKind::ALL.iter().filter(|kind| is_wanted(kind)).fold(0, |set, kind| set | kind.bit());
    }

    /// The tables of a vhost for a change; copied when the last snapshot holds them.
    fn edit(&mut self, vhost: &str) -> Option<&mut Vhost> {
        let topology = Arc::make_mut(&mut self.current);
        // the first edit since the last snapshot makes the next one
        topology.version += u64::from(!std::mem::replace(&mut self.dirty, true));
        topology.vhosts.get_mut(vhost).map(Arc::make_mut)
    }

    fn edit_table(&mut self, vhost: &str, exchange: &str, change: impl FnOnce(&mut Table)) {
        let exchange = self.edit(vhost).and_then(|tables| tables.exchanges.get_mut(exchange));
        if let Some(exchange) = exchange {
            change(&mut Arc::make_mut(exchange).table);
        }
    }

    /// Removes the bindings at these places.
    fn take_bindings(&mut self, vhost: &str, mut places: Vec<(Name, u64)>) -> Removed {
        places.sort_unstable_by_key(|(_, order)| *order);
        let mut removed = Removed::default();
        for (exchange, order) in places {
            let binding = self.books.get_mut(vhost).and_then(|book| book.remove(&exchange, order));
            let Some(binding) = binding else { continue };
            self.edit_table(vhost, &exchange, |table| table.unbind(&binding, order));
            self.note_wanted(&exchange);
            let auto_delete = self.current.exchange(vhost, &exchange).is_some_and(|spec| spec.auto_delete);
            if auto_delete && !self.is_used(vhost, &exchange) {
                removed.unused.push(exchange);
            }
            removed.bindings.push(Arc::unwrap_or_clone(binding));
        }
        removed
    }
}
