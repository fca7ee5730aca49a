//! Raw JSON text: members of an object without a tree, text values without a copy, compact form, and writing. Never builds a
//! value: what is not looked at stays as it came.

use std::borrow::Cow;
use std::fmt;

use bytes::{BufMut as _, BytesMut};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// What a piece of JSON text is, told by its first character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Null,
    Bool,
    Number,
    Text,
    Array,
    Object,
}

/// The shape of a valid JSON value without leading white space.
pub(crate) fn shape(raw: &str) -> Shape {
    match raw.as_bytes().first() {
        Some(b'{') => Shape::Object,
        Some(b'[') => Shape::Array,
        Some(b'"') => Shape::Text,
        Some(b't' | b'f') => Shape::Bool,
        Some(b'n') => Shape::Null,
        _ => Shape::Number,
    }
}

/// Text is one valid JSON value.
pub(crate) fn is_valid(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// Calls `visit` for each member of a JSON object, in order. The values are valid JSON without white space around them.
///
/// # Errors
/// The text is no JSON object.
pub(crate) fn members<'a>(
    text: &'a str,
    mut visit: impl FnMut(Cow<'a, str>, &'a str),
) -> Result<(), serde_json::Error> {
    struct Members<F>(F);

    impl<'de, F: FnMut(Cow<'de, str>, &'de str)> Visitor<'de> for Members<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
            while let Some(MemberName(name)) = map.next_key()? {
                let value: &'de RawValue = map.next_value()?;
                (self.0)(name, value.get());
            }
            Ok(())
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.deserialize_map(Members(&mut visit))?;
    deserializer.end()
}

struct MemberName<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for MemberName<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;

        impl<'de> Visitor<'de> for NameVisitor {
            type Value = MemberName<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member name")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(MemberName(Cow::Borrowed(name)))
            }

            fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
                Ok(MemberName(Cow::Owned(name.to_owned())))
            }
        }

        deserializer.deserialize_str(NameVisitor)
    }
}

/// The text of a JSON string; borrowed when it has no escape. None: it is no string, or half a surrogate pair.
pub(crate) fn text(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str::<String>(raw).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// An integer, written without fraction or exponent, or as a whole number with them.
pub(crate) fn integer(raw: &str) -> Option<i64> {
    if shape(raw) != Shape::Number {
        return None;
    }
    raw.parse().ok().or_else(|| {
        let value: f64 = raw.parse().ok()?;
        // 2^53: beyond it a float does not say which integer was meant.
        (value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0).then_some(value as i64)
    })
}

/// Valid JSON without white space between its tokens; borrowed when there is none.
pub(crate) fn compact(raw: &str) -> Cow<'_, str> {
    let mut walk = Walk::default();
    let Some(first) = raw.bytes().position(|byte| walk.is_space(byte)) else {
        return Cow::Borrowed(raw);
    };
    // White space and quotes are ASCII, so characters of several bytes pass whole.
    let mut walk = Walk::default();
    let (kept, rest) = raw.split_at(first);
    let mut compacted = String::with_capacity(raw.len());
    compacted.push_str(kept);
    compacted.extend(rest.chars().filter(|&c| !u8::try_from(c).is_ok_and(|byte| walk.is_space(byte))));
    Cow::Owned(compacted)
}

/// Where a walk over JSON text stands.
#[derive(Default)]
struct Walk {
    inside_text: bool,
    escaped: bool,
}

impl Walk {
    /// The byte is white space between tokens.
    fn is_space(&mut self, byte: u8) -> bool {
        if !self.inside_text {
            self.inside_text = byte == b'"';
            return matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        }
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => self.inside_text = false,
            _ => {}
        }
        false
    }
}

/// Appends a JSON string.
pub(crate) fn put_text(buffer: &mut BytesMut, text: &str) {
    serde_json::to_writer(buffer.writer(), text)
        .expect("a growing buffer takes all bytes, and text has no error");
}

/// Appends a number.
pub(crate) fn put_number(buffer: &mut BytesMut, number: impl fmt::Display) {
    fmt::Write::write_fmt(buffer, format_args!("{number}")).expect("a growing buffer takes all bytes");
}

/// Appends `true` or `false`.
pub(crate) fn put_flag(buffer: &mut BytesMut, flag: bool) {
    buffer.put_slice(if flag { b"true" } else { b"false" });
}

/// An object that is being appended to a buffer, member by member.
pub(crate) struct Object<'b> {
    buffer: &'b mut BytesMut,
    first: bool,
}

impl<'b> Object<'b> {
    /// Opens the brace.
    pub(crate) fn begin(buffer: &'b mut BytesMut) -> Self {
        buffer.put_u8(b'{');
        Self { buffer, first: true }
    }

    /// Appends a name; the value is to be appended to what this returns.
    pub(crate) fn name(&mut self, name: &str) -> &mut BytesMut {
        if !std::mem::take(&mut self.first) {
            self.buffer.put_u8(b',');
        }
        put_text(self.buffer, name);
        self.buffer.put_u8(b':');
        self.buffer
    }

    pub(crate) fn text(&mut self, name: &str, value: &str) {
        put_text(self.name(name), value);
    }

    pub(crate) fn number(&mut self, name: &str, value: impl fmt::Display) {
        put_number(self.name(name), value);
    }

    pub(crate) fn flag(&mut self, name: &str, value: bool) {
        put_flag(self.name(name), value);
    }

    /// Appends a member whose value is JSON text already.
    pub(crate) fn raw(&mut self, name: &str, value: &str) {
        self.name(name).put_slice(value.as_bytes());
    }

    /// Closes the brace.
    pub(crate) fn end(self) {
        self.buffer.put_u8(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_strips_only_what_stands_between_tokens() {
        assert_eq!(compact("{\n \"a b\" : [ 1,\t\"\\\" x\" ]\r}"), "{\"a b\":[1,\"\\\" x\"]}");
        assert!(matches!(compact("{\"a b\":\"c \\\\\"}"), Cow::Borrowed(_)));
        assert_eq!(compact("[\"\\\\\" , \"é \"]"), "[\"\\\\\",\"é \"]");
    }

    #[test]
    fn text_is_borrowed_without_escapes_and_refused_with_half_a_pair() {
        assert!(matches!(text("\"caf\u{e9}\""), Some(Cow::Borrowed("caf\u{e9}"))));
        assert_eq!(text("\"a\\u00e9\\n\"").as_deref(), Some("a\u{e9}\n"));
        assert_eq!(text("\"\\ud800\""), None);
        assert_eq!(text("12"), None);
    }

    #[test]
    fn integers_are_whole_numbers_that_a_float_can_name() {
        assert_eq!(integer("12"), Some(12));
        assert_eq!(integer("-3"), Some(-3));
        assert_eq!(integer("1e3"), Some(1000));
        for raw in ["1.5", "1e300", "\"1\"", "true", "99999999999999999999"] {
            assert_eq!(integer(raw), None, "{raw}");
        }
    }

    #[test]
    fn members_come_in_order_and_keep_their_text() {
        let mut seen = Vec::new();
        members(r#" {"a": [1, 2] ,"\u0062":"x"} "#, |name, value| seen.push((name.into_owned(), value)))
            .unwrap();
        assert_eq!(seen, [("a".to_owned(), "[1, 2]"), ("b".to_owned(), "\"x\"")]);
        assert!(members("[1]", |_, _| ()).is_err());
        assert!(members("{} x", |_, _| ()).is_err());
    }
}
