//! A publish that arrives in pieces: method, header, body frames. The body is copied once, into the frame that is stored.

use std::borrow::Cow;

use framegate_adaptor_api::Outbound;
use framegate_broker::{Answer, Keys, Name, Publish, Request};
use framegate_frame::FrameBuilder;

use super::channel::{Channel, Mode};
use super::link::{Link, name};
use super::queue::{REPLY_TO, is_reply_to};
use crate::codec::{BASIC, ContentHeader, Method, MethodId, Properties, Short};
use crate::failure::{Code, Failure};
use crate::incoming::Incoming;

/// `basic.publish`: what failures of a publish name.
pub(super) const PUBLISH: MethodId = MethodId::new(60, 40);

/// What was announced, and how much of it is here.
pub(super) struct Content {
    exchange: Name,
    key: Name,
    mandatory: bool,
    body: Option<Body>,
}

struct Body {
    builder: FrameBuilder,
    /// Its share of what the connection holds.
    held: usize,
    meta: Meta,
}

struct Meta {
    keys: Keys,
    persistent: bool,
    priority: Option<i32>,
    ttl_ms: Option<u64>,
    delay_ms: u64,
    publisher: Option<Name>,
}

impl Content {
    /// Gives back what it holds of the connection's budget.
    pub(super) fn forget(self, link: &mut Link) {
        if let Some(body) = self.body {
            link.unfinished -= body.held;
        }
    }

    /// What is due next, in the words of errors.
    pub(super) fn due(&self) -> &'static str {
        match self.body {
            None => "expected content header for class 60, got non content header frame instead",
            Some(_) => "expected content body, got non content body frame instead",
        }
    }
}

impl Channel {
    /// `basic.publish`.
    pub(super) fn begin_publish(
        &mut self,
        link: &mut Link,
        exchange: Short<'_>,
        key: Short<'_>,
        mandatory: bool,
        immediate: bool,
    ) -> Result<(), Failure> {
        if immediate {
            return Err(Failure::not_implemented(PUBLISH, "immediate=true"));
        }
        let exchange = link.exchange(exchange, PUBLISH)?;
        let key = link.key(key, PUBLISH)?;
        self.content = Some(Content { exchange, key, mandatory, body: None });
        Ok(())
    }

    /// A content header.
    pub(super) fn header(
        &mut self,
        link: &mut Link,
        payload: &[u8],
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        let Some(content) = self.content.as_mut() else { return Err(not_method()) };
        if content.body.is_some() {
            return Err(Failure::unexpected(PUBLISH, content.due()));
        }
        let header = ContentHeader::parse(payload).map_err(|e| Failure::of_payload(e, Some(PUBLISH)))?;
        if header.class != BASIC {
            let text =
                format!("expected content header for class 60, got one for class {} instead", header.class);
            return Err(Failure::unexpected(PUBLISH, &text));
        }
        if header.weight != 0 {
            return Err(Failure::unexpected(PUBLISH, content.due()));
        }
        let max = link.limits.data_bytes_max;
        let body_bytes = match usize::try_from(header.body_bytes) {
            Ok(bytes) if bytes <= max => bytes,
            _ => {
                let bytes = header.body_bytes;
                let text = format!("message size {bytes} is larger than configured max size {max}");
                return Err(Failure::precondition(PUBLISH, text));
            }
        };
        let properties =
            Properties::parse(header.properties).map_err(|e| Failure::of_payload(e, Some(PUBLISH)))?;
        let reply_to = match properties.reply_to {
            Some(Short(REPLY_TO)) => {
                let queue = self.reply_queue.as_ref();
                let missing = || Failure::precondition(PUBLISH, "fast reply consumer does not exist");
                Some(queue.ok_or_else(missing)?)
            }
            _ => None,
        };
        if let Some(user) = properties.user_id.filter(|user| user.0 != link.user.as_bytes()) {
            let (claimed, user) = (String::from_utf8_lossy(user.0), &link.user);
            let text = format!("user_id property set to '{claimed}' but authenticated user was '{user}'");
            return Err(Failure::precondition(PUBLISH, text));
        }
        let has_user = properties.user_id.is_some();
        let refused = |refusal: crate::incoming::Refusal| Failure::precondition(PUBLISH, refusal.to_string());
        let incoming = Incoming::new(properties, header.properties, reply_to).map_err(refused)?;
        let builder = incoming.frame(body_bytes, &link.limits).map_err(refused)?;
        let meta = Meta {
            persistent: incoming.persistent(),
            priority: incoming.priority(),
            ttl_ms: incoming.ttl_ms,
            delay_ms: incoming.delay_ms,
            keys: incoming.keys,
            publisher: has_user.then(|| link.user.clone()),
        };
        if body_bytes == 0 {
            return self.finish(link, builder, meta, out);
        }
        let held = builder.reserved_bytes();
        link.unfinished += held;
        content.body = Some(Body { builder, held, meta });
        Ok(())
    }

    /// A piece of a body.
    pub(super) fn body(
        &mut self,
        link: &mut Link,
        payload: &[u8],
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        let Some(content) = self.content.as_mut() else { return Err(not_method()) };
        let Some(body) = content.body.as_mut() else {
            return Err(Failure::unexpected(PUBLISH, content.due()));
        };
        if body.builder.push(payload).is_err() {
            return Err(Failure::unexpected(PUBLISH, "content body is longer than its header says"));
        }
        if body.builder.remaining() > 0 {
            let held = body.builder.reserved_bytes();
            link.unfinished = link.unfinished + held - body.held;
            body.held = held;
            return Ok(());
        }
        match content.body.take() {
            Some(Body { builder, held, meta }) => {
                link.unfinished -= held;
                self.finish(link, builder, meta, out)
            }
            None => Ok(()),
        }
    }

    fn finish(
        &mut self,
        link: &mut Link,
        builder: FrameBuilder,
        meta: Meta,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        let Some(Content { exchange, key, mandatory, .. }) = self.content.take() else { return Ok(()) };
        let frame =
            builder.finish().map_err(|e| Failure::new(Code::InternalError, PUBLISH, e.to_string()))?;
        let is_confirmed = matches!(self.mode, Mode::Confirm { .. });
        let mut publish = Publish::new(exchange, key, frame);
        publish.keys.extend(meta.keys);
        publish.mandatory = mandatory;
        publish.answer = if is_confirmed { Answer::Watermark } else { Answer::None };
        publish.persistent = meta.persistent;
        publish.priority = meta.priority;
        publish.ttl_ms = meta.ttl_ms;
        publish.publisher = meta.publisher;
        publish.delay_ms = meta.delay_ms;
        publish.delay_by_exchange = true;
        link.has_published = true;
        if let Mode::Tx(_) = self.mode {
            return self.publish_in_tx(link, publish, PUBLISH, out);
        }
        let id = link.request(self.number, Request::Publish(publish), out);
        if is_confirmed {
            link.unconfirmed.push_back(id);
        }
        Ok(())
    }

    /// `confirm.select`.
    pub(super) fn confirm(
        &mut self,
        nowait: bool,
        method: MethodId,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        match self.mode {
            Mode::Tx(_) => {
                return Err(Failure::precondition(method, "cannot switch from tx to confirm mode"));
            }
            Mode::Plain => self.mode = Mode::Confirm { confirmed: 0 },
            Mode::Confirm { .. } => {}
        }
        self.say_unless(nowait, Method::ConfirmSelectOk {}, out);
        Ok(())
    }

    /// So many more publishes, in order, are safe.
    pub(super) fn acknowledge(&mut self, count: u64, out: &mut Outbound) {
        if let (Mode::Confirm { confirmed }, true) = (&mut self.mode, count > 0) {
            *confirmed += count;
            let ack = Method::BasicAck { delivery_tag: *confirmed, multiple: count > 1 };
            self.put(&ack, out);
        }
    }

    /// The next publish is refused.
    pub(super) fn negative(&mut self, out: &mut Outbound) {
        if let Mode::Confirm { confirmed } = &mut self.mode {
            *confirmed += 1;
            let nack = Method::BasicNack { delivery_tag: *confirmed, multiple: false, requeue: true };
            self.put(&nack, out);
        }
    }
}

fn not_method() -> Failure {
    Failure::unexpected(MethodId::NONE, "expected method frame, got non method frame instead")
}

/// A queue name as a method gives it, without the line ends that some clients send.
pub(super) fn queue_name(short: Short<'_>, method: MethodId) -> Result<Name, Failure> {
    if !short.0.contains(&b'\n') && !short.0.contains(&b'\r') {
        return name(short, method);
    }
    let kept: Vec<u8> = short.0.iter().copied().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
    name(Short(&kept), method)
}

/// Names that stand for direct replies are no queues that a client may have.
pub(super) fn is_pseudo(name: &Name) -> bool {
    name.as_bytes() == REPLY_TO || is_reply_to(name)
}

/// Text of bytes for messages.
pub(super) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
