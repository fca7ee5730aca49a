//! Request and reply: REQUEST_TO_SERVER publishes an event that says where its reply goes (`replyto`, a queue of this
//! connection) and which call it answers (`emcorrelationid`); whoever takes it may reply, over any protocol. RESPONSE_TO_SERVER
//! is the reply to a call that was pushed to this connection, and to no other (reference `eventmesh.md` 3.6).

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use framegate_adaptor_api::{Egress, Outbound};
use framegate_broker::{
    Consume, ConsumerId, Define, Delivery, Name, Publish, QueueProperties, QueueSpec, Request,
};
use framegate_frame::{Frame, FrameError, Limits, names};
use uuid::Uuid;

use super::conversation::{Conversation, Waiting};
use super::publish::to_topic;
use crate::command::Command;
use crate::format::Format;
use crate::header::{FAIL, Header};
use crate::limits::{CALL_TIMEOUT, CALL_TIMEOUT_MAX, CALLS_MAX, CALLS_PUSHED_MAX};

/// Consumer of the queue in which replies arrive.
pub(super) const REPLIES: ConsumerId = ConsumerId(0);

/// A call of this client that waits for its reply.
#[derive(Debug)]
struct Call {
    seq: String,
    format: Format,
    timeout: Duration,
    /// Set by the first tick that sees it.
    deadline: Option<Duration>,
}

/// A call that was pushed to this client, which it has not answered.
#[derive(Debug)]
struct Pushed {
    correlation: String,
    reply_to: Name,
    topic: Name,
}

/// Calls both ways.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Queue in which replies arrive, once there was a call.
    reply_to: Option<Name>,
    by_correlation: HashMap<String, Call>,
    pushed: VecDeque<Pushed>,
}

impl Calls {
    /// Remembers a call that was pushed, if it wants a reply.
    pub(super) fn pushed(&mut self, frame: &Frame, topic: &Name) {
        let reply_to = frame.attr(names::REPLYTO).and_then(|name| Name::declared(name).ok());
        if let (Some(correlation), Some(reply_to)) = (frame.attr(names::EMCORRELATIONID), reply_to) {
            if self.pushed.len() >= CALLS_PUSHED_MAX {
                self.pushed.pop_front();
            }
            let correlation = correlation.to_owned();
            // A call that was not acked in time is pushed again, and is still one call.
            if self.pushed.iter().all(|known| known.correlation != correlation) {
                self.pushed.push_back(Pushed { correlation, reply_to, topic: topic.clone() });
            }
        }
    }

    /// The call that a response answers: the one it names, else the oldest of its topic.
    fn answered(&mut self, correlation: Option<&str>, topic: &Name) -> Option<Pushed> {
        let at = self.pushed.iter().position(|call| match correlation {
            Some(correlation) => call.correlation == correlation,
            None => call.topic == *topic,
        });
        self.pushed.remove(at?)
    }
}

/// The frame with other values for where its reply goes and what it belongs to.
fn addressed(frame: &Frame, correlation: &str, reply_to: Option<&Name>) -> Result<Frame, FrameError> {
    let own = [(names::EMCORRELATIONID, Some(correlation)), (names::REPLYTO, reply_to.map(Name::as_str))];
    frame.with_attributes(&own, &Limits::GATEWAY)
}

impl Conversation {
    /// Publishes a call.
    ///
    /// # Errors
    /// The words of a refusal.
    pub(super) fn call(
        &mut self,
        header: &Header<'_>,
        body: &[u8],
        out: &mut Outbound,
    ) -> Result<(), String> {
        let (topic, mut inbound, format) = self.message(header, body)?;
        if self.calls.by_correlation.len() >= CALLS_MAX {
            return Err(format!("{CALLS_MAX} calls wait for their reply already"));
        }
        let given = inbound.frame.attr(names::EMCORRELATIONID).filter(|given| !given.is_empty());
        let correlation = given.map_or_else(|| format!("req-{}", Uuid::new_v4()), str::to_owned);
        if self.calls.by_correlation.contains_key(&correlation) {
            return Err(format!("emcorrelationid '{correlation}' is in use by another call"));
        }
        let reply_to = match &self.calls.reply_to {
            Some(name) => name.clone(),
            None => self.open_reply_queue(out),
        };
        let timeout = inbound.ttl_ms.map_or(CALL_TIMEOUT, Duration::from_millis).min(CALL_TIMEOUT_MAX);
        // Nobody should begin to work on a call that has been given up.
        inbound.ttl_ms = u64::try_from(timeout.as_millis()).ok();
        inbound.frame =
            addressed(&inbound.frame, &correlation, Some(&reply_to)).map_err(|error| error.to_string())?;
        let call = Call { seq: header.seq.to_string(), format, timeout, deadline: None };
        self.calls.by_correlation.insert(correlation.clone(), call);
        self.ask_for(Waiting::Called { correlation }, Request::Publish(to_topic(topic, inbound)), out);
        Ok(())
    }

    fn open_reply_queue(&mut self, out: &mut Outbound) -> Name {
        let name = Name::new(&format!("eventmesh.reply.{}", Uuid::new_v4())).unwrap_or_default();
        let queue = QueueSpec {
            name: name.clone(),
            prefix: "",
            durable: false,
            exclusive: true,
            auto_delete: false,
            properties: QueueProperties::default(),
        };
        let consume = Consume {
            consumer: REPLIES,
            queue: name.clone(),
            prefetch: None,
            pool: None,
            exclusive: true,
            auto_ack: true,
            lease_ms: None,
            tokens: false,
            priority: 0,
        };
        self.ask_for(Waiting::ReplyQueue, Request::Define(Define::Queue(queue)), out);
        self.ask_for(Waiting::ReplyQueue, Request::Consume(consume), out);
        self.calls.reply_to = Some(name.clone());
        name
    }

    /// A reply has arrived. Late and unknown ones are dropped.
    pub(super) fn called_back(&mut self, delivery: &Delivery, out: &mut Outbound) {
        let correlation = delivery.frame.attr(names::EMCORRELATIONID).unwrap_or_default();
        let Some(call) = self.calls.by_correlation.remove(correlation) else { return };
        let message = Egress {
            envelope: &delivery.envelope,
            frame: &delivery.frame,
            origin: &delivery.origin,
            headers: &self.headers,
        };
        let body = call.format.write(&self.adaptors, message);
        let written = body.map_err(|error| error.to_string()).and_then(|body| {
            self.put_message(Command::ResponseToClient, &call.seq, call.format, &body, out)
                .map_err(|_| "the reply is larger than a package".to_owned())
        });
        if let Err(reason) = written {
            self.answer(Command::ResponseToClient, (FAIL, &reason), &call.seq, out);
        }
    }

    /// Sends a reply to the call that it answers. A response to nothing is dropped: it has no answer.
    pub(super) fn respond(&mut self, header: &Header<'_>, body: &[u8], out: &mut Outbound) {
        let Ok((topic, inbound, _)) = self.message(header, body) else { return };
        let correlation = inbound.frame.attr(names::EMCORRELATIONID);
        let Some(call) = self.calls.answered(correlation, &topic) else { return };
        let Ok(frame) = addressed(&inbound.frame, &call.correlation, None) else { return };
        let publish =
            Publish { ttl_ms: inbound.ttl_ms, ..Publish::new(Name::default(), call.reply_to, frame) };
        self.ask(Request::Publish(publish), out);
    }

    /// The event of a call was refused.
    pub(super) fn call_failed(&mut self, correlation: &str, reason: &str, out: &mut Outbound) {
        if let Some(call) = self.calls.by_correlation.remove(correlation) {
            self.answer(Command::ResponseToClient, (FAIL, reason), &call.seq, out);
        }
    }

    /// No reply can arrive.
    pub(super) fn calls_failed(&mut self, reason: &str, out: &mut Outbound) {
        self.calls.reply_to = None;
        for (_, call) in std::mem::take(&mut self.calls.by_correlation) {
            self.answer(Command::ResponseToClient, (FAIL, reason), &call.seq, out);
        }
    }

    /// Answers the calls whose time has passed.
    pub(super) fn give_up_calls(&mut self, now: Duration, out: &mut Outbound) {
        let mut late = Vec::new();
        for (correlation, call) in &mut self.calls.by_correlation {
            let deadline = *call.deadline.get_or_insert(now + call.timeout);
            if now >= deadline {
                late.push(correlation.clone());
            }
        }
        for correlation in late {
            self.call_failed(&correlation, "no reply came in time", out);
        }
    }
}
