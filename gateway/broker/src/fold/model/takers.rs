//! Who can take what is ready, by credit, pool and turn; and that nobody who can goes without.

use super::consumer::Consumer;
use super::{Model, Queue, Waiter};
use crate::ids::{ConnectionId, ConsumerId};

/// How much longer than asked for a pull may wait.
const PATIENCE_MS: u64 = 5;

/// Messages may be pushed to that consumer, as far as the queue has a single active one.
pub(super) fn is_active(queue: &Queue, id: ConnectionId, consumer: ConsumerId) -> bool {
    !queue.spec.properties.single_active || queue.active == Some((id, consumer))
}

impl Model {
    /// Somebody takes from a queue, or waits to.
    pub(super) fn has_takers(&self, queue: &Queue) -> bool {
        self.consumers(queue) > 0 || self.waiters.iter().any(|w| w.is_for(queue))
    }

    /// Somebody can take the head of a queue now.
    pub(super) fn is_wanted(&self, queue: &Queue) -> bool {
        let of = |id: ConnectionId, (consumer, known): (&ConsumerId, &Consumer)| {
            known.active
                && known.incarnation == queue.incarnation
                && is_active(queue, id, *consumer)
                && self.has_credit(id, *consumer, known)
        };
        let waits = self.waiters.iter().any(|w| w.is_for(queue));
        self.head(queue).is_some()
            && (waits
                || self.connections.iter().any(|(id, c)| c.consumers.iter().any(|known| of(*id, known))))
    }

    pub(super) fn can_take(&self, id: ConnectionId, consumer: ConsumerId, known: &Consumer) -> bool {
        let queue = self.world.queues.get(&known.queue).filter(|q| q.incarnation == known.incarnation);
        queue.is_none_or(|q| is_active(q, id, consumer))
            && known.active
            && known.announced
            && self.has_credit(id, consumer, known)
    }

    pub(super) fn has_credit(&self, id: ConnectionId, consumer: ConsumerId, known: &Consumer) -> bool {
        if known.terms.auto_ack {
            return known.prefetch != Some(0);
        }
        let room = |limit: Option<u32>, used: usize| limit.is_none_or(|limit| used < limit as usize);
        let Some(connection) = self.connections.get(&id) else { return false };
        let pooled = known.pool.is_none_or(|pool| {
            let members = connection.consumers.iter().filter(|(_, c)| c.pool == Some(pool));
            let used = members.map(|(c, _)| self.holds(id, *c)).sum();
            room(connection.pools.get(&pool).copied().flatten(), used)
        });
        pooled && room(known.prefetch, self.holds(id, consumer))
    }

    /// It holds all that it may hold.
    pub(in crate::fold) fn is_full(&self, whom: (ConnectionId, ConsumerId)) -> bool {
        let known = self.connections.get(&whom.0).and_then(|c| c.consumers.get(&whom.1));
        known.is_some_and(|known| !self.has_credit(whom.0, whom.1, known))
    }

    /// Nobody who can take a message waits while one is ready.
    pub(super) fn all_given(&mut self) -> Result<(), String> {
        for (name, queue) in &self.world.queues {
            if !self.certain_head(queue) {
                continue;
            }
            if let Some(waiter) = self.waiters.iter().find(|w| w.incarnation == queue.incarnation) {
                return Err(format!("{name} has ready messages and {waiter:?} waits"));
            }
            for (id, connection) in &self.connections {
                // a pull that is decided and not answered yet fills a small window
                if self.is_tight && !connection.decided.is_empty() {
                    continue;
                }
                let idle = |(c, known): &(&ConsumerId, &Consumer)| {
                    known.incarnation == queue.incarnation && self.can_take(*id, **c, known)
                };
                if let Some((consumer, _)) = connection.consumers.iter().find(idle) {
                    return Err(format!(
                        "{name} has ready messages and consumer {consumer} of {id} can take"
                    ));
                }
            }
        }
        let open = |w: &Waiter| {
            let queue = self.world.queues.get(&w.fetch.queue).filter(|q| w.is_for(q));
            let group = self.world.groups.values().find(|g| g.incarnation == w.incarnation);
            queue.is_none_or(|q| self.hi(q.gate) <= self.durable)
                && group.is_none_or(|g| self.hi(g.gate) <= self.durable)
        };
        let now_ms = self.now.mono_ms;
        let over = |w: &Waiter| w.orphan || (self.is_open() && open(w) && w.deadline_ms <= now_ms);
        // what had to be read went to others just now: it looks once more
        let misses = |w: &Waiter| {
            let queue = self.world.queues.get(&w.fetch.queue).filter(|q| w.is_for(q));
            self.is_tight && queue.is_some_and(|q| q.used_ms == now_ms)
        };
        let over: Vec<_> = self.waiters.iter().map(|w| (over(w), misses(w))).collect();
        for (waiter, (over, misses)) in self.waiters.iter_mut().zip(over) {
            if misses && waiter.over_ms.is_some() {
                waiter.over_ms = Some(now_ms);
            }
            // it may look once more whether its message has been read
            if over && waiter.over_ms.is_some_and(|since| since + PATIENCE_MS <= now_ms) {
                return Err(format!("{waiter:?} waits too long"));
            }
            if over {
                waiter.over_ms.get_or_insert(now_ms);
            }
        }
        Ok(())
    }
}
