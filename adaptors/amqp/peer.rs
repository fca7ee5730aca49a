//! The matrix's AMQP client, and the one of the tests: blocking, written from the specification and not from the codec.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::Gateway;
use crate::peers::{Consumer, Keeps, Peer, Sample};

/// Its ways in and out.
#[must_use]
pub fn peers() -> Vec<Peer> {
    vec![Peer {
        protocol: "amqp",
        way: "queue",
        publish: Some(amqp_publish),
        subscribe: Some(amqp_subscribe),
        keeps: Keeps::Everything,
    }]
}

/// Arguments of a method, written field by field.
#[derive(Debug, Clone, Default)]
pub struct Args(pub Vec<u8>);

/// No arguments yet.
#[must_use]
pub fn args() -> Args {
    Args::default()
}

impl Args {
    /// One byte; also bits that stand together.
    #[must_use]
    pub fn octet(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    /// Two bytes.
    #[must_use]
    pub fn short(mut self, value: u16) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// Four bytes.
    #[must_use]
    pub fn long(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// Eight bytes.
    #[must_use]
    pub fn longlong(mut self, value: u64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// A short string.
    #[must_use]
    pub fn text(mut self, value: &str) -> Self {
        self.0.push(u8::try_from(value.len()).expect("short"));
        self.0.extend(value.as_bytes());
        self
    }

    /// A long string.
    #[must_use]
    pub fn long_text(mut self, value: &[u8]) -> Self {
        self.0.extend(u32::try_from(value.len()).expect("fits").to_be_bytes());
        self.0.extend(value);
        self
    }

    /// A table.
    #[must_use]
    pub fn table(self, entries: &[(&str, Field)]) -> Self {
        let mut bytes = Vec::new();
        for (key, field) in entries {
            bytes.push(u8::try_from(key.len()).expect("short"));
            bytes.extend(key.as_bytes());
            field.put(&mut bytes);
        }
        self.long_text(&bytes)
    }
}

/// A value of a table.
#[derive(Debug, Clone)]
pub enum Field {
    /// Letter `t`.
    Bool(bool),
    /// Letter `I`.
    Int(i32),
    /// Letter `l`.
    Long(i64),
    /// Letter `b`.
    Tiny(i8),
    /// Letter `S`.
    Text(&'static str),
    /// Letter `A`, of texts.
    List(&'static [&'static str]),
    /// Letter `F`.
    Table(Vec<(&'static str, Field)>),
}

impl Field {
    fn put(&self, out: &mut Vec<u8>) {
        let sized = |out: &mut Vec<u8>, bytes: &[u8]| {
            out.extend(u32::try_from(bytes.len()).expect("fits").to_be_bytes());
            out.extend(bytes);
        };
        match self {
            Self::Bool(flag) => out.extend([b't', u8::from(*flag)]),
            Self::Int(number) => {
                out.push(b'I');
                out.extend(number.to_be_bytes());
            }
            Self::Long(number) => {
                out.push(b'l');
                out.extend(number.to_be_bytes());
            }
            Self::Tiny(number) => {
                out.push(b'b');
                out.extend(number.to_be_bytes());
            }
            Self::Text(text) => {
                out.push(b'S');
                sized(out, text.as_bytes());
            }
            Self::List(items) => {
                let mut inner = Vec::new();
                for item in *items {
                    Self::Text(item).put(&mut inner);
                }
                out.push(b'A');
                sized(out, &inner);
            }
            Self::Table(entries) => {
                let table = args().table(entries).0;
                out.push(b'F');
                out.extend(table);
            }
        }
    }
}

/// A method that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Came {
    /// Channel.
    pub channel: u16,
    /// Class and method.
    pub id: (u16, u16),
    /// Arguments.
    pub args: Vec<u8>,
}

impl Came {
    /// The short string that begins at this place.
    #[must_use]
    pub fn text_at(&self, at: usize) -> String {
        let length = usize::from(self.args[at]);
        String::from_utf8_lossy(&self.args[at + 1..at + 1 + length]).into_owned()
    }

    /// The number of four bytes at this place.
    #[must_use]
    pub fn long_at(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.args[at..at + 4].try_into().expect("four bytes"))
    }

    /// The number of eight bytes at this place.
    #[must_use]
    pub fn longlong_at(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.args[at..at + 8].try_into().expect("eight bytes"))
    }

    /// A close as `scope code text class.method`; anything else as its numbers.
    #[must_use]
    pub fn told(&self) -> String {
        let scope = match self.id {
            (10, 50) => "connection",
            (20, 40) => "channel",
            (class, method) => return format!("{class}.{method}"),
        };
        let code = u16::from_be_bytes([self.args[0], self.args[1]]);
        let text = self.text_at(2);
        let end = &self.args[3 + text.len()..];
        let class = u16::from_be_bytes([end[0], end[1]]);
        let method = u16::from_be_bytes([end[2], end[3]]);
        format!("{scope} {code} {text} {class}.{method}")
    }
}

/// A message that came: property flags and values, and the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// As in the content header.
    pub properties: Vec<u8>,
    /// All pieces.
    pub body: Vec<u8>,
}

impl Content {
    /// A short-string property by its flag. Only flags above it may be short strings or one byte.
    #[must_use]
    pub fn text(&self, flag: u16) -> Option<String> {
        let flags = u16::from_be_bytes([self.properties[0], self.properties[1]]);
        let mut at = 2;
        for bit in (0..16).rev().map(|bit| 1_u16 << bit).filter(|bit| flags & bit != 0) {
            let size = match bit {
                0x2000 => 4 + u32::from_be_bytes(self.properties[at..at + 4].try_into().ok()?) as usize,
                0x1000 | 0x0800 => 1,
                0x0040 => 8,
                _ => 1 + usize::from(self.properties[at]),
            };
            if bit == flag {
                return Some(String::from_utf8_lossy(&self.properties[at + 1..at + size]).into_owned());
            }
            at += size;
        }
        None
    }
}

/// A client.
pub struct Amqp {
    socket: TcpStream,
}

impl Amqp {
    /// The connection itself.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Connects and sends the protocol header.
    #[must_use]
    pub fn raw(address: &str) -> Self {
        let mut socket = TcpStream::connect(address).expect("connects");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("timeout");
        socket.set_nodelay(true).expect("nodelay");
        socket.write_all(b"AMQP\x00\x00\x09\x01").expect("written");
        Self { socket }
    }

    /// Connects, logs in as guest, opens `/` and channel 1.
    #[must_use]
    pub fn connect(address: &str) -> Self {
        let mut client = Self::login(address, "/");
        client.expect(10, 41);
        client.open(1);
        client
    }

    /// Connects and logs in as guest, up to and with `connection.open`, whose answer is still to come.
    #[must_use]
    pub fn login(address: &str, vhost: &str) -> Self {
        Self::login_as(address, vhost, b"\0guest\0guest")
    }

    /// The same as the user of a PLAIN response.
    #[must_use]
    pub fn login_as(address: &str, vhost: &str, plain: &[u8]) -> Self {
        let mut client = Self::raw(address);
        client.expect(10, 10);
        let capabilities = vec![
            ("authentication_failure_close", Field::Bool(true)),
            ("consumer_cancel_notify", Field::Bool(true)),
            ("connection.blocked", Field::Bool(true)),
        ];
        let properties = [("capabilities", Field::Table(capabilities))];
        let start_ok = args().table(&properties).text("PLAIN").long_text(plain).text("en_US");
        client.send(0, 10, 11, start_ok);
        client.expect(10, 30);
        client.send(0, 10, 31, args().short(2047).long(131_072).short(0));
        client.send(0, 10, 40, args().text(vhost).text("").octet(0));
        client
    }

    /// Opens a channel.
    pub fn open(&mut self, channel: u16) {
        self.send(channel, 20, 10, args().text(""));
        self.expect(20, 11);
    }

    /// Sends a frame.
    pub fn frame(&mut self, kind: u8, channel: u16, payload: &[u8]) {
        let mut bytes = vec![kind];
        bytes.extend(channel.to_be_bytes());
        bytes.extend(u32::try_from(payload.len()).expect("fits").to_be_bytes());
        bytes.extend(payload);
        bytes.push(0xCE);
        self.bytes(&bytes);
    }

    /// Sends bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("written");
    }

    /// Sends a method.
    pub fn send(&mut self, channel: u16, class: u16, method: u16, args: Args) {
        let mut payload = Vec::new();
        payload.extend(class.to_be_bytes());
        payload.extend(method.to_be_bytes());
        payload.extend(args.0);
        self.frame(1, channel, &payload);
    }

    /// The next frame; heartbeats are passed over. None at the end.
    pub fn next_frame(&mut self) -> Option<(u8, u16, Vec<u8>)> {
        loop {
            let mut head = [0; 7];
            self.socket.read_exact(&mut head).ok()?;
            let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
            let mut payload = vec![0; size + 1];
            self.socket.read_exact(&mut payload).ok()?;
            assert_eq!(payload.pop(), Some(0xCE), "frame end");
            if head[0] != 8 {
                return Some((head[0], u16::from_be_bytes([head[1], head[2]]), payload));
            }
        }
    }

    /// The next method.
    ///
    /// # Panics
    /// When something else comes.
    pub fn method(&mut self) -> Came {
        let (kind, channel, payload) = self.next_frame().expect("a frame");
        assert_eq!(kind, 1, "a method");
        let number = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
        Came { channel, id: (number(0), number(2)), args: payload[4..].to_vec() }
    }

    /// That method, and no other.
    ///
    /// # Panics
    /// When another comes.
    pub fn expect(&mut self, class: u16, method: u16) -> Came {
        let came = self.method();
        assert_eq!(came.id, (class, method), "{}", came.told());
        came
    }

    /// The content behind a method.
    pub fn content(&mut self) -> Content {
        let (kind, _, header) = self.next_frame().expect("a header");
        assert_eq!(kind, 2, "a header");
        let size = u64::from_be_bytes(header[4..12].try_into().expect("eight bytes"));
        let mut body = Vec::new();
        while (body.len() as u64) < size {
            let (kind, _, piece) = self.next_frame().expect("a body");
            assert_eq!(kind, 3, "a body");
            body.extend(piece);
        }
        Content { properties: header[12..].to_vec(), body }
    }

    /// Declares a queue with these bits (2 durable, 4 exclusive, 8 auto-delete, 1 passive, 16 no wait) and does not wait.
    pub fn send_declare(&mut self, channel: u16, queue: &str, bits: u8, arguments: &[(&str, Field)]) {
        self.send(channel, 50, 10, args().short(0).text(queue).octet(bits).table(arguments));
    }

    /// Declares a durable queue on channel 1.
    pub fn declare(&mut self, queue: &str) {
        self.send_declare(1, queue, 2, &[]);
        self.expect(50, 11);
    }

    /// Publishes: flags and values, and a body.
    pub fn publish(&mut self, channel: u16, exchange: &str, key: &str, bits: u8, properties: &[u8], body: &[u8]) {
        self.send(channel, 60, 40, args().short(0).text(exchange).text(key).octet(bits));
        let mut header = args().short(60).short(0).longlong(body.len() as u64).0;
        header.extend(properties);
        self.frame(2, channel, &header);
        for piece in body.chunks(131_064) {
            self.frame(3, channel, piece);
        }
    }

    /// Starts a consumer on channel 1. Bits: 2 no ack, 4 exclusive.
    pub fn consume(&mut self, queue: &str, tag: &str, bits: u8) {
        self.send(1, 60, 20, args().short(0).text(queue).text(tag).octet(bits).table(&[]));
        self.expect(60, 21);
    }

    /// The next delivery: its tag, whether it was delivered before, the message.
    pub fn delivery(&mut self) -> (u64, bool, Content) {
        let came = self.expect(60, 60);
        let after_tag = 1 + usize::from(came.args[0]);
        let tag = came.longlong_at(after_tag);
        (tag, came.args[after_tag + 8] & 1 == 1, self.content())
    }

    /// Acks on channel 1.
    pub fn ack(&mut self, tag: u64, multiple: bool) {
        self.send(1, 60, 80, args().longlong(tag).octet(multiple.into()));
    }

    /// Pulls a message on channel 1, with ack.
    pub fn get(&mut self, queue: &str) -> Option<(Came, Content)> {
        self.send(1, 60, 70, args().short(0).text(queue).octet(0));
        let came = self.method();
        match came.id {
            (60, 71) => {
                let content = self.content();
                Some((came, content))
            }
            (60, 72) => None,
            _ => panic!("{}", came.told()),
        }
    }
}

fn amqp_publish(gateway: &Gateway, topic: &str, sample: &Sample) {
    let mut client = Amqp::connect(&gateway.address("amqp"));
    client.send(1, 85, 10, args().octet(0));
    client.expect(85, 11);
    let mut flags = 0x1000_u16;
    for (flag, text) in [(0x8000, &sample.content_type), (0x0080, &sample.id), (0x0020, &sample.kind)] {
        if !text.is_empty() {
            flags |= flag;
        }
    }
    let mut properties = args().short(flags);
    if !sample.content_type.is_empty() {
        properties = properties.text(&sample.content_type);
    }
    properties = properties.octet(2);
    for text in [&sample.id, &sample.kind] {
        if !text.is_empty() {
            properties = properties.text(text);
        }
    }
    client.publish(1, "amq.topic", topic, 0, &properties.0, &sample.data);
    client.expect(60, 80);
}

struct AmqpConsumer(Amqp);

impl Consumer for AmqpConsumer {
    fn next(&mut self) -> Sample {
        let (tag, _, content) = self.0.delivery();
        self.0.ack(tag, false);
        let text = |flag| content.text(flag).unwrap_or_default();
        Sample { id: text(0x0080), kind: text(0x0020), content_type: text(0x8000), data: content.body.clone() }
    }
}

fn amqp_subscribe(gateway: &Gateway, topic: &str) -> Box<dyn Consumer> {
    let mut client = Amqp::connect(&gateway.address("amqp"));
    let queue = format!("to-{topic}");
    client.declare(&queue);
    client.send(1, 50, 20, args().short(0).text(&queue).text("amq.topic").text(topic).octet(0).table(&[]));
    client.expect(50, 21);
    client.send(1, 60, 10, args().long(0).short(10).octet(0));
    client.expect(60, 11);
    client.consume(&queue, "", 0);
    Box::new(AmqpConsumer(client))
}
