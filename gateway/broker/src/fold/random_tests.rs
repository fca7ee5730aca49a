//! Random commands against the core without its thread: after each step the counters must agree with what is there, and
//! every so often the log, replayed, must give the state that lives. Seeds are printed with a failure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use framegate_frame::{Frame, FrameKind, Limits as FrameLimits};
use framegate_storage::{ShardId, ShardStore};
use framegate_storage_memory::MemoryStore;
use tokio::sync::{Semaphore, mpsc as channel};

use super::inbox::{Batch, Inbox, Opened, Task, Window};
use super::load::{load, load_log};
use super::survey::Survivor;
use super::{Core, DETACHED, Now, replay};
use crate::broker::Shared;
use crate::definition::{Overflow, PriorityMode, QueueProperties, QueueSpec};
use crate::headers::HeaderTable;
use crate::ids::{ConnectionId, ConsumerId, PoolId, QueueId, RequestId, Seq};
use crate::limits::Limits;
use crate::message::{Dedup, Position};
use crate::name::Name;
use crate::request::{
    Answer, Consume, Credit, Define, Effect, Fetch, Lease, Outcome, Publish, Reply, Request, Settle,
};
use crate::routing::{Targets, TopologyEditor};

const QUEUES: [&str; 5] = ["plain", "gated", "volatile", "dead", "ranked"];
const CONNECTIONS: u64 = 3;
const LENGTH_MAX: u64 = 30;
const STEPS: usize = 4000;

struct Rig {
    core: Core,
    inbox: mpsc::Receiver<Inbox>,
    store: Arc<dyn ShardStore>,
    now: Now,
    random: u64,
    next: u64,
    outboxes: BTreeMap<u64, channel::UnboundedReceiver<Vec<Effect>>>,
    /// What each connection was given and did not settle, as far as it knows.
    given: Vec<(u64, ConsumerId, Seq)>,
}

fn name(text: &str) -> Name {
    Name::new(text).expect("short")
}

fn spec(queue: &str) -> QueueSpec {
    let properties = QueueProperties {
        deliver_durable: queue == "gated",
        priority: if queue == "ranked" { PriorityMode::Max(3) } else { PriorityMode::None },
        dead_letter_exchange: ["plain", "ranked"].contains(&queue).then(|| name("")),
        dead_letter_key: ["plain", "ranked"].contains(&queue).then(|| name("dead")),
        message_ttl_ms: (queue == "gated").then_some(400),
        length_max: (queue == "dead").then_some(LENGTH_MAX),
        bytes_max: (queue == "ranked").then_some(6000),
        overflow: if queue == "ranked" { Overflow::RejectPublishDeadLetter } else { Overflow::DropHead },
        delivery_limit: (queue == "plain").then_some(3),
        single_active: queue == "volatile",
        ..QueueProperties::default()
    };
    QueueSpec { name: name(queue), durable: queue != "volatile", properties, ..QueueSpec::default() }
}

impl Rig {
    fn start(store: &MemoryStore, seed: u64, now: Now) -> Self {
        let store: Arc<dyn ShardStore> = Arc::new(store.clone());
        let (inbox, receiver) = mpsc::channel();
        let reports = inbox.clone();
        let report = Box::new(move |report| {
            let _ = reports.send(Inbox::Report(report));
        });
        let claim = store.claim(ShardId(0), report).expect("claimed");
        let (state, time_ms) = replay(&*store, &claim).expect("replayed");
        let vhosts = vec![name("/")];
        let topology = TopologyEditor::new(&vhosts).publish().unwrap_or_default();
        let limits = Limits { cache_bytes_max: 8192, window_bytes: 4096, ..Limits::default() };
        let shared = Shared::new(limits, HeaderTable::default(), vhosts, claim.generation, topology, inbox);
        let now = Now { wall_ms: now.wall_ms.max(time_ms), ..now };
        let core = Core::new(state, claim, Arc::clone(&store), shared, now).expect("core");
        let (outboxes, given) = (BTreeMap::new(), Vec::new());
        let mut rig = Self { core, inbox: receiver, store, now, random: seed, next: 0, outboxes, given };
        rig.core.end_pass();
        for id in 1..=CONNECTIONS {
            rig.connect(id);
        }
        for queue in QUEUES {
            rig.ask(1, Request::Define(Define::Queue(spec(queue))));
        }
        rig.core.end_pass();
        rig
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    fn connect(&mut self, id: u64) {
        let (outbox, receiver) = channel::unbounded_channel();
        self.outboxes.insert(id, receiver);
        let opened = Opened {
            id: ConnectionId(id),
            vhost: name("/"),
            user: name("u"),
            label: "test".to_owned(),
            outbox,
            window: Arc::new(Window::new(4096)),
        };
        self.core.take(Inbox::Connect(Box::new(opened)), self.now);
    }

    fn send(&mut self, connection: u64, task: Task) {
        self.next += 1;
        let untaken = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("free");
        let tasks = vec![(RequestId(self.next), task)];
        let batch =
            Batch { connection: ConnectionId(connection), tasks, permit: None, untaken, applied: None };
        self.core.take(Inbox::Batch(batch), self.now);
    }

    fn ask(&mut self, connection: u64, request: Request) {
        self.send(connection, Task::Request(request));
    }

    fn publish(&mut self, connection: u64) {
        let queue = name(QUEUES[self.below(QUEUES.len() as u64) as usize]);
        let body = vec![b'x'; self.below(900) as usize];
        let frame = Frame::build(FrameKind::Event, [("subject", "s")], &body, &FrameLimits::GATEWAY);
        let key = self.below(200) as u8;
        let publish = Publish {
            persistent: self.below(2) == 0,
            mandatory: self.below(4) == 0,
            priority: (self.below(3) != 0).then(|| self.below(6) as i32),
            answer: [Answer::None, Answer::Watermark, Answer::Reply][self.below(3) as usize],
            dedup: (self.below(6) == 0).then_some(Dedup { key: [key; 16], content: 1 }),
            ..Publish::new(name(""), queue, frame.expect("frame"))
        };
        let mut targets = Targets::default();
        let topology = self.core.shared.topology.load_full();
        let routed = topology.route("/", &publish.exchange, &publish.keys, &|_| {}, &mut targets);
        routed.expect("the default exchange is there");
        self.send(connection, Task::Publish(Box::new((publish, targets))));
    }

    fn settle(&mut self) {
        if self.given.is_empty() {
            return;
        }
        let at = self.below(self.given.len() as u64) as usize;
        let (connection, consumer, seq) = self.given.swap_remove(at);
        let outcome = match self.below(10) {
            0..=4 => Outcome::Ack,
            5 => Outcome::Requeue { delay_ms: 0 },
            6 => Outcome::Requeue { delay_ms: 30 },
            7 => Outcome::Reject,
            8 => Outcome::Undeliverable,
            _ => Outcome::Extend { lease_ms: 20 },
        };
        // now and then twice in one list, or one that it does not hold
        let seqs = if self.below(10) == 0 { vec![seq, seq] } else { vec![seq] };
        let lease = Lease::Positions(consumer, seqs);
        self.ask(connection, Request::Settle(Settle { lease, outcome, answer: true }));
    }

    fn step(&mut self) {
        self.now.mono_ms += self.below(4);
        self.now.wall_ms += self.below(4);
        let connection = 1 + self.below(CONNECTIONS);
        let (consumer, queue) =
            (self.below(4) as u32, name(QUEUES[self.below(QUEUES.len() as u64) as usize]));
        let pool = (self.below(2) == 0).then(|| PoolId(self.below(2) as u32));
        let limit = (self.below(3) != 0).then(|| self.below(4) as u32);
        match self.below(40) {
            0..=14 => self.publish(connection),
            15..=25 => self.settle(),
            26..=28 => {
                let consume = Consume {
                    consumer: ConsumerId(consumer),
                    queue,
                    prefetch: limit,
                    pool,
                    exclusive: self.below(20) == 0,
                    auto_ack: self.below(5) == 0,
                    lease_ms: (self.below(3) == 0).then_some(25),
                    tokens: self.below(3) == 0,
                    priority: self.below(2) as i32,
                };
                self.ask(connection, Request::Consume(consume));
            }
            29 => self.ask(connection, Request::Cancel(ConsumerId(consumer))),
            30 => self.ask(connection, Request::Credit(Credit::Consumer(ConsumerId(consumer), limit))),
            31 => self.ask(connection, Request::Credit(Credit::Pool(PoolId(consumer % 2), limit))),
            32..=34 => {
                let fetch = Fetch {
                    consumer: ConsumerId(4 + consumer),
                    queue,
                    max: 1 + self.below(3) as u32,
                    wait_ms: self.below(2) * 15,
                    auto_ack: self.below(3) == 0,
                    lease_ms: (self.below(2) == 0).then_some(25),
                    tokens: self.below(2) == 0,
                };
                self.ask(connection, Request::Fetch(fetch));
            }
            35 => self.ask(connection, Request::Recover(limit.map(ConsumerId))),
            36 if self.below(4) == 0 => {
                let (if_unused, if_empty) = (self.below(2) == 0, self.below(2) == 0);
                let delete = Define::DeleteQueue { name: queue.clone(), if_unused, if_empty };
                self.ask(connection, Request::Define(delete));
                self.ask(connection, Request::Define(Define::Queue(spec(&queue))));
            }
            37 => self.ask(connection, Request::Define(Define::Purge(queue))),
            38 if self.below(3) == 0 => {
                self.core.take(Inbox::Disconnect(ConnectionId(connection)), self.now);
                self.given.retain(|g| g.0 != connection);
                self.connect(connection);
            }
            _ => {}
        }
        if self.below(3) == 0 {
            return;
        }
        while let Ok(message) = self.inbox.try_recv() {
            self.core.take(message, self.now);
        }
        self.core.timer(self.now);
        self.core.end_pass();
        self.hear();
    }

    /// Takes what the connections heard; the window is given back.
    fn hear(&mut self) {
        let mut resumed = Vec::new();
        for (id, outbox) in &mut self.outboxes {
            while let Ok(effects) = outbox.try_recv() {
                let deliveries = effects.into_iter().flat_map(|effect| match effect {
                    Effect::Delivery(delivery) => vec![delivery],
                    Effect::Reply(_, Ok(Reply::Fetched { messages, .. })) => messages,
                    _ => Vec::new(),
                });
                for delivery in deliveries {
                    let Some(connection) = self.core.connections.get(&ConnectionId(*id)) else { continue };
                    if connection.window.give_back(delivery.window_bytes()) {
                        resumed.push(ConnectionId(*id));
                    }
                    if let Position::Queue(seq) = delivery.position {
                        self.given.push((*id, delivery.consumer, seq));
                    }
                }
            }
        }
        for id in resumed {
            self.core.take(Inbox::Resume(id), self.now);
        }
    }

    /// Every message is fresh, returned, leased or delayed; every counter says so.
    fn check(&self) {
        let core = &self.core;
        let mut leased: BTreeMap<QueueId, BTreeSet<u64>> = BTreeMap::new();
        let mut tokens = 0;
        for (id, connection) in &core.connections {
            let mut used: BTreeMap<PoolId, u32> = BTreeMap::new();
            for consumer in connection.consumers.values() {
                for (seq, held) in &consumer.held {
                    assert!(leased.entry(consumer.queue).or_default().insert(*seq), "leased twice");
                    tokens += usize::from(held.token.is_some());
                }
                if let Some(pool) = consumer.pool {
                    *used.entry(pool).or_default() += consumer.held.len() as u32;
                }
            }
            for (pool, live) in &connection.pools {
                assert_eq!(live.used, used.get(pool).copied().unwrap_or(0), "pool {pool} of {id}");
            }
        }
        assert_eq!(core.tokens.len(), tokens, "tokens");
        let mut cached = 0;
        for (id, live) in &core.live {
            let queue = core.state(*id).queue(*id).expect("a live queue has a state");
            let leases = leased.remove(id).unwrap_or_default();
            assert_eq!(live.leased, leases.len() as u64, "leased in {id}");
            let (mut count, mut bytes, mut out, mut weight) = (0, 0, 0, 0);
            for (seq, slot) in queue.slots.iter() {
                count += 1;
                bytes += u64::from(slot.len);
                assert!(slot.body().is_some() || live.frames.contains_key(&seq), "{seq} has no frame");
                let its = queue.weight(Seq(seq));
                let ready = live.ready.is_ready(seq, its.rank);
                weight += if ready { u64::from(its.bytes) } else { 0 };
                let places = [ready, leases.contains(&seq), live.dying.contains_key(&seq)];
                let places = places.into_iter().filter(|p| *p).count();
                assert!(places <= 1, "{seq} of {id} stands at several places");
                out += u64::from(!ready);
            }
            assert_eq!((queue.count, queue.bytes), (count, bytes), "messages of {id}");
            assert_eq!(live.held, out, "held in {id}");
            let upcoming: Vec<u64> = live.ready.upcoming(queue).collect();
            assert!(upcoming.iter().all(|s| queue.slots.get(*s).is_some()), "what is gone is not next");
            assert_eq!(live.ready.bytes(), weight, "bytes ready in {id}");
            let too_many = queue.spec.properties.length_max.is_some_and(|max| count - out > max);
            assert!(!too_many || live.overfull, "{id} holds too many and nobody looks at it");
            assert_eq!(upcoming.len() as u64, count - out, "ready in {id}");
            let active = core.connections.values().flat_map(|c| c.consumers.values());
            let active = active.filter(|c| c.active && c.queue == *id).count();
            assert_eq!(live.consumers as usize, active, "consumers of {id}");
            cached +=
                live.frames.values().map(|f| f.as_bytes().len() + super::cache::ENTRY_BYTES).sum::<usize>();
        }
        assert!(leased.is_empty(), "leases of queues that are gone");
        assert_eq!(core.cache.bytes(), cached, "bytes in memory");
        assert!(core.connections.contains_key(&DETACHED));
    }

    /// Waits until the log is written; then it must give the state that lives.
    fn compare_with_the_log(&mut self) {
        while !self.core.in_flight.is_empty() || self.core.encoder.count() > 0 {
            if !self.core.in_flight.is_empty() {
                let message = self.inbox.recv().expect("the store reports");
                self.core.take(message, self.now);
            }
            self.core.end_pass();
        }
        let expected = self.core.durable.content_hash();
        // without a snapshot, too, as long as nothing was given back
        if self.core.shared.metrics.extents_released.load(Ordering::Relaxed) == 0 {
            let log = load_log(&*self.store, ShardId(0)).expect("replayed");
            assert_eq!(log.state.content_hash(), expected, "the log gives another state");
        }
        let (state, _) = replay(&*self.store, &self.core.claim).expect("replayed");
        assert_eq!(state.content_hash(), expected, "snapshot and log give another state");
        for frozen in [self.core.durable.freeze(), self.core.volatile.freeze()] {
            frozen.bodies(&mut |what, body| {
                let read = self.store.fetch(ShardId(0), &[body]).remove(0);
                let frame = Frame::parse(read.expect("a body that lives is there"), &FrameLimits::GATEWAY);
                assert!(frame.is_ok(), "{what:?} is no frame");
            });
        }
    }

    /// Goes on until `done` says so.
    fn until(&mut self, done: impl Fn(&Core) -> bool) {
        while !done(&self.core) {
            self.now.mono_ms += 1;
            while let Ok(message) = self.inbox.try_recv() {
                self.core.take(message, self.now);
            }
            self.core.timer(self.now);
            self.core.end_pass();
            self.hear();
            std::thread::yield_now();
        }
    }

    /// A snapshot, while commands go on; then the log after it is empty or short.
    fn snapshot(&mut self) {
        let written = |core: &Core| core.shared.metrics.snapshots.load(Ordering::Relaxed);
        let before = written(&self.core);
        self.core.snapshot_due();
        self.until(|core| core.keeper.is_running() || written(core) > before);
        for _ in 0..5 {
            self.step();
        }
        self.until(|core| written(core) > before);
        let loaded = load(&*self.store, ShardId(0)).expect("replayed");
        assert!(loaded.from.0 > 1, "the snapshot is read");
    }

    /// Writes every third body again.
    fn move_some(&mut self) {
        self.until(|core| !core.keeper.is_running());
        let mut all = Vec::new();
        for frozen in [self.core.durable.freeze(), self.core.volatile.freeze()] {
            frozen.bodies(&mut |what, body| all.push(Survivor { what, body }));
        }
        all.sort_by_key(|s| (s.body.block, s.body.offset));
        let skip = self.below(3) as usize;
        self.core.keeper.survivors = all.into_iter().skip(skip).step_by(3).collect();
        self.core.go_on_moving();
        self.until(|core| core.keeper.survivors.is_empty() && !core.keeper.reading);
    }

    /// Whatever is ready is delivered to one who takes all, and nothing is left over.
    fn drain(&mut self) {
        for id in 1..=CONNECTIONS {
            self.core.take(Inbox::Disconnect(ConnectionId(id)), self.now);
        }
        self.given.clear();
        self.connect(9);
        for (n, queue) in QUEUES.into_iter().enumerate() {
            let consume = Consume {
                consumer: ConsumerId(n as u32),
                queue: name(queue),
                prefetch: None,
                pool: None,
                exclusive: false,
                auto_ack: true,
                lease_ms: None,
                tokens: false,
                priority: 0,
            };
            self.ask(9, Request::Consume(consume));
        }
        for _ in 0..100_000 {
            self.now.mono_ms += 5;
            while let Ok(message) = self.inbox.try_recv() {
                self.core.take(message, self.now);
            }
            self.core.timer(self.now);
            self.core.end_pass();
            self.hear();
            if self.core.live.keys().all(|q| self.core.state(*q).queue(*q).is_none_or(|q| q.count == 0)) {
                return self.check();
            }
            std::thread::yield_now();
        }
        panic!("messages are left that nobody is given");
    }
}

#[test]
fn counters_agree_with_what_is_there_and_the_log_gives_the_state_that_lives() {
    static SEED: AtomicU64 = AtomicU64::new(0x9e37_79b9);
    let mut met = [0; 8];
    for _ in 0..6 {
        let seed = SEED.fetch_add(0x1234_5677, Ordering::Relaxed);
        println!("seed {seed:#x}");
        let store = MemoryStore::new();
        let mut rig = Rig::start(&store, seed, Now { wall_ms: 1_000_000, mono_ms: 0 });
        for step in 0..STEPS {
            rig.step();
            rig.check();
            if step % 200 == 199 {
                rig.compare_with_the_log();
                match step % 600 {
                    199 => rig.snapshot(),
                    399 => rig.move_some(),
                    _ => {}
                }
                rig.compare_with_the_log();
            }
            if step == STEPS / 2 {
                // a start over what is written
                let now = Now { mono_ms: 0, ..rig.now };
                drop(rig);
                rig = Rig::start(&store, seed + 1, now);
            }
        }
        rig.drain();
        rig.compare_with_the_log();
        let metrics = &rig.core.shared.metrics;
        let counters = [
            &metrics.delivered,
            &metrics.acked,
            &metrics.requeued,
            &metrics.dead_lettered,
            &metrics.bodies_loaded,
            &metrics.paused_busy,
            &metrics.snapshots,
            &metrics.survivors,
        ];
        for (sum, counter) in met.iter_mut().zip(counters) {
            *sum += counter.load(Ordering::Relaxed);
        }
    }
    // the commands met what they are meant to meet; how often in one life, the readers' threads have a say in
    println!("delivered, acked, requeued, dead-lettered, loaded, busy, snapshots, moved: {met:?}");
    assert!(met.iter().all(|n| *n > 0), "{met:?}");
}
