//! MessagePack as it is read: values are looked at where they are. Reading is total and allocates nothing; a length is
//! compared with what is there before anything is done with it.
//!
//! ```text
//! 00..7f, e0..ff  small integers      c0 nil   c2 false   c3 true
//! a0..bf d9 da db text                c4 c5 c6 bytes
//! 90..9f dc dd    list                80..8f de df map
//! ca cb           floats              cc cd ce cf  d0 d1 d2 d3 integers
//! d4..d8 c7 c8 c9 extension: type 0 with one zero byte is JavaScript's `undefined`, type -1 a time; others stay bytes
//! ```

use crate::limits::DEPTH_MAX;

/// One value, by reference. `Absent` is JavaScript's `undefined`, which counts as "not given" wherever a field is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Item<'a> {
    Absent,
    Nil,
    Bool(bool),
    Int(i64),
    /// A 64-bit integer, which the original reads as a BigInt. Its value, as near as a float comes.
    Big(f64),
    Float(f64),
    Text(&'a str),
    /// Text that is not UTF-8.
    BadText(&'a [u8]),
    Bytes(&'a [u8]),
    List(List<'a>),
    Map(Map<'a>),
    /// Seconds and nanoseconds since 1970.
    Time(i64, u32),
    Ext(i8, &'a [u8]),
}

/// A value as it stands on the wire, known to be whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Raw<'a>(&'a [u8]);

/// The elements of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct List<'a> {
    count: usize,
    rest: &'a [u8],
}

/// The entries of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Map<'a> {
    count: usize,
    rest: &'a [u8],
}

/// What stands at the start of some bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Whole<'a> {
    pub(crate) raw: Raw<'a>,
    pub(crate) rest: &'a [u8],
}

/// Cuts the first value off. None when it is not whole, nested too deeply, or no value.
pub(crate) fn whole(bytes: &[u8]) -> Option<Whole<'_>> {
    let end = skip(bytes, 0)?;
    let (raw, rest) = bytes.split_at_checked(end)?;
    Some(Whole { raw: Raw(raw), rest })
}

/// The bytes of the first value.
fn skip(bytes: &[u8], depth: usize) -> Option<usize> {
    if depth > DEPTH_MAX {
        return None;
    }
    let head = Head::of(bytes)?;
    let mut at = head.bytes;
    match head.body {
        Body::None => {}
        Body::Plain(length) => at = at.checked_add(length)?,
        Body::Items(count) => {
            // each item takes at least one byte
            if count > bytes.len() {
                return None;
            }
            for _ in 0..count {
                at += skip(bytes.get(at..)?, depth + 1)?;
            }
        }
    }
    (at <= bytes.len()).then_some(at)
}

/// The first bytes of a value.
struct Head {
    /// Tag and length.
    bytes: usize,
    body: Body,
}

enum Body {
    None,
    /// So many bytes.
    Plain(usize),
    /// So many values.
    Items(usize),
}

impl Head {
    fn of(bytes: &[u8]) -> Option<Self> {
        let tag = *bytes.first()?;
        let small = usize::from(tag & 0x0F);
        let (length_bytes, kind): (usize, fn(usize) -> Body) = match tag {
            0x00..=0x7F | 0xE0..=0xFF | 0xC0 | 0xC2 | 0xC3 => {
                return Some(Self { bytes: 1, body: Body::None });
            }
            0x80..=0x8F => return Some(Self { bytes: 1, body: Body::Items(small * 2) }),
            0x90..=0x9F => return Some(Self { bytes: 1, body: Body::Items(small) }),
            0xA0..=0xBF => return Some(Self { bytes: 1, body: Body::Plain(usize::from(tag & 0x1F)) }),
            0xCA | 0xCE | 0xD2 => return Some(Self { bytes: 1, body: Body::Plain(4) }),
            0xCB | 0xCF | 0xD3 => return Some(Self { bytes: 1, body: Body::Plain(8) }),
            0xCC | 0xD0 => return Some(Self { bytes: 1, body: Body::Plain(1) }),
            0xCD | 0xD1 => return Some(Self { bytes: 1, body: Body::Plain(2) }),
            0xD4..=0xD8 => return Some(Self { bytes: 2, body: Body::Plain(1 << (tag - 0xD4)) }),
            0xC4 | 0xD9 => (1, Body::Plain),
            0xC5 | 0xDA => (2, Body::Plain),
            0xC6 | 0xDB => (4, Body::Plain),
            0xC7 => (1, |length| Body::Plain(length + 1)),
            0xC8 => (2, |length| Body::Plain(length + 1)),
            0xC9 => (4, |length| Body::Plain(length.saturating_add(1))),
            0xDC => (2, Body::Items),
            0xDD => (4, Body::Items),
            0xDE => (2, |count| Body::Items(count * 2)),
            0xDF => (4, |count| Body::Items(count.saturating_mul(2))),
            0xC1 => return None,
        };
        let length = number(bytes.get(1..=length_bytes)?);
        Some(Self { bytes: 1 + length_bytes, body: kind(usize::try_from(length).ok()?) })
    }
}

/// A big-endian number of at most 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

impl<'a> Raw<'a> {
    /// JavaScript's `undefined`.
    pub(crate) const ABSENT: Raw<'static> = Raw(&[0xD4, 0, 0]);

    /// nil.
    pub(crate) const NIL: Raw<'static> = Raw(&[0xC0]);

    /// The bytes.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// What it is.
    pub(crate) fn item(self) -> Item<'a> {
        self.read().unwrap_or(Item::Nil)
    }

    /// Not given.
    pub(crate) fn is_absent(self) -> bool {
        self.0 == Self::ABSENT.0 || matches!(self.item(), Item::Absent)
    }

    fn read(self) -> Option<Item<'a>> {
        let head = Head::of(self.0)?;
        let tag = *self.0.first()?;
        let body = self.0.get(head.bytes..)?;
        Some(match tag {
            0x00..=0x7F => Item::Int(i64::from(tag)),
            0xE0..=0xFF => Item::Int(i64::from(tag as i8)),
            0xC2 => Item::Bool(false),
            0xC3 => Item::Bool(true),
            0xCA => Item::Float(f64::from(f32::from_bits(u32::try_from(number(body)).ok()?))),
            0xCB => Item::Float(f64::from_bits(number(body))),
            0xCC..=0xCE => Item::Int(i64::try_from(number(body)).ok()?),
            0xCF => Item::Big(number(body) as f64),
            0xD0 => Item::Int(i64::from(number(body) as i8)),
            0xD1 => Item::Int(i64::from(number(body) as i16)),
            0xD2 => Item::Int(i64::from(number(body) as i32)),
            0xD3 => Item::Big((number(body) as i64) as f64),
            0xA0..=0xBF | 0xD9..=0xDB => match std::str::from_utf8(body) {
                Ok(text) => Item::Text(text),
                Err(_) => Item::BadText(body),
            },
            0xC4..=0xC6 => Item::Bytes(body),
            0x80..=0x9F | 0xDC..=0xDF => match head.body {
                Body::Items(count) if matches!(tag, 0x80..=0x8F | 0xDE | 0xDF) => {
                    Item::Map(Map { count: count / 2, rest: body })
                }
                Body::Items(count) => Item::List(List { count, rest: body }),
                Body::None | Body::Plain(_) => Item::Nil,
            },
            0xD4..=0xD8 => ext(*self.0.get(1)? as i8, body),
            0xC7..=0xC9 => {
                let (kind, body) = body.split_first()?;
                ext(*kind as i8, body)
            }
            _ => Item::Nil,
        })
    }
}

fn ext(kind: i8, body: &[u8]) -> Item<'_> {
    match (kind, body.len()) {
        (0, 1) if body == [0] => Item::Absent,
        (-1, 4) => Item::Time(number(body) as i64, 0),
        (-1, 8) => {
            let both = number(body);
            Item::Time((both & 0x3_FFFF_FFFF) as i64, (both >> 34) as u32)
        }
        (-1, 12) => {
            let (nanos, seconds) = body.split_at(4);
            Item::Time(number(seconds) as i64, number(nanos) as u32)
        }
        _ => Item::Ext(kind, body),
    }
}

impl<'a> Iterator for List<'a> {
    type Item = Raw<'a>;

    fn next(&mut self) -> Option<Raw<'a>> {
        self.count = self.count.checked_sub(1)?;
        let Whole { raw, rest } = whole(self.rest)?;
        self.rest = rest;
        Some(raw)
    }
}

impl List<'_> {
    /// Elements that are left.
    pub(crate) fn count(self) -> usize {
        self.count
    }
}

impl<'a> Iterator for Map<'a> {
    type Item = (Raw<'a>, Raw<'a>);

    fn next(&mut self) -> Option<(Raw<'a>, Raw<'a>)> {
        self.count = self.count.checked_sub(1)?;
        let key = whole(self.rest)?;
        let value = whole(key.rest)?;
        self.rest = value.rest;
        Some((key.raw, value.raw))
    }
}

impl<'a> Map<'a> {
    /// Entries that are left.
    pub(crate) fn count(self) -> usize {
        self.count
    }

    /// The last value under this name, as JavaScript keeps it; absent ones do not count.
    pub(crate) fn get(self, name: &str) -> Option<Raw<'a>> {
        let named = |key: Raw<'a>| matches!(key.item(), Item::Text(text) if text == name);
        self.filter(|(key, _)| named(*key)).last().map(|(_, value)| value).filter(|value| !value.is_absent())
    }
}

/// A value's parts in the order of their bytes, each read once, however deep it is.
#[derive(Debug, Clone)]
pub(crate) struct Tokens<'a>(&'a [u8]);

/// One part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Token<'a> {
    /// A value without values in it.
    One(Item<'a>),
    /// A list of so many values, which follow.
    List(usize),
    /// A map of so many pairs, which follow.
    Map(usize),
}

impl<'a> Tokens<'a> {
    pub(crate) fn of(raw: Raw<'a>) -> Self {
        Self(raw.0)
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let head = Head::of(self.0)?;
        let tag = *self.0.first()?;
        let bytes = match head.body {
            Body::Items(count) => {
                self.0 = self.0.get(head.bytes..)?;
                let is_map = matches!(tag, 0x80..=0x8F | 0xDE | 0xDF);
                return Some(if is_map { Token::Map(count / 2) } else { Token::List(count) });
            }
            Body::Plain(length) => head.bytes.checked_add(length)?,
            Body::None => head.bytes,
        };
        let (one, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Raw(one).read().map(Token::One)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(bytes: &[u8]) -> Item<'_> {
        let found = whole(bytes).expect("whole");
        assert!(found.rest.is_empty());
        found.raw.item()
    }

    #[test]
    fn every_form_of_a_number_is_read() {
        assert_eq!(item(&[0x7F]), Item::Int(127));
        assert_eq!(item(&[0xE0]), Item::Int(-32));
        assert_eq!(item(&[0xCC, 0xFF]), Item::Int(255));
        assert_eq!(item(&[0xCD, 1, 0]), Item::Int(256));
        assert_eq!(item(&[0xCE, 0xFF, 0xFF, 0xFF, 0xFF]), Item::Int(4_294_967_295));
        assert_eq!(item(&[0xD0, 0x80]), Item::Int(-128));
        assert_eq!(item(&[0xD1, 0x80, 0]), Item::Int(-32_768));
        assert_eq!(item(&[0xD2, 0x80, 0, 0, 0]), Item::Int(-2_147_483_648));
        assert_eq!(item(&[0xCF, 0, 0, 0, 0, 0, 0, 0, 5]), Item::Big(5.0));
        assert_eq!(item(&[0xD3, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE]), Item::Big(-2.0));
        assert_eq!(item(&[0xCA, 0x3F, 0xC0, 0, 0]), Item::Float(1.5));
        assert_eq!(item(&[0xCB, 0x42, 0x78, 0xBC, 0xFE, 0x56, 0x80, 0, 0]), Item::Float(1_700_000_000_000.0));
    }

    #[test]
    fn undefined_is_absent_and_times_are_times() {
        assert_eq!(item(&[0xD4, 0, 0]), Item::Absent);
        assert_eq!(item(&[0xC7, 1, 0, 0]), Item::Absent);
        assert_eq!(item(&[0xD4, 0, 1]), Item::Ext(0, &[1]));
        assert_eq!(item(&[0xD6, 0xFF, 0x65, 0x53, 0xF1, 0]), Item::Time(1_700_000_000, 0));
        let with_ms = [0xD7, 0xFF, 0x1D, 0x53, 0x53, 0, 0x65, 0x53, 0xF1, 0];
        assert_eq!(item(&with_ms), Item::Time(1_700_000_000, 123_000_000));
    }

    #[test]
    fn last_value_of_a_name_counts_unless_it_is_undefined() {
        let Item::Map(map) = item(b"\x83\xA1a\x01\xA1a\x02\xA1b\xD4\0\0") else { panic!("a map") };
        assert_eq!(map.get("a").map(Raw::item), Some(Item::Int(2)));
        assert_eq!(map.get("b"), None);
        assert_eq!(map.get("c"), None);
    }

    #[test]
    fn truncated_values_are_not_whole_at_any_byte() {
        let value = b"\xDE\0\x03\xA1a\x92\x01\xCD\x01\0\xA1b\xD9\x03xyz\xA1c\xC4\x02\0\x01";
        assert!(whole(value).is_some_and(|found| found.rest.is_empty()));
        for end in 0..value.len() {
            assert_eq!(whole(&value[..end]), None, "{end}");
        }
    }

    #[test]
    fn announced_lengths_cost_nothing_and_depth_is_bounded() {
        for bytes in [
            &b"\xDD\xFF\xFF\xFF\xFF"[..],
            b"\xDF\xFF\xFF\xFF\xFF",
            b"\xDB\xFF\xFF\xFF\xFF",
            b"\xC9\xFF\xFF\xFF\xFF",
            b"\xC1",
        ] {
            assert_eq!(whole(bytes), None, "{bytes:x?}");
        }
        let deep = |depth: usize| [vec![0x91; depth], vec![0xC0]].concat();
        assert!(whole(&deep(DEPTH_MAX)).is_some());
        assert!(whole(&deep(DEPTH_MAX + 1)).is_none());
    }
}
