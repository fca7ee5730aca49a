//! What a client that is logged in and the broker have going: commands in progress, consumers, unsettled deliveries. Turns the
//! broker's effects into responses and events. Never reads packets.

use bytes::BytesMut;
use framegate_adaptor_api::Outbound;
use framegate_broker::{
    BrokerError, CancelReason, ConsumerId, Delivery, Effect, HeaderTable, Lease, Name, Outcome, Position,
    Reply, Request, RequestId, Settle,
};

use crate::codec::{begin_event, put_event, put_failure};
use crate::consumers::{Consumer, Consumers, Phase};
use crate::delivery::{Place, put_delivery};
use crate::errors::Failure;
use crate::json::Object;
use crate::pending::{InProgress, Pending, Waiting};
use crate::unsettled::Unsettled;

/// State of a connection that is logged in.
pub(crate) struct Conversation {
    pub(crate) in_progress: InProgress,
    pub(crate) consumers: Consumers,
    pub(crate) unsettled: Unsettled,
    /// The user, to compare claims with.
    pub(crate) user: Name,
    /// Wants MESSAGE_RETURNED, CONNECTION_BLOCKED and CONNECTION_UNBLOCKED.
    pub(crate) return_events: bool,
    /// Prefetch of consumers that name none; 0: unlimited.
    pub(crate) prefetch: u32,
    /// The broker knows the limit that all consumers share.
    pub(crate) pool_is_known: bool,
    /// Names of the last publish, so that a publisher that repeats itself allocates none.
    pub(crate) last_exchange: Name,
    pub(crate) last_key: Name,
    pub(crate) headers: HeaderTable,
    /// What follows a body, reused.
    pub(crate) tail: BytesMut,
}

impl Conversation {
    /// Nothing going yet. `random` makes delivery tags unlike those of other connections.
    pub(crate) fn new(headers: HeaderTable, random: u64) -> Self {
        Self {
            in_progress: InProgress::default(),
            consumers: Consumers::default(),
            unsettled: Unsettled::new(random),
            user: Name::default(),
            return_events: false,
            prefetch: 0,
            pool_is_known: false,
            last_exchange: Name::default(),
            last_key: Name::default(),
            headers,
            tail: BytesMut::new(),
        }
    }

    /// Something the broker says.
    pub(crate) fn effect(&mut self, effect: Effect, out: &mut Outbound) {
        match effect {
            Effect::Reply(id, result) => self.reply(id, result, out),
            Effect::Delivery(delivery) => self.delivery(delivery, out),
            Effect::Returned { id, .. } => {
                if let Some(Pending { waiting: Waiting::Published(publication), .. }) =
                    self.in_progress.get_mut(id)
                {
                    publication.was_returned = true;
                }
            }
            Effect::Cancelled { consumer, reason } => self.cancelled(consumer, reason, out),
            Effect::Blocked(blocked) if self.return_events => {
                let event = if blocked { "CONNECTION_BLOCKED" } else { "CONNECTION_UNBLOCKED" };
                let reason = if blocked { "RESOURCES_EXHAUSTED" } else { "RESOURCES_AVAILABLE" };
                put_event(event, out, |buffer| {
                    let mut object = Object::begin(buffer);
                    object.text("reason", reason);
                    object.end();
                });
            }
            // Publishes here are answered by replies, so there is no watermark to hear of.
            Effect::Blocked(_) | Effect::Confirmed { .. } | Effect::Refused { .. } => {}
        }
    }

    fn reply(&mut self, id: RequestId, result: Result<Reply, BrokerError>, out: &mut Outbound) {
        if let Some(Pending { waiting: Waiting::Settled(settlement), .. }) = self.in_progress.take_part(id) {
            return settlement.add(&result);
        }
        // Replies that nobody waits for: credit, settlements of what could not be sent.
        let Some(Pending { request_id, waiting }) = self.in_progress.take(id) else { return };
        match result {
            Ok(reply) => self.complete(&request_id, waiting, reply, out),
            Err(error) => {
                self.give_up(&waiting);
                put_failure(Some(&request_id), &error.into(), out);
            }
        }
    }

    fn give_up(&mut self, waiting: &Waiting) {
        match waiting {
            Waiting::Consuming(consumer) => {
                self.consumers.remove(*consumer);
            }
            Waiting::Cancelling(consumer) => {
                if let Some(consumer) = self.consumers.get_mut(*consumer) {
                    consumer.phase = Phase::Running;
                }
            }
            _ => {}
        }
    }

    fn delivery(&mut self, delivery: Delivery, out: &mut Outbound) {
        match self.consumers.get_mut(delivery.consumer) {
            Some(Consumer { phase: Phase::Starting(held), .. }) => held.push(delivery),
            Some(_) => self.send(&delivery, out),
            // Its consumer ended while it was on the way.
            None => self.give_back(&delivery, Outcome::Requeue { delay_ms: 0 }, out),
        }
    }

    /// Sends what was held for a consumer whose CONSUME has been answered now.
    pub(crate) fn run(&mut self, consumer: ConsumerId, out: &mut Outbound) {
        let Some(entry) = self.consumers.get_mut(consumer) else { return };
        let held = match std::mem::replace(&mut entry.phase, Phase::Running) {
            Phase::Starting(held) => held,
            other => {
                entry.phase = other;
                return;
            }
        };
        for delivery in held {
            self.send(&delivery, out);
        }
    }

    fn send(&mut self, delivery: &Delivery, out: &mut Outbound) {
        let Some(consumer) = self.consumers.get(delivery.consumer) else { return };
        let seq = match delivery.position {
            Position::Queue(seq) if !consumer.auto_ack => Some(seq),
            _ => None,
        };
        let tag = self.unsettled.push(delivery.consumer, seq);
        let place = Place {
            queue: &consumer.queue,
            tag,
            consumer_tag: Some(&consumer.tag),
            headers: &self.headers,
            end: "}",
        };
        let begin = |out: &mut Outbound| begin_event("MESSAGE_DELIVERED", out);
        if put_delivery(delivery, &place, begin, &mut self.tail, out).is_err() {
            self.unsettled.take_back(tag);
            if seq.is_some() {
                self.give_back(delivery, Outcome::Undeliverable, out);
            }
        }
    }

    /// Settles a delivery that the client does not get to see.
    pub(crate) fn give_back(&mut self, delivery: &Delivery, outcome: Outcome, out: &mut Outbound) {
        if let Position::Queue(seq) = delivery.position {
            let lease = Lease::Positions(delivery.consumer, vec![seq]);
            let id = self.in_progress.untracked();
            out.request(id, Request::Settle(Settle { lease, outcome, answer: false }));
        }
    }

    fn cancelled(&mut self, consumer: ConsumerId, reason: CancelReason, out: &mut Outbound) {
        let Some(ended) = self.consumers.remove(consumer) else { return };
        self.unsettled.end(consumer);
        put_event("CONSUMER_CANCELLED", out, |buffer| {
            let mut object = Object::begin(buffer);
            object.text("consumerTag", &ended.tag);
            object.text("queueName", &ended.queue);
            object.text(
                "reason",
                match reason {
                    CancelReason::QueueDeleted => "QUEUE_DELETED",
                    _ => "CANCELLED",
                },
            );
            object.end();
        });
    }

    fn complete(&mut self, request_id: &str, waiting: Waiting, reply: Reply, out: &mut Outbound) {
        let unexpected = match waiting {
            Waiting::Published(publication) => return self.published(request_id, &publication, reply, out),
            Waiting::Settled(settlement) => return settlement.finish(request_id, &reply, out),
            Waiting::Consuming(consumer) => return self.consuming(request_id, consumer, out),
            Waiting::Cancelling(consumer) => return self.cancelled_by_client(request_id, consumer, out),
            Waiting::Got { queue, holder, auto_ack } => {
                let holder = (!auto_ack).then_some(holder);
                self.got(request_id, &queue, holder, reply, out)
            }
            Waiting::Recovered => self.recovered(request_id, &reply, out),
            Waiting::Stats => Self::stats_reply(request_id, &reply, out),
            Waiting::Bindings => Self::bindings_reply(request_id, &reply, out),
            Waiting::Bound { queue, exchange, key } => {
                return Self::bound_reply(request_id, [&queue, &exchange, &key], out);
            }
            Waiting::ExchangeDeclared
            | Waiting::ExchangeDeleted(_)
            | Waiting::ExchangeBound { .. }
            | Waiting::Exchanges => Self::exchange_reply(request_id, &waiting, &reply, out),
            Waiting::QueueDeclared | Waiting::QueueInfo | Waiting::Removed(_) | Waiting::Queues => {
                Self::queue_reply(request_id, &waiting, &reply, out)
            }
        };
        if let Err(Unexpected) = unexpected {
            let failure =
                Failure::new(crate::errors::Code::InternalError, "The broker's answer was not understood");
            put_failure(Some(request_id), &failure, out);
        }
    }
}

/// The broker answered with something that the command does not know.
pub(crate) struct Unexpected;
