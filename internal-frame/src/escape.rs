//! Byte strings as attribute text: each byte is the code point of the same number (0 to 255), in UTF-8.
//! ASCII bytes stay as they are, others take two bytes, and any bytes come back identical.
//! Never knows what the bytes mean.
//!
//! ```text
//! byte 0x00..=0x7F   0xxxxxxx
//! byte 0x80..=0xFF   110000xx 10xxxxxx      (lead byte 0xC2 or 0xC3)
//! ```

use std::borrow::Cow;

use bytes::BufMut;

use crate::error::FrameError;

/// Lead byte of the highest code points up to U+00FF.
const LEAD_MAX: u8 = 0xC3;

/// Any bytes as text. ASCII bytes are borrowed, others are copied into one allocation of the exact size.
pub fn escape_bytes(bytes: &[u8]) -> Cow<'_, str> {
    if bytes.is_ascii()
        && let Ok(text) = std::str::from_utf8(bytes)
    {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(escaped_len(bytes));
    text.extend(bytes.iter().copied().map(char::from));
    Cow::Owned(text)
}

/// The bytes of an escaped text. ASCII text is borrowed, other text is copied into one allocation.
///
/// # Errors
/// [`FrameError::Escape`] if a character is above U+00FF.
pub fn unescape_bytes(text: &str) -> Result<Cow<'_, [u8]>, FrameError> {
    if text.is_ascii() {
        return Ok(Cow::Borrowed(text.as_bytes()));
    }
    let mut bytes = Vec::with_capacity(text.len());
    unescape_into(text, &mut bytes)?;
    Ok(Cow::Owned(bytes))
}

/// Appends the bytes of an escaped text to a buffer, for an adaptor that copies them to its wire. At most
/// `text.len()` bytes; a buffer of fixed size must have room for them.
///
/// # Errors
/// [`FrameError::Escape`] if a character is above U+00FF; then nothing was appended.
pub fn unescape_into(text: &str, out: &mut impl BufMut) -> Result<(), FrameError> {
    if text.is_ascii() {
        out.put_slice(text.as_bytes());
        return Ok(());
    }
    if let Some(offset) = text.bytes().position(|byte| byte > LEAD_MAX) {
        return Err(FrameError::Escape { offset });
    }
    for byte in text.chars().filter_map(|character| u8::try_from(character).ok()) {
        out.put_u8(byte);
    }
    Ok(())
}

/// Bytes that `bytes` take once escaped.
pub(crate) fn escaped_len(bytes: &[u8]) -> usize {
    bytes.len() + bytes.iter().filter(|byte| !byte.is_ascii()).count()
}

/// Appends `bytes` escaped; exactly [`escaped_len`] bytes.
pub(crate) fn escape_into(bytes: &[u8], out: &mut Vec<u8>) {
    if bytes.is_ascii() {
        return out.extend_from_slice(bytes);
    }
    for &byte in bytes {
        if byte.is_ascii() {
            out.push(byte);
        } else {
            out.extend_from_slice(&[0xC0 | byte >> 6, 0x80 | byte & 0x3F]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        let text = escape_bytes(&all);
        assert_eq!(text.len(), 384);
        assert_eq!(text.chars().map(u32::from).collect::<Vec<_>>(), (0..=255).collect::<Vec<_>>());
        assert_eq!(unescape_bytes(&text).unwrap(), all);
        let mut written = Vec::new();
        escape_into(&all, &mut written);
        assert_eq!(written, text.as_bytes());
        assert_eq!(escaped_len(&all), 384);
    }

    #[test]
    fn ascii_is_borrowed_both_ways() {
        assert!(matches!(escape_bytes(b"{\"a\":1}"), Cow::Borrowed("{\"a\":1}")));
        assert!(matches!(unescape_bytes("{\"a\":1}").unwrap(), Cow::Borrowed(b"{\"a\":1}")));
    }

    #[test]
    fn character_above_ff_is_refused_with_its_place_and_nothing_is_written() {
        let mut out = Vec::new();
        let refused = Err(FrameError::Escape { offset: 3 });
        assert_eq!(unescape_into("a\u{ff}\u{100}b", &mut out), refused);
        assert!(out.is_empty());
        assert_eq!(unescape_bytes("a\u{ff}\u{100}b").map(|_| ()), refused);
    }
}
