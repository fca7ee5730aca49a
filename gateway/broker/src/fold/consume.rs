//! Consumers and pulls: who wants messages of which queue.

use std::collections::BTreeMap;

use framegate_storage::Lsn;

use super::live::{ConsumerLive, Held, PoolLive, Taker, Terms, Waiter};
use super::timers::Timer;
use super::work::Work;
use super::{AnswerTo, Core, DETACHED};
use crate::error::{BrokerError, Kind};
use crate::group::Member;
use crate::ids::{ConnectionId, ConsumerId, PoolId, QueueId};
use crate::limits::SLICE_MESSAGES_MAX;
use crate::name::Name;
use crate::record::SeqSet;
use crate::request::{CancelReason, Consume, Credit, Effect, Fetch, JobReply, Query, Reply, Request};

/// Lease of a pull without connection that names none.
const DETACHED_LEASE_MS: u64 = 30_000;
/// How often a pull whose time has passed looks whether its message has been read.
const LOADING_MS: u64 = 5;

impl Core {
    /// Anything but a publish, in its turn.
    pub(super) fn request(&mut self, to: AnswerTo, connection: ConnectionId, vhost: &Name, request: Request) {
        match request {
            Request::Consume(consume) => {
                let consumer = consume.consumer;
                let result = self.consume(connection, vhost, consume);
                self.start_pushing(to, connection, consumer, result.is_ok());
                self.answer(to, Lsn(0), result);
            }
            Request::Mailbox { consumer, prefix } => {
                let result = self.open_mailbox(connection, vhost, consumer, prefix);
                self.start_pushing(to, connection, consumer, result.is_ok());
                self.answer(to, Lsn(0), result);
            }
            Request::Fetch(fetch) => self.fetch(to, connection, vhost, fetch),
            Request::ConsumeGroup(consume, member) => {
                let consumer = consume.consumer;
                let result = self.consume_group(connection, vhost, consume, member);
                self.start_pushing(to, connection, consumer, result.is_ok());
                self.answer(to, Lsn(0), result);
            }
            Request::FetchGroup(fetch, member) => self.fetch_group(to, connection, vhost, fetch, member),
            Request::Credit(credit) => {
                self.credit(connection, credit);
                self.answer(to, Lsn(0), Ok(Reply::Done));
            }
            Request::Cancel(consumer) => {
                let result = self.cancel(connection, consumer, vhost);
                self.answer(to, Lsn(0), result);
            }
            Request::Settle(settle) => self.settle(to, connection, settle, None),
            Request::SettleAs(settle, said) => self.settle(to, connection, settle, Some(said)),
            Request::Report(what) => self.happened(connection, what),
            Request::Recover(consumer) => self.recover(to, connection, consumer),
            Request::Browse(browse) => self.browse(to, connection, vhost, &browse),
            Request::Define(define) => self.define(to, connection, vhost, define),
            Request::Query(Query::History(query)) => self.history(to, vhost, query),
            Request::Query(query) => {
                let result = self.query(vhost, query);
                self.answer(to, Lsn(0), result);
            }
            // routed before the fold; nobody sends them here
            Request::Publish(_) | Request::Atomic(_) | Request::Job(_) => {
                self.answer(to, Lsn(0), Err(BrokerError::NotSupported { what: "an unrouted publish" }));
            }
        }
    }

    /// A queue that the connection may use.
    pub(super) fn usable(
        &self,
        connection: ConnectionId,
        vhost: &Name,
        name: &Name,
    ) -> Result<QueueId, BrokerError> {
        let missing = || Self::missing(Kind::Queue, name, vhost);
        let id = self.editor.current().queue(vhost, name).ok_or_else(missing)?;
        let live = self.live.get(&id).ok_or_else(missing)?;
        if live.owner.is_some_and(|owner| owner != connection) {
            let reason = "it is exclusive to another connection";
            return Err(BrokerError::Locked { kind: Kind::Queue, name: name.clone(), reason });
        }
        Ok(id)
    }

    fn consume(&mut self, id: ConnectionId, vhost: &Name, consume: Consume) -> Result<Reply, BrokerError> {
        let queue = self.usable(id, vhost, &consume.queue)?;
        self.consume_at(id, vhost, queue, consume)
    }

    /// Starts a consumer of a queue or group.
    pub(super) fn consume_at(
        &mut self,
        id: ConnectionId,
        vhost: &Name,
        queue: QueueId,
        consume: Consume,
    ) -> Result<Reply, BrokerError> {
        let max = self.shared.limits.consumers_per_connection_max;
        let Some(connection) = self.connections.get_mut(&id).filter(|_| id != DETACHED) else {
            return Err(BrokerError::NotSupported { what: "a consumer without a connection" });
        };
        let known = connection.consumers.get(&consume.consumer);
        if known.is_some_and(|c| c.active || c.waits > 0 || !c.held.is_empty()) {
            return Err(BrokerError::ConsumerExists);
        }
        if connection.consumers.len() >= max {
            return Err(BrokerError::Limit { what: "consumers of a connection", max: max as u64 });
        }
        let Some(live) = self.live.get_mut(&queue) else {
            return Err(Self::missing(Kind::Queue, &consume.queue, vhost));
        };
        if live.exclusive.is_some() || (consume.exclusive && live.consumers > 0) {
            let reason = if consume.exclusive { "it has consumers" } else { "it has an exclusive consumer" };
            return Err(BrokerError::Locked { kind: Kind::Queue, name: consume.queue, reason });
        }
        if consume.exclusive && live.single.is_some() {
            let reason = "its consumers take turns as the single active one";
            return Err(BrokerError::Locked { kind: Kind::Queue, name: consume.queue, reason });
        }
        if consume.exclusive {
            live.exclusive = Some((id, consume.consumer));
        }
        if let Some(single) = &mut live.single {
            single.join(consume.priority, (id, consume.consumer));
        }
        live.consumers += 1;
        live.holders.insert((id, consume.consumer));
        if let Some(pool) = consume.pool {
            connection.pools.entry(pool).or_default();
        }
        connection.consumers.insert(
            consume.consumer,
            ConsumerLive {
                queue,
                prefetch: consume.prefetch,
                pool: consume.pool,
                terms: Terms {
                    auto_ack: consume.auto_ack,
                    lease_ms: consume.lease_ms,
                    tokens: consume.tokens,
                },
                priority: consume.priority,
                active: true,
                announced: false,
                in_line: false,
                waits: 0,
                lease_timer_ms: 0,
                held: Default::default(),
            },
        );
        self.consumer_created(id, consume.consumer, queue);
        Ok(Reply::Done)
    }

    /// Messages follow the answer to a consumer's start. When that waits behind effects that are not durable yet, so do
    /// they.
    fn start_pushing(&mut self, to: AnswerTo, id: ConnectionId, consumer: ConsumerId, started: bool) {
        let Some(connection) = self.connections.get_mut(&id).filter(|_| started) else { return };
        if let (AnswerTo::Request(_, request), false) = (to, connection.gated.is_empty()) {
            connection.unannounced.push((request, consumer));
        } else {
            if let Some(live) = connection.consumers.get_mut(&consumer) {
                live.announced = true;
            }
            self.wake_consumer(id, consumer);
        }
    }

    fn credit(&mut self, id: ConnectionId, credit: Credit) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match credit {
            Credit::Consumer(consumer, prefetch) => {
                if let Some(live) = connection.consumers.get_mut(&consumer) {
                    live.prefetch = prefetch;
                }
                self.wake_consumer(id, consumer);
            }
            Credit::Join(consumer, pool) => {
                let Some(live) = connection.consumers.get_mut(&consumer) else { return };
                if live.pool.replace(pool).is_none() {
                    let held = u32::try_from(live.held.len()).unwrap_or(u32::MAX);
                    let pool = connection.pools.entry(pool).or_default();
                    pool.used = pool.used.saturating_add(held);
                }
            }
            Credit::Pool(pool, limit) => {
                connection.pools.entry(pool).or_default().limit = limit;
                self.wake_pool(id, pool);
            }
        }
    }

    /// Lets a consumer stand in line again, if it can take.
    pub(super) fn wake_consumer(&mut self, id: ConnectionId, consumer: ConsumerId) {
        let Some(connection) = self.connections.get(&id) else { return };
        let pushed = |c: &&ConsumerLive| c.active && c.announced && !c.in_line;
        let Some(live) = connection.consumers.get(&consumer).filter(pushed) else { return };
        if !has_credit(live, &connection.pools) || !self.may_push(live.queue, id, consumer) {
            return;
        }
        let (queue, priority) = (live.queue, live.priority);
        // it does not hold all that it may hold any more
        self.member_settles(queue, id, consumer);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if let Some(live) = connection.consumers.get_mut(&consumer) {
            live.in_line = true;
        }
        if let Some(live) = self.live.get_mut(&queue) {
            live.join(priority, Taker::Consumer(id, consumer));
        }
        self.mark_dirty(queue);
    }

    /// Lets every consumer of a pool stand in line again.
    pub(super) fn wake_pool(&mut self, id: ConnectionId, pool: PoolId) {
        let Some(connection) = self.connections.get(&id) else { return };
        let members: Vec<ConsumerId> = connection
            .consumers
            .iter()
            .filter(|(_, c)| c.pool == Some(pool) && !c.in_line)
            .map(|(id, _)| *id)
            .collect();
        for consumer in members {
            self.wake_consumer(id, consumer);
        }
    }

    /// The connection's window has room again.
    pub(super) fn resume(&mut self, id: ConnectionId) {
        let busy = self.connections.get_mut(&id).map(|c| std::mem::take(&mut c.busy)).unwrap_or_default();
        for consumer in busy {
            self.wake_consumer(id, consumer);
        }
    }

    fn cancel(&mut self, id: ConnectionId, consumer: ConsumerId, vhost: &Name) -> Result<Reply, BrokerError> {
        let known =
            self.connections.get(&id).and_then(|c| c.consumers.get(&consumer)).is_some_and(|c| c.active);
        if !known {
            return Err(Self::missing(Kind::Consumer, &Name::default(), vhost));
        }
        self.end_consumer(id, consumer);
        Ok(Reply::Done)
    }

    /// Nothing is pushed to it any more; what it holds stays leased.
    pub(super) fn end_consumer(&mut self, id: ConnectionId, consumer: ConsumerId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(live) = connection.consumers.get_mut(&consumer).filter(|c| c.active) else { return };
        live.active = false;
        let (queue, priority, empty) = (live.queue, live.priority, live.held.is_empty() && live.waits == 0);
        if empty {
            self.forget_empty_holder(id, consumer);
        }
        let Some(live) = self.live.get_mut(&queue) else { return };
        live.leave(priority, Taker::Consumer(id, consumer));
        live.consumers -= 1;
        if live.exclusive == Some((id, consumer)) {
            live.exclusive = None;
        }
        let next = live.single.as_mut().and_then(|single| single.leave((id, consumer)));
        self.consumer_cancelled(id, consumer, queue);
        // one whose pull waits still takes part
        let holder = self.connections.get(&id).and_then(|c| c.consumers.get(&consumer));
        if holder.is_none_or(|c| c.waits == 0) {
            self.member_leaves(queue, id, consumer);
        }
        let auto_delete = self.state(queue).queue(queue).is_some_and(|q| q.spec.auto_delete);
        if auto_delete && self.live.get(&queue).is_some_and(|l| l.consumers == 0) {
            return self.drop_queue(queue);
        }
        if let Some((id, consumer)) = next {
            self.wake_consumer(id, consumer);
        }
        self.touch(queue);
    }

    fn fetch(&mut self, to: AnswerTo, connection: ConnectionId, vhost: &Name, fetch: Fetch) {
        match self.usable(connection, vhost, &fetch.queue) {
            Ok(queue) => self.fetch_at(to, connection, queue, fetch, None),
            Err(error) => self.answer(to, Lsn(0), Err(error)),
        }
    }

    /// Pulls from a queue, or from a group as its member.
    pub(super) fn fetch_at(
        &mut self,
        to: AnswerTo,
        connection: ConnectionId,
        queue: QueueId,
        mut fetch: Fetch,
        member: Option<Member>,
    ) {
        if connection == DETACHED {
            self.next_holder += 1;
            fetch.consumer = ConsumerId(self.next_holder);
            fetch.lease_ms = fetch.lease_ms.or(Some(DETACHED_LEASE_MS));
            fetch.tokens = true;
        }
        fetch.max = fetch.max.max(1);
        self.touch(queue);
        if self.waiters.len() >= self.shared.limits.waiters_max {
            let max = self.shared.limits.waiters_max as u64;
            return self.answer(to, Lsn(0), Err(BrokerError::Limit { what: "waiting pulls", max }));
        }
        if let Err(error) = self.holder(connection, queue, &fetch) {
            return self.answer(to, Lsn(0), Err(error));
        }
        if let Some(member) = member {
            self.member_joins(queue, (connection, fetch.consumer), member);
        }
        self.next_waiter += 1;
        let waiter = self.next_waiter;
        let deadline_ms = self.now.mono_ms.saturating_add(fetch.wait_ms);
        self.waiters.insert(waiter, Waiter { to, connection, queue, fetch, deadline_ms });
        if let Some(live) = self.live.get_mut(&queue) {
            live.join(0, Taker::Waiter(waiter));
        }
        self.dispatch(queue);
        // still waiting: for a message, or for a body to be read
        if let Some(waiting) = self.waiters.get(&waiter) {
            let deadline = waiting.deadline_ms;
            if deadline <= self.now.mono_ms {
                self.wait_over(waiter);
            } else {
                self.timers.add(deadline, Timer::Wait(waiter));
            }
        }
    }

    /// Makes the holder of pulled messages known.
    fn holder(&mut self, id: ConnectionId, queue: QueueId, fetch: &Fetch) -> Result<(), BrokerError> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let holder = connection.consumers.entry(fetch.consumer).or_insert_with(|| ConsumerLive {
            queue,
            prefetch: None,
            pool: None,
            terms: terms_of(fetch),
            priority: 0,
            active: false,
            announced: false,
            in_line: false,
            waits: 0,
            lease_timer_ms: 0,
            held: Default::default(),
        });
        if holder.queue != queue {
            if holder.active || holder.waits > 0 || !holder.held.is_empty() {
                return Err(BrokerError::ConsumerExists);
            }
            if let Some(live) = self.live.get_mut(&holder.queue) {
                live.holders.remove(&(id, fetch.consumer));
            }
            holder.queue = queue;
        }
        holder.waits += 1;
        if let Some(live) = self.live.get_mut(&queue) {
            live.holders.insert((id, fetch.consumer));
        }
        Ok(())
    }

    /// The time of a wait has passed. When there is a message that only has to be read, it waits for that too.
    pub(super) fn wait_over(&mut self, waiter: u64) {
        let Some(queue) = self.waiters.get(&waiter).map(|waiting| waiting.queue) else { return };
        // what has been read just now is handed out before the end of the pass
        if let Some(live) = self.live.get_mut(&queue).filter(|live| live.dirty) {
            live.dirty = false;
            self.dispatch(queue);
            if !self.waiters.contains_key(&waiter) {
                return;
            }
        }
        let comes = !self.is_queue_open(queue) || self.live.get(&queue).is_some_and(|l| l.loading || l.dirty);
        if comes && self.ready_count(queue) > 0 {
            self.timers.add(self.now.mono_ms + LOADING_MS, Timer::Wait(waiter));
        } else {
            self.end_wait(waiter);
        }
    }

    /// A pull waits no more.
    pub(super) fn forget_wait(&mut self, id: ConnectionId, consumer: ConsumerId) {
        let holder = self.connections.get_mut(&id).and_then(|c| c.consumers.get_mut(&consumer));
        if let Some(holder) = holder {
            holder.waits = holder.waits.saturating_sub(1);
            if let (0, false, queue) = (holder.waits, holder.active, holder.queue) {
                self.member_leaves(queue, id, consumer);
            }
        }
        self.forget_empty_holder(id, consumer);
    }

    /// A wait is over: the answer is empty.
    pub(super) fn end_wait(&mut self, waiter: u64) {
        let Some(waiting) = self.waiters.remove(&waiter) else { return };
        let remaining = self.ready_count(waiting.queue);
        if let Some(live) = self.live.get_mut(&waiting.queue) {
            live.leave(0, Taker::Waiter(waiter));
        }
        self.touch(waiting.queue);
        self.forget_wait(waiting.connection, waiting.fetch.consumer);
        if self.jobs.pulls.remove(&waiter).is_some() {
            return self.answer(waiting.to, Lsn(0), Ok(Reply::Job(JobReply::Pulled(Vec::new()))));
        }
        self.answer(waiting.to, Lsn(0), Ok(Reply::Fetched { messages: Vec::new(), remaining }));
    }

    /// Removes a holder that holds nothing, to which nothing is pushed and for which no pull waits.
    pub(super) fn forget_empty_holder(&mut self, id: ConnectionId, consumer: ConsumerId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            let holder = connection.consumers.get(&consumer);
            if let Some(holder) = holder.filter(|c| !c.active && c.waits == 0 && c.held.is_empty()) {
                if let Some(live) = self.live.get_mut(&holder.queue) {
                    live.holders.remove(&(id, consumer));
                }
                connection.consumers.remove(&consumer);
            }
        }
    }

    /// A connection is gone: everything that it had goes or returns.
    pub(super) fn disconnect(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id).filter(|_| id != DETACHED) else { return };
        let mut consumers: Vec<ConsumerId> = connection.consumers.keys().copied().collect();
        consumers.sort_unstable();
        let exclusive = connection.exclusive.clone();
        let waiting: Vec<u64> =
            self.waiters.iter().filter(|(_, w)| w.connection == id).map(|(waiter, _)| *waiter).collect();
        for waiter in waiting {
            self.end_wait(waiter);
        }
        // all of them end first: a queue that lived by its consumers goes with what they held, whichever of them held it
        let mut returned: BTreeMap<QueueId, BTreeMap<u64, Held>> = BTreeMap::new();
        for consumer in &consumers {
            let held = self.connections.get_mut(&id).and_then(|c| c.consumers.get_mut(consumer));
            let Some((queue, held)) = held.map(|c| (c.queue, std::mem::take(&mut c.held))) else { continue };
            let held = self.keep_jobs(queue, held);
            self.end_consumer(id, *consumer);
            returned.entry(queue).or_default().extend(held);
        }
        // in the order of the queue, so that those that die of it keep their order
        for (queue, held) in returned {
            self.give_back(queue, held);
        }
        for queue in exclusive {
            self.drop_queue(queue);
        }
        self.connection_closed(id);
        self.timers.forget_connection(id);
        self.jobs.watchers.remove(&id);
        self.workers_gone(id);
        for (consumer, holder) in self.connections.remove(&id).into_iter().flat_map(|c| c.consumers) {
            if let Some(live) = self.live.get_mut(&holder.queue) {
                live.holders.remove(&(id, consumer));
            }
        }
        self.gated.remove(&id);
    }

    /// Leases return to their places, one record for all of them; very many go slice by slice.
    pub(super) fn give_back(&mut self, queue: QueueId, mut held: BTreeMap<u64, Held>) {
        self.jobs_given_back(queue, held.keys().copied());
        if let Some(later) =
            held.keys().nth(SLICE_MESSAGES_MAX).copied().filter(|_| self.live.contains_key(&queue))
        {
            let rest = held.split_off(&later);
            self.work.push_back(Work::GiveBack { queue, held: rest });
        }
        for held in held.values() {
            if let Some(token) = held.token {
                self.tokens.remove(&token);
            }
        }
        let mut seqs = SeqSet::default();
        for seq in held.keys() {
            seqs.push(crate::ids::Seq(*seq));
        }
        let Some(live) = self.live.get_mut(&queue) else { return };
        live.held -= seqs.len();
        live.leased -= seqs.len();
        self.return_to_queue(queue, &seqs, true);
    }

    /// Ends every consumer and wait of a queue that goes.
    pub(super) fn end_takers(&mut self, queue: QueueId) {
        let Some(live) = self.live.get_mut(&queue) else { return };
        let (holders, mut waiting) = (std::mem::take(&mut live.holders), Vec::new());
        for taker in live.line.values().flatten() {
            waiting.extend(if let Taker::Waiter(waiter) = taker { Some(*waiter) } else { None });
        }
        let mut ended = Vec::new();
        for (id, consumer) in holders {
            let known = self.connections.get_mut(&id).and_then(|c| c.consumers.get_mut(&consumer));
            let Some(known) = known else { continue };
            ended.push((id, consumer, known.active, std::mem::take(&mut known.held)));
        }
        let mut pools = std::collections::BTreeSet::new();
        for (id, consumer, active, held) in ended {
            for (seq, held) in &held {
                self.jobs.active.remove(&(queue, *seq));
                if let Some(token) = held.token {
                    self.tokens.remove(&token);
                }
            }
            let connection = self.connections.get_mut(&id);
            let gone = connection.and_then(|c| {
                let gone = c.consumers.remove(&consumer)?;
                pools.extend(gone.pool.map(|pool| (id, pool)));
                if let Some(pool) = gone.pool.and_then(|p| c.pools.get_mut(&p)) {
                    pool.used = pool.used.saturating_sub(u32::try_from(held.len()).unwrap_or(u32::MAX));
                }
                Some(gone)
            });
            if active && gone.is_some() {
                self.consumer_cancelled(id, consumer, queue);
                // in its turn: not before the answer to the consumer's start
                let reason = CancelReason::QueueDeleted;
                self.effect(id, Lsn(0), Effect::Cancelled { consumer, reason });
            }
        }
        // what the gone consumers held is free for others of their pools
        for (id, pool) in pools {
            self.wake_pool(id, pool);
        }
        for waiter in waiting {
            self.end_wait(waiter);
        }
    }
}

/// How a pull wants its messages.
pub(super) fn terms_of(fetch: &Fetch) -> Terms {
    Terms { auto_ack: fetch.auto_ack, lease_ms: fetch.lease_ms, tokens: fetch.tokens }
}

/// A consumer may hold one more.
pub(super) fn has_credit(consumer: &ConsumerLive, pools: &super::live::IdMap<PoolId, PoolLive>) -> bool {
    if consumer.terms.auto_ack {
        // nothing is held: a limit of 0 pauses, any other is never reached
        return consumer.prefetch != Some(0);
    }
    let own = consumer.prefetch.is_none_or(|limit| (consumer.held.len() as u64) < u64::from(limit));
    let pool = consumer.pool.and_then(|p| pools.get(&p));
    own && pool.is_none_or(|p| p.limit.is_none_or(|limit| p.used < limit))
}
