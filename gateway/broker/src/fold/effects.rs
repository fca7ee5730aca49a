//! Effects on their way out: in the order decided, each not before what it promises is durable.

use framegate_storage::Lsn;

use super::inbox::Opened;
use super::live::{ConnectionLive, IdMap};
use super::{AnswerTo, Core, DETACHED};
use crate::error::BrokerError;
use crate::ids::{ConnectionId, ConsumerId, RequestId};
use crate::request::{Effect, Reply};

impl Core {
    /// Answers a request once the log is durable up to `gate` (0: as soon as its turn comes).
    pub(super) fn answer(&mut self, to: AnswerTo, gate: Lsn, result: Result<Reply, BrokerError>) {
        match to {
            AnswerTo::Request(connection, id) => self.effect(connection, gate, Effect::Reply(id, result)),
            AnswerTo::Call(call) => {
                if gate > self.durable_to {
                    self.gated_calls.push_back((gate, call, result));
                } else if let Some(reply) = self.calls.remove(&call) {
                    // whoever hears of a definition may publish by it at once
                    self.publish_topology();
                    let _ = reply.send(result);
                }
            }
            AnswerTo::Nobody => {}
        }
    }

    /// Queues an effect behind earlier ones of the connection.
    pub(super) fn effect(&mut self, id: ConnectionId, gate: Lsn, effect: Effect) {
        let durable_to = self.durable_to;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if gate <= durable_to && connection.gated.is_empty() {
            // what one pass has made safe is one watermark
            if let (Effect::Confirmed { upto }, Some(Effect::Confirmed { upto: last })) =
                (&effect, connection.out.last_mut())
            {
                *last = *upto;
                return;
            }
            return self.push_effect(id, effect);
        }
        // one watermark stands for those before it; a block becomes durable as a whole
        if let (Effect::Confirmed { upto }, Some((last_gate, Effect::Confirmed { upto: last }))) =
            (&effect, connection.gated.back_mut())
            && (*last_gate >= gate || *last_gate >= self.first)
        {
            *last = *upto;
            *last_gate = gate.max(*last_gate);
            return;
        }
        connection.gated.push_back((gate, effect));
        self.gated.insert(id);
    }

    /// An effect that waits for nothing.
    pub(super) fn push_effect(&mut self, id: ConnectionId, effect: Effect) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.out.is_empty() {
            self.touched.push(id);
        }
        connection.out.push(effect);
    }

    /// A publish with watermark is safe from `gate` on.
    pub(super) fn confirm(&mut self, connection: ConnectionId, id: RequestId, gate: Lsn) {
        self.effect(connection, gate, Effect::Confirmed { upto: id });
    }

    /// Lets out what has become durable.
    pub(super) fn open_gates(&mut self) {
        let upto = self.durable_to;
        while let Some((_, call, result)) = self.gated_calls.pop_front_if(|c| c.0 <= upto) {
            if let Some(reply) = self.calls.remove(&call) {
                let _ = reply.send(result);
            }
        }
        let waiting: Vec<ConnectionId> = self.gated.iter().copied().collect();
        let mut announced = Vec::new();
        for id in waiting {
            let Some(connection) = self.connections.get_mut(&id) else {
                self.gated.remove(&id);
                continue;
            };
            let was_empty = connection.out.is_empty();
            while let Some((_, effect)) = connection.gated.pop_front_if(|e| e.0 <= upto) {
                if let (Effect::Confirmed { upto }, Some(Effect::Confirmed { upto: last })) =
                    (&effect, connection.out.last_mut())
                {
                    *last = *upto;
                    continue;
                }
                if let Effect::Reply(request, _) = &effect
                    && let Some(at) = connection.unannounced.iter().position(|u| u.0 == *request)
                {
                    announced.push((id, connection.unannounced.swap_remove(at).1));
                }
                connection.out.push(effect);
            }
            if connection.gated.is_empty() {
                self.gated.remove(&id);
            }
            if was_empty && !connection.out.is_empty() {
                self.touched.push(id);
            }
        }
        for (id, consumer) in announced {
            self.announce(id, consumer);
        }
    }

    /// The answer to a consumer's start is on its way: from now on messages may follow it.
    fn announce(&mut self, id: ConnectionId, consumer: ConsumerId) {
        let live = self.connections.get_mut(&id).and_then(|c| c.consumers.get_mut(&consumer));
        if let Some(live) = live {
            live.announced = true;
            self.wake_consumer(id, consumer);
        }
    }

    /// Whether the caller still waits for its answer. A connection does until its disconnect comes.
    pub(super) fn is_heard(&self, to: AnswerTo) -> bool {
        match to {
            AnswerTo::Call(call) => self.calls.get(&call).is_some_and(|reply| !reply.is_closed()),
            AnswerTo::Request(..) | AnswerTo::Nobody => true,
        }
    }

    /// Sends each connection what it has to hear: one batch a pass.
    pub(super) fn flush(&mut self) {
        for id in std::mem::take(&mut self.touched) {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            let effects = std::mem::take(&mut connection.out);
            if let (Some(outbox), false) = (&connection.outbox, self.failed) {
                // a receiver that is gone sends its disconnect by itself
                let _ = outbox.send(effects);
            }
        }
        for applied in std::mem::take(&mut self.applied) {
            let _ = applied.send(());
        }
    }

    /// A connection opened.
    pub(super) fn connect(&mut self, opened: Opened) {
        let connection = ConnectionLive {
            vhost: opened.vhost,
            user: opened.user,
            label: opened.label,
            outbox: (!self.failed).then_some(opened.outbox),
            window: opened.window,
            consumers: IdMap::default(),
            pools: IdMap::default(),
            busy: Default::default(),
            unannounced: Vec::new(),
            out: Vec::new(),
            gated: Default::default(),
            publishes: false,
            closing: None,
            exclusive: Vec::new(),
        };
        self.connections.insert(opened.id, connection);
        self.connection_opened(opened.id);
    }

    /// Nothing leaves any more: every receiver sees the end.
    pub(super) fn close_everything(&mut self) {
        for connection in self.connections.values_mut() {
            connection.outbox = None;
            connection.out.clear();
            connection.gated.clear();
        }
        for (_, reply) in self.calls.drain() {
            let _ = reply.send(Err(BrokerError::StorageFailed));
        }
        self.gated_calls.clear();
        self.gated_feed.clear();
        self.postponed.clear();
        for watch in self.watches.values() {
            watch.close();
        }
        debug_assert!(self.connections.contains_key(&DETACHED));
    }
}

/// The connection that owns the leases of calls.
pub(super) fn detached(vhost: crate::name::Name) -> ConnectionLive {
    ConnectionLive {
        vhost,
        user: crate::name::Name::default(),
        label: "calls".to_owned(),
        outbox: None,
        window: std::sync::Arc::new(super::inbox::Window::new(usize::MAX / 2)),
        consumers: IdMap::default(),
        pools: IdMap::default(),
        busy: Default::default(),
        unannounced: Vec::new(),
        out: Vec::new(),
        gated: Default::default(),
        publishes: false,
        closing: None,
        exclusive: Vec::new(),
    }
}
