//! An event stream after its request: the server of HTTP/1 hands the socket over and is gone, with its buffers. From here on a
//! poll is the body's and one write. Writes head, chunks (RFC 9112 7.1) and the end; what the peer says is thrown away. Never looks
//! into an event.
//!
//! ```text
//! status line, fields, "transfer-encoding: chunked", "connection: close", CRLF
//! *( size in hex CRLF, data CRLF )        everything that is there in one write
//! "0" CRLF CRLF
//! ```

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::response::Parts;
use axum::http::{HeaderMap, Response, header};

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Data up to this size is copied beside its neighbours, so that one write takes all of it; larger data is written from where
/// it is.
const COPIED_BYTES_MAX: usize = 16 * 1024;
/// Output that is gathered before it is written; one piece may pass it.
const GATHERED_BYTES_MAX: usize = 64 * 1024;
/// What the peer says is read into so many bytes and forgotten.
const IGNORED_BYTES: usize = 1024;

thread_local! {
    /// Where output is gathered; borrowed within one poll only.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Whether a response is a stream of events.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
}

/// See the top of the file.
pub(super) struct EventStream<S> {
    socket: S,
    /// None: it has ended, and all of it is in `waiting`.
    body: Option<Body>,
    /// Output that the socket did not take at once.
    waiting: VecDeque<Bytes>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> EventStream<S> {
    /// The stream that answers a request.
    pub(super) fn new(socket: S, response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        Self { socket, body: Some(body), waiting: VecDeque::from([Bytes::from(head(&parts))]) }
    }

    /// Writes until the body ends or the peer is gone.
    ///
    /// # Errors
    /// The socket's or the body's; the peer notices by the missing last chunk.
    pub(super) async fn run(mut self) -> io::Result<()> {
        poll_fn(|context| self.poll(context)).await?;
        poll_fn(|context| Pin::new(&mut self.socket).poll_shutdown(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.poll_gone(context)? {
            return Poll::Ready(Ok(()));
        }
        loop {
            ready!(self.write_waiting(context))?;
            if self.body.is_none() {
                return Poll::Ready(Ok(()));
            }
            let done = GATHERED.with_borrow_mut(|gathered| {
                gathered.clear();
                let more = self.gather(context, gathered)?;
                self.write(context, gathered)?;
                Ok::<_, io::Error>(!more && self.waiting.is_empty())
            })?;
            if done && self.body.is_some() {
                return Poll::Pending;
            }
        }
    }

    /// Takes what the body has. True: there may be more.
    fn gather(&mut self, context: &mut Context<'_>, gathered: &mut Vec<u8>) -> io::Result<bool> {
        while let Some(body) = &mut self.body {
            match Pin::new(body).poll_frame(context) {
                Poll::Pending => return Ok(false),
                Poll::Ready(None) => {
                    self.body = None;
                    gathered.extend_from_slice(b"0\r\n\r\n");
                }
                Poll::Ready(Some(Err(error))) => return Err(io::Error::other(error)),
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if data.is_empty() {
                        continue; // an empty chunk would be the last
                    }
                    write!(gathered, "{:x}\r\n", data.len())?;
                    if data.len() <= COPIED_BYTES_MAX {
                        gathered.extend_from_slice(&data);
                    } else {
                        self.waiting.push_back(Bytes::copy_from_slice(gathered));
                        self.waiting.push_back(data);
                        gathered.clear();
                    }
                    gathered.extend_from_slice(b"\r\n");
                    if gathered.len() >= GATHERED_BYTES_MAX || !self.waiting.is_empty() {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// Writes what was gathered, behind what waits; keeps what the socket does not take.
    fn write(&mut self, context: &mut Context<'_>, gathered: &[u8]) -> io::Result<()> {
        let mut rest = gathered;
        while !rest.is_empty() && self.waiting.is_empty() {
            match Pin::new(&mut self.socket).poll_write(context, rest) {
                Poll::Ready(written) => rest = rest.get(nonzero(written)?..).unwrap_or_default(),
                Poll::Pending => break,
            }
        }
        if !rest.is_empty() {
            self.waiting.push_back(Bytes::copy_from_slice(rest));
        }
        Ok(())
    }

    fn write_waiting(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(bytes) = self.waiting.front_mut() {
            let written = nonzero(ready!(Pin::new(&mut self.socket).poll_write(context, bytes)))?;
            drop(bytes.split_to(written));
            if bytes.is_empty() {
                self.waiting.pop_front();
            }
        }
        self.waiting = VecDeque::new();
        Poll::Ready(Ok(()))
    }

    /// Throws away what the peer says. True: it has left.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let mut ignored = [std::mem::MaybeUninit::uninit(); IGNORED_BYTES];
        loop {
            let mut buffer = ReadBuf::uninit(&mut ignored);
            match Pin::new(&mut self.socket).poll_read(context, &mut buffer) {
                Poll::Pending => return Ok(false),
                Poll::Ready(read) => read?,
            }
            if buffer.filled().is_empty() {
                return Ok(true);
            }
        }
    }
}

fn nonzero(written: io::Result<usize>) -> io::Result<usize> {
    match written {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        other => other,
    }
}

fn head(parts: &Parts) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {}\r\n", parts.status).into_bytes();
    let framing = [header::CONNECTION, header::CONTENT_LENGTH, header::DATE, header::TRANSFER_ENCODING];
    for (name, value) in parts.headers.iter().filter(|(name, _)| !framing.contains(name)) {
        for piece in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(piece);
        }
    }
    // Fails for years of more than four digits only; then there is no date, as on a host without a clock.
    if let Ok(date) = DateTimePrinter::new().timestamp_to_rfc9110_string(&Timestamp::now()) {
        head.extend_from_slice(format!("date: {date}\r\n").as_bytes());
    }
    head.extend_from_slice(b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n");
    head
}

#[cfg(test)]
#[path = "event_stream_tests.rs"]
mod tests;
