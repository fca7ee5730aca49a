//! A message on its way in: the properties checked, and what the frame and the broker are told of them. Knows no session: whoever
//! publishes says which user it is and where replies to it go.

use std::borrow::Cow;

use bytes::{BufMut as _, BytesMut};
use framegate_broker::{Keys, Name};
use framegate_frame::{FrameBuilder, FrameError, FrameHead, FrameKind, Limits, Private, names};
use jiff::fmt::temporal::DateTimePrinter;

use crate::codec::{Properties, Short, TableWriter, Value};
use crate::headers::ADAPTOR;
use crate::limits::{EXTRA_KEYS_MAX, TTL_MS_MAX};

/// Keys of the headers that name more routing keys.
const CC: &str = "CC";
const BCC: &str = "BCC";
/// Header of `x-delayed-message` exchanges.
const X_DELAY: &str = "x-delay";

/// Why a message cannot be taken; texts as RabbitMQ says them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("invalid expiration '{value}': {reason}")]
    Expiration { value: String, reason: String },
    #[error("invalid message: {{unacceptable_type_in_header,\"{header}\",{found}}}")]
    Keys { header: &'static str, found: &'static str },
    #[error("more than {EXTRA_KEYS_MAX} keys in CC and BCC")]
    TooManyKeys,
    #[error("a key in CC or BCC is no text of at most 255 bytes")]
    Key,
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// A message without its body.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    properties: Properties<'a>,
    /// Flags and values as they are kept.
    kept: Cow<'a, [u8]>,
    pub(crate) keys: Keys,
    pub(crate) ttl_ms: Option<u64>,
    /// `x-delay`, when the headers have one.
    pub(crate) delay_ms: u64,
}

impl<'a> Incoming<'a> {
    /// Checks the properties. `raw` is what they were read from; `reply_to` replaces a property that stood for something else.
    pub(crate) fn new(
        mut properties: Properties<'a>,
        raw: &'a [u8],
        reply_to: Option<&'a Name>,
    ) -> Result<Self, Refusal> {
        let ttl_ms = properties.expiration.map(expiration).transpose()?;
        let (mut keys, mut delay_ms, mut has_bcc) = (Keys::new(), 0, false);
        if let Some(table) = properties.headers {
            for entry in table.iter() {
                match (entry.key, entry.value) {
                    (b"CC", value) => add_keys(CC, &value, &mut keys)?,
                    (b"BCC", value) => {
                        has_bcc = true;
                        add_keys(BCC, &value, &mut keys)?;
                    }
                    (key, Value::Int(delay, _)) if key == X_DELAY.as_bytes() => {
                        delay_ms = u64::try_from(delay).unwrap_or(0);
                    }
                    _ => {}
                }
            }
        }
        if let Some(name) = reply_to {
            properties.reply_to = Some(Short::text(name));
        }
        let kept = if has_bcc || reply_to.is_some() {
            Cow::Owned(rewritten(&properties))
        } else {
            Cow::Borrowed(raw)
        };
        Ok(Self { properties, kept, keys, ttl_ms, delay_ms })
    }

    pub(crate) fn persistent(&self) -> bool {
        self.properties.delivery_mode == Some(2)
    }

    pub(crate) fn priority(&self) -> Option<i32> {
        self.properties.priority.map(i32::from)
    }

    /// Begins the frame: the one buffer that the body is copied into.
    pub(crate) fn frame(&self, body_bytes: usize, limits: &Limits) -> Result<FrameBuilder, Refusal> {
        let properties = &self.properties;
        // Delivery mode 2 alone is what the envelope says already.
        let says_nothing = matches!(*self.kept, [0, 0] | [0x10, 0, 2] | []);
        let private = (!says_nothing).then(|| Private::bytes(ADAPTOR, &self.kept));
        let head = FrameHead::new(FrameKind::Event).private(private);
        if says_nothing {
            return Ok(FrameBuilder::new(head, [], body_bytes, limits)?);
        }
        let time = properties.timestamp.and_then(time_text);
        let text = |short: Option<Short<'a>>| short.and_then(|s| std::str::from_utf8(s.0).ok());
        let attributes = [
            (names::ID, text(properties.message_id)),
            (names::TYPE, text(properties.kind)),
            (names::DATACONTENTTYPE, text(properties.content_type)),
            (names::TIME, time.as_deref()),
            (names::EMCORRELATIONID, text(properties.correlation_id)),
            (names::REPLYTO, text(properties.reply_to)),
        ];
        let attributes = attributes.into_iter().filter_map(|(name, value)| value.map(|value| (name, value)));
        Ok(FrameBuilder::new(head, attributes, body_bytes, limits)?)
    }
}

/// Flags and values without the header that nobody may see.
fn rewritten(properties: &Properties<'_>) -> Vec<u8> {
    let mut table = BytesMut::new();
    let mut writer = TableWriter::begin(&mut table);
    for entry in properties.headers.iter().flat_map(|headers| headers.iter()) {
        if entry.key != BCC.as_bytes() {
            writer.copy(&entry);
        }
    }
    writer.end();
    let headers = crate::codec::Table::parse(table.get(4..).unwrap_or_default()).unwrap_or_default();
    let mut out = BytesMut::new();
    Properties { headers: properties.headers.map(|_| headers), ..*properties }.put(&mut out);
    out.to_vec()
}

/// A time to live in decimal ms.
fn expiration(short: Short<'_>) -> Result<u64, Refusal> {
    let value = String::from_utf8_lossy(short.0).into_owned();
    let refuse = |value: String, reason: String| Err(Refusal::Expiration { value, reason });
    match value.parse::<i128>() {
        Err(_) => refuse(value, "no_integer".to_owned()),
        Ok(number) if number < 0 => refuse(value, format!("{{value_negative,{number}}}")),
        Ok(number) => match u64::try_from(number).ok().filter(|ms| *ms <= TTL_MS_MAX) {
            Some(ms) => Ok(ms),
            None => refuse(value, format!("{{value_too_large,{number}}}")),
        },
    }
}

fn add_keys(header: &'static str, value: &Value<'_>, keys: &mut Keys) -> Result<(), Refusal> {
    let Value::Array(array) = value else {
        return Err(Refusal::Keys { header, found: value.type_word() });
    };
    for item in array.iter() {
        let Value::Str(bytes) = item else {
            return Err(Refusal::Keys { header, found: item.type_word() });
        };
        if keys.len() >= EXTRA_KEYS_MAX {
            return Err(Refusal::TooManyKeys);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Refusal::Key)?;
        keys.push(Name::new(text).map_err(|_| Refusal::Key)?);
    }
    Ok(())
}

/// RFC 3339, in UTC; None for times that no calendar has.
fn time_text(seconds: u64) -> Option<String> {
    let time = jiff::Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
    let mut text = String::with_capacity(20);
    DateTimePrinter::new().print_timestamp(&time, &mut text).ok()?;
    Some(text)
}

/// Seconds since 1970 of an RFC 3339 time.
pub(crate) fn seconds_of(text: &str) -> Option<u64> {
    u64::try_from(text.parse::<jiff::Timestamp>().ok()?.as_second()).ok()
}

/// Appends the flags and values of a message that has at most a delivery mode.
pub(crate) fn put_plain(persistent: bool, out: &mut BytesMut) {
    if persistent {
        out.put_slice(&[0x10, 0, 2]);
    } else {
        out.put_slice(&[0, 0]);
    }
}
