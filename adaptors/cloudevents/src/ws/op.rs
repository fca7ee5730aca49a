//! Operations of the subprotocol `framegate.v1.json`, parsed: one JSON object per text message, or an array of them.
//! Never checks whether a subscription exists.

use std::time::Duration;

use bytes::Bytes;
use framegate_adaptor_api::Secret;
use framegate_broker::feed::From as Start;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::filter::Filters;
use crate::http::problem::Problem;
use crate::http::resume;
use crate::limits::{ACK_WAIT, CREDIT_MAX, DELAY_MAX, OPS_MAX, REWIND_MAX, SUB_NAME_BYTES_MAX};

/// An operation with the id of its answer, as JSON text.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) id: Option<String>,
    pub(crate) op: Result<Op, Problem>,
}

/// What a client asks for.
#[derive(Debug)]
pub(crate) enum Op {
    Hello { token: Option<Secret>, heartbeat_s: Option<u64> },
    Subscribe(Subscribe),
    Unsubscribe { sub: String },
    Publish { topic: Option<String>, events: Vec<Bytes>, single: bool },
    Ack { sub: String, which: Which },
    Nack { sub: String, ack_ids: Vec<String>, delay_ms: u64, requeue: bool },
    Extend { sub: String, ack_ids: Vec<String>, by_ms: u64 },
    Credit { sub: String, add: u32 },
    Pause { sub: String },
    Resume { sub: String },
    Refresh { token: Secret },
    Ping,
    Pong,
}

/// Which deliveries an ack means.
#[derive(Debug)]
pub(crate) enum Which {
    Ids(Vec<String>),
    /// All up to this cursor.
    UpTo(String),
}

/// A subscription to be made.
#[derive(Debug)]
pub(crate) struct Subscribe {
    pub(crate) sub: String,
    pub(crate) source: Source,
    pub(crate) ack: AckMode,
    pub(crate) credit: u32,
    pub(crate) encoding: Encoding,
    pub(crate) filters: Filters,
}

/// Topic or queue.
#[derive(Debug)]
pub(crate) enum Source {
    Topic(String, Start),
    Queue(String),
}

/// How deliveries are settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AckMode {
    Auto,
    Explicit,
    Cumulative,
}

/// What a delivery shows of its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The whole event.
    Structured,
    /// Only its data.
    Data,
}

const CREDIT_DEFAULT: u32 = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Members<'a> {
    sub: Option<String>,
    topic: Option<String>,
    queue: Option<String>,
    mode: Option<String>,
    #[serde(borrow)]
    group: Option<&'a RawValue>,
    #[serde(borrow)]
    filters: Option<&'a RawValue>,
    #[serde(borrow)]
    from: Option<&'a RawValue>,
    ack: Option<String>,
    credit: Option<u32>,
    encoding: Option<String>,
    ack_ids: Option<Vec<String>>,
    up_to: Option<String>,
    delay: Option<u64>,
    requeue: Option<bool>,
    by: Option<u64>,
    add: Option<u32>,
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    #[serde(borrow)]
    events: Option<Vec<&'a RawValue>>,
    token: Option<String>,
    heartbeat: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Naming<'a> {
    op: Option<String>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

/// Parses a message.
///
/// # Errors
/// It is not JSON, or neither an object nor an array of them.
pub(crate) fn parse(message: &[u8]) -> Result<Vec<Asked>, Problem> {
    let invalid = |error: serde_json::Error| Problem::new(400, "invalid_json", format!("not JSON: {error}"));
    if message.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'[') {
        let whole: &RawValue = serde_json::from_slice(message).map_err(invalid)?;
        return Ok(vec![parse_one(whole)]);
    }
    let all: Vec<&RawValue> = serde_json::from_slice(message).map_err(invalid)?;
    if all.len() > OPS_MAX {
        let op = Err(Problem::new(
            413,
            "too_large",
            format!("a message of {} ops is larger than {OPS_MAX}", all.len()),
        ));
        return Ok(vec![Asked { id: None, op }]);
    }
    Ok(all.into_iter().map(parse_one).collect())
}

fn parse_one(object: &RawValue) -> Asked {
    let naming: Naming<'_> = match serde_json::from_str(object.get()) {
        Ok(naming) => naming,
        Err(error) => return Asked { id: None, op: Err(bad(format!("not an operation: {error}"))) },
    };
    let id = match naming.id.map(RawValue::get).filter(|id| *id != "null") {
        None => None,
        Some(id) if is_id(id) => Some(id.to_owned()),
        Some(_) => return Asked { id: None, op: Err(bad("id is neither a string nor an integer")) },
    };
    let Some(op) = naming.op else { return Asked { id, op: Err(bad("op is missing")) } };
    let op = serde_json::from_str(object.get())
        .map_err(|error| bad(format!("{}: {error}", shown(&op))))
        .and_then(|members| read(&op, members));
    Asked { id, op }
}

fn is_id(json: &str) -> bool {
    json.len() <= SUB_NAME_BYTES_MAX && (json.starts_with('"') || json.parse::<i64>().is_ok())
}

fn read(op: &str, members: Members<'_>) -> Result<Op, Problem> {
    let Members { sub, ack_ids, token, .. } = members;
    let named = || match sub.as_deref() {
        Some(sub) if !sub.is_empty() && sub.len() <= SUB_NAME_BYTES_MAX => Ok(sub.to_owned()),
        Some(_) => Err(bad(format!("sub has not 1 to {SUB_NAME_BYTES_MAX} bytes"))),
        None => Err(bad("sub is missing")),
    };
    let ids = || match &ack_ids {
        Some(ids) if (1..=CREDIT_MAX as usize).contains(&ids.len()) => Ok(ids.clone()),
        _ => Err(bad(format!("ackIds has not 1 to {CREDIT_MAX} elements"))),
    };
    Ok(match op {
        "hello" => Op::Hello { token: token.map(Secret), heartbeat_s: members.heartbeat },
        "subscribe" => Subscribe {
            sub: named()?,
            source: source(members.topic, members.queue, members.from)?,
            ack: ack_mode(members.ack.as_deref())?,
            credit: credit(members.credit.unwrap_or(CREDIT_DEFAULT))?,
            encoding: encoding(members.encoding.as_deref())?,
            filters: filters(members.filters)?,
        }
        .only_now(members.mode.as_deref(), members.group)?,
        "unsubscribe" => Op::Unsubscribe { sub: named()? },
        "publish" => {
            let copy = |event: &RawValue| Bytes::copy_from_slice(event.get().as_bytes());
            let (events, single) = match (members.event, members.events) {
                (Some(event), None) => (vec![copy(event)], true),
                (None, Some(events)) => (events.into_iter().map(copy).collect(), false),
                _ => return Err(bad("publish needs either event or events")),
            };
            Op::Publish { topic: members.topic, events, single }
        }
        "ack" => match (members.up_to, &ack_ids) {
            (Some(cursor), None) => Op::Ack { sub: named()?, which: Which::UpTo(cursor) },
            (None, Some(_)) => Op::Ack { sub: named()?, which: Which::Ids(ids()?) },
            _ => return Err(bad("ack needs either ackIds or upTo")),
        },
        "nack" => Op::Nack {
            sub: named()?,
            ack_ids: ids()?,
            delay_ms: wait("delay", members.delay.unwrap_or(0))?,
            requeue: members.requeue.unwrap_or(true),
        },
        "extend" => {
            let by_ms = wait("by", members.by.unwrap_or(ACK_WAIT.as_millis() as u64))?;
            Op::Extend { sub: named()?, ack_ids: ids()?, by_ms }
        }
        "credit" => {
            Op::Credit { sub: named()?, add: credit(members.add.ok_or_else(|| bad("add is missing"))?)? }
        }
        "pause" => Op::Pause { sub: named()? },
        "resume" => Op::Resume { sub: named()? },
        "refresh" => Op::Refresh { token: Secret(token.ok_or_else(|| bad("token is missing"))?) },
        "ping" => Op::Ping,
        "pong" => Op::Pong,
        "request" | "history" | "presence" | "presence_stats" | "group" | "pop" => {
            return Err(Problem::not_implemented(&format!("the operation {op}")));
        }
        _ => return Err(Problem::new(400, "unknown_op", format!("there is no operation {}", shown(op)))),
    })
}

impl Subscribe {
    /// Refuses what a later version does.
    fn only_now(self, mode: Option<&str>, group: Option<&RawValue>) -> Result<Op, Problem> {
        match mode {
            None | Some("broadcast") => {}
            Some("group" | "pop") => {
                return Err(Problem::not_implemented("a subscription mode other than broadcast"));
            }
            Some(mode) => return Err(bad(format!("mode {} is not known", shown(mode)))),
        }
        if group.is_some() {
            return Err(Problem::not_implemented("group"));
        }
        if matches!(self.source, Source::Queue(_)) && !self.filters.is_empty() {
            return Err(bad("filters are for topics: what a queue holds is consumed"));
        }
        Ok(Op::Subscribe(self))
    }
}

fn filters(json: Option<&RawValue>) -> Result<Filters, Problem> {
    let Some(json) = json else { return Ok(Filters::default()) };
    let json = serde_json::from_str(json.get()).map_err(|error| bad(format!("filters: {error}")))?;
    Filters::parse(&json).map_err(|error| bad(format!("filters{} {}", error.pointer, error.detail)))
}

fn source(topic: Option<String>, queue: Option<String>, from: Option<&RawValue>) -> Result<Source, Problem> {
    match (topic, queue) {
        (Some(topic), None) => Ok(Source::Topic(topic, from.map_or(Ok(Start::Latest), start)?)),
        (None, Some(queue)) => Ok(Source::Queue(queue)),
        _ => Err(bad("subscribe needs either topic or queue")),
    }
}

/// `"latest"`, `"earliest"`, a cursor, `{"time": RFC 3339}` or `{"last": n}`.
fn start(json: &RawValue) -> Result<Start, Problem> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Text(String),
        Time { time: String },
        Last { last: u32 },
    }
    match serde_json::from_str(json.get()) {
        Ok(Form::Text(text)) => resume::of_text(&text),
        Ok(Form::Time { time }) => {
            resume::of_time(&time).ok_or_else(|| bad("from.time is not an RFC 3339 timestamp"))
        }
        Ok(Form::Last { last }) if last <= REWIND_MAX => Ok(Start::Last(last)),
        _ => Err(bad("from is neither a cursor, 'latest', 'earliest', nor {\"time\"} or {\"last\"}")),
    }
}

fn ack_mode(word: Option<&str>) -> Result<AckMode, Problem> {
    match word {
        None | Some("auto") => Ok(AckMode::Auto),
        Some("explicit") => Ok(AckMode::Explicit),
        Some("cumulative") => Ok(AckMode::Cumulative),
        Some(_) => Err(bad("ack is neither auto, explicit nor cumulative")),
    }
}

fn encoding(word: Option<&str>) -> Result<Encoding, Problem> {
    match word {
        None | Some("structured") => Ok(Encoding::Structured),
        Some("data") => Ok(Encoding::Data),
        Some(_) => Err(bad("encoding is neither structured nor data")),
    }
}

fn credit(credit: u32) -> Result<u32, Problem> {
    if credit > CREDIT_MAX {
        Err(bad(format!("credit {credit} is more than {CREDIT_MAX}")))
    } else {
        Ok(credit)
    }
}

fn wait(name: &str, ms: u64) -> Result<u64, Problem> {
    if Duration::from_millis(ms) > DELAY_MAX {
        Err(bad(format!("{name} {ms} is more than a day")))
    } else {
        Ok(ms)
    }
}

fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(400, "bad_request", detail)
}

fn shown(word: &str) -> String {
    let short: String = word.chars().take(40).collect();
    format!("{short:?}")
}
