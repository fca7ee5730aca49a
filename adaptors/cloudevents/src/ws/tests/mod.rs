//! Both subprotocols without a socket: operations in, messages, requests, subscriptions and close codes out.

use std::sync::Arc;

use bytes::Bytes;
use framegate_adaptor_api::{
    Adaptors, Chunk, Credentials, LoginError, Outbound, Secret, Session, SessionContext, Subscribed,
    UnfinishedBudget, WebSocketRequest, Welcome,
};
use framegate_broker::feed::From as Start;
use framegate_broker::{
    BrokerError, CancelReason, ConnectionId, ConsumerId, Credit, Cursor, Delivery, Effect, Envelope,
    FeedEvent, FeedItem, HeaderTable, Lease, Name, Offset, Origin, Outcome, Position, Published, Reply,
    Request, RequestId, Seq, TopicId,
};
use framegate_frame::{Frame, FrameKind, Limits};
use serde_json::{Value, json};

use super::open;

const EVENT: &str = r#"{"specversion":"1.0","id":"1","source":"/t","type":"t"}"#;

fn context(anonymous: bool) -> SessionContext {
    SessionContext {
        peer: "127.0.0.1:1".parse().unwrap(),
        listener: "http",
        vhost: Name::from_static("/"),
        anonymous,
        headers: HeaderTable::default(),
        adaptors: Adaptors::collect().unwrap(),
        budget: UnfinishedBudget::default(),
        settings: Arc::new(Value::Null),
        message_bytes_max: 64 << 20,
    }
}

struct Harness {
    session: Box<dyn Session>,
    out: Outbound,
}

impl Harness {
    fn open(anonymous: bool, request: &WebSocketRequest) -> Self {
        let mut harness =
            Self { session: open(&context(anonymous), request).unwrap(), out: Outbound::default() };
        harness.session.open(&mut harness.out);
        harness
    }

    /// Logged in, nothing said yet.
    fn ready() -> Self {
        let mut harness = Self::open(true, &WebSocketRequest::default());
        harness.send(&json!({"op": "ping"}));
        harness.log_in("guest");
        assert_eq!(harness.one()["op"], "pong");
        harness
    }

    fn log_in(&mut self, user: &'static str) {
        self.out.login.take().expect("a login was asked for");
        let welcome = Welcome {
            connection: ConnectionId(9),
            user: Name::from_static(user),
            vhost: Name::from_static("/"),
        };
        self.session.logged_in(Ok(welcome), &mut self.out).unwrap();
    }

    fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    fn send_text(&mut self, text: &str) {
        let progress = self.session.read(text.as_bytes(), &mut self.out).unwrap();
        assert_eq!(progress.consumed, text.len());
    }

    fn effect(&mut self, effect: Effect) {
        self.session.effect(effect, &mut self.out).unwrap();
    }

    fn messages(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        let mut text = Vec::new();
        for chunk in self.out.take_chunks() {
            match chunk {
                Chunk::Bytes(bytes) => text.extend_from_slice(&bytes),
                Chunk::EndPacket => {
                    messages.push(serde_json::from_slice(&std::mem::take(&mut text)).unwrap());
                }
            }
        }
        assert!(text.is_empty(), "a message without an end");
        messages
    }

    fn one(&mut self) -> Value {
        let mut messages = self.messages();
        assert_eq!(messages.len(), 1, "{messages:?}");
        messages.remove(0)
    }

    fn request(&mut self) -> (RequestId, Request) {
        assert_eq!(self.out.requests.len(), 1, "{:?}", self.out.requests);
        self.out.requests.remove(0)
    }

    fn subscribe_topic(&mut self, more: &Value) -> ConsumerId {
        let mut op = json!({"op": "subscribe", "id": 1, "sub": "s", "topic": "t.*"});
        op.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.send(&op);
        let (consumer, _) = self.out.subscribe.remove(0);
        self.session
            .subscribed(consumer, Ok(Subscribed { cursor: cursor(1), exact: true }), &mut self.out)
            .unwrap();
        assert_eq!(self.one()["op"], "ok");
        consumer
    }

    fn subscribe_queue(&mut self, more: &Value) -> ConsumerId {
        let mut op = json!({"op": "subscribe", "id": 1, "sub": "s", "queue": "q"});
        op.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.send(&op);
        let (id, request) = self.request();
        let Request::Consume(consume) = request else { panic!("{request:?}") };
        self.effect(Effect::Reply(id, Ok(Reply::Done)));
        assert_eq!(self.one()["op"], "ok");
        consume.consumer
    }

    fn feed(&mut self, consumer: ConsumerId, n: u64) -> bool {
        self.session.feed(consumer, &FeedItem::Event(Arc::new(feed_event(n))), &mut self.out).unwrap()
    }
}

fn cursor(position: u64) -> Cursor {
    format!("5.0:{position}").parse().unwrap()
}

fn frame(id: &str, data: &[u8]) -> Frame {
    let attributes = [("id", id), ("source", "/t"), ("type", "t"), ("datacontenttype", "application/json")];
    Frame::build(FrameKind::Event, attributes, data, &Limits::GATEWAY).unwrap()
}

fn origin(seq: u64) -> Origin {
    Origin { vhost: Name::from_static("/"), name: Name::from_static("q"), id: 3, seq }
}

fn feed_event(n: u64) -> FeedEvent {
    let kept = Some((TopicId(3), Offset(n)));
    let frame = frame(&n.to_string(), n.to_string().as_bytes());
    FeedEvent::new(Name::from_static("t.1"), kept, cursor(n), Envelope::default(), frame, origin(n))
}

fn delivery(consumer: ConsumerId, seq: u64) -> Effect {
    Effect::Delivery(Delivery {
        consumer,
        position: Position::Queue(Seq(seq)),
        token: None,
        attempt: 1,
        redelivered: false,
        envelope: Envelope::default(),
        frame: frame("1", b"{\"a\":1}"),
        origin: origin(seq),
    })
}

mod flow;
mod session;
