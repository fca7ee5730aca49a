//! MessagePack as it is written: the forms that the original writes, so that its clients meet nothing new. Maps are always
//! map16; integers beyond 32 bits and fractions are float64, since clients read 64-bit integers as BigInt and then drop the
//! connection; a key without a value is left out.

use bytes::{BufMut as _, BytesMut};

/// Appends nil.
pub(crate) fn put_nil(buffer: &mut BytesMut) {
    buffer.put_u8(0xC0);
}

/// Appends a boolean.
pub(crate) fn put_bool(buffer: &mut BytesMut, flag: bool) {
    buffer.put_u8(if flag { 0xC3 } else { 0xC2 });
}

/// Appends an integer in its shortest form, as float64 beyond -2^31 to 2^32-1.
pub(crate) fn put_int(buffer: &mut BytesMut, number: i64) {
    match number {
        0..=0x7F => buffer.put_u8(number as u8),
        -32..=-1 => buffer.put_i8(number as i8),
        0x80..=0xFF => {
            buffer.put_u8(0xCC);
            buffer.put_u8(number as u8);
        }
        0x100..=0xFFFF => {
            buffer.put_u8(0xCD);
            buffer.put_u16(number as u16);
        }
        0x1_0000..=0xFFFF_FFFF => {
            buffer.put_u8(0xCE);
            buffer.put_u32(number as u32);
        }
        -0x80..=-33 => {
            buffer.put_u8(0xD0);
            buffer.put_i8(number as i8);
        }
        -0x8000..=-0x81 => {
            buffer.put_u8(0xD1);
            buffer.put_i16(number as i16);
        }
        -0x8000_0000..=-0x8001 => {
            buffer.put_u8(0xD2);
            buffer.put_i32(number as i32);
        }
        _ => put_float(buffer, number as f64),
    }
}

/// Appends a float64.
pub(crate) fn put_float(buffer: &mut BytesMut, number: f64) {
    buffer.put_u8(0xCB);
    buffer.put_f64(number);
}

/// Appends a number as JavaScript's writer does: whole ones within 32 bits as integers.
pub(crate) fn put_number(buffer: &mut BytesMut, number: f64) {
    let is_int = number.fract() == 0.0 && (-2_147_483_648.0..=4_294_967_295.0).contains(&number);
    if is_int && !(number == 0.0 && number.is_sign_negative()) {
        put_int(buffer, number as i64);
    } else {
        put_float(buffer, number);
    }
}

/// Appends text.
pub(crate) fn put_text(buffer: &mut BytesMut, text: &str) {
    match text.len() {
        length @ 0..=31 => buffer.put_u8(0xA0 | length as u8),
        length @ 32..=0xFF => {
            buffer.put_u8(0xD9);
            buffer.put_u8(length as u8);
        }
        length @ 0x100..=0xFFFF => {
            buffer.put_u8(0xDA);
            buffer.put_u16(length as u16);
        }
        length => {
            buffer.put_u8(0xDB);
            buffer.put_u32(length as u32);
        }
    }
    buffer.put_slice(text.as_bytes());
}

/// Appends bytes.
pub(crate) fn put_bytes(buffer: &mut BytesMut, bytes: &[u8]) {
    match bytes.len() {
        length @ 0..=0xFF => {
            buffer.put_u8(0xC4);
            buffer.put_u8(length as u8);
        }
        length @ 0x100..=0xFFFF => {
            buffer.put_u8(0xC5);
            buffer.put_u16(length as u16);
        }
        length => {
            buffer.put_u8(0xC6);
            buffer.put_u32(length as u32);
        }
    }
    buffer.put_slice(bytes);
}

/// Appends the head of a list whose elements follow.
pub(crate) fn put_list_head(buffer: &mut BytesMut, count: usize) {
    match count {
        0..=15 => buffer.put_u8(0x90 | count as u8),
        16..=0xFFFF => {
            buffer.put_u8(0xDC);
            buffer.put_u16(count as u16);
        }
        _ => {
            buffer.put_u8(0xDD);
            buffer.put_u32(count as u32);
        }
    }
}

/// Appends a list of texts.
pub(crate) fn put_texts<'a>(buffer: &mut BytesMut, texts: impl ExactSizeIterator<Item = &'a str>) {
    put_list_head(buffer, texts.len());
    for text in texts {
        put_text(buffer, text);
    }
}

/// A map that is being written at the end of a buffer; at most 65,535 entries. `end` counts them.
#[must_use]
pub(crate) struct MapWriter<'b> {
    buffer: &'b mut BytesMut,
    start: usize,
    count: u16,
}

impl<'b> MapWriter<'b> {
    pub(crate) fn begin(buffer: &'b mut BytesMut) -> Self {
        let start = buffer.len();
        buffer.put_slice(&[0xDE, 0, 0]);
        Self { buffer, start, count: 0 }
    }

    /// Writes a name; its value must follow in the buffer.
    pub(crate) fn name(&mut self, name: &str) -> &mut BytesMut {
        self.count = self.count.saturating_add(1);
        put_text(self.buffer, name);
        self.buffer
    }

    pub(crate) fn text(&mut self, name: &str, text: &str) {
        put_text(self.name(name), text);
    }

    pub(crate) fn bool(&mut self, name: &str, flag: bool) {
        put_bool(self.name(name), flag);
    }

    pub(crate) fn int(&mut self, name: &str, number: i64) {
        put_int(self.name(name), number);
    }

    pub(crate) fn number(&mut self, name: &str, number: f64) {
        put_number(self.name(name), number);
    }

    pub(crate) fn nil(&mut self, name: &str) {
        put_nil(self.name(name));
    }

    /// The text, or nil.
    pub(crate) fn text_or_nil(&mut self, name: &str, text: Option<&str>) {
        match text {
            Some(text) => self.text(name, text),
            None => self.nil(name),
        }
    }

    /// The number, or nil.
    pub(crate) fn int_or_nil(&mut self, name: &str, number: Option<i64>) {
        match number {
            Some(number) => self.int(name, number),
            None => self.nil(name),
        }
    }

    /// A whole value as it stands.
    pub(crate) fn raw(&mut self, name: &str, bytes: &[u8]) {
        self.name(name).put_slice(bytes);
    }

    /// A map under a name.
    pub(crate) fn map(&mut self, name: &str) -> MapWriter<'_> {
        MapWriter::begin(self.name(name))
    }

    /// A map or list under a name, which is open: no entries are counted for it here.
    pub(crate) fn end(self) {
        if let Some(place) = self.buffer.get_mut(self.start + 1..self.start + 3) {
            place.copy_from_slice(&self.count.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Item, Token, Tokens, whole};

    fn written(put: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
        let mut buffer = BytesMut::new();
        put(&mut buffer);
        buffer.to_vec()
    }

    #[test]
    fn integers_take_the_shortest_form_and_never_64_bits() {
        let cases: [(i64, &[u8]); 12] = [
            (0, &[0]),
            (127, &[0x7F]),
            (128, &[0xCC, 128]),
            (256, &[0xCD, 1, 0]),
            (65_536, &[0xCE, 0, 1, 0, 0]),
            (4_294_967_295, &[0xCE, 0xFF, 0xFF, 0xFF, 0xFF]),
            (4_294_967_296, &[0xCB, 0x41, 0xF0, 0, 0, 0, 0, 0, 0]),
            (-32, &[0xE0]),
            (-33, &[0xD0, 0xDF]),
            (-129, &[0xD1, 0xFF, 0x7F]),
            (-2_147_483_648, &[0xD2, 0x80, 0, 0, 0]),
            (-2_147_483_649, &[0xCB, 0xC1, 0xE0, 0, 0, 0, 0x20, 0, 0]),
        ];
        for (number, bytes) in cases {
            assert_eq!(written(|b| put_int(b, number)), bytes, "{number}");
            assert_eq!(written(|b| put_number(b, number as f64)), bytes, "{number}");
        }
        assert_eq!(written(|b| put_number(b, 1.5))[0], 0xCB);
        assert_eq!(written(|b| put_number(b, f64::NAN))[0], 0xCB);
    }

    #[test]
    fn text_of_every_length_comes_back() {
        for length in [0, 31, 32, 255, 256, 65_535, 65_536] {
            let text = "x".repeat(length);
            let bytes = written(|b| put_text(b, &text));
            assert_eq!(whole(&bytes).unwrap().raw.item(), Item::Text(&text), "{length}");
            let bytes = written(|b| put_bytes(b, text.as_bytes()));
            assert_eq!(whole(&bytes).unwrap().raw.item(), Item::Bytes(text.as_bytes()), "{length}");
        }
    }

    #[test]
    fn map_counts_its_entries() {
        let bytes = written(|buffer| {
            let mut map = MapWriter::begin(buffer);
            map.bool("ok", true);
            let mut inner = map.map("data");
            inner.int("n", 1);
            inner.end();
            map.end();
        });
        assert_eq!(bytes, b"\xDE\0\x02\xA2ok\xC3\xA4data\xDE\0\x01\xA1n\x01");
        let tokens: Vec<_> = Tokens::of(whole(&bytes).unwrap().raw).collect();
        assert_eq!(tokens[0], Token::Map(2));
        assert_eq!(tokens.len(), 7);
    }
}
