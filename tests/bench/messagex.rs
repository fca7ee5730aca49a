//! Framed JSON over TCP: persistent publishes with a window of unconfirmed ones, and their consumption with acks.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::load::{Finder, body};
use crate::report::Figures;
use crate::servers::Server;

/// Every path once.
pub(crate) fn run(runtime: &Runtime, quick: bool) -> io::Result<()> {
    let count = if quick { 5_000 } else { 100_000 };
    for (window, count) in [(1, count / 20), (256, count)] {
        let server = Server::framegate()?;
        runtime.block_on(publish(&server, window, count))?.print();
        runtime.block_on(consume(&server, count))?.print();
    }
    Ok(())
}

fn command(id: u64, name: &str, payload: &str) -> Vec<u8> {
    let text = format!(
        r#"{{"version":1,"type":"COMMAND","command":"{name}","requestId":"{id}","payload":{payload}}}"#
    );
    let mut packet = (text.len() as u32).to_be_bytes().to_vec();
    packet.extend_from_slice(text.as_bytes());
    packet
}

/// Cuts packets out of a stream.
#[derive(Default)]
struct Packets {
    buffer: Vec<u8>,
}

impl Packets {
    async fn read(&mut self, socket: &mut TcpStream, mut each: impl FnMut(&[u8])) -> io::Result<u64> {
        let before = self.buffer.len();
        self.buffer.resize(before + 64 * 1024, 0);
        let n = socket.read(&mut self.buffer[before..]).await?;
        self.buffer.truncate(before + n);
        if n == 0 {
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

async fn publish(server: &Server, window: u64, count: u64) -> io::Result<Figures> {
    let mut socket = TcpStream::connect(&server.messagex).await?;
    socket.set_nodelay(true)?;
    let mut packets = Packets::default();
    socket.write_all(&command(0, "QUEUE_DECLARE", r#"{"name":"bench","durable":true}"#)).await?;
    while packets.read(&mut socket, |_| {}).await? == 0 {}
    let (cpu, started) = (server.tree().cpu_seconds(), Instant::now());
    let (mut sent, mut confirmed) = (0, 0);
    let mut sent_at = VecDeque::new();
    let mut latencies_us = Vec::new();
    let mut out = Vec::new();
    while confirmed < count {
        while sent < count && sent - confirmed < window {
            let text = String::from_utf8_lossy(&body(sent)).into_owned();
            let payload = format!(r#"{{"routingKey":"bench","persistent":true,"body":"{text}"}}"#);
            out.extend(command(sent + 1, "PUBLISH", &payload));
            sent_at.push_back(Instant::now());
            sent += 1;
        }
        socket.write_all(&out).await?;
        out.clear();
        let mut failed = false;
        let answers = packets
            .read(&mut socket, |p| failed |= !p.windows(14).any(|w| w == br#""success":true"#))
            .await?;
        if failed {
            return Err(io::Error::other("a publish failed"));
        }
        for sent in sent_at.drain(..answers as usize) {
            latencies_us.push(sent.elapsed().as_micros() as u32);
        }
        confirmed += answers;
    }
    let path = format!("messagex persistent publish, window {window}");
    Ok(figures(server, path, count, started, cpu, latencies_us))
}

async fn consume(server: &Server, count: u64) -> io::Result<Figures> {
    let mut socket = TcpStream::connect(&server.messagex).await?;
    let mut packets = Packets::default();
    let (cpu, started) = (server.tree().cpu_seconds(), Instant::now());
    socket.write_all(&command(1, "CONSUME", r#"{"queueName":"bench","prefetch":1000}"#)).await?;
    let mut finder = Finder::default();
    let mut id = 1;
    while finder.next < count {
        let mut last = None;
        let mut wrong = None;
        packets
            .read(&mut socket, |packet| {
                if packet.windows(17).any(|w| w == b"MESSAGE_DELIVERED") {
                    wrong = finder.take(packet_body(packet), |_| {}).err();
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
    Ok(figures(server, "messagex consume with acks".to_owned(), count, started, cpu, Vec::new()))
}

/// The packet from its body on: the event's name has a capital E too.
fn packet_body(packet: &[u8]) -> &[u8] {
    let at = packet.windows(7).position(|w| w == br#""body":"#).unwrap_or(0);
    &packet[at..]
}

fn tag(packet: &[u8]) -> Option<String> {
    let key = br#""deliveryTag":""#;
    let at = packet.windows(key.len()).position(|w| w == key)? + key.len();
    let end = packet[at..].iter().position(|b| *b == b'"')? + at;
    String::from_utf8(packet[at..end].to_vec()).ok()
}

fn figures(
    server: &Server,
    path: String,
    count: u64,
    started: Instant,
    cpu: f64,
    latencies_us: Vec<u32>,
) -> Figures {
    Figures {
        path,
        server: server.name,
        count,
        seconds: started.elapsed().as_secs_f64(),
        cpu_seconds: server.tree().cpu_seconds() - cpu,
        peak_kib: server.tree().peak_kib(),
        latencies_us,
    }
}
