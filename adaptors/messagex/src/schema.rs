//! Schemas of command payloads as data, and payloads checked against them. Never knows a command: the table does.

use std::borrow::Cow;

use crate::errors::{Failure, shortened};
use crate::json::{self, Shape};
use crate::limits::{NAME_BYTES_MAX, TAGS_PER_COMMAND_MAX};

/// What a field means; the word on the wire is in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Arguments,
    AutoAck,
    AutoDelete,
    Body,
    ClientId,
    ConsumerTag,
    Delay,
    DeliveryTag,
    DeliveryTags,
    DestinationExchange,
    Durable,
    Encoding,
    ExchangeName,
    Exclusive,
    Global,
    Headers,
    IfEmpty,
    IfUnused,
    Internal,
    Mandatory,
    Multiple,
    Name,
    Passive,
    Password,
    Persistent,
    Prefetch,
    Priority,
    Properties,
    QueueName,
    Requeue,
    ReturnEvents,
    Routing,
    Token,
    Type,
    Username,
    Vhost,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text of 1 to 255 bytes without control characters.
    Name,
    /// The same, or empty.
    NameOrEmpty,
    /// Any text of at most so many bytes.
    Text(usize),
    /// Any texts.
    Texts,
    /// True or false.
    Flag,
    /// A whole number within bounds.
    Integer(i64, i64),
    /// An object.
    Object,
    /// Any JSON value, null included.
    Any,
}

/// Whether a field must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// It must.
    Required,
    /// It may be left out, or null.
    Optional,
    /// Left out it is this flag.
    Or(bool),
}

/// A field of a payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) key: Key,
    /// The word on the wire.
    pub(crate) name: &'static str,
    /// Other words for it.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) kind: Kind,
    pub(crate) need: Need,
}

/// Most fields that a command has.
pub(crate) const FIELDS_MAX: usize = 12;

#[derive(Debug, Clone, Default, PartialEq)]
enum Value<'a> {
    #[default]
    Absent,
    Text(Cow<'a, str>),
    Texts(Vec<Cow<'a, str>>),
    Flag(bool),
    Integer(i64),
    Raw(&'a str),
}

/// A payload that fits its schema. A getter for a key that the schema lacks gives what an absent field gives.
#[derive(Debug)]
pub(crate) struct Payload<'a> {
    fields: &'static [Field],
    values: [Value<'a>; FIELDS_MAX],
}

impl<'a> Payload<'a> {
    /// Checks a JSON object. Members without a field are ignored; of duplicates the last counts.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` naming the field.
    pub(crate) fn parse(fields: &'static [Field], object: &'a str) -> Result<Self, Failure> {
        let mut raw = [None; FIELDS_MAX];
        json::members(object, |name, value| {
            let found = fields.iter().position(|field| field.name == name || field.aliases.contains(&&*name));
            if let Some(place) = found.and_then(|index| raw.get_mut(index)) {
                *place = Some(value);
            }
        })
        .map_err(|error| Failure::field("payload", format!("cannot be read: {error}")))?;
        let mut values = std::array::from_fn(|_| Value::Absent);
        for ((field, raw), value) in fields.iter().zip(raw).zip(&mut values) {
            *value = field.read(raw)?;
        }
        Ok(Self { fields, values })
    }

    /// A text, if given.
    pub(crate) fn text(&self, key: Key) -> Option<&str> {
        match self.value(key) {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A required text, or an optional one with `""` for absent.
    pub(crate) fn text_or_empty(&self, key: Key) -> &str {
        self.text(key).unwrap_or_default()
    }

    /// Texts, if given.
    pub(crate) fn texts(&self, key: Key) -> Option<&[Cow<'a, str>]> {
        match self.value(key) {
            Value::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    /// A flag, if given or with a default.
    pub(crate) fn optional_flag(&self, key: Key) -> Option<bool> {
        match self.value(key) {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    /// A flag; absent and without a default it is false.
    pub(crate) fn flag(&self, key: Key) -> bool {
        self.optional_flag(key).unwrap_or_default()
    }

    /// A number, if given.
    pub(crate) fn integer(&self, key: Key) -> Option<i64> {
        match self.value(key) {
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// An object or any value as JSON text, if given.
    pub(crate) fn raw(&self, key: Key) -> Option<&'a str> {
        match self.value(key) {
            Value::Raw(raw) => Some(raw),
            _ => None,
        }
    }

    /// The word on the wire for a key, for messages.
    pub(crate) fn word(&self, key: Key) -> &'static str {
        self.fields.iter().find(|field| field.key == key).map_or("payload", |field| field.name)
    }

    /// The failure for a field that is missing although its schema alone does not require it.
    pub(crate) fn missing(&self, key: Key) -> Failure {
        Failure::field(self.word(key), "is required")
    }

    fn value(&self, key: Key) -> &Value<'a> {
        let index = self.fields.iter().position(|field| field.key == key);
        index.and_then(|index| self.values.get(index)).unwrap_or(&Value::Absent)
    }
}

impl Field {
    fn read<'a>(&self, raw: Option<&'a str>) -> Result<Value<'a>, Failure> {
        let given = raw.filter(|raw| self.kind == Kind::Any || json::shape(raw) != Shape::Null);
        let Some(raw) = given else {
            return match self.need {
                Need::Required => Err(Failure::field(self.name, "is required")),
                Need::Optional => Ok(Value::Absent),
                Need::Or(flag) => Ok(Value::Flag(flag)),
            };
        };
        match self.kind {
            Kind::Name | Kind::NameOrEmpty => self.name_of(raw),
            Kind::Text(bytes_max) => self.text_of(raw, bytes_max).map(Value::Text),
            Kind::Texts => self.texts_of(raw),
            Kind::Flag => match raw {
                "true" => Ok(Value::Flag(true)),
                "false" => Ok(Value::Flag(false)),
                _ => Err(self.must("be true or false")),
            },
            Kind::Integer(min, max) => json::integer(raw)
                .filter(|number| (min..=max).contains(number))
                .map(Value::Integer)
                .ok_or_else(|| self.must(format_args!("be a whole number from {min} to {max}"))),
            Kind::Object if json::shape(raw) != Shape::Object => Err(self.must("be an object")),
            Kind::Object | Kind::Any => Ok(Value::Raw(raw)),
        }
    }

    fn name_of<'a>(&self, raw: &'a str) -> Result<Value<'a>, Failure> {
        let text = self.text_of(raw, NAME_BYTES_MAX)?;
        if text.chars().any(char::is_control) {
            return Err(self.must("have no control characters"));
        }
        if text.is_empty() && self.kind == Kind::Name {
            return Err(self.must("not be empty"));
        }
        Ok(Value::Text(text))
    }

    fn text_of<'a>(&self, raw: &'a str, bytes_max: usize) -> Result<Cow<'a, str>, Failure> {
        let text = json::text(raw).ok_or_else(|| self.must("be a string"))?;
        if text.len() > bytes_max {
            return Err(self.must(format_args!("have at most {bytes_max} bytes, not {}", text.len())));
        }
        Ok(text)
    }

    fn texts_of<'a>(&self, raw: &'a str) -> Result<Value<'a>, Failure> {
        let items: Vec<&'a serde_json::value::RawValue> =
            serde_json::from_str(raw).map_err(|_| self.must("be an array of strings"))?;
        if items.is_empty() || items.len() > TAGS_PER_COMMAND_MAX {
            return Err(self.must(format_args!("have 1 to {TAGS_PER_COMMAND_MAX} items")));
        }
        let texts: Option<Vec<_>> = items.iter().map(|item| json::text(item.get())).collect();
        texts.map(Value::Texts).ok_or_else(|| self.must("be an array of strings"))
    }

    fn must(&self, what: impl std::fmt::Display) -> Failure {
        Failure::field(&shortened(self.name), format_args!("must {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[Field] = &[
        field(Key::Name, "name", Kind::Name, Need::Required),
        field(Key::Routing, "key", Kind::NameOrEmpty, Need::Optional),
        field(Key::Durable, "durable", Kind::Flag, Need::Or(true)),
        field(Key::Prefetch, "prefetch", Kind::Integer(0, 9), Need::Optional),
        field(Key::Headers, "headers", Kind::Object, Need::Optional),
        field(Key::Body, "body", Kind::Any, Need::Optional),
        field(Key::DeliveryTags, "tags", Kind::Texts, Need::Optional),
    ];

    const fn field(key: Key, name: &'static str, kind: Kind, need: Need) -> Field {
        Field { key, name, aliases: &["alias"], kind, need }
    }

    #[test]
    fn values_defaults_and_absent_fields_are_told_apart() {
        let object =
            r#"{"name":"q","key":null,"prefetch":3,"headers":{"a": 1},"body":null,"tags":["x","y"],"z":1}"#;
        let payload = Payload::parse(FIELDS, object).unwrap();
        assert_eq!(payload.text(Key::Name), Some("q"));
        assert_eq!(payload.text(Key::Routing), None);
        assert!(payload.flag(Key::Durable));
        assert_eq!(payload.integer(Key::Prefetch), Some(3));
        assert_eq!(payload.raw(Key::Headers), Some(r#"{"a": 1}"#));
        assert_eq!(payload.raw(Key::Body), Some("null"));
        assert_eq!(payload.texts(Key::DeliveryTags).map(<[_]>::len), Some(2));
        assert_eq!(payload.text(Key::Vhost), None);
    }

    #[test]
    fn the_failure_names_the_field() {
        for (object, message) in [
            (r#"{}"#, "Field 'name' is required"),
            (r#"{"name":null}"#, "Field 'name' is required"),
            (r#"{"name":7}"#, "Field 'name' must be a string"),
            (r#"{"name":""}"#, "Field 'name' must not be empty"),
            (r#"{"name":"a\nb"}"#, "Field 'name' must have no control characters"),
            (r#"{"alias":"q","durable":1}"#, "Field 'durable' must be true or false"),
            (r#"{"name":"q","prefetch":10}"#, "Field 'prefetch' must be a whole number from 0 to 9"),
            (r#"{"name":"q","prefetch":1.5}"#, "Field 'prefetch' must be a whole number from 0 to 9"),
            (r#"{"name":"q","headers":[]}"#, "Field 'headers' must be an object"),
            (r#"{"name":"q","tags":[]}"#, "Field 'tags' must have 1 to 65535 items"),
            (r#"{"name":"q","tags":[1]}"#, "Field 'tags' must be an array of strings"),
        ] {
            assert_eq!(Payload::parse(FIELDS, object).unwrap_err().message, message, "{object}");
        }
        let long = format!(r#"{{"name":"{}"}}"#, "n".repeat(256));
        let failure = Payload::parse(FIELDS, &long).unwrap_err();
        assert_eq!(failure.message, "Field 'name' must have at most 255 bytes, not 256");
    }
}
