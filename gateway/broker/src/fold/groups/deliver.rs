//! Handing an event of a group over to a member: leased, or settled at once.

use framegate_storage::Lsn;

use super::super::Core;
use super::super::consume::terms_of;
use super::super::live::{Held, Terms};
use super::super::timers::Timer;
use super::MemberKey;
use crate::ids::{Offset, QueueId, Seq, Token};
use crate::limits::SLICE_MESSAGES_MAX;
use crate::message::{Delivery, Envelope, Origin, Position};
use crate::metrics::Metrics;
use crate::record::{SeqSet, Settled};
use crate::request::Reply;

impl Core {
    /// Gives a pull as much as it wants and is in memory.
    pub(super) fn serve_group(&mut self, id: QueueId, waiter: u64, balanced: bool) {
        let Some(waiting) = self.waiters.remove(&waiter) else { return };
        let (connection, holder) = (waiting.connection, waiting.fetch.consumer);
        let terms = terms_of(&waiting.fetch);
        let (mut messages, mut expired) = (Vec::new(), Vec::new());
        while messages.len() < waiting.fetch.max as usize && messages.len() < SLICE_MESSAGES_MAX {
            let Some(offset) = self.next_for(id, (connection, holder), balanced) else { break };
            if self.is_too_old(id, offset) {
                if expired.len() >= SLICE_MESSAGES_MAX {
                    break;
                }
                self.take_offset(id, (connection, holder), offset, balanced);
                expired.push(Seq(offset));
                continue;
            }
            if !self.is_resident(id, offset) {
                break;
            }
            let key = (connection, holder);
            let Some(delivery) = self.hand_over(id, offset, key, balanced, Some(terms)) else { break };
            messages.push(delivery);
        }
        self.settle_group(id, &SeqSet::from_unsorted(expired), Settled::Expired);
        let remaining = self.ready_count(id);
        self.forget_wait(connection, holder);
        self.answer(waiting.to, Lsn(0), Ok(Reply::Fetched { messages, remaining }));
    }

    /// Takes an event out of the ready ones and leases it, or settles it at once. `terms`: how, when not as the member takes its events.
    pub(super) fn hand_over(
        &mut self,
        id: QueueId,
        offset: u64,
        key: MemberKey,
        balanced: bool,
        terms: Option<Terms>,
    ) -> Option<Delivery> {
        let (connection, consumer) = key;
        let (group, topic) = self.group_and_topic(id)?;
        let attempts = group.attempts(offset);
        let mut envelope: Envelope = topic.envelope(Offset(offset));
        envelope.attempts = attempts;
        let (vhost, name) = (topic.vhost.clone(), topic.spec.name.clone());
        let origin = Origin { vhost, name, id: group.topic.0, seq: offset };
        let seen = self.groups.live.get(&id)?.seen;
        let frame = self.live.get(&id)?.frames.get(&offset)?.clone();
        // who takes it is known before it leaves the ready ones
        self.connections.get(&connection)?.consumers.get(&consumer)?;
        self.take_offset(id, key, offset, balanced);
        let live = self.live.get_mut(&id)?;
        let peer = self.connections.get_mut(&connection)?;
        let holder = peer.consumers.get_mut(&consumer)?;
        let terms = terms.unwrap_or(holder.terms);
        let mut token = None;
        if !terms.auto_ack {
            if terms.tokens {
                let made = Token(uuid::Uuid::new_v4().as_u128());
                self.tokens.insert(made, (connection, consumer, offset));
                token = Some(made);
            }
            let deadline_ms = terms.lease_ms.map_or(0, |lease| self.now.mono_ms.saturating_add(lease).max(1));
            if deadline_ms != 0 && (holder.lease_timer_ms == 0 || deadline_ms < holder.lease_timer_ms) {
                holder.lease_timer_ms = deadline_ms;
                self.timers.add(deadline_ms, Timer::Lease(connection, consumer));
            }
            holder.held.insert(offset, Held { deadline_ms, token });
            if let Some(pool) = holder.pool.and_then(|p| peer.pools.get_mut(&p)) {
                pool.used += 1;
            }
            live.held += 1;
            live.leased += 1;
        }
        let delivery = Delivery {
            consumer,
            position: Position::Queue(Seq(offset)),
            token,
            attempt: attempts.saturating_add(1),
            redelivered: offset < seen || attempts > 0,
            envelope,
            frame,
            origin,
        };
        peer.window.take(delivery.window_bytes());
        Metrics::add(&self.shared.metrics.delivered, 1);
        if terms.auto_ack {
            Metrics::add(&self.shared.metrics.acked, 1);
            self.settle_group(id, &SeqSet::one(Seq(offset)), Settled::Acked);
        }
        Some(delivery)
    }
}
