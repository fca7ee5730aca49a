//! The view of a stream chunk: one piece of an answer, its place, and how the stream ends. Never orders chunks.

use crate::builder::FrameBuilder;
use crate::error::FrameError;
use crate::frame::Frame;
use crate::head::FrameHead;
use crate::kind::FrameKind;
use crate::limits::Limits;
use crate::names::{ERR, ETYPE, META, SID};
use crate::stream::{filled, filled_attr, sid_and_text};

/// A stream chunk as text fields. Optional fields that are empty in a frame read as `None`, and empty ones are not
/// written; attributes without a field here are dropped by [`StreamChunk::to_frame`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamChunk<'a> {
    /// Stream session id; required, may be empty.
    pub sid: &'a str,
    /// Place in the stream.
    pub seq: i32,
    /// Whether this is the last chunk.
    pub done: bool,
    /// Error text. Read from attribute `err`, whatever the flag says.
    pub error: Option<&'a str>,
    /// `text`, `thought`, `tool`, `structured` or another word; see [`StreamChunk::etype_or_text`].
    pub etype: Option<&'a str>,
    /// Flat JSON object, as text that is neither checked nor changed. Writers should keep to strict JSON with
    /// strings, numbers, booleans and null; upstream readers know no arrays and no `\uXXXX`.
    pub meta: Option<&'a str>,
    /// The piece itself; the frame's data. Empty on the last chunk by custom.
    pub text: &'a str,
}

impl<'a> StreamChunk<'a> {
    /// Reads a frame of kind [`FrameKind::StreamChunk`]. Of the flags only `done` is read.
    ///
    /// # Errors
    /// [`FrameError::WrongKind`], [`FrameError::MissingAttribute`] without `sid`, [`FrameError::DataNotText`].
    pub fn from_frame(frame: &'a Frame) -> Result<Self, FrameError> {
        let (sid, text) = sid_and_text(frame, FrameKind::StreamChunk)?;
        Ok(Self {
            sid,
            seq: frame.seq(),
            done: frame.flags().done(),
            error: filled_attr(frame, ERR),
            etype: filled_attr(frame, ETYPE),
            meta: filled_attr(frame, META),
            text,
        })
    }

    /// What the chunk is; `text` if it does not say.
    pub fn etype_or_text(&self) -> &'a str {
        self.etype.unwrap_or("text")
    }

    /// Builds the frame; attribute order `sid, err, etype, meta`, flags from `done`, `error` and `meta`.
    ///
    /// # Errors
    /// As [`FrameBuilder::new`].
    pub fn to_frame(&self, limits: &Limits) -> Result<Frame, FrameError> {
        let attrs = [
            Some((SID, self.sid)),
            filled(ERR, self.error),
            filled(ETYPE, self.etype),
            filled(META, self.meta),
        ];
        let head = FrameHead::new(FrameKind::StreamChunk).seq(self.seq).done(self.done);
        let attrs = attrs.into_iter().flatten();
        let mut builder = FrameBuilder::new(head, attrs, self.text.len(), limits)?;
        builder.push(self.text.as_bytes())?;
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Flags;

    #[test]
    fn empty_optional_values_are_left_out() {
        let chunk = StreamChunk { sid: "", error: Some(""), meta: Some(""), ..StreamChunk::default() };
        let frame = chunk.to_frame(&Limits::EVENTMESH).unwrap();
        assert_eq!(frame.attrs().collect::<Vec<_>>(), [("sid", "")]);
        assert_eq!(frame.flags(), Flags::NONE);
        let read = StreamChunk::from_frame(&frame).unwrap();
        assert_eq!((read.error, read.meta, read.etype_or_text()), (None, None, "text"));
    }

    #[test]
    fn chunk_needs_a_session_and_text() {
        let limits = &Limits::EVENTMESH;
        let nobody = Frame::build(FrameKind::StreamChunk, [("err", "x")], b"", limits).unwrap();
        assert_eq!(StreamChunk::from_frame(&nobody), Err(FrameError::MissingAttribute { name: "sid" }));
        let binary = Frame::build(FrameKind::StreamChunk, [("sid", "s")], b"ab\xFF", limits).unwrap();
        assert_eq!(StreamChunk::from_frame(&binary), Err(FrameError::DataNotText { offset: 2 }));
    }
}
