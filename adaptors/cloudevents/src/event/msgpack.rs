//! MessagePack data as JSON text, for consumers that read JSON, when that loses nothing: text keys that differ, no
//! binary, no extension types, finite numbers. Everything else stays MessagePack. Total; bounded by its input.

use crate::limits::MSGPACK_DEPTH_MAX;

/// The JSON text of a MessagePack value; None when JSON cannot say it, or when the bytes are not one value.
pub(crate) fn to_json(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader { bytes, json: Vec::with_capacity(bytes.len() + bytes.len() / 2) };
    reader.value(0)?;
    reader.bytes.is_empty().then_some(reader.json)
}

struct Reader<'a> {
    bytes: &'a [u8],
    json: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Option<()> {
        if depth > MSGPACK_DEPTH_MAX {
            return None;
        }
        let tag = self.take(1)?[0];
        match tag {
            0x00..=0x7F => self.print(u64::from(tag)),
            0xE0..=0xFF => self.print(i64::from(tag as i8)),
            0xC0 => self.word("null"),
            0xC2 => self.word("false"),
            0xC3 => self.word("true"),
            0xCA => {
                let value = f32::from_bits(u32::try_from(self.number(4)?).ok()?);
                value.is_finite().then_some(())?;
                self.json_of(&value)
            }
            0xCB => {
                let value = f64::from_bits(self.number(8)?);
                value.is_finite().then_some(())?;
                self.json_of(&value)
            }
            0xCC..=0xCF => {
                let value = self.number(1 << (tag - 0xCC))?;
                self.print(value)
            }
            0xD0..=0xD3 => {
                let width = 1_usize << (tag - 0xD0);
                let shift = 64 - 8 * width as u32;
                let value = ((self.number(width)? << shift) as i64) >> shift;
                self.print(value)
            }
            0xA0..=0xBF => self.text(usize::from(tag & 0x1F)),
            0xD9..=0xDB => {
                let length = self.length(1 << (tag - 0xD9))?;
                self.text(length)
            }
            0x90..=0x9F => self.array(usize::from(tag & 0x0F), depth),
            0xDC | 0xDD => {
                let length = self.length(2 << (tag - 0xDC))?;
                self.array(length, depth)
            }
            0x80..=0x8F => self.map(usize::from(tag & 0x0F), depth),
            0xDE | 0xDF => {
                let length = self.length(2 << (tag - 0xDE))?;
                self.map(length, depth)
            }
            _ => None,
        }
    }

    fn array(&mut self, length: usize, depth: usize) -> Option<()> {
        self.json.push(b'[');
        for at in 0..length {
            if at > 0 {
                self.json.push(b',');
            }
            self.value(depth + 1)?;
        }
        self.json.push(b']');
        Some(())
    }

    fn map(&mut self, length: usize, depth: usize) -> Option<()> {
        let mut names = Vec::new();
        self.json.push(b'{');
        for at in 0..length {
            if at > 0 {
                self.json.push(b',');
            }
            let start = self.json.len();
            let tag = *self.bytes.first()?;
            if !matches!(tag, 0xA0..=0xBF | 0xD9..=0xDB) {
                return None;
            }
            self.value(depth + 1)?;
            names.push(self.json.get(start..)?.to_vec());
            self.json.push(b':');
            self.value(depth + 1)?;
        }
        self.json.push(b'}');
        names.sort_unstable();
        names.windows(2).all(|pair| pair[0] != pair[1]).then_some(())
    }

    fn text(&mut self, length: usize) -> Option<()> {
        let text = std::str::from_utf8(self.take(length)?).ok()?;
        self.json_of(text)
    }

    fn json_of<T: serde::Serialize + ?Sized>(&mut self, value: &T) -> Option<()> {
        serde_json::to_writer(&mut self.json, value).ok()
    }

    fn print(&mut self, value: impl std::fmt::Display) -> Option<()> {
        self.json.extend_from_slice(value.to_string().as_bytes());
        Some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.json.extend_from_slice(word.as_bytes());
        Some(())
    }

    fn length(&mut self, width: usize) -> Option<usize> {
        usize::try_from(self.number(width)?).ok()
    }

    /// A big-endian number of 1, 2, 4 or 8 bytes.
    fn number(&mut self, width: usize) -> Option<u64> {
        Some(self.take(width)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.bytes.split_at_checked(length)?;
        self.bytes = tail;
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(bytes: &[u8]) -> Option<String> {
        to_json(bytes).map(|json| String::from_utf8(json).unwrap())
    }

    #[test]
    fn plain_values_become_json() {
        let job =
            b"\x83\xA2id\xCD\x01\x00\xA4list\x94\xC0\xC2\xC3\xFF\xA1x\xCB\x3F\xF8\x00\x00\x00\x00\x00\x00";
        assert_eq!(json(job).as_deref(), Some(r#"{"id":256,"list":[null,false,true,-1],"x":1.5}"#));
        assert_eq!(json(b"\xD3\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFE").as_deref(), Some("-2"));
        assert_eq!(json(b"\xD0\x80").as_deref(), Some("-128"));
        assert_eq!(json(b"\xCF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF").as_deref(), Some("18446744073709551615"));
        assert_eq!(json(b"\xD9\x02a\"").as_deref(), Some(r#""a\"""#));
    }

    #[test]
    fn what_json_cannot_say_stays_messagepack() {
        let nan = b"\xCB\x7F\xF8\x00\x00\x00\x00\x00\x00";
        let cases: [&[u8]; 9] = [
            b"\xC4\x01x",
            b"\xC7\x01\x05x",
            b"\x81\x01\x02",
            nan,
            b"\x82\xA1a\x01\xA1a\x02",
            b"",
            b"\x01\x02",
            b"\xC1",
            b"\xA2\xFF\xFE",
        ];
        for bytes in cases {
            assert_eq!(json(bytes), None, "{bytes:x?}");
        }
    }

    #[test]
    fn announced_lengths_cost_nothing_and_depth_is_bounded() {
        assert_eq!(json(b"\xDD\xFF\xFF\xFF\xFF"), None);
        assert_eq!(json(b"\xDB\xFF\xFF\xFF\xFF"), None);
        assert_eq!(json(&[0x91; 100_000]), None);
    }
}
