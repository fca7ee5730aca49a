//! Headers of messages: read from frames of this protocol for the broker and for other protocols, and made of what other
//! protocols' frames hold. Never stores any: they are in the frame's private attribute or its extension attributes.

use std::borrow::Cow;

use framegate_broker::HeaderValue;
use framegate_frame::{Frame, unescape_bytes};

use crate::codec::{Properties, Table, TableWriter, Value};

/// Name of the adaptor; its private attribute is `~amqp`.
pub(crate) const ADAPTOR: &str = "amqp";

/// Property flags and values of a frame that this adaptor made; None for other frames, and when there was nothing worth keeping.
pub(crate) fn private_properties(frame: &Frame) -> Option<Cow<'_, [u8]>> {
    let (_, escaped) = frame.private().filter(|(adaptor, _)| *adaptor == ADAPTOR)?;
    unescape_bytes(escaped).ok()
}

/// Hands every header of a frame that this adaptor made to `visit`; tables and arrays as their JSON text.
pub(crate) fn read(frame: &Frame, visit: &mut dyn FnMut(&str, HeaderValue<'_>)) {
    let Some(private) = private_properties(frame) else { return };
    let Ok(Properties { headers: Some(table), .. }) = Properties::parse(&private) else { return };
    for entry in table.iter() {
        visit(&String::from_utf8_lossy(entry.key), typed(&entry.value));
    }
}

/// A value as the broker compares it.
pub(crate) fn typed<'a>(value: &Value<'a>) -> HeaderValue<'a> {
    match *value {
        Value::Void => HeaderValue::Null,
        Value::Bool(flag) => HeaderValue::Bool(flag),
        Value::Int(number, _) => HeaderValue::Int(number),
        Value::Float(number) => HeaderValue::Float(number),
        Value::Decimal { scale, value } => {
            HeaderValue::Float(f64::from(value) / 10_f64.powi(i32::from(scale)))
        }
        Value::Str(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => HeaderValue::Text(text.into()),
            Err(_) => HeaderValue::Bytes(bytes.into()),
        },
        Value::Bytes(bytes) => HeaderValue::Bytes(bytes.into()),
        Value::Time(seconds) => HeaderValue::Time(seconds),
        Value::Array(_) | Value::Table(_) => {
            let mut text = String::new();
            put_json(&mut text, value);
            HeaderValue::Text(text.into())
        }
    }
}

/// Binding arguments.
pub(crate) fn arguments(table: &Table<'_>) -> framegate_broker::Arguments {
    let mut arguments = framegate_broker::Arguments::new();
    for entry in table.iter() {
        let key = String::from_utf8_lossy(entry.key);
        if let Ok(name) = framegate_broker::Name::new(&key) {
            arguments.push((name, typed(&entry.value).into_owned()));
        }
    }
    arguments
}

/// Writes a header of a frame of another protocol.
pub(crate) fn put_value(table: &mut TableWriter<'_>, name: &str, value: &HeaderValue<'_>) {
    match value {
        HeaderValue::Null => table.void(name),
        HeaderValue::Bool(flag) => table.flag(name, *flag),
        HeaderValue::Int(number) => table.int(name, *number),
        HeaderValue::Float(number) => table.float(name, *number),
        HeaderValue::Text(text) => table.text(name, text.as_bytes()),
        HeaderValue::Bytes(bytes) => table.bytes(name, bytes),
        HeaderValue::Time(seconds) => table.time(name, *seconds),
    }
}

fn put_json(out: &mut String, value: &Value<'_>) {
    match value {
        Value::Void => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Int(number, _) => out.push_str(&number.to_string()),
        Value::Float(number) if number.is_finite() => out.push_str(&format!("{number:?}")),
        Value::Float(_) => out.push_str("null"),
        Value::Decimal { scale, value } => {
            out.push_str(&format!("{:?}", f64::from(*value) / 10_f64.powi(i32::from(*scale))));
        }
        Value::Time(seconds) => out.push_str(&seconds.to_string()),
        Value::Str(bytes) | Value::Bytes(bytes) => put_text(out, &String::from_utf8_lossy(bytes)),
        Value::Array(array) => {
            out.push('[');
            for (at, item) in array.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                put_json(out, &item);
            }
            out.push(']');
        }
        Value::Table(table) => {
            out.push('{');
            for (at, entry) in table.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                put_text(out, &String::from_utf8_lossy(entry.key));
                out.push(':');
                put_json(out, &entry.value);
            }
            out.push('}');
        }
    }
}

fn put_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}
