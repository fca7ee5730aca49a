//! What a session wants done: bytes to write, requests to submit, logins, subscriptions, the end.

use bytes::{Bytes, BytesMut};
use framegate_broker::{ConsumerId, Request, RequestId, Subscribe};

use crate::session::Login;

/// Bodies from this size on are written from where they are.
const BY_REFERENCE_BYTES: usize = 4096;

/// One piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// Bytes to write.
    Bytes(Bytes),
    /// End of a packet: a WebSocket message ends here, a stream ignores it.
    EndPacket,
}

/// How a connection ends after its output was written. The WebSocket driver sends it as close frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Close {
    /// WebSocket close code; streams ignore it.
    pub code: u16,
    /// At most 123 bytes.
    pub reason: String,
}

/// Collects what one call of a session wants done. The driver takes everything after each round.
#[derive(Debug, Default)]
pub struct Outbound {
    chunks: Vec<Chunk>,
    current: BytesMut,
    /// Requests for the broker, in order.
    pub requests: Vec<(RequestId, Request)>,
    /// A login to carry out; nothing is read until it is answered.
    pub login: Option<Login>,
    /// Subscriptions to start.
    pub subscribe: Vec<(ConsumerId, Subscribe)>,
    /// Subscriptions to end.
    pub unsubscribe: Vec<ConsumerId>,
    /// Subscriptions whose `feed` returned false and that may go on.
    pub resume_feed: Vec<ConsumerId>,
    /// Close after writing.
    pub close: Option<Close>,
}

impl Outbound {
    /// Appends bytes to the current buffer (a copy).
    pub fn put(&mut self, bytes: &[u8]) {
        self.current.extend_from_slice(bytes);
    }

    /// The current buffer, to encode into.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.current
    }

    /// Appends a body: by reference when it is large, else a copy.
    pub fn put_bytes(&mut self, bytes: Bytes) {
        if bytes.len() < BY_REFERENCE_BYTES {
            return self.put(&bytes);
        }
        self.flush_current();
        self.chunks.push(Chunk::Bytes(bytes));
    }

    /// Marks a message boundary.
    pub fn end_packet(&mut self) {
        self.flush_current();
        self.chunks.push(Chunk::EndPacket);
    }

    /// Adds a request.
    pub fn request(&mut self, id: RequestId, request: Request) {
        self.requests.push((id, request));
    }

    /// Closes after writing.
    pub fn close(&mut self, code: u16, reason: impl Into<String>) {
        if self.close.is_none() {
            self.close = Some(Close { code, reason: reason.into() });
        }
    }

    /// Bytes not taken yet.
    #[must_use]
    pub fn len(&self) -> usize {
        let chunks: usize =
            self.chunks.iter().map(|c| if let Chunk::Bytes(b) = c { b.len() } else { 0 }).sum();
        chunks + self.current.len()
    }

    /// Nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.current.is_empty()
    }

    /// Takes what is to be written, in order. The buffer's allocation stays.
    pub fn take_chunks(&mut self) -> Vec<Chunk> {
        self.flush_current();
        std::mem::take(&mut self.chunks)
    }

    fn flush_current(&mut self) {
        if !self.current.is_empty() {
            self.chunks.push(Chunk::Bytes(self.current.split().freeze()));
        }
    }
}
