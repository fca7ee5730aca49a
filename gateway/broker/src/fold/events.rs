//! Broker events: made when somebody is bound who may want them, published to `amq.framegate.event`, kept in a ring for
//! questions. Nothing is built, looked up or allocated for an event of which the topology says that nobody wants it.
//!
//! An event is routed in the moment in which it happens, and published at the end of the pass, so that no event is in the
//! middle of what it tells of. Messages that are events themselves cause none.

use std::collections::{BTreeMap, VecDeque};

use framegate_frame::{Frame, FrameKind, Limits, names};

use super::event_body::EventBody;
use super::{Core, DETACHED};
use crate::definition::{BindTarget, BindingSpec, ExchangeSpec};
use crate::event::{AMQ_EVENT, EventInfo, EventKind, Happening, Said, Word};
use crate::ids::{ConnectionId, ConsumerId, QueueId, Seq};
use crate::limits::{EVENTS_KEPT_MAX, EVENTS_PAGE_MAX};
use crate::message::{Delivery, Envelope};
use crate::metrics::Metrics;
use crate::name::Name;
use crate::record::SeqSet;
use crate::request::{Outcome, Publish, Published};
use crate::routing::Targets;

/// Events of one vhost.
#[derive(Debug, Default)]
struct Kept {
    ring: VecDeque<EventInfo>,
    last: u64,
}

/// Events that are made.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// On their way, in order.
    pending: VecDeque<(Name, Envelope, Frame, Targets)>,
    kept: BTreeMap<Name, Kept>,
}

/// Whether a message is an event, also one that died in a queue.
fn is_event(envelope: &Envelope) -> bool {
    envelope.exchange == AMQ_EVENT || envelope.deaths.iter().any(|death| death.exchange == AMQ_EVENT)
}

fn message_id(frame: &Frame) -> Option<&str> {
    frame.attr(names::ID)
}

impl Core {
    /// Something happened. `fill` is called only when somebody may want to know.
    #[inline]
    fn event(&mut self, vhost: &Name, kind: EventKind, subject: &str, fill: impl FnOnce(&mut EventBody)) {
        if self.editor.wants(kind) {
            self.make_event(vhost, kind, subject, fill);
        }
    }

    fn make_event(
        &mut self,
        vhost: &Name,
        kind: EventKind,
        subject: &str,
        fill: impl FnOnce(&mut EventBody),
    ) {
        let keys: crate::message::Keys = smallvec::smallvec![Name::from_static(kind.name())];
        let mut targets = Targets::default();
        let routed = self.editor.current().route(vhost, AMQ_EVENT, &keys, &|_| {}, &mut targets);
        // events are never kept by a topic, only shown to those who listen
        targets.topics.clear();
        if routed.is_err() || (targets.queues.is_empty() && targets.watches.is_empty()) {
            return;
        }
        let mut body = EventBody::new();
        fill(&mut body);
        let body = body.finish();
        let time_ms = self.now.wall_ms;
        let time = i64::try_from(time_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let time = time.unwrap_or_default().to_string();
        let attributes = [
            (names::TYPE, kind.name()),
            (names::DATACONTENTTYPE, "application/json"),
            (names::SUBJECT, subject),
            (names::TIME, &time),
        ];
        let attributes = attributes.into_iter().filter(|(_, value)| !value.is_empty());
        let Ok(frame) = Frame::build(FrameKind::Event, attributes, body.as_bytes(), &Limits::GATEWAY) else {
            return;
        };
        Metrics::add(&self.shared.metrics.events, 1);
        // the last event outlives the process where its queue does; nobody is there to take it before
        let persistent = kind == EventKind::BrokerStopped;
        let exchange = Name::from_static(AMQ_EVENT);
        let envelope = Envelope { exchange, keys, time_ms, persistent, ..Envelope::default() };
        let kept = self.events.kept.entry(vhost.clone()).or_default();
        kept.last += 1;
        if kept.ring.len() == EVENTS_KEPT_MAX {
            kept.ring.pop_front();
        }
        let subject = Name::new(subject).unwrap_or_default();
        kept.ring.push_back(EventInfo { seq: kept.last, kind, subject, time_ms, body });
        self.events.pending.push_back((vhost.clone(), envelope, frame, targets));
    }

    /// Publishes what was made.
    pub(super) fn publish_events(&mut self) {
        while let Some((vhost, envelope, frame, targets)) = self.events.pending.pop_front() {
            self.place(&vhost, envelope, &frame, None, &targets);
        }
    }

    /// Kept events behind a number.
    pub(super) fn kept_events(&self, vhost: &Name, after: u64, max: usize) -> Vec<EventInfo> {
        let Some(kept) = self.events.kept.get(vhost) else { return Vec::new() };
        let first = kept.ring.partition_point(|event| event.seq <= after);
        kept.ring.range(first..).take(max.min(EVENTS_PAGE_MAX)).cloned().collect()
    }

    fn in_every_vhost(&mut self, kind: EventKind, fill: impl Fn(&mut EventBody)) {
        if self.editor.wants(kind) {
            for vhost in self.shared.vhosts.clone() {
                self.make_event(&vhost, kind, "", &fill);
            }
        }
    }

    pub(super) fn broker_started(&mut self, listeners: &[(String, String)]) {
        self.in_every_vhost(EventKind::BrokerStarted, |body| {
            body.pairs("listeners", listeners.iter().map(|(name, addr)| (name.as_str(), addr.as_str())));
        });
    }

    pub(super) fn broker_stopped(&mut self) {
        self.in_every_vhost(EventKind::BrokerStopped, |_| {});
        self.publish_events();
    }

    pub(super) fn broker_error(&mut self, error: &str) {
        self.in_every_vhost(EventKind::BrokerError, |body| body.text("error", error));
    }

    pub(super) fn connection_opened(&mut self, id: ConnectionId) {
        self.of_connection(id, EventKind::ConnectionOpen, |_| {});
    }

    pub(super) fn connection_closed(&mut self, id: ConnectionId) {
        if !self.editor.wants(EventKind::ConnectionClose) {
            return;
        }
        let reason = self.connections.get_mut(&id).and_then(|live| live.closing.take());
        self.of_connection(id, EventKind::ConnectionClose, |body| {
            body.text("reason", reason.as_deref().unwrap_or("the connection ended"));
        });
    }

    /// A protocol says what happened on a connection.
    pub(super) fn happened(&mut self, id: ConnectionId, what: Happening) {
        match what {
            Happening::ChannelOpened(channel) => {
                self.of_connection(id, EventKind::ChannelOpen, |b| b.number("channel", channel.into()));
            }
            Happening::ChannelClosed(channel) => {
                self.of_connection(id, EventKind::ChannelClose, |b| b.number("channel", channel.into()));
            }
            Happening::ChannelFlow { channel, active } => {
                self.of_connection(id, EventKind::ChannelFlow, |body| {
                    body.number("channel", channel.into());
                    body.flag("active", active);
                });
            }
            Happening::Failed(error) => {
                self.of_connection(id, EventKind::ConnectionError, |body| body.text("error", &error));
                if let Some(live) = self.connections.get_mut(&id) {
                    live.closing = Some(error);
                }
            }
            Happening::Closing(reason) => {
                if let Some(live) = self.connections.get_mut(&id) {
                    live.closing.get_or_insert(reason);
                }
            }
        }
    }

    fn of_connection(&mut self, id: ConnectionId, kind: EventKind, fill: impl FnOnce(&mut EventBody)) {
        if !self.editor.wants(kind) {
            return;
        }
        let Some(live) = self.connections.get(&id).filter(|_| id != DETACHED) else { return };
        let (vhost, user, label) = (live.vhost.clone(), live.user.clone(), live.label.clone());
        self.make_event(&vhost, kind, &id.to_string(), |body| {
            body.number("connection", id.0);
            body.text("label", &label);
            body.text("user", &user);
            fill(body);
        });
    }

    pub(super) fn exchange_created(&mut self, vhost: &Name, spec: &ExchangeSpec) {
        self.event(vhost, EventKind::ExchangeCreated, &spec.name, |body| {
            body.text("exchange", &spec.name);
            body.text("type", spec.kind.as_str());
            body.flag("durable", spec.durable);
            body.flag("auto_delete", spec.auto_delete);
            body.flag("internal", spec.internal);
        });
    }

    pub(super) fn exchange_deleted(&mut self, vhost: &Name, name: &Name) {
        self.event(vhost, EventKind::ExchangeDeleted, name, |body| body.text("exchange", name));
    }

    pub(super) fn queue_created(&mut self, vhost: &Name, queue: QueueId) {
        if !self.editor.wants(EventKind::QueueCreated) {
            return;
        }
        let Some(spec) = self.state(queue).queue(queue).map(|state| state.spec.clone()) else { return };
        self.make_event(vhost, EventKind::QueueCreated, &spec.name, |body| {
            body.text("queue", &spec.name);
            body.flag("durable", spec.durable);
            body.flag("exclusive", spec.exclusive);
            body.flag("auto_delete", spec.auto_delete);
        });
    }

    pub(super) fn queue_deleted(&mut self, vhost: &Name, name: &Name, messages: u64) {
        self.event(vhost, EventKind::QueueDeleted, name, |body| {
            body.text("queue", name);
            body.number("messages", messages);
        });
    }

    pub(super) fn queue_purged(&mut self, vhost: &Name, name: &Name, count: u64) {
        self.event(vhost, EventKind::QueuePurged, name, |body| {
            body.text("queue", name);
            body.number("count", count);
        });
    }

    pub(super) fn binding_created(&mut self, vhost: &Name, binding: &BindingSpec) {
        self.of_binding(vhost, EventKind::BindingCreated, binding);
    }

    pub(super) fn bindings_deleted(&mut self, vhost: &Name, bindings: &[BindingSpec]) {
        for binding in bindings {
            self.of_binding(vhost, EventKind::BindingDeleted, binding);
        }
    }

    fn of_binding(&mut self, vhost: &Name, kind: EventKind, binding: &BindingSpec) {
        self.event(vhost, kind, &binding.exchange, |body| {
            body.text("exchange", &binding.exchange);
            match &binding.target {
                BindTarget::Queue(queue) => body.text("queue", queue),
                BindTarget::Exchange(exchange) => body.text("to_exchange", exchange),
                BindTarget::Topic(topic) => body.text("topic", topic),
            }
            body.text("routing_key", &binding.key);
        });
    }

    pub(super) fn consumer_created(&mut self, id: ConnectionId, consumer: ConsumerId, queue: QueueId) {
        self.of_consumer(EventKind::ConsumerCreated, id, consumer, queue);
    }

    pub(super) fn consumer_cancelled(&mut self, id: ConnectionId, consumer: ConsumerId, queue: QueueId) {
        self.of_consumer(EventKind::ConsumerCancelled, id, consumer, queue);
    }

    fn of_consumer(&mut self, kind: EventKind, id: ConnectionId, consumer: ConsumerId, queue: QueueId) {
        if !self.editor.wants(kind) {
            return;
        }
        let Some((vhost, name)) = self.place_of(queue) else { return };
        self.make_event(&vhost, kind, &name, |body| {
            body.text("queue", &name);
            body.number("connection", id.0);
            body.number("consumer", consumer.0.into());
        });
    }

    /// Vhost and name of a queue.
    fn place_of(&self, queue: QueueId) -> Option<(Name, Name)> {
        self.state(queue).queue(queue).map(|state| (state.vhost.clone(), state.spec.name.clone()))
    }

    pub(super) fn message_published(&mut self, vhost: &Name, publish: &Publish) {
        self.event(vhost, EventKind::MessagePublished, message_id(&publish.frame).unwrap_or(""), |body| {
            body.text_or_null("message", message_id(&publish.frame));
            body.text("exchange", &publish.exchange);
            body.text("routing_key", publish.keys.first().map_or("", Name::as_str));
            body.number("bytes", publish.frame.data().len() as u64);
        });
    }

    pub(super) fn message_routed(
        &mut self,
        vhost: &Name,
        publish: &Publish,
        targets: &Targets,
        published: &Published,
    ) {
        if !self.editor.wants(EventKind::MessageRouted)
            || (published.queues == 0 && published.offset.is_none())
        {
            return;
        }
        let queues: Vec<Name> =
            targets.queues.iter().filter_map(|queue| self.place_of(*queue)).map(|(_, name)| name).collect();
        let topic = targets.topics.first().and_then(|topic| self.durable.topic(*topic));
        let topic = topic.map(|topic| topic.spec.name.clone());
        let id = message_id(&publish.frame);
        self.make_event(vhost, EventKind::MessageRouted, id.unwrap_or(""), |body| {
            body.text_or_null("message", id);
            body.text("exchange", &publish.exchange);
            body.text("routing_key", publish.keys.first().map_or("", Name::as_str));
            body.texts("queues", queues.iter().map(Name::as_str));
            body.text_or_null("topic", topic.as_deref());
        });
    }

    pub(super) fn message_returned(&mut self, id: ConnectionId, envelope: &Envelope, frame: &Frame) {
        if !self.editor.wants(EventKind::MessageReturned) {
            return;
        }
        let Some(vhost) = self.connections.get(&id).map(|live| live.vhost.clone()) else { return };
        self.make_event(&vhost, EventKind::MessageReturned, message_id(frame).unwrap_or(""), |body| {
            body.text_or_null("message", message_id(frame));
            body.text("exchange", &envelope.exchange);
            body.text("routing_key", envelope.key());
            body.number("code", 312);
            body.text("text", "NO_ROUTE");
        });
    }

    pub(super) fn message_delivered(&mut self, id: ConnectionId, delivery: &Delivery) {
        if !self.editor.wants(EventKind::MessageDelivered) || is_event(&delivery.envelope) {
            return;
        }
        let (vhost, frame) = (delivery.origin.vhost.clone(), delivery.frame.clone());
        self.make_event(&vhost, EventKind::MessageDelivered, message_id(&frame).unwrap_or(""), |body| {
            body.text_or_null("message", message_id(&frame));
            body.text("queue", &delivery.origin.name);
            body.number("tag", delivery.origin.seq);
            body.number("connection", id.0);
            body.number("consumer", delivery.consumer.0.into());
            body.flag("redelivered", delivery.redelivered);
        });
    }

    /// Deliveries are about to be settled. Called before they leave the queue.
    pub(super) fn message_settled(
        &mut self,
        (id, consumer): (ConnectionId, ConsumerId),
        queue: QueueId,
        seqs: &SeqSet,
        outcome: Outcome,
        said: Option<Said>,
    ) {
        let word = said.map(|said| said.word).or(match outcome {
            Outcome::Ack => Some(Word::Ack),
            Outcome::Requeue { .. } | Outcome::Undeliverable => Some(Word::Nack),
            Outcome::Reject => Some(Word::Reject),
            Outcome::Extend { .. } => None,
        });
        let kind = match word {
            Some(Word::Ack) => EventKind::MessageAcked,
            Some(Word::Nack) => EventKind::MessageNacked,
            Some(Word::Reject) => EventKind::MessageRejected,
            None => return,
        };
        if !self.editor.wants(kind) {
            return;
        }
        let Some((vhost, name)) = self.place_of(queue) else { return };
        let (mut count, mut last) = (0, 0);
        for seq in seqs.iter().filter(|seq| !self.is_event_at(queue, *seq)) {
            count += 1;
            last = seq.0;
        }
        if count == 0 {
            return;
        }
        self.make_event(&vhost, kind, &name, |body| {
            body.text("queue", &name);
            body.number("tag", said.and_then(|said| said.tag).unwrap_or(last));
            body.number("count", count);
            body.number("connection", id.0);
            body.number("consumer", consumer.0.into());
            if let Some(channel) = said.and_then(|said| said.channel) {
                body.number("channel", channel.into());
            }
            body.flag("multiple", said.map_or(count > 1, |said| said.multiple));
            if kind != EventKind::MessageAcked {
                let back = matches!(outcome, Outcome::Requeue { .. } | Outcome::Undeliverable);
                body.flag("requeue", back);
            }
        });
    }

    /// Messages of a queue have expired. Called before they leave it.
    pub(super) fn messages_expired(&mut self, queue: QueueId, seqs: &[Seq]) {
        if !self.editor.wants(EventKind::MessageExpired) {
            return;
        }
        let Some((vhost, name)) = self.place_of(queue) else { return };
        for seq in seqs {
            if self.is_event_at(queue, *seq) {
                continue;
            }
            let frame = self.live.get(&queue).and_then(|live| live.frames.get(&seq.0)).cloned();
            let id = frame.as_ref().and_then(message_id);
            self.make_event(&vhost, EventKind::MessageExpired, id.unwrap_or(""), |body| {
                body.text_or_null("message", id);
                body.text("queue", &name);
                body.number("tag", seq.0);
            });
        }
    }

    fn is_event_at(&self, queue: QueueId, seq: Seq) -> bool {
        let envelope = self.state(queue).queue(queue).and_then(|state| state.envelope(seq));
        envelope.is_some_and(|envelope| is_event(&envelope))
    }
}
