//! Redis as a peer of the persistent rows: one stream with one consumer group, `appendfsync always`. An XADD is answered behind a
//! sync, so its answer is the confirm; XACK is the ack. What was acked stays in the stream until the run deletes it.
//!
//! answers (RESP 2): `+text`, `-error`, `:number`, `$length` and as many bytes, `*count` and as many answers

use std::collections::VecDeque;
use std::io;
use std::process::{Command, Stdio};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::flow::{Encoder, Load, Pace, WRITE_BYTES, whole};
use crate::servers::{Server, free_port, wait};

/// Messages of one read, acked together.
const READ_COUNT: &str = "100";
const READ_BYTES: usize = 256 * 1024;

impl Server {
    /// Redis, as Debian packages it.
    pub(crate) fn redis() -> io::Result<Self> {
        let home = tempfile::tempdir()?;
        let port = free_port()?;
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--dir"])
            .arg(home.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| io::Error::other(format!("redis-server: {e} (Debian package redis-server)")))?;
        let mut server = Self::started(child, home, "redis", None);
        server.own = format!("127.0.0.1:{port}");
        wait(|| std::net::TcpStream::connect(&server.own).ok())
            .ok_or_else(|| io::Error::other("redis-server did not start"))?;
        Ok(server)
    }
}

/// Runs a load of a confirmed pace. Gives latencies to the confirm in microseconds.
///
/// # Errors
/// The run is not complete, in order and whole.
pub(super) async fn run(address: &str, load: Load) -> io::Result<Vec<u32>> {
    let Pace::Confirmed { window } = load.pace else {
        return Err(io::Error::other("redis is measured with confirms only"));
    };
    let mut consumer = Link::open(address).await?;
    consumer.call(&[b"XGROUP", b"CREATE", load.queue.as_bytes(), b"g", b"0", b"MKSTREAM"]).await?;
    let mut publisher = Link::open(address).await?;
    let consumed = tokio::spawn(consume(consumer, load.clone()));
    let latencies_us = publish(&mut publisher, &load, window).await?;
    let mut consumer = consumed.await.map_err(io::Error::other)??;
    let pending = consumer.call(&[b"XPENDING", load.queue.as_bytes(), b"g"]).await?;
    if pending != 0 {
        return Err(io::Error::other(format!("{pending} messages are not acked in {}", load.queue)));
    }
    consumer.call(&[b"DEL", load.queue.as_bytes()]).await?;
    Ok(latencies_us)
}

async fn publish(publisher: &mut Link, load: &Load, window: u64) -> io::Result<Vec<u32>> {
    let body = vec![b'x'; load.body_bytes];
    let message = command(&[b"XADD", load.queue.as_bytes(), b"*", b"b", &body]);
    let number_at = message.len() - 2 - load.body_bytes;
    let mut encoder = Encoder::of(message, number_at);
    let mut waiting: VecDeque<Instant> = VecDeque::new();
    let mut latencies_us = Vec::with_capacity(load.count as usize);
    let (mut sent, mut out) = (0, Vec::new());
    while sent < load.count || !waiting.is_empty() {
        while sent < load.count && (waiting.len() as u64) < window && out.len() < WRITE_BYTES {
            encoder.write(sent, &mut out);
            waiting.push_back(Instant::now());
            sent += 1;
        }
        publisher.socket.write_all(&out).await?;
        out.clear();
        if sent < load.count && (waiting.len() as u64) < window {
            continue;
        }
        publisher
            .read(|answer| {
                let (Answer::Bytes(_), Some(at)) = (&answer, waiting.pop_front()) else {
                    return Err(io::Error::other(format!("an id is expected, there came {answer:?}")));
                };
                latencies_us.push(at.elapsed().as_micros() as u32);
                Ok(())
            })
            .await?;
    }
    Ok(latencies_us)
}

async fn consume(mut consumer: Link, load: Load) -> io::Result<Link> {
    let filling = vec![b'x'; load.body_bytes - super::flow::DIGITS];
    let stream = load.queue.as_bytes();
    let read: &[&[u8]] = &[
        b"XREADGROUP",
        b"GROUP",
        b"g",
        b"c",
        b"COUNT",
        READ_COUNT.as_bytes(),
        b"BLOCK",
        b"1000",
        b"STREAMS",
        stream,
        b">",
    ];
    let read = command(read);
    let mut next = 0;
    let mut out = read.clone();
    let mut ids: Vec<Vec<u8>> = Vec::new();
    while next < load.count {
        consumer.socket.write_all(&out).await?;
        // stream, count of messages, then each: id, field, body
        let (mut heads, mut left) = (0, None);
        while left != Some(0) {
            consumer
                .read(|answer| {
                    match answer {
                        Answer::Number(_) => {}
                        // nothing came in time
                        Answer::Many(-1) => left = Some(0),
                        Answer::Many(count) => {
                            heads += 1;
                            if heads == 3 {
                                left = Some(count);
                            }
                        }
                        Answer::Bytes(body) if body.len() == load.body_bytes => {
                            whole(body, next, &filling)?;
                            next += 1;
                            left = left.map(|left| left - 1);
                        }
                        Answer::Bytes(id) if id.contains(&b'-') && left.is_some() => ids.push(id.to_vec()),
                        Answer::Bytes(_) => {}
                        other => {
                            return Err(io::Error::other(format!(
                                "messages are expected, there came {other:?}"
                            )));
                        }
                    }
                    Ok(())
                })
                .await?;
        }
        out.clear();
        if !ids.is_empty() {
            let mut parts: Vec<&[u8]> = vec![b"XACK", stream, b"g"];
            parts.extend(ids.iter().map(Vec::as_slice));
            out.extend(command(&parts));
            ids.clear();
        }
        if next < load.count {
            out.extend_from_slice(&read);
        }
    }
    consumer.socket.write_all(&out).await?;
    let mut acked = false;
    while !acked {
        consumer
            .read(|answer| {
                acked = matches!(answer, Answer::Number(_));
                Ok(())
            })
            .await?;
    }
    Ok(consumer)
}

/// One answer, or the beginning of several.
#[derive(Debug)]
enum Answer<'a> {
    Text,
    Number(i64),
    Bytes(&'a [u8]),
    Nothing,
    Many(i64),
}

struct Link {
    socket: TcpStream,
    input: Vec<u8>,
}

fn command(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", parts.len()).into_bytes();
    for part in parts {
        out.extend(format!("${}\r\n", part.len()).into_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
    out
}

impl Link {
    async fn open(address: &str) -> io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, input: Vec::new() })
    }

    /// A command; its first number, 0 without one.
    async fn call(&mut self, parts: &[&[u8]]) -> io::Result<i64> {
        self.socket.write_all(&command(parts)).await?;
        let mut number = None;
        while number.is_none() {
            self.read(|answer| {
                let found = if let Answer::Number(found) = answer { found } else { 0 };
                number = number.or((!matches!(answer, Answer::Many(_))).then_some(found));
                Ok(())
            })
            .await?;
        }
        Ok(number.unwrap_or(0))
    }

    /// Waits for one read; `each` gets every whole answer.
    async fn read(&mut self, mut each: impl FnMut(Answer<'_>) -> io::Result<()>) -> io::Result<()> {
        self.input.reserve(READ_BYTES);
        if self.socket.read_buf(&mut self.input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut at = 0;
        while let Some((answer, next)) = cut(&self.input, at)? {
            each(answer)?;
            at = next;
        }
        self.input.drain(..at);
        Ok(())
    }
}

fn cut(input: &[u8], at: usize) -> io::Result<Option<(Answer<'_>, usize)>> {
    let rest = input.get(at..).unwrap_or_default();
    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (line, next) = (&rest[..end], at + end + 2);
    let Some((kind, text)) = line.split_first() else { return Err(io::Error::other("an empty answer")) };
    let number = || {
        let text = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
        text.ok_or_else(|| io::Error::other("an answer without a number"))
    };
    Ok(Some(match kind {
        b'+' => (Answer::Text, next),
        b'-' => return Err(io::Error::other(String::from_utf8_lossy(text).into_owned())),
        b':' => (Answer::Number(number()?), next),
        b'*' => (Answer::Many(number()?), next),
        b'$' => match usize::try_from(number()?) {
            Err(_) => (Answer::Nothing, next),
            Ok(length) => match input.get(next..next + length + 2) {
                None => return Ok(None),
                Some(bytes) => (Answer::Bytes(&bytes[..length]), next + length + 2),
            },
        },
        _ => return Err(io::Error::other("an answer of an unknown kind")),
    }))
}
