//! The byte layout of a frame, and nothing above single fields: no limits on attributes, no text.
//!
//! ```text
//! offset  size  field        all integers big-endian; no checksum, no outer length
//! 0       1     magic        0xEF
//! 1       1     version      1
//! 2       1     kind         1 stream request, 2 stream chunk, 3 event
//! 3       1     flags        1 done, 2 has error, 4 has meta, others reserved
//! 4       4     seq          signed; place in the stream for a chunk, else 0
//! 8       2     count        number of attributes
//! 10      4     data length  bytes
//! 14      ..    attributes   count times: name length u16, name, value length u32, value; both UTF-8
//! ..      ..    data         raw bytes, up to the end
//! ```

use crate::error::FrameError;
use crate::kind::{Flags, FrameKind};
use crate::limits::Limits;

/// Bytes before the first attribute.
pub(crate) const HEADER_BYTES: usize = 14;
/// Bytes of an attribute's two length fields.
pub(crate) const ATTRIBUTE_BYTES: usize = 6;

const MAGIC: u8 = 0xEF;
const VERSION: u8 = 1;

/// The first 14 bytes, checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) kind: FrameKind,
    pub(crate) flags: Flags,
    pub(crate) seq: i32,
    pub(crate) count: u16,
    pub(crate) data_bytes: u32,
}

impl Header {
    /// Reads the header and checks count and data length against the limits, before anything else is looked at.
    #[inline]
    pub(crate) fn read(bytes: &[u8], limits: &Limits) -> Result<Self, FrameError> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(FrameError::TooShort { need: HEADER_BYTES, have: bytes.len() });
        };
        let &[magic, version, kind, flags, s0, s1, s2, s3, c0, c1, d0, d1, d2, d3] = header;
        if magic != MAGIC {
            return Err(FrameError::Magic { found: magic });
        }
        if version != VERSION {
            return Err(FrameError::Version { found: version });
        }
        let kind = FrameKind::from_code(kind)?;
        let count = u16::from_be_bytes([c0, c1]);
        if usize::from(count) > limits.attributes() {
            return Err(FrameError::AttributeCount { have: count.into(), max: limits.attributes() });
        }
        let data_bytes = u32::from_be_bytes([d0, d1, d2, d3]);
        if data_bytes as usize > limits.data_bytes() {
            return Err(FrameError::DataLength { have: data_bytes as usize, max: limits.data_bytes() });
        }
        let seq = i32::from_be_bytes([s0, s1, s2, s3]);
        Ok(Self { kind, flags: Flags::from_bits(flags), seq, count, data_bytes })
    }

    /// The 14 bytes.
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let [s0, s1, s2, s3] = self.seq.to_be_bytes();
        let [c0, c1] = self.count.to_be_bytes();
        let [d0, d1, d2, d3] = self.data_bytes.to_be_bytes();
        let (kind, flags) = (self.kind.code(), self.flags.bits());
        [MAGIC, VERSION, kind, flags, s0, s1, s2, s3, c0, c1, d0, d1, d2, d3]
    }
}

/// One attribute as bytes, and what follows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawAttribute<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) rest: &'a [u8],
}

impl<'a> RawAttribute<'a> {
    /// The attribute at the start of `area`; `None` if `area` ends within it.
    #[inline(always)]
    pub(crate) fn split(area: &'a [u8]) -> Option<Self> {
        let (length, rest) = area.split_first_chunk::<2>()?;
        let (name, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        Some(Self { name, value, rest })
    }

    /// Why [`RawAttribute::split`] found none in `area`, which starts at `offset` of the frame. A length over its
    /// limit is named before the end of the frame is.
    #[cold]
    pub(crate) fn explain(area: &[u8], offset: usize, limits: &Limits) -> FrameError {
        let cut = |at: usize, need: usize, rest: &[u8]| FrameError::Truncated {
            offset: offset + at,
            need,
            have: rest.len(),
        };
        let Some((length, rest)) = area.split_first_chunk::<2>() else {
            return cut(0, 2, area);
        };
        let name_bytes = usize::from(u16::from_be_bytes(*length));
        if name_bytes > limits.name_bytes() {
            return FrameError::NameLength { offset, have: name_bytes, max: limits.name_bytes() };
        }
        let Some((_, rest)) = rest.split_at_checked(name_bytes) else {
            return cut(2, name_bytes, rest);
        };
        let Some((length, rest)) = rest.split_first_chunk::<4>() else {
            return cut(2 + name_bytes, 4, rest);
        };
        let value_bytes = u32::from_be_bytes(*length) as usize;
        if value_bytes > limits.value_bytes() {
            return FrameError::ValueLength { offset, have: value_bytes, max: limits.value_bytes() };
        }
        cut(ATTRIBUTE_BYTES + name_bytes, value_bytes, rest)
    }
}
