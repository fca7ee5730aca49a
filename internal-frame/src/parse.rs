//! From bytes to a frame: one pass, no allocation, total. Never copies, and never trusts a length before it has
//! been compared with its limit and with the bytes at hand.

use bytes::Bytes;

use crate::error::FrameError;
use crate::frame::Frame;
use crate::layout::{HEADER_BYTES, Header, RawAttribute};
use crate::limits::{Limits, NameRule};
use crate::unique::{NameIndex, NameScan};

impl Frame {
    /// Checks bytes that must be exactly one frame, and keeps them as they are.
    ///
    /// Checked in this order: at least 14 bytes, magic, version, kind, attribute count, data length, length of the
    /// whole; then each attribute's lengths, UTF-8 and, under [`NameRule::Public`], its name; then that nothing is
    /// left over. Under [`NameRule::Trusted`] duplicate names are kept and the last one counts. Public ingest of
    /// many attributes stays below about 10,000 name comparisons (sorting, not all pairs).
    ///
    /// # Errors
    /// Any [`FrameError`] up to [`FrameError::EmptyName`].
    #[inline]
    pub fn parse(bytes: Bytes, limits: &Limits) -> Result<Frame, FrameError> {
        let (header, names) = check(&bytes, limits)?;
        Ok(Frame::over(bytes, header, names))
    }

    /// Whether this frame, as it is, would also parse under other limits.
    ///
    /// # Errors
    /// The limit that it breaks, or the name that public ingest refuses.
    pub fn fits(&self, limits: &Limits) -> Result<(), FrameError> {
        check(self.as_bytes(), limits).map(|_| ())
    }
}

fn check(bytes: &[u8], limits: &Limits) -> Result<(Header, NameIndex), FrameError> {
    let header = Header::read(bytes, limits)?;
    if bytes.len() > limits.frame_bytes() {
        return Err(FrameError::TooLong { have: bytes.len(), max: limits.frame_bytes() });
    }
    let body = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let data_bytes = header.data_bytes as usize;
    let Some(area) = body.len().checked_sub(data_bytes).and_then(|end| body.get(..end)) else {
        return Err(FrameError::Truncated { offset: HEADER_BYTES, need: data_bytes, have: body.len() });
    };
    let names = check_attributes(area, header.count, limits)?;
    Ok((header, names))
}

/// Checks that `area` is exactly `count` attributes. If all of it is ASCII, length fields included, so are the
/// names and values, and one vectorised test has validated them all; if it is UTF-8, they must start and end between
/// characters; otherwise (a length byte above 127) each is validated on its own.
#[inline]
fn check_attributes(area: &[u8], count: u16, limits: &Limits) -> Result<NameIndex, FrameError> {
    let (name_bytes_max, value_bytes_max) = (limits.name_bytes(), limits.value_bytes());
    let public = matches!(limits.names, NameRule::Public);
    let ascii = area.is_ascii();
    let whole = if ascii { None } else { std::str::from_utf8(area).ok() };
    let mut scan = NameScan::new();
    let mut rest = area;
    for _ in 0..count {
        let start = area.len() - rest.len();
        let offset = HEADER_BYTES + start;
        let Some(RawAttribute { name, value, rest: behind }) = RawAttribute::split(rest) else {
            return Err(RawAttribute::explain(rest, offset, limits));
        };
        if name.len() > name_bytes_max {
            return Err(FrameError::NameLength { offset, have: name.len(), max: name_bytes_max });
        }
        if value.len() > value_bytes_max {
            return Err(FrameError::ValueLength { offset, have: value.len(), max: value_bytes_max });
        }
        if !ascii {
            check_text(whole, area, start + 2, name.len())?;
            check_text(whole, area, start + 6 + name.len(), value.len())?;
        }
        let fresh = scan.add(area.get(..start).unwrap_or_default(), name);
        if public && name.is_empty() {
            return Err(FrameError::EmptyName { offset });
        }
        if public && !fresh {
            return Err(FrameError::DuplicateName { offset });
        }
        rest = behind;
    }
    if !rest.is_empty() {
        let offset = HEADER_BYTES + area.len() - rest.len();
        return Err(FrameError::Trailing { offset, have: rest.len() });
    }
    if public {
        return scan
            .finish_unique(area)
            .map_err(|start| FrameError::DuplicateName { offset: HEADER_BYTES + start });
    }
    Ok(scan.finish())
}

#[inline]
fn check_text(whole: Option<&str>, area: &[u8], start: usize, bytes: usize) -> Result<(), FrameError> {
    let piece = start..start + bytes;
    let is_text = match whole {
        Some(whole) => whole.get(piece).is_some(),
        None => area.get(piece).is_some_and(|bytes| std::str::from_utf8(bytes).is_ok()),
    };
    if is_text { Ok(()) } else { Err(FrameError::Utf8 { offset: HEADER_BYTES + start }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [u8; 14] = [0xEF, 1, 3, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2];

    fn parse(attributes: &[u8], data: &[u8]) -> Result<Frame, FrameError> {
        let bytes = [&HEADER[..], attributes, data].concat();
        Frame::parse(bytes.into(), &Limits::EVENTMESH)
    }

    #[test]
    fn errors_name_the_place_and_the_numbers() {
        let attribute = b"\x00\x02id\x00\x00\x00\x01x";
        assert!(parse(attribute, b"{}").is_ok());
        assert_eq!(parse(attribute, b"{}!").unwrap_err(), FrameError::Trailing { offset: 23, have: 1 });
        assert_eq!(
            parse(attribute, b"{").unwrap_err(),
            FrameError::Truncated { offset: 22, need: 1, have: 0 }
        );
        assert_eq!(parse(b"", b"{").unwrap_err(), FrameError::Truncated { offset: 14, need: 2, have: 1 });
        assert_eq!(
            parse(b"\x00\x02id\x00", b"{}").unwrap_err(),
            FrameError::Truncated { offset: 18, need: 4, have: 1 }
        );
        assert_eq!(
            parse(b"\x00\x02\xC3(\x00\x00\x00\x00", b"{}").unwrap_err(),
            FrameError::Utf8 { offset: 16 }
        );
        assert_eq!(
            parse(b"\x00\x02id\xFF\xFF\xFF\xFF", b"{}").unwrap_err(),
            FrameError::ValueLength { offset: 14, have: 0xFFFF_FFFF, max: 4096 }
        );
    }

    #[test]
    fn text_beside_a_length_byte_above_127_is_still_checked() {
        let mut attribute = b"\x00\x01k\x00\x00\x00\xC3".to_vec();
        attribute.extend([b'v'; 0xC3]);
        assert!(parse(&attribute, b"{}").is_ok());
        *attribute.last_mut().unwrap() = 0xC3;
        assert_eq!(parse(&attribute, b"{}").unwrap_err(), FrameError::Utf8 { offset: 21 });
    }

    #[test]
    fn whole_frame_is_bounded_too() {
        let limits = Limits { frame_bytes_max: 16, ..Limits::EVENTMESH };
        let mut bytes = HEADER.to_vec();
        bytes[9] = 0;
        bytes.extend(b"{}");
        assert!(Frame::parse(bytes.clone().into(), &limits).is_ok());
        bytes[13] = 3;
        bytes.push(0);
        assert_eq!(
            Frame::parse(bytes.into(), &limits).unwrap_err(),
            FrameError::TooLong { have: 17, max: 16 }
        );
    }
}
