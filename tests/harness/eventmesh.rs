//! An EventMesh TCP client written from the protocol's description: packages of JSON, both length conventions, blocking.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

/// How the length field of a package counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// 8 + header + body.
    A,
    /// 13 + header + body.
    B,
}

impl Generation {
    fn overhead(self) -> usize {
        if self == Self::A { 8 } else { 13 }
    }
}

/// A package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its header.
    pub header: Value,
    /// Its body; `Null` when there is none.
    pub body: Value,
}

impl Package {
    /// The command.
    #[must_use]
    pub fn command(&self) -> &str {
        self.header["cmd"].as_str().unwrap_or_default()
    }

    /// The status.
    #[must_use]
    pub fn code(&self) -> i64 {
        self.header["code"].as_i64().unwrap_or(-1)
    }

    /// The sequence.
    #[must_use]
    pub fn seq(&self) -> &str {
        self.header["seq"].as_str().unwrap_or_default()
    }

    /// What the server says about the status.
    #[must_use]
    pub fn desc(&self) -> &str {
        self.header["desc"].as_str().unwrap_or_default()
    }
}

/// One connection.
pub struct EventMesh {
    socket: TcpStream,
    generation: Generation,
    /// Value of `protocoltype` in what it publishes.
    protocol: &'static str,
    pushed: std::collections::VecDeque<Package>,
}

static SEQ: AtomicU64 = AtomicU64::new(1_000_000_000);

impl EventMesh {
    /// Connects without saying hello.
    ///
    /// # Panics
    /// When it cannot.
    #[must_use]
    pub fn connect(address: &str, generation: Generation) -> Self {
        let socket = TcpStream::connect(address).expect("eventmesh connects");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("timeout set");
        socket.set_nodelay(true).expect("nodelay");
        Self { socket, generation, protocol: "eventmeshmessage", pushed: std::collections::VecDeque::new() }
    }

    /// Connects and says hello as a member of a group, as a process of its own.
    ///
    /// # Panics
    /// When it is not let in.
    #[must_use]
    pub fn hello(address: &str, generation: Generation, purpose: &str, group: &str) -> Self {
        let mut client = Self::connect(address, generation);
        let reply = client.call("HELLO_REQUEST", &user_agent(purpose, group, "user", "pw"));
        assert_eq!((reply.command(), reply.code()), ("HELLO_RESPONSE", 0), "{reply:?}");
        client
    }

    /// Publishes CloudEvents from now on.
    #[must_use]
    pub fn with_cloudevents(mut self) -> Self {
        self.protocol = "cloudevents";
        self
    }

    /// The socket, for tests that write raw bytes.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Writes a package.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn try_send(&mut self, command: &str, seq: &str, body: &Value) -> io::Result<()> {
        let properties = match command {
            "ASYNC_MESSAGE_TO_SERVER"
            | "BROADCAST_MESSAGE_TO_SERVER"
            | "REQUEST_TO_SERVER"
            | "RESPONSE_TO_SERVER" => {
                json!({"protocolversion": "1.0", "protocoldesc": "tcp", "protocoltype": self.protocol})
            }
            _ => json!({}),
        };
        let header =
            json!({"cmd": command, "code": 0, "seq": seq, "properties": properties, "command": command})
                .to_string();
        let body = match (body, self.generation) {
            (Value::Null, Generation::A) => "null".to_owned(),
            (Value::Null, Generation::B) => String::new(),
            (body, _) => body.to_string(),
        };
        let length = header.len() + body.len() + self.generation.overhead();
        let number = |n: usize| u32::try_from(n).expect("length fits").to_be_bytes();
        let bytes = [
            b"EventMesh0000",
            &number(length)[..],
            &number(header.len()),
            header.as_bytes(),
            body.as_bytes(),
        ]
        .concat();
        self.socket.write_all(&bytes)
    }

    /// Reads a package.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn try_read(&mut self) -> io::Result<Package> {
        let mut prefix = [0; 21];
        self.socket.read_exact(&mut prefix)?;
        assert_eq!(&prefix[..13], b"EventMesh0000");
        let number = |at: usize| {
            u32::from_be_bytes([prefix[at], prefix[at + 1], prefix[at + 2], prefix[at + 3]]) as usize
        };
        let (length, header) = (number(13) - self.generation.overhead(), number(17));
        let mut rest = vec![0; length];
        self.socket.read_exact(&mut rest)?;
        let body = match &rest[header..] {
            [] => Value::Null,
            body => serde_json::from_slice(body).map_err(io::Error::other)?,
        };
        let header: Value = serde_json::from_slice(&rest[..header]).map_err(io::Error::other)?;
        assert!(header["seq"].is_string(), "a package without sequence: {header}");
        Ok(Package { header, body })
    }

    /// Sends a request and waits for what has its sequence; pushes that come first are kept.
    ///
    /// # Panics
    /// When the connection is gone.
    pub fn call(&mut self, command: &str, body: &Value) -> Package {
        let seq = SEQ.fetch_add(1, Ordering::Relaxed).to_string();
        self.try_send(command, &seq, body).expect("package sent");
        self.answer(&seq)
    }

    /// Waits for the answer with a sequence.
    ///
    /// # Panics
    /// When the connection is gone.
    pub fn answer(&mut self, seq: &str) -> Package {
        loop {
            let package = self.try_read().expect("an answer");
            if package.seq() == seq {
                return package;
            }
            self.pushed.push_back(package);
        }
    }

    /// Subscribes and listens.
    ///
    /// # Panics
    /// When it is refused.
    pub fn listen(&mut self, topic: &str, mode: &str, kind: &str) {
        let body = json!({"topicList": [{"topic": topic, "mode": mode, "type": kind}]});
        let reply = self.call("SUBSCRIBE_REQUEST", &body);
        assert_eq!((reply.command(), reply.code()), ("SUBSCRIBE_RESPONSE", 0), "{reply:?}");
        let reply = self.call("LISTEN_REQUEST", &Value::Null);
        assert_eq!((reply.command(), reply.code()), ("LISTEN_RESPONSE", 0), "{reply:?}");
    }

    /// Publishes a message; waits for the ack.
    ///
    /// # Panics
    /// When it is refused.
    pub fn publish(&mut self, message: &Value) {
        let reply = self.call("ASYNC_MESSAGE_TO_SERVER", message);
        assert_eq!((reply.command(), reply.code()), ("ASYNC_MESSAGE_TO_SERVER_ACK", 0), "{reply:?}");
    }

    /// The next push.
    ///
    /// # Panics
    /// When the connection is gone.
    pub fn push(&mut self) -> Package {
        self.pushed.pop_front().unwrap_or_else(|| self.try_read().expect("a push"))
    }

    /// The next push, or why there is none.
    ///
    /// # Errors
    /// When the connection is gone or nothing came in time.
    pub fn try_push(&mut self) -> io::Result<Package> {
        self.pushed.pop_front().map_or_else(|| self.try_read(), Ok)
    }

    /// Acks a push as the SDKs do: its sequence, no properties, the body as a string.
    ///
    /// # Panics
    /// When the connection is gone.
    pub fn ack(&mut self, push: &Package) {
        let command = format!("{}_ACK", push.command());
        self.try_send(&command, push.seq(), &json!(push.body.to_string())).expect("ack sent");
    }
}

/// What a client says about itself. Each call is another process.
#[must_use]
pub fn user_agent(purpose: &str, group: &str, user: &str, password: &str) -> Value {
    let pid = SEQ.fetch_add(1, Ordering::Relaxed);
    json!({"env": "test", "subsystem": "5023", "path": "/data/app", "pid": pid, "host": "127.0.0.1", "port": 8362,
        "version": "2.1", "username": user, "password": password, "idc": "FT", "group": group, "purpose": purpose, "unack": 0})
}

/// A MeshMessage.
#[must_use]
pub fn mesh_message(topic: &str, body: &str) -> Value {
    json!({"topic": topic, "properties": {"ttl": "60000"}, "headers": {}, "body": body})
}
