//! The attributes that a message has as a CloudEvent, in canonical order. What the frame lacks is made from its origin, the
//! same at each redelivery; names and values that CloudEvents cannot have are changed or left out. Never looks at data.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use framegate_adaptor_api::Egress;
use framegate_broker::HeaderValue;
use framegate_frame::names::{
    CONTEXT, DATACONTENTTYPE, DATASCHEMA, EMTTL, ID, SOURCE, SPECVERSION, SUBJECT, TIME, TYPE,
};
use framegate_frame::{Frame, is_reserved_from_clients};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::model::Scalar;
use super::private::PrivateText;
use super::rules::{VERSION, check_char_rules, check_name, check_value, integer_text};
use super::time;
use crate::adaptor::NAME;

/// A slash stays: the default vhost is one. What a URI reference cannot hold is escaped.
const SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/').remove(b':');

/// Type of events that came without one.
const DEFAULT_TYPE: &str = "framegate.message";

/// Who takes attributes one by one.
pub(crate) trait Sink {
    /// An attribute with its text, which is a JSON number or literal when `scalar` says so.
    fn attribute(&mut self, name: &str, value: &str, scalar: Scalar);
    /// Something was left out.
    fn dropped(&mut self) {}
}

/// The private text of frames that came in as CloudEvents.
pub(crate) fn private_of(frame: &Frame) -> Option<PrivateText<'_>> {
    frame.private().filter(|(adaptor, _)| *adaptor == NAME).map(|(_, text)| PrivateText::new(text))
}

/// Gives every attribute to a sink. `media_type`: that of the data as it will be written.
pub(crate) fn visit(message: Egress<'_>, media_type: Option<&str>, sink: &mut dyn Sink) {
    let frame = message.frame;
    sink.attribute(SPECVERSION, VERSION, Scalar::Text);
    match legal(frame, ID, sink) {
        Some(id) => sink.attribute(ID, id, Scalar::Text),
        None => sink.attribute(ID, &format!("{}-{}", message.origin.id, message.origin.seq), Scalar::Text),
    }
    match legal(frame, SOURCE, sink) {
        Some(source) => sink.attribute(SOURCE, source, Scalar::Text),
        None => {
            let vhost = utf8_percent_encode(&message.origin.vhost, SEGMENT);
            let exchange = utf8_percent_encode(&message.envelope.exchange, SEGMENT);
            sink.attribute(SOURCE, &format!("/{vhost}/{exchange}"), Scalar::Text);
        }
    }
    let event_type = legal(frame, TYPE, sink).unwrap_or(DEFAULT_TYPE);
    sink.attribute(TYPE, event_type, Scalar::Text);
    if let Some(media_type) = media_type {
        sink.attribute(DATACONTENTTYPE, media_type, Scalar::Text);
    }
    for name in [DATASCHEMA, SUBJECT] {
        if let Some(value) = legal(frame, name, sink) {
            sink.attribute(name, value, Scalar::Text);
        }
    }
    if let Some(text) = frame.attr(TIME).and_then(time::repaired) {
        sink.attribute(TIME, &text, Scalar::Text);
    }
    extensions(message, sink);
}

/// A context attribute that CloudEvents allows as it is.
fn legal<'a>(frame: &'a Frame, name: &str, sink: &mut dyn Sink) -> Option<&'a str> {
    let value = frame.attr(name)?;
    if check_value(name, value).is_err() {
        sink.dropped();
        return None;
    }
    Some(value)
}

/// JSON type of an extension: as it came, if the text is still that.
pub(crate) fn scalar_of(private: PrivateText<'_>, name: &str, value: &str) -> Scalar {
    match private.scalar(name) {
        Scalar::Integer if integer_text(value).as_deref() == Some(value) => Scalar::Integer,
        Scalar::Boolean if matches!(value, "true" | "false") => Scalar::Boolean,
        _ => Scalar::Text,
    }
}

fn extensions(message: Egress<'_>, sink: &mut dyn Sink) {
    let frame = message.frame;
    let private = private_of(frame).unwrap_or_default();
    let mut lowered: Vec<String> = Vec::new();
    for (name, value) in frame.attrs() {
        if CONTEXT.contains(&name) || is_reserved_from_clients(name) {
            continue;
        }
        if check_char_rules(value).is_err() {
            sink.dropped();
        } else if check_name(name).is_ok() {
            sink.attribute(name, value, scalar_of(private, name, value));
        } else if let Some(name) = free_name(frame, name, &lowered, sink) {
            // under the lower-case form of its name, unless that form is illegal or taken
            sink.attribute(&name, value, Scalar::Text);
            lowered.push(name);
        }
    }
    if frame.attr(EMTTL).is_none() && message.envelope.expires_at_ms != 0 {
        let ttl_ms = message.envelope.expires_at_ms.saturating_sub(message.envelope.time_ms);
        sink.attribute(EMTTL, &ttl_ms.to_string(), Scalar::Text);
        lowered.push(EMTTL.to_owned());
    }
    if frame.private().is_some_and(|(adaptor, _)| adaptor != NAME) {
        message.headers.read(frame, &mut |name, value| header(frame, name, &value, &mut lowered, sink));
    }
}

fn free_name(frame: &Frame, name: &str, taken: &[String], sink: &mut dyn Sink) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let free = check_name(&lower).is_ok()
        && !CONTEXT.contains(&lower.as_str())
        && !is_reserved_from_clients(&lower)
        && frame.attr(&lower).is_none()
        && !taken.contains(&lower);
    if !free {
        sink.dropped();
    }
    free.then_some(lower)
}

/// A header of another protocol as an extension, with the closest type that CloudEvents has.
fn header(frame: &Frame, name: &str, value: &HeaderValue<'_>, taken: &mut Vec<String>, sink: &mut dyn Sink) {
    if frame.attr(name).is_some() {
        return; // an attribute of the frame, given already
    }
    let (text, scalar) = match value {
        HeaderValue::Null => return,
        HeaderValue::Bool(flag) => (flag.to_string(), Scalar::Boolean),
        HeaderValue::Int(number) if i32::try_from(*number).is_ok() => (number.to_string(), Scalar::Integer),
        HeaderValue::Int(number) => (number.to_string(), Scalar::Text),
        HeaderValue::Float(number) => (number.to_string(), Scalar::Text),
        HeaderValue::Text(text) => (text.as_ref().to_owned(), Scalar::Text),
        HeaderValue::Bytes(bytes) => (STANDARD.encode(bytes), Scalar::Text),
        HeaderValue::Time(seconds) => {
            let stamp = i64::try_from(*seconds).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
            (stamp.map_or_else(|| seconds.to_string(), |stamp| stamp.to_string()), Scalar::Text)
        }
    };
    if check_char_rules(&text).is_err() {
        return sink.dropped();
    }
    let Some(name) = free_name(frame, name, taken, sink) else { return };
    sink.attribute(&name, &text, scalar);
    taken.push(name);
}
