//! Content: the header frame and the body frames behind a method that carries a message.
//!
//! ```text
//! header payload: class:u16 weight:u16(0) body-size:u64 properties
//! ```

use bytes::{BufMut as _, Bytes, BytesMut};
use framegate_adaptor_api::Outbound;

use super::field::{DecodeError, Reader};
use super::frame::{FRAME_OVERHEAD_BYTES, FrameType, put_frame};

/// The only class whose methods carry content.
pub(crate) const BASIC: u16 = 60;

/// Bodies from this size on are written from where they are.
const SHARED_BYTES_MIN: usize = 4096;

/// The head of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContentHeader<'a> {
    pub(crate) class: u16,
    pub(crate) weight: u16,
    pub(crate) body_bytes: u64,
    /// Flags and values.
    pub(crate) properties: &'a [u8],
}

impl<'a> ContentHeader<'a> {
    pub(crate) fn parse(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let class = u16::from_be_bytes(reader.array()?);
        let weight = u16::from_be_bytes(reader.array()?);
        let body_bytes = u64::from_be_bytes(reader.array()?);
        Ok(Self { class, weight, body_bytes, properties: reader.rest() })
    }

    pub(crate) fn put(
        class: u16,
        body_bytes: u64,
        out: &mut BytesMut,
        properties: impl FnOnce(&mut BytesMut),
    ) {
        out.put_u16(class);
        out.put_u16(0);
        out.put_u64(body_bytes);
        properties(out);
    }
}

/// Appends header and body frames. `properties` writes flags and values. A large body is not copied.
pub(crate) fn put_content(
    out: &mut Outbound,
    channel: u16,
    frame_max: usize,
    body: &Bytes,
    properties: impl FnOnce(&mut BytesMut),
) {
    put_frame(out.buffer(), FrameType::Header, channel, |out| {
        ContentHeader::put(BASIC, body.len() as u64, out, properties);
    });
    let room = frame_max.saturating_sub(FRAME_OVERHEAD_BYTES).max(1);
    let mut at = 0;
    while at < body.len() {
        let end = body.len().min(at + room);
        if end - at < SHARED_BYTES_MIN {
            put_frame(out.buffer(), FrameType::Body, channel, |out| {
                out.put_slice(body.get(at..end).unwrap_or_default());
            });
        } else {
            let buffer = out.buffer();
            buffer.put_u8(FrameType::Body.octet());
            buffer.put_u16(channel);
            buffer.put_u32(u32::try_from(end - at).unwrap_or(u32::MAX));
            out.put_bytes(body.slice(at..end));
            out.put(&[0xCE]);
        }
        at = end;
    }
}
