//! Consumers and pulls: qos, consume, cancel, get, and the messages that they bring.

use framegate_adaptor_api::{Egress, Outbound};
use framegate_broker::{
    BrokerError, Consume, ConsumerId, Credit, Define, Delivery, Fetch, Kind, Name, Outcome, PoolId, Position,
    Reply, Request,
};

use super::channel::{Channel, Getter};
use super::content::{is_pseudo, lossy};
use super::link::{Consumer, Link, NOBODY};
use super::pending::{Local, Pending, Waiting};
use super::queue::{Named, REPLY_PREFIX, REPLY_TO};
use super::stream::start_of;
use super::stream_filter::StreamFilter;
use crate::arguments::{Subject, consumer_timeout, is_quorum};
use crate::codec::{FRAME_OVERHEAD_BYTES, Method, MethodId, Properties, Short, Table, put_content};
use crate::failure::{Code, Failure};
use crate::outgoing::{Extra, put_properties};

/// Bytes of a content header around its properties, and room for what the broker adds to them.
const HEADER_SLACK_BYTES: usize = 512;

/// `basic.consume`.
pub(super) struct Start<'a> {
    pub(super) queue: Short<'a>,
    pub(super) tag: Short<'a>,
    pub(super) no_ack: bool,
    pub(super) exclusive: bool,
    pub(super) nowait: bool,
    pub(super) arguments: Table<'a>,
}

impl Channel {
    /// `basic.qos`.
    pub(super) fn qos(
        &mut self,
        link: &mut Link,
        size: u32,
        count: u16,
        global: bool,
        method: MethodId,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        if size != 0 {
            return Err(Failure::not_implemented(method, format!("prefetch_size!=0 ({size})")));
        }
        if !global {
            self.prefetch = count;
            self.say(Local::Send(Method::BasicQosOk {}), out);
            return Ok(());
        }
        if self.pool.is_none() && count == 0 {
            self.say(Local::Send(Method::BasicQosOk {}), out);
            return Ok(());
        }
        let is_first = self.pool.is_none();
        // The number comes again with the channel's, so that a connection has at most one for each number.
        let pool = *self.pool.get_or_insert(PoolId(self.number.into()));
        // Consumers that run already share it from now on.
        for consumer in self.consumers.iter().filter(|_| is_first) {
            if link.consumers.get(consumer).is_some_and(|c| !c.no_ack) {
                link.request(self.number, Request::Credit(Credit::Join(*consumer, pool)), out);
            }
        }
        let limit = (count > 0).then_some(count.into());
        let waiting = Waiting::Plain { ok: Some(Method::BasicQosOk {}), lenient: false };
        self.ask(link, method, waiting, Request::Credit(Credit::Pool(pool, limit)), out);
        Ok(())
    }

    /// `basic.consume`. False: it comes again.
    pub(super) fn consume(
        &mut self,
        link: &mut Link,
        start: &Start<'_>,
        method: MethodId,
        out: &mut Outbound,
    ) -> Result<bool, Failure> {
        let Named::Is(queue) = self.queue_of(start.queue, method)? else { return Ok(false) };
        let tag: Box<str> = match lossy(start.tag.0) {
            tag if tag.is_empty() => made_tag().into(),
            tag => tag.into(),
        };
        if self.consumer_of(link, &tag).is_some() {
            let text = format!("attempt to reuse consumer tag '{tag}'");
            return Err(Failure::new(Code::NotAllowed, method, text));
        }
        let subject = Subject { queue: &queue, vhost: &link.vhost, method };
        let priority = subject.int(&start.arguments, "x-priority")?.unwrap_or(0);
        let from = start_of(&start.arguments, method)?;
        let filter = StreamFilter::of(&start.arguments, method)?;
        let takes_replies = queue.as_bytes() == REPLY_TO;
        if takes_replies && !start.no_ack {
            return Err(Failure::precondition(method, "reply consumer cannot acknowledge"));
        }
        if takes_replies && self.reply_queue.is_some() {
            return Err(Failure::precondition(method, "reply consumer already set"));
        }
        let consumer = link.next_consumer();
        let (channel, no_ack, nowait) = (self.number, start.no_ack, start.nowait);
        link.consumers.insert(
            consumer,
            Consumer {
                channel,
                tag,
                no_ack,
                tells_count: false,
                ack_timeout: None,
                takes_replies,
                from,
                filter,
                stream: None,
            },
        );
        self.consumers.push(consumer);
        if takes_replies {
            let request = Request::Mailbox { consumer, prefix: REPLY_PREFIX };
            let id = self.ask(link, method, Waiting::ReplyQueue { consumer, nowait }, request, out);
            // A publish behind it may want the name.
            link.hold = Some(id);
            return Ok(true);
        }
        let look = Request::Define(Define::QueuePassive(queue.clone()));
        self.ask(link, method, Waiting::Looked(consumer), look, out);
        let request = Request::Consume(Consume {
            consumer,
            queue,
            prefetch: (self.prefetch > 0 && !no_ack).then_some(self.prefetch.into()),
            pool: self.pool.filter(|_| !no_ack),
            exclusive: start.exclusive,
            auto_ack: no_ack,
            lease_ms: None,
            tokens: false,
            priority: i32::try_from(priority).unwrap_or(if priority < 0 { i32::MIN } else { i32::MAX }),
        });
        self.ask(link, method, Waiting::Consuming { consumer, nowait }, request, out);
        Ok(true)
    }

    /// The queue of a consumer that starts is known.
    pub(super) fn looked(
        &mut self,
        link: &mut Link,
        method: MethodId,
        consumer: ConsumerId,
        result: Result<Reply, BrokerError>,
    ) -> Result<(), Failure> {
        let reply = match result {
            Ok(reply) => reply,
            // It may be a stream: the answer to the consumer's start says it once more.
            Err(BrokerError::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(self.not_started(link, consumer, error, method)),
        };
        let Reply::Queue(info) = reply else { return Ok(()) };
        let tells_count = is_quorum(&info.properties);
        if tells_count && self.pool.is_some() {
            let text = format!("queue '{}' in vhost '{}' does not support global qos", info.name, link.vhost);
            return Err(Failure::not_implemented(method, text));
        }
        if let Some(entry) = link.consumers.get_mut(&consumer) {
            entry.tells_count = tells_count;
            entry.ack_timeout = consumer_timeout(&info.properties);
        }
        Ok(())
    }

    /// The queue for direct replies is there, and its consumer has started.
    pub(super) fn reply_queue_made(
        &mut self,
        link: &mut Link,
        method: MethodId,
        consumer: ConsumerId,
        nowait: bool,
        result: Result<Reply, BrokerError>,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        let queue: Name = match result {
            Ok(Reply::Queue(info)) => info.name,
            Ok(_) => return Err(Failure::new(Code::InternalError, method, "unexpected answer")),
            Err(error) => return Err(self.not_started(link, consumer, error, method)),
        };
        self.reply_queue = Some(queue);
        self.consume_ok(link, consumer, nowait, out);
        Ok(())
    }

    fn consume_ok(&self, link: &Link, consumer: ConsumerId, nowait: bool, out: &mut Outbound) {
        if let Some(entry) = link.consumers.get(&consumer).filter(|_| !nowait) {
            self.put(&Method::BasicConsumeOk { consumer_tag: Short::text(&entry.tag) }, out);
        }
    }

    /// A consumer has started, or not.
    pub(super) fn consuming(
        &mut self,
        link: &mut Link,
        method: MethodId,
        consumer: ConsumerId,
        nowait: bool,
        result: Result<Reply, BrokerError>,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        match result {
            Ok(_) => {}
            Err(BrokerError::NotFound { kind: Kind::Queue, name, .. }) => {
                self.consume_stream(link, method, consumer, nowait, name, out);
                return Ok(());
            }
            Err(error) => return Err(self.not_started(link, consumer, error, method)),
        }
        self.consume_ok(link, consumer, nowait, out);
        Ok(())
    }

    fn not_started(
        &mut self,
        link: &mut Link,
        consumer: ConsumerId,
        error: BrokerError,
        method: MethodId,
    ) -> Failure {
        self.forget_consumer(link, consumer);
        link.failure(error, method)
    }

    fn consumer_of(&self, link: &Link, tag: &str) -> Option<ConsumerId> {
        let has_tag = |id: &&ConsumerId| link.consumers.get(id).is_some_and(|c| &*c.tag == tag);
        self.consumers.iter().find(has_tag).copied()
    }

    pub(super) fn forget_consumer(&mut self, link: &mut Link, consumer: ConsumerId) -> Option<Consumer> {
        self.consumers.retain(|id| *id != consumer);
        let gone = link.consumers.remove(&consumer)?;
        if gone.takes_replies {
            self.reply_queue = None;
        }
        if gone.stream.is_some() {
            // the broker leased none of them: settling them settles nothing
            self.unacked.hand_over(consumer, NOBODY);
        }
        Some(gone)
    }

    /// `basic.cancel` of the client.
    pub(super) fn cancel(
        &mut self,
        link: &mut Link,
        tag: Short<'_>,
        nowait: bool,
        method: MethodId,
        out: &mut Outbound,
    ) {
        let tag = lossy(tag.0);
        let consumer = self.consumer_of(link, &tag);
        match consumer {
            Some(consumer) if link.is_stream(consumer) => {
                out.unsubscribe.push(consumer);
                self.forget_consumer(link, consumer);
                if !nowait {
                    self.say(Local::CancelOk(tag.into()), out);
                }
            }
            Some(consumer) => {
                let waiting = Waiting::Cancelling { consumer, nowait };
                self.ask(link, method, waiting, Request::Cancel(consumer), out);
            }
            None if !nowait => self.say(Local::CancelOk(tag.into()), out),
            None => {}
        }
    }

    /// Nothing comes to a consumer any more.
    pub(super) fn cancelled(
        &mut self,
        link: &mut Link,
        consumer: ConsumerId,
        nowait: bool,
        out: &mut Outbound,
    ) {
        if let Some(gone) = self.forget_consumer(link, consumer).filter(|_| !nowait) {
            self.put(&Method::BasicCancelOk { consumer_tag: Short::text(&gone.tag) }, out);
        }
    }

    /// The broker has ended a consumer.
    pub(super) fn ended(&mut self, link: &mut Link, consumer: ConsumerId, out: &mut Outbound) {
        // a client that cancels it itself gets its answer
        let is_cancelling = |p: &Pending| matches!(p, Pending::Broker { waiting: Waiting::Cancelling { consumer: of, .. }, .. } if *of == consumer);
        if self.pending.iter().any(is_cancelling) {
            return;
        }
        if let Some(gone) = self.forget_consumer(link, consumer)
            && link.capabilities.consumer_cancel_notify
        {
            // A client that deletes the queue itself hears of that first.
            self.say(Local::Cancel(gone.tag), out);
        }
    }

    /// `basic.get`. False: it comes again.
    pub(super) fn get(
        &mut self,
        link: &mut Link,
        queue: Short<'_>,
        no_ack: bool,
        method: MethodId,
        out: &mut Outbound,
    ) -> Result<bool, Failure> {
        let Named::Is(queue) = self.queue_of(queue, method)? else { return Ok(false) };
        if is_pseudo(&queue) {
            let text = format!("no queue '{queue}' in vhost '{}'", link.vhost);
            return Err(Failure::new(Code::NotFound, method, text));
        }
        let consumer = match &self.getter {
            Some(getter) if getter.queue == queue => getter.consumer,
            _ => {
                let consumer = link.next_consumer();
                let (queue, tells_count) = (queue.clone(), false);
                self.getter = Some(Getter { queue: queue.clone(), consumer, tells_count, ack_timeout: None });
                let look = Request::Define(Define::QueuePassive(queue));
                self.ask(link, method, Waiting::LookedToGet, look, out);
                consumer
            }
        };
        let fetch =
            Fetch { consumer, queue, max: 1, wait_ms: 0, auto_ack: no_ack, lease_ms: None, tokens: false };
        let waiting = Waiting::Got { consumer, no_ack };
        let id = self.ask(link, method, waiting, Request::Fetch(fetch), out);
        // Its answer may wait for the disk, and answers come in order.
        link.hold = Some(id);
        Ok(true)
    }

    /// Answer to a pull.
    pub(super) fn got(
        &mut self,
        link: &mut Link,
        method: MethodId,
        consumer: ConsumerId,
        no_ack: bool,
        result: Result<Reply, BrokerError>,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        let (mut messages, remaining) = match result {
            Ok(Reply::Fetched { messages, remaining }) => (messages, remaining),
            Ok(_) => (Vec::new(), 0),
            Err(error) => return self.refuse_stream(link, method, "basic.get", error, out),
        };
        let Some(delivery) = messages.pop() else {
            self.put(&Method::BasicGetEmpty { reserved_1: Short(&[]) }, out);
            return Ok(());
        };
        let Delivery { envelope, frame, origin, .. } = &delivery;
        let message = Egress { envelope, frame, origin, headers: &link.headers };
        // A pull tells of no failed delivery, too.
        let tells_count = self.getter.as_ref().is_some_and(|getter| getter.tells_count);
        let failed = delivery.attempt.saturating_sub(1);
        let extra = Extra { delivery_count: tells_count.then_some(failed), stream_offset: None };
        if !fits(message, extra, link.frame_max) {
            self.undeliverable(link, consumer, &delivery, no_ack, out);
            self.put(&Method::BasicGetEmpty { reserved_1: Short(&[]) }, out);
            return Ok(());
        }
        let delivery_tag = self.tag(consumer, &delivery, no_ack);
        let get_ok = Method::BasicGetOk {
            delivery_tag,
            redelivered: delivery.redelivered,
            exchange: Short::text(&envelope.exchange),
            routing_key: Short::text(envelope.key()),
            message_count: u32::try_from(remaining).unwrap_or(u32::MAX),
        };
        self.put(&get_ok, out);
        let body = frame.data_bytes();
        put_content(out, self.number, link.frame_max, &body, |out| put_properties(message, extra, out));
        Ok(())
    }

    /// A message for a consumer.
    pub(super) fn deliver(&mut self, link: &mut Link, delivery: &Delivery, out: &mut Outbound) {
        let Some(consumer) = link.consumers.get(&delivery.consumer) else { return };
        let no_ack = consumer.no_ack;
        let failed = delivery.attempt.saturating_sub(1);
        let extra = Extra {
            delivery_count: Some(failed).filter(|failed| consumer.tells_count && *failed > 0),
            stream_offset: None,
        };
        let Delivery { envelope, frame, origin, .. } = delivery;
        let message = Egress { envelope, frame, origin, headers: &link.headers };
        if !fits(message, extra, link.frame_max) {
            return self.undeliverable(link, delivery.consumer, delivery, no_ack, out);
        }
        let delivery_tag = self.tag(delivery.consumer, delivery, no_ack);
        let deliver = Method::BasicDeliver {
            consumer_tag: Short::text(&consumer.tag),
            delivery_tag,
            redelivered: delivery.redelivered,
            exchange: Short::text(&envelope.exchange),
            routing_key: Short::text(envelope.key()),
        };
        self.put(&deliver, out);
        let body = frame.data_bytes();
        put_content(out, self.number, link.frame_max, &body, |out| put_properties(message, extra, out));
    }

    fn tag(&mut self, consumer: ConsumerId, delivery: &Delivery, no_ack: bool) -> u64 {
        match delivery.position {
            Position::Queue(seq) if !no_ack => self.unacked.push(consumer, seq),
            _ => self.unacked.skip(),
        }
    }

    fn undeliverable(
        &mut self,
        link: &mut Link,
        consumer: ConsumerId,
        delivery: &Delivery,
        no_ack: bool,
        out: &mut Outbound,
    ) {
        if let (Position::Queue(seq), false) = (delivery.position, no_ack) {
            link.settle(self.number, consumer, (Outcome::Undeliverable, None), [seq], out);
        }
    }

    /// A message that reached nobody goes back to its publisher.
    pub(super) fn put_return(&self, link: &Link, message: Egress<'_>, out: &mut Outbound) {
        let returned = Method::BasicReturn {
            code: 312,
            text: Short(b"NO_ROUTE"),
            exchange: Short::text(&message.envelope.exchange),
            routing_key: Short::text(message.envelope.key()),
        };
        self.put(&returned, out);
        let body = message.frame.data_bytes();
        put_content(out, self.number, link.frame_max, &body, |out| {
            put_properties(message, Extra::default(), out);
        });
    }
}

/// A tag that nobody has: 22 characters of base64url behind the prefix.
fn made_tag() -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let random = uuid::Uuid::new_v4().as_u128();
    let characters = (0..22).filter_map(|n| ALPHABET.get((random >> (6 * n) & 63) as usize));
    "amq.ctag-".chars().chain(characters.map(|byte| char::from(*byte))).collect()
}

/// Whether the properties fit one frame. Nearly all do, which is seen without writing them.
pub(super) fn fits(message: Egress<'_>, extra: Extra, frame_max: usize) -> bool {
    let room = frame_max.saturating_sub(FRAME_OVERHEAD_BYTES);
    let attributes = message.frame.as_bytes().len() - message.frame.data().len();
    if attributes * 2 + message.envelope.deaths.len() * 1024 + HEADER_SLACK_BYTES <= room {
        return true;
    }
    let mut properties = bytes::BytesMut::new();
    put_properties(message, extra, &mut properties);
    properties.len() + 12 <= room && Properties::parse(&properties).is_ok()
}
