//! NATS core as a peer of the transient row: one subject, one subscriber, nothing stored.
//!
//! `PUB subject length`, a line end, the body, a line end; it comes as `MSG subject id length` in the same shape

use std::io;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::flow::{DIGITS, Encoder, Load, Progress, UNCONFIRMED_MAX, WRITE_BYTES, whole};
use crate::servers::{Server, free_port, wait};

const READ_BYTES: usize = 256 * 1024;

impl Server {
    /// The NATS server, as Debian packages it, without JetStream.
    pub(crate) fn nats() -> io::Result<Self> {
        let home = tempfile::tempdir()?;
        let port = free_port()?;
        let child = Command::new("nats-server")
            .args(["-a", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| io::Error::other(format!("nats-server: {e} (Debian package nats-server)")))?;
        let mut server = Self::started(child, home, "nats", None);
        server.own = format!("127.0.0.1:{port}");
        wait(|| std::net::TcpStream::connect(&server.own).ok())
            .ok_or_else(|| io::Error::other("nats-server did not start"))?;
        Ok(server)
    }
}

/// Runs a load that nothing confirms: as fast as the subscriber takes it.
///
/// # Errors
/// The run is not complete, in order and whole.
pub(super) async fn run(address: &str, load: Load) -> io::Result<Vec<u32>> {
    let mut subscriber = open(address).await?;
    subscriber.write_all(format!("SUB {} 1\r\nPING\r\n", load.queue).as_bytes()).await?;
    pong(&mut subscriber).await?;
    let mut publisher = open(address).await?;
    let progress = Arc::new(Progress::start(0));
    let consumed = tokio::spawn(consume(subscriber, load.clone(), Arc::clone(&progress)));
    let message = format!("PUB {} {}\r\n{}\r\n", load.queue, load.body_bytes, "x".repeat(load.body_bytes));
    let number_at = message.len() - 2 - load.body_bytes;
    let mut encoder = Encoder::of(message.into_bytes(), number_at);
    let (mut sent, mut out) = (0, Vec::new());
    while sent < load.count {
        let more = progress.more.notified();
        let limit = load.count.min(progress.consumed.load(Ordering::Acquire) + UNCONFIRMED_MAX);
        if sent >= limit {
            more.await;
            continue;
        }
        while sent < limit && out.len() < WRITE_BYTES {
            encoder.write(sent, &mut out);
            sent += 1;
        }
        publisher.write_all(&out).await?;
        out.clear();
    }
    consumed.await.map_err(io::Error::other)??;
    Ok(Vec::new())
}

async fn open(address: &str) -> io::Result<TcpStream> {
    let mut socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    socket.write_all(b"CONNECT {\"verbose\":false,\"pedantic\":false}\r\nPING\r\n").await?;
    pong(&mut socket).await?;
    Ok(socket)
}

async fn pong(socket: &mut TcpStream) -> io::Result<()> {
    let mut said = Vec::new();
    while !said.ends_with(b"PONG\r\n") {
        if socket.read_buf(&mut said).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

async fn consume(mut socket: TcpStream, load: Load, progress: Arc<Progress>) -> io::Result<()> {
    let filling = vec![b'x'; load.body_bytes - DIGITS];
    let mut input: Vec<u8> = Vec::new();
    let mut next = 0;
    while next < load.count {
        input.reserve(READ_BYTES);
        if socket.read_buf(&mut input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut at = 0;
        while let Some(end) = input[at..].windows(2).position(|pair| pair == b"\r\n") {
            let (line, body_at) = (&input[at..at + end], at + end + 2);
            if line == b"PING" {
                socket.write_all(b"PONG\r\n").await?;
                at = body_at;
                continue;
            }
            if !line.starts_with(b"MSG ") {
                return Err(io::Error::other(String::from_utf8_lossy(line).into_owned()));
            }
            let Some(body) = input.get(body_at..body_at + load.body_bytes + 2) else { break };
            whole(&body[..load.body_bytes], next, &filling)?;
            next += 1;
            at = body_at + load.body_bytes + 2;
        }
        input.drain(..at);
        progress.consumed.store(next, Ordering::Release);
        progress.more.notify_one();
    }
    Ok(())
}
