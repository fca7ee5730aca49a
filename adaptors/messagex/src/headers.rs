//! Headers of messages: read from frames of this protocol for the broker, and written for clients whatever protocol they came by.
//! Never stores any: they live in the frame's private attribute or its extension attributes.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut as _, BytesMut};
use framegate_broker::{Death, HeaderValue};
use framegate_frame::{Frame, unescape_bytes};

use crate::json::{self, Object, Shape};

/// Name of the adaptor; its private attribute is `~messagex`.
pub(crate) const ADAPTOR: &str = "messagex";

/// The JSON of this adaptor's private attribute; empty for frames without one.
pub(crate) fn private_text(frame: &Frame) -> Cow<'_, str> {
    let own = frame.private().filter(|(adaptor, _)| *adaptor == ADAPTOR);
    match own.map(|(_, escaped)| unescape_bytes(escaped)) {
        Some(Ok(Cow::Borrowed(bytes))) => String::from_utf8_lossy(bytes),
        Some(Ok(Cow::Owned(bytes))) => Cow::Owned(
            String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()),
        ),
        _ => Cow::Borrowed(""),
    }
}

/// Hands every header of a frame that this adaptor made to `visit`, typed as in its JSON; arrays and objects as their text.
pub(crate) fn read(frame: &Frame, visit: &mut dyn FnMut(&str, HeaderValue<'_>)) {
    let private = private_text(frame);
    let mut headers = None;
    let whole = json::members(&private, |name, value| {
        if name == "headers" {
            headers = Some(value);
        }
    });
    if let (Ok(()), Some(headers)) = (whole, headers) {
        // What `to_frame` wrote is an object.
        let _ = json::members(headers, |name, raw| visit(&name, value(raw)));
    }
}

/// A JSON value as the broker compares it.
pub(crate) fn value(raw: &str) -> HeaderValue<'_> {
    match json::shape(raw) {
        Shape::Null => HeaderValue::Null,
        Shape::Bool => HeaderValue::Bool(raw == "true"),
        Shape::Number => match raw.parse() {
            Ok(number) => HeaderValue::Int(number),
            Err(_) => HeaderValue::Float(raw.parse().unwrap_or(f64::NAN)),
        },
        Shape::Text => json::text(raw).map_or(HeaderValue::Null, HeaderValue::Text),
        Shape::Array | Shape::Object => HeaderValue::Text(json::compact(raw)),
    }
}

/// Appends a header's value as JSON: bytes as base64 text, times in ms.
pub(crate) fn put_value(buffer: &mut BytesMut, value: &HeaderValue<'_>) {
    match value {
        HeaderValue::Null => buffer.put_slice(b"null"),
        HeaderValue::Bool(flag) => json::put_flag(buffer, *flag),
        HeaderValue::Int(number) => json::put_number(buffer, number),
        HeaderValue::Float(number) if number.is_finite() => {
            json::put_number(buffer, format_args!("{number:?}"));
        }
        HeaderValue::Float(_) => buffer.put_slice(b"null"),
        HeaderValue::Text(text) => json::put_text(buffer, text),
        HeaderValue::Bytes(bytes) => json::put_text(buffer, &STANDARD.encode(bytes)),
        HeaderValue::Time(seconds) => json::put_number(buffer, seconds.saturating_mul(1000)),
    }
}

/// Appends what is known of a message's deaths, in the words of AMQP.
pub(crate) fn put_deaths(object: &mut Object<'_>, deaths: &[Death]) {
    let Some(first) = Death::first(deaths) else { return };
    let buffer = object.name("x-death");
    for (index, death) in deaths.iter().enumerate() {
        buffer.put_u8(if index == 0 { b'[' } else { b',' });
        put_death(buffer, death);
    }
    buffer.put_u8(b']');
    object.text("x-first-death-reason", first.reason.as_str());
    object.text("x-first-death-queue", &first.queue);
    object.text("x-first-death-exchange", &first.exchange);
}

/// The header belongs to the broker when a message has died.
pub(crate) fn is_of_deaths(name: &str) -> bool {
    name == "x-death" || name.starts_with("x-first-death-")
}

fn put_death(buffer: &mut BytesMut, death: &Death) {
    let mut object = Object::begin(buffer);
    object.number("count", death.count);
    object.text("reason", death.reason.as_str());
    object.text("queue", &death.queue);
    object.number("time", death.time_ms);
    object.text("exchange", &death.exchange);
    let keys = object.name("routing-keys");
    keys.put_u8(b'[');
    for (index, key) in death.keys.iter().enumerate() {
        if index > 0 {
            keys.put_u8(b',');
        }
        json::put_text(keys, key);
    }
    keys.put_u8(b']');
    if let Some(ttl_ms) = death.ttl_ms {
        object.text("original-expiration", &ttl_ms.to_string());
    }
    object.end();
}
