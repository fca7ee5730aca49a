//! The frame: one validated buffer and a few numbers read from it. Never changes, never copies its bytes.

use std::fmt;

use bytes::Bytes;

use crate::attrs::{Attrs, text};
use crate::kind::{Flags, FrameKind};
use crate::layout::{HEADER_BYTES, Header, RawAttribute};
use crate::names::PRIVATE_PREFIX;
use crate::unique::NameIndex;

/// A message inside framegate: an immutable buffer of bytes that were checked once, read through views.
///
/// A clone shares the buffer (the first clone of a freshly built frame makes a counter of 24 bytes, later ones
/// cost one increment). Equality compares the bytes.
#[derive(Clone)]
pub struct Frame {
    bytes: Bytes,
    names: NameIndex,
    data_start: u32,
    seq: i32,
    count: u16,
    kind: FrameKind,
    flags: Flags,
}

impl Frame {
    /// Over bytes that parse has checked or a builder has written; the header is theirs.
    #[inline]
    pub(crate) fn over(bytes: Bytes, header: Header, names: NameIndex) -> Self {
        let Header { kind, flags, seq, count, data_bytes } = header;
        let data_start = bytes.len() as u32 - data_bytes;
        Self { bytes, names, data_start, seq, count, kind, flags }
    }

    /// What the frame is.
    #[inline]
    pub fn kind(&self) -> FrameKind {
        self.kind
    }

    /// The header's flags, reserved bits included.
    #[inline]
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// The place of a chunk in its stream; 0 for other kinds unless the origin wrote something else.
    #[inline]
    pub fn seq(&self) -> i32 {
        self.seq
    }

    /// The value of an attribute, or `None` if there is none of this name. Of duplicates the last one counts. An
    /// empty value is not an absent one.
    ///
    /// Parse leaves a filter and hints, so that most lookups of absent names look at nothing and most others at one
    /// attribute. If parse has seen that no name stands twice, the first match is the answer, else the search goes
    /// on to the end. It does not rely on the canonical order: frames of other implementations have other orders.
    #[inline]
    pub fn attr(&self, name: &str) -> Option<&str> {
        self.names.find(self.area(), name.as_bytes()).map(text)
    }

    /// All attributes in wire order, duplicates and the private one included.
    #[inline]
    pub fn attrs(&self) -> Attrs<'_> {
        Attrs::new(self.area(), self.count)
    }

    /// Number of attributes, at most 1024.
    #[inline]
    pub fn attr_count(&self) -> usize {
        self.count.into()
    }

    /// The private attribute as `(adaptor, escaped)`: the first attribute, if its name starts with `~`. The adaptor
    /// is the name without `~`; the text is a byte string for [`unescape_bytes`](crate::unescape_bytes).
    #[inline]
    pub fn private(&self) -> Option<(&str, &str)> {
        let first = RawAttribute::split(self.area())?;
        if first.name.first() != Some(&(PRIVATE_PREFIX as u8)) {
            return None;
        }
        let adaptor = text(first.name).strip_prefix(PRIVATE_PREFIX)?;
        Some((adaptor, text(first.value)))
    }

    /// The data, as it was received.
    #[inline]
    pub fn data(&self) -> &[u8] {
        self.bytes.get(self.data_start as usize..).unwrap_or_default()
    }

    /// The data as a slice that shares the frame's buffer.
    #[inline]
    pub fn data_bytes(&self) -> Bytes {
        self.bytes.slice(self.data_start as usize..)
    }

    /// The whole frame; exactly what storage appends and a peer gets.
    #[inline]
    pub fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The whole frame, without the view.
    #[inline]
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    #[inline(always)]
    pub(crate) fn area(&self) -> &[u8] {
        self.bytes.get(HEADER_BYTES..self.data_start as usize).unwrap_or_default()
    }
}

impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Frame {}

/// Numbers and attribute names only: values and data are the users' and may be secret or large.
impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("kind", &self.kind)
            .field("flags", &self.flags.bits())
            .field("seq", &self.seq)
            .field("names", &self.attrs().map(|(name, _)| name).collect::<Vec<_>>())
            .field("data_bytes", &self.data().len())
            .finish()
    }
}
