//! The private attribute: what only the adaptor of a message's origin understands. At most one a frame, always
//! the first, named `~<adaptor>`. Never looks into its content.

use std::borrow::Cow;

use crate::error::FrameError;
use crate::escape::{escape_into, escaped_len, unescape_bytes};

/// A private attribute to be written, or one taken from a frame to be written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Private<'a> {
    adaptor: &'a str,
    content: Content<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content<'a> {
    Bytes(&'a [u8]),
    Escaped(&'a str),
}

impl<'a> Private<'a> {
    /// Bytes that the builder escapes while it writes, without a buffer in between. `adaptor` is the name without
    /// `~`.
    pub fn bytes(adaptor: &'a str, bytes: &'a [u8]) -> Self {
        Self { adaptor, content: Content::Bytes(bytes) }
    }

    /// Text that is already escaped, as [`Frame::private`](crate::Frame::private) gives it; it is written as it is.
    pub fn escaped(adaptor: &'a str, text: &'a str) -> Self {
        Self { adaptor, content: Content::Escaped(text) }
    }

    /// The adaptor's name, without `~`.
    pub fn adaptor(&self) -> &'a str {
        self.adaptor
    }

    /// The content as bytes; borrowed unless it is escaped text with characters above U+007F.
    ///
    /// # Errors
    /// [`FrameError::Escape`] if it is text that is no escaped byte string.
    pub fn to_bytes(&self) -> Result<Cow<'a, [u8]>, FrameError> {
        match self.content {
            Content::Bytes(bytes) => Ok(Cow::Borrowed(bytes)),
            Content::Escaped(text) => unescape_bytes(text),
        }
    }

    /// Bytes of the value in a frame.
    pub(crate) fn value_len(&self) -> usize {
        match self.content {
            Content::Bytes(bytes) => escaped_len(bytes),
            Content::Escaped(text) => text.len(),
        }
    }

    /// Appends the value, exactly [`Private::value_len`] bytes.
    pub(crate) fn write_value(&self, out: &mut Vec<u8>) {
        match self.content {
            Content::Bytes(bytes) => escape_into(bytes, out),
            Content::Escaped(text) => out.extend_from_slice(text.as_bytes()),
        }
    }
}
