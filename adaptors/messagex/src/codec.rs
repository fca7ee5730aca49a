//! Packets: a length and a JSON object. Cuts them from a stream, and writes responses and events in place. Never looks at
//! commands.
//!
//! ```text
//! offset  bytes  field
//! 0       4      payload length n, unsigned, big-endian, 1 to 1,048,576, not counting itself
//! 4       n      payload: UTF-8, one JSON object
//! ```

use bytes::{BufMut as _, Bytes, BytesMut};
use framegate_adaptor_api::{FramingError, Outbound, PREFIX_BYTES, Packet as Cut};

use crate::errors::{Code, Failure};
use crate::json::{put_flag, put_text};
use crate::limits::PAYLOAD_BYTES_MAX;

/// Cuts the next payload off. The length is judged as soon as it is there, before anything is kept for it.
///
/// # Errors
/// `FRAME_EMPTY` or `FRAME_TOO_LARGE`; the stream cannot be read any further.
pub(crate) fn next_packet(input: &[u8]) -> Result<Cut<'_>, Failure> {
    framegate_adaptor_api::next_packet(input, PAYLOAD_BYTES_MAX).map_err(|error| match error {
        FramingError::Empty => Failure::new(Code::FrameEmpty, "Frame length is 0"),
        FramingError::TooLong { bytes, max } => {
            Failure::new(Code::FrameTooLarge, format!("Frame length {bytes} exceeds {max}"))
        }
        other => Failure::new(Code::FrameTooLarge, other.to_string()),
    })
}

/// A packet that is being written into the outbound's current buffer.
#[must_use]
pub(crate) struct Packet {
    start: usize,
}

/// The packet did not fit its limit and was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

impl Packet {
    /// Starts a packet: room for the length.
    pub(crate) fn begin(out: &mut Outbound) -> Self {
        let start = out.buffer().len();
        out.buffer().put_u32(0);
        Self { start }
    }

    /// Payload bytes written so far.
    pub(crate) fn payload_bytes(&self, out: &mut Outbound) -> usize {
        out.buffer().len() - self.start - PREFIX_BYTES
    }

    /// Ends a packet that stands whole in the buffer.
    ///
    /// # Errors
    /// It is too large; nothing of it is left.
    pub(crate) fn end(self, out: &mut Outbound) -> Result<(), TooLarge> {
        self.end_with(Bytes::new(), &[], out)
    }

    /// Ends a packet whose payload goes on with `body`, by reference if it is large, and `tail`.
    ///
    /// # Errors
    /// It is too large; nothing of it is left.
    pub(crate) fn end_with(self, body: Bytes, tail: &[u8], out: &mut Outbound) -> Result<(), TooLarge> {
        let length = self.payload_bytes(out) + body.len() + tail.len();
        let buffer = out.buffer();
        if length > PAYLOAD_BYTES_MAX {
            buffer.truncate(self.start);
            return Err(TooLarge);
        }
        if let Some(place) = buffer.get_mut(self.start..self.start + PREFIX_BYTES) {
            place.copy_from_slice(&(length as u32).to_be_bytes());
        }
        if !body.is_empty() {
            out.put_bytes(body);
        }
        out.put(tail);
        Ok(())
    }
}

/// Writes what stands before the payload of a successful response.
pub(crate) fn begin_success(request_id: &str, out: &mut Outbound) -> Packet {
    let packet = Packet::begin(out);
    put_response_head(out.buffer(), Some(request_id), true);
    out.put(b",\"payload\":");
    packet
}

/// Writes a successful response with the payload that `payload` writes: one JSON object, below the packet's limit.
pub(crate) fn put_success(request_id: &str, out: &mut Outbound, payload: impl FnOnce(&mut BytesMut)) {
    let packet = begin_success(request_id, out);
    payload(out.buffer());
    out.put(b"}");
    if packet.end(out).is_err() {
        let failure = Failure::new(Code::InternalError, "The response does not fit a frame");
        put_failure(Some(request_id), &failure, out);
    }
}

/// Writes a failure response.
pub(crate) fn put_failure(request_id: Option<&str>, failure: &Failure, out: &mut Outbound) {
    let packet = Packet::begin(out);
    let buffer = out.buffer();
    put_response_head(buffer, request_id, false);
    buffer.put_slice(b",\"error\":{\"code\":");
    put_text(buffer, failure.code.as_str());
    buffer.put_slice(b",\"message\":");
    put_text(buffer, &failure.message);
    buffer.put_slice(b"}}");
    // Request ids and messages are bounded far below the limit.
    let _ = packet.end(out);
}

/// Writes what stands before the payload of an event.
pub(crate) fn begin_event(event: &str, out: &mut Outbound) -> Packet {
    let packet = Packet::begin(out);
    let buffer = out.buffer();
    buffer.put_slice(b"{\"version\":1,\"type\":\"EVENT\",\"event\":");
    put_text(buffer, event);
    buffer.put_slice(b",\"payload\":");
    packet
}

/// Writes an event with the small payload that `payload` writes: one JSON object.
pub(crate) fn put_event(event: &str, out: &mut Outbound, payload: impl FnOnce(&mut BytesMut)) {
    let packet = begin_event(event, out);
    payload(out.buffer());
    out.put(b"}");
    // Names and reasons are bounded far below the limit.
    let _ = packet.end(out);
}

fn put_response_head(buffer: &mut BytesMut, request_id: Option<&str>, success: bool) {
    buffer.put_slice(b"{\"version\":1,\"type\":\"RESPONSE\",\"requestId\":");
    match request_id {
        Some(id) => put_text(buffer, id),
        None => buffer.put_slice(b"null"),
    }
    buffer.put_slice(b",\"success\":");
    put_flag(buffer, success);
}

#[cfg(test)]
mod tests {
    use super::*;
    use framegate_adaptor_api::Chunk;

    fn written(out: &mut Outbound) -> Vec<u8> {
        out.take_chunks()
            .into_iter()
            .flat_map(|chunk| match chunk {
                Chunk::Bytes(bytes) => bytes.to_vec(),
                Chunk::EndPacket => Vec::new(),
            })
            .collect()
    }

    #[test]
    fn length_is_judged_before_the_payload_arrives() {
        let whole = PAYLOAD_BYTES_MAX + PREFIX_BYTES;
        assert_eq!(next_packet(&[0, 0x10, 0, 0]), Ok(Cut::Partial { need: whole }));
        for (bytes, code) in [
            ([0, 0, 0, 0], Code::FrameEmpty),
            ([0, 0x10, 0, 1], Code::FrameTooLarge),
            ([0xFF; 4], Code::FrameTooLarge),
        ] {
            assert_eq!(next_packet(&bytes).map_err(|failure| failure.code), Err(code));
        }
    }

    #[test]
    fn packet_of_exactly_the_limit_is_written_and_one_byte_more_leaves_nothing() {
        let mut out = Outbound::default();
        out.put(b"before");
        let packet = Packet::begin(&mut out);
        let body = Bytes::from(vec![b'x'; PAYLOAD_BYTES_MAX - 1]);
        assert_eq!(packet.end_with(body.clone(), b"yz", &mut out), Err(TooLarge));
        assert_eq!(out.len(), 6);
        let packet = Packet::begin(&mut out);
        packet.end_with(body, b"y", &mut out).unwrap();
        let bytes = written(&mut out);
        assert_eq!(&bytes[..10], b"before\0\x10\0\0");
        assert_eq!(bytes.len(), 10 + PAYLOAD_BYTES_MAX);
    }

    #[test]
    fn response_that_does_not_fit_becomes_a_failure() {
        let mut out = Outbound::default();
        put_success("r", &mut out, |buffer| buffer.put_bytes(b' ', PAYLOAD_BYTES_MAX));
        let bytes = written(&mut out);
        assert!(String::from_utf8_lossy(&bytes[4..]).contains("\"code\":\"INTERNAL_ERROR\""));
    }
}
