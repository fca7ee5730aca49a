//! A core over a paused store, driven pass by pass.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use framegate_frame::{Frame, FrameKind, Limits as FrameLimits};
use framegate_storage::{Claim, ShardId, ShardStore};
use framegate_storage_memory::MemoryStore;
use tokio::sync::{Semaphore, mpsc};

use crate::broker::{Shared, route_request};
use crate::definition::{QueueProperties, QueueSpec};
use crate::error::BrokerError;
use crate::fold::inbox::{Batch, Inbox, Opened, Window};
use crate::fold::{Core, Now, replay};
use crate::headers::HeaderTable;
use crate::ids::{ConnectionId, ConsumerId, RequestId, Seq};
use crate::limits::Limits;
use crate::message::{DeathReason, Delivery, Position};
use crate::name::Name;
use crate::principal::Principal;
use crate::request::{
    Consume, Define, Effect, Fetch, Lease, Outcome, Publish, Query, QueueInfo, Reply, Request, Settle,
};
use crate::routing::TopologyEditor;

/// See the module.
pub(super) struct Rig {
    pub(super) store: MemoryStore,
    pub(super) core: Core,
    pub(super) claim: Claim,
    pub(super) now: Now,
    inbox: Receiver<Inbox>,
    shared: Arc<Shared>,
    next_connection: u64,
}

/// A connection's end.
pub(super) struct Peer {
    pub(super) id: ConnectionId,
    outbox: mpsc::UnboundedReceiver<Vec<Effect>>,
    next: u64,
    kept: Vec<Effect>,
}

pub(super) fn name(text: &str) -> Name {
    Name::new(text).expect("short")
}

pub(super) fn frame(text: &str) -> Frame {
    let attributes = [("datacontenttype", "text/plain")];
    Frame::build(FrameKind::Event, attributes, text.as_bytes(), &FrameLimits::GATEWAY).expect("frame")
}

pub(super) fn text(delivery: &Delivery) -> String {
    String::from_utf8(delivery.frame.data().to_vec()).expect("text")
}

pub(super) fn seq(delivery: &Delivery) -> Seq {
    match delivery.position {
        Position::Queue(seq) => seq,
        Position::Topic(..) => panic!("not of a queue"),
    }
}

/// A persistent message to a queue.
pub(super) fn message(queue: &str, body: &str) -> Publish {
    Publish { persistent: true, ..Publish::new(name(""), name(queue), frame(body)) }
}

pub(super) fn consumer(id: u32, queue: &str, prefetch: Option<u32>) -> Consume {
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

pub(super) fn pull(holder: u32, queue: &str, max: u32, wait_ms: u64, auto_ack: bool) -> Request {
    let (consumer, queue) = (ConsumerId(holder), name(queue));
    Request::Fetch(Fetch { consumer, queue, max, wait_ms, auto_ack, lease_ms: None, tokens: false })
}

pub(super) fn queue(name_: &str, properties: QueueProperties) -> Request {
    let spec = QueueSpec { name: name(name_), durable: true, properties, ..QueueSpec::default() };
    Request::Define(Define::Queue(spec))
}

pub(super) fn settlement(consumer: u32, seqs: &[Seq], outcome: Outcome) -> Settle {
    Settle { lease: Lease::Positions(ConsumerId(consumer), seqs.to_vec()), outcome, answer: true }
}

/// Dead letters go to a queue by the default exchange.
pub(super) fn dead_to(key: &str) -> QueueProperties {
    QueueProperties {
        dead_letter_exchange: Some(name("")),
        dead_letter_key: Some(name(key)),
        ..QueueProperties::default()
    }
}

pub(super) fn info(rig: &mut Rig, peer: &mut Peer, queue: &str) -> QueueInfo {
    match rig.call(peer, Request::Query(Query::Queue(name(queue)))) {
        Ok(Reply::Queue(info)) => info,
        other => panic!("{other:?}"),
    }
}

/// Texts and newest deaths of what is in a queue, taken out.
pub(super) fn corpses(rig: &mut Rig, peer: &mut Peer, queue: &str) -> Vec<(String, DeathReason, u64)> {
    let mut all = Vec::new();
    while info(rig, peer, queue).ready > 0 {
        rig.send(peer, vec![pull(77, queue, 100, 1000, true)]);
        all.extend(rig.until_fetched(peer));
    }
    all.iter().map(|d| (text(d), d.envelope.deaths[0].reason, d.envelope.deaths[0].count)).collect()
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::on(&MemoryStore::paused(), Now { wall_ms: 1_000_000, mono_ms: 10 })
    }

    /// Starts over what a store holds.
    pub(super) fn on(store: &MemoryStore, now: Now) -> Self {
        let (sender, inbox) = channel();
        let reports = sender.clone();
        let report = Box::new(move |report| {
            let _ = reports.send(Inbox::Report(report));
        });
        let claim = store.claim(ShardId(0), report).expect("claimed");
        let (state, _) = replay(store, &claim).expect("replayed");
        let vhosts = vec![name("/")];
        let topology = TopologyEditor::new(&vhosts).publish().unwrap_or_default();
        let generation = claim.generation;
        let shared =
            Shared::new(Limits::default(), HeaderTable::default(), vhosts, generation, topology, sender);
        let as_store: Arc<dyn ShardStore> = Arc::new(store.clone());
        let core = Core::new(state, claim, as_store, Arc::clone(&shared), now).expect("core");
        let mut rig = Self { store: store.clone(), core, claim, now, inbox, shared, next_connection: 0 };
        rig.settle();
        rig
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// One pass over what waits.
    pub(super) fn pass(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            self.core.take(message, self.now);
        }
        self.core.timer(self.now);
        self.core.end_pass();
    }

    /// Passes until nothing is left to do, everything is durable and no body is being read.
    pub(super) fn settle(&mut self) {
        loop {
            self.pass();
            if self.store.release(usize::MAX) > 0 || self.core.has_more() {
                continue;
            }
            if !self.core.is_loading() {
                break;
            }
            let message = self.inbox.recv().expect("the readers live");
            self.core.take(message, self.now);
        }
        self.pass();
    }

    /// Lets time go by.
    pub(super) fn wait(&mut self, ms: u64) {
        self.now.wall_ms += ms;
        self.now.mono_ms += ms;
    }

    pub(super) fn connect(&mut self) -> Peer {
        self.next_connection += 1;
        let (sender, outbox) = mpsc::unbounded_channel();
        let id = ConnectionId(self.next_connection);
        let opened = Opened {
            id,
            vhost: name("/"),
            user: name("test"),
            label: "test".to_owned(),
            outbox: sender,
            window: Arc::new(Window::new(1 << 40)),
        };
        self.core.take(Inbox::Connect(Box::new(opened)), self.now);
        Peer { id, outbox, next: 0, kept: Vec::new() }
    }

    /// Hands over requests as one batch, without a pass.
    pub(super) fn send(&mut self, peer: &mut Peer, requests: Vec<Request>) -> Vec<RequestId> {
        let (user, vhost) = (Principal::unrestricted(name("test")), name("/"));
        let untaken =
            Arc::new(Semaphore::new(1)).try_acquire_owned().expect("a new semaphore has its permit");
        let mut ids = Vec::new();
        let mut tasks = Vec::new();
        for request in requests {
            peer.next += 1;
            ids.push(RequestId(peer.next));
            tasks.push((RequestId(peer.next), route_request(&self.shared, &user, &vhost, request)));
        }
        let batch = Batch { connection: peer.id, tasks, permit: None, untaken, applied: None };
        self.core.take(Inbox::Batch(batch), self.now);
        ids
    }

    /// One request to its end.
    pub(super) fn call(&mut self, peer: &mut Peer, request: Request) -> Result<Reply, BrokerError> {
        let id = self.send(peer, vec![request])[0];
        self.settle();
        let mut answer = None;
        for effect in peer.effects() {
            match effect {
                Effect::Reply(of, result) if of == id => answer = Some(result),
                other => peer.kept.push(other),
            }
        }
        answer.expect("an answer")
    }

    /// Publishes to a queue, safe.
    pub(super) fn put(&mut self, peer: &mut Peer, publish: Publish) {
        self.send(peer, vec![Request::Publish(publish)]);
        self.settle();
    }

    /// The next deliveries, when a reader has to read their bodies first.
    pub(super) fn until(&mut self, peer: &mut Peer) -> Vec<Delivery> {
        loop {
            let deliveries = peer.deliveries();
            if !deliveries.is_empty() {
                return deliveries;
            }
            let message = self.inbox.recv().expect("the readers live");
            self.core.take(message, self.now);
            self.pass();
        }
    }

    /// The answer to a pull, whose bodies a reader may have to read first.
    pub(super) fn until_fetched(&mut self, peer: &mut Peer) -> Vec<Delivery> {
        loop {
            self.settle();
            for effect in peer.effects() {
                match effect {
                    Effect::Reply(_, Ok(Reply::Fetched { messages, .. })) => return messages,
                    other => peer.kept.push(other),
                }
            }
        }
    }

    /// The answer to a browse whose bodies a reader has to read first.
    pub(super) fn until_browsed(&mut self, peer: &mut Peer) -> Vec<crate::request::Browsed> {
        loop {
            self.pass();
            for effect in peer.effects() {
                match effect {
                    Effect::Reply(_, Ok(Reply::Browsed { messages, .. })) => return messages,
                    other => peer.kept.push(other),
                }
            }
            let message = self.inbox.recv().expect("the readers live");
            self.core.take(message, self.now);
        }
    }

    pub(super) fn disconnect(&mut self, peer: Peer) {
        self.core.take(Inbox::Disconnect(peer.id), self.now);
        self.settle();
    }

    /// What a reader of the log would know now, and what this core knows.
    pub(super) fn hashes(&self) -> (u64, u64) {
        let (state, _) = replay(&self.store, &self.claim).expect("replayed");
        (state.content_hash(), self.core.durable.content_hash())
    }
}

impl Peer {
    /// Everything that is there.
    pub(super) fn effects(&mut self) -> Vec<Effect> {
        let mut all = std::mem::take(&mut self.kept);
        while let Ok(more) = self.outbox.try_recv() {
            all.extend(more);
        }
        all
    }

    /// Deliveries that are there; other effects are passed over.
    pub(super) fn deliveries(&mut self) -> Vec<Delivery> {
        let delivery = |e| if let Effect::Delivery(d) = e { Some(d) } else { None };
        self.effects().into_iter().filter_map(delivery).collect()
    }

    pub(super) fn texts(&mut self) -> Vec<String> {
        self.deliveries().iter().map(text).collect()
    }
}

impl Core {
    fn is_loading(&self) -> bool {
        self.live.values().any(|l| l.loading)
    }

    /// Messages in a queue, and how many of them wait for their time.
    pub(super) fn held_back(&self, name: &Name) -> (u64, u64) {
        let id = self.editor.current().queue("/", name).expect("a queue");
        let live = self.live.get(&id).expect("a live queue");
        (self.state(id).queue(id).map_or(0, |q| q.count), live.held - live.leased)
    }
}
