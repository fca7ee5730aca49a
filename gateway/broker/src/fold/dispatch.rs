//! Dispatch: the next message in order to the next taker in line, while there are both.

use framegate_storage::Lsn;

use super::consume::{has_credit, terms_of};
use super::live::{Held, Taker, Terms};
use super::{Core, timers::Timer};
use crate::ids::{ConnectionId, ConsumerId, QueueId, Seq, Token};
use crate::limits::SLICE_MESSAGES_MAX;
use crate::message::{DeathReason, Delivery, Origin, Position};
use crate::metrics::Metrics;
use crate::record::SeqSet;
use crate::request::{Effect, Reply};
use crate::state::{Times, VOLATILE_BIT, Weight, is_group};

impl Core {
    /// Something changed in a queue: it is looked at before the pass ends.
    pub(super) fn mark_dirty(&mut self, queue: QueueId) {
        if let Some(live) = self.live.get_mut(&queue).filter(|l| !l.dirty) {
            live.dirty = true;
            self.dirty.push(queue);
        }
    }

    /// Looks at every queue where something changed. A queue with much to do goes on in the next pass.
    pub(super) fn dispatch_dirty(&mut self) {
        for queue in std::mem::take(&mut self.dirty) {
            if let Some(live) = self.live.get_mut(&queue) {
                live.dirty = false;
            }
            self.dispatch(queue);
        }
    }

    /// The start is durable, if it has to be: messages may be delivered.
    pub(super) fn is_open(&self) -> bool {
        self.durable_to >= self.opens_at
    }

    /// The queue's definition is durable, and so is the start. Were a queue lost after something of it was seen, another one
    /// would get its id.
    pub(super) fn is_queue_open(&self, queue: QueueId) -> bool {
        self.is_open() && self.live.get(&queue).is_none_or(|l| l.opens_at <= self.durable_to)
    }

    /// Queues are waiting to be looked at again at once.
    pub(crate) fn has_more(&self) -> bool {
        !self.dirty.is_empty() || !self.work.is_empty() || self.is_overfull()
    }

    /// Ready messages of a queue.
    pub(super) fn ready_count(&self, queue: QueueId) -> u64 {
        let count = match is_group(queue) {
            true => self.group_lag(queue),
            false => self.state(queue).queue(queue).map_or(0, |q| q.count),
        };
        count.saturating_sub(self.live.get(&queue).map_or(0, |l| l.held + l.purging))
    }

    /// What the ready order has to know of a message.
    pub(super) fn weight(&self, queue: QueueId, seq: Seq) -> Weight {
        self.state(queue).queue(queue).map_or(Weight::default(), |q| q.weight(seq))
    }

    /// The next message in order that may be delivered.
    fn next_ready(&mut self, queue: QueueId) -> Option<u64> {
        let state = if queue.0 & VOLATILE_BIT != 0 { &self.volatile } else { &self.durable };
        let (state, live) = (state.queue(queue)?, self.live.get_mut(&queue)?);
        live.ready.next(state, live.visible)
    }

    /// The next message in order that has not expired; those that have are taken out on the way.
    fn next_fresh(&mut self, queue: QueueId) -> Option<u64> {
        if !self.live.get(&queue)?.expiring {
            return self.next_ready(queue);
        }
        let mut expired = Vec::new();
        let mut fresh = None;
        while let Some(seq) = self.next_ready(queue) {
            let expires = self.state(queue).queue(queue)?.times(Seq(seq)).expires_at_ms;
            if expires == 0 || expires > self.now.wall_ms || self.is_momentary(queue, seq, expires) {
                fresh = Some(seq);
                break;
            }
            let dying = self.live.get(&queue)?.dying.len();
            if expired.len() >= SLICE_MESSAGES_MAX.saturating_sub(dying) {
                self.mark_dirty(queue);
                break;
            }
            let weight = self.weight(queue, Seq(seq));
            self.live.get_mut(&queue)?.ready.take(seq, weight);
            expired.push(Seq(seq));
        }
        if !expired.is_empty() {
            self.messages_expired(queue, &expired);
            self.dead_letter(queue, &SeqSet::from_unsorted(expired), DeathReason::Expired);
        }
        fresh
    }

    /// It expires in the moment in which it came: it may be delivered in this moment, and in no other.
    fn is_momentary(&self, queue: QueueId, seq: u64, expires_ms: u64) -> bool {
        expires_ms == self.now.wall_ms && self.live.get(&queue).is_some_and(|l| seq >= l.fresh_from)
    }

    /// The time of a queue's head has come.
    pub(super) fn expire_head(&mut self, queue: QueueId) {
        let now_ms = self.now.mono_ms;
        // a timer that another one came before has nothing to say
        if let Some(live) = self.live.get_mut(&queue).filter(|l| l.expire_timer_ms <= now_ms) {
            live.expire_timer_ms = 0;
            self.mark_dirty(queue);
        }
    }

    /// Looks at the queue again when its head expires. Those behind it have their turn when they come to the head.
    fn watch_head(&mut self, queue: QueueId) {
        let Some(seq) = self.next_fresh(queue) else { return };
        let expires = self.state(queue).queue(queue).map_or(0, |q| q.times(Seq(seq)).expires_at_ms);
        let Some(live) = self.live.get_mut(&queue).filter(|_| expires != 0) else { return };
        let due_ms = self.now.mono_ms.saturating_add(expires.saturating_sub(self.now.wall_ms));
        if live.expire_timer_ms == 0 || due_ms < live.expire_timer_ms {
            live.expire_timer_ms = due_ms;
            self.timers.add(due_ms, Timer::Expire(queue));
        }
    }

    /// Notes when a message is ready and when it is no longer. True when it has to wait.
    pub(super) fn schedule(&mut self, queue: QueueId, seq: Seq, times: Times) -> bool {
        if self.is_park(queue) {
            self.hold(queue, seq, times);
            return true;
        }
        let now = self.now;
        let Some(live) = self.live.get_mut(&queue) else { return false };
        let waits = times.deliver_at_ms > now.wall_ms;
        if waits {
            live.ready.delay(seq.0);
            live.held += 1;
            let due = now.mono_ms.saturating_add(times.deliver_at_ms - now.wall_ms);
            self.timers.add(due, Timer::Requeue(queue, seq.0));
        }
        if times.expires_at_ms != 0 {
            live.expiring = true;
            self.mark_dirty(queue);
        }
        waits
    }

    /// Delivers what can be delivered now.
    pub(super) fn dispatch(&mut self, queue: QueueId) {
        if !self.is_queue_open(queue) {
            return;
        }
        if self.is_park(queue) {
            return self.move_due(queue);
        }
        if is_group(queue) {
            return self.dispatch_group(queue);
        }
        self.deliver_ready(queue);
        if let Some(live) = self.live.get_mut(&queue) {
            live.fresh_from = u64::MAX;
            if !live.dying.is_empty() {
                self.load(queue);
            }
        }
        if self.live.get(&queue).is_some_and(|l| l.expiring) {
            self.watch_head(queue);
        }
    }

    fn deliver_ready(&mut self, queue: QueueId) {
        if self.durable.jobs.is_paused(queue) {
            return;
        }
        for _ in 0..SLICE_MESSAGES_MAX {
            let Some(seq) = self.next_fresh(queue) else { return };
            if !self.may_hand_out(queue) {
                return;
            }
            let Some((priority, taker)) = self.live.get_mut(&queue).and_then(|l| l.pop_taker()) else {
                return;
            };
            let resident = self.live.get(&queue).is_some_and(|l| l.frames.contains_key(&seq));
            let able = match taker {
                Taker::Consumer(id, consumer) => self.can_take(id, consumer),
                Taker::Waiter(waiter) => self.still_waits(waiter),
            };
            if !able {
                continue;
            }
            if !resident {
                if let Some(live) = self.live.get_mut(&queue) {
                    live.rejoin(priority, taker);
                }
                return self.load(queue);
            }
            match taker {
                Taker::Consumer(id, consumer) => {
                    if let Some(delivery) = self.deliver(queue, Seq(seq), id, consumer, None) {
                        self.push_effect(id, Effect::Delivery(delivery));
                    }
                    if let Some(live) = self.live.get_mut(&queue) {
                        live.join(priority, taker);
                    }
                }
                Taker::Waiter(waiter) => self.serve(queue, waiter),
            }
        }
        self.mark_dirty(queue);
    }

    /// A consumer in line can take one; otherwise it is out of line, with the reason remembered.
    pub(super) fn can_take(&mut self, id: ConnectionId, consumer: ConsumerId) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        let Some(live) = connection.consumers.get(&consumer).filter(|c| c.active) else { return false };
        let credit = has_credit(live, &connection.pools);
        let able = credit && connection.window.has_room();
        if !able {
            if credit && connection.busy.insert(consumer) {
                Metrics::add(&self.shared.metrics.paused_busy, 1);
            }
            if let Some(live) = connection.consumers.get_mut(&consumer) {
                live.in_line = false;
            }
        }
        able
    }

    /// A pull still waits for its answer. One whose caller went away is forgotten.
    pub(super) fn still_waits(&mut self, waiter: u64) -> bool {
        let Some(waiting) = self.waiters.get(&waiter) else { return false };
        let heard = self.is_heard(waiting.to);
        if !heard {
            self.end_wait(waiter);
        }
        heard
    }

    /// Gives a pull as much as it wants and is in memory.
    fn serve(&mut self, queue: QueueId, waiter: u64) {
        let Some(waiting) = self.waiters.remove(&waiter) else { return };
        let mut messages = Vec::new();
        while messages.len() < waiting.fetch.max as usize && messages.len() < SLICE_MESSAGES_MAX {
            let Some(seq) = self.next_fresh(queue) else { break };
            if !self.may_hand_out(queue) {
                break;
            }
            if !self.live.get(&queue).is_some_and(|l| l.frames.contains_key(&seq)) {
                break;
            }
            let (holder, terms) = (waiting.fetch.consumer, terms_of(&waiting.fetch));
            let id = waiting.connection;
            let Some(delivery) = self.deliver(queue, Seq(seq), id, holder, Some(terms)) else { break };
            messages.push(delivery);
        }
        let remaining = self.ready_count(queue);
        self.touch(queue);
        self.forget_wait(waiting.connection, waiting.fetch.consumer);
        if let Some(pull) = self.jobs.pulls.remove(&waiter) {
            return self.jobs_pulled(waiting.to, waiting.connection, queue, &pull, messages);
        }
        self.answer(waiting.to, Lsn(0), Ok(Reply::Fetched { messages, remaining }));
    }

    /// Takes a message out of the ready ones and leases it, or settles it at once. `terms`: how, when not as the consumer
    /// takes its messages.
    fn deliver(
        &mut self,
        queue: QueueId,
        seq: Seq,
        id: ConnectionId,
        consumer: ConsumerId,
        terms: Option<Terms>,
    ) -> Option<Delivery> {
        // who takes it is known before it leaves the ready ones
        let connection = self.connections.get_mut(&id)?;
        let holder = connection.consumers.get_mut(&consumer)?;
        let terms = terms.unwrap_or(holder.terms);
        let state = if queue.0 & VOLATILE_BIT != 0 { &self.volatile } else { &self.durable };
        let state = state.queue(queue)?;
        let envelope = state.envelope(seq)?;
        let origin =
            Origin { vhost: state.vhost.clone(), name: state.spec.name.clone(), id: queue.0, seq: seq.0 };
        let live = self.live.get_mut(&queue)?;
        let frame = live.frames.get(&seq.0)?.clone();
        live.ready.take(seq.0, state.weight(seq));
        // one that came delayed stands below the cursor and is given for the first time all the same
        if queue.0 & VOLATILE_BIT == 0 {
            self.delivered.insert(queue);
        }
        let seen_before = seq.0 <= live.seen_before;
        let mut token = None;
        if !terms.auto_ack {
            if terms.tokens {
                let made = Token(super::jobs::new_token(self.durable.jobs.has(queue)));
                self.tokens.insert(made, (id, consumer, seq.0));
                token = Some(made);
            }
            let deadline_ms = terms.lease_ms.map_or(0, |lease| self.now.mono_ms.saturating_add(lease).max(1));
            // one timer looks at all leases of a holder
            if deadline_ms != 0 && (holder.lease_timer_ms == 0 || deadline_ms < holder.lease_timer_ms) {
                holder.lease_timer_ms = deadline_ms;
                self.timers.add(deadline_ms, Timer::Lease(id, consumer));
            }
            holder.held.insert(seq.0, Held { deadline_ms, token });
            if let Some(pool) = holder.pool.and_then(|p| connection.pools.get_mut(&p)) {
                pool.used += 1;
            }
            live.held += 1;
            live.leased += 1;
        }
        let attempt = envelope.attempts.saturating_add(1);
        let delivery = Delivery {
            consumer,
            position: Position::Queue(seq),
            token,
            attempt,
            redelivered: seen_before || envelope.attempts > 0,
            envelope,
            frame,
            origin,
        };
        connection.window.take(delivery.window_bytes());
        Metrics::add(&self.shared.metrics.delivered, 1);
        self.message_delivered(id, &delivery);
        if self.durable.jobs.has(queue) {
            self.count_handed_out(queue);
            self.job_taken(queue, seq, id, consumer, &delivery, terms.lease_ms);
        }
        if terms.auto_ack {
            Metrics::add(&self.shared.metrics.acked, 1);
            let seqs = self.complete_jobs(queue, SeqSet::one(seq));
            self.remove(queue, &seqs);
        }
        Some(delivery)
    }
}
