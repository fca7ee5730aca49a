//! The view of a stream request: who is asked, for what, and where the answer goes. Never starts a stream.

use crate::builder::FrameBuilder;
use crate::error::FrameError;
use crate::frame::Frame;
use crate::head::FrameHead;
use crate::kind::FrameKind;
use crate::limits::Limits;
use crate::names::{CONV, MODEL, SID, STREAM_REPLY_TO};
use crate::stream::{filled, filled_attr, sid_and_text};

/// A stream request as text fields. Optional fields that are empty in a frame read as `None`, and empty ones are
/// not written; attributes without a field here are dropped by [`StreamRequest::to_frame`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamRequest<'a> {
    /// Stream session id, `<workerId>:<32 hex>`; required, may be empty.
    pub sid: &'a str,
    /// Reply address, `parent#lite`.
    pub reply_to: Option<&'a str>,
    /// Model or capability id.
    pub model: Option<&'a str>,
    /// Conversation id.
    pub conversation: Option<&'a str>,
    /// The prompt; the frame's data.
    pub prompt: &'a str,
}

impl<'a> StreamRequest<'a> {
    /// Reads a frame of kind [`FrameKind::StreamRequest`].
    ///
    /// # Errors
    /// [`FrameError::WrongKind`], [`FrameError::MissingAttribute`] without `sid`, [`FrameError::DataNotText`].
    pub fn from_frame(frame: &'a Frame) -> Result<Self, FrameError> {
        let (sid, prompt) = sid_and_text(frame, FrameKind::StreamRequest)?;
        Ok(Self {
            sid,
            reply_to: filled_attr(frame, STREAM_REPLY_TO),
            model: filled_attr(frame, MODEL),
            conversation: filled_attr(frame, CONV),
            prompt,
        })
    }

    /// Builds the frame; attribute order `sid, replyTo, model, conv`, flags and sequence number 0.
    ///
    /// # Errors
    /// As [`FrameBuilder::new`].
    pub fn to_frame(&self, limits: &Limits) -> Result<Frame, FrameError> {
        let attrs = [
            Some((SID, self.sid)),
            filled(STREAM_REPLY_TO, self.reply_to),
            filled(MODEL, self.model),
            filled(CONV, self.conversation),
        ];
        let head = FrameHead::new(FrameKind::StreamRequest);
        let attrs = attrs.into_iter().flatten();
        let mut builder = FrameBuilder::new(head, attrs, self.prompt.len(), limits)?;
        builder.push(self.prompt.as_bytes())?;
        builder.finish()
    }
}
