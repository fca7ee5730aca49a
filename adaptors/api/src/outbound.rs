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

impl Close {
    /// Nothing is wrong.
    pub(crate) fn normal() -> Self {
        Self { code: 1000, reason: String::new() }
    }
}

/// Collects what one call of a session wants done. The driver takes everything after each round.
#[derive(Debug, Default)]
pub struct Outbound {
    chunks: Vec<Chunk>,
    chunk_bytes: usize,
    current: BytesMut,
    /// Packet boundaries do not matter: chunks go on over them.
    joined: bool,
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
    /// For a byte stream: packet boundaries are not kept, so that many small packets are one chunk.
    #[must_use]
    pub fn joined() -> Self {
        Self { joined: true, ..Self::default() }
    }

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
        self.chunk_bytes += bytes.len();
        self.chunks.push(Chunk::Bytes(bytes));
    }

    /// Marks a message boundary.
    pub fn end_packet(&mut self) {
        if self.joined {
            return;
        }
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
        self.chunk_bytes + self.current.len()
    }

    /// Nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.current.is_empty()
    }

    /// Takes what is to be written, in order. The buffer's allocation stays.
    pub fn take_chunks(&mut self) -> Vec<Chunk> {
        self.flush_current();
        self.chunk_bytes = 0;
        std::mem::take(&mut self.chunks)
    }

    /// Encodes into this buffer from now on; what is there must have been taken.
    pub(crate) fn lend(&mut self, buffer: BytesMut) {
        debug_assert!(self.current.is_empty(), "output was taken before");
        self.current = buffer;
    }

    /// Takes the lent buffer back; None when something is in it.
    pub(crate) fn reclaim(&mut self) -> Option<BytesMut> {
        self.current.is_empty().then(|| std::mem::take(&mut self.current))
    }

    fn flush_current(&mut self) {
        if !self.current.is_empty() {
            self.chunk_bytes += self.current.len();
            self.chunks.push(Chunk::Bytes(self.current.split().freeze()));
        }
    }
}
