//! Packets: a length and one MessagePack value. Cuts them from a stream and writes them in place.
//!
//! ```text
//! offset  bytes  field
//! 0       4      payload length n, unsigned, big-endian, 0 to 67,108,864, not counting itself
//! 4       n      payload: one MessagePack value; n = 0 is answered as an error, and the stream goes on
//! ```

use bytes::{BufMut as _, BytesMut};
use framegate_adaptor_api::PREFIX_BYTES;

use crate::limits::PAYLOAD_BYTES_MAX;

/// What is at the start of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut<'a> {
    /// A whole packet.
    Whole {
        /// The payload, without the length.
        payload: &'a [u8],
        /// Bytes of the packet, the length included.
        bytes: usize,
    },
    /// The start of one: so many bytes, counted from its start, must be there before another look is worth it.
    Partial { need: usize },
    /// A length above the bound; what follows cannot be found.
    TooLong { bytes: usize },
}

/// Looks at the start of `input`. The length is judged as soon as it is there, before anything is kept for it.
pub(crate) fn next_packet(input: &[u8]) -> Cut<'_> {
    let Some((prefix, rest)) = input.split_first_chunk::<PREFIX_BYTES>() else {
        return Cut::Partial { need: PREFIX_BYTES };
    };
    let length = usize::try_from(u32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
    if length > PAYLOAD_BYTES_MAX {
        return Cut::TooLong { bytes: length };
    }
    let bytes = PREFIX_BYTES + length;
    match rest.get(..length) {
        Some(payload) => Cut::Whole { payload, bytes },
        None => Cut::Partial { need: bytes },
    }
}

/// A packet that is being written at the end of a buffer.
#[must_use]
pub(crate) struct Packet {
    start: usize,
}

impl Packet {
    /// Starts a packet: room for the length.
    pub(crate) fn begin(buffer: &mut BytesMut) -> Self {
        let start = buffer.len();
        buffer.put_u32(0);
        Self { start }
    }

    /// Payload bytes written so far.
    pub(crate) fn payload_bytes(&self, buffer: &BytesMut) -> usize {
        buffer.len() - self.start - PREFIX_BYTES
    }

    /// Ends it. A payload above the bound is taken back, and false returned.
    #[must_use]
    pub(crate) fn end(self, buffer: &mut BytesMut) -> bool {
        let length = self.payload_bytes(buffer);
        if length > PAYLOAD_BYTES_MAX {
            buffer.truncate(self.start);
            return false;
        }
        if let Some(place) = buffer.get_mut(self.start..self.start + PREFIX_BYTES) {
            place.copy_from_slice(&(length as u32).to_be_bytes());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_is_found_at_every_split() {
        let wire = [0, 0, 0, 3, b'a', b'b', b'c', 9];
        for length in 0..4 {
            assert_eq!(next_packet(&wire[..length]), Cut::Partial { need: 4 }, "{length}");
        }
        for length in 4..7 {
            assert_eq!(next_packet(&wire[..length]), Cut::Partial { need: 7 }, "{length}");
        }
        assert_eq!(next_packet(&wire), Cut::Whole { payload: b"abc", bytes: 7 });
        assert_eq!(next_packet(&[0; 5]), Cut::Whole { payload: b"", bytes: 4 });
    }

    #[test]
    fn length_is_judged_by_the_header_alone() {
        let most = (PAYLOAD_BYTES_MAX as u32).to_be_bytes();
        assert_eq!(next_packet(&most), Cut::Partial { need: PAYLOAD_BYTES_MAX + 4 });
        let more = (PAYLOAD_BYTES_MAX as u32 + 1).to_be_bytes();
        assert_eq!(next_packet(&more), Cut::TooLong { bytes: PAYLOAD_BYTES_MAX + 1 });
        assert_eq!(next_packet(&[0xFF; 4]), Cut::TooLong { bytes: 0xFFFF_FFFF });
    }

    #[test]
    fn packet_that_outgrows_the_bound_leaves_nothing() {
        let mut buffer = BytesMut::from(&b"kept"[..]);
        let packet = Packet::begin(&mut buffer);
        buffer.resize(4 + 4 + PAYLOAD_BYTES_MAX + 1, 0);
        assert!(!packet.end(&mut buffer));
        assert_eq!(&buffer[..], b"kept");
        let packet = Packet::begin(&mut buffer);
        buffer.put_slice(b"xyz");
        assert!(packet.end(&mut buffer));
        assert_eq!(&buffer[..], b"kept\0\0\0\x03xyz");
    }
}
