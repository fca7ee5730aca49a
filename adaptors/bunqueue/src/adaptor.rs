//! A job's data to a frame and back. Pure: ids, times and states are the broker's. The border: on one side name and data, on
//! the other attributes and frame data.
//!
//! | bunqueue | frame and envelope |
//! |---|---|
//! | `data` | data: the MessagePack value, byte for byte; `datacontenttype` application/msgpack; `undefined`: no data |
//! | `name` | `type`; "default" is left out |
//! | `priority`, `delay`, `ttl` | envelope |
//! | `tags`, `keepLogs`, `sizeLimit`, `debounceId`, `debounceTtl`, `durable`, that the name came in the data | `~bunqueue`: a MessagePack map of what was given |
//!
//! Data of other protocols becomes a MessagePack value: JSON its value, text a string, everything else bytes.

use std::borrow::Cow;

use bytes::{BufMut as _, Bytes, BytesMut};
use framegate_adaptor_api::{AdaptError, Egress, FrameAdaptor, Inbound, WireMessage};
use framegate_broker::Keys;
use framegate_frame::{Frame, FrameBuilder, FrameHead, FrameKind, Limits, Private, names, unescape_bytes};

use crate::codec::{Item, MapWriter, Raw, Whole, from_json, put_bytes, put_text, whole};
use crate::commands::{Fields, units};
use crate::limits::JOB_NAME_UNITS_MAX;

/// Registry name; the private attribute is `~bunqueue`.
pub(crate) const ADAPTOR: &str = "bunqueue";
/// Media type of a job's data.
pub(crate) const MSGPACK: &str = "application/msgpack";
/// Name of a job that gives none.
pub(crate) const DEFAULT_NAME: &str = "default";
/// In the private attribute: the name came inside the data.
pub(crate) const LEGACY: &str = "legacy";
/// Fields of a job that nobody acts on: kept as given, shown again.
const KEPT: [&str; 8] =
    ["tags", "keepLogs", "sizeLimit", "debounceId", "debounceTtl", "durable", "stallTimeout", LEGACY];

/// The frame of a job. `given` are the fields of the job, of which those that the broker does not know are kept.
///
/// # Errors
/// `Frame` when a limit of frames is passed.
pub(crate) fn job_frame(
    name: &str,
    data: &[u8],
    given: &Fields<'_>,
    is_legacy: bool,
) -> Result<Frame, AdaptError> {
    let mut private = BytesMut::new();
    let mut map = MapWriter::begin(&mut private);
    let mut is_empty = true;
    for field in KEPT {
        let raw = given.raw(field).filter(|raw| *raw != Raw::NIL && field != LEGACY);
        if let Some(raw) = raw {
            map.raw(field, raw.bytes());
            is_empty = false;
        }
    }
    if is_legacy {
        map.bool(LEGACY, true);
        is_empty = false;
    }
    map.end();
    build(name, data, (!is_empty).then_some(&private))
}

fn build(name: &str, data: &[u8], private: Option<&[u8]>) -> Result<Frame, AdaptError> {
    let attributes = [
        (names::TYPE, (name != DEFAULT_NAME).then_some(name)),
        (names::DATACONTENTTYPE, (!data.is_empty()).then_some(MSGPACK)),
    ];
    let attributes = attributes.into_iter().filter_map(|(name, value)| value.map(|value| (name, value)));
    let head = FrameHead::new(FrameKind::Event).private(private.map(|bytes| Private::bytes(ADAPTOR, bytes)));
    let mut builder = FrameBuilder::new(head, attributes, data.len(), &Limits::GATEWAY)?;
    builder.push(data)?;
    Ok(builder.finish()?)
}

/// The bytes of a frame's own private attribute: a map, or nothing.
pub(crate) fn private_of(frame: &Frame) -> Cow<'_, [u8]> {
    let own = frame.private().filter(|(adaptor, _)| *adaptor == ADAPTOR);
    own.and_then(|(_, escaped)| unescape_bytes(escaped).ok()).unwrap_or_default()
}

/// The fields of a map that stands alone; none when it is anything else.
pub(crate) fn fields_of(bytes: &[u8]) -> Fields<'_> {
    match whole(bytes) {
        Some(Whole { raw, rest: [] }) => match raw.item() {
            Item::Map(map) => Fields::of(map),
            _ => Fields::default(),
        },
        _ => Fields::default(),
    }
}

/// The name that a worker sees: the job's, or the type of an event.
pub(crate) fn name_of(frame: &Frame) -> &str {
    frame
        .attr(names::TYPE)
        .filter(|name| !name.is_empty() && units(name) <= JOB_NAME_UNITS_MAX)
        .unwrap_or(DEFAULT_NAME)
}

/// The data that a worker sees: one MessagePack value, or nothing.
pub(crate) fn data_of(frame: &Frame) -> Bytes {
    let data = frame.data();
    let media_type = frame.attr(names::DATACONTENTTYPE).unwrap_or_default();
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    let is = |other: &str| essence.eq_ignore_ascii_case(other);
    if is(MSGPACK) && (data.is_empty() || matches!(whole(data), Some(Whole { rest: [], .. }))) {
        return frame.data_bytes();
    }
    if data.is_empty() && essence.is_empty() {
        return Bytes::new();
    }
    let mut buffer = BytesMut::with_capacity(data.len() + 5);
    let suffix = essence.get(essence.len().saturating_sub(5)..).unwrap_or_default();
    let is_json = is("application/json") || is("text/json") || suffix.eq_ignore_ascii_case("+json");
    if is_json && from_json(data, &mut buffer) {
        return buffer.freeze();
    }
    match std::str::from_utf8(data) {
        Ok(text) if essence.is_empty() || is_json || essence.to_ascii_lowercase().starts_with("text/") => {
            put_text(&mut buffer, text);
        }
        _ => put_bytes(&mut buffer, data),
    }
    buffer.freeze()
}

/// The adaptor `bunqueue`. `head` is a MessagePack map with `name` and what is kept; `body` is the data.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bunqueue;

impl FrameAdaptor for Bunqueue {
    fn name(&self) -> &'static str {
        ADAPTOR
    }

    fn to_frame(&self, message: WireMessage) -> Result<Inbound, AdaptError> {
        let invalid = |what: &str, reason: &str| {
            Err(AdaptError::Invalid { what: what.to_owned(), reason: reason.to_owned() })
        };
        if !message.body.is_empty() && !matches!(whole(&message.body), Some(Whole { rest: [], .. })) {
            return invalid("data", "must be one MessagePack value");
        }
        let head = fields_of(&message.head);
        let name = head.text("name").unwrap_or(DEFAULT_NAME);
        if name.is_empty() || units(name) > JOB_NAME_UNITS_MAX {
            return invalid("name", "must be 1 to 256 characters");
        }
        let is_absent = whole(&message.body).is_some_and(|found| found.raw.is_absent());
        let data = if is_absent { &[][..] } else { &message.body[..] };
        let frame = job_frame(name, data, &head, head.is_truthy(LEGACY))?;
        Ok(Inbound { frame, persistent: true, priority: None, ttl_ms: None, delay_ms: 0, keys: Keys::new() })
    }

    fn to_wire(&self, message: Egress<'_>) -> Result<WireMessage, AdaptError> {
        let private = private_of(message.frame);
        let kept = fields_of(&private);
        let mut head = BytesMut::new();
        let mut map = MapWriter::begin(&mut head);
        map.text("name", name_of(message.frame));
        for field in KEPT {
            if let Some(raw) = kept.raw(field) {
                map.name(field).put_slice(raw.bytes());
            }
        }
        map.end();
        Ok(WireMessage { head: head.freeze(), body: data_of(message.frame) })
    }
}
