//! The JSON event format, reading (CloudEvents JSON format 1.0.2): one event or a batch. Data keeps the exact source
//! text of its value. Duplicate member names are refused, so that nothing passes a filter under a second name.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use framegate_frame::names::DATACONTENTTYPE;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::fault::{EventError, Faults, Place};
use super::media::{self, MediaClass};
use super::model::{Attribute, Data, Event, Scalar};
use super::rules::integer_text;
use crate::limits::MEMBERS_MAX;

/// Reads one event from a whole JSON text. A byte order mark before it is skipped.
///
/// # Errors
/// Every fault found, with its pointer.
pub(crate) fn read_event(text: &Bytes) -> Result<Event, EventError> {
    let start = without_mark(text);
    let members: Members<'_> = parse(&text[start..], "")?;
    from_members(text, members, "")
}

/// Reads a batch: a JSON array of events, maybe empty. The outer error is about the text or the number of events, the
/// inner ones are about single events, with pointers that start with the index.
///
/// # Errors
/// The text is no array, or has more than `events_max` elements.
pub(crate) fn read_batch(
    text: &Bytes,
    events_max: usize,
) -> Result<Vec<Result<Event, EventError>>, BatchError> {
    let start = without_mark(text);
    let elements: Vec<&RawValue> = parse(&text[start..], "")?;
    if elements.len() > events_max {
        return Err(BatchError::TooMany { events: elements.len(), max: events_max });
    }
    let read = |(index, element): (usize, &&RawValue)| {
        let prefix = format!("/{index}");
        let members: Members<'_> = parse(element.get().as_bytes(), &prefix)?;
        from_members(text, members, &prefix)
    };
    Ok(elements.iter().enumerate().map(read).collect())
}

/// Why a batch cannot be looked into.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BatchError {
    /// Not a JSON array.
    #[error(transparent)]
    Text(#[from] EventError),
    /// Too many events.
    #[error("batch of {events} events is larger than {max}")]
    TooMany {
        /// Events in it.
        events: usize,
        /// Allowed events.
        max: usize,
    },
}

fn without_mark(text: &[u8]) -> usize {
    if text.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a [u8], pointer: &str) -> Result<T, EventError> {
    serde_json::from_slice(text).map_err(|error| {
        let detail = if error.is_data() {
            format!("has the wrong shape: {error}")
        } else {
            format!("is not valid JSON: {error}")
        };
        EventError::one(Place::Pointer(pointer.to_owned()), detail)
    })
}

/// Members of a JSON object in order, values as source text.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(12);
                while let Some(member) = map.next_entry::<String, &'de RawValue>()? {
                    if members.len() == MEMBERS_MAX {
                        return Err(serde::de::Error::custom("too many members"));
                    }
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Collect)
    }
}

impl Members<'_> {
    fn duplicates(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let mut twice: Vec<&str> =
            names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        twice.dedup();
        twice
    }
}

fn from_members(text: &Bytes, members: Members<'_>, prefix: &str) -> Result<Event, EventError> {
    let place = |name: &str| Place::member(prefix, name);
    let mut faults = Faults::default();
    for name in members.duplicates() {
        faults.add(place(name), "appears twice");
    }
    let mut attributes = Vec::with_capacity(members.0.len());
    let (mut data, mut base64) = (None, None);
    for (name, value) in members.0 {
        match name.as_str() {
            "data" => data = Some(value.get()),
            "data_base64" => base64 = Some(value.get()),
            _ => match read_scalar(&name, value.get()) {
                Ok(Some((value, scalar))) => attributes.push(Attribute { name, value, scalar }),
                Ok(None) => {}
                Err(detail) => faults.add(place(&name), detail),
            },
        }
    }
    let content_type =
        attributes.iter().find(|attribute| attribute.name == DATACONTENTTYPE).map(|a| a.value.as_str());
    let class = content_type.map_or(MediaClass::Json, media::classify);
    let data = match (data, base64.filter(|value| *value != "null")) {
        (Some(_), Some(_)) => {
            faults.add(place("data_base64"), "stands beside data; only one of them is allowed");
            Data::Absent
        }
        (None, None) => Data::Absent,
        (Some(value), None) if class == MediaClass::Json => Data::Json(slice_of(text, value)),
        (Some(value), None) => match serde_json::from_str::<String>(value) {
            Ok(string) => Data::Text(string.into()),
            Err(_) => {
                faults.add(place("data"), "is not a JSON string, as its datacontenttype requires");
                Data::Absent
            }
        },
        (None, Some(value)) => {
            match serde_json::from_str::<String>(value).ok().and_then(|encoded| STANDARD.decode(encoded).ok())
            {
                Some(bytes) => Data::Binary(bytes.into()),
                None => {
                    faults.add(place("data_base64"), "is not a base64 string");
                    Data::Absent
                }
            }
        }
    };
    Event::checked(attributes, data, &place, faults)
}

/// The canonical text of an attribute value; None: `null`, which means unset.
fn read_scalar(name: &str, value: &str) -> Result<Option<(String, Scalar)>, &'static str> {
    let context = framegate_frame::names::CONTEXT.contains(&name);
    match value.bytes().next() {
        Some(b'"') => serde_json::from_str(value)
            .map(|text| Some((text, Scalar::Text)))
            .map_err(|_| "has a lone surrogate or an illegal escape"),
        Some(b'n') => Ok(None),
        _ if context => Err("is not a string"),
        Some(b't' | b'f') => Ok(Some((value.to_owned(), Scalar::Boolean))),
        Some(b'{') => Err("is an object, which no attribute can be"),
        Some(b'[') => Err("is an array, which no attribute can be"),
        _ => integer_text(value)
            .map(|text| Some((text, Scalar::Integer)))
            .ok_or("is a number that is not an integer of 32 bits"),
    }
}

/// The part of `text` that `value` borrows from it, without a copy.
fn slice_of(text: &Bytes, value: &str) -> Bytes {
    text.slice_ref(value.as_bytes())
}
