//! The adaptor `meshmessage`: EventMesh's own message to a frame and back (reference `eventmesh.md` 2.3). Pure.
//!
//! ```text
//! {"topic":..,"properties":{..},"headers":{..},"body":".."}      the object, or its JSON as a string
//! ```
//! | MeshMessage | frame |
//! |---|---|
//! | | `specversion` 1.0, `source` /, `type` eventmeshmessage, `emorigin` meshmessage |
//! | `seq` of the package header | `id` |
//! | `topic` | `subject` |
//! | `properties`, then `headers`; a later name wins | attributes; those above cannot be set |
//! | property `ttl` or `emttl`, ms | envelope: time to live |
//! | `body`, UTF-8; of base64 when property `bodyencoding` says so | data |
//!
//! The way back: `topic` is `subject`; `properties` are the attributes other than context and origin, and headers of other
//! protocols; `headers` are empty, save content type, schema and time of a message that was one before.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut as _, Bytes, BytesMut};
use framegate_adaptor_api::{AdaptError, Egress, FrameAdaptor, Inbound, WireMessage};
use framegate_broker::{HeaderValue, Keys};
use framegate_frame::{Frame, FrameKind, Limits, is_reserved_from_clients, names};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::text::{Texts, put_json, text_of};

/// Registry name, and the value of `emorigin`.
pub(crate) const NAME: &str = "meshmessage";
/// `type` of every message.
const TYPE: &str = "eventmeshmessage";
/// Property that says how a body that is no text was written.
const BODY_ENCODING: &str = "bodyencoding";
/// Attributes that go back in `headers`.
const HEADERS: [&str; 3] = [names::DATACONTENTTYPE, names::DATASCHEMA, names::TIME];
/// Attributes that say what the message is, and that properties cannot set.
const FIXED: [&str; 5] = [names::SPECVERSION, names::ID, names::SOURCE, names::TYPE, names::SUBJECT];

/// The adaptor.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MeshMessage;

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(default, borrow)]
    topic: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    properties: Option<Texts<'a>>,
    #[serde(default, borrow)]
    headers: Option<Texts<'a>>,
    #[serde(default, borrow)]
    body: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(default, borrow)]
    seq: Option<Cow<'a, str>>,
}

fn invalid(what: &str, reason: impl Into<String>) -> AdaptError {
    AdaptError::Invalid { what: what.to_owned(), reason: reason.into() }
}

/// Converts the body of a package; `seq` is its header's, empty when there is none.
///
/// # Errors
/// `Invalid` naming the member, `Frame` when a limit of EventMesh's frames is passed.
pub(crate) fn to_inbound(body: &[u8], seq: &str) -> Result<Inbound, AdaptError> {
    let json = std::str::from_utf8(body).map_err(|error| invalid("body", error.to_string()))?;
    let unwrapped: Cow<'_, str> = match json.trim_ascii_start().starts_with('"') {
        true => serde_json::from_str(json).map_err(|error| invalid("body", error.to_string()))?,
        false => Cow::Borrowed(json),
    };
    if !unwrapped.trim_ascii_start().starts_with('{') {
        return Err(invalid("body", "must be a JSON object"));
    }
    let wire: Wire<'_> =
        serde_json::from_str(&unwrapped).map_err(|error| invalid("body", error.to_string()))?;
    let (properties, headers) = (wire.properties.unwrap_or_default(), wire.headers.unwrap_or_default());
    let given = properties.0.len() + headers.0.len();
    if given > 2 * Limits::EVENTMESH.attributes_max {
        return Err(invalid("properties", format!("{given} properties and headers are too many")));
    }
    let mut own: Vec<(&str, &str)> = Vec::with_capacity(given);
    for (name, value) in properties.0.iter().chain(&headers.0) {
        let (name, value) = (&**name, &**value);
        if name.is_empty() || FIXED.contains(&name) || is_reserved_from_clients(name) {
            continue;
        }
        match own.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => own.push((name, value)),
        }
    }
    let text = wire.body.and_then(text_of).unwrap_or_default();
    let is_base64 = own.contains(&(BODY_ENCODING, "base64"));
    let data: Cow<'_, [u8]> = match is_base64 {
        true => Cow::Owned(
            STANDARD.decode(&*text).map_err(|error| invalid("body", format!("is not base64: {error}")))?,
        ),
        false => Cow::Borrowed(text.as_bytes()),
    };
    own.retain(|(name, _)| !(is_base64 && *name == BODY_ENCODING));
    let of = |wanted: &'static str| {
        own.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (wanted, *value))
    };
    let context = [
        Some((names::SPECVERSION, "1.0")),
        Some((names::ID, seq)).filter(|_| !seq.is_empty()),
        Some((names::SOURCE, "/")),
        Some((names::TYPE, TYPE)),
        of(names::DATACONTENTTYPE),
        of(names::DATASCHEMA),
        wire.topic.as_deref().map(|topic| (names::SUBJECT, topic)),
        of(names::TIME),
        Some((names::EMORIGIN, NAME)),
    ];
    let rest = own.iter().copied().filter(|(name, _)| !HEADERS.contains(name));
    let attributes = context.into_iter().flatten().chain(rest);
    let ttl = of("ttl").or_else(|| of(names::EMTTL)).and_then(|(_, ms)| ms.trim().parse().ok());
    Ok(Inbound {
        frame: Frame::build(FrameKind::Event, attributes, &data, &Limits::EVENTMESH.public())?,
        persistent: true,
        priority: None,
        ttl_ms: ttl,
        delay_ms: 0,
        keys: Keys::new(),
    })
}

/// Appends the JSON of a message.
pub(crate) fn put_message(buffer: &mut BytesMut, message: Egress<'_>) {
    let frame = message.frame;
    let data = std::str::from_utf8(frame.data());
    buffer.put_slice(b"{\"topic\":");
    put_json(buffer, frame.attr(names::SUBJECT).unwrap_or(&message.origin.name));
    buffer.put_slice(b",\"properties\":{");
    let mut members = Members::default();
    for (name, value) in frame.attrs() {
        if !is_told_elsewhere(name) {
            members.put(buffer, name, value);
        }
    }
    if frame.private().is_some() {
        message.headers.read(frame, &mut |name, value| {
            if !is_told_elsewhere(name) && frame.attr(name).is_none() {
                members.put_header(buffer, name, &value);
            }
        });
    }
    if data.is_err() {
        members.put(buffer, BODY_ENCODING, "base64");
    }
    buffer.put_slice(b"},\"headers\":{");
    if frame.attr(names::EMORIGIN) == Some(NAME) {
        let mut members = Members::default();
        for name in HEADERS {
            if let Some(value) = frame.attr(name) {
                members.put(buffer, name, value);
            }
        }
    }
    buffer.put_slice(b"},\"body\":");
    match data {
        Ok(text) => put_json(buffer, text),
        Err(_) => put_json(buffer, &STANDARD.encode(frame.data())),
    }
    buffer.put_u8(b'}');
}

/// Attributes that are not properties: the context, the origin, and what belongs to one adaptor.
fn is_told_elsewhere(name: &str) -> bool {
    FIXED.contains(&name) || HEADERS.contains(&name) || is_reserved_from_clients(name)
}

/// Members of a JSON object that is being written.
#[derive(Default)]
struct Members {
    has_some: bool,
}

impl Members {
    fn put(&mut self, buffer: &mut BytesMut, name: &str, value: &str) {
        if std::mem::replace(&mut self.has_some, true) {
            buffer.put_u8(b',');
        }
        put_json(buffer, name);
        buffer.put_u8(b':');
        put_json(buffer, value);
    }

    fn put_header(&mut self, buffer: &mut BytesMut, name: &str, value: &HeaderValue<'_>) {
        match value {
            HeaderValue::Null => {}
            HeaderValue::Bool(flag) => self.put(buffer, name, if *flag { "true" } else { "false" }),
            HeaderValue::Int(number) => self.put(buffer, name, &number.to_string()),
            HeaderValue::Float(number) => self.put(buffer, name, &number.to_string()),
            HeaderValue::Text(text) => self.put(buffer, name, text),
            HeaderValue::Time(seconds) => self.put(buffer, name, &seconds.to_string()),
            HeaderValue::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => self.put(buffer, name, text),
                Err(_) => self.put(buffer, name, &STANDARD.encode(bytes)),
            },
        }
    }
}

impl FrameAdaptor for MeshMessage {
    fn name(&self) -> &'static str {
        NAME
    }

    /// `head` is a JSON object with the `seq` of the package, or empty; `body` is the message.
    fn to_frame(&self, message: WireMessage) -> Result<Inbound, AdaptError> {
        let head = match message.head.is_empty() {
            true => Head { seq: None },
            false => {
                serde_json::from_slice(&message.head).map_err(|error| invalid("head", error.to_string()))?
            }
        };
        to_inbound(&message.body, head.seq.as_deref().unwrap_or_default())
    }

    fn to_wire(&self, message: Egress<'_>) -> Result<WireMessage, AdaptError> {
        let mut head = BytesMut::new();
        let own = message.frame.attr(names::EMORIGIN) == Some(NAME);
        if let Some(id) = message.frame.attr(names::ID).filter(|_| own) {
            head.put_slice(b"{\"seq\":");
            put_json(&mut head, id);
            head.put_u8(b'}');
        }
        let mut body = BytesMut::with_capacity(256 + message.frame.data().len());
        put_message(&mut body, message);
        Ok(WireMessage { head: head.freeze(), body: Bytes::from(body) })
    }
}
