//! Settling leased messages: by position or token, all or nothing.

use std::collections::BTreeMap;

use framegate_storage::Lsn;

use super::groups::Again;
use super::{AnswerTo, Core, timers::Timer};
use crate::error::BrokerError;
use crate::event::Said;
use crate::ids::{ConnectionId, ConsumerId, QueueId, Seq};
use crate::limits::{SLICE_MESSAGES_MAX, UNDELIVERABLE_MAX};
use crate::message::DeathReason;
use crate::metrics::Metrics;
use crate::record::SeqSet;
use crate::request::{Lease, Outcome, Reply, Settle};
use crate::state::{VOLATILE_BIT, is_group};

impl Core {
    /// Whose messages a lease names: connection, consumer, sequence numbers.
    pub(super) fn check_lease(
        &self,
        connection: ConnectionId,
        lease: &Lease,
    ) -> Result<(ConnectionId, ConsumerId, Vec<Seq>), BrokerError> {
        match lease {
            Lease::Positions(consumer, seqs) => {
                let holder = self.connections.get(&connection).and_then(|c| c.consumers.get(consumer));
                let holder = holder.ok_or(BrokerError::UnknownDelivery)?;
                if !seqs.iter().all(|seq| holder.held.contains_key(&seq.0)) {
                    return Err(BrokerError::UnknownDelivery);
                }
                // one delivery, however often it is named
                let mut seqs = seqs.clone();
                seqs.sort_unstable();
                seqs.dedup();
                Ok((connection, *consumer, seqs))
            }
            Lease::Token(token) => {
                let (id, consumer, seq) =
                    self.tokens.get(token).copied().ok_or(BrokerError::UnknownDelivery)?;
                Ok((id, consumer, vec![Seq(seq)]))
            }
        }
    }

    /// A settlement in its turn.
    pub(super) fn settle(
        &mut self,
        to: AnswerTo,
        connection: ConnectionId,
        settle: Settle,
        said: Option<Said>,
    ) {
        let (id, consumer, seqs) = match self.check_lease(connection, &settle.lease) {
            Ok(found) => found,
            Err(error) => return self.answer(to, Lsn(0), Err(error)),
        };
        let count = seqs.len() as u64;
        if let Outcome::Extend { lease_ms } = settle.outcome {
            self.extend(id, consumer, &seqs, lease_ms);
        } else if let Some((queue, seqs)) = self.release(id, consumer, seqs) {
            self.message_settled((id, consumer), queue, &seqs, settle.outcome, said);
            match settle.outcome {
                Outcome::Ack => {
                    Metrics::add(&self.shared.metrics.acked, seqs.len());
                    let seqs = self.complete_jobs(queue, seqs);
                    self.remove(queue, &seqs);
                }
                Outcome::Reject => {
                    Metrics::add(&self.shared.metrics.rejected, seqs.len());
                    let seqs = self.reject_jobs(queue, seqs);
                    self.dead_letter(queue, &seqs, DeathReason::Rejected);
                }
                Outcome::Requeue { delay_ms: 0 } if is_group(queue) => {
                    self.fail_group(queue, &seqs, Again::ByRetry);
                }
                Outcome::Requeue { delay_ms } if is_group(queue) => {
                    self.fail_group(queue, &seqs, Again::After(delay_ms));
                }
                Outcome::Requeue { delay_ms: 0 } => self.return_to_queue(queue, &seqs, true),
                Outcome::Requeue { delay_ms } => self.return_later(queue, &seqs, delay_ms),
                Outcome::Undeliverable => self.undeliverable(queue, &seqs),
                Outcome::Extend { .. } => {}
            }
            self.wake_consumer(id, consumer);
            self.forget_empty_holder(id, consumer);
        }
        if settle.answer {
            self.answer(to, Lsn(0), Ok(Reply::Settled { count }));
        }
    }

    /// Ends leases: the messages are neither leased nor ready until the caller says what they are.
    pub(super) fn release(
        &mut self,
        id: ConnectionId,
        consumer: ConsumerId,
        seqs: Vec<Seq>,
    ) -> Option<(QueueId, SeqSet)> {
        let connection = self.connections.get_mut(&id)?;
        let holder = connection.consumers.get_mut(&consumer)?;
        let mut released = 0_u32;
        for seq in &seqs {
            if let Some(held) = holder.held.remove(&seq.0) {
                released += 1;
                if let Some(token) = held.token {
                    self.tokens.remove(&token);
                }
            }
        }
        let queue = holder.queue;
        let pool = holder.pool;
        if let Some(pool) = pool.and_then(|p| connection.pools.get_mut(&p)) {
            pool.used = pool.used.saturating_sub(released);
        }
        if let Some(live) = self.live.get_mut(&queue) {
            live.held -= u64::from(released);
            live.leased -= u64::from(released);
        }
        self.member_settles(queue, id, consumer);
        self.fewer_at_once(queue);
        for seq in &seqs {
            self.jobs.active.remove(&(queue, seq.0));
        }
        if let Some(pool) = pool {
            self.wake_pool(id, pool);
        }
        Some((queue, SeqSet::from_unsorted(seqs)))
    }

    pub(super) fn extend(&mut self, id: ConnectionId, consumer: ConsumerId, seqs: &[Seq], lease_ms: u64) {
        let deadline = self.now.mono_ms.saturating_add(lease_ms).max(1);
        let holder = self.connections.get_mut(&id).and_then(|c| c.consumers.get_mut(&consumer));
        let Some(holder) = holder else { return };
        for seq in seqs {
            if let Some(held) = holder.held.get_mut(&seq.0) {
                held.deadline_ms = deadline;
            }
        }
        if holder.lease_timer_ms == 0 || deadline < holder.lease_timer_ms {
            holder.lease_timer_ms = deadline;
            self.timers.add(deadline, Timer::Lease(id, consumer));
        }
    }

    /// Looks at a holder's leases: messages of those that ran out return to their places, one record for all of them.
    pub(super) fn expire_leases(&mut self, id: ConnectionId, consumer: ConsumerId) {
        let now_ms = self.now.mono_ms;
        let holder = self.connections.get_mut(&id).and_then(|c| c.consumers.get_mut(&consumer));
        let Some(holder) = holder.filter(|h| h.lease_timer_ms != 0 && h.lease_timer_ms <= now_ms) else {
            return;
        };
        let (mut due, mut next) = (Vec::new(), u64::MAX);
        for (seq, held) in holder.held.iter().filter(|(_, h)| h.deadline_ms != 0) {
            if held.deadline_ms <= now_ms && due.len() < SLICE_MESSAGES_MAX {
                due.push(Seq(*seq));
            } else {
                next = next.min(held.deadline_ms);
            }
        }
        holder.lease_timer_ms = if next == u64::MAX { 0 } else { next };
        if next != u64::MAX {
            self.timers.add(next, Timer::Lease(id, consumer));
        }
        if due.is_empty() {
            return;
        }
        self.jobs_expire(id, consumer, &due);
        if let Some((queue, seqs)) = self.release(id, consumer, due) {
            let seqs = self.stall_jobs(queue, seqs);
            self.return_to_queue(queue, &seqs, true);
            self.wake_consumer(id, consumer);
            self.forget_empty_holder(id, consumer);
        }
    }

    /// Messages are ready again at their old places. `counted`: a delivery of them failed.
    pub(super) fn return_to_queue(&mut self, queue: QueueId, seqs: &SeqSet, counted: bool) {
        if is_group(queue) {
            return self.fail_group(queue, seqs, Again::AtOnce);
        }
        let alive = if counted { self.count_and_bury(queue, seqs) } else { None };
        let seqs = alive.as_ref().unwrap_or(seqs);
        let state = if queue.0 & VOLATILE_BIT != 0 { &self.volatile } else { &self.durable };
        if let (Some(state), Some(live)) = (state.queue(queue), self.live.get_mut(&queue)) {
            for seq in seqs.iter().filter(|seq| state.slots.get(seq.0).is_some()) {
                live.ready.put_back(seq.0, state.weight(seq));
            }
        }
        self.mark_overfull(queue);
        self.mark_dirty(queue);
    }

    /// Counts a failed delivery of each. Those that failed once too often die; gives the others then.
    fn count_and_bury(&mut self, queue: QueueId, seqs: &SeqSet) -> Option<SeqSet> {
        self.count_return(queue, seqs);
        Metrics::add(&self.shared.metrics.requeued, seqs.len());
        let state = self.state(queue).queue(queue)?;
        let limit = state.spec.properties.delivery_limit?;
        let (mut alive, mut dead) = (SeqSet::default(), SeqSet::default());
        for seq in seqs.iter() {
            let failed = state.slots.get(seq.0).map_or(0, |slot| u32::from(slot.attempts));
            if failed > limit {
                dead.push(seq)
            } else {
                alive.push(seq)
            };
        }
        if !dead.is_empty() {
            self.dead_letter(queue, &dead, DeathReason::DeliveryLimit);
        }
        Some(alive)
    }

    fn return_later(&mut self, queue: QueueId, seqs: &SeqSet, delay_ms: u64) {
        let alive = self.count_and_bury(queue, seqs);
        let seqs = alive.as_ref().unwrap_or(seqs);
        let due = self.now.mono_ms.saturating_add(delay_ms);
        for seq in seqs.iter() {
            self.timers.add(due, Timer::Requeue(queue, seq.0));
        }
        if let Some(live) = self.live.get_mut(&queue) {
            live.held += seqs.len();
        }
    }

    /// A delay has passed.
    pub(super) fn requeue_due(&mut self, queue: QueueId, seq: u64) {
        let there = self.state(queue).queue(queue).is_some_and(|q| q.slots.get(seq).is_some());
        let weight = self.weight(queue, Seq(seq));
        if self.jobs.lifted.remove(&(queue, seq)) {
            return;
        }
        if let Some(live) = self.live.get_mut(&queue) {
            live.held = live.held.saturating_sub(1);
            if there {
                live.ready.due(seq, weight);
            }
            self.mark_overfull(queue);
            self.mark_dirty(queue);
        }
    }

    /// A consumer's protocol could not carry these: back to their places, or dead after the third time.
    fn undeliverable(&mut self, queue: QueueId, seqs: &SeqSet) {
        let (mut again, mut dead) = (SeqSet::default(), SeqSet::default());
        for seq in seqs.iter() {
            let Some(live) = self.live.get_mut(&queue) else { return };
            let times = live.undeliverable.entry(seq.0).or_default();
            *times += 1;
            if *times >= UNDELIVERABLE_MAX {
                live.undeliverable.remove(&seq.0);
                dead.push(seq);
            } else {
                again.push(seq);
            }
        }
        if !dead.is_empty() {
            self.dead_letter(queue, &dead, DeathReason::Undeliverable);
        }
        if !again.is_empty() {
            self.return_to_queue(queue, &again, true);
        }
    }

    /// Requeues everything that a connection, or one of its consumers, holds.
    pub(super) fn recover(&mut self, to: AnswerTo, id: ConnectionId, consumer: Option<ConsumerId>) {
        let Some(connection) = self.connections.get(&id) else { return };
        let holders: Vec<(ConsumerId, Vec<Seq>)> = connection
            .consumers
            .iter()
            .filter(|(c, _)| consumer.is_none_or(|only| only == **c))
            .map(|(c, live)| (*c, live.held.keys().map(|s| Seq(*s)).collect()))
            .collect();
        let count = holders.iter().map(|(_, held)| held.len() as u64).sum();
        self.answer(to, Lsn(0), Ok(Reply::Settled { count }));
        // in the order of the queue, whoever held them, so that those that die of it keep their order
        let mut returned: BTreeMap<QueueId, Vec<Seq>> = BTreeMap::new();
        let mut released = Vec::new();
        for (consumer, held) in holders {
            if let Some((queue, seqs)) = self.release(id, consumer, held) {
                returned.entry(queue).or_default().extend(seqs.iter());
                released.push(consumer);
            }
        }
        for (queue, seqs) in returned {
            self.return_to_queue(queue, &SeqSet::from_unsorted(seqs), true);
        }
        for consumer in released {
            self.wake_consumer(id, consumer);
            self.forget_empty_holder(id, consumer);
        }
    }
}
