//! What a client that is logged in and the broker have going: channels, and which of them hears what. Never cuts frames and
//! answers no method of the connection.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use framegate_adaptor_api::{Egress, Outbound, Subscribed};
use framegate_broker::{ConsumerId, Effect, FeedItem, Happening, Origin, RequestId};

use super::channel::{Channel, Phase, open_ok};
use super::consume::Start;
use super::link::{Link, split_id};
use super::pending::Local;
use crate::codec::{FrameType, Method, MethodId};
use crate::failure::{Code, Failure, Scope};
use crate::limits::{PENDING_MAX, UNCONFIRMED_MAX};

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    /// It comes again when the broker has answered something.
    Later,
}

/// See the top of the file.
pub(super) struct Conversation {
    pub(super) link: Link,
    channels: HashMap<u16, Box<Channel>>,
}

impl Conversation {
    pub(super) fn new(link: Link) -> Self {
        Self { link, channels: HashMap::new() }
    }

    /// Input waits for the broker.
    pub(super) fn is_held(&self) -> bool {
        self.link.hold.is_some()
            || self.link.hold_for.is_some()
            || self.link.unconfirmed.len() >= UNCONFIRMED_MAX
    }

    /// A frame of a channel above 0.
    ///
    /// # Errors
    /// What closes the connection.
    pub(super) fn frame(
        &mut self,
        kind: FrameType,
        number: u16,
        payload: &[u8],
        out: &mut Outbound,
    ) -> Result<Taken, Failure> {
        let Some(channel) = self.channels.get_mut(&number) else {
            return self.unopened(kind, number, payload, out).map(|()| Taken::Yes);
        };
        let link = &mut self.link;
        if channel.phase != Phase::Open {
            ignored(channel, link, kind, payload, out);
            if channel.phase == Phase::Gone {
                self.left(number, out);
            }
            return Ok(Taken::Yes);
        }
        if channel.pending.len() >= PENDING_MAX {
            return Ok(Taken::Later);
        }
        let done = match kind {
            FrameType::Method => match &channel.content {
                Some(content) => Err(Failure::unexpected(super::content::PUBLISH, content.due())),
                None => method(channel, link, payload, out),
            },
            FrameType::Header => channel.header(link, payload, out).map(|()| Taken::Yes),
            FrameType::Body => channel.body(link, payload, out).map(|()| Taken::Yes),
            FrameType::Heartbeat => Err(Failure::unexpected(MethodId::NONE, "type 8, all octets = <<>>")),
        };
        match done {
            Err(failure) if failure.scope == Scope::Channel => channel.fail(link, failure, out),
            Err(failure) => return Err(failure),
            Ok(Taken::Later) => return Ok(Taken::Later),
            Ok(Taken::Yes) => {}
        }
        if channel.phase == Phase::Gone {
            self.left(number, out);
        }
        Ok(Taken::Yes)
    }

    /// A channel has closed.
    fn left(&mut self, number: u16, out: &mut Outbound) {
        self.channels.remove(&number);
        self.link.report(number, Happening::ChannelClosed(number.into()), out);
    }

    fn unopened(
        &mut self,
        kind: FrameType,
        number: u16,
        payload: &[u8],
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        if kind != FrameType::Method {
            return Err(Failure::unexpected(
                MethodId::NONE,
                "expected method frame, got non method frame instead",
            ));
        }
        let id = MethodId::of(payload);
        let method = Method::decode(payload).map_err(|error| Failure::of_payload(error, id))?;
        match method {
            Method::ChannelOpen { .. } => {
                let max = self.link.channel_max;
                if self.channels.len() >= usize::from(max) {
                    let text = format!(
                        "number of channels opened ({}) has reached the negotiated channel_max ({max})",
                        self.channels.len()
                    );
                    return Err(Failure::new(Code::NotAllowed, method.id(), text));
                }
                let channel = Channel::new(number, &self.link);
                channel.put(&open_ok(), out);
                self.channels.insert(number, Box::new(channel));
                self.link.report(number, Happening::ChannelOpened(number.into()), out);
                Ok(())
            }
            // The answer to a close that crossed the client's own.
            Method::ChannelCloseOk {} => Ok(()),
            method if method.id().class == 10 => {
                Err(Failure::new(Code::CommandInvalid, method.id(), "unimplemented method"))
            }
            method => Err(Failure::new(Code::ChannelError, method.id(), "expected 'channel.open'")),
        }
    }

    /// Something the broker says.
    ///
    /// # Errors
    /// What closes the connection.
    pub(super) fn effect(&mut self, effect: Effect, out: &mut Outbound) -> Result<(), Failure> {
        match effect {
            Effect::Delivery(delivery) => {
                let consumer = self.link.consumers.get(&delivery.consumer);
                // One that has ended gave back what it was given.
                let number = consumer.map(|c| c.channel);
                if let Some(channel) = number.and_then(|n| self.channels.get_mut(&n)) {
                    channel.deliver(&mut self.link, &delivery, out);
                }
            }
            Effect::Confirmed { upto } => self.confirmed(upto, out),
            Effect::Refused { id, error } => return self.refused(id, error, out),
            Effect::Reply(id, result) => {
                if self.link.hold == Some(id) {
                    self.link.hold = None;
                }
                if let Some(channel) = self.channel_of(id) {
                    let number = channel.number;
                    let Some(channel) = self.channels.get_mut(&number) else { return Ok(()) };
                    channel.answer(&mut self.link, id, result, out)?;
                    if channel.phase == Phase::Gone {
                        self.left(number, out);
                    }
                }
            }
            Effect::Returned { id, envelope, frame } => {
                let (number, _) = split_id(id);
                let channel = self.channels.get(&number);
                if let Some(channel) = channel.filter(|c| c.owns(id) && c.phase == Phase::Open) {
                    let vhost = self.link.vhost.clone();
                    let origin = Origin { vhost, name: Default::default(), id: 0, seq: 0 };
                    let headers = &self.link.headers;
                    let message = Egress { envelope: &envelope, frame: &frame, origin: &origin, headers };
                    channel.put_return(&self.link, message, out);
                }
            }
            Effect::Cancelled { consumer, .. } => {
                let number = self.link.consumers.get(&consumer).map(|c| c.channel);
                if let Some(channel) = number.and_then(|n| self.channels.get_mut(&n)) {
                    channel.ended(&mut self.link, consumer, out);
                }
            }
            Effect::Blocked(_) => {}
        }
        Ok(())
    }

    /// A subscription is live, or was refused.
    pub(super) fn subscribed(
        &mut self,
        consumer: ConsumerId,
        result: Result<Subscribed, framegate_broker::BrokerError>,
        out: &mut Outbound,
    ) {
        if self.link.hold_for == Some(consumer) {
            self.link.hold_for = None;
        }
        let number = self.link.consumers.get(&consumer).map(|c| c.channel);
        if let Some(channel) = number.and_then(|n| self.channels.get_mut(&n)) {
            channel.subscribed(&mut self.link, consumer, result, out);
        }
    }

    /// An item of a stream. Whether there is room for more.
    pub(super) fn item(&mut self, consumer: ConsumerId, item: &FeedItem, out: &mut Outbound) -> bool {
        let FeedItem::Event(event) = item else { return true };
        let number = self.link.consumers.get(&consumer).map(|c| c.channel);
        match number.and_then(|n| self.channels.get_mut(&n)) {
            Some(channel) => channel.deliver_event(&mut self.link, consumer, event, out),
            None => false,
        }
    }

    fn channel_of(&self, id: RequestId) -> Option<&Channel> {
        let (number, _) = split_id(id);
        self.channels.get(&number).map(|c| &**c).filter(|channel| channel.owns(id))
    }

    /// Everything up to a publish is safe: one ack for each channel.
    fn confirmed(&mut self, upto: RequestId, out: &mut Outbound) {
        let mut counts: BTreeMap<u16, u64> = BTreeMap::new();
        while let Some(id) = self.link.unconfirmed.pop_front_if(|id| *id <= upto) {
            if !self.channel_of(id).is_some_and(|c| c.phase == Phase::Open) {
                continue;
            }
            let (number, _) = split_id(id);
            *counts.entry(number).or_default() += 1;
        }
        for (number, count) in counts {
            if let Some(channel) = self.channels.get_mut(&number) {
                channel.acknowledge(count, out);
            }
        }
        if self.link.unconfirmed.is_empty() && self.link.unconfirmed.capacity() > 4096 {
            self.link.unconfirmed = Default::default();
        }
    }

    fn refused(
        &mut self,
        id: RequestId,
        error: framegate_broker::BrokerError,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        if let Ok(at) = self.link.unconfirmed.binary_search(&id) {
            self.link.unconfirmed.remove(at);
        }
        let Some(channel) = self.channel_of(id).filter(|c| c.phase == Phase::Open) else { return Ok(()) };
        let number = channel.number;
        let Some(channel) = self.channels.get_mut(&number) else { return Ok(()) };
        use framegate_broker::BrokerError::{Conflict, QueueFull, StorageFailed};
        if matches!(error, QueueFull { .. } | Conflict | StorageFailed) {
            channel.negative(out);
            return Ok(());
        }
        let failure = self.link.failure(error, super::content::PUBLISH);
        if failure.scope == Scope::Connection {
            return Err(failure);
        }
        channel.fail(&mut self.link, failure, out);
        Ok(())
    }

    /// Looks for deliveries that were not settled in time.
    pub(super) fn check_acks(&mut self, now: Duration, timeout: Duration, out: &mut Outbound) {
        for channel in self.channels.values_mut() {
            channel.check_acks(&mut self.link, now, timeout, out);
        }
    }

    /// The connection ends: nothing is said on any channel any more, and what they hold goes back.
    pub(super) fn abandon(&mut self, out: &mut Outbound) {
        for (_, mut channel) in self.channels.drain() {
            if channel.phase == Phase::Open {
                channel.give_back(&mut self.link, out);
            }
        }
        self.link.hold = None;
        self.link.hold_for = None;
        self.link.unconfirmed.clear();
    }
}

/// Input of a channel that closes.
fn ignored(channel: &mut Channel, link: &mut Link, kind: FrameType, payload: &[u8], out: &mut Outbound) {
    if kind != FrameType::Method {
        return;
    }
    match Method::decode(payload) {
        Ok(Method::ChannelCloseOk {}) if channel.phase == Phase::Closing => channel.phase = Phase::Gone,
        Ok(Method::ChannelClose { .. }) => channel.leave(link, out),
        _ => {}
    }
}

/// A method on an open channel.
fn method(
    channel: &mut Channel,
    link: &mut Link,
    payload: &[u8],
    out: &mut Outbound,
) -> Result<Taken, Failure> {
    let id = MethodId::of(payload);
    let method = Method::decode(payload).map_err(|error| Failure::of_payload(error, id))?;
    let id = method.id();
    let taken = match method {
        Method::BasicPublish { exchange, routing_key, mandatory, immediate, .. } => {
            channel.begin_publish(link, exchange, routing_key, mandatory, immediate)?;
            true
        }
        Method::BasicAck { .. }
        | Method::BasicNack { .. }
        | Method::BasicReject { .. }
        | Method::BasicRecover { .. }
        | Method::BasicRecoverAsync { .. } => channel.settle(link, method, out).map(|()| true)?,
        Method::BasicQos { prefetch_size, prefetch_count, global } => {
            channel.qos(link, prefetch_size, prefetch_count, global, id, out).map(|()| true)?
        }
        Method::BasicConsume { queue, consumer_tag, no_ack, exclusive, nowait, arguments, .. } => {
            let start = Start { queue, tag: consumer_tag, no_ack, exclusive, nowait, arguments };
            channel.consume(link, &start, id, out)?
        }
        Method::BasicCancel { consumer_tag, nowait } => {
            channel.cancel(link, consumer_tag, nowait, id, out);
            true
        }
        Method::BasicGet { queue, no_ack, .. } => channel.get(link, queue, no_ack, id, out)?,
        Method::ConfirmSelect { nowait } => channel.confirm(nowait, id, out).map(|()| true)?,
        Method::AccessRequest { .. } => {
            channel.say(Local::Send(Method::AccessRequestOk { ticket: 1 }), out);
            true
        }
        Method::ChannelOpen { .. } => {
            return Err(Failure::new(Code::ChannelError, id, "second 'channel.open' seen"));
        }
        Method::ChannelClose { .. } => {
            channel.leave(link, out);
            true
        }
        Method::ChannelFlow { active: true } => {
            let (channel_number, active) = (channel.number, true);
            link.report(
                channel_number,
                Happening::ChannelFlow { channel: channel_number.into(), active },
                out,
            );
            channel.say(Local::Send(Method::ChannelFlowOk { active: true }), out);
            true
        }
        Method::ChannelFlow { active: false } => return Err(Failure::not_implemented(id, "active=false")),
        // Nobody was asked; clients may answer all the same.
        Method::ChannelFlowOk { .. } | Method::ChannelCloseOk {} | Method::BasicCancelOk { .. } => true,
        _ => match id.class {
            40 if is_request(&method) => channel.exchange(link, method, out).map(|()| true)?,
            50 if is_request(&method) => channel.queue(link, method, out)?,
            90 if is_request(&method) => channel.tx(link, method, out).map(|()| true)?,
            _ => return Err(Failure::new(Code::CommandInvalid, id, "unimplemented method")),
        },
    };
    Ok(if taken { Taken::Yes } else { Taken::Later })
}

/// Methods that a client sends have round numbers; answers end in 1.
fn is_request(method: &Method<'_>) -> bool {
    method.id().method.is_multiple_of(10)
}
