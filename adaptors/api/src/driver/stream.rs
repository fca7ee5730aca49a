//! A byte stream. Reads go through one buffer of the worker thread; only the unconsumed rest stays with the connection, and a
//! large unfinished message is read where it stays. A rest that the session cannot use yet is not offered to it.

use std::cell::RefCell;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::limits::{LINGER_BYTES_MAX, OWN_BUFFER_BYTES, READ_BUFFER_BYTES};
use super::output::Output;
use super::wire::{Input, Wire, Written};
use crate::outbound::{Chunk, Close, Outbound};
use crate::session::{Session, SessionError};

thread_local! {
    /// Borrowed within one poll only.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A socket, or what stands for one in tests.
pub(super) struct StreamWire<S> {
    io: S,
    /// What the session has not consumed.
    rest: BytesMut,
    /// Bytes that `rest` must have before the session is asked again.
    need: usize,
    output: Output,
    ended: bool,
    lingered: usize,
    shut: bool,
}

impl<S> StreamWire<S> {
    pub(super) fn new(io: S) -> Self {
        let output = Output::default();
        Self { io, rest: BytesMut::new(), need: 0, output, ended: false, lingered: 0, shut: false }
    }
}

/// Offers input until nothing more is consumed or something must be answered first. Gives the bytes consumed and
/// what the rest needs.
fn offer(
    input: &[u8],
    session: &mut dyn Session,
    out: &mut Outbound,
) -> (usize, usize, Result<(), SessionError>) {
    let mut done = 0;
    loop {
        let rest = input.get(done..).unwrap_or_default();
        let progress = match session.read(rest, out) {
            Ok(progress) => progress,
            Err(error) => return (done, 0, Err(error)),
        };
        let consumed = progress.consumed.min(rest.len());
        done += consumed;
        let left = rest.len() - consumed;
        if consumed == 0 || left < progress.need.max(1) || out.login.is_some() || out.close.is_some() {
            return (done, progress.need, Ok(()));
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> StreamWire<S> {
    /// Through the thread's buffer, behind a copy of the rest.
    fn read_shared(
        &mut self,
        cx: &mut Context<'_>,
        session: &mut dyn Session,
        out: &mut Outbound,
    ) -> Poll<Input> {
        READ_BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(READ_BUFFER_BYTES, 0);
            let kept = self.rest.len();
            let (front, space) = buffer.split_at_mut(kept);
            let mut read = ReadBuf::new(space);
            if let Err(error) = ready!(Pin::new(&mut self.io).poll_read(cx, &mut read)) {
                return Poll::Ready(Input::Failed(error));
            }
            let new = read.filled();
            if new.is_empty() {
                return Poll::Ready(Input::End);
            }
            let bytes = new.len();
            if kept + bytes < self.need {
                self.rest.extend_from_slice(new);
                return Poll::Ready(Input::Read(bytes));
            }
            front.copy_from_slice(&self.rest);
            let input = buffer.get(..kept + bytes).unwrap_or_default();
            let (done, need, result) = offer(input, session, out);
            self.need = need;
            match input.get(done..) {
                None | Some([]) => self.rest = BytesMut::new(),
                Some(left) => {
                    self.rest.clear();
                    self.rest.extend_from_slice(left);
                }
            }
            Poll::Ready(result.map_or_else(Input::Session, |()| Input::Read(bytes)))
        })
    }

    /// Behind the rest, where it stays. Never reserves further ahead than 64 KiB or as much as is there.
    fn read_own(
        &mut self,
        cx: &mut Context<'_>,
        session: &mut dyn Session,
        out: &mut Outbound,
    ) -> Poll<Input> {
        let have = self.rest.len();
        let ahead = have.max(READ_BUFFER_BYTES);
        let missing = self.need.saturating_sub(have);
        self.rest.reserve(if missing == 0 { READ_BUFFER_BYTES } else { missing.min(ahead) });
        let bytes = match ready!(pin!(self.io.read_buf(&mut self.rest)).poll(cx)) {
            Err(error) => return Poll::Ready(Input::Failed(error)),
            Ok(0) => return Poll::Ready(Input::End),
            Ok(bytes) => bytes,
        };
        if self.rest.len() < self.need {
            return Poll::Ready(Input::Read(bytes));
        }
        let result = self.offer_again(session, out);
        Poll::Ready(result.map_or_else(Input::Session, |()| Input::Read(bytes)))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Wire for StreamWire<S> {
    fn outbound(&self) -> Outbound {
        Outbound::joined()
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        session: &mut dyn Session,
        out: &mut Outbound,
    ) -> Poll<Input> {
        let input = if self.rest.len() < OWN_BUFFER_BYTES {
            ready!(self.read_shared(cx, session, out))
        } else {
            ready!(self.read_own(cx, session, out))
        };
        self.ended |= matches!(input, Input::End | Input::Failed(_));
        Poll::Ready(input)
    }

    fn offer_again(&mut self, session: &mut dyn Session, out: &mut Outbound) -> Result<(), SessionError> {
        if self.rest.is_empty() || self.rest.len() < self.need {
            return Ok(());
        }
        let mut input = std::mem::take(&mut self.rest);
        let (done, need, result) = offer(&input, session, out);
        self.need = need;
        input.advance(done);
        self.rest =
            if done > 0 && input.len() < OWN_BUFFER_BYTES { BytesMut::from(&input[..]) } else { input };
        result
    }

    fn unfinished(&self) -> usize {
        self.rest.len()
    }

    fn is_held_back(&self) -> bool {
        !self.rest.is_empty() && self.need <= self.rest.len()
    }

    fn discard(&mut self) {
        self.rest = BytesMut::new();
        self.need = 0;
    }

    fn enqueue(&mut self, chunks: Vec<Chunk>) {
        self.output.push(chunks);
    }

    fn waiting(&self) -> usize {
        self.output.bytes()
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Written {
        self.output.poll_write(&mut self.io, cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, _close: &Close) -> Poll<()> {
        if !self.shut {
            let failed = ready!(Pin::new(&mut self.io).poll_shutdown(cx)).is_err();
            self.shut = true;
            self.ended |= failed;
        }
        // A socket closed with unread input resets the connection, and the peer may lose what we said last.
        while !self.ended && self.lingered < LINGER_BYTES_MAX {
            let read = READ_BUFFER.with_borrow_mut(|buffer| {
                buffer.resize(READ_BUFFER_BYTES, 0);
                let mut read = ReadBuf::new(buffer);
                Pin::new(&mut self.io).poll_read(cx, &mut read).map_ok(|()| read.filled().len())
            });
            match ready!(read) {
                Ok(0) | Err(_) => self.ended = true,
                Ok(bytes) => self.lingered += bytes,
            }
        }
        Poll::Ready(())
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn expired(&mut self, _now: Instant, _reading: bool) -> Option<Close> {
        None
    }
}
