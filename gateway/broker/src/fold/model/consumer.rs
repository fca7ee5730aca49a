//! Connections, who takes messages, and what they may hold: deliveries are judged here, and settled.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::driver::text;
use super::expect::Expected;
use super::takers::is_active;
use super::{Answered, Gate, Lease, Message, Model, Place, Queue, Seen, What};
use crate::ids::{ConnectionId, ConsumerId, PoolId, RequestId, Seq};
use crate::message::{DeathReason, Delivery, Position};
use crate::name::Name;
use crate::request::{Consume, Credit, Fetch};

/// One connection.
#[derive(Debug, Default)]
pub(in crate::fold) struct Connection {
    pub(in crate::fold) consumers: BTreeMap<ConsumerId, Consumer>,
    pub(super) pools: BTreeMap<PoolId, Option<u32>>,
    pub(super) expected: VecDeque<Expected>,
    /// Pulls that are decided and whose answer waits for its turn: pass, and numbers.
    pub(super) decided: BTreeMap<RequestId, (usize, Vec<Position>)>,
}

/// A consumer, or somebody who holds pulled messages.
#[derive(Debug, Clone)]
pub(in crate::fold) struct Consumer {
    pub(in crate::fold) queue: Name,
    pub(super) incarnation: u64,
    pub(super) prefetch: Option<u32>,
    pub(super) pool: Option<PoolId>,
    pub(super) terms: Terms,
    pub(super) priority: i32,
    pub(in crate::fold) active: bool,
    /// The answer to its start was heard.
    pub(super) announced: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) auto_ack: bool,
    pub(super) lease_ms: Option<u64>,
    pub(super) tokens: bool,
}

pub(super) fn terms_of(fetch: &Fetch) -> Terms {
    Terms { auto_ack: fetch.auto_ack, lease_ms: fetch.lease_ms, tokens: fetch.tokens }
}

/// A pull that waits.
#[derive(Debug, Clone)]
pub(in crate::fold) struct Waiter {
    pub(super) connection: ConnectionId,
    pub(super) id: RequestId,
    pub(super) fetch: Fetch,
    pub(super) deadline_ms: u64,
    pub(super) incarnation: u64,
    /// Its queue is gone: the answer is empty.
    pub(super) orphan: bool,
    /// When its time was first found to be over.
    pub(super) over_ms: Option<u64>,
}

impl Waiter {
    pub(super) fn due_ms(&self) -> u64 {
        self.deadline_ms
    }

    pub(super) fn is_for(&self, queue: &Queue) -> bool {
        self.incarnation == queue.incarnation
    }
}

impl Model {
    pub(in crate::fold) fn connect(&mut self, id: ConnectionId) {
        self.connections.insert(id, Connection::default());
    }

    /// A connection is gone: what it holds returns, what is its own goes.
    pub(in crate::fold) fn disconnect(&mut self, id: ConnectionId) {
        let consumers: Vec<ConsumerId> =
            self.connections.get(&id).map(|c| c.consumers.keys().copied().collect()).unwrap_or_default();
        self.waiters.retain(|w| w.connection != id);
        // a queue that goes with its consumers goes with what they held
        for consumer in consumers {
            self.end_consumer(id, consumer);
        }
        for name in self.names() {
            let Some(queue) = self.queue_mut(&name) else { continue };
            let held = |m: &&Message| m.lease().is_some_and(|l| l.connection == id);
            let failed: Vec<u64> = queue.messages.iter().filter(held).map(|m| m.uid).collect();
            if !failed.is_empty() {
                self.met("leases of a lost connection");
                self.fail(&name, &failed, 0);
            }
        }
        self.return_group_leases(id, None);
        for name in self.names() {
            if self.world.queues.get(&name).is_some_and(|q| q.owner == Some(id)) {
                self.drop_queue(&name);
                self.met("an exclusive queue went");
            }
        }
        self.connections.remove(&id);
        self.forget_members();
    }

    /// Deliveries of these failed: they are ready again, after a delay, or died of it.
    pub(super) fn fail(&mut self, name: &Name, uids: &[u64], delay_ms: u64) {
        let due = self.now.mono_ms + delay_ms;
        let Some(queue) = self.queue_mut(name).filter(|_| !uids.is_empty()) else { return };
        let limit = queue.spec.properties.delivery_limit.unwrap_or(u32::MAX);
        let mut dead = Vec::new();
        for message in queue.messages.iter_mut().filter(|m| uids.contains(&m.uid)) {
            message.attempts += 1;
            message.place = if delay_ms == 0 { Place::Ready } else { Place::Delayed(due) };
            if message.attempts > limit {
                dead.push(message.uid);
            }
        }
        if !dead.is_empty() {
            self.met("delivered too often");
            self.dead_letter(name, &dead, DeathReason::DeliveryLimit);
        }
    }

    pub(super) fn names(&self) -> Vec<Name> {
        self.world.queues.keys().cloned().collect()
    }

    /// A queue that a connection may use.
    pub(super) fn usable(&self, id: ConnectionId, name: &Name) -> Result<&Queue, &'static str> {
        let queue = self.world.queues.get(name).ok_or("not found")?;
        if queue.owner.is_some_and(|owner| owner != id) { Err("locked") } else { Ok(queue) }
    }

    pub(super) fn holds(&self, id: ConnectionId, consumer: ConsumerId) -> usize {
        let held = |l: &Lease| l.connection == id && l.consumer == consumer;
        let queues = self.world.queues.values();
        let groups = self.world.groups.values().flat_map(|g| g.leases.values());
        queues.flat_map(|q| &q.messages).filter_map(|m| m.lease()).chain(groups).filter(|l| held(l)).count()
    }

    pub(in crate::fold) fn held_by(
        &self,
        id: ConnectionId,
    ) -> Vec<(ConsumerId, Seq, Option<crate::ids::Token>)> {
        let mut held = Vec::new();
        for queue in self.world.queues.values() {
            for message in &queue.messages {
                if let (Some(lease), Some(number)) = (message.lease(), queue.number(message))
                    && lease.connection == id
                {
                    held.push((lease.consumer, Seq(number), lease.token));
                }
            }
        }
        held
    }

    /// Consumers of a queue.
    pub(in crate::fold) fn consumers(&self, queue: &Queue) -> u32 {
        let of = |c: &&Consumer| c.active && c.incarnation == queue.incarnation;
        self.connections.values().map(|c| c.consumers.values().filter(of).count() as u32).sum()
    }

    /// Holders that hold nothing, to whom nothing is pushed and who wait for nothing are no longer known.
    pub(super) fn forget_holders(&mut self) {
        let mut gone = Vec::new();
        for (id, connection) in &self.connections {
            for (consumer, known) in &connection.consumers {
                let waits = self.waiters.iter().any(|w| w.connection == *id && w.fetch.consumer == *consumer);
                if !known.active && !waits && self.holds(*id, *consumer) == 0 {
                    gone.push((*id, *consumer));
                }
            }
        }
        for (id, consumer) in gone {
            self.connections.get_mut(&id).map(|c| c.consumers.remove(&consumer));
        }
        self.forget_members();
    }

    pub(super) fn consume(&mut self, id: ConnectionId, consume: &Consume) -> Answered {
        let queue = match self.usable(id, &consume.queue) {
            Ok(queue) => queue,
            Err(why) => return Answered::Because(why),
        };
        let (incarnation, count, taken) =
            (queue.incarnation, self.consumers(queue), queue.exclusive_consumer.is_some());
        let single = queue.spec.properties.single_active;
        if self.connections.get(&id).is_some_and(|c| c.consumers.contains_key(&consume.consumer)) {
            return Answered::Because("consumer exists");
        }
        if taken || (consume.exclusive && (count > 0 || single)) {
            return Answered::Because("locked");
        }
        let answer = self.start_consumer(id, consume, incarnation);
        if let Some(queue) = self.queue_mut(&consume.queue) {
            queue.join(consume.priority, (id, consume.consumer));
            if consume.exclusive {
                queue.exclusive_consumer = Some((id, consume.consumer));
            }
        }
        answer
    }

    /// A consumer of a queue or group, by its incarnation.
    pub(super) fn start_consumer(
        &mut self,
        id: ConnectionId,
        consume: &Consume,
        incarnation: u64,
    ) -> Answered {
        let Some(connection) = self.connections.get_mut(&id) else { return Answered::Refused };
        if connection.consumers.contains_key(&consume.consumer) {
            return Answered::Because("consumer exists");
        }
        if let Some(pool) = consume.pool {
            connection.pools.entry(pool).or_default();
        }
        let (auto_ack, lease_ms, tokens) = (consume.auto_ack, consume.lease_ms, consume.tokens);
        connection.consumers.insert(
            consume.consumer,
            Consumer {
                queue: consume.queue.clone(),
                incarnation,
                prefetch: consume.prefetch,
                pool: consume.pool,
                terms: Terms { auto_ack, lease_ms, tokens },
                priority: consume.priority,
                active: true,
                announced: false,
            },
        );
        Answered::Done
    }

    pub(super) fn credit(&mut self, id: ConnectionId, credit: Credit) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match credit {
            Credit::Consumer(consumer, limit) => {
                if let Some(known) = connection.consumers.get_mut(&consumer) {
                    known.prefetch = limit;
                }
            }
            Credit::Pool(pool, limit) => drop(connection.pools.insert(pool, limit)),
            Credit::Join(consumer, pool) => {
                if let Some(known) = connection.consumers.get_mut(&consumer) {
                    known.pool = Some(pool);
                }
            }
        }
    }

    pub(super) fn cancel(&mut self, id: ConnectionId, consumer: ConsumerId) -> Answered {
        let known = self.connections.get(&id).and_then(|c| c.consumers.get(&consumer));
        if !known.is_some_and(|c| c.active) {
            return Answered::Because("not found");
        }
        self.end_consumer(id, consumer);
        self.forget_holders();
        Answered::Done
    }

    fn end_consumer(&mut self, id: ConnectionId, consumer: ConsumerId) {
        let known = self.connections.get_mut(&id).and_then(|c| c.consumers.get_mut(&consumer));
        let Some(known) = known.filter(|c| c.active) else { return };
        known.active = false;
        let (name, incarnation) = (known.queue.clone(), known.incarnation);
        let Some(queue) = self.queue_mut(&name).filter(|q| q.incarnation == incarnation) else { return };
        if queue.exclusive_consumer == Some((id, consumer)) {
            queue.exclusive_consumer = None;
        }
        queue.leave((id, consumer));
        self.touch(&name);
        let Some(queue) = self.queue_mut(&name) else { return };
        if queue.spec.auto_delete && self.world.queues.get(&name).is_some_and(|q| self.consumers(q) == 0) {
            self.drop_queue(&name);
            self.met("an auto-delete queue went");
        }
    }

    /// Everybody who takes from a queue that goes is told.
    pub(super) fn end_takers(&mut self, name: &Name) {
        let Some(incarnation) = self.world.queues.get(name).map(|q| q.incarnation) else { return };
        let group = self.uid();
        self.end_takers_of(incarnation, group);
    }

    /// The same, of a queue or group; those of one `group` hear of it in any order.
    pub(super) fn end_takers_of(&mut self, incarnation: u64, group: u64) {
        for id in self.connections.keys().copied().collect::<Vec<_>>() {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            let of = |c: &Consumer| c.incarnation == incarnation;
            let ended: Vec<ConsumerId> =
                connection.consumers.iter().filter(|(_, c)| of(c) && c.active).map(|c| *c.0).collect();
            connection.consumers.retain(|_, c| !of(c));
            for consumer in ended {
                self.expect_in(id, Gate::Free, group, What::Cancelled(consumer));
            }
        }
        for waiter in self.waiters.iter_mut().filter(|w| w.incarnation == incarnation) {
            waiter.orphan = true;
        }
    }

    pub(super) fn fetch(&mut self, id: ConnectionId, request: RequestId, fetch: &Fetch) {
        let incarnation = match self.usable(id, &fetch.queue) {
            Ok(queue) => queue.incarnation,
            Err(why) => {
                return self.expect(id, Gate::Free, What::Reply(request, Answered::Because(why), None));
            }
        };
        // one that is refused is a use too: somebody wants what is there
        self.touch(&fetch.queue);
        if self.start_pull(id, request, fetch, incarnation) {
            self.expire(&fetch.queue);
        }
    }

    /// A pull of a queue or group; false when it is refused.
    pub(super) fn start_pull(
        &mut self,
        id: ConnectionId,
        request: RequestId,
        fetch: &Fetch,
        incarnation: u64,
    ) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        let known = connection.consumers.get(&fetch.consumer);
        if known.is_some_and(|c| c.incarnation != incarnation) {
            let why = Answered::Because("consumer exists");
            self.expect(id, Gate::Free, What::Reply(request, why, None));
            return false;
        }
        connection.consumers.entry(fetch.consumer).or_insert(Consumer {
            queue: fetch.queue.clone(),
            incarnation,
            prefetch: None,
            pool: None,
            terms: Terms { auto_ack: fetch.auto_ack, lease_ms: fetch.lease_ms, tokens: fetch.tokens },
            priority: 0,
            active: false,
            announced: false,
        });
        self.waiters.push(Waiter {
            connection: id,
            id: request,
            fetch: fetch.clone(),
            deadline_ms: self.now.mono_ms + fetch.wait_ms,
            incarnation,
            orphan: false,
            over_ms: None,
        });
        true
    }

    /// Something is pushed to a consumer.
    pub(in crate::fold) fn accept_delivery(
        &mut self,
        id: ConnectionId,
        delivery: &Delivery,
    ) -> Result<(), String> {
        let consumer = self.connections.get(&id).and_then(|c| c.consumers.get(&delivery.consumer));
        let consumer = consumer.filter(|c| c.active).ok_or("nothing may be pushed to that consumer")?;
        if !consumer.announced {
            return Err("its start is not answered".to_owned());
        }
        let queue = self.world.queues.get(&consumer.queue).filter(|q| q.incarnation == consumer.incarnation);
        if !queue.is_none_or(|q| is_active(q, id, delivery.consumer)) {
            return Err("another consumer is the single active one".to_owned());
        }
        if !self.has_credit(id, delivery.consumer, consumer) {
            return Err("it may hold no more".to_owned());
        }
        let (name, terms, priority) = (consumer.queue.clone(), consumer.terms, consumer.priority);
        if let Some(key) = self.group_of(consumer.incarnation) {
            self.give_event(&key, (id, delivery.consumer), terms, delivery)?;
            return Ok(());
        }
        if !self.is_tight {
            for (other, connection) in &self.connections {
                let before = |(c, known): (&ConsumerId, &Consumer)| {
                    known.priority > priority && known.queue == name && self.can_take(*other, *c, known)
                };
                if connection.consumers.iter().any(before) {
                    return Err("a consumer of higher priority can take it".to_owned());
                }
            }
        }
        self.give(&name, id, terms, delivery)?;
        self.met("delivered");
        Ok(())
    }

    /// The first message of a queue goes to somebody: is it this one, and as it must be?
    fn give(
        &mut self,
        name: &Name,
        id: ConnectionId,
        terms: Terms,
        delivery: &Delivery,
    ) -> Result<(), String> {
        let queue = self.world.queues.get(name).ok_or("its queue is gone")?;
        let at = self.head(queue).ok_or("nothing is ready")?;
        let message = &queue.messages[at];
        if delivery.frame.as_bytes() != message.frame.as_bytes() {
            return Err(format!(
                "'{}' is delivered, '{}' is first",
                text(&delivery.frame),
                text(&message.frame)
            ));
        }
        if delivery.envelope != message.shown() {
            return Err(format!("envelope {:?}, not {:?}", delivery.envelope, message.shown()));
        }
        if delivery.attempt != message.attempts + 1 {
            return Err(format!("attempt {}, not {}", delivery.attempt, message.attempts + 1));
        }
        let wanted = match message.seen {
            _ if message.attempts > 0 => Some(true),
            Seen::Yes => Some(true),
            Seen::No => Some(false),
            Seen::Maybe => None,
        };
        if wanted.is_some_and(|wanted| wanted != delivery.redelivered) {
            return Err(format!("redelivered {}", delivery.redelivered));
        }
        if delivery.token.is_some() != (terms.tokens && !terms.auto_ack) {
            return Err(format!("token {:?}", delivery.token));
        }
        let Position::Queue(seq) = delivery.position else { return Err("a position in a topic".to_owned()) };
        if delivery.origin.name != *name || delivery.origin.seq != seq.0 {
            return Err(format!("origin {:?}", delivery.origin));
        }
        if queue.id.is_some_and(|queue_id| queue_id != delivery.origin.id) {
            return Err(format!("queue {} was {:?}", delivery.origin.id, queue.id));
        }
        let named = self.numbers.get(&(delivery.origin.id, seq.0));
        if named.is_some_and(|uid| *uid != message.uid) {
            return Err(format!("{}-{seq} named another message before", delivery.origin.id));
        }
        let (uid, wall_ms, mono_ms) = (message.uid, self.now.wall_ms, self.now.mono_ms);
        let redelivered = delivery.redelivered;
        let mut changed = (**queue).clone();
        changed.learn(at, seq)?;
        changed.id = Some(delivery.origin.id);
        if terms.auto_ack {
            changed.messages.remove(at);
        } else {
            let message = &mut changed.messages[at];
            message.given_ms.get_or_insert(wall_ms);
            message.place = Place::Leased(Lease {
                connection: id,
                consumer: delivery.consumer,
                deadline_ms: terms.lease_ms.map(|lease| mono_ms + lease),
                token: delivery.token,
            });
        }
        changed.used_ms = mono_ms;
        self.numbers.insert((delivery.origin.id, seq.0), uid);
        self.world.queues.insert(name.clone(), Rc::new(changed));
        if redelivered {
            self.met("redelivered");
        }
        self.expire(name);
        Ok(())
    }

    /// A pull is decided: these are its messages. `is_cold`: not all of its queue is in memory, so that it may get fewer. Its answer may still wait for its turn.
    pub(in crate::fold) fn accept_fetched(
        &mut self,
        id: ConnectionId,
        request: RequestId,
        messages: &[Delivery],
        remaining: u64,
        is_cold: bool,
    ) -> Result<(), String> {
        let found = self.waiters.iter().position(|w| w.connection == id && w.id == request);
        let waiter = self.waiters[found.ok_or("a pull that does not wait")?].clone();
        let fetch = &waiter.fetch;
        if waiter.orphan {
            if !messages.is_empty() {
                return Err("messages of a queue that is gone".to_owned());
            }
            self.met("a pull whose queue went");
        } else {
            if messages.len() > fetch.max as usize {
                return Err(format!("{} messages, at most {}", messages.len(), fetch.max));
            }
            if messages.is_empty() && waiter.deadline_ms > self.now.mono_ms {
                return Err("an empty answer before its time".to_owned());
            }
            if let Some(key) = self.group_of(waiter.incarnation) {
                self.accept_events(&key, id, &waiter, messages, remaining, is_cold)?;
            } else {
                let before = self.world.clone();
                let ready = before.queues.get(&fetch.queue).map_or(0, |q| q.ready());
                let terms =
                    Terms { auto_ack: fetch.auto_ack, lease_ms: fetch.lease_ms, tokens: fetch.tokens };
                for delivery in messages {
                    let given = match delivery.consumer == fetch.consumer {
                        true => self.give(&fetch.queue, id, terms, delivery),
                        false => Err(format!("pulled by {}, given to {}", fetch.consumer, delivery.consumer)),
                    };
                    if let Err(why) = given {
                        self.world = before;
                        return Err(why);
                    }
                }
                let queue = self.world.queues.get(&fetch.queue).ok_or("its queue is gone")?;
                // its time was over before the time of what is ready now
                let was_over = messages.is_empty() && waiter.deadline_ms < self.now.mono_ms;
                if messages.len() < fetch.max as usize
                    && !was_over
                    && queue.ready_before(self.pass()) > 0
                    && self.certain_head(queue)
                    && (messages.is_empty() || !is_cold)
                {
                    self.world = before;
                    return Err("it was given fewer than there are".to_owned());
                }
                // those that have expired may count until they are looked at
                let least = if was_over { 0 } else { queue.ready_before(self.pass()) };
                let left = least..=ready.saturating_sub(messages.len() as u64);
                if !left.contains(&remaining) {
                    self.world = before;
                    return Err(format!("{remaining} remaining, not {left:?}"));
                }
                self.met(if messages.is_empty() { "an empty pull" } else { "pulled" });
            }
        }
        self.waiters.retain(|w| w.connection != id || w.id != request);
        if !waiter.orphan && self.group_of(waiter.incarnation).is_none() {
            self.touch(&waiter.fetch.queue);
        }
        let pass = self.pass();
        let positions = messages.iter().map(|m| m.position).collect();
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.decided.insert(request, (pass, positions));
        }
        self.forget_holders();
        Ok(())
    }

    /// The answer of a decided pull, in its turn.
    pub(in crate::fold) fn accept_answer(
        &mut self,
        id: ConnectionId,
        request: RequestId,
        messages: &[Delivery],
    ) -> Result<(), String> {
        let connection = self.connections.get_mut(&id).ok_or("a connection that is gone")?;
        let (pass, positions) = connection.decided.get(&request).ok_or("a pull that is not decided")?;
        if let Some(front) = connection.expected.front().filter(|e| e.pass < *pass) {
            return Err(format!("it came before {front:?}"));
        }
        if !messages.iter().map(|m| &m.position).eq(positions) {
            return Err(format!("it was decided to give {positions:?}"));
        }
        connection.decided.remove(&request);
        self.forget_holders();
        Ok(())
    }

    pub(in crate::fold) fn is_decided(&self, id: ConnectionId, request: RequestId) -> bool {
        self.connections.get(&id).is_some_and(|c| c.decided.contains_key(&request))
    }
}
