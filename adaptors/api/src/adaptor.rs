//! Conversion of one protocol's message to the internal frame and back: pure, total, no I/O, no clock.

use bytes::Bytes;
use framegate_broker::{Envelope, HeaderTable, Keys, Origin};
use framegate_frame::Frame;

/// A message as one protocol carries it: what only its own adaptor reads, and the body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WireMessage {
    /// Properties, headers or envelope in the protocol's own encoding.
    pub head: Bytes,
    /// Payload bytes.
    pub body: Bytes,
}

/// What an adaptor makes of a client's message.
#[derive(Debug, Clone)]
pub struct Inbound {
    /// The frame: what the origin said, nothing more.
    pub frame: Frame,
    /// Survives a restart where its queue does.
    pub persistent: bool,
    /// Priority, if the message has one.
    pub priority: Option<i32>,
    /// Time to live in ms, if the message has one.
    pub ttl_ms: Option<u64>,
    /// Delay in ms before the first delivery.
    pub delay_ms: u64,
    /// Routing keys beside the one that the publish command names (CC, BCC).
    pub keys: Keys,
}

/// A message on its way out.
#[derive(Debug, Clone, Copy)]
pub struct Egress<'a> {
    /// What the broker knows.
    pub envelope: &'a Envelope,
    /// What the publisher said.
    pub frame: &'a Frame,
    /// For attributes that must be made: the same at each redelivery.
    pub origin: &'a Origin,
    /// Reads the headers of frames of other protocols.
    pub headers: &'a HeaderTable,
}

/// Why a message could not be converted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdaptError {
    /// The client's message breaks its protocol's rules.
    #[error("{what}: {reason}")]
    Invalid {
        /// Part of the message, in the protocol's words.
        what: String,
        /// What is wrong, with the value.
        reason: String,
    },
    /// It does not fit the frame's limits.
    #[error(transparent)]
    Frame(#[from] framegate_frame::FrameError),
    /// The egress protocol cannot carry it (design.md 4 rule 5).
    #[error("cannot be carried: {reason}")]
    Undeliverable {
        /// Why.
        reason: String,
    },
}

/// One protocol's conversion.
pub trait FrameAdaptor: Send + Sync + 'static {
    /// Registry name; the private attribute is `~` and this name.
    fn name(&self) -> &'static str;

    /// Converts a client's message. Attributes that clients may not set are removed here.
    ///
    /// # Errors
    /// `Invalid` or `Frame`.
    fn to_frame(&self, message: WireMessage) -> Result<Inbound, AdaptError>;

    /// Converts a message for a client of this protocol, whatever protocol it came by.
    ///
    /// # Errors
    /// `Undeliverable` when the protocol cannot carry it.
    fn to_wire(&self, message: Egress<'_>) -> Result<WireMessage, AdaptError>;
}
