//! Output of a byte stream: chunks in order, written with as few calls as possible.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use tokio::io::AsyncWrite;

use super::limits::SLICES_MAX;
use super::wire::Written;
use crate::outbound::Chunk;

/// Chunks that wait.
#[derive(Debug, Default)]
pub(super) struct Output {
    chunks: VecDeque<Bytes>,
    bytes: usize,
}

impl Output {
    pub(super) fn push(&mut self, chunks: Vec<Chunk>) {
        for chunk in chunks {
            if let Chunk::Bytes(bytes) = chunk {
                self.bytes += bytes.len();
                self.chunks.push_back(bytes);
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes until all is written or the peer takes no more.
    pub(super) fn poll_write(&mut self, io: &mut (impl AsyncWrite + Unpin), cx: &mut Context<'_>) -> Written {
        let mut written = 0;
        while self.bytes > 0 {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let mut count = 0;
            for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
                *slice = IoSlice::new(chunk);
                count += 1;
            }
            let result = Pin::new(&mut *io).poll_write_vectored(cx, slices.get(..count).unwrap_or_default());
            match result {
                Poll::Ready(Ok(0)) => {
                    let zero = io::Error::from(io::ErrorKind::WriteZero);
                    return Written { bytes: written, rest: Poll::Ready(Err(zero)) };
                }
                Poll::Ready(Ok(bytes)) => {
                    written += bytes;
                    self.advance(bytes);
                }
                Poll::Ready(Err(error)) => return Written { bytes: written, rest: Poll::Ready(Err(error)) },
                Poll::Pending => return Written { bytes: written, rest: Poll::Pending },
            }
        }
        if self.chunks.capacity() > SLICES_MAX {
            self.chunks = VecDeque::new();
        }
        Written { bytes: written, rest: Pin::new(io).poll_flush(cx) }
    }

    fn advance(&mut self, mut bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        while let Some(chunk) = self.chunks.front_mut() {
            if bytes < chunk.len() {
                chunk.advance(bytes);
                return;
            }
            bytes -= chunk.len();
            self.chunks.pop_front();
        }
    }
}
