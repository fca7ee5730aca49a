//! What a frame to be built says before its attributes, and how its flags come about.
//! Never writes bytes: the builder does.

use crate::kind::{Flags, FrameKind};
use crate::names::{ERR, META};
use crate::private::Private;

/// Kind, flags, sequence number and private attribute of a frame to be built.
///
/// Unless [`FrameHead::flags`] is called, the builder derives the flags of a stream chunk from its attributes
/// (`err` that is not empty, `meta`), and writes 0 for other kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead<'a> {
    pub(crate) kind: FrameKind,
    pub(crate) flags: Option<Flags>,
    pub(crate) done: bool,
    pub(crate) seq: i32,
    pub(crate) private: Option<Private<'a>>,
}

impl<'a> FrameHead<'a> {
    /// A head with derived flags, sequence number 0 and no private attribute.
    pub const fn new(kind: FrameKind) -> Self {
        Self { kind, flags: None, done: false, seq: 0, private: None }
    }

    /// Exactly these flags, whatever the attributes and [`FrameHead::done`] say; for building a parsed frame again.
    #[must_use]
    pub const fn flags(mut self, flags: Flags) -> Self {
        self.flags = Some(flags);
        self
    }

    /// Whether this is the last chunk, beside the derived flags.
    #[must_use]
    pub const fn done(mut self, done: bool) -> Self {
        self.done = done;
        self
    }

    /// The place of a chunk in its stream.
    #[must_use]
    pub const fn seq(mut self, seq: i32) -> Self {
        self.seq = seq;
        self
    }

    /// The private attribute; it is written before all others.
    #[must_use]
    pub const fn private(mut self, private: Option<Private<'a>>) -> Self {
        self.private = private;
        self
    }

    /// The flags to start with; [`note`] adds to them.
    #[inline]
    pub(crate) fn first_flags(&self) -> Flags {
        self.flags.unwrap_or(Flags::NONE.with(Flags::DONE, self.done))
    }

    /// Whether [`note`] has to see the attributes.
    #[inline]
    pub(crate) fn derives_flags(&self) -> bool {
        self.flags.is_none() && self.kind == FrameKind::StreamChunk
    }
}

/// The flags after one more attribute. Of duplicates the last one counts.
pub(crate) fn note(flags: Flags, name: &str, value: &str) -> Flags {
    match name {
        ERR => flags.with(Flags::HAS_ERROR, !value.is_empty()),
        META => flags.with(Flags::HAS_META, true),
        _ => flags,
    }
}
