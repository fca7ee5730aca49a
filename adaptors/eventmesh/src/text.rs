//! JSON text: strings written in quotes, and objects of text read in order. Never builds a tree.

use std::borrow::Cow;
use std::fmt;

use bytes::{BufMut as _, BytesMut};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Appends text in quotes.
pub(crate) fn put_json(buffer: &mut BytesMut, text: &str) {
    // Text always serializes, and a growing buffer always takes it.
    let _ = serde_json::to_writer(buffer.writer(), text);
}

/// A JSON value as text: what is in the quotes of a string, nothing for `null`, the JSON of anything else.
pub(crate) fn text_of(value: &RawValue) -> Option<Cow<'_, str>> {
    match value.get() {
        "null" => None,
        json if json.starts_with('"') => serde_json::from_str(json).ok(),
        json => Some(Cow::Borrowed(json)),
    }
}

/// A JSON object as names and texts, in order; `null` values are left out.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Texts<'a>(pub(crate) Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Texts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        #[derive(serde::Deserialize)]
        struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

        impl<'de> Visitor<'de> for Members {
            type Value = Texts<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Texts::default())
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut members = Vec::new();
                while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    members.extend(text_of(value).map(|text| (name, text)));
                }
                Ok(Texts(members))
            }
        }
        deserializer.deserialize_any(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_in_order_as_text() {
        let texts: Texts<'_> =
            serde_json::from_str(r#"{"b":"x\n","a":7,"n":null,"c":true,"d":{"e": 1}}"#).unwrap();
        let members: Vec<_> = texts.0.iter().map(|(name, text)| (&**name, &**text)).collect();
        assert_eq!(members, [("b", "x\n"), ("a", "7"), ("c", "true"), ("d", "{\"e\": 1}")]);
        assert_eq!(serde_json::from_str::<Texts<'_>>("null").unwrap(), Texts::default());
        assert!(serde_json::from_str::<Texts<'_>>("[]").is_err());
    }
}
