//! Why bytes are not a frame, or a frame is not what was asked for. One enum, by cause.
//! Never carries a peer's bytes or text: an error is a few numbers, cheap to make and safe to log.

use std::error::Error;
use std::fmt;

use crate::kind::FrameKind;

/// Why a frame was refused. Offsets and lengths count bytes; offsets start at the first byte of the frame, or of
/// the text for [`FrameError::Escape`].
///
/// Messages contain the words that EventMesh clients look for: `frame too short`, `bad frame magic`,
/// `unsupported frame version`, `attribute count`, `data length`, `attribute name length`,
/// `attribute value length`, `buffer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// Fewer bytes than a header has.
    TooShort {
        /// Bytes of a header.
        need: usize,
        /// Bytes present.
        have: usize,
    },
    /// More bytes than a whole frame may have.
    TooLong {
        /// Bytes of the frame.
        have: usize,
        /// Allowed bytes.
        max: usize,
    },
    /// The first byte is not 0xEF.
    Magic {
        /// The byte found.
        found: u8,
    },
    /// The second byte is not 1.
    Version {
        /// The byte found.
        found: u8,
    },
    /// The third byte is no message type.
    Kind {
        /// The byte found.
        found: u8,
    },
    /// Too many attributes.
    AttributeCount {
        /// Attributes announced.
        have: usize,
        /// Allowed attributes.
        max: usize,
    },
    /// Too much data; lengths above 2,147,483,647 are negative numbers to other implementations.
    DataLength {
        /// Bytes announced.
        have: usize,
        /// Allowed bytes.
        max: usize,
    },
    /// An attribute's name is too long.
    NameLength {
        /// Where the attribute starts.
        offset: usize,
        /// Bytes announced.
        have: usize,
        /// Allowed bytes.
        max: usize,
    },
    /// An attribute's value is too long.
    ValueLength {
        /// Where the attribute starts.
        offset: usize,
        /// Bytes announced.
        have: usize,
        /// Allowed bytes.
        max: usize,
    },
    /// The frame ends before a field does. Bytes that the header announces as data are not counted as present.
    Truncated {
        /// Where the field starts.
        offset: usize,
        /// Bytes of the field.
        need: usize,
        /// Bytes left for it.
        have: usize,
    },
    /// Bytes are left over between the last attribute and the data, that is, the frame is longer than it says.
    Trailing {
        /// Where the surplus starts.
        offset: usize,
        /// Surplus bytes.
        have: usize,
    },
    /// A name or value is not UTF-8.
    Utf8 {
        /// Where the name or value starts.
        offset: usize,
    },
    /// Two attributes have the same name (public ingest only).
    DuplicateName {
        /// Where one of them starts.
        offset: usize,
    },
    /// An attribute has no name (public ingest only).
    EmptyName {
        /// Where the attribute starts.
        offset: usize,
    },
    /// A builder got more or fewer data bytes than were announced.
    DataMismatch {
        /// Bytes announced.
        need: usize,
        /// Bytes pushed, the refused ones included.
        have: usize,
    },
    /// The attributes given to a builder changed between its two passes over them.
    UnstableAttributes,
    /// A view was asked of a frame of another kind.
    WrongKind {
        /// The view's kind.
        expected: FrameKind,
        /// The frame's kind.
        actual: FrameKind,
    },
    /// A view's required attribute is missing.
    MissingAttribute {
        /// Its name.
        name: &'static str,
    },
    /// The data of a stream frame is not UTF-8.
    DataNotText {
        /// Offset of the first bad byte within the data.
        offset: usize,
    },
    /// A private attribute's text holds a character above U+00FF, so it is no escaped byte string.
    Escape {
        /// Offset of the character within the text.
        offset: usize,
    },
}

impl FrameError {
    /// Where the trouble starts, if it has a place.
    pub const fn offset(&self) -> Option<usize> {
        match *self {
            Self::NameLength { offset, .. }
            | Self::ValueLength { offset, .. }
            | Self::Truncated { offset, .. }
            | Self::Trailing { offset, .. }
            | Self::Utf8 { offset }
            | Self::DuplicateName { offset }
            | Self::EmptyName { offset }
            | Self::DataNotText { offset }
            | Self::Escape { offset } => Some(offset),
            Self::Magic { .. } => Some(0),
            Self::Version { .. } => Some(1),
            Self::Kind { .. } => Some(2),
            _ => None,
        }
    }

    /// Whether a limit was exceeded, as opposed to malformed bytes: the same frame may pass under other
    /// [`Limits`](crate::Limits).
    pub const fn is_limit(&self) -> bool {
        matches!(
            self,
            Self::TooLong { .. }
                | Self::AttributeCount { .. }
                | Self::DataLength { .. }
                | Self::NameLength { .. }
                | Self::ValueLength { .. }
        )
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooShort { need, have } => write!(f, "frame too short: {have} bytes, need {need}"),
            Self::TooLong { have, max } => write!(f, "frame length {have} exceeds {max}"),
            Self::Magic { found } => write!(f, "bad frame magic: {found:#04x}"),
            Self::Version { found } => write!(f, "unsupported frame version: {found}"),
            Self::Kind { found } => write!(f, "unknown frame message type: {found}"),
            Self::AttributeCount { have, max } => write!(f, "attribute count {have} exceeds {max}"),
            Self::DataLength { have, max } => write!(f, "data length {have} exceeds {max}"),
            Self::NameLength { offset, have, max } => {
                write!(f, "attribute name length {have} exceeds {max} at offset {offset}")
            }
            Self::ValueLength { offset, have, max } => {
                write!(f, "attribute value length {have} exceeds {max} at offset {offset}")
            }
            Self::Truncated { offset, need, have } => {
                write!(f, "frame buffer ends early at offset {offset}: need {need} bytes, have {have}")
            }
            Self::Trailing { offset, have } => {
                write!(f, "frame buffer has {have} bytes too many at offset {offset}")
            }
            Self::Utf8 { offset } => write!(f, "attribute text at offset {offset} is not utf-8"),
            Self::DuplicateName { offset } => write!(f, "attribute at offset {offset} repeats a name"),
            Self::EmptyName { offset } => write!(f, "attribute at offset {offset} has an empty name"),
            Self::DataMismatch { need, have } => {
                write!(f, "data length mismatch: {need} bytes announced, {have} given")
            }
            Self::UnstableAttributes => write!(f, "attributes changed while the frame was built"),
            Self::WrongKind { expected, actual } => write!(f, "expected a {expected} frame, got {actual}"),
            Self::MissingAttribute { name } => write!(f, "attribute {name} is missing"),
            Self::DataNotText { offset } => write!(f, "stream data is not utf-8 at byte {offset}"),
            Self::Escape { offset } => {
                write!(f, "private attribute holds a character above U+00FF at byte {offset}")
            }
        }
    }
}

impl Error for FrameError {}
