//! The replaceable byte codec: views to bytes and bytes to frames, for each of the three kinds.
//! Never picks itself: which codec a peer speaks is configuration.

use bytes::Bytes;

use crate::chunk::StreamChunk;
use crate::error::FrameError;
use crate::event::Event;
use crate::frame::Frame;
use crate::limits::Limits;
use crate::request::StreamRequest;

/// Bytes that a peer exchanges instead of frames; one unit of six conversions, pure and total. Decoding gives a
/// frame whose view of that kind can be read without an error.
pub trait WireCodec: Send + Sync + 'static {
    /// The bytes of a stream request.
    ///
    /// # Errors
    /// A limit that they would break.
    fn encode_request(&self, request: &StreamRequest<'_>) -> Result<Bytes, FrameError>;

    /// The stream request in bytes from a peer; [`StreamRequest::from_frame`] reads it.
    ///
    /// # Errors
    /// Why the bytes are no stream request.
    fn decode_request(&self, bytes: Bytes) -> Result<Frame, FrameError>;

    /// The bytes of a stream chunk.
    ///
    /// # Errors
    /// A limit that they would break.
    fn encode_chunk(&self, chunk: &StreamChunk<'_>) -> Result<Bytes, FrameError>;

    /// The stream chunk in bytes from a peer; [`StreamChunk::from_frame`] reads it.
    ///
    /// # Errors
    /// Why the bytes are no stream chunk.
    fn decode_chunk(&self, bytes: Bytes) -> Result<Frame, FrameError>;

    /// The bytes of an event.
    ///
    /// # Errors
    /// A limit that they would break.
    fn encode_event(&self, event: &Event<'_>) -> Result<Bytes, FrameError>;

    /// The event in bytes from a peer; [`Event::from_frame`] reads it.
    ///
    /// # Errors
    /// Why the bytes are no event.
    fn decode_event(&self, bytes: Bytes) -> Result<Frame, FrameError>;
}

/// The codec whose bytes are frames; the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameCodec {
    /// Bounds of both directions.
    pub limits: Limits,
}

impl Default for FrameCodec {
    /// With [`Limits::EVENTMESH`], names trusted.
    fn default() -> Self {
        Self { limits: Limits::EVENTMESH }
    }
}

impl WireCodec for FrameCodec {
    fn encode_request(&self, request: &StreamRequest<'_>) -> Result<Bytes, FrameError> {
        request.to_frame(&self.limits).map(Frame::into_bytes)
    }

    fn decode_request(&self, bytes: Bytes) -> Result<Frame, FrameError> {
        let frame = Frame::parse(bytes, &self.limits)?;
        StreamRequest::from_frame(&frame)?;
        Ok(frame)
    }

    fn encode_chunk(&self, chunk: &StreamChunk<'_>) -> Result<Bytes, FrameError> {
        chunk.to_frame(&self.limits).map(Frame::into_bytes)
    }

    fn decode_chunk(&self, bytes: Bytes) -> Result<Frame, FrameError> {
        let frame = Frame::parse(bytes, &self.limits)?;
        StreamChunk::from_frame(&frame)?;
        Ok(frame)
    }

    fn encode_event(&self, event: &Event<'_>) -> Result<Bytes, FrameError> {
        event.to_frame(&self.limits).map(Frame::into_bytes)
    }

    fn decode_event(&self, bytes: Bytes) -> Result<Frame, FrameError> {
        let frame = Frame::parse(bytes, &self.limits)?;
        Event::from_frame(&frame)?;
        Ok(frame)
    }
}
