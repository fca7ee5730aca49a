//! Attribute values in HTTP headers (CloudEvents HTTP binding 3.1.3.2): lenient or by the letter. Never joins repeated
//! headers.

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use bytes::Bytes;
use framegate_frame::names::{DATACONTENTTYPE, ID, SOURCE, SPECVERSION, TYPE};

use crate::event::{Attribute, Data, Event, EventError, Faults, Place, Scalar};
use crate::metrics::{COUNTERS, Counters};

const PREFIX: &str = "ce-";

/// How the attributes of a binary-mode request look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    /// None of the four required headers: a plain body.
    Plain,
    /// At least one of them.
    Event,
}

/// Whether a request in binary mode is an event or a plain body.
pub(crate) fn classify(headers: &HeaderMap) -> Binary {
    let named = |name: &&str| headers.contains_key(format!("{PREFIX}{name}"));
    if [SPECVERSION, ID, SOURCE, TYPE].iter().any(named) { Binary::Event } else { Binary::Plain }
}

/// Reads an event in binary mode.
///
/// # Errors
/// Every fault found, with its header.
pub(crate) fn read_binary(headers: &HeaderMap, body: Bytes, strict: bool) -> Result<Event, EventError> {
    let mut faults = Faults::default();
    let mut attributes = read_attributes(headers, strict, &mut faults);
    if let Some(value) = content_type(headers, &mut faults) {
        attributes.push(Attribute { name: DATACONTENTTYPE.to_owned(), value, scalar: Scalar::Text });
    }
    let data = if body.is_empty() { Data::Absent } else { Data::Binary(body) };
    Event::checked(attributes, data, &header_of, faults)
}

/// The extensions that a plain body may carry along.
pub(crate) fn read_attributes(headers: &HeaderMap, strict: bool, faults: &mut Faults) -> Vec<Attribute> {
    let mut attributes = Vec::new();
    for name in headers.keys() {
        let Some(attribute) = name.as_str().strip_prefix(PREFIX) else { continue };
        if attribute == DATACONTENTTYPE {
            Counters::add(&COUNTERS.ignored_headers, 1);
            continue;
        }
        let mut values = headers.get_all(name).iter();
        let value = values.next().map(|value| decode(value.as_bytes(), strict));
        if values.next().is_some() {
            faults.add(header_of(attribute), "appears more than once");
            continue;
        }
        match value {
            Some(Ok(value)) => {
                attributes.push(Attribute { name: attribute.to_owned(), value, scalar: Scalar::Text });
            }
            Some(Err(detail)) => faults.add(header_of(attribute), detail),
            None => {}
        }
    }
    attributes
}

/// The `Content-Type` as text.
pub(crate) fn content_type(headers: &HeaderMap, faults: &mut Faults) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?;
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Ok(_) => None,
        Err(_) => {
            faults.add(header_of(DATACONTENTTYPE), "is not text");
            None
        }
    }
}

/// The header that carries an attribute.
pub(crate) fn header_of(attribute: &str) -> Place {
    if attribute == DATACONTENTTYPE {
        return Place::Header(CONTENT_TYPE.as_str().to_owned());
    }
    Place::Header(format!("{PREFIX}{attribute}"))
}

/// Decodes a header value: a quoted string is unquoted, then percent escapes are decoded once.
///
/// Leniently, a `%` that starts no escape is taken as it is, and bytes that are not UTF-8 before decoding are Latin-1.
/// Strictly, both are errors, as are characters that should have been escaped.
pub(crate) fn decode(value: &[u8], strict: bool) -> Result<String, &'static str> {
    let unquoted = unquote(value, strict)?;
    let raw = match std::str::from_utf8(&unquoted) {
        Ok(text) => text.to_owned(),
        Err(_) if strict => return Err("is not UTF-8"),
        Err(_) => unquoted.iter().copied().map(char::from).collect(),
    };
    if strict && raw.bytes().any(|byte| !(0x21..=0x7E).contains(&byte) && byte != b' ') {
        return Err("has a character that must be percent-encoded");
    }
    let bytes = raw.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escape = (byte == b'%').then(|| bytes.get(at + 1..at + 3).and_then(hex_pair));
        match escape {
            Some(Some(value)) => {
                decoded.push(value);
                at += 3;
            }
            Some(None) if strict => return Err("has a percent sign without two hex digits"),
            _ => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).map_err(|_| "is not UTF-8 after percent-decoding")
}

fn hex_pair(pair: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    }
}

/// The content of a quoted string, or the value as it is.
fn unquote(value: &[u8], strict: bool) -> Result<Vec<u8>, &'static str> {
    let Some(rest) = value.strip_prefix(b"\"") else { return Ok(value.to_vec()) };
    let Some(inner) = rest.strip_suffix(b"\"") else {
        return if strict { Err("is a quoted string without an end") } else { Ok(value.to_vec()) };
    };
    let mut content = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(escaped) => content.push(escaped),
                None if strict => return Err("is a quoted string without an end"),
                None => return Ok(value.to_vec()),
            },
            b'"' if strict => return Err("has a quote inside a quoted string"),
            b'"' => return Ok(value.to_vec()),
            _ => content.push(byte),
        }
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_matrix() {
        type Decoded = Result<&'static str, ()>;
        let cases: [(&[u8], Decoded, Decoded); 16] = [
            (b"Euro%20%E2%82%AC%20%F0%9F%98%80", Ok("Euro € 😀"), Ok("Euro € 😀")),
            (b"a b", Ok("a b"), Ok("a b")),
            (b"a%20b", Ok("a b"), Ok("a b")),
            (b"%22q%22", Ok("\"q\""), Ok("\"q\"")),
            (b"100%", Ok("100%"), Err(())),
            (b"100%25", Ok("100%"), Ok("100%")),
            (b"%zz", Ok("%zz"), Err(())),
            (b"%4", Ok("%4"), Err(())),
            (b"%e2%82%ac", Ok("€"), Ok("€")),
            ("€".as_bytes(), Ok("€"), Err(())),
            (b"caf\xe9", Ok("café"), Err(())),
            (b"%C0%A0", Err(()), Err(())),
            (b"%41%42", Ok("AB"), Ok("AB")),
            (br#""quoted \" text""#, Ok("quoted \" text"), Ok("quoted \" text")),
            (br#""a%20b\\""#, Ok("a b\\"), Ok("a b\\")),
            (b"\"open", Ok("\"open"), Err(())),
        ];
        for (value, lenient, strict) in cases {
            let shown = String::from_utf8_lossy(value);
            assert_eq!(decode(value, false).as_deref().map_err(|_| ()), lenient, "lenient {shown}");
            assert_eq!(decode(value, true).as_deref().map_err(|_| ()), strict, "strict {shown}");
        }
    }

    #[test]
    fn one_round_of_decoding_only() {
        assert_eq!(decode(b"%2541", false).as_deref(), Ok("%41"));
        assert_eq!(decode(b"\"", false).as_deref(), Ok("\""));
        assert_eq!(decode(b"", true).as_deref(), Ok(""));
    }
}
