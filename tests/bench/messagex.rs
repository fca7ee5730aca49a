//! Framed JSON over TCP: one publisher with a window of unconfirmed messages and one consumer, at the same time, over
//! one queue. Counts only when every body came back once and in order, every publish was confirmed and the queue is
//! empty at the end.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::load::{Body, Finder, bodies};
use crate::report::Figures;
use crate::servers::Server;
use crate::steady;

/// Unacked messages at the consumer.
const PREFETCH: u32 = 1000;

/// What a path promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Durable queue, persistent messages, acks.
    Persistent,
    /// Transient queue and messages, acked by being sent.
    Transient,
}

impl Promise {
    pub(crate) fn name(self) -> &'static str {
        if self == Self::Persistent { "persistent, acks" } else { "transient, auto-ack" }
    }
}

/// Every path once.
///
/// # Errors
/// A run is not complete and in order.
pub(crate) fn run(runtime: &Runtime, quick: bool) -> io::Result<()> {
    let count = if quick { 5_000 } else { 100_000 };
    for (promise, window, count) in [
        (Promise::Persistent, 1, count / 20),
        (Promise::Persistent, 256, count),
        (Promise::Transient, 256, count),
    ] {
        let server = Server::framegate()?;
        runtime.block_on(flow(&server, promise, window, count))?.print();
    }
    for promise in [Promise::Persistent, Promise::Transient] {
        let server = Server::framegate()?;
        runtime.block_on(steady::run(&server, promise, if quick { 2_000 } else { 20_000 }))?.print();
    }
    Ok(())
}

/// One command as a packet.
pub(crate) fn command(id: u64, name: &str, payload: &str) -> Vec<u8> {
    let text = format!(
        r#"{{"version":1,"type":"COMMAND","command":"{name}","requestId":"{id}","payload":{payload}}}"#
    );
    let mut packet = (text.len() as u32).to_be_bytes().to_vec();
    packet.extend_from_slice(text.as_bytes());
    packet
}

/// A publish as a packet.
pub(crate) fn publish_command(id: u64, promise: Promise, body: &Body) -> Vec<u8> {
    let persistent = promise == Promise::Persistent;
    let text = String::from_utf8_lossy(body);
    let payload = format!(r#"{{"routingKey":"bench","persistent":{persistent},"body":"{text}"}}"#);
    command(id, "PUBLISH", &payload)
}

/// One `PING` and its answer.
pub(crate) async fn ping(socket: &mut TcpStream) -> io::Result<()> {
    socket.write_all(&command(1, "PING", "{}")).await?;
    ask(socket, &mut Packets::default()).await.map(drop)
}

/// Declares the queue.
pub(crate) async fn declare(address: &str, promise: Promise) -> io::Result<()> {
    let mut socket = TcpStream::connect(address).await?;
    let durable = promise == Promise::Persistent;
    socket
        .write_all(&command(1, "QUEUE_DECLARE", &format!(r#"{{"name":"bench","durable":{durable}}}"#)))
        .await?;
    ask(&mut socket, &mut Packets::default()).await.map(drop)
}

async fn ask(socket: &mut TcpStream, packets: &mut Packets) -> io::Result<String> {
    let mut text = String::new();
    while text.is_empty() {
        packets.read(socket, |packet| text = String::from_utf8_lossy(packet).into_owned()).await?;
    }
    if !succeeded(text.as_bytes()) {
        return Err(io::Error::other(text));
    }
    Ok(text)
}

/// Whether an answer is a success.
pub(crate) fn succeeded(packet: &[u8]) -> bool {
    packet.windows(14).any(|w| w == br#""success":true"#)
}

/// Cuts packets out of a stream.
#[derive(Default)]
pub(crate) struct Packets {
    buffer: Vec<u8>,
}

impl Packets {
    /// Reads once; gives the number of whole packets.
    pub(crate) async fn read(
        &mut self,
        socket: &mut (impl AsyncReadExt + Unpin),
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<u64> {
        self.buffer.reserve(64 * 1024);
        if socket.read_buf(&mut self.buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (mut at, mut count) = (0, 0);
        while let Some(head) = self.buffer.get(at..at + 4) {
            let len = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let Some(packet) = self.buffer.get(at + 4..at + 4 + len) else { break };
            each(packet);
            at += 4 + len;
            count += 1;
        }
        self.buffer.drain(..at);
        Ok(count)
    }
}

async fn flow(server: &Server, promise: Promise, window: u64, count: u64) -> io::Result<Figures> {
    declare(&server.messagex, promise).await?;
    let bodies = bodies(count);
    let consumer = start_consumer(&server.messagex, promise).await?;
    let (cpu, started) = (server.tree().cpu_seconds(), Instant::now());
    let consumed = tokio::spawn(consume(consumer, promise, Arc::clone(&bodies), |_| {}));
    let latencies_us = publish(&server.messagex, promise, window, &bodies).await?;
    consumed.await.map_err(io::Error::other)??;
    Ok(Figures {
        path: format!("messagex {}, window {window}", promise.name()),
        server: server.name,
        count,
        seconds: started.elapsed().as_secs_f64(),
        cpu_seconds: server.tree().cpu_seconds() - cpu,
        peak_kib: server.tree().peak_kib(),
        latencies_us,
        ..Figures::default()
    })
}

/// Gives the time from publish to confirm, in microseconds.
async fn publish(address: &str, promise: Promise, window: u64, bodies: &[Body]) -> io::Result<Vec<u32>> {
    let mut socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let packets_out: Vec<Vec<u8>> =
        bodies.iter().zip(1..).map(|(body, id)| publish_command(id, promise, body)).collect();
    let mut packets = Packets::default();
    let (mut sent, mut confirmed) = (0, 0);
    let mut sent_at = VecDeque::new();
    let mut latencies_us = Vec::new();
    let mut out = Vec::new();
    while confirmed < bodies.len() as u64 {
        while sent - confirmed < window
            && let Some(packet) = packets_out.get(sent as usize)
        {
            out.extend_from_slice(packet);
            sent_at.push_back(Instant::now());
            sent += 1;
        }
        socket.write_all(&out).await?;
        out.clear();
        let mut failed = false;
        let answers = packets.read(&mut socket, |packet| failed |= !succeeded(packet)).await?;
        if failed {
            return Err(io::Error::other("a publish failed"));
        }
        latencies_us.extend(sent_at.drain(..answers as usize).map(|sent| sent.elapsed().as_micros() as u32));
        confirmed += answers;
    }
    Ok(latencies_us)
}

/// A connection whose consumer has been answered.
pub(crate) async fn start_consumer(address: &str, promise: Promise) -> io::Result<TcpStream> {
    let mut socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let payload = match promise {
        Promise::Persistent => format!(r#"{{"queueName":"bench","prefetch":{PREFETCH}}}"#),
        Promise::Transient => r#"{"queueName":"bench","autoAck":true}"#.to_owned(),
    };
    socket.write_all(&command(1, "CONSUME", &payload)).await?;
    ask(&mut socket, &mut Packets::default()).await?;
    Ok(socket)
}

/// Consumes everything: `found` for each number. Acks what one read brought with one command. Leaves an empty queue.
pub(crate) async fn consume(
    mut socket: TcpStream,
    promise: Promise,
    bodies: Arc<Vec<Body>>,
    mut found: impl FnMut(u64) + Send + 'static,
) -> io::Result<()> {
    let mut finder = Finder::new(bodies);
    let mut packets = Packets::default();
    let mut id = 1;
    while !finder.done() {
        let (mut last, mut wrong) = (None, None);
        packets
            .read(&mut socket, |packet| {
                let before = finder.next;
                if let Err(error) = finder.take(packet, &mut found) {
                    wrong = wrong.take().or(Some(error));
                }
                if finder.next != before && promise == Promise::Persistent {
                    last = tag(packet).or(last.take());
                }
            })
            .await?;
        if let Some(error) = wrong {
            return Err(error);
        }
        if let Some(tag) = last {
            id += 1;
            let payload = format!(r#"{{"deliveryTag":"{tag}","multiple":true}}"#);
            socket.write_all(&command(id, "ACK", &payload)).await?;
        }
    }
    socket.write_all(&command(id + 1, "QUEUE_GET", r#"{"name":"bench"}"#)).await?;
    let mut text = String::new();
    while !text.contains("messageCount") {
        text = ask(&mut socket, &mut packets).await?;
    }
    if !text.contains(r#""messageCount":0"#) || !text.contains(r#""unackedCount":0"#) {
        return Err(io::Error::other(format!("the queue is not empty at the end: {text}")));
    }
    Ok(())
}

fn tag(packet: &[u8]) -> Option<String> {
    let key = br#""deliveryTag":""#;
    let at = packet.windows(key.len()).position(|w| w == key)? + key.len();
    let end = packet[at..].iter().position(|b| *b == b'"')? + at;
    String::from_utf8(packet[at..end].to_vec()).ok()
}
