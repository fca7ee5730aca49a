//! A broker over the volatile store, and short ways to talk to it.

#![allow(dead_code, unreachable_pub, missing_docs)]

use std::collections::VecDeque;
use std::sync::Arc;

use framegate_broker::{
    Answer, Broker, Connection, Consume, ConsumerId, Define, Delivery, Effect, HeaderTable, Lease, Limits,
    Name, Outbox, Outcome, Position, Principal, Publish, QueueProperties, QueueSpec, Reply, Request,
    RequestId, Seq, Settle, Startup,
};
use framegate_frame::{Frame, FrameKind, Limits as FrameLimits};
use framegate_storage::ShardStore;
use framegate_storage_memory::MemoryStore;

/// A name.
pub fn name(text: &str) -> Name {
    Name::new(text).expect("short")
}

/// A frame with a text.
pub fn frame(text: &str) -> Frame {
    Frame::build(
        FrameKind::Event,
        [("datacontenttype", "text/plain")],
        text.as_bytes(),
        &FrameLimits::GATEWAY,
    )
    .expect("frame")
}

/// Text of a frame.
pub fn text(frame: &Frame) -> String {
    String::from_utf8(frame.data().to_vec()).expect("text")
}

/// The broker's own user.
pub fn anyone() -> Principal {
    Principal::unrestricted(name("test"))
}

/// Starts over a store.
pub fn start_on(store: &MemoryStore, limits: Limits) -> Broker {
    let store: Arc<dyn ShardStore> = Arc::new(store.clone());
    let headers = HeaderTable::default();
    Broker::start(Startup { store, limits, headers, vhosts: vec![name("/")] }).expect("broker starts")
}

/// Starts over a new store.
pub fn start() -> (Broker, MemoryStore) {
    let store = MemoryStore::new();
    (start_on(&store, Limits::default()), store)
}

/// A connection that waits for what it expects.
pub struct Client {
    pub connection: Connection,
    outbox: Outbox,
    next: u64,
    seen: VecDeque<Effect>,
}

impl Client {
    pub fn new(broker: &Broker) -> Self {
        let (connection, outbox) = broker.connect(&anyone(), &name("/"), "test").expect("connected");
        Self { connection, outbox, next: 0, seen: VecDeque::new() }
    }

    /// Sends a request and gives its id.
    pub async fn send(&mut self, request: Request) -> RequestId {
        self.next += 1;
        let id = RequestId(self.next);
        self.connection.submit(vec![(id, request)]).await.expect("taken");
        id
    }

    /// The next effect of any kind.
    pub async fn effect(&mut self) -> Effect {
        loop {
            if let Some(effect) = self.seen.pop_front() {
                return effect;
            }
            self.seen.extend(self.outbox.recv().await.expect("the broker runs"));
        }
    }

    /// Effects that are there now.
    pub fn pending(&mut self) -> usize {
        while let Some(more) = self.outbox.try_recv() {
            self.seen.extend(more);
        }
        self.seen.len()
    }

    /// Waits for the reply to a request; other effects are kept.
    pub async fn reply(&mut self, id: RequestId) -> Result<Reply, framegate_broker::BrokerError> {
        let mut kept = VecDeque::new();
        loop {
            match self.effect().await {
                Effect::Reply(of, result) if of == id => {
                    kept.append(&mut self.seen);
                    self.seen = kept;
                    return result;
                }
                other => kept.push_back(other),
            }
        }
    }

    /// A request and its reply.
    pub async fn call(&mut self, request: Request) -> Result<Reply, framegate_broker::BrokerError> {
        let id = self.send(request).await;
        self.reply(id).await
    }

    /// A durable queue.
    pub async fn declare(&mut self, queue: &str) {
        self.declare_with(queue, QueueProperties::default()).await;
    }

    /// A durable queue with properties.
    pub async fn declare_with(&mut self, queue: &str, properties: QueueProperties) {
        let spec = QueueSpec { name: name(queue), durable: true, properties, ..QueueSpec::default() };
        self.call(Request::Define(Define::Queue(spec))).await.expect("declared");
    }

    /// A persistent message to a queue, without waiting.
    pub async fn publish(&mut self, queue: &str, body: &str, answer: Answer) -> RequestId {
        let publish =
            Publish { persistent: true, answer, ..Publish::new(name(""), name(queue), frame(body)) };
        self.send(Request::Publish(publish)).await
    }

    /// A persistent message to a queue, safe.
    pub async fn put(&mut self, queue: &str, body: &str) {
        let id = self.publish(queue, body, Answer::Reply).await;
        self.reply(id).await.expect("published");
    }

    /// A consumer.
    pub async fn consume(&mut self, id: u32, queue: &str, prefetch: Option<u32>) {
        self.call(Request::Consume(consumer(id, queue, prefetch))).await.expect("consuming");
    }

    /// The next delivery; confirms and the like are passed over.
    pub async fn delivery(&mut self) -> Delivery {
        loop {
            if let Effect::Delivery(delivery) = self.effect().await {
                self.connection.written(delivery.window_bytes());
                return delivery;
            }
        }
    }

    /// The next so many deliveries' texts.
    pub async fn texts(&mut self, n: usize) -> Vec<String> {
        let mut texts = Vec::new();
        for _ in 0..n {
            texts.push(text(&self.delivery().await.frame));
        }
        texts
    }

    /// Settles deliveries of one consumer.
    pub async fn settle(
        &mut self,
        of: &[&Delivery],
        outcome: Outcome,
    ) -> Result<Reply, framegate_broker::BrokerError> {
        let lease = Lease::Positions(of[0].consumer, of.iter().map(|d| seq(d)).collect());
        self.call(Request::Settle(Settle { lease, outcome, answer: true })).await
    }
}

/// Place of a delivery in its queue.
pub fn seq(delivery: &Delivery) -> Seq {
    match delivery.position {
        Position::Queue(seq) => seq,
        Position::Topic(..) => panic!("not of a queue"),
    }
}

/// A consumer with manual acks.
pub fn consumer(id: u32, queue: &str, prefetch: Option<u32>) -> Consume {
    Consume {
        consumer: ConsumerId(id),
        queue: name(queue),
        prefetch,
        pool: None,
        exclusive: false,
        auto_ack: false,
        lease_ms: None,
        tokens: false,
        priority: 0,
    }
}
