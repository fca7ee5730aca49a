//! A bunqueue client written from the description of its wire: MessagePack over TCP, blocking, one command after the other or
//! pipelined. Shares no code with the server.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A MessagePack value as a client reads it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// JavaScript's `undefined`: extension 0 with one zero byte.
    Absent,
    /// nil
    Nil,
    /// A boolean.
    Bool(bool),
    /// A number; 64-bit integers are `Big`.
    Number(f64),
    /// A 64-bit integer, which a server must never send.
    Big(i128),
    /// UTF-8 text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Value>),
    /// A map with text keys, in order.
    Map(Vec<(String, Value)>),
    /// Another extension.
    Ext(i8, Vec<u8>),
}

/// A map literal: `map([("cmd", "Ping".into())])`.
#[must_use]
pub fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::Number(f64::from(number))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

impl Value {
    /// The value under a key; `Absent` when there is none.
    #[must_use]
    pub fn get(&self, name: &str) -> &Self {
        match self {
            Self::Map(entries) => {
                entries.iter().find(|(key, _)| key == name).map_or(&Self::Absent, |(_, value)| value)
            }
            _ => &Self::Absent,
        }
    }

    /// An element of a list; `Absent` when there is none.
    #[must_use]
    pub fn at(&self, index: usize) -> &Self {
        match self {
            Self::List(values) => values.get(index).unwrap_or(&Self::Absent),
            _ => &Self::Absent,
        }
    }

    /// Its text.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            other => panic!("text, not {other:?}"),
        }
    }

    /// Its number.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn number(&self) -> f64 {
        match self {
            Self::Number(number) => *number,
            other => panic!("a number, not {other:?}"),
        }
    }

    /// Its elements.
    ///
    /// # Panics
    /// When it is no list.
    #[must_use]
    pub fn list(&self) -> &[Self] {
        match self {
            Self::List(values) => values,
            other => panic!("a list, not {other:?}"),
        }
    }

    /// Sets a key of a map.
    pub fn set(&mut self, name: &str, value: Value) {
        if let Self::Map(entries) = self {
            match entries.iter_mut().find(|(key, _)| key == name) {
                Some((_, own)) => *own = value,
                None => entries.push((name.to_owned(), value)),
            }
        }
    }
}

/// Reads one value that takes all of `bytes`.
///
/// # Errors
/// What is wrong.
pub fn decode(bytes: &[u8]) -> Result<Value, String> {
    let mut reader = Reader(bytes);
    let value = reader.value()?;
    match reader.0 {
        [] => Ok(value),
        rest => Err(format!("{} bytes behind the value", rest.len())),
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (head, tail) = self.0.split_at_checked(length).ok_or("the value is cut off")?;
        self.0 = tail;
        Ok(head)
    }

    fn number(&mut self, length: usize) -> Result<u64, String> {
        Ok(self.take(length)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn value(&mut self) -> Result<Value, String> {
        let tag = self.take(1)?[0];
        let small = usize::from(tag & 0x0F);
        Ok(match tag {
            0x00..=0x7F => Value::Number(f64::from(tag)),
            0xE0..=0xFF => Value::Number(f64::from(tag as i8)),
            0xC0 => Value::Nil,
            0xC2 => Value::Bool(false),
            0xC3 => Value::Bool(true),
            0xCA => Value::Number(f64::from(f32::from_bits(self.number(4)? as u32))),
            0xCB => Value::Number(f64::from_bits(self.number(8)?)),
            0xCC => Value::Number(self.number(1)? as f64),
            0xCD => Value::Number(self.number(2)? as f64),
            0xCE => Value::Number(self.number(4)? as f64),
            0xCF => Value::Big(i128::from(self.number(8)?)),
            0xD0 => Value::Number(f64::from(self.number(1)? as i8)),
            0xD1 => Value::Number(f64::from(self.number(2)? as i16)),
            0xD2 => Value::Number(f64::from(self.number(4)? as i32)),
            0xD3 => Value::Big(i128::from(self.number(8)? as i64)),
            0xA0..=0xBF => self.text(usize::from(tag & 0x1F))?,
            0xD9..=0xDB => {
                let length = self.number(1 << (tag - 0xD9))? as usize;
                self.text(length)?
            }
            0xC4..=0xC6 => {
                let length = self.number(1 << (tag - 0xC4))? as usize;
                Value::Bytes(self.take(length)?.to_vec())
            }
            0x90..=0x9F => self.list(small)?,
            0xDC | 0xDD => {
                let count = self.number(2 << (tag - 0xDC))? as usize;
                self.list(count)?
            }
            0x80..=0x8F => self.map(small)?,
            0xDE | 0xDF => {
                let count = self.number(2 << (tag - 0xDE))? as usize;
                self.map(count)?
            }
            0xD4..=0xD8 => self.ext(1 << (tag - 0xD4))?,
            0xC7..=0xC9 => {
                let length = self.number(1 << (tag - 0xC7))? as usize;
                self.ext(length)?
            }
            0xC1 => return Err("0xC1 begins no value".to_owned()),
        })
    }

    fn text(&mut self, length: usize) -> Result<Value, String> {
        let bytes = self.take(length)?;
        String::from_utf8(bytes.to_vec()).map(Value::Text).map_err(|error| error.to_string())
    }

    fn list(&mut self, count: usize) -> Result<Value, String> {
        (0..count).map(|_| self.value()).collect::<Result<_, _>>().map(Value::List)
    }

    fn map(&mut self, count: usize) -> Result<Value, String> {
        let mut entries = Vec::new();
        for _ in 0..count {
            match self.value()? {
                Value::Text(key) => entries.push((key, self.value()?)),
                other => return Err(format!("a key is {other:?}")),
            }
        }
        Ok(Value::Map(entries))
    }

    fn ext(&mut self, length: usize) -> Result<Value, String> {
        let kind = self.take(1)?[0] as i8;
        let bytes = self.take(length)?;
        Ok(if kind == 0 && bytes == [0] { Value::Absent } else { Value::Ext(kind, bytes.to_vec()) })
    }
}

/// The bytes of a value, in long forms: a server must take any.
#[must_use]
pub fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put(value, &mut out);
    out
}

fn put(value: &Value, out: &mut Vec<u8>) {
    let sized = |tag: u8, length: usize, out: &mut Vec<u8>| {
        out.push(tag);
        out.extend_from_slice(&u32::try_from(length).expect("length fits").to_be_bytes());
    };
    match value {
        Value::Absent => out.extend_from_slice(&[0xD4, 0, 0]),
        Value::Nil => out.push(0xC0),
        Value::Bool(flag) => out.push(if *flag { 0xC3 } else { 0xC2 }),
        Value::Number(number) if number.fract() == 0.0 && (0.0..128.0).contains(number) => {
            out.push(*number as u8);
        }
        Value::Number(number) => {
            out.push(0xCB);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Value::Big(number) => {
            out.push(0xD3);
            out.extend_from_slice(&(*number as i64).to_be_bytes());
        }
        Value::Text(text) => {
            sized(0xDB, text.len(), out);
            out.extend_from_slice(text.as_bytes());
        }
        Value::Bytes(bytes) => {
            sized(0xC6, bytes.len(), out);
            out.extend_from_slice(bytes);
        }
        Value::List(values) => {
            sized(0xDD, values.len(), out);
            values.iter().for_each(|value| put(value, out));
        }
        Value::Map(entries) => {
            sized(0xDF, entries.len(), out);
            for (key, value) in entries {
                put(&Value::Text(key.clone()), out);
                put(value, out);
            }
        }
        Value::Ext(kind, bytes) => {
            sized(0xC9, bytes.len(), out);
            out.push(*kind as u8);
            out.extend_from_slice(bytes);
        }
    }
}

/// One connection.
pub struct Bunqueue {
    socket: TcpStream,
    next_request: u64,
    events: VecDeque<Value>,
    replies: VecDeque<Value>,
}

impl Bunqueue {
    /// Connects.
    ///
    /// # Panics
    /// When it cannot.
    #[must_use]
    pub fn connect(address: &str) -> Self {
        let socket = TcpStream::connect(address).expect("bunqueue connects");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("timeout set");
        socket.set_nodelay(true).expect("nodelay");
        Self { socket, next_request: 0, events: VecDeque::new(), replies: VecDeque::new() }
    }

    /// The socket, for tests that write raw bytes.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Sends a command and gives its `reqId`.
    ///
    /// # Panics
    /// When the connection is gone.
    pub fn send(&mut self, cmd: &str, fields: Value) -> String {
        self.next_request += 1;
        let id = self.next_request.to_string();
        let mut request = map([("cmd", cmd.into()), ("reqId", id.as_str().into())]);
        if let Value::Map(entries) = fields {
            entries.into_iter().for_each(|(name, value)| request.set(&name, value));
        }
        self.write_packet(&encode(&request)).expect("command sent");
        id
    }

    /// Writes one length-prefixed payload.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn write_packet(&mut self, payload: &[u8]) -> io::Result<()> {
        let mut bytes = u32::try_from(payload.len()).expect("length fits").to_be_bytes().to_vec();
        bytes.extend_from_slice(payload);
        self.socket.write_all(&bytes)
    }

    /// Reads one packet: its payload.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn read_packet(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.socket.read_exact(&mut length)?;
        let mut payload = vec![0; u32::from_be_bytes(length) as usize];
        self.socket.read_exact(&mut payload)?;
        Ok(payload)
    }

    fn read(&mut self) -> io::Result<Value> {
        let payload = self.read_packet()?;
        decode(&payload).map_err(io::Error::other)
    }

    /// The next reply, whosever it is.
    ///
    /// # Panics
    /// When the connection is gone.
    pub fn next_reply(&mut self) -> Value {
        self.try_next_reply().expect("a reply")
    }

    /// The next reply, whosever it is.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn try_next_reply(&mut self) -> io::Result<Value> {
        if let Some(reply) = self.replies.pop_front() {
            return Ok(reply);
        }
        loop {
            let value = self.read()?;
            match value.get("type") {
                Value::Text(kind) if kind == "event" => self.events.push_back(value.get("event").clone()),
                _ => return Ok(value),
            }
        }
    }

    /// The reply to one command; others are kept.
    ///
    /// # Panics
    /// When the connection is gone.
    pub fn reply(&mut self, id: &str) -> Value {
        let is_own = |reply: &Value| *reply.get("reqId") == Value::from(id);
        if let Some(at) = self.replies.iter().position(is_own) {
            return self.replies.remove(at).expect("found");
        }
        let mut others = std::mem::take(&mut self.replies);
        loop {
            let reply = self.next_reply();
            if is_own(&reply) {
                self.replies = others;
                return reply;
            }
            others.push_back(reply);
        }
    }

    /// One command and its reply.
    pub fn call<const N: usize>(&mut self, cmd: &str, fields: [(&str, Value); N]) -> Value {
        let id = self.send(cmd, map(fields));
        self.reply(&id)
    }

    /// One command that must succeed.
    ///
    /// # Panics
    /// When it does not.
    pub fn ok<const N: usize>(&mut self, cmd: &str, fields: [(&str, Value); N]) -> Value {
        let reply = self.call(cmd, fields);
        assert_eq!(*reply.get("ok"), Value::Bool(true), "{cmd}: {reply:?}");
        reply
    }

    /// One command that must fail; gives the error.
    ///
    /// # Panics
    /// When it succeeds.
    pub fn fails<const N: usize>(&mut self, cmd: &str, fields: [(&str, Value); N]) -> String {
        let reply = self.call(cmd, fields);
        assert_eq!(*reply.get("ok"), Value::Bool(false), "{cmd}: {reply:?}");
        reply.get("error").text().to_owned()
    }

    /// The next event.
    ///
    /// # Panics
    /// When the connection is gone.
    pub fn event(&mut self) -> Value {
        loop {
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            let value = self.read().expect("an event");
            match value.get("type") {
                Value::Text(kind) if kind == "event" => return value.get("event").clone(),
                _ => self.replies.push_back(value),
            }
        }
    }
}
