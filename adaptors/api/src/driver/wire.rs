//! What the driver needs of a transport: bytes or messages to a session, chunks to the peer. Transports hold what is
//! unfinished either way; they never decide when to read.

use std::io;
use std::task::{Context, Poll};

use tokio::time::Instant;

use crate::outbound::{Chunk, Close, Outbound};
use crate::session::{Session, SessionError};

/// What one read brought.
#[derive(Debug)]
pub(super) enum Input {
    /// So many bytes; the session has seen them, or they wait for more.
    Read(usize),
    /// The peer sends no more, but may still listen.
    End,
    /// The peer is gone.
    Gone,
    /// The transport failed.
    Failed(io::Error),
    /// The session ends the connection.
    Session(SessionError),
    /// The transport's own rules end the connection.
    Close(Close),
}

/// What one write did.
#[derive(Debug)]
pub(super) struct Written {
    /// Bytes that the transport took.
    pub(super) bytes: usize,
    /// Ready when nothing waits any more.
    pub(super) rest: Poll<io::Result<()>>,
}

/// A connection's transport.
pub(super) trait Wire: Send {
    /// An outbound that keeps what this transport needs.
    fn outbound(&self) -> Outbound;

    /// Reads once what is there and offers it to the session.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        session: &mut dyn Session,
        out: &mut Outbound,
    ) -> Poll<Input>;

    /// Offers the unconsumed rest again.
    ///
    /// # Errors
    /// The session's.
    fn offer_again(&mut self, session: &mut dyn Session, out: &mut Outbound) -> Result<(), SessionError>;

    /// Bytes of an unfinished message.
    fn unfinished(&self) -> usize;

    /// Whether the session has left input that it did not say to be unfinished.
    fn is_held_back(&self) -> bool;

    /// Forgets input that has not been consumed.
    fn discard(&mut self);

    /// Takes output.
    fn enqueue(&mut self, chunks: Vec<Chunk>);

    /// Output that has not been written; above 0 while anything waits.
    fn waiting(&self) -> usize;

    /// Writes what waits.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Written;

    /// Says goodbye and waits for the peer's. Called when nothing waits; the driver bounds the time.
    fn poll_close(&mut self, cx: &mut Context<'_>, close: &Close) -> Poll<()>;

    /// When `expired` wants to be called.
    fn deadline(&self) -> Option<Instant>;

    /// The deadline has passed. `reading`: whether the peer has been read since the last call. A close ends the connection.
    fn expired(&mut self, now: Instant, reading: bool) -> Option<Close>;
}
