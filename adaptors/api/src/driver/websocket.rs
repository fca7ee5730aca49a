//! A WebSocket: one message is one `read`, each packet of output is one message. Pings the peer and counts what it does not
//! answer. Holds at most what the driver hands over and one message in the socket's own buffer.

use std::collections::VecDeque;
use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::Error;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes};
use bytes::{Bytes, BytesMut};
use futures_util::{Sink, Stream};
use tokio::time::Instant;
use tungstenite::Error as SocketError;

use super::bell::Bell;
use super::limits::{CLOSE_REASON_BYTES, MESSAGES_MAX, PING_INTERVAL, PONGS_MISSED_MAX};
use super::wire::{Input, Wire, Written};
use crate::outbound::{Chunk, Close, Outbound};
use crate::session::{MessageFormat, Session, SessionError};

/// How far the closing handshake is.
#[derive(Debug, PartialEq, Eq)]
enum Farewell {
    None,
    Queued,
    Said,
}

/// A WebSocket, or what stands for one in tests.
pub(super) struct WebSocketWire<S> {
    socket: S,
    /// Each look into the socket clears its read buffer first.
    bell: Bell,
    format: MessageFormat,
    outgoing: VecDeque<Message>,
    /// Bytes of `outgoing`.
    bytes: usize,
    /// Bytes and messages that the socket holds.
    unflushed: usize,
    /// Output whose packet has not ended.
    open_packet: BytesMut,
    ping_at: Instant,
    missed: u32,
    /// How reading ended, when messages before it had to be handed over first.
    end: Option<Input>,
    /// Reading has failed; the peer's goodbye cannot be heard.
    deaf: bool,
    farewell: Farewell,
}

impl<S> WebSocketWire<S> {
    pub(super) fn new(socket: S, format: MessageFormat) -> Self {
        Self {
            socket,
            bell: Bell::new(),
            format,
            outgoing: VecDeque::new(),
            bytes: 0,
            unflushed: 0,
            open_packet: BytesMut::new(),
            ping_at: Instant::now() + PING_INTERVAL,
            missed: 0,
            end: None,
            deaf: false,
            farewell: Farewell::None,
        }
    }

    /// Reading is over, but not before the session's answers to what came before are taken.
    fn ends(&mut self, read: Option<usize>, end: Input) -> Poll<Input> {
        let Some(bytes) = read else { return Poll::Ready(end) };
        self.end = Some(end);
        Poll::Ready(Input::Read(bytes))
    }

    fn push(&mut self, message: Message) {
        self.bytes += weight(&message);
        self.outgoing.push_back(message);
    }

    fn message(&self, bytes: Bytes) -> Message {
        match self.format {
            MessageFormat::Binary => Message::Binary(bytes),
            MessageFormat::Text => Message::Text(Utf8Bytes::try_from(bytes.clone()).unwrap_or_else(|_| {
                tracing::error!(
                    "a session of text messages wrote bytes that are not UTF-8; report this as a bug"
                );
                String::from_utf8_lossy(&bytes).into_owned().into()
            })),
        }
    }
}

/// Bytes of a message, and one more, so that an empty one counts.
fn weight(message: &Message) -> usize {
    1 + match message {
        Message::Text(text) => text.len(),
        Message::Binary(bytes) | Message::Ping(bytes) | Message::Pong(bytes) => bytes.len(),
        Message::Close(_) => 0,
    }
}

fn refused(reason: &str) -> Input {
    Input::Close(Close { code: 1003, reason: reason.to_owned() })
}

/// What a failed read means.
fn failure(error: Error) -> Input {
    let close = |code, reason: &str| Input::Close(Close { code, reason: reason.to_owned() });
    match error.source().and_then(|source| source.downcast_ref::<SocketError>()) {
        Some(SocketError::Capacity(_)) => close(1009, "message too big"),
        Some(SocketError::Utf8(_)) => close(1007, "text is not UTF-8"),
        Some(SocketError::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake))
        | Some(SocketError::ConnectionClosed | SocketError::AlreadyClosed) => Input::Gone,
        Some(SocketError::Protocol(error)) => close(1002, &error.to_string()),
        _ => Input::Failed(io::Error::other(error)),
    }
}

impl<S> Wire for WebSocketWire<S>
where
    S: Stream<Item = Result<Message, Error>> + Sink<Message, Error = Error> + Unpin + Send,
{
    fn outbound(&self) -> Outbound {
        Outbound::default()
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        session: &mut dyn Session,
        out: &mut Outbound,
    ) -> Poll<Input> {
        if let Some(end) = self.end.take() {
            return Poll::Ready(end);
        }
        let (mut total, mut waits) = (None, false);
        for _ in 0..MESSAGES_MAX {
            let message = match self.bell.poll(cx, |cx| Pin::new(&mut self.socket).poll_next(cx)) {
                Poll::Pending => {
                    waits = true;
                    break;
                }
                Poll::Ready(None) => return self.ends(total, Input::Gone),
                Poll::Ready(Some(Err(error))) => {
                    self.deaf = true;
                    return self.ends(total, failure(error));
                }
                Poll::Ready(Some(Ok(message))) => message,
            };
            let input: &[u8] = match (&message, self.format) {
                (Message::Text(text), MessageFormat::Text) => text.as_bytes(),
                (Message::Binary(bytes), MessageFormat::Binary) => bytes,
                (Message::Text(_), MessageFormat::Binary) => {
                    return self.ends(total, refused("messages are binary here"));
                }
                (Message::Binary(_), MessageFormat::Text) => {
                    return self.ends(total, refused("messages are text here"));
                }
                (Message::Pong(_), _) => {
                    self.missed = 0;
                    continue;
                }
                // The socket answers both by itself; after a close it ends.
                (Message::Ping(_) | Message::Close(_), _) => continue,
            };
            *total.get_or_insert(0) += input.len();
            if let Err(error) = session.read(input, out) {
                return Poll::Ready(Input::Session(error));
            }
            if out.login.is_some() || out.close.is_some() {
                break;
            }
        }
        match total {
            Some(bytes) => Poll::Ready(Input::Read(bytes)),
            None if waits => Poll::Pending,
            None => Poll::Ready(Input::Read(0)),
        }
    }

    fn offer_again(&mut self, _: &mut dyn Session, _: &mut Outbound) -> Result<(), SessionError> {
        Ok(())
    }

    fn unfinished(&self) -> usize {
        0
    }

    fn is_held_back(&self) -> bool {
        false
    }

    fn discard(&mut self) {}

    fn enqueue(&mut self, chunks: Vec<Chunk>) {
        let mut chunks = chunks.into_iter().peekable();
        while let Some(chunk) = chunks.next() {
            let message = match chunk {
                Chunk::Bytes(bytes) if self.open_packet.is_empty() => {
                    if chunks.next_if(|next| matches!(next, Chunk::EndPacket)).is_none() {
                        self.open_packet.extend_from_slice(&bytes);
                        continue;
                    }
                    self.message(bytes)
                }
                Chunk::Bytes(bytes) => {
                    self.open_packet.extend_from_slice(&bytes);
                    continue;
                }
                Chunk::EndPacket => {
                    let packet = std::mem::take(&mut self.open_packet);
                    self.message(packet.freeze())
                }
            };
            self.push(message);
        }
    }

    fn waiting(&self) -> usize {
        self.bytes + self.unflushed
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Written {
        let mut written = 0;
        let rest = loop {
            if self.outgoing.is_empty() {
                if self.unflushed == 0 {
                    break Poll::Ready(Ok(()));
                }
                let flushed = Pin::new(&mut self.socket).poll_flush(cx);
                if flushed.is_ready() {
                    self.unflushed = 0;
                }
                break flushed;
            }
            match Pin::new(&mut self.socket).poll_ready(cx) {
                Poll::Ready(Ok(())) => {}
                blocked => break blocked,
            }
            let Some(message) = self.outgoing.pop_front() else { continue };
            let bytes = weight(&message);
            self.bytes -= bytes;
            self.unflushed += bytes;
            written += bytes - 1;
            if let Err(error) = Pin::new(&mut self.socket).start_send(message) {
                break Poll::Ready(Err(error));
            }
        };
        if self.outgoing.is_empty() && self.outgoing.capacity() > MESSAGES_MAX {
            self.outgoing = VecDeque::new();
        }
        Written { bytes: written, rest: rest.map_err(io::Error::other) }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, close: &Close) -> Poll<()> {
        if self.farewell == Farewell::None {
            let reason = shorten(&close.reason).into();
            if ready!(Pin::new(&mut self.socket).poll_ready(cx)).is_err() {
                return Poll::Ready(());
            }
            let frame = CloseFrame { code: close.code, reason };
            if Pin::new(&mut self.socket).start_send(Message::Close(Some(frame))).is_err() {
                return Poll::Ready(());
            }
            self.farewell = Farewell::Queued;
        }
        if self.farewell == Farewell::Queued {
            if ready!(Pin::new(&mut self.socket).poll_flush(cx)).is_err() {
                return Poll::Ready(());
            }
            self.farewell = Farewell::Said;
        }
        // A deaf socket cannot be read on, but a peer in the middle of a large message has to see the close frame
        // before the connection is reset: the driver's deadline ends the wait.
        while !self.deaf {
            match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                None | Some(Err(_)) => return Poll::Ready(()),
                Some(Ok(_)) => {}
            }
        }
        Poll::Pending
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.ping_at)
    }

    fn expired(&mut self, now: Instant, reading: bool) -> Option<Close> {
        self.ping_at = now + PING_INTERVAL;
        if !reading {
            self.missed = 0;
        }
        if self.missed >= PONGS_MISSED_MAX {
            return Some(Close { code: 4408, reason: "heartbeat lost".to_owned() });
        }
        if self.waiting() == 0 {
            self.missed += 1;
            self.push(Message::Ping(Bytes::new()));
        }
        None
    }
}

/// At most 123 bytes, cut at a character.
fn shorten(reason: &str) -> &str {
    let mut end = reason.len().min(CLOSE_REASON_BYTES);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason.get(..end).unwrap_or_default()
}
