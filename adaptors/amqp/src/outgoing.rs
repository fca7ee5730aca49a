//! A message on its way out: property flags and values for a client, whatever protocol the message came by. A message of this
//! protocol gets the bytes that it came with, unless the broker has something to add.

use std::borrow::Cow;

use bytes::BytesMut;
use framegate_adaptor_api::Egress;
use framegate_frame::{names, unescape_into};

use crate::codec::{Properties, Short, Table, TableWriter};
use crate::deaths;
use crate::headers::{self, ADAPTOR};
use crate::incoming::{put_plain, seconds_of};

/// Context attributes without a property of their own, and the header that shows them.
const CONTEXT_HEADERS: [(&str, &str); 3] = [
    (names::SOURCE, "cloudEvents:source"),
    (names::SUBJECT, "cloudEvents:subject"),
    (names::DATASCHEMA, "cloudEvents:dataschema"),
];

/// Attributes that are shown as properties where they fit, and so not as headers.
const PROPERTY_ATTRIBUTES: [&str; 3] = [names::EMTTL, names::EMCORRELATIONID, names::REPLYTO];

/// What the queue adds to a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Extra {
    /// Deliveries that failed before, for queues that tell.
    pub(crate) delivery_count: Option<u32>,
    /// Place in a stream.
    pub(crate) stream_offset: Option<u64>,
}

/// Appends flags and values.
pub(crate) fn put_properties(message: Egress<'_>, extra: Extra, out: &mut BytesMut) {
    let is_plain = message.envelope.deaths.is_empty() && extra == Extra::default();
    match message.frame.private() {
        Some((ADAPTOR, escaped)) if is_plain => {
            let start = out.len();
            if unescape_into(escaped, out).is_err()
                || Properties::parse(out.get(start..).unwrap_or_default()).is_err()
            {
                out.truncate(start);
                put_foreign(message, extra, out);
            }
        }
        Some((ADAPTOR, _)) => {
            let own = headers::private_properties(message.frame).unwrap_or_default();
            match Properties::parse(&own) {
                Ok(properties) => put_own(message, extra, &properties, out),
                Err(_) => put_foreign(message, extra, out),
            }
        }
        None if is_plain && message.frame.attr_count() == 0 && message.envelope.priority.is_none() => {
            put_plain(message.envelope.persistent, out);
        }
        _ => put_foreign(message, extra, out),
    }
}

/// Own properties, with what the broker knows put into the headers.
fn put_own(message: Egress<'_>, extra: Extra, own: &Properties<'_>, out: &mut BytesMut) {
    let mut table = BytesMut::new();
    let mut writer = TableWriter::begin(&mut table);
    let deaths = &message.envelope.deaths;
    deaths::put(&mut writer, deaths, own);
    // Keys of their own replace those that came with the message.
    let lost_keys = !deaths.is_empty() && message.envelope.keys.len() == 1;
    for entry in own.headers.iter().flat_map(|table| table.iter()) {
        let of_deaths = !deaths.is_empty() && deaths::is_header(entry.key);
        let is_lost = lost_keys && entry.key == b"CC";
        if !of_deaths && !is_lost && !is_of_queue(entry.key, extra) {
            writer.copy(&entry);
        }
    }
    put_extra(&mut writer, extra);
    writer.end();
    let mut properties = Properties { headers: Some(parsed(&table)), ..*own };
    if !deaths.is_empty() && message.envelope.expires_at_ms == 0 {
        properties.expiration = None;
    }
    properties.put(out);
}

/// Properties made of attributes and envelope.
fn put_foreign(message: Egress<'_>, extra: Extra, out: &mut BytesMut) {
    let Egress { envelope, frame, .. } = message;
    let mut table = BytesMut::new();
    let mut writer = TableWriter::begin(&mut table);
    deaths::put(&mut writer, &envelope.deaths, &Properties::default());
    for (attribute, header) in CONTEXT_HEADERS {
        if let Some(value) = frame.attr(attribute) {
            writer.text(header, value.as_bytes());
        }
    }
    // What is too long for a property is a header.
    let mut short = |attribute: &'static str| {
        let value = frame.attr(attribute)?;
        if value.len() <= 255 {
            return Some(Short(value.as_bytes()));
        }
        writer.text(attribute, value.as_bytes());
        None
    };
    let mut properties = Properties {
        content_type: short(names::DATACONTENTTYPE),
        message_id: short(names::ID),
        kind: short(names::TYPE),
        correlation_id: short(names::EMCORRELATIONID),
        reply_to: short(names::REPLYTO),
        ..Properties::default()
    };
    let ttl = frame.attr(names::EMTTL).filter(|ttl| ttl.parse::<u32>().is_ok());
    properties.expiration = ttl.filter(|_| envelope.deaths.is_empty()).map(Short::text);
    properties.timestamp = frame.attr(names::TIME).and_then(seconds_of);
    properties.delivery_mode = envelope.persistent.then_some(2);
    properties.priority = envelope.priority.map(|p| u8::try_from(p.max(0)).unwrap_or(u8::MAX));
    properties.user_id = envelope.publisher.as_ref().map(|user| Short::text(user));
    message.headers.read(frame, &mut |name, value| {
        let of_deaths = !envelope.deaths.is_empty() && deaths::is_header(name.as_bytes());
        let is_shown = PROPERTY_ATTRIBUTES.contains(&name) && frame.attr(name).is_some();
        if !of_deaths && !is_shown && !is_of_queue(name.as_bytes(), extra) && name.len() <= 255 {
            headers::put_value(&mut writer, name, &value);
        }
    });
    put_extra(&mut writer, extra);
    let has_headers = !writer.is_empty();
    writer.end();
    properties.headers = has_headers.then(|| parsed(&table));
    properties.put(out);
}

fn parsed(table: &BytesMut) -> Table<'_> {
    Table::parse(table.get(4..).unwrap_or_default()).unwrap_or_default()
}

fn is_of_queue(key: &[u8], extra: Extra) -> bool {
    (extra.delivery_count.is_some() && key == b"x-delivery-count")
        || (extra.stream_offset.is_some() && key == b"x-stream-offset")
}

fn put_extra(writer: &mut TableWriter<'_>, extra: Extra) {
    if let Some(count) = extra.delivery_count {
        writer.long("x-delivery-count", count.into());
    }
    if let Some(offset) = extra.stream_offset {
        writer.long("x-stream-offset", i64::try_from(offset).unwrap_or(i64::MAX));
    }
}

/// Text for logs of a message that does not fit.
pub(crate) fn too_large(bytes: usize) -> Cow<'static, str> {
    format!("{bytes} bytes of properties do not fit a frame").into()
}
