//! Dispatch: the next message in order to the next taker in line, while there are both.

use framegate_storage::Lsn;

use super::consume::has_credit;
use super::live::{Held, Taker};
use super::{Core, timers::Timer};
use crate::ids::{ConnectionId, ConsumerId, QueueId, Seq, Token};
use crate::limits::SLICE_MESSAGES_MAX;
use crate::message::{Delivery, Origin, Position};
use crate::metrics::Metrics;
use crate::record::SeqSet;
use crate::request::{Effect, Reply};

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

    /// Queues are waiting to be looked at again at once.
    pub(crate) fn has_more(&self) -> bool {
        !self.dirty.is_empty() || !self.work.is_empty()
    }

    /// Ready messages of a queue.
    pub(super) fn ready_count(&self, queue: QueueId) -> u64 {
        let count = self.state(queue).queue(queue).map_or(0, |q| q.count);
        count.saturating_sub(self.live.get(&queue).map_or(0, |l| l.held))
    }

    /// The next message in order that may be delivered, and whether somebody may have seen it.
    fn next_ready(&self, queue: QueueId) -> Option<(u64, bool)> {
        let live = self.live.get(&queue)?;
        let after_purge = live.purging + 1;
        if let Some(seq) = live.returned.range(after_purge..).next() {
            return Some((*seq, true));
        }
        let (seq, _) = self.state(queue).queue(queue)?.slots.at_or_after(live.cursor.max(after_purge))?;
        (seq <= live.visible).then_some((seq, seq <= live.seen_before))
    }

    /// Delivers what can be delivered now.
    pub(super) fn dispatch(&mut self, queue: QueueId) {
        for _ in 0..SLICE_MESSAGES_MAX {
            let Some((seq, redelivered)) = self.next_ready(queue) else { return };
            let Some((priority, taker)) = self.live.get_mut(&queue).and_then(|l| l.pop_taker()) else {
                return;
            };
            let resident = self.live.get(&queue).is_some_and(|l| l.frames.contains_key(&seq));
            let able = match taker {
                Taker::Consumer(id, consumer) => self.can_take(id, consumer),
                Taker::Waiter(waiter) => self.waiters.contains_key(&waiter),
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
                    if let Some(delivery) = self.deliver(queue, Seq(seq), redelivered, id, consumer) {
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
    fn can_take(&mut self, id: ConnectionId, consumer: ConsumerId) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        let Some(live) = connection.consumers.get(&consumer).filter(|c| c.active) else { return false };
        let credit = has_credit(live, &connection.pools);
        let able = credit && connection.window.has_room();
        if !able {
            if credit {
                connection.busy.push(consumer);
                Metrics::add(&self.shared.metrics.paused_busy, 1);
            }
            if let Some(live) = connection.consumers.get_mut(&consumer) {
                live.in_line = false;
            }
        }
        able
    }

    /// Gives a pull as much as it wants and is in memory.
    fn serve(&mut self, queue: QueueId, waiter: u64) {
        let Some(waiting) = self.waiters.remove(&waiter) else { return };
        let mut messages = Vec::new();
        while messages.len() < waiting.fetch.max as usize && messages.len() < SLICE_MESSAGES_MAX {
            let Some((seq, redelivered)) = self.next_ready(queue) else { break };
            if !self.live.get(&queue).is_some_and(|l| l.frames.contains_key(&seq)) {
                break;
            }
            let holder = waiting.fetch.consumer;
            messages.extend(self.deliver(queue, Seq(seq), redelivered, waiting.connection, holder));
        }
        let remaining = self.ready_count(queue);
        self.forget_empty_holder(waiting.connection, waiting.fetch.consumer);
        self.answer(waiting.to, Lsn(0), Ok(Reply::Fetched { messages, remaining }));
    }

    /// Takes a message out of the ready ones and leases it, or settles it at once.
    fn deliver(
        &mut self,
        queue: QueueId,
        seq: Seq,
        redelivered: bool,
        id: ConnectionId,
        consumer: ConsumerId,
    ) -> Option<Delivery> {
        let state = self.state(queue).queue(queue)?;
        let envelope = state.envelope(seq)?;
        let origin =
            Origin { vhost: state.vhost.clone(), name: state.spec.name.clone(), id: queue.0, seq: seq.0 };
        let live = self.live.get_mut(&queue)?;
        let frame = live.frames.get(&seq.0)?.clone();
        if !live.returned.remove(&seq.0) {
            live.cursor = seq.0 + 1;
            self.delivered.insert(queue);
        }
        let connection = self.connections.get_mut(&id)?;
        let holder = connection.consumers.get_mut(&consumer)?;
        let auto_ack = holder.auto_ack;
        let mut token = None;
        if !auto_ack {
            if holder.tokens {
                let made = Token(uuid::Uuid::new_v4().as_u128());
                self.tokens.insert(made, (id, consumer, seq.0));
                token = Some(made);
            }
            let deadline_ms =
                holder.lease_ms.map_or(0, |lease| self.now.mono_ms.saturating_add(lease).max(1));
            if deadline_ms != 0 {
                self.timers.add(deadline_ms, Timer::Lease(id, consumer, seq.0));
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
            redelivered: redelivered || envelope.attempts > 0,
            envelope,
            frame,
            origin,
        };
        connection.window.take(delivery.window_bytes());
        Metrics::add(&self.shared.metrics.delivered, 1);
        if auto_ack {
            Metrics::add(&self.shared.metrics.acked, 1);
            self.remove(queue, &SeqSet::one(seq));
        }
        Some(delivery)
    }
}
