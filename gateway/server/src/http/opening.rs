//! The first bytes of a connection: which version of HTTP the peer speaks. Owns those bytes until the server of that
//! version reads them again, and knows whether what it wrote has left.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

use crate::listeners::HeldStream;

/// First bytes of an HTTP/2 connection (RFC 9113 3.4): as long as they come, the server cannot tell which version it will
/// be.
const HTTP2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What a peer speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// HTTP/1.1 or 1.0.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
}

/// A socket whose first bytes are read twice.
#[derive(Debug)]
pub(super) struct HttpStream {
    stream: HeldStream,
    start: [u8; HTTP2_PREFACE.len()],
    /// The part of `start` that is still to be read.
    again: std::ops::Range<u8>,
    unflushed: Arc<AtomicBool>,
}

/// Whether a stream has output that its owner has not flushed; asked while somebody else owns the stream.
#[derive(Debug, Clone)]
pub(super) struct Unflushed(Arc<AtomicBool>);

impl Unflushed {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Reads until the version is known, or the peer says no more. The caller bounds the time.
///
/// # Errors
/// The socket's.
pub(super) async fn open(mut stream: HeldStream) -> io::Result<(HttpStream, Version)> {
    let mut start = [0; HTTP2_PREFACE.len()];
    let mut filled = 0;
    let version = loop {
        let read = stream.read(&mut start[filled..]).await?;
        filled += read;
        if read == 0 || !HTTP2_PREFACE.starts_with(&start[..filled]) {
            break Version::Http1;
        }
        if filled == start.len() {
            break Version::Http2;
        }
    };
    // at most 24
    let again = 0..filled as u8;
    Ok((HttpStream { stream, start, again, unflushed: Arc::default() }, version))
}

impl HttpStream {
    pub(super) fn unflushed(&self) -> Unflushed {
        Unflushed(Arc::clone(&self.unflushed))
    }

    /// The socket, without what was to be read twice.
    pub(super) fn into_socket(self) -> HeldStream {
        self.stream
    }
}

impl AsyncRead for HttpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.again.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let kept = &self.start[usize::from(self.again.start)..usize::from(self.again.end)];
        let fits = kept.len().min(buffer.remaining());
        buffer.put_slice(&kept[..fits]);
        self.again.start += fits as u8;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for HttpStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.unflushed.store(true, Ordering::Relaxed);
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.unflushed.store(true, Ordering::Relaxed);
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.unflushed.store(false, Ordering::Relaxed);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::listeners::{Gate, ListenerStats};

    async fn pair() -> (TcpStream, HeldStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connected");
        let (stream, _) = listener.accept().await.expect("accepted");
        let gate = Gate::new(1, 1);
        let held = gate.hold(gate.permit().await.expect("room"), &Arc::new(ListenerStats::new("toy")));
        (client, HeldStream::new(stream, held))
    }

    #[tokio::test]
    async fn the_version_is_known_when_the_preface_ends_or_differs_and_nothing_is_lost() {
        let mut long = HTTP2_PREFACE.to_vec();
        long.extend_from_slice(b"\0\0\0");
        let cases: [(&[u8], Version); 5] = [
            (&long, Version::Http2),
            (b"POST / HTTP/1.1\r\n\r\n", Version::Http1),
            (b"PRI * HTTP/1.1\r\n\r\n", Version::Http1),
            (b"PRI * HT", Version::Http1),
            (b"", Version::Http1),
        ];
        for (said, expected) in cases {
            for piece in [1, 7, 100] {
                let (mut client, stream) = pair().await;
                let of_client = said.to_vec();
                let client = tokio::spawn(async move {
                    for bytes in of_client.chunks(piece) {
                        client.write_all(bytes).await.expect("written");
                        tokio::task::yield_now().await;
                    }
                });
                let (mut stream, version) = open(stream).await.expect("opened");
                assert_eq!(version, expected, "{said:?}");
                let mut read = Vec::new();
                stream.read_to_end(&mut read).await.expect("read");
                assert_eq!(read, said);
                client.await.expect("joined");
            }
        }
    }

    #[tokio::test]
    async fn output_counts_as_unflushed_until_it_has_been_flushed() {
        let (mut client, stream) = pair().await;
        client.write_all(b"GET").await.expect("written");
        let (mut stream, _) = open(stream).await.expect("opened");
        let unflushed = stream.unflushed();
        assert!(!unflushed.get());
        stream.write_all(b"x").await.expect("written");
        assert!(unflushed.get());
        stream.flush().await.expect("flushed");
        assert!(!unflushed.get());
    }
}
