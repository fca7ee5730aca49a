//! The JSON event format, writing: any frame of kind event as one compact JSON object. Attributes come in canonical
//! order and data last.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use framegate_adaptor_api::{AdaptError, Egress};
use framegate_frame::names::DATACONTENTTYPE;
use framegate_frame::{Frame, FrameKind};
use serde_json::value::RawValue;

use super::attributes::{Sink, private_of, visit};
use super::media::{self, MediaClass};
use super::model::Scalar;
use super::msgpack;
use super::rules::check_value;
use crate::metrics::{COUNTERS, Counters};

/// Appends an event as a JSON object.
///
/// # Errors
/// `Undeliverable` for frames that are no events (pieces of streams).
pub(crate) fn write_event(message: Egress<'_>, out: &mut Vec<u8>) -> Result<(), AdaptError> {
    let frame = message.frame;
    if frame.kind() != FrameKind::Event {
        return Err(AdaptError::Undeliverable { reason: format!("a {} is not an event", frame.kind()) });
    }
    let payload = Payload::of(frame);
    let mut object = Object { out, first: true };
    visit(message, payload.media_type, &mut object);
    payload.write(&mut object);
    object.out.push(b'}');
    Ok(())
}

/// Appends only the payload, as the member `data` or `data_base64` (nothing if there is none). The object must be open
/// and have members.
pub(crate) fn write_data(frame: &Frame, out: &mut Vec<u8>) {
    Payload::of(frame).write(&mut Object { out, first: false });
}

/// The media type of the data as it will be written.
pub(crate) fn media_type(frame: &Frame) -> Option<&str> {
    Payload::of(frame).media_type
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
        let legal = |text: &&str| check_value(DATACONTENTTYPE, text).is_ok();
        let media_type = frame.attr(DATACONTENTTYPE).filter(|_| !flags.implied_json()).filter(legal);
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

impl Sink for Object<'_> {
    fn attribute(&mut self, name: &str, value: &str, scalar: Scalar) {
        match scalar {
            Scalar::Text => self.text(name, value),
            Scalar::Integer | Scalar::Boolean => self.raw(name, value),
        }
    }

    fn dropped(&mut self) {
        Counters::add(&COUNTERS.dropped_attributes, 1);
    }
}

/// Appends a JSON string.
fn write_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("text is written to memory");
}
