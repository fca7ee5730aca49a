//! What captured clients sent to RabbitMQ, sent here: every frame that RabbitMQ answered must come, in its order, with its bytes.
//! `DIFFERENCES` lists what differs on purpose; names that a server makes, times and server-properties are taken out first.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use harness::peers::amqp::{Amqp, Field, args};
use harness::{Gateway, wait_until};
use serde_json::Value;

const PIKA: &str = include_str!("../vectors/amqp/pika-rabbitmq.json");
const AMQPLIB: &str = include_str!("../vectors/amqp/amqplib-rabbitmq.json");

/// What becomes of an answer of RabbitMQ's that is not answered alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    /// It does not come.
    Missing,
    /// It comes one frame later.
    Later,
    /// It says something else.
    Otherwise,
}
use Difference::{Later, Missing, Otherwise};

const LAST_DEATH: &str = "from 3.13 on the last death is told too; the order of headers has no meaning";

/// Name of a captured frame, what differs, why.
#[rustfmt::skip]
const DIFFERENCES: &[(&str, Difference, &str)] = &[
    ("server-cancel.06.Queue.DeleteOk", Later, "channel 2's answer and channel 1's cancel have no order between them"),
    ("confirm-reject-publish.10.Basic.Nack", Otherwise, "`multiple` only where several are meant"),
    ("dead-letter-rejected-received.03.content-header", Otherwise, LAST_DEATH),
    ("dead-letter-expired-received.03.content-header", Otherwise, LAST_DEATH),
    ("dead-letter-two-entries.03.content-header", Otherwise, "deaths that a client publishes count no more, as in 4.0"),
    ("dead-letter-maxlen.03.content-header", Otherwise, LAST_DEATH),
    ("blocked.06.Connection.Blocked", Missing, "an operator lowered RabbitMQ's memory limit; ours blocks for the disk"),
    ("unblocked.01.Connection.Unblocked", Missing, "goes with it"),
];

/// Before these the captured client closed channel 1, and the capture leaves that out.
const LEFT_OPEN: [&str; 2] = ["quorum.01.Channel.Open", "blocked.01.Channel.Open"];
const CLOSE_CHANNEL_1: &[u8] =
    b"\x01\x00\x01\x00\x00\x00\x0b\x00\x14\x00\x28\x00\xc8\x00\x00\x00\x00\x00\xce";

struct Captured {
    name: String,
    is_client: bool,
    bytes: Vec<u8>,
}

fn connections(file: &str) -> Vec<Vec<Captured>> {
    let file: Value = serde_json::from_str(file).expect("JSON");
    let mut connections: Vec<Vec<Captured>> = Vec::new();
    let mut last = 0;
    for vector in file["vectors"].as_array().expect("vectors") {
        let hex = vector["hex"].as_str().expect("hex");
        let octet = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
        let bytes = (0..hex.len()).step_by(2).map(octet).collect();
        let number = vector["connection"].as_u64().expect("number");
        if number != last {
            connections.push(Vec::new());
            last = number;
        }
        let name = vector["name"].as_str().expect("name").to_owned();
        let is_client = vector["direction"] == "client-to-server";
        connections.last_mut().expect("one").push(Captured { name, is_client, bytes });
    }
    connections
}

/// Replaces a short string of the capture by the one that this server made; lengths of frames follow.
struct Names(Vec<(Vec<u8>, Vec<u8>)>);

impl Names {
    /// `frame` with every known name replaced.
    fn ours(&self, frame: &[u8]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        for (theirs, ours) in &self.0 {
            let wanted = [&[u8::try_from(theirs.len()).expect("short")], theirs.as_slice()].concat();
            while let Some(at) = frame.windows(wanted.len()).position(|w| w == wanted) {
                let put = [&[u8::try_from(ours.len()).expect("short")], ours.as_slice()].concat();
                frame.splice(at..at + wanted.len(), put);
            }
        }
        if frame.len() >= 8 && !frame.starts_with(b"AMQP") {
            let size = u32::try_from(frame.len() - 8).expect("fits").to_be_bytes();
            frame[3..7].copy_from_slice(&size);
        }
        frame
    }

    /// Remembers a name that begins with `prefix` in both frames, unless it is known.
    fn learn(&mut self, theirs: &[u8], ours: &[u8], prefix: &[u8]) {
        if let (Some(theirs), Some(ours)) = (made(theirs, prefix), made(ours, prefix))
            && self.0.iter().all(|(known, _)| *known != theirs)
        {
            self.0.push((theirs, ours));
        }
    }
}

/// The short string in a frame that begins with `prefix` and goes on behind it.
fn made(frame: &[u8], prefix: &[u8]) -> Option<Vec<u8>> {
    let at = frame.windows(prefix.len()).position(|w| w == prefix)?;
    let length = usize::from(*frame.get(at.checked_sub(1)?)?);
    frame.get(at..at + length).filter(|name| name.len() > prefix.len()).map(<[u8]>::to_vec)
}

/// Class and method of a method frame.
fn method(frame: &[u8]) -> Option<(u16, u16)> {
    let number = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    (frame[0] == 1).then(|| (number(7), number(9)))
}

/// What is compared of a frame: channel and arguments, without times of deaths and what a server says of itself.
fn comparable(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if method(&frame) == Some((10, 10)) {
        frame.truncate(11);
        frame[3..7].fill(0);
    }
    let mut from = 0;
    while let Some(at) = frame[from..].windows(6).position(|w| w == b"\x04timeT") {
        from += at + 14;
        frame[from - 8..from].fill(0);
    }
    frame
}

fn read(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = vec![0; 8];
    socket.read_exact(&mut head).ok()?;
    if head.starts_with(b"AMQP") {
        return Some(head);
    }
    let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
    let mut rest = vec![0; size];
    socket.read_exact(&mut rest).ok()?;
    head.extend(rest);
    Some(head)
}

/// The next frame; heartbeats only when one is wanted.
fn next(socket: &mut TcpStream, name: &str) -> Vec<u8> {
    loop {
        let frame = read(socket).unwrap_or_else(|| panic!("{name}: the connection ended"));
        if frame[0] != 8 || name.ends_with("heartbeat") {
            return frame;
        }
    }
}

/// A step that the capture leaves out: a queue of one message gets two, and the first is a dead letter.
fn overflow(address: &str) {
    let mut client = Amqp::connect(address);
    let arguments = [
        ("x-max-length", Field::Int(1)),
        ("x-dead-letter-exchange", Field::Text("fg.dlx")),
        ("x-dead-letter-routing-key", Field::Text("rk2")),
    ];
    client.send_declare(1, "fg.ml", 0, &arguments);
    client.expect(50, 11);
    for body in [b"1", b"2"] {
        client.publish(1, "", "fg.ml", 0, &[0, 0], body);
    }
    client.send(1, 50, 30, args().short(0).text("fg.ml").octet(0));
    client.expect(50, 31);
}

/// What replays found.
#[derive(Default)]
struct Replays {
    compared: usize,
    /// Names of differences, in order.
    met: Vec<&'static str>,
    /// Frames with other bytes.
    wrong: Vec<String>,
}

impl Replays {
    /// Replays one connection.
    ///
    /// # Panics
    /// When another frame comes than came from RabbitMQ.
    fn replay(&mut self, address: &str, frames: &[Captured]) {
        let mut socket = TcpStream::connect(address).expect("connects");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("timeout");
        socket.set_nodelay(true).expect("nodelay");
        let mut names = Names(Vec::new());
        let (mut pulled, mut early) = (Vec::new(), None);
        for Captured { name, is_client, bytes } in frames {
            if *is_client {
                if name == "dead-letter-maxlen.01.Basic.Get" {
                    overflow(address);
                }
                if LEFT_OPEN.contains(&name.as_str()) {
                    socket.write_all(CLOSE_CHANNEL_1).expect("written");
                    assert_eq!(method(&next(&mut socket, name)), Some((20, 41)), "{name}");
                }
                let bytes = names.ours(bytes);
                socket.write_all(&bytes).expect("written");
                pulled = bytes;
                continue;
            }
            let difference = DIFFERENCES.iter().find(|(of, ..)| of == name);
            self.met.extend(difference.map(|(of, ..)| *of));
            if difference.is_some_and(|(_, what, _)| *what == Missing) {
                continue;
            }
            let mut got = early.take().unwrap_or_else(|| next(&mut socket, name));
            if difference.is_some_and(|(_, what, _)| *what == Later) {
                early = Some(std::mem::replace(&mut got, next(&mut socket, name)));
            }
            if method(bytes) == Some((60, 71)) && method(&got) == Some((60, 72)) {
                // what expires was waited for
                got = wait_until(name, || {
                    socket.write_all(&pulled).expect("written");
                    let got = next(&mut socket, name);
                    (method(&got) != Some((60, 72))).then_some(got)
                });
            }
            names.learn(bytes, &got, b"amq.gen-");
            names.learn(bytes, &got, b"amq.rabbitmq.reply-to.");
            let wanted = names.ours(bytes);
            let (ours, theirs) = (comparable(&got), comparable(&wanted));
            let told =
                format!("{name}:\n  RabbitMQ {}\n  here     {}", theirs.escape_ascii(), ours.escape_ascii());
            assert_eq!((got[0], method(&got)), (wanted[0], method(&wanted)), "{told}");
            let may_differ = difference.is_some_and(|(_, what, _)| *what == Otherwise);
            if (ours != theirs) != may_differ {
                self.wrong.push(told);
            }
            self.compared += 1;
        }
    }
}

#[test]
fn what_rabbitmq_answered_to_captured_clients_is_answered_here() {
    let mut replays = Replays::default();
    for file in [PIKA, AMQPLIB] {
        let gateway = Gateway::start();
        for frames in connections(file) {
            replays.replay(&gateway.address("amqp"), &frames);
        }
    }
    let Replays { compared, met, wrong } = replays;
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    let listed: Vec<&str> = DIFFERENCES.iter().map(|(name, ..)| *name).collect();
    assert_eq!(met, listed, "each difference is met once, in order");
    assert!(compared > 200, "{compared}");
    println!("{compared} answers are RabbitMQ's");
}
