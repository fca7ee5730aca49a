//! MessagePack and JSON: the length that a value has as JSON text, and the value of a JSON text. Each part is read once, however deep it is.

use bytes::BytesMut;
use serde_json::Value;

use super::item::{Item, Raw, Token, Tokens};
use super::write::{MapWriter, put_bool, put_list_head, put_nil, put_number, put_text};
use crate::limits::DEPTH_MAX;

/// UTF-16 units of the JSON text that JavaScript makes of a value. None for a BigInt, which has none.
pub(crate) fn json_units(raw: Raw<'_>) -> Option<u64> {
    let mut units = 0_u64;
    let mut open: Vec<(usize, bool)> = Vec::new();
    for token in Tokens::of(raw) {
        let mut is_name = false;
        if let Some((left, is_map)) = open.last_mut() {
            is_name = *is_map && *left % 2 == 0;
            *left -= 1;
        }
        let own = match token {
            Token::One(item) => match item {
                Item::Big(_) => return None,
                // `undefined` leaves its key out in a map; the comma and the quotes that are counted too much are no matter
                Item::Absent if open.last().is_some_and(|(_, is_map)| *is_map) && !is_name => 0,
                Item::Absent | Item::Nil => 4,
                Item::Bool(flag) => 5 - u64::from(flag),
                Item::Int(number) => decimal_units(number),
                Item::Float(number) => float_units(number),
                Item::Text(text) => text_units(text),
                Item::BadText(bytes) => bytes.len() as u64 + 2,
                Item::Time(..) => 26,
                Item::Bytes(bytes) => bytes_units(bytes),
                Item::Ext(_, bytes) => bytes.len() as u64,
                Item::List(_) | Item::Map(_) => 0,
            },
            Token::List(count) => {
                open.push((count, false));
                2 + count.saturating_sub(1) as u64
            }
            Token::Map(count) => {
                open.push((count * 2, true));
                2 + (2 * count).saturating_sub(1) as u64
            }
        };
        units += own;
        while open.last().is_some_and(|(left, _)| *left == 0) {
            open.pop();
        }
    }
    Some(units)
}

/// `{"type":"Buffer","data":[1,2,3]}`
fn bytes_units(bytes: &[u8]) -> u64 {
    let digits: u64 = bytes.iter().map(|byte| decimal_units(i64::from(*byte))).sum();
    27 + digits + bytes.len().saturating_sub(1) as u64
}

fn decimal_units(number: i64) -> u64 {
    u64::from(number.unsigned_abs().checked_ilog10().unwrap_or(0)) + 1 + u64::from(number < 0)
}

fn float_units(number: f64) -> u64 {
    if !number.is_finite() {
        return 4;
    }
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return decimal_units(number as i64);
    }
    let mut text = [0_u8; 400];
    let mut rest = &mut text[..];
    let _ = std::io::Write::write_fmt(&mut rest, format_args!("{number}"));
    let left = rest.len();
    let plain = (text.len() - left) as u64;
    // JavaScript goes over to an exponent
    plain.min(24)
}

fn text_units(text: &str) -> u64 {
    let escaped = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if c < ' ' => 6,
        c => c.len_utf16() as u64,
    };
    2 + text.chars().map(escaped).sum::<u64>()
}

/// Appends the value of a JSON text. False, with nothing appended, when it is none or is nested too deeply.
pub(crate) fn from_json(json: &[u8], buffer: &mut BytesMut) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(json) else { return false };
    let start = buffer.len();
    let done = put_value(buffer, &value, 0);
    if !done {
        buffer.truncate(start);
    }
    done
}

fn put_value(buffer: &mut BytesMut, value: &Value, depth: usize) -> bool {
    if depth > DEPTH_MAX {
        return false;
    }
    match value {
        Value::Null => put_nil(buffer),
        Value::Bool(flag) => put_bool(buffer, *flag),
        Value::Number(number) => put_number(buffer, number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => put_text(buffer, text),
        Value::Array(values) => {
            put_list_head(buffer, values.len());
            return values.iter().all(|value| put_value(buffer, value, depth + 1));
        }
        Value::Object(entries) => {
            if entries.len() > usize::from(u16::MAX) {
                return false;
            }
            let mut map = MapWriter::begin(buffer);
            for (name, value) in entries {
                if !put_value(map.name(name), value, depth + 1) {
                    return false;
                }
            }
            map.end();
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::whole;

    fn raw(bytes: &[u8]) -> Raw<'_> {
        whole(bytes).expect("whole").raw
    }

    #[test]
    fn json_becomes_values() {
        let mut buffer = BytesMut::new();
        assert!(from_json(br#"{"id":256,"list":[null,true,-1],"x":1.5,"t":1700000000000}"#, &mut buffer));
        let expected = b"\xDE\0\x04\xA2id\xCD\x01\0\xA4list\x93\xC0\xC3\xFF\xA1x\xCB\x3F\xF8\0\0\0\0\0\0\xA1t\xCB\x42\x78\xBC\xFE\x56\x80\0\0";
        assert_eq!(&buffer[..], expected);
        assert!(!from_json(b"{\"a\":", &mut buffer));
        assert_eq!(buffer.len(), expected.len(), "nothing is left behind");
    }

    #[test]
    fn units_are_those_of_the_json_text() {
        for json in [
            r#"{"a":[1,2,-30],"b":"x\n\u0001\"ü"}"#,
            "[]",
            "{}",
            "null",
            "true",
            "false",
            "0",
            "1.5",
            "[1,[2,[3]],{}]",
            "\"😀\"",
        ] {
            let mut buffer = BytesMut::new();
            assert!(from_json(json.as_bytes(), &mut buffer));
            let expected = json.encode_utf16().count() as u64;
            assert_eq!(json_units(raw(&buffer)), Some(expected), "{json}");
        }
        assert_eq!(json_units(raw(b"\x81\xA1a\xCF\0\0\0\0\0\0\0\x01")), None);
        assert_eq!(
            json_units(raw(b"\xC4\x03\x01\x02\xFF")),
            Some(r#"{"type":"Buffer","data":[1,2,255]}"#.len() as u64)
        );
    }
}
