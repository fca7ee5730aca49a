//! A client and a broker around one session, without sockets.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use framegate_adaptor_api::testing::{SessionScript, session_context};
use framegate_adaptor_api::{Serve, protocols};
use framegate_broker::{Delivery, Envelope, Name, Origin, Position, Request, RequestId, Seq};
use framegate_eventmesh as _;
use framegate_frame::{Frame, FrameKind, Limits};
use serde_json::{Value, json};

/// How lengths are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    A,
    B,
}

pub(crate) fn package(generation: Generation, header: &Value, body: &Value) -> Vec<u8> {
    let header = header.to_string();
    let body = match (body, generation) {
        (Value::Null, Generation::A) => "null".to_owned(),
        (Value::Null, Generation::B) => String::new(),
        (body, _) => body.to_string(),
    };
    let overhead = if generation == Generation::A { 8 } else { 13 };
    let mut bytes = b"EventMesh0000".to_vec();
    bytes.extend_from_slice(&u32::try_from(header.len() + body.len() + overhead).unwrap().to_be_bytes());
    bytes.extend_from_slice(&u32::try_from(header.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(body.as_bytes());
    bytes
}

/// Packages of the server, as (header, body).
pub(crate) fn packages(generation: Generation, mut bytes: &[u8]) -> Vec<(Value, Value)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(&bytes[..13], b"EventMesh0000");
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let overhead = if generation == Generation::A { 8 } else { 13 };
        let (header, end) = (21 + number(17), 21 + number(13) - overhead);
        let body = &bytes[header..end];
        let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(body).unwrap() };
        all.push((serde_json::from_slice(&bytes[21..header]).unwrap(), body));
        bytes = &bytes[end..];
    }
    all
}

pub(crate) struct Peer {
    pub(crate) script: SessionScript,
    pub(crate) generation: Generation,
}

impl Peer {
    pub(crate) fn open(settings: Value) -> Self {
        Self::with(settings, Generation::B, |script| script)
    }

    pub(crate) fn with(
        settings: Value,
        generation: Generation,
        prepare: impl FnOnce(SessionScript) -> SessionScript,
    ) -> Self {
        let protocols = protocols().unwrap();
        let mount = &protocols.iter().find(|plugin| plugin.name == "eventmesh").unwrap().mounts[0];
        let Serve::Stream(open) = mount.serve else { panic!("not a stream") };
        let context = session_context(mount.name, settings).unwrap();
        let mut script = prepare(SessionScript::new(open(&context)));
        script.open();
        Self { script, generation }
    }

    /// A client that has said hello.
    pub(crate) fn greeted(generation: Generation) -> Self {
        let mut peer = Self::with(Value::Null, generation, |script| script);
        peer.send("HELLO_REQUEST", "1", agent("sub", "g"));
        assert_eq!(peer.one().0["cmd"], "HELLO_RESPONSE");
        peer
    }

    pub(crate) fn send(&mut self, command: &str, seq: &str, body: Value) {
        self.send_as(command, seq, json!({}), body);
    }

    pub(crate) fn send_as(&mut self, command: &str, seq: &str, properties: Value, body: Value) {
        let header =
            json!({"cmd": command, "code": 0, "seq": seq, "properties": properties, "command": command});
        self.script.feed(&package(self.generation, &header, &body));
    }

    pub(crate) fn received(&mut self) -> Vec<(Value, Value)> {
        packages(self.generation, &self.script.take_output())
    }

    pub(crate) fn one(&mut self) -> (Value, Value) {
        let mut received = self.received();
        assert_eq!(received.len(), 1, "{received:?}");
        received.remove(0)
    }

    pub(crate) fn requests(&mut self) -> Vec<(RequestId, Request)> {
        self.script.take_requests()
    }

    pub(crate) fn request(&mut self) -> (RequestId, Request) {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }
}

pub(crate) fn agent(purpose: &str, group: &str) -> Value {
    json!({"env": "test", "subsystem": "5023", "path": "/data/app", "pid": std::process::id(), "host": group, "port": 8362,
        "version": "2.1", "username": "user", "password": "pw", "idc": "FT", "group": group, "purpose": purpose, "unack": 0})
}

pub(crate) fn frame(attributes: &[(&str, &str)], data: &[u8]) -> Frame {
    Frame::build(FrameKind::Event, attributes.iter().copied(), data, &Limits::GATEWAY).unwrap()
}

pub(crate) fn origin(topic: &'static str) -> Origin {
    Origin { vhost: Name::from_static("/"), name: Name::from_static(topic), id: 3, seq: 7 }
}

pub(crate) fn delivery(consumer: u32, seq: u64, topic: &'static str, frame: Frame) -> Delivery {
    Delivery {
        consumer: framegate_broker::ConsumerId(consumer),
        position: Position::Queue(Seq(seq)),
        token: None,
        attempt: 1,
        redelivered: false,
        envelope: Envelope::default(),
        frame,
        origin: origin(topic),
    }
}
