//! A client and a broker around one session, without sockets: packets in, packets and requests out.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use framegate_adaptor_api::{
    Adaptors, Chunk, LoginError, Outbound, Progress, Serve, Session, SessionContext, SessionError,
    UnfinishedBudget, Welcome, protocols,
};
use framegate_broker::{
    BrokerError, ConnectionId, ConsumerId, Delivery, Effect, Envelope, Name, Origin, Position, Reply,
    Request, RequestId, Seq,
};
use framegate_frame::{Frame, Limits};
use framegate_messagex as _;
use serde_json::{Value, json};

/// What the listener of a test allows.
pub(crate) fn context(anonymous: bool, settings: Value) -> SessionContext {
    let adaptors = Adaptors::collect().expect("one adaptor");
    SessionContext {
        peer: ([127, 0, 0, 1], 9).into(),
        listener: "messagex",
        vhost: Name::from_static("/"),
        anonymous,
        headers: adaptors.headers().clone(),
        adaptors,
        budget: UnfinishedBudget::default(),
        settings: Arc::new(settings),
        message_bytes_max: 1 << 24,
    }
}

/// One connection.
pub(crate) struct Peer {
    session: Box<dyn Session>,
    pub(crate) out: Outbound,
    input: Vec<u8>,
    output: Vec<u8>,
    pub(crate) ended: Option<SessionError>,
}

impl Peer {
    /// A connection whose first command logs it in.
    pub(crate) fn open() -> Self {
        Self::with(&context(true, Value::Null))
    }

    /// A connection that is logged in.
    pub(crate) fn logged_in() -> Self {
        let mut peer = Self::open();
        peer.send("AUTH", "auth", json!({"username": "guest", "password": "guest"}));
        peer.welcome();
        peer.received();
        peer
    }

    pub(crate) fn with(context: &SessionContext) -> Self {
        let protocols = protocols().expect("one protocol");
        let Serve::Stream(open) = protocols[0].mounts[0].serve else { panic!("not a stream") };
        let mut peer = Self {
            session: open(context),
            out: Outbound::default(),
            input: Vec::new(),
            output: Vec::new(),
            ended: None,
        };
        peer.session.open(&mut peer.out);
        peer
    }

    /// Sends a command.
    pub(crate) fn send(&mut self, command: &str, request_id: &str, payload: Value) {
        let mut message =
            json!({"version": 1, "type": "COMMAND", "command": command, "requestId": request_id});
        message["payload"] = payload;
        self.packet(&message);
    }

    pub(crate) fn packet(&mut self, message: &Value) {
        self.feed(&frame_of(message.to_string().as_bytes()));
    }

    /// Hands bytes over as the driver does: what was not consumed comes again.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Progress {
        self.input.extend_from_slice(bytes);
        self.read()
    }

    pub(crate) fn read(&mut self) -> Progress {
        if self.ended.is_some() {
            return Progress::default();
        }
        match self.session.read(&self.input, &mut self.out) {
            Ok(progress) => {
                self.input.drain(..progress.consumed);
                progress
            }
            Err(error) => {
                self.ended = Some(error);
                Progress::default()
            }
        }
    }

    /// Answers the login that the session asked for, and reads on.
    pub(crate) fn login(&mut self, result: Result<Welcome, LoginError>) {
        self.out.login.take().expect("a login");
        if let Err(error) = self.session.logged_in(result, &mut self.out) {
            self.ended = Some(error);
        }
        self.read();
    }

    pub(crate) fn welcome(&mut self) {
        self.login(Ok(Welcome {
            connection: ConnectionId(7),
            user: Name::from_static("guest"),
            vhost: Name::from_static("/"),
        }));
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.session.effect(effect, &mut self.out).expect("effects do not end a session");
    }

    pub(crate) fn reply(&mut self, id: RequestId, result: Result<Reply, BrokerError>) {
        self.effect(Effect::Reply(id, result));
    }

    pub(crate) fn tick(&mut self, now: Duration) -> Option<Duration> {
        match self.session.tick(now, &mut self.out) {
            Ok(next) => Some(next),
            Err(error) => {
                self.ended = Some(error);
                None
            }
        }
    }

    pub(crate) fn drain(&mut self) {
        self.session.drain(&mut self.out);
    }

    /// Messages that the client got since the last call.
    pub(crate) fn received(&mut self) -> Vec<Value> {
        for chunk in self.out.take_chunks() {
            if let Chunk::Bytes(bytes) = chunk {
                self.output.extend_from_slice(&bytes);
            }
        }
        let mut messages = Vec::new();
        let mut rest = self.output.as_slice();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let (payload, after) = after.split_at(u32::from_be_bytes(*length) as usize);
            assert!((1..=1_048_576).contains(&payload.len()));
            messages.push(serde_json::from_slice(payload).expect("JSON"));
            rest = after;
        }
        assert!(rest.is_empty());
        self.output.clear();
        messages
    }

    /// The one message that the client got.
    pub(crate) fn one(&mut self) -> Value {
        let mut messages = self.received();
        assert_eq!(messages.len(), 1, "{messages:?}");
        messages.remove(0)
    }

    /// The code of the one failure that the client got.
    pub(crate) fn failure(&mut self) -> String {
        let message = self.one();
        assert_eq!(message["success"], false, "{message}");
        assert!(message.get("payload").is_none());
        message["error"]["code"].as_str().expect("a code").to_owned()
    }

    /// The payload of the one response that the client got.
    pub(crate) fn success(&mut self) -> Value {
        let message = self.one();
        assert_eq!(message["success"], true, "{message}");
        assert!(message.get("error").is_none());
        message["payload"].clone()
    }

    pub(crate) fn requests(&mut self) -> Vec<(RequestId, Request)> {
        std::mem::take(&mut self.out.requests)
    }

    /// The one request that the broker got.
    pub(crate) fn request(&mut self) -> (RequestId, Request) {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }

    /// Starts a consumer and answers it.
    pub(crate) fn consumer(&mut self, tag: &str, auto_ack: bool) -> ConsumerId {
        self.send("CONSUME", tag, json!({"queueName": "orders", "consumerTag": tag, "autoAck": auto_ack}));
        let (id, request) = self.requests().pop().expect("a request");
        let Request::Consume(consume) = request else { panic!("{request:?}") };
        self.reply(id, Ok(Reply::Done));
        self.received();
        consume.consumer
    }

    /// Delivers a text and gives the tag that the client saw.
    pub(crate) fn deliver(&mut self, consumer: ConsumerId, seq: u64) -> String {
        self.effect(Effect::Delivery(delivery(consumer, seq, text_frame("hello"))));
        self.one()["payload"]["deliveryTag"].as_str().expect("a tag").to_owned()
    }
}

pub(crate) fn frame_of(payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).expect("small").to_be_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// A frame with the given attributes, as any adaptor may make it.
pub(crate) fn frame(attributes: &[(&str, &str)], data: &[u8]) -> Frame {
    let attributes = attributes.iter().copied();
    Frame::build(framegate_frame::FrameKind::Event, attributes, data, &Limits::GATEWAY).expect("a frame")
}

pub(crate) fn text_frame(text: &str) -> Frame {
    frame(&[("id", "m-1"), ("datacontenttype", "text/plain")], text.as_bytes())
}

pub(crate) fn delivery(consumer: ConsumerId, seq: u64, frame: Frame) -> Delivery {
    Delivery {
        consumer,
        position: Position::Queue(Seq(seq)),
        token: None,
        attempt: 1,
        redelivered: false,
        envelope: Envelope {
            exchange: Name::from_static("shop"),
            keys: [Name::from_static("order.new")].into_iter().collect(),
            time_ms: 1_704_164_645_000,
            ..Envelope::default()
        },
        frame,
        origin: origin(seq),
    }
}

pub(crate) fn origin(seq: u64) -> Origin {
    Origin { vhost: Name::from_static("/"), name: Name::from_static("orders"), id: 3, seq }
}
