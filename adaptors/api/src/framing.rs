//! Length-prefixed packets, as several stream protocols have them. Cuts what has arrived; never copies, never allocates
//! for what was only announced.
//!
//! ```text
//! 0        4                4 + n
//! | n: u32 | payload        |     big-endian; n counts the payload only, 1 <= n <= max
//! ```

use bytes::{BufMut, BytesMut};

/// Bytes of the length field.
pub const PREFIX_BYTES: usize = 4;

/// What is at the start of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A whole packet.
    Whole {
        /// The payload, without the length.
        payload: &'a [u8],
        /// Bytes of the packet, the length included.
        consumed: usize,
    },
    /// The start of one, or nothing.
    Partial {
        /// Bytes that must be there in all, counted from the start of the packet, before another look is worth it:
        /// 4 while the length is incomplete, then the whole packet. Fits `Progress::need`.
        need: usize,
    },
}

/// A length that ends the stream: what follows it cannot be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FramingError {
    /// The length is zero.
    #[error("packet of 0 bytes")]
    Empty,
    /// The length is above the bound.
    #[error("packet of {bytes} bytes is larger than {max}")]
    TooLong {
        /// Announced, or encoded.
        bytes: usize,
        /// Allowed.
        max: usize,
    },
}

/// Looks at the start of `input`. `max` is the largest payload in bytes. The length is checked as soon as it is there.
///
/// # Errors
/// `Empty`, or `TooLong` against `max`.
pub fn next_packet(input: &[u8], max: usize) -> Result<Packet<'_>, FramingError> {
    let Some((prefix, rest)) = input.split_first_chunk::<PREFIX_BYTES>() else {
        return Ok(Packet::Partial { need: PREFIX_BYTES });
    };
    let bytes = usize::try_from(u32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
    if bytes == 0 {
        return Err(FramingError::Empty);
    }
    if bytes > max {
        return Err(FramingError::TooLong { bytes, max });
    }
    let consumed = PREFIX_BYTES.saturating_add(bytes);
    Ok(match rest.get(..bytes) {
        Some(payload) => Packet::Whole { payload, consumed },
        None => Packet::Partial { need: consumed },
    })
}

/// Appends a packet whose payload `encode` appends. Nothing is left in `into` when it fails.
///
/// # Errors
/// `Empty` or `TooLong` for a payload that the other side would refuse.
pub fn put_packet(
    into: &mut BytesMut,
    max: usize,
    encode: impl FnOnce(&mut BytesMut),
) -> Result<(), FramingError> {
    let start = into.len();
    into.put_u32(0);
    encode(into);
    let bytes = into.len().saturating_sub(start + PREFIX_BYTES);
    let error = match u32::try_from(bytes) {
        Ok(0) => FramingError::Empty,
        Ok(length) if bytes <= max => {
            if let Some(prefix) = into.get_mut(start..start + PREFIX_BYTES) {
                prefix.copy_from_slice(&length.to_be_bytes());
            }
            return Ok(());
        }
        _ => FramingError::TooLong { bytes, max },
    };
    into.truncate(start);
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_is_found_at_every_split() {
        let wire = [0, 0, 0, 3, b'a', b'b', b'c', 9, 9];
        for len in 0..4 {
            assert_eq!(next_packet(&wire[..len], 8), Ok(Packet::Partial { need: 4 }), "{len}");
        }
        for len in 4..7 {
            assert_eq!(next_packet(&wire[..len], 8), Ok(Packet::Partial { need: 7 }), "{len}");
        }
        for len in 7..=9 {
            assert_eq!(
                next_packet(&wire[..len], 8),
                Ok(Packet::Whole { payload: b"abc", consumed: 7 }),
                "{len}"
            );
        }
    }

    #[test]
    fn length_is_checked_before_the_payload_arrives() {
        assert_eq!(next_packet(&[0, 0, 0, 0], 8), Err(FramingError::Empty));
        assert_eq!(next_packet(&[0, 0, 0, 9], 8), Err(FramingError::TooLong { bytes: 9, max: 8 }));
        assert_eq!(next_packet(&[0, 0, 0, 8], 8), Ok(Packet::Partial { need: 12 }));
        let most = next_packet(&[0xff; 4], 1 << 20);
        assert_eq!(most, Err(FramingError::TooLong { bytes: 0xffff_ffff, max: 1 << 20 }));
    }

    #[test]
    fn written_packet_is_read_back() {
        let mut wire = BytesMut::new();
        put_packet(&mut wire, 5, |b| b.put_slice(b"hello")).unwrap();
        put_packet(&mut wire, 5, |b| b.put_slice(b"x")).unwrap();
        let Packet::Whole { payload, consumed } = next_packet(&wire, 5).unwrap() else { panic!("partial") };
        assert_eq!(payload, b"hello");
        assert_eq!(next_packet(&wire[consumed..], 5), Ok(Packet::Whole { payload: b"x", consumed: 5 }));
    }

    #[test]
    fn refused_packet_leaves_nothing_behind() {
        let mut wire = BytesMut::from(&b"kept"[..]);
        let long = put_packet(&mut wire, 2, |b| b.put_slice(b"abc"));
        assert_eq!(long, Err(FramingError::TooLong { bytes: 3, max: 2 }));
        assert_eq!(put_packet(&mut wire, 2, |_| ()), Err(FramingError::Empty));
        assert_eq!(&wire[..], b"kept");
    }
}
