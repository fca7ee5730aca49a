//! Messages of the subprotocol `framegate.v1.json` from server to client. Only text; never decides what is sent.

use std::fmt::Write as _;

use bytes::Bytes;
use framegate_adaptor_api::Egress;
use framegate_broker::FeedEvent;
use framegate_broker::HeaderTable;
use serde_json::{Map, Value, json};

use crate::event::write_event;
use crate::http::problem::{Problem, fault_json};
use crate::metrics::{COUNTERS, Counters};

/// `{"op": op, "id": id` and more members; the id stands where it always does.
pub(crate) fn answer(op: &str, id: Option<&str>, sub: Option<&str>, members: Value) -> String {
    let mut text = format!("{{\"op\":\"{op}\"");
    if let Some(id) = id {
        let _ = write!(text, ",\"id\":{id}");
    }
    if let Some(sub) = sub {
        let _ = write!(text, ",\"sub\":{}", Value::from(sub));
    }
    if let Value::Object(members) = members {
        for (name, value) in members {
            let _ = write!(text, ",{}:{value}", Value::from(name));
        }
    }
    text.push('}');
    text
}

/// `ok`, when somebody asked for it.
pub(crate) fn ok(id: Option<&str>, sub: Option<&str>, members: Value) -> String {
    if id.is_none() { String::new() } else { answer("ok", id, sub, members) }
}

/// `error`, asked for or not.
pub(crate) fn error(id: Option<&str>, sub: Option<&str>, problem: &Problem) -> String {
    let mut members = Map::new();
    members.insert("code".into(), problem.code.into());
    members.insert("status".into(), problem.status.into());
    members.insert("retryable".into(), problem.retryable().into());
    members.insert("detail".into(), problem.detail.as_str().into());
    if !problem.faults.is_empty() {
        members.insert("errors".into(), problem.faults.iter().map(fault_json).collect());
    }
    answer("error", id, sub, Value::Object(members))
}

/// `notice`.
pub(crate) fn notice(code: &str, sub: Option<&str>, members: Value) -> String {
    let mut all = json!({ "code": code });
    if let (Value::Object(all), Value::Object(members)) = (&mut all, members) {
        all.extend(members);
    }
    answer("notice", None, sub, all)
}

/// What stands before the event of a delivery.
pub(crate) struct Lead<'a> {
    /// Subscription, as JSON.
    pub(crate) sub: &'a str,
    pub(crate) cursor: &'a dyn std::fmt::Display,
    pub(crate) seq: u64,
    /// Number of the ack id, when deliveries are acked.
    pub(crate) ack: Option<u64>,
    pub(crate) attempt: u32,
}

impl Lead<'_> {
    /// Appends the members of a delivery up to its event.
    pub(crate) fn write(&self, out: &mut impl std::fmt::Write) {
        let _ = write!(
            out,
            "{{\"op\":\"event\",\"sub\":{},\"cursor\":\"{}\",\"seq\":{}",
            self.sub, self.cursor, self.seq
        );
        if let Some(ack) = self.ack {
            let _ = write!(out, ",\"ackId\":\"a{ack}\"");
        }
        let _ = write!(out, ",\"attempt\":{}", self.attempt);
    }
}

/// The JSON of a feed's event, shared by all WebSockets. Empty: it cannot be carried.
pub(crate) fn shared_json(event: &FeedEvent, headers: &HeaderTable) -> Bytes {
    event.encoded("cloudevents/json", |event| {
        Counters::add(&COUNTERS.ws_encoded, 1);
        let message =
            Egress { envelope: &event.envelope, frame: &event.frame, origin: &event.origin, headers };
        event_json(message).unwrap_or_default()
    })
}

/// The JSON of one message; None: it cannot be carried.
pub(crate) fn event_json(message: Egress<'_>) -> Option<Bytes> {
    let mut json = Vec::with_capacity(512 + message.frame.data().len());
    write_event(message, &mut json).ok()?;
    Some(json.into())
}
