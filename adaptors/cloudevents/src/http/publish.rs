//! Publishing over HTTP: from a request's head and body to publishes, and from the broker's answer to a status. The
//! parts are pure; `routes` puts them around the broker.

use axum::http::{HeaderMap, header};
use bytes::Bytes;
use framegate_adaptor_api::Inbound;
use framegate_broker::{Name, Publish, Published};
use framegate_frame::names::{DATACONTENTTYPE, ID, SOURCE, SPECVERSION, SUBJECT, TYPE};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::call::REPLY_PREFIX;
use super::header::{self as attributes, Binary, header_of};
use super::problem::Problem;
use super::{dedup, media_type};
use crate::adaptor::inbound;
use crate::event::{
    Attribute, BatchError, Data, Event, EventError, Faults, Place, Scalar, read_batch, read_event,
};
use crate::settings::Settings;

/// What publish routes accept, for `Accept-Post`.
pub(crate) const ACCEPT_POST: &str = "application/cloudevents+json, application/cloudevents-batch+json, */*";

/// Content mode of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Headers and body.
    Binary,
    /// One JSON document.
    Structured,
    /// A JSON array.
    Batched,
}

impl Mode {
    /// The mode that a `Content-Type` names.
    ///
    /// # Errors
    /// 415 for an event format that is not JSON.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(Self::Binary) };
        let text = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
        let essence = media_type(&text);
        // The longer prefix first: a batch is no event.
        let (mode, format) = if let Some(format) = essence.strip_prefix("application/cloudevents-batch") {
            (Self::Batched, format)
        } else if let Some(format) = essence.strip_prefix("application/cloudevents") {
            (Self::Structured, format)
        } else {
            return Ok(Self::Binary);
        };
        if matches!(format, "+json" | "") {
            return Ok(mode);
        }
        let shown: String = essence.chars().take(80).collect();
        Err(Problem::new(
            415,
            "unsupported_format",
            format!("event format {shown:?} is not supported, only +json is"),
        ))
    }

    /// Largest body in bytes.
    pub(crate) fn bytes_max(self, settings: &Settings) -> usize {
        match self {
            Self::Batched => settings.batch_bytes_max,
            Self::Binary | Self::Structured => settings.event_bytes_max,
        }
    }
}

/// Everything about a request that is not its body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) headers: &'a HeaderMap,
    /// From the path; None: from `subject`, else `fallback`.
    pub(crate) topic: Option<&'a str>,
    /// From the query.
    pub(crate) fallback: Option<&'a str>,
    pub(crate) vhost: &'a str,
    pub(crate) user: &'a str,
    pub(crate) now_ms: u64,
    pub(crate) settings: &'a Settings,
}

/// One event, ready to be published.
#[derive(Debug, Clone)]
pub(crate) struct Ready {
    pub(crate) id: String,
    pub(crate) source: String,
    pub(crate) publish: Publish,
}

impl Ready {
    /// It answers a request: it goes to the queue of whoever waits.
    pub(crate) fn is_reply(&self) -> bool {
        self.publish.keys.first().is_some_and(|key| key.starts_with(REPLY_PREFIX))
    }
}

/// What a request asks for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// One event.
    One(Box<Ready>),
    /// A batch, with what is wrong with some of them.
    Batch(Vec<Result<Ready, Problem>>),
}

/// Reads a request.
///
/// # Errors
/// What is wrong with it; a batch with bad events is no error here.
pub(crate) fn read(head: &Head<'_>, mode: Mode, body: Bytes) -> Result<Asked, Problem> {
    match mode {
        Mode::Structured => Ok(Asked::One(Box::new(ready(head, &read_event(&body)?, "")?))),
        Mode::Binary => {
            let strict = head.settings.strict_headers;
            if attributes::classify(head.headers) == Binary::Plain {
                return Ok(Asked::One(Box::new(plain(head, body)?)));
            }
            let event = attributes::read_binary(head.headers, body, strict)?;
            Ok(Asked::One(Box::new(ready_at(head, &event, &header_of)?)))
        }
        Mode::Batched => {
            let max = head.settings.batch_events_max;
            let events = read_batch(&body, max).map_err(|error| match error {
                BatchError::Text(error) => error.into(),
                BatchError::TooMany { .. } => Problem::new(413, "too_large", error.to_string()),
            })?;
            let check = |(index, event): (usize, Result<Event, EventError>)| {
                let event = event?;
                let bytes = event.data.bytes().len();
                if bytes > head.settings.event_bytes_max {
                    return Err(too_large(bytes, head.settings.event_bytes_max));
                }
                ready(head, &event, &format!("/{index}"))
            };
            Ok(Asked::Batch(events.into_iter().enumerate().map(check).collect()))
        }
    }
}

/// 413.
pub(crate) fn too_large(bytes: usize, max: usize) -> Problem {
    Problem::new(413, "too_large", format!("{bytes} bytes are more than the {max} that are allowed"))
}

/// One event of a WebSocket or of structured mode; `prefix` is its place in a batch.
pub(crate) fn ready(head: &Head<'_>, event: &Event, prefix: &str) -> Result<Ready, Problem> {
    ready_at(head, event, &|name| Place::member(prefix, name))
}

fn ready_at(head: &Head<'_>, event: &Event, place: &dyn Fn(&str) -> Place) -> Result<Ready, Problem> {
    let topic = topic_of(head, event, place)?;
    let mut ready = publish_of(head, event, topic)?;
    if !prefers(head.headers, "dedupe", "none") {
        ready.publish.dedup = Some(dedup::of_event(head.vhost, &ready.publish.keys[0], event));
    }
    Ok(ready)
}

/// A body without attributes becomes an event, as curl users expect.
fn plain(head: &Head<'_>, body: Bytes) -> Result<Ready, Problem> {
    let key =
        head.headers.get("idempotency-key").map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned());
    let user = utf8_percent_encode(head.user, NON_ALPHANUMERIC);
    let mut faults = Faults::default();
    let text = |name: &str, value: String| Attribute { name: name.to_owned(), value, scalar: Scalar::Text };
    let mut list = vec![
        text(SPECVERSION, "1.0".to_owned()),
        text(ID, Uuid::now_v7().to_string()),
        text(SOURCE, format!("/clients/{user}")),
        text(TYPE, "framegate.plain".to_owned()),
    ];
    list.extend(
        attributes::content_type(head.headers, &mut faults).map(|value| text(DATACONTENTTYPE, value)),
    );
    list.extend(attributes::read_attributes(head.headers, head.settings.strict_headers, &mut faults));
    let data = if body.is_empty() { Data::Absent } else { Data::Binary(body) };
    let mut event = Event::checked(list, data, &header_of, faults)?;
    let topic = topic_of(head, &event, &header_of)?;
    let dedup = key.map(|key| dedup::of_plain(head.vhost, &topic, &key, &event));
    if let (Some(dedup), Some(id)) = (dedup, event.attributes.iter_mut().find(|a| a.name == ID)) {
        // The same id at each send, so that the answer to a duplicate names the event that was stored.
        id.value = uuid::Builder::from_custom_bytes(dedup.key).into_uuid().to_string();
    }
    let mut ready = publish_of(head, &event, topic)?;
    ready.publish.dedup = dedup.filter(|_| !prefers(head.headers, "dedupe", "none"));
    Ok(ready)
}

fn topic_of(head: &Head<'_>, event: &Event, place: &dyn Fn(&str) -> Place) -> Result<Name, Problem> {
    let topic = head.topic.or_else(|| event.get(SUBJECT)).or(head.fallback);
    let Some(topic) = topic else {
        return Err(Problem::at(place(SUBJECT), "is missing, and no topic is given in path or query"));
    };
    Name::topic(topic).map_err(Problem::from)
}

fn publish_of(head: &Head<'_>, event: &Event, topic: Name) -> Result<Ready, Problem> {
    let Inbound { frame, persistent, priority, ttl_ms, delay_ms, keys } = inbound(event, Some(head.now_ms))?;
    let to = match topic.starts_with(REPLY_PREFIX) {
        true => Publish::new(Name::default(), topic, frame),
        false => Publish::to_topic(topic, frame),
    };
    let mut publish = Publish { persistent, priority, ttl_ms, delay_ms, ..to };
    publish.keys.extend(keys);
    let text = |name| event.get(name).unwrap_or_default().to_owned();
    Ok(Ready { id: text(ID), source: text(SOURCE), publish })
}

/// Whether a `Prefer` header (RFC 7240) has `name=value`.
pub(crate) fn prefers(headers: &HeaderMap, name: &str, value: &str) -> bool {
    headers
        .get_all("prefer")
        .iter()
        .filter_map(|header| header.to_str().ok())
        .flat_map(|text| text.split(','))
        .any(|preference| {
            let word = preference.split(';').next().unwrap_or_default();
            word.split_once('=').is_some_and(|(key, given)| {
                key.trim().eq_ignore_ascii_case(name)
                    && given.trim().trim_matches('"').eq_ignore_ascii_case(value)
            })
        })
}

/// The body of a 202 for one event.
pub(crate) fn accepted(id: &str, source: &str, published: &Published) -> Value {
    let mut body = Map::new();
    body.insert("id".into(), id.into());
    body.insert("source".into(), source.into());
    body.insert("offset".into(), published.offset.map(|offset| offset.0).into());
    body.insert("duplicate".into(), published.duplicate.into());
    if let Some(cursor) = published.cursor {
        body.insert("cursor".into(), cursor.to_string().into());
    }
    Value::Object(body)
}

/// All faults of a batch as one refusal.
pub(crate) fn batch_refused(events: &[Result<Ready, Problem>]) -> Option<Problem> {
    let first = events.iter().find_map(|event| event.as_ref().err())?;
    let faults: Vec<_> = events
        .iter()
        .filter_map(|event| event.as_ref().err())
        .flat_map(|p| p.faults.clone())
        .take(100)
        .collect();
    let bad = events.iter().filter(|event| event.is_err()).count();
    let detail = format!(
        "{bad} of {} events cannot be accepted, so none was; the first: {}",
        events.len(),
        first.detail
    );
    Some(Problem { faults, detail, ..first.clone() })
}

/// The body of a partly accepted batch.
pub(crate) fn partial(accepted: usize, rejected: &[(usize, Problem)]) -> Value {
    let rejected: Vec<Value> = rejected
        .iter()
        .map(|(index, problem)| {
            let mut entry = json!({
                "index": index, "status": problem.status, "code": problem.code, "detail": problem.detail,
            });
            if !problem.faults.is_empty() {
                entry["errors"] = problem.faults.iter().map(super::problem::fault_json).collect();
            }
            entry
        })
        .collect();
    json!({"accepted": accepted, "rejected": rejected})
}

#[cfg(test)]
#[path = "publish_tests.rs"]
mod tests;
