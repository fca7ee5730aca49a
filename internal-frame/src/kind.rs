//! What a frame is: the message type and the flags of the header's third and fourth byte.
//! Never reads attributes: what `err` and `meta` say is the business of the chunk view.

use std::fmt;
use std::ops::BitOr;

use crate::error::FrameError;

/// Message type of a frame, byte 2 of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// Asks a worker for a stream (wire value 1).
    StreamRequest,
    /// One piece of a stream (wire value 2).
    StreamChunk,
    /// A message: an event, a job, a publish (wire value 3).
    Event,
}

impl FrameKind {
    /// The wire value, 1 to 3.
    #[inline]
    pub const fn code(self) -> u8 {
        match self {
            Self::StreamRequest => 1,
            Self::StreamChunk => 2,
            Self::Event => 3,
        }
    }

    /// The kind of a wire value.
    ///
    /// # Errors
    /// [`FrameError::Kind`] for anything but 1, 2 and 3.
    #[inline]
    pub const fn from_code(code: u8) -> Result<Self, FrameError> {
        match code {
            1 => Ok(Self::StreamRequest),
            2 => Ok(Self::StreamChunk),
            3 => Ok(Self::Event),
            _ => Err(FrameError::Kind { found: code }),
        }
    }
}

impl fmt::Display for FrameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StreamRequest => "stream request",
            Self::StreamChunk => "stream chunk",
            Self::Event => "event",
        })
    }
}

/// Flags of a frame, byte 3 of the header. Bits 3 to 7 are reserved: zero when written, ignored when read,
/// kept when a parsed frame is built again.
///
/// Only [`Flags::DONE`] is ever read back. Whether a chunk has an error or metadata is told by its attributes,
/// because upstream encoders forget the other two bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// Bit 0: the last chunk of its stream.
    pub const DONE: Self = Self(0x01);
    /// Bit 1: attribute `err` is present and not empty.
    pub const HAS_ERROR: Self = Self(0x02);
    /// Bit 2: attribute `meta` is present.
    pub const HAS_META: Self = Self(0x04);

    /// Flags of a header byte; any value is legal.
    #[inline]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The header byte.
    #[inline]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether all bits of `other` are set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether bit 0, the end of a stream, is set.
    #[inline]
    pub const fn done(self) -> bool {
        self.contains(Self::DONE)
    }

    /// These flags with all bits of `other` set or cleared.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Self, set: bool) -> Self {
        if set { Self(self.0 | other.0) } else { Self(self.0 & !other.0) }
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_three_codes_are_kinds() {
        for code in 0..=u8::MAX {
            match FrameKind::from_code(code) {
                Ok(kind) => assert_eq!(kind.code(), code),
                Err(error) => {
                    assert!(!(1..=3).contains(&code));
                    assert_eq!(error, FrameError::Kind { found: code });
                }
            }
        }
    }

    #[test]
    fn flags_keep_reserved_bits() {
        let flags = Flags::from_bits(0xF8) | Flags::DONE;
        assert_eq!(flags.bits(), 0xF9);
        assert!(flags.done());
        assert!(!flags.contains(Flags::DONE | Flags::HAS_META));
        assert_eq!(flags.with(Flags::DONE, false).bits(), 0xF8);
        assert_eq!(flags.with(Flags::HAS_META, true).bits(), 0xFD);
    }
}
