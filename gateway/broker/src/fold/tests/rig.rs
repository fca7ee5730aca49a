//! A core over a paused store, driven pass by pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll, Wake, Waker};

use framegate_frame::{Frame, FrameKind, Limits as FrameLimits};
use framegate_storage::{Claim, Report, ShardId};
use framegate_storage_memory::MemoryStore;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::store::Store;
use crate::broker::{Shared, route_request};
use crate::definition::{QueueProperties, QueueSpec};
use crate::error::BrokerError;
use crate::feed::{FeedItem, Subscribe, Subscription};
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
pub(in crate::fold) struct Rig {
    pub(in crate::fold) store: Store,
    pub(in crate::fold) core: Core,
    pub(in crate::fold) claim: Claim,
    pub(in crate::fold) now: Now,
    inbox: Receiver<Inbox>,
    shared: Arc<Shared>,
    next_connection: u64,
    /// What the store reported as durable.
    reported: Arc<AtomicU64>,
}

/// A connection's end.
pub(in crate::fold) struct Peer {
    pub(in crate::fold) id: ConnectionId,
    outbox: mpsc::UnboundedReceiver<Vec<Effect>>,
    window: Arc<Window>,
    next: u64,
    kept: Vec<Effect>,
}

pub(in crate::fold) fn name(text: &str) -> Name {
    Name::new(text).expect("short")
}

pub(in crate::fold) fn frame(text: &str) -> Frame {
    let attributes = [("datacontenttype", "text/plain")];
    Frame::build(FrameKind::Event, attributes, text.as_bytes(), &FrameLimits::GATEWAY).expect("frame")
}

pub(in crate::fold) fn text(delivery: &Delivery) -> String {
    String::from_utf8(delivery.frame.data().to_vec()).expect("text")
}

pub(in crate::fold) fn seq(delivery: &Delivery) -> Seq {
    match delivery.position {
        Position::Queue(seq) => seq,
        Position::Topic(..) => panic!("not of a queue"),
    }
}

/// A persistent message to a queue.
pub(in crate::fold) fn message(queue: &str, body: &str) -> Publish {
    Publish { persistent: true, ..Publish::new(name(""), name(queue), frame(body)) }
}

pub(in crate::fold) fn consumer(id: u32, queue: &str, prefetch: Option<u32>) -> Consume {
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

pub(in crate::fold) fn pull(holder: u32, queue: &str, max: u32, wait_ms: u64, auto_ack: bool) -> Request {
    let (consumer, queue) = (ConsumerId(holder), name(queue));
    Request::Fetch(Fetch { consumer, queue, max, wait_ms, auto_ack, lease_ms: None, tokens: false })
}

pub(in crate::fold) fn queue(name_: &str, properties: QueueProperties) -> Request {
    let spec = QueueSpec { name: name(name_), durable: true, properties, ..QueueSpec::default() };
    Request::Define(Define::Queue(spec))
}

pub(in crate::fold) fn settlement(consumer: u32, seqs: &[Seq], outcome: Outcome) -> Settle {
    Settle { lease: Lease::Positions(ConsumerId(consumer), seqs.to_vec()), outcome, answer: true }
}

/// Dead letters go to a queue by the default exchange.
pub(in crate::fold) fn dead_to(key: &str) -> QueueProperties {
    QueueProperties {
        dead_letter_exchange: Some(name("")),
        dead_letter_key: Some(name(key)),
        ..QueueProperties::default()
    }
}

pub(in crate::fold) fn info(rig: &mut Rig, peer: &mut Peer, queue: &str) -> QueueInfo {
    match rig.call(peer, Request::Query(Query::Queue(name(queue)))) {
        Ok(Reply::Queue(info)) => info,
        other => panic!("{other:?}"),
    }
}

/// Texts and newest deaths of what is in a queue, taken out.
pub(in crate::fold) fn corpses(
    rig: &mut Rig,
    peer: &mut Peer,
    queue: &str,
) -> Vec<(String, DeathReason, u64)> {
    let mut all = Vec::new();
    while info(rig, peer, queue).ready > 0 {
        rig.send(peer, vec![pull(77, queue, 100, 1000, true)]);
        all.extend(rig.until_fetched(peer));
    }
    all.iter().map(|d| (text(d), d.envelope.deaths[0].reason, d.envelope.deaths[0].count)).collect()
}

impl Rig {
    pub(in crate::fold) fn new() -> Self {
        Self::on(&MemoryStore::paused(), Now { wall_ms: 1_000_000, mono_ms: 10 })
    }

    /// Starts over what a store holds.
    pub(in crate::fold) fn on(store: impl Into<Store>, now: Now) -> Self {
        let mut rig = Self::start(store, now, Limits::default());
        rig.settle();
        rig
    }

    /// Starts, and does nothing yet.
    pub(in crate::fold) fn start(store: impl Into<Store>, now: Now, limits: Limits) -> Self {
        let store: Store = store.into();
        let (sender, inbox) = channel();
        let reports = sender.clone();
        let reported = Arc::new(AtomicU64::new(0));
        let durable = Arc::clone(&reported);
        let report = Box::new(move |report| {
            if let Report::Durable { upto } = &report {
                durable.store(upto.0, Ordering::SeqCst);
            }
            let _ = reports.send(Inbox::Report(report));
        });
        let claim = store.claim(ShardId(0), report).expect("claimed");
        let (state, _) = replay(&*store, &claim).expect("replayed");
        let vhosts = vec![name("/")];
        let topology = TopologyEditor::new(&vhosts).publish().unwrap_or_default();
        let generation = claim.generation;
        reported.store(claim.next.0 - 1, Ordering::SeqCst);
        let shared = Shared::new(limits, HeaderTable::default(), vhosts, generation, topology, sender);
        let core = Core::new(state, claim, store.shared(), Arc::clone(&shared), now).expect("core");
        Self { store, core, claim, now, inbox, shared, next_connection: 0, reported }
    }

    /// Position up to which the store said that the log is durable.
    pub(in crate::fold) fn reported(&self) -> u64 {
        self.reported.load(Ordering::SeqCst)
    }

    pub(in crate::fold) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Takes what waits in the inbox.
    pub(in crate::fold) fn take_inbox(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            self.core.take(message, self.now);
        }
    }

    /// Takes the next message, when it comes.
    pub(in crate::fold) fn take_next(&mut self) {
        let message = self.inbox.recv().expect("the readers live");
        self.core.take(message, self.now);
    }

    /// One pass over what waits.
    pub(in crate::fold) fn pass(&mut self) {
        self.take_inbox();
        self.core.timer(self.now);
        self.core.end_pass();
    }

    /// Waits for bodies that are being read; false when none are.
    pub(in crate::fold) fn load(&mut self) -> bool {
        let loading = self.core.is_loading();
        if loading {
            let message = self.inbox.recv().expect("the readers live");
            self.core.take(message, self.now);
        }
        loading
    }

    /// Waits for a snapshot that is being written.
    pub(in crate::fold) fn until_kept(&mut self) {
        while self.core.keeper.is_running() {
            let message = self.inbox.recv().expect("the keeper lives");
            self.core.take(message, self.now);
        }
    }

    /// A subscription.
    pub(in crate::fold) fn subscribe(&mut self, what: Subscribe) -> Result<Subscription, BrokerError> {
        let (reply, mut answer) = oneshot::channel();
        self.core.take(Inbox::Subscribe { vhost: name("/"), what, reply }, self.now);
        answer.try_recv().expect("an answer at once").map(Subscription::new)
    }

    /// Everything that a subscription can be told now.
    pub(in crate::fold) fn read(&mut self, subscription: &mut Subscription) -> Vec<FeedItem> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut items = Vec::new();
        loop {
            match subscription.poll_next(&mut context, &mut items, usize::MAX >> 1) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => panic!("the feed ended"),
                Poll::Pending if subscription.is_replaying() => {
                    self.take_inbox();
                    std::thread::park();
                }
                Poll::Pending => return items,
            }
        }
    }

    /// Passes until nothing is left to do, everything is durable and no body is being read.
    pub(in crate::fold) fn settle(&mut self) {
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
    pub(in crate::fold) fn wait(&mut self, ms: u64) {
        self.now.wall_ms += ms;
        self.now.mono_ms += ms;
    }

    pub(in crate::fold) fn connect(&mut self) -> Peer {
        self.connect_with(1 << 40)
    }

    /// A connection with so many bytes on its way out.
    pub(in crate::fold) fn connect_with(&mut self, window: usize) -> Peer {
        self.next_connection += 1;
        let (sender, outbox) = mpsc::unbounded_channel();
        let window = Arc::new(Window::new(window));
        let id = ConnectionId(self.next_connection);
        let opened = Opened {
            id,
            vhost: name("/"),
            user: name("test"),
            label: "test".to_owned(),
            outbox: sender,
            window: Arc::clone(&window),
        };
        self.core.take(Inbox::Connect(Box::new(opened)), self.now);
        Peer { id, outbox, window, next: 0, kept: Vec::new() }
    }

    /// Hands over requests as one batch, without a pass.
    pub(in crate::fold) fn send(&mut self, peer: &mut Peer, requests: Vec<Request>) -> Vec<RequestId> {
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
    pub(in crate::fold) fn call(&mut self, peer: &mut Peer, request: Request) -> Result<Reply, BrokerError> {
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
    pub(in crate::fold) fn put(&mut self, peer: &mut Peer, publish: Publish) {
        self.send(peer, vec![Request::Publish(publish)]);
        self.settle();
    }

    /// The next deliveries, when a reader has to read their bodies first.
    pub(in crate::fold) fn until(&mut self, peer: &mut Peer) -> Vec<Delivery> {
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
    pub(in crate::fold) fn until_fetched(&mut self, peer: &mut Peer) -> Vec<Delivery> {
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
    pub(in crate::fold) fn until_browsed(&mut self, peer: &mut Peer) -> Vec<crate::request::Browsed> {
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

    /// The answer to a history query: a reader reads the bodies first.
    pub(super) fn until_history(&mut self, peer: &mut Peer, id: RequestId) -> crate::group::History {
        loop {
            self.pass();
            for effect in peer.effects() {
                match effect {
                    Effect::Reply(of, Ok(Reply::History(history))) if of == id => return history,
                    other => peer.kept.push(other),
                }
            }
            let message = self.inbox.recv().expect("the readers live");
            self.core.take(message, self.now);
        }
    }

    pub(in crate::fold) fn disconnect(&mut self, peer: Peer) {
        self.drop_connection(peer.id);
        self.settle();
    }

    /// A connection is lost, without a pass.
    pub(in crate::fold) fn drop_connection(&mut self, id: ConnectionId) {
        self.core.take(Inbox::Disconnect(id), self.now);
    }

    /// The driver of a connection has sent so many bytes.
    pub(in crate::fold) fn give_back(&mut self, peer: &Peer, bytes: usize) {
        if peer.window.give_back(bytes) {
            self.core.take(Inbox::Resume(peer.id), self.now);
        }
    }

    /// What a reader of the log would know now, and what this core knows.
    pub(in crate::fold) fn hashes(&self) -> (u64, u64) {
        let (state, _) = replay(&*self.store, &self.claim).expect("replayed");
        (state.content_hash(), self.core.durable.content_hash())
    }
}

impl Peer {
    /// Everything that is there.
    pub(in crate::fold) fn effects(&mut self) -> Vec<Effect> {
        let mut all = std::mem::take(&mut self.kept);
        while let Ok(more) = self.outbox.try_recv() {
            all.extend(more);
        }
        all
    }

    /// Deliveries that are there; other effects are passed over.
    pub(in crate::fold) fn deliveries(&mut self) -> Vec<Delivery> {
        let delivery = |e| if let Effect::Delivery(d) = e { Some(d) } else { None };
        self.effects().into_iter().filter_map(delivery).collect()
    }

    pub(in crate::fold) fn texts(&mut self) -> Vec<String> {
        self.deliveries().iter().map(text).collect()
    }
}

/// Wakes the thread that waits for a page.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Core {
    fn is_loading(&self) -> bool {
        self.live.values().any(|l| l.loading && !l.rests)
    }
}
