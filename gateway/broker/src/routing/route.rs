//! Routing: a pure function of a topology, an exchange, keys and headers. Decides where a message goes; whether it
//! may, and what becomes of it there, is not its business.

use smallvec::SmallVec;

use super::entries::{End, Entry};
use super::headers::HeadersOf;
use super::seen::Seen;
use super::targets::Targets;
use super::topology::{Exchange, Table, Topology, Vhost};
use crate::definition::{ExchangeKind, HashProperty};
use crate::error::{BrokerError, Kind};
use crate::ids::WatchId;
use crate::name::Name;

/// What the bindings of one exchange gave for one message.
#[derive(Debug, Default)]
pub(super) struct Found<'t> {
    pub(super) entries: SmallVec<[&'t Entry; 8]>,
    pub(super) comparisons: u64,
}

/// What routing may look at.
pub(crate) struct Parts<'m> {
    /// Routing keys, at least one.
    pub(crate) keys: &'m [Name],
    /// Hands every header to its argument; called only when an exchange asks for headers, up to twice.
    pub(crate) headers: &'m HeadersOf<'m>,
    /// A property, if the message has it.
    pub(crate) property: &'m dyn Fn(HashProperty) -> Option<String>,
    /// Its time has not come: an exchange for delayed messages holds it.
    pub(crate) delayed: bool,
}

impl Topology {
    /// As `route_parts`, for a message of headers alone that is not delayed.
    ///
    /// # Errors
    /// `NotFound` for the exchange or the vhost; `out` is unchanged then.
    pub(crate) fn route(
        &self,
        vhost: &str,
        exchange: &str,
        keys: &[Name],
        headers: &HeadersOf<'_>,
        out: &mut Targets,
    ) -> Result<(), BrokerError> {
        let parts = Parts { keys, headers, property: &|_| None, delayed: false };
        self.route_parts(vhost, exchange, &parts, out)
    }

    /// Adds to `out` where a message published to `exchange` with these keys goes. Exchanges bound to exchanges are
    /// followed, each visited once; an exchange where nothing matched hands over to its alternate exchange.
    /// A delayed exchange notes a message whose time has not come, and hands it to nobody.
    ///
    /// # Errors
    /// `NotFound` for the exchange or the vhost; `out` is unchanged then.
    pub(crate) fn route_parts(
        &self,
        vhost: &str,
        exchange: &str,
        parts: &Parts<'_>,
        out: &mut Targets,
    ) -> Result<(), BrokerError> {
        out.version = self.version;
        let tables = self.vhosts.get(vhost).ok_or_else(|| not_found(Kind::Vhost, vhost, vhost))?;
        let first =
            tables.exchanges.get(exchange).ok_or_else(|| not_found(Kind::Exchange, exchange, vhost))?;
        let mut walk = Walk { vhost: tables, parts, out, pending: SmallVec::new(), visited: Seen::default() };
        walk.go(first);
        out.dedup();
        Ok(())
    }

    /// Adds the watches that see what is published to a topic of that name; each once.
    pub(crate) fn watches(&self, vhost: &str, topic: &str, out: &mut SmallVec<[WatchId; 2]>) {
        let Some(vhost) = self.vhosts.get(vhost) else { return };
        let mut targets = Targets { watches: std::mem::take(out), ..Targets::default() };
        vhost.watched(topic, &mut targets);
        targets.dedup();
        *out = targets.watches;
    }
}

fn not_found(kind: Kind, name: &str, vhost: &str) -> BrokerError {
    let shortened = |text: &str| Name::new(text).unwrap_or_default();
    BrokerError::NotFound { kind, name: shortened(name), vhost: shortened(vhost) }
}

/// A message on its way through the exchanges of a vhost.
struct Walk<'t, 'm> {
    vhost: &'t Vhost,
    parts: &'m Parts<'m>,
    out: &'m mut Targets,
    /// Exchanges still to visit; each was met once.
    pending: SmallVec<[&'t Exchange; 4]>,
    visited: Seen,
}

impl<'t> Walk<'t, '_> {
    fn go(&mut self, first: &'t Exchange) {
        self.visited.first_ref(first);
        self.pending.push(first);
        let mut next = 0;
        // Breadth first, in a list that only grows: its length is bounded by the exchanges there are.
        while let Some(exchange) = self.pending.get(next).copied() {
            next += 1;
            if !self.visit(exchange)
                && let Some(alternate) = &exchange.spec.alternate
            {
                self.follow(alternate);
            }
        }
    }

    /// Takes what one exchange gives; false when that is nothing.
    fn visit(&mut self, exchange: &'t Exchange) -> bool {
        if self.parts.delayed && matches!(exchange.spec.kind, ExchangeKind::Delayed(_)) {
            self.out.parked.push(exchange.spec.name.clone());
            return true;
        }
        let mut found = Found::default();
        let mut reached = false;
        let keys = self.parts.keys;
        match &exchange.table {
            Table::Names => keys.iter().for_each(|key| reached |= self.vhost.named(key, self.out)),
            Table::Topics(trie) => {
                for key in keys {
                    trie.find(key, &mut found);
                    reached |= self.vhost.kept(key, self.out);
                    reached |= self.vhost.watched(key, self.out);
                }
            }
            Table::Direct(direct) => keys.iter().for_each(|key| direct.find(key, &mut found)),
            Table::Fanout(fanout) => fanout.find(&mut found),
            Table::Topic(trie) => keys.iter().for_each(|key| trie.find(key, &mut found)),
            Table::Headers(headers) => headers.find(self.parts.headers, &mut found),
            Table::Hashed(hashed) => hashed.find(self.parts, &mut found),
        }
        self.out.comparisons += found.comparisons;
        // Sorted already for a direct exchange with one key and for a fanout.
        if !found.entries.is_sorted_by_key(|entry| entry.order) {
            found.entries.sort_unstable_by_key(|entry| entry.order);
        }
        for entry in &found.entries {
            match &entry.end {
                End::Queue(id) => self.out.queues.push(*id),
                End::Watch(id) => self.out.watches.push(*id),
                End::Topic(id) => self.out.topics.push(*id),
                End::Exchange(name) => self.follow(name),
            }
        }
        reached || !found.entries.is_empty()
    }

    fn follow(&mut self, name: &str) {
        if let Some(exchange) = self.vhost.exchanges.get(name)
            && self.visited.first_ref(&**exchange)
        {
            self.pending.push(exchange);
        }
    }
}

impl Vhost {
    /// The default exchange: the queue of that name, else the topic of that name with everybody who watches it.
    fn named(&self, key: &str, out: &mut Targets) -> bool {
        out.comparisons += 1;
        if let Some(id) = self.queues.get(key) {
            out.queues.push(*id);
            return true;
        }
        let kept = self.kept(key, out);
        if kept {
            // Whoever subscribes to a topic sees all that it keeps.
            self.watched(key, out);
        }
        kept
    }

    /// The topic of that name.
    fn kept(&self, key: &str, out: &mut Targets) -> bool {
        if self.topics.is_empty() {
            return false;
        }
        out.comparisons += 1;
        let Some(id) = self.topics.get(key) else { return false };
        out.topics.push(*id);
        true
    }

    /// The live subscriptions with a pattern that matches.
    fn watched(&self, key: &str, out: &mut Targets) -> bool {
        let mut found = Found::default();
        self.watches.find(key, &mut found);
        out.comparisons += found.comparisons;
        found.entries.sort_unstable_by_key(|entry| entry.order);
        out.watches.extend(found.entries.iter().filter_map(|entry| match entry.end {
            End::Watch(id) => Some(id),
            End::Queue(_) | End::Exchange(_) | End::Topic(_) => None,
        }));
        !found.entries.is_empty()
    }
}
