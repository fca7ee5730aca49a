//! AMQP 0-9-1 as the load speaks it: the few frames it needs, written and read here on their own, so that a mistake of
//! the server's codec cannot hide behind the same mistake.
//!
//! frame: type u8, channel u16, size u32, payload, 0xCE; a method's payload begins with class u16 and method u16.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const FRAME_END: u8 = 0xCE;
/// Channels of a connection, as negotiated.
pub(super) const CHANNELS_MAX: u16 = 2047;
const HEAD_BYTES: usize = 7;
const FRAME_MAX: u32 = 131_072;
/// One read takes at most so much.
const READ_BYTES: usize = 256 * 1024;

/// What came in.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    /// A confirm: of one tag or of all up to it.
    Ack { tag: u64, multiple: bool },
    /// A delivery begins.
    Deliver { tag: u64 },
    /// Its content has this many bytes.
    Header { size: u64 },
    /// Some of them.
    Body(&'a [u8]),
    /// Any other method and its arguments.
    Method { class: u16, method: u16, arguments: &'a [u8] },
}

/// A connection with channel 1 open.
#[derive(Debug)]
pub(crate) struct Link {
    socket: TcpStream,
    input: Vec<u8>,
}

/// A string of at most 255 bytes.
pub(crate) fn short(text: &str) -> Vec<u8> {
    let mut out = vec![text.len() as u8];
    out.extend_from_slice(text.as_bytes());
    out
}

fn frame(kind: u8, channel: u16, payload: &[&[u8]]) -> Vec<u8> {
    let size: usize = payload.iter().map(|part| part.len()).sum();
    let mut out = vec![kind];
    out.extend(channel.to_be_bytes());
    out.extend((size as u32).to_be_bytes());
    for part in payload {
        out.extend_from_slice(part);
    }
    out.push(FRAME_END);
    out
}

fn method(channel: u16, id: (u16, u16), arguments: &[u8]) -> Vec<u8> {
    frame(1, channel, &[&id.0.to_be_bytes(), &id.1.to_be_bytes(), arguments])
}

/// A whole publish to the default exchange. The body's place is known: it ends one byte before the end.
pub(crate) fn publish(queue: &str, persistent: bool, body: &[u8]) -> Vec<u8> {
    publish_with(queue, persistent, 0, body)
}

/// A transient publish that comes back when it reaches nobody.
pub(super) fn publish_mandatory(queue: &str, body: &[u8]) -> Vec<u8> {
    publish_with(queue, false, 1, body)
}

/// Opens a channel.
pub(super) fn open_channel(channel: u16) -> Vec<u8> {
    method(channel, (20, 10), &[0])
}

fn publish_with(queue: &str, persistent: bool, bits: u8, body: &[u8]) -> Vec<u8> {
    let arguments = [&[0, 0, 0][..], &short(queue), &[bits]].concat();
    let mut out = method(1, (60, 40), &arguments);
    let mode = if persistent { 2 } else { 1 };
    let size = (body.len() as u64).to_be_bytes();
    // delivery-mode is the only property
    out.extend(frame(2, 1, &[&[0, 60, 0, 0], &size, &[0x10, 0], &[mode]]));
    out.extend(frame(3, 1, &[body]));
    out
}

/// An ack of everything up to a delivery.
pub(crate) fn ack_up_to(tag: u64) -> Vec<u8> {
    method(1, (60, 80), &[&tag.to_be_bytes()[..], &[1]].concat())
}

impl Link {
    /// Connects as guest to `/` and opens channel 1.
    pub(crate) async fn open(address: &str) -> io::Result<Self> {
        let mut link = Self::connect(address).await?;
        link.call(1, (20, 10), &[0], (20, 11)).await?;
        Ok(link)
    }

    /// Connects without a channel.
    pub(crate) async fn connect(address: &str) -> io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let mut link = Self { socket, input: Vec::new() };
        link.write(b"AMQP\0\0\x09\x01").await?;
        link.answer((10, 10)).await?;
        let login = b"\0guest\0guest";
        let start_ok = [
            &0_u32.to_be_bytes()[..],
            &short("PLAIN"),
            &(login.len() as u32).to_be_bytes(),
            login,
            &short("en_US"),
        ]
        .concat();
        link.call(0, (10, 11), &start_ok, (10, 30)).await?;
        // no heartbeats: an idle connection is to be idle
        let tune_ok =
            [&CHANNELS_MAX.to_be_bytes()[..], &FRAME_MAX.to_be_bytes(), &0_u16.to_be_bytes()].concat();
        link.write(&method(0, (10, 31), &tune_ok)).await?;
        link.call(0, (10, 40), &[&short("/")[..], &[0, 0]].concat(), (10, 41)).await?;
        Ok(link)
    }

    /// Declares a queue; gives its ready messages.
    pub(crate) async fn declare(&mut self, queue: &str, durable: bool, passive: bool) -> io::Result<u32> {
        let flags = u8::from(passive) | u8::from(durable) << 1;
        let arguments = [&[0, 0][..], &short(queue), &[flags], &[0; 4]].concat();
        let answer = self.call(1, (50, 10), &arguments, (50, 11)).await?;
        let at = 1 + queue.len();
        let count = answer.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
        count.ok_or_else(|| io::Error::other("a short declare-ok"))
    }

    /// Deletes a queue.
    pub(crate) async fn delete(&mut self, queue: &str) -> io::Result<()> {
        self.call(1, (50, 40), &[&[0, 0][..], &short(queue), &[0]].concat(), (50, 41)).await.map(drop)
    }

    /// Confirms from here on.
    pub(crate) async fn select_confirms(&mut self) -> io::Result<()> {
        self.call(1, (85, 10), &[0], (85, 11)).await.map(drop)
    }

    /// Consumes a queue.
    pub(crate) async fn consume(&mut self, queue: &str, tag: &str, prefetch: Option<u16>) -> io::Result<()> {
        if let Some(prefetch) = prefetch {
            let qos = [&[0; 4][..], &prefetch.to_be_bytes(), &[0]].concat();
            self.call(1, (60, 10), &qos, (60, 11)).await?;
        }
        let no_ack = if prefetch.is_none() { 2 } else { 0 };
        let arguments = [&[0, 0][..], &short(queue), &short(tag), &[no_ack], &[0; 4]].concat();
        self.call(1, (60, 20), &arguments, (60, 21)).await.map(drop)
    }

    /// Sends bytes as they are.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes).await
    }

    /// Waits for one read; `each` gets every whole frame.
    ///
    /// # Errors
    /// The connection ended, a frame is broken, or `each` says so.
    pub(crate) async fn read(
        &mut self,
        mut each: impl FnMut(Incoming<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.input.reserve(READ_BYTES);
        if self.socket.read_buf(&mut self.input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut at = 0;
        while let Some((kind, payload, next)) = cut(&self.input, at)? {
            at = next;
            match kind {
                1 => each(method_of(payload)?)?,
                2 => {
                    let size = number(payload, 4)?;
                    each(Incoming::Header { size })?;
                }
                3 => each(Incoming::Body(payload))?,
                8 => {}
                other => return Err(io::Error::other(format!("frame of type {other}"))),
            }
        }
        self.input.drain(..at);
        Ok(())
    }

    async fn call(
        &mut self,
        channel: u16,
        id: (u16, u16),
        arguments: &[u8],
        answer: (u16, u16),
    ) -> io::Result<Vec<u8>> {
        self.write(&method(channel, id, arguments)).await?;
        self.answer(answer).await
    }

    async fn answer(&mut self, wanted: (u16, u16)) -> io::Result<Vec<u8>> {
        let mut got = None;
        while got.is_none() {
            self.read(|incoming| match incoming {
                Incoming::Method { class, method, arguments } if (class, method) == wanted => {
                    got = Some(arguments.to_vec());
                    Ok(())
                }
                other => Err(io::Error::other(format!("{wanted:?} is expected, there came {other:?}"))),
            })
            .await?;
        }
        Ok(got.unwrap_or_default())
    }
}

fn cut(input: &[u8], at: usize) -> io::Result<Option<(u8, &[u8], usize)>> {
    let Some(head) = input.get(at..at + HEAD_BYTES) else { return Ok(None) };
    let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
    let end = at + HEAD_BYTES + size;
    match input.get(end) {
        None => Ok(None),
        Some(&FRAME_END) => Ok(Some((head[0], &input[at + HEAD_BYTES..end], end + 1))),
        Some(other) => Err(io::Error::other(format!("a frame ends with {other}"))),
    }
}

fn method_of(payload: &[u8]) -> io::Result<Incoming<'_>> {
    let [c0, c1, m0, m1, arguments @ ..] = payload else {
        return Err(io::Error::other("a short method"));
    };
    let (class, method) = (u16::from_be_bytes([*c0, *c1]), u16::from_be_bytes([*m0, *m1]));
    match (class, method) {
        (60, 80) => {
            let multiple = arguments.get(8).is_some_and(|bits| bits & 1 == 1);
            Ok(Incoming::Ack { tag: number(arguments, 0)?, multiple })
        }
        (60, 60) => {
            let tag_at = 1 + usize::from(arguments.first().copied().unwrap_or(0));
            Ok(Incoming::Deliver { tag: number(arguments, tag_at)? })
        }
        _ => Ok(Incoming::Method { class, method, arguments }),
    }
}

fn number(bytes: &[u8], at: usize) -> io::Result<u64> {
    let eight = bytes.get(at..at + 8).and_then(|b| b.try_into().ok());
    eight.map(u64::from_be_bytes).ok_or_else(|| io::Error::other("a short number"))
}
