//! The wire unit: cut from input, and put around what is written. Never looks into a payload.
//!
//! ```text
//! type:u8  channel:u16  size:u32  payload[size]  0xCE          all integers big-endian
//! 1 method, 2 content header, 3 content body, 8 heartbeat (channel 0, size 0)
//! protocol header, once, before all others: "AMQP" 0 0 9 1
//! ```

use bytes::{BufMut as _, BytesMut};

use super::methods::Method;

/// What a client sends first, and what it is answered when that is something else.
pub(crate) const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";
/// A heartbeat.
pub(crate) const HEARTBEAT: [u8; 8] = [8, 0, 0, 0, 0, 0, 0, FRAME_END];
/// Bytes around a payload; `frame_max` counts them.
pub(crate) const FRAME_OVERHEAD_BYTES: usize = 8;
/// Smallest `frame_max` that may be negotiated.
pub(crate) const FRAME_MIN_BYTES: u32 = 4096;

const FRAME_END: u8 = 0xCE;
const FRAME_HEAD_BYTES: usize = 7;

/// What a payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameType {
    Method,
    Header,
    Body,
    Heartbeat,
}

impl FrameType {
    fn of(octet: u8) -> Option<Self> {
        Some(match octet {
            1 => Self::Method,
            2 => Self::Header,
            3 => Self::Body,
            8 => Self::Heartbeat,
            _ => return None,
        })
    }

    /// Its octet.
    pub(crate) fn octet(self) -> u8 {
        match self {
            Self::Method => 1,
            Self::Header => 2,
            Self::Body => 3,
            Self::Heartbeat => 8,
        }
    }
}

/// What the front of the input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutFrame<'a> {
    /// A whole one, `bytes` long with everything around it.
    Whole { kind: FrameType, channel: u16, payload: &'a [u8], bytes: usize },
    /// The beginning of one; so many bytes must be there.
    Partial { need: usize },
    /// None: the stream cannot be read any further.
    Bad(FrameFault),
}

/// Why the input is no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameFault {
    #[error("type {0}, all octets = <<>>: unknown_frame")]
    UnknownType(u8),
    #[error("type {kind}, all octets = <<>>: {{frame_too_large,{size},{max}}}")]
    TooLarge { kind: u8, size: usize, max: usize },
    #[error("type {kind}, all octets = <<>>: {{invalid_frame_end_marker,{end}}}")]
    BadEnd { kind: u8, end: u8 },
}

/// Cuts the first frame. A payload a few bytes over the limit passes, as it does elsewhere: it is compared with `frame_max`,
/// not with what is left of it.
pub(crate) fn next_frame(input: &[u8], frame_max: usize) -> CutFrame<'_> {
    let Some((&[kind, c0, c1, s0, s1, s2, s3], rest)) = input.split_first_chunk::<FRAME_HEAD_BYTES>() else {
        return match input.first() {
            Some(octet) if FrameType::of(*octet).is_none() => CutFrame::Bad(FrameFault::UnknownType(*octet)),
            _ => CutFrame::Partial { need: FRAME_HEAD_BYTES },
        };
    };
    let Some(frame_type) = FrameType::of(kind) else { return CutFrame::Bad(FrameFault::UnknownType(kind)) };
    let size = u32::from_be_bytes([s0, s1, s2, s3]) as usize;
    if size > frame_max {
        let max = frame_max - FRAME_OVERHEAD_BYTES;
        return CutFrame::Bad(FrameFault::TooLarge { kind, size, max });
    }
    let Some((payload, [end, ..])) = rest.split_at_checked(size) else {
        return CutFrame::Partial { need: size + FRAME_OVERHEAD_BYTES };
    };
    if *end != FRAME_END {
        return CutFrame::Bad(FrameFault::BadEnd { kind, end: *end });
    }
    let channel = u16::from_be_bytes([c0, c1]);
    CutFrame::Whole { kind: frame_type, channel, payload, bytes: size + FRAME_OVERHEAD_BYTES }
}

/// Puts a frame around what `write` writes.
pub(crate) fn put_frame(
    out: &mut BytesMut,
    kind: FrameType,
    channel: u16,
    write: impl FnOnce(&mut BytesMut),
) {
    out.put_u8(kind.octet());
    out.put_u16(channel);
    let size_at = out.len();
    out.put_u32(0);
    let start = out.len();
    write(out);
    let size = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(size_at..start) {
        place.copy_from_slice(&size.to_be_bytes());
    }
    out.put_u8(FRAME_END);
}

/// Appends a method frame.
pub(crate) fn put_method(out: &mut BytesMut, channel: u16, method: &Method<'_>) {
    put_frame(out, FrameType::Method, channel, |out| method.encode(out));
}
