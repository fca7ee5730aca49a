//! The bindings of one vhost in full, as they were given, for the editor's questions: which are there, which hang on an
//! exchange, which lead somewhere. Routing reads the tables of the snapshot instead.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::hash::Seed;
use super::value::Value;
use crate::definition::{BindTarget, BindingSpec};
use crate::name::Name;

/// What makes two bindings of an exchange the same: target, key and arguments, whatever their order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Identity {
    target: BindTarget,
    key: Name,
    arguments: Vec<(Name, Value<'static>)>,
}

impl Identity {
    fn of(binding: &BindingSpec) -> Self {
        let mut arguments: Vec<_> =
            binding.arguments.iter().map(|(name, value)| (name.clone(), Value(value.clone()))).collect();
        arguments.sort_by(|a, b| a.0.cmp(&b.0));
        Self { target: binding.target.clone(), key: binding.key.clone(), arguments }
    }
}

/// Bindings of one exchange.
#[derive(Debug, Default)]
struct OfExchange {
    by_order: BTreeMap<u64, Arc<BindingSpec>>,
    by_identity: HashMap<Identity, u64, Seed>,
}

/// All bindings of a vhost.
#[derive(Debug, Default)]
pub(super) struct Book {
    exchanges: HashMap<Name, OfExchange, Seed>,
    by_target: HashMap<BindTarget, BTreeSet<(Name, u64)>, Seed>,
    last_order: u64,
    len: usize,
}

impl Book {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether a binding hangs on the exchange.
    pub(super) fn is_used(&self, exchange: &str) -> bool {
        self.exchanges.contains_key(exchange)
    }

    pub(super) fn contains(&self, binding: &BindingSpec) -> bool {
        self.order_of(binding).is_some()
    }

    /// Enters a binding; its order, or None when it is there already.
    pub(super) fn add(&mut self, binding: BindingSpec) -> Option<u64> {
        let of_exchange = self.exchanges.entry(binding.exchange.clone()).or_default();
        let identity = Identity::of(&binding);
        if of_exchange.by_identity.contains_key(&identity) {
            return None;
        }
        self.last_order += 1;
        self.len += 1;
        let order = self.last_order;
        of_exchange.by_identity.insert(identity, order);
        self.by_target.entry(binding.target.clone()).or_default().insert((binding.exchange.clone(), order));
        of_exchange.by_order.insert(order, Arc::new(binding));
        Some(order)
    }

    /// The order of a binding, if it is there.
    pub(super) fn order_of(&self, binding: &BindingSpec) -> Option<u64> {
        self.exchanges.get(&binding.exchange)?.by_identity.get(&Identity::of(binding)).copied()
    }

    /// Strikes out a binding.
    pub(super) fn remove(&mut self, exchange: &str, order: u64) -> Option<Arc<BindingSpec>> {
        let of_exchange = self.exchanges.get_mut(exchange)?;
        let binding = of_exchange.by_order.remove(&order)?;
        of_exchange.by_identity.remove(&Identity::of(&binding));
        if of_exchange.by_order.is_empty() {
            self.exchanges.remove(exchange);
        }
        if let Some(places) = self.by_target.get_mut(&binding.target) {
            places.remove(&(binding.exchange.clone(), order));
            if places.is_empty() {
                self.by_target.remove(&binding.target);
            }
        }
        self.len -= 1;
        Some(binding)
    }

    /// Exchange and order of every binding that leads to `target`.
    pub(super) fn leading_to(&self, target: &BindTarget) -> Vec<(Name, u64)> {
        self.by_target.get(target).map(|places| places.iter().cloned().collect()).unwrap_or_default()
    }

    /// The order of every binding that hangs on `exchange`.
    pub(super) fn hanging_on(&self, exchange: &str) -> Vec<u64> {
        self.exchanges.get(exchange).map(|of| of.by_order.keys().copied().collect()).unwrap_or_default()
    }

    /// Bindings of one exchange or of all, leading to one queue (or the topic under that name) or anywhere; in the order in which they were made.
    pub(super) fn list(&self, exchange: Option<&str>, queue: Option<&Name>) -> Vec<Arc<BindingSpec>> {
        let mut found: Vec<(u64, Arc<BindingSpec>)> = match (exchange, queue) {
            (_, Some(queue)) => self
                .leading_to(&BindTarget::Queue(queue.clone()))
                .into_iter()
                .chain(self.leading_to(&BindTarget::Topic(queue.clone())))
                .filter(|(on, _)| exchange.is_none_or(|exchange| on == exchange))
                .filter_map(|(on, order)| {
                    Some((order, self.exchanges.get(&on)?.by_order.get(&order)?.clone()))
                })
                .collect(),
            (Some(exchange), None) => {
                self.exchanges.get(exchange).into_iter().flat_map(OfExchange::all).collect()
            }
            (None, None) => self.exchanges.values().flat_map(OfExchange::all).collect(),
        };
        found.sort_unstable_by_key(|(order, _)| *order);
        found.into_iter().map(|(_, binding)| binding).collect()
    }
}

impl OfExchange {
    fn all(&self) -> impl Iterator<Item = (u64, Arc<BindingSpec>)> {
        self.by_order.iter().map(|(order, binding)| (*order, Arc::clone(binding)))
    }
}
