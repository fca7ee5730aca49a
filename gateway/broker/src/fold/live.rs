//! The volatile side of connections, consumers and queues: leases, credit, ready order. Empty after a start.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use framegate_frame::Frame;
use framegate_storage::Lsn;
use tokio::sync::mpsc;

use super::AnswerTo;
use super::inbox::Window;
use super::ready::Ready;
use super::single::Single;
use crate::ids::{ConnectionId, ConsumerId, PoolId, QueueId, RequestId, Token};
use crate::message::DeathReason;
use crate::name::Name;
use crate::properties::QueueProperties;
use crate::request::Effect;

/// Hashes ids by one multiplication: they are small numbers of our own.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A map by ids.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// One connection.
pub(crate) struct ConnectionLive {
    pub(crate) vhost: Name,
    pub(crate) user: Name,
    pub(crate) label: String,
    pub(crate) outbox: Option<mpsc::UnboundedSender<Vec<Effect>>>,
    pub(crate) window: Arc<Window>,
    pub(crate) consumers: IdMap<ConsumerId, ConsumerLive>,
    pub(crate) pools: IdMap<PoolId, PoolLive>,
    /// Consumers that wait for the window.
    pub(crate) busy: BTreeSet<ConsumerId>,
    /// Consumers whose start is not answered yet: nothing is pushed to them before.
    pub(crate) unannounced: Vec<(RequestId, ConsumerId)>,
    /// Leaves at the end of the pass.
    pub(crate) out: Vec<Effect>,
    /// Leaves when the log is durable up to there, in order.
    pub(crate) gated: VecDeque<(Lsn, Effect)>,
    /// It has published: it is told when publishers are held.
    pub(crate) publishes: bool,
    /// Why it ends, as its protocol said.
    pub(crate) closing: Option<String>,
    /// Queues that go with it.
    pub(crate) exclusive: Vec<QueueId>,
}

/// A limit shared by consumers.
#[derive(Debug, Default)]
pub(crate) struct PoolLive {
    pub(crate) limit: Option<u32>,
    pub(crate) used: u32,
}

/// A consumer, or somebody who holds pulled messages.
#[derive(Debug)]
pub(crate) struct ConsumerLive {
    pub(crate) queue: QueueId,
    pub(crate) prefetch: Option<u32>,
    pub(crate) pool: Option<PoolId>,
    pub(crate) terms: Terms,
    pub(crate) priority: i32,
    /// Messages are pushed to it.
    pub(crate) active: bool,
    /// The answer to its start is on its way before the first delivery.
    pub(crate) announced: bool,
    /// It stands in its queue's line.
    pub(crate) in_line: bool,
    /// Pulls of it that wait.
    pub(crate) waits: u32,
    /// Monotonic time in ms of the timer that looks at its leases; 0: there is none.
    pub(crate) lease_timer_ms: u64,
    /// What it holds, by sequence number.
    pub(crate) held: BTreeMap<u64, Held>,
}

/// How a message is handed over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) auto_ack: bool,
    pub(crate) lease_ms: Option<u64>,
    pub(crate) tokens: bool,
}

/// A lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// Monotonic time in ms when it returns; 0: never.
    pub(crate) deadline_ms: u64,
    /// Settles it from anywhere.
    pub(crate) token: Option<Token>,
}

/// Who takes the next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taker {
    /// A consumer.
    Consumer(ConnectionId, ConsumerId),
    /// A pull that waits.
    Waiter(u64),
}

/// A pull that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) to: AnswerTo,
    pub(crate) connection: ConnectionId,
    pub(crate) queue: QueueId,
    pub(crate) fetch: crate::request::Fetch,
    pub(crate) deadline_ms: u64,
}

/// One queue.
#[derive(Debug)]
pub(crate) struct QueueLive {
    /// Which message is next.
    pub(crate) ready: Ready,
    /// Leased, or held back until a requeue delay has passed.
    pub(crate) held: u64,
    /// Of those, leased.
    pub(crate) leased: u64,
    /// Takers that can take, round robin per priority.
    pub(crate) line: BTreeMap<Reverse<i32>, VecDeque<Taker>>,
    pub(crate) consumers: u32,
    /// Its consumers, and who holds or waits for pulled messages of it.
    pub(crate) holders: BTreeSet<(ConnectionId, ConsumerId)>,
    pub(crate) exclusive: Option<(ConnectionId, ConsumerId)>,
    /// One of the consumers gets everything.
    pub(crate) single: Option<Box<Single>>,
    /// Monotonic time in ms until which it was used; kept for queues that expire.
    pub(crate) used_ms: u64,
    /// A timer looks whether it is used.
    pub(crate) unused_timer: bool,
    /// The connection whose queue it is.
    pub(crate) owner: Option<ConnectionId>,
    /// Frames in memory.
    pub(crate) frames: IdMap<u64, Frame>,
    /// What they take in the cache.
    pub(crate) cached_bytes: usize,
    /// Nothing above it may be delivered yet.
    pub(crate) visible: u64,
    /// Bodies are being read.
    pub(crate) loading: bool,
    /// They are not: they will be asked for again after a while.
    pub(crate) rests: bool,
    /// Everything up to here may have been seen before the start.
    pub(crate) seen_before: u64,
    /// How often no protocol could carry a message.
    pub(crate) undeliverable: IdMap<u64, u32>,
    /// Purged, and not yet taken out.
    pub(crate) purging: u64,
    /// They die as soon as their frames have been read.
    pub(crate) dying: BTreeMap<u64, DeathReason>,
    /// It stands in the list of queues that hold too many messages.
    pub(crate) overfull: bool,
    /// Messages from here on came in during this pass: one that expires at once may still be delivered.
    pub(crate) fresh_from: u64,
    /// Some messages may expire.
    pub(crate) expiring: bool,
    /// Monotonic time in ms at which a timer looks at the head; 0: there is none.
    pub(crate) expire_timer_ms: u64,
    /// Nothing is delivered before the log is durable up to here: its own definition.
    pub(crate) opens_at: Lsn,
    /// It stands in the list of queues to dispatch.
    pub(crate) dirty: bool,
    /// Version of the first topology that it is in: what was routed by an older one was for another queue of its id.
    pub(crate) since: u64,
}

impl QueueLive {
    /// Everything in it is ready.
    pub(crate) fn new(
        first: u64,
        delivered: u64,
        owner: Option<ConnectionId>,
        properties: &QueueProperties,
    ) -> Self {
        let ready = Ready::new(first, properties.priority);
        let single = properties.single_active.then(Box::default);
        Self {
            ready,
            held: 0,
            leased: 0,
            line: BTreeMap::new(),
            consumers: 0,
            holders: BTreeSet::new(),
            exclusive: None,
            single,
            used_ms: 0,
            unused_timer: false,
            owner,
            frames: IdMap::default(),
            cached_bytes: 0,
            visible: u64::MAX,
            loading: false,
            rests: false,
            seen_before: delivered,
            undeliverable: IdMap::default(),
            purging: 0,
            dying: BTreeMap::new(),
            overfull: false,
            fresh_from: u64::MAX,
            expiring: false,
            expire_timer_ms: 0,
            opens_at: Lsn(0),
            dirty: false,
            since: 0,
        }
    }

    /// Puts a taker at the end of its priority's line.
    pub(crate) fn join(&mut self, priority: i32, taker: Taker) {
        self.line.entry(Reverse(priority)).or_default().push_back(taker);
    }

    /// Puts a taker back at the front: it could not be served.
    pub(crate) fn rejoin(&mut self, priority: i32, taker: Taker) {
        self.line.entry(Reverse(priority)).or_default().push_front(taker);
    }

    /// The next taker of the highest priority.
    pub(crate) fn pop_taker(&mut self) -> Option<(i32, Taker)> {
        // an emptied line is kept: its taker comes back most of the time, `leave` removes it
        self.line.iter_mut().find_map(|(priority, line)| Some((priority.0, line.pop_front()?)))
    }

    /// Takes one out of the line.
    pub(crate) fn leave(&mut self, priority: i32, taker: Taker) {
        if let Some(line) = self.line.get_mut(&Reverse(priority)) {
            line.retain(|t| *t != taker);
            // the usual priority's line stays, whoever leaves it
            if line.is_empty() && priority != 0 {
                self.line.remove(&Reverse(priority));
            }
        }
    }
}
