//! A MessageX message to a frame and back. Pure: ids and times come from outside. The border: on one side `body`, `properties`
//! and `headers`, on the other data and attributes.
//!
//! | MessageX | frame and envelope |
//! |---|---|
//! | `body` any JSON but a string | data: its compact text; `datacontenttype` application/json unless given |
//! | `body` string | data: its UTF-8 bytes; `datacontenttype` text/plain unless given |
//! | `body` string, `encoding` base64 | data: the bytes; no `datacontenttype` unless given |
//! | `properties.messageId` | `id` |
//! | `properties.type` | `type` |
//! | `properties.contentType` | `datacontenttype` |
//! | `properties.timestamp` (ms) | `time` |
//! | `properties.correlationId` | `emcorrelationid` |
//! | `properties.replyTo` | `replyto` |
//! | `persistent`, `properties.deliveryMode` 2 | envelope: persistent |
//! | `properties.priority`, `properties.expiration` | envelope: priority, time to live |
//! | other properties, all headers, how the body came | `~messagex`: `{"form":..,"properties":{..},"headers":{..}}` |
//!
//! The private attribute is left out when attributes and envelope say everything.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use bytes::{BufMut as _, Bytes, BytesMut};
use framegate_adaptor_api::{AdaptError, Egress, FrameAdaptor, Inbound, WireMessage};
use framegate_frame::{FrameBuilder, FrameHead, FrameKind, Limits, Private, names};

use crate::body::{BASE64, Form, default_content_type};
use crate::headers::{ADAPTOR, private_text};
use crate::json::{self, Object, Shape};
use crate::limits::{DELIVERY_RESERVE_BYTES, PAYLOAD_BYTES_MAX};
use crate::outgoing::Outgoing;
use crate::properties::{Properties, invalid};

/// Reads base64 with and without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A message as a client gave it, in JSON text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incoming<'a> {
    pub(crate) body: &'a str,
    pub(crate) encoding: Option<&'a str>,
    /// An object.
    pub(crate) properties: &'a str,
    /// An object.
    pub(crate) headers: &'a str,
    pub(crate) persistent: Option<bool>,
}

/// What became of it.
#[derive(Debug)]
pub(crate) struct Converted {
    pub(crate) inbound: Inbound,
    /// The client's, or the one that was made; empty when none was made.
    pub(crate) message_id: String,
    /// As claimed by the client.
    pub(crate) user_id: Option<String>,
}

impl Incoming<'_> {
    /// Converts. `make_id` gives an id for a message without one, or "".
    ///
    /// # Errors
    /// `Invalid` naming the field, `Frame` when a limit of frames is passed.
    pub(crate) fn convert(&self, make_id: impl FnOnce() -> String) -> Result<Converted, AdaptError> {
        let properties = Properties::parse(self.properties)?;
        let (form, data) = self.data()?;
        let content_type = properties.content_type.as_deref().or(default_content_type(form));
        let time = properties.timestamp_ms.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let time_text = time.map(|time| time.to_string());
        let own_time = properties.timestamp_ms.is_some() && time.is_none();
        let private = self.private(form, content_type, properties.has_own || own_time);
        let message_id = properties.message_id.map_or_else(make_id, Cow::into_owned);

        let attributes = [
            (names::ID, Some(message_id.as_str()).filter(|id| !id.is_empty())),
            (names::TYPE, properties.message_type.as_deref()),
            (names::DATACONTENTTYPE, content_type),
            (names::TIME, time_text.as_deref()),
            (names::EMCORRELATIONID, properties.correlation_id.as_deref()),
            (names::REPLYTO, properties.reply_to.as_deref()),
        ];
        let attributes = attributes.into_iter().filter_map(|(name, value)| value.map(|value| (name, value)));
        let private = private.as_deref().map(|bytes| Private::bytes(ADAPTOR, bytes));
        let head = FrameHead::new(FrameKind::Event).private(private);
        let mut builder = FrameBuilder::new(head, attributes, data.len(), &Limits::GATEWAY)?;
        builder.push(&data)?;
        let inbound = Inbound {
            frame: builder.finish()?,
            persistent: self.persistent.unwrap_or(properties.delivery_mode == Some(2)),
            priority: properties.priority,
            ttl_ms: properties.expiration_ms,
            delay_ms: 0,
            keys: framegate_broker::Keys::new(),
        };
        Ok(Converted { inbound, message_id, user_id: properties.user_id.map(Cow::into_owned) })
    }

    fn data(&self) -> Result<(Form, Cow<'_, [u8]>), AdaptError> {
        let is_text = json::shape(self.body) == Shape::Text;
        let text = || json::text(self.body).ok_or_else(|| invalid("body", "must hold whole characters"));
        match self.encoding {
            None if is_text => Ok((
                Form::Text,
                match text()? {
                    Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                    Cow::Owned(text) => Cow::Owned(text.into_bytes()),
                },
            )),
            None => Ok((
                Form::Json,
                match json::compact(self.body) {
                    Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                    Cow::Owned(text) => Cow::Owned(text.into_bytes()),
                },
            )),
            Some(BASE64) if is_text => {
                let bytes = LENIENT.decode(&*text()?).map_err(|error| AdaptError::Invalid {
                    what: "body".to_owned(),
                    reason: format!("is not base64: {error}"),
                })?;
                Ok((Form::Base64, Cow::Owned(bytes)))
            }
            Some(BASE64) => Err(invalid("body", "must be a string when encoding is base64")),
            Some(_) => Err(invalid("encoding", "must be \"base64\"")),
        }
    }

    /// What attributes and envelope do not say, as JSON; None when they say everything.
    fn private(&self, form: Form, content_type: Option<&str>, own_properties: bool) -> Option<Vec<u8>> {
        let form = (!form.is_told_by(content_type)).then_some(form);
        let headers = json::compact(self.headers);
        let has_headers = headers != "{}";
        if form.is_none() && !own_properties && !has_headers {
            return None;
        }
        let mut buffer = BytesMut::new();
        let mut object = Object::begin(&mut buffer);
        if let Some(form) = form {
            object.text("form", form.word());
        }
        let properties = json::compact(self.properties);
        if properties != "{}" {
            object.raw("properties", &properties);
        }
        if has_headers {
            object.raw("headers", &headers);
        }
        object.end();
        Some(buffer.into())
    }
}

/// The adaptor `messagex`. `head` is a JSON object with `encoding`, `properties`, `headers` and, inbound, `persistent`;
/// `body` is the JSON text of the body.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Messagex;

impl FrameAdaptor for Messagex {
    fn name(&self) -> &'static str {
        ADAPTOR
    }

    fn to_frame(&self, message: WireMessage) -> Result<Inbound, AdaptError> {
        let utf8 = |bytes| std::str::from_utf8(bytes).map_err(|error| invalid("message", &error.to_string()));
        let head = if message.head.is_empty() { "{}" } else { utf8(&message.head)? };
        let body = utf8(&message.body)?.trim_ascii();
        if !json::is_valid(body) {
            return Err(invalid("body", "must be JSON"));
        }
        let mut encoding = None;
        let mut incoming =
            Incoming { body, encoding: None, properties: "{}", headers: "{}", persistent: None };
        json::members(head, |name, value| match &*name {
            "encoding" => encoding = json::text(value),
            "properties" => incoming.properties = value,
            "headers" => incoming.headers = value,
            "persistent" => incoming.persistent = Some(value == "true"),
            _ => {}
        })
        .map_err(|error| invalid("head", &error.to_string()))?;
        if json::shape(incoming.headers) != Shape::Object {
            return Err(invalid("headers", "must be an object"));
        }
        incoming.encoding = encoding.as_deref();
        incoming.convert(String::new).map(|converted| converted.inbound)
    }

    fn to_wire(&self, message: Egress<'_>) -> Result<WireMessage, AdaptError> {
        let too_large = |bytes: usize| {
            let reason = format!("{bytes} bytes of JSON do not fit a packet");
            Err(AdaptError::Undeliverable { reason })
        };
        if message.frame.data().len() > PAYLOAD_BYTES_MAX {
            return too_large(message.frame.data().len());
        }
        let private = private_text(message.frame);
        let outgoing = Outgoing::read(message, &private);
        let mut head = BytesMut::new();
        let mut object = Object::begin(&mut head);
        if let Some(encoding) = outgoing.encoding() {
            object.text("encoding", encoding);
        }
        outgoing.put_properties(object.name("properties"));
        outgoing.put_headers(object.name("headers"), true);
        object.end();
        let mut body = BytesMut::new();
        let shared = outgoing.put_body(&mut body);
        let body: Bytes = shared.unwrap_or_else(|| body.freeze());
        let bytes = head.len() + body.len();
        if bytes > PAYLOAD_BYTES_MAX - DELIVERY_RESERVE_BYTES {
            return too_large(bytes);
        }
        Ok(WireMessage { head: head.freeze(), body })
    }
}

/// Appends base64 text in quotes.
pub(crate) fn put_base64(buffer: &mut BytesMut, bytes: &[u8]) {
    buffer.put_u8(b'"');
    buffer.put_slice(base64::engine::general_purpose::STANDARD.encode(bytes).as_bytes());
    buffer.put_u8(b'"');
}
