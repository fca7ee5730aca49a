//! What is posted: one event in binary or structured mode, or a batch. The same event gives the same bytes and the same id at each
//! attempt. Never signs and never sends.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use framegate_adaptor_api::{AdaptError, Egress};
use framegate_frame::names::{DATACONTENTTYPE, ID, SOURCE};
use framegate_frame::{Frame, FrameKind};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::event::{Scalar, Sink, private_of, visit, write_event};

const STRUCTURED: HeaderValue = HeaderValue::from_static("application/cloudevents+json; charset=utf-8");
const BATCHED: HeaderValue = HeaderValue::from_static("application/cloudevents-batch+json; charset=utf-8");

/// Characters that the HTTP binding escapes in header values, beside those that are not ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// How events are put into requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Attributes in headers, data in the body. An event without data, or with bytes of no type, goes structured: a web hook
    /// must have a body and a content type.
    Binary,
    /// One event as JSON.
    #[default]
    Structured,
    /// An array of events.
    Batched,
}

/// How attribute values are written in headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum HeaderEncoding {
    /// Escaped as the binding says.
    #[default]
    Percent,
    /// As they are, in UTF-8, for receivers that do not decode.
    None,
}

/// A request before it is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// `webhook-id`.
    pub(crate) id: String,
    /// Content type, and attributes in binary mode.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Message {
    /// One event, in binary or structured mode.
    ///
    /// # Errors
    /// `Undeliverable` for what is no event.
    pub(crate) fn one(egress: Egress<'_>, mode: Mode, encoding: HeaderEncoding) -> Result<Self, AdaptError> {
        let id = webhook_id([egress]);
        let binary = mode == Mode::Binary && egress.frame.kind() == FrameKind::Event;
        if let Some(content_type) = binary.then(|| binary_type(egress.frame)).flatten() {
            let mut attributes = Headers { encoding, headers: HeaderMap::new() };
            visit(egress, None, &mut attributes);
            let mut headers = attributes.headers;
            headers.insert(CONTENT_TYPE, content_type);
            return Ok(Self { id, headers, body: egress.frame.data_bytes() });
        }
        let headers = [(CONTENT_TYPE, STRUCTURED)].into_iter().collect();
        Ok(Self { id, headers, body: written(egress)? })
    }

    /// Several events, each written by `written`.
    pub(crate) fn batch(events: &[Bytes], id: String) -> Self {
        let mut body = Vec::with_capacity(events.iter().map(|event| event.len() + 1).sum::<usize>() + 2);
        body.push(b'[');
        for (at, event) in events.iter().enumerate() {
            if at > 0 {
                body.push(b',');
            }
            body.extend_from_slice(event);
        }
        body.push(b']');
        Self { id, headers: [(CONTENT_TYPE, BATCHED)].into_iter().collect(), body: body.into() }
    }
}

/// An event as a batch holds it.
///
/// # Errors
/// `Undeliverable` for what is no event.
pub(crate) fn written(egress: Egress<'_>) -> Result<Bytes, AdaptError> {
    let mut json = Vec::with_capacity(512 + egress.frame.data().len());
    write_event(egress, &mut json)?;
    Ok(json.into())
}

/// The id of a message: the same for the same events, and without a full stop.
pub(crate) fn webhook_id<'a>(events: impl IntoIterator<Item = Egress<'a>>) -> String {
    let mut hash = Sha256::new();
    for event in events {
        let mut identity = Identity::default();
        visit(event, None, &mut identity);
        for part in [&identity.source, &identity.id] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
    }
    let digest = hash.finalize();
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("msg_{hex}")
}

/// The content type of a request in binary mode; None: this event cannot be sent so.
fn binary_type(frame: &Frame) -> Option<HeaderValue> {
    if frame.data().is_empty() {
        return None;
    }
    if let Some(given) = frame.attr(DATACONTENTTYPE) {
        return HeaderValue::from_str(given).ok().filter(|given| !is_event_type(given));
    }
    let private = private_of(frame);
    let json = private.is_none_or(|private| private.implied_json())
        && serde_json::from_slice::<&serde_json::value::RawValue>(frame.data()).is_ok();
    json.then_some(HeaderValue::from_static("application/json"))
}

/// Data that would be taken for a structured event.
fn is_event_type(value: &HeaderValue) -> bool {
    let prefix = b"application/cloudevents";
    value.as_bytes().get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[derive(Default)]
struct Identity {
    id: String,
    source: String,
}

impl Sink for Identity {
    fn attribute(&mut self, name: &str, value: &str, _: Scalar) {
        match name {
            ID => value.clone_into(&mut self.id),
            SOURCE => value.clone_into(&mut self.source),
            _ => {}
        }
    }
}

/// Attributes as `ce-` headers.
struct Headers {
    encoding: HeaderEncoding,
    headers: HeaderMap,
}

impl Sink for Headers {
    fn attribute(&mut self, name: &str, value: &str, _: Scalar) {
        if name == DATACONTENTTYPE {
            return;
        }
        let Ok(name) = HeaderName::try_from(format!("ce-{name}")) else { return };
        let plain = match self.encoding {
            HeaderEncoding::None => HeaderValue::from_bytes(value.as_bytes()).ok(),
            HeaderEncoding::Percent => None,
        };
        let escaped = || HeaderValue::try_from(utf8_percent_encode(value, ESCAPED).to_string()).ok();
        if let Some(value) = plain.or_else(escaped) {
            // more than the table holds cannot come: a frame has fewer attributes
            let _ = self.headers.try_insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use framegate_broker::{Envelope, HeaderTable, Name, Origin};

    use super::*;
    use crate::event::{EVENT_LIMITS, read_event, to_frame};

    fn with<T>(frame: &Frame, seq: u64, visit: impl FnOnce(Egress<'_>) -> T) -> T {
        let (envelope, headers) = (Envelope::default(), HeaderTable::default());
        let origin = Origin { vhost: Name::from_static("/"), name: Name::from_static("t"), id: 7, seq };
        visit(Egress { envelope: &envelope, frame, origin: &origin, headers: &headers })
    }

    fn frame(members: &str) -> Frame {
        let json = format!(r#"{{"specversion":"1.0","id":"1","source":"/s","type":"t"{members}}}"#);
        to_frame(&read_event(&Bytes::from(json)).unwrap(), &EVENT_LIMITS).unwrap()
    }

    fn sent(members: &str, mode: Mode, encoding: HeaderEncoding) -> (String, HeaderMap, String) {
        let message = with(&frame(members), 1, |egress| Message::one(egress, mode, encoding).unwrap());
        let content_type = message.headers[CONTENT_TYPE].to_str().unwrap().to_owned();
        (content_type, message.headers, String::from_utf8_lossy(&message.body).into_owned())
    }

    #[test]
    fn binary_mode_puts_escaped_attributes_into_headers_and_data_into_the_body() {
        let members = r#","subject":"a \"b\" 100% €","n":5,"datacontenttype":"text/plain","data":"hi""#;
        let (content_type, headers, body) = sent(members, Mode::Binary, HeaderEncoding::Percent);
        assert_eq!((content_type.as_str(), body.as_str()), ("text/plain", "hi"));
        assert_eq!(headers["ce-subject"], "a%20%22b%22%20100%25%20%E2%82%AC");
        for (name, value) in
            [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "t"), ("ce-n", "5")]
        {
            assert_eq!(headers[name], value);
        }
        assert!(!headers.contains_key("ce-datacontenttype"));
        let (_, headers, _) = sent(members, Mode::Binary, HeaderEncoding::None);
        assert_eq!(headers["ce-subject"].as_bytes(), "a \"b\" 100% €".as_bytes());
    }

    #[test]
    fn what_has_no_body_or_no_type_goes_structured() {
        for members in ["", r#","data_base64":"AP8=""#] {
            let (content_type, _, body) = sent(members, Mode::Binary, HeaderEncoding::Percent);
            assert!(content_type.starts_with("application/cloudevents+json"), "{members}");
            assert!(body.starts_with(r#"{"specversion":"1.0""#), "{body}");
        }
        let (content_type, _, body) = sent(r#","data":{"a":1}"#, Mode::Binary, HeaderEncoding::Percent);
        assert_eq!((content_type.as_str(), body.as_str()), ("application/json", r#"{"a":1}"#));
        let inner = r#","datacontenttype":"application/cloudevents+json","data":{"id":"2"}"#;
        let (content_type, ..) = sent(inner, Mode::Structured, HeaderEncoding::Percent);
        assert_eq!(sent(inner, Mode::Binary, HeaderEncoding::Percent).0, content_type);
    }

    #[test]
    fn the_id_is_that_of_the_event_at_each_attempt() {
        let one = with(&frame(""), 1, |egress| webhook_id([egress]));
        assert_eq!(one, with(&frame(r#","data":1"#), 2, |egress| webhook_id([egress])));
        assert!(one.starts_with("msg_") && !one.contains('.') && one.len() == 36);
        let first = frame("");
        let other = first.attrs().map(|(n, v)| (n, if n == "id" { "2" } else { v })).collect::<Vec<_>>();
        let other = Frame::build(FrameKind::Event, other, b"", &EVENT_LIMITS).unwrap();
        assert_ne!(one, with(&other, 1, |egress| webhook_id([egress])));
        // without an id of its own it is that of its place
        let bare = Frame::build(FrameKind::Event, [("type", "t")], b"x", &EVENT_LIMITS).unwrap();
        assert_ne!(with(&bare, 1, |e| webhook_id([e])), with(&bare, 2, |e| webhook_id([e])));
    }

    #[test]
    fn a_batch_is_an_array() {
        let events: Vec<Bytes> =
            [1, 2].map(|seq| with(&frame(""), seq, |egress| written(egress).unwrap())).into();
        let batch = Message::batch(&events, "msg_x".to_owned());
        let parsed: serde_json::Value = serde_json::from_slice(&batch.body).unwrap();
        assert_eq!(parsed.as_array().map(Vec::len), Some(2));
        assert!(batch.headers[CONTENT_TYPE].to_str().unwrap().contains("batch"));
        assert_eq!(&Message::batch(&[], String::new()).body[..], b"[]");
    }
}
