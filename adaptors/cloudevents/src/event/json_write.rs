//! The JSON event format, writing: any frame of kind event as one compact JSON object. Attributes come in canonical
//! order and data last. What the frame lacks is made from its origin, the same at each redelivery.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use framegate_adaptor_api::{AdaptError, Egress};
use framegate_broker::HeaderValue;
use framegate_frame::names::{
    CONTEXT, DATACONTENTTYPE, DATASCHEMA, EMTTL, ID, SOURCE, SPECVERSION, SUBJECT, TIME, TYPE,
};
use framegate_frame::{Frame, FrameKind, is_reserved_from_clients};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::value::RawValue;

use super::media::{self, MediaClass};
use super::model::Scalar;
use super::private::PrivateText;
use super::rules::{VERSION, check_char_rules, check_name, check_value, integer_text};
use super::{msgpack, time};
use crate::adaptor::NAME;
use crate::metrics::{COUNTERS, Counters};

/// A slash stays: the default vhost is one. What a URI reference cannot hold is escaped.
const SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/').remove(b':');

/// Type of events that came without one.
const DEFAULT_TYPE: &str = "framegate.message";

/// Appends an event as a JSON object.
///
/// # Errors
/// `Undeliverable` for frames that are no events (pieces of streams).
pub(crate) fn write_event(message: Egress<'_>, out: &mut Vec<u8>) -> Result<(), AdaptError> {
    let frame = message.frame;
    if frame.kind() != FrameKind::Event {
        return Err(AdaptError::Undeliverable { reason: format!("a {} is not an event", frame.kind()) });
    }
    let private = private_of(frame).unwrap_or_default();
    let payload = Payload::of(frame);
    let mut object = Object { out, first: true };
    object.text(SPECVERSION, VERSION);
    match legal(frame, ID) {
        Some(id) => object.text(ID, id),
        None => object.text(ID, &format!("{}-{}", message.origin.id, message.origin.seq)),
    }
    match legal(frame, SOURCE) {
        Some(source) => object.text(SOURCE, source),
        None => {
            let vhost = utf8_percent_encode(&message.origin.vhost, SEGMENT);
            let exchange = utf8_percent_encode(&message.envelope.exchange, SEGMENT);
            object.text(SOURCE, &format!("/{vhost}/{exchange}"));
        }
    }
    object.text(TYPE, legal(frame, TYPE).unwrap_or(DEFAULT_TYPE));
    if let Some(media_type) = payload.media_type {
        object.text(DATACONTENTTYPE, media_type);
    }
    for name in [DATASCHEMA, SUBJECT] {
        if let Some(value) = legal(frame, name) {
            object.text(name, value);
        }
    }
    if let Some(text) = frame.attr(TIME).and_then(time::repaired) {
        object.text(TIME, &text);
    }
    write_extensions(message, private, &mut object);
    payload.write(&mut object);
    object.out.push(b'}');
    Ok(())
}

/// Appends only the payload, as the member `data` or `data_base64` (nothing if there is none). The object must be open
/// and have members.
pub(crate) fn write_data(frame: &Frame, out: &mut Vec<u8>) {
    Payload::of(frame).write(&mut Object { out, first: false });
}

fn private_of(frame: &Frame) -> Option<PrivateText<'_>> {
    frame.private().filter(|(adaptor, _)| *adaptor == NAME).map(|(_, text)| PrivateText::new(text))
}

/// A context attribute that CloudEvents allows as it is.
fn legal<'a>(frame: &'a Frame, name: &str) -> Option<&'a str> {
    let value = frame.attr(name)?;
    if check_value(name, value).is_err() {
        Counters::add(&COUNTERS.dropped_attributes, 1);
        return None;
    }
    Some(value)
}

fn write_extensions(message: Egress<'_>, private: PrivateText<'_>, object: &mut Object<'_>) {
    let frame = message.frame;
    let mut lowered: Vec<String> = Vec::new();
    for (name, value) in frame.attrs() {
        if CONTEXT.contains(&name) || is_reserved_from_clients(name) {
            continue;
        }
        if check_char_rules(value).is_err() {
            Counters::add(&COUNTERS.dropped_attributes, 1);
        } else if check_name(name).is_ok() {
            match private.scalar(name) {
                Scalar::Integer if integer_text(value).as_deref() == Some(value) => object.raw(name, value),
                Scalar::Boolean if matches!(value, "true" | "false") => object.raw(name, value),
                _ => object.text(name, value),
            }
        } else {
            write_lowered(frame, name, value, &mut lowered, object);
        }
    }
    if frame.attr(EMTTL).is_none() && message.envelope.expires_at_ms != 0 {
        let ttl_ms = message.envelope.expires_at_ms.saturating_sub(message.envelope.time_ms);
        object.text(EMTTL, &ttl_ms.to_string());
        lowered.push(EMTTL.to_owned());
    }
    if frame.private().is_some_and(|(adaptor, _)| adaptor != NAME) {
        message.headers.read(frame, &mut |name, value| {
            write_header(frame, name, &value, &mut lowered, object);
        });
    }
}

/// Writes an attribute under the lower-case form of its name, unless that form is illegal or taken.
fn write_lowered(frame: &Frame, name: &str, value: &str, taken: &mut Vec<String>, object: &mut Object<'_>) {
    if let Some(name) = free_name(frame, name, taken) {
        object.text(&name, value);
        taken.push(name);
    }
}

fn free_name(frame: &Frame, name: &str, taken: &[String]) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let free = check_name(&lower).is_ok()
        && !CONTEXT.contains(&lower.as_str())
        && !is_reserved_from_clients(&lower)
        && frame.attr(&lower).is_none()
        && !taken.contains(&lower);
    if !free {
        Counters::add(&COUNTERS.dropped_attributes, 1);
    }
    free.then_some(lower)
}

/// Writes a header of another protocol as an extension, with the closest type that CloudEvents has.
fn write_header(
    frame: &Frame,
    name: &str,
    value: &HeaderValue<'_>,
    taken: &mut Vec<String>,
    object: &mut Object<'_>,
) {
    if frame.attr(name).is_some() {
        return; // an attribute of the frame, written already
    }
    let text = match value {
        HeaderValue::Null => return,
        HeaderValue::Bool(flag) => flag.to_string(),
        HeaderValue::Int(number) => number.to_string(),
        HeaderValue::Float(number) => number.to_string(),
        HeaderValue::Text(text) => text.as_ref().to_owned(),
        HeaderValue::Bytes(bytes) => STANDARD.encode(bytes),
        HeaderValue::Time(seconds) => {
            let stamp = i64::try_from(*seconds).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
            stamp.map_or_else(|| seconds.to_string(), |stamp| stamp.to_string())
        }
    };
    if check_char_rules(&text).is_err() {
        return Counters::add(&COUNTERS.dropped_attributes, 1);
    }
    let Some(name) = free_name(frame, name, taken) else { return };
    let bare = match value {
        HeaderValue::Bool(_) => true,
        HeaderValue::Int(number) => i32::try_from(*number).is_ok(),
        _ => false,
    };
    if bare {
        object.raw(&name, &text);
    } else {
        object.text(&name, &text);
    }
    taken.push(name);
}

/// The payload of a frame as JSON carries it.
struct Payload<'a> {
    media_type: Option<&'a str>,
    shape: Shape<'a>,
}

enum Shape<'a> {
    Absent,
    Json(&'a str),
    Transcoded(Vec<u8>),
    Text(&'a str),
    Base64(&'a [u8]),
}

impl<'a> Payload<'a> {
    fn of(frame: &'a Frame) -> Self {
        let private = private_of(frame);
        let flags = private.unwrap_or_default();
        let data = frame.data();
        let media_type = legal(frame, DATACONTENTTYPE).filter(|_| !flags.implied_json());
        let class = match media_type {
            Some(media_type) => media::classify(media_type),
            None if flags.opaque() => MediaClass::Binary,
            // Other protocols often name no type; JSON without a type means JSON here.
            None if flags.implied_json() || private.is_none() => MediaClass::Json,
            None => MediaClass::Binary,
        };
        let class = if flags.text() { MediaClass::Text } else { class };
        if data.is_empty() {
            let shape = match class {
                _ if !flags.empty() => Shape::Absent,
                MediaClass::Text => Shape::Text(""),
                _ => Shape::Base64(data),
            };
            return Self { media_type, shape };
        }
        if class == MediaClass::MessagePack
            && let Some(json) = msgpack::to_json(data)
        {
            return Self { media_type: Some("application/json"), shape: Shape::Transcoded(json) };
        }
        let shape = match class {
            MediaClass::Json => {
                serde_json::from_slice::<&RawValue>(data).ok().map(|raw| Shape::Json(raw.get()))
            }
            MediaClass::Text => std::str::from_utf8(data).ok().map(Shape::Text),
            MediaClass::MessagePack | MediaClass::Binary => None,
        };
        Self { media_type, shape: shape.unwrap_or(Shape::Base64(data)) }
    }

    fn write(&self, object: &mut Object<'_>) {
        match &self.shape {
            Shape::Absent => {}
            Shape::Json(json) => object.raw("data", json),
            Shape::Transcoded(json) => {
                object.name("data");
                object.out.extend_from_slice(json);
            }
            Shape::Text(text) => object.text("data", text),
            Shape::Base64(bytes) => {
                object.name("data_base64");
                object.out.push(b'"');
                object.out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
                object.out.push(b'"');
            }
        }
    }
}

/// A JSON object that is being written.
struct Object<'o> {
    out: &'o mut Vec<u8>,
    first: bool,
}

impl Object<'_> {
    fn name(&mut self, name: &str) {
        self.out.push(if std::mem::take(&mut self.first) { b'{' } else { b',' });
        write_text(self.out, name);
        self.out.push(b':');
    }

    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        write_text(self.out, value);
    }

    fn raw(&mut self, name: &str, value: &str) {
        self.name(name);
        self.out.extend_from_slice(value.as_bytes());
    }
}

/// Appends a JSON string.
fn write_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("text is written to memory");
}
