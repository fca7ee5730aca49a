//! A frame of any protocol as a MessageX client sees it: message id, body, properties, headers. Written straight into a buffer;
//! a large JSON body is passed by reference. Never refuses: whether it fits is asked of the packet.

use std::borrow::Cow;

use bytes::{BufMut as _, Bytes, BytesMut};
use framegate_adaptor_api::Egress;
use framegate_frame::names;

use crate::adaptor::put_base64;
use crate::body::{BASE64, Form};
use crate::headers::{self, is_of_deaths};
use crate::json::{self, Object, Shape};
use crate::properties::Properties;

/// JSON bodies from this size on are written from where they are.
const SHARED_BYTES_MIN: usize = 4096;

/// Context attributes without a property of their own, and the header that shows them.
const CONTEXT_HEADERS: [(&str, &str); 3] = [
    (names::SOURCE, "cloudEvents:source"),
    (names::SUBJECT, "cloudEvents:subject"),
    (names::DATASCHEMA, "cloudEvents:dataschema"),
];

/// Attributes that are shown as properties, and so not as headers.
const PROPERTY_ATTRIBUTES: [&str; 3] = [names::EMTTL, names::EMCORRELATIONID, names::REPLYTO];

/// A message on its way out.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    message: Egress<'a>,
    form: Form,
    /// The object that the publisher gave, if it spoke this protocol and the frame has a private attribute.
    own: Option<&'a str>,
    given: Properties<'a>,
    own_headers: Option<&'a str>,
}

impl<'a> Outgoing<'a> {
    /// Reads a message. `private` is the text of its private attribute, empty if that is not this adaptor's.
    pub(crate) fn read(message: Egress<'a>, private: &'a str) -> Self {
        let (mut form, mut own, mut own_headers) = (None, None, None);
        if !private.is_empty() {
            // What cannot be read is left out: the frame was checked when it was made.
            let _ = json::members(private, |name, value| match &*name {
                "form" => form = json::text(value).and_then(|word| Form::parse(&word)),
                "properties" => own = Some(value),
                "headers" => own_headers = Some(value),
                _ => {}
            });
        }
        let content_type = message.frame.attr(names::DATACONTENTTYPE);
        let data = message.frame.data();
        let form = match form {
            Some(form) => form.marked(content_type, data),
            None => Form::of(content_type, data),
        };
        let given = own.and_then(|own| Properties::parse(own).ok()).unwrap_or_default();
        Self { message, form, own, given, own_headers }
    }

    /// The publisher's id, or one made of the queue and the place in it.
    pub(crate) fn message_id(&self) -> Cow<'a, str> {
        match self.message.frame.attr(names::ID) {
            Some(id) if !id.is_empty() => Cow::Borrowed(id),
            _ => Cow::Owned(format!("{}-{}", self.message.origin.id, self.message.origin.seq)),
        }
    }

    /// The word for `encoding`, if the body needs one.
    pub(crate) fn encoding(&self) -> Option<&'static str> {
        (self.form == Form::Base64).then_some(BASE64)
    }

    /// Appends the body; or returns it, when it is large and is to be written from where it is.
    pub(crate) fn put_body(&self, buffer: &mut BytesMut) -> Option<Bytes> {
        let frame = self.message.frame;
        // `Form` has checked that the data is text where it must be.
        let text = || std::str::from_utf8(frame.data()).unwrap_or_default();
        match self.form {
            Form::Base64 => put_base64(buffer, frame.data()),
            Form::Text => json::put_text(buffer, text()),
            Form::Json => match json::compact(text()) {
                Cow::Borrowed(json) if json.len() >= SHARED_BYTES_MIN => return Some(frame.data_bytes()),
                json => buffer.put_slice(json.as_bytes()),
            },
        }
        None
    }

    /// Appends the properties: as the publisher gave them, then what is missing.
    pub(crate) fn put_properties(&self, buffer: &mut BytesMut) {
        let Egress { envelope, frame, .. } = self.message;
        let mut object = Object::begin(buffer);
        if let Some(own) = self.own {
            // The time to live of a message that died of it is over.
            let expired = envelope.expires_at_ms == 0 && !envelope.deaths.is_empty();
            let _ = json::members(own, |name, raw| {
                let is_over = expired && name == "expiration";
                let is_made = name == "messageId" && self.given.message_id.is_none();
                if !is_over && !is_made && json::shape(raw) != Shape::Null {
                    object.raw(&name, raw);
                }
            });
        }
        let mut attribute = |is_given: bool, name: &str, attribute: &str| {
            if let Some(value) = frame.attr(attribute).filter(|_| !is_given) {
                object.text(name, value);
            }
        };
        let given = &self.given;
        attribute(given.content_type.is_some(), "contentType", names::DATACONTENTTYPE);
        attribute(given.correlation_id.is_some(), "correlationId", names::EMCORRELATIONID);
        attribute(given.reply_to.is_some(), "replyTo", names::REPLYTO);
        attribute(given.message_type.is_some(), "type", names::TYPE);
        if given.message_id.is_none() {
            object.text("messageId", &self.message_id());
        }
        if given.delivery_mode.is_none() && envelope.persistent {
            object.number("deliveryMode", 2);
        }
        if let Some(priority) = envelope.priority.filter(|_| given.priority.is_none()) {
            object.number("priority", priority);
        }
        if given.timestamp_ms.is_none()
            && let Some(time) = frame.attr(names::TIME).and_then(|time| time.parse::<jiff::Timestamp>().ok())
        {
            object.number("timestamp", time.as_millisecond());
        }
        if given.expiration_ms.is_none()
            && let Some(ms) = frame.attr(names::EMTTL).and_then(|ms| ms.parse::<u64>().ok())
        {
            object.number("expiration", ms);
        }
        if let Some(user) = envelope.publisher.as_ref().filter(|_| given.user_id.is_none()) {
            object.text("userId", user);
        }
        object.end();
    }

    /// Appends the headers, with the deaths of the message if they are wanted.
    pub(crate) fn put_headers(&self, buffer: &mut BytesMut, with_deaths: bool) {
        let Egress { envelope, frame, headers, .. } = self.message;
        let deaths = if with_deaths { envelope.deaths.as_slice() } else { &[] };
        let hidden = |name: &str| !envelope.deaths.is_empty() && is_of_deaths(name);
        if envelope.deaths.is_empty()
            && let Some(own) = self.own_headers
        {
            return buffer.put_slice(own.as_bytes());
        }
        let mut object = Object::begin(buffer);
        if let Some(own) = self.own_headers {
            let _ = json::members(own, |name, raw| {
                if !hidden(&name) {
                    object.raw(&name, raw);
                }
            });
        } else {
            for (attribute, header) in CONTEXT_HEADERS {
                if let Some(value) = frame.attr(attribute) {
                    object.text(header, value);
                }
            }
            let is_shown = |name: &str| PROPERTY_ATTRIBUTES.contains(&name) && frame.attr(name).is_some();
            headers.read(frame, &mut |name, value| {
                if !hidden(name) && !is_shown(name) {
                    headers::put_value(object.name(name), &value);
                }
            });
        }
        headers::put_deaths(&mut object, deaths);
        object.end();
    }
}
