//! Consumers and pulls: CONSUME, CANCEL, QOS, GET.

use framegate_adaptor_api::Outbound;
use framegate_broker::{Consume, ConsumerId, Credit, Fetch, Name, Outcome, PoolId, Position, Reply, Request};

use super::Call;
use crate::codec::{begin_success, put_failure, put_success};
use crate::consumers::{Consumer, Phase};
use crate::conversation::{Conversation, Unexpected};
use crate::delivery::{Place, put_delivery};
use crate::errors::{Code, Failure, shortened};
use crate::json::Object;
use crate::limits::{CONSUMERS_MAX, UNSETTLED_MAX};
use crate::pending::Waiting;
use crate::schema::Key;

/// The limit that all consumers of a connection share.
const POOL: PoolId = PoolId(0);

impl Conversation {
    pub(super) fn consume(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let payload = call.payload;
        let queue = Name::new(payload.text_or_empty(Key::QueueName))?;
        if self.consumers.len() >= CONSUMERS_MAX {
            let message = format!("A connection has at most {CONSUMERS_MAX} consumers");
            return Err(Failure::new(Code::RateLimited, message));
        }
        let tag = match payload.text(Key::ConsumerTag) {
            Some(tag) if self.consumers.find(tag).is_some() => {
                let message = format!("Consumer '{tag}' exists on this connection");
                return Err(Failure::new(Code::ConsumerExists, message));
            }
            Some(tag) => tag.to_owned(),
            None => self.consumers.free_tag(),
        };
        let auto_ack = payload.flag(Key::AutoAck);
        let prefetch = match payload.integer(Key::Prefetch) {
            Some(prefetch) => u32::try_from(prefetch).unwrap_or_default(),
            None => self.prefetch,
        };
        let priority = payload.integer(Key::Priority).and_then(|priority| i32::try_from(priority).ok());
        let consumer = self.consumers.add(&tag, queue.clone(), auto_ack).ok_or_else(|| {
            Failure::new(Code::RateLimited, "This connection has used up its consumer numbers; open another")
        })?;
        if !auto_ack && !self.pool_is_known {
            self.set_pool(UNSETTLED_MAX, call.out);
        }
        let request = Request::Consume(Consume {
            consumer,
            queue,
            prefetch: (prefetch > 0).then_some(prefetch),
            pool: (!auto_ack).then_some(POOL),
            exclusive: payload.flag(Key::Exclusive),
            auto_ack,
            lease_ms: None,
            tokens: false,
            priority: priority.unwrap_or_default(),
        });
        self.ask(call, request, Waiting::Consuming(consumer));
        Ok(())
    }

    pub(crate) fn consuming(&mut self, request_id: &str, consumer: ConsumerId, out: &mut Outbound) {
        let Some(Consumer { tag, queue, .. }) = self.consumers.get(consumer) else {
            // Its queue was deleted in between.
            let failure = Failure::new(Code::QueueNotFound, "Queue was deleted");
            return put_failure(Some(request_id), &failure, out);
        };
        put_success(request_id, out, |buffer| {
            let mut object = Object::begin(buffer);
            object.text("consumerTag", tag);
            object.text("queueName", queue);
            object.end();
        });
        self.run(consumer, out);
    }

    pub(super) fn cancel(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let tag = call.payload.text_or_empty(Key::ConsumerTag);
        let missing = || {
            let message = format!("Consumer '{}' does not exist on this connection", shortened(tag));
            Failure::new(Code::ConsumerNotFound, message)
        };
        let consumer = self.consumers.find(tag).ok_or_else(missing)?;
        let entry = self.consumers.get_mut(consumer).ok_or_else(missing)?;
        match entry.phase {
            Phase::Cancelling => return Err(missing()),
            Phase::Running => entry.phase = Phase::Cancelling,
            // CONSUME is answered first, and lets go what was held.
            Phase::Starting(_) => {}
        }
        self.ask(call, Request::Cancel(consumer), Waiting::Cancelling(consumer));
        Ok(())
    }

    pub(crate) fn cancelled_by_client(&mut self, request_id: &str, consumer: ConsumerId, out: &mut Outbound) {
        let Some(ended) = self.consumers.remove(consumer) else {
            let failure = Failure::new(Code::ConsumerNotFound, "Consumer was cancelled before");
            return put_failure(Some(request_id), &failure, out);
        };
        self.unsettled.end(consumer);
        put_success(request_id, out, |buffer| {
            let mut object = Object::begin(buffer);
            object.text("consumerTag", &ended.tag);
            object.end();
        });
    }

    /// Without `global` for consumers that start later; with it for all consumers of the connection together, at once.
    pub(super) fn qos(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let prefetch = call.payload.integer(Key::Prefetch).and_then(|prefetch| u32::try_from(prefetch).ok());
        let prefetch = prefetch.unwrap_or_default();
        if call.payload.flag(Key::Global) {
            self.set_pool(if prefetch == 0 { UNSETTLED_MAX } else { prefetch }, call.out);
        } else {
            self.prefetch = prefetch;
        }
        put_success(call.request_id, call.out, |buffer| {
            let mut object = Object::begin(buffer);
            object.number("prefetch", prefetch);
            object.end();
        });
        Ok(())
    }

    pub(super) fn get(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let queue = Name::new(call.payload.text_or_empty(Key::QueueName))?;
        let auto_ack = call.payload.flag(Key::AutoAck);
        if !auto_ack && self.unsettled.len() >= UNSETTLED_MAX as usize {
            let message = format!("A connection holds at most {UNSETTLED_MAX} messages; ack some first");
            return Err(Failure::new(Code::RateLimited, message));
        }
        let Some(holder) = self.consumers.holder(&queue) else {
            return Err(Failure::new(Code::RateLimited, "A connection gets from at most 1024 queues"));
        };
        let request = Request::Fetch(Fetch {
            consumer: holder,
            queue: queue.clone(),
            max: 1,
            wait_ms: 0,
            auto_ack,
            lease_ms: None,
            tokens: false,
        });
        self.ask(call, request, Waiting::Got { queue, holder, auto_ack });
        Ok(())
    }

    pub(crate) fn got(
        &mut self,
        request_id: &str,
        queue: &Name,
        holder: Option<ConsumerId>,
        reply: Reply,
        out: &mut Outbound,
    ) -> Result<(), Unexpected> {
        let Reply::Fetched { messages, remaining } = reply else { return Err(Unexpected) };
        let mut messages = messages.into_iter();
        let Some(delivery) = messages.next() else {
            put_success(request_id, out, |buffer| buffer.extend_from_slice(b"{\"message\":null}"));
            return Ok(());
        };
        // One was asked for.
        for surplus in messages.filter(|_| holder.is_some()) {
            self.give_back(&surplus, Outcome::Requeue { delay_ms: 0 }, out);
        }
        let seq = match delivery.position {
            Position::Queue(seq) if holder.is_some() => Some(seq),
            _ => None,
        };
        let tag = self.unsettled.push(holder.unwrap_or_default(), seq);
        let end = format!(",\"messageCount\":{remaining}}}}}");
        let place = Place { queue, tag, consumer_tag: None, headers: &self.headers, end: &end };
        let begin = |out: &mut Outbound| {
            let packet = begin_success(request_id, out);
            out.put(b"{\"message\":");
            packet
        };
        if put_delivery(&delivery, &place, begin, &mut self.tail, out).is_err() {
            self.unsettled.take_back(tag);
            if seq.is_some() {
                self.give_back(&delivery, Outcome::Undeliverable, out);
            }
            let failure = Failure::new(Code::MessageTooLarge, "The message does not fit a frame");
            put_failure(Some(request_id), &failure, out);
        }
        Ok(())
    }

    fn set_pool(&mut self, limit: u32, out: &mut Outbound) {
        self.pool_is_known = true;
        let id = self.in_progress.untracked();
        out.request(id, Request::Credit(Credit::Pool(POOL, Some(limit))));
    }
}
