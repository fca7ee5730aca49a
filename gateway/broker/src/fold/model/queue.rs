//! A queue as the contract describes it: a list of messages in publish order, each in one place. Knows nothing of
//! consumers, logs and limits of the core.

use std::rc::Rc;

use framegate_frame::Frame;

use super::Gate;
use crate::definition::{PriorityMode, QueueSpec};
use crate::ids::{ConnectionId, ConsumerId, Seq, Token};
use crate::message::{Death, DeathReason, Envelope};
use crate::name::Name;

/// Where a message is.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::fold) enum Place {
    /// The next taker may have it, when its turn comes.
    Ready,
    /// Somebody has it.
    Leased(Lease),
    /// Not ready before this monotonic time in ms.
    Delayed(u64),
}

/// Who has a message.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::fold) struct Lease {
    pub(in crate::fold) connection: ConnectionId,
    pub(in crate::fold) consumer: ConsumerId,
    /// Monotonic time in ms when it returns.
    pub(in crate::fold) deadline_ms: Option<u64>,
    pub(in crate::fold) token: Option<Token>,
}

/// Whether somebody saw a message before the last start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fold) enum Seen {
    No,
    /// It was shown, and nobody promised to remember that.
    Maybe,
    Yes,
}

/// One message of one queue.
#[derive(Debug, Clone)]
pub(in crate::fold) struct Message {
    /// Names this copy for ever.
    pub(in crate::fold) uid: u64,
    /// The queue's life in which it came, and its place among those that came in it.
    pub(in crate::fold) life: usize,
    pub(in crate::fold) ordinal: u64,
    /// What the broker knows; `attempts` counts apart.
    pub(in crate::fold) envelope: Rc<Envelope>,
    pub(in crate::fold) frame: Frame,
    pub(in crate::fold) attempts: u32,
    pub(in crate::fold) undeliverable: u32,
    /// It survives a restart.
    pub(in crate::fold) stored: bool,
    /// When it may be shown (queues that deliver only what is durable).
    pub(in crate::fold) gate: Gate,
    pub(in crate::fold) place: Place,
    /// The pass in which it came.
    pub(in crate::fold) came: usize,
    /// When it was given to somebody in this life of the broker, ms since the Unix epoch.
    pub(in crate::fold) given_ms: Option<u64>,
    pub(in crate::fold) seen: Seen,
}

impl Message {
    /// As a consumer must see it.
    pub(in crate::fold) fn shown(&self) -> Envelope {
        Envelope { attempts: self.attempts, ..(*self.envelope).clone() }
    }

    pub(in crate::fold) fn is_expired(&self, wall_ms: u64) -> bool {
        self.envelope.expires_at_ms != 0 && self.envelope.expires_at_ms <= wall_ms
    }

    pub(in crate::fold) fn lease(&self) -> Option<&Lease> {
        if let Place::Leased(lease) = &self.place { Some(lease) } else { None }
    }
}

/// One queue.
#[derive(Debug, Clone)]
pub(in crate::fold) struct Queue {
    pub(in crate::fold) spec: QueueSpec,
    /// Names this queue among all that ever had its name.
    pub(in crate::fold) incarnation: u64,
    /// In publish order.
    pub(in crate::fold) messages: Vec<Message>,
    /// Number of the first message of each life, as far as somebody saw one of that life.
    lives: Vec<Option<u64>>,
    next: u64,
    /// The broker's number for it, once somebody saw it.
    pub(in crate::fold) id: Option<u32>,
    /// When something of it may be seen.
    pub(super) gate: Gate,
    /// The connection that it belongs to.
    pub(in crate::fold) owner: Option<ConnectionId>,
    pub(in crate::fold) exclusive_consumer: Option<Whom>,
    /// Of a queue with a single active consumer: that one, and those that wait, with their priorities.
    pub(super) active: Option<Whom>,
    pub(super) waiting: Vec<(i32, Whom)>,
    /// When it was last used, monotonic ms.
    pub(super) used_ms: u64,
}

/// A consumer of some connection.
type Whom = (ConnectionId, ConsumerId);

impl Queue {
    /// Empty. `at`: the pass, and the monotonic time in ms.
    pub(super) fn new(
        spec: QueueSpec,
        incarnation: u64,
        owner: Option<ConnectionId>,
        at: (usize, u64),
    ) -> Self {
        let stored = spec.durable && !spec.exclusive;
        let lives = vec![stored.then_some(1)];
        Self {
            spec,
            incarnation,
            messages: Vec::new(),
            lives,
            next: 0,
            id: None,
            gate: if stored { Gate::Logged(at.0) } else { Gate::Free },
            owner,
            exclusive_consumer: None,
            active: None,
            waiting: Vec::new(),
            used_ms: at.1,
        }
    }

    /// Survives a restart.
    pub(in crate::fold) fn is_stored(&self) -> bool {
        self.spec.durable && !self.spec.exclusive
    }

    /// Shows only what is durable.
    pub(super) fn is_gated(&self) -> bool {
        self.spec.properties.deliver_durable && self.is_stored()
    }

    pub(super) fn put(
        &mut self,
        uid: u64,
        mut envelope: Envelope,
        frame: Frame,
        gate: Gate,
        mono_ms: u64,
        wall_ms: u64,
    ) {
        let delay = envelope.deliver_at_ms.saturating_sub(wall_ms);
        let place = if delay > 0 { Place::Delayed(mono_ms + delay) } else { Place::Ready };
        if let Some(ttl_ms) = self.spec.properties.message_ttl_ms {
            let end = wall_ms.max(envelope.deliver_at_ms) + ttl_ms;
            let own = envelope.expires_at_ms;
            envelope.expires_at_ms = if own == 0 { end } else { own.min(end) };
        }
        if self.spec.properties.bytes_max.is_some() {
            envelope.data_bytes = frame.data().len() as u32;
        }
        let attempts = envelope.attempts;
        let stored = envelope.persistent && self.is_stored();
        let ordinal = self.next;
        self.next += 1;
        self.messages.push(Message {
            uid,
            life: self.lives.len() - 1,
            ordinal,
            envelope: Rc::new(Envelope { attempts: 0, ..envelope }),
            frame,
            attempts,
            undeliverable: 0,
            stored,
            gate,
            place,
            came: 0,
            given_ms: None,
            seen: Seen::No,
        });
    }

    /// Which goes first: the highest priority as this queue counts it, then the oldest.
    pub(super) fn first(&self, is_meant: impl Fn(&Message) -> bool) -> Option<usize> {
        let rank = |m: &Message| self.spec.properties.priority.rank(m.envelope.priority);
        let meant = |m: &&Message| is_meant(m);
        let highest = self.messages.iter().filter(meant).map(rank).max()?;
        self.messages.iter().position(|m| is_meant(m) && rank(m) == highest)
    }

    /// So many more messages and bytes would be too many; ready ones count.
    pub(super) fn is_over(&self, more: u64, bytes: u64) -> bool {
        let ready = self.messages.iter().filter(|m| m.place == Place::Ready);
        let held: u64 = ready.map(|m| m.frame.data().len() as u64).sum();
        self.spec.properties.length_max.is_some_and(|max| self.ready() + more > max)
            || self.spec.properties.bytes_max.is_some_and(|max| held + bytes > max)
    }

    /// A consumer came to a queue with a single active one.
    pub(super) fn join(&mut self, priority: i32, whom: Whom) {
        if self.spec.properties.single_active {
            match self.active {
                None => self.active = Some(whom),
                Some(_) => self.waiting.push((priority, whom)),
            }
        }
    }

    /// A consumer left: the oldest of the highest priority comes after it.
    pub(super) fn leave(&mut self, whom: Whom) {
        self.waiting.retain(|w| w.1 != whom);
        if self.active == Some(whom) {
            let highest = self.waiting.iter().map(|w| w.0).max();
            let next = self.waiting.iter().position(|w| Some(w.0) == highest);
            self.active = next.map(|at| self.waiting.remove(at).1);
        }
    }

    /// The number of a message, when it can be known.
    pub(in crate::fold) fn number(&self, message: &Message) -> Option<u64> {
        self.lives[message.life].map(|base| base + message.ordinal)
    }

    /// A message was seen under this number: from now on all of its life are known.
    pub(super) fn learn(&mut self, at: usize, seq: Seq) -> Result<(), String> {
        let message = &self.messages[at];
        let (life, ordinal) = (message.life, message.ordinal);
        match self.number(message) {
            Some(known) if known == seq.0 => return Ok(()),
            Some(known) => return Err(format!("number {seq}, not {known}")),
            None => {}
        }
        let base = seq.0.checked_sub(ordinal).ok_or(format!("number {seq} is too small"))?;
        self.lives[life] = Some(base);
        let numbers: Vec<u64> = self.messages.iter().filter_map(|m| self.number(m)).collect();
        if numbers.is_sorted_by(|a, b| a < b) { Ok(()) } else { Err(format!("numbers {numbers:?}")) }
    }

    /// How long a message waits behind others was left to the broker, which has decided it.
    pub(in crate::fold) fn resolve(&mut self, pass: usize, decided: impl Fn(usize) -> Option<u64>) {
        for (at, message) in self.messages.iter_mut().enumerate() {
            if message.gate == Gate::Behind(pass) {
                message.gate = decided(at).map_or(Gate::Free, Gate::At);
            }
        }
    }

    /// Ready messages without the dead letters that came in this pass: who took before they came did not see them.
    pub(in crate::fold) fn ready_before(&self, pass: usize) -> u64 {
        let fresh = |m: &Message| m.came == pass && !m.envelope.deaths.is_empty();
        self.messages.iter().filter(|m| m.place == Place::Ready && !fresh(m)).count() as u64
    }

    /// Ready messages, those included that nobody may see yet.
    pub(in crate::fold) fn ready(&self) -> u64 {
        self.messages.iter().filter(|m| m.place == Place::Ready).count() as u64
    }

    pub(in crate::fold) fn unacked(&self) -> u64 {
        self.messages.iter().filter(|m| m.lease().is_some()).count() as u64
    }

    pub(in crate::fold) fn bytes(&self) -> u64 {
        self.messages.iter().map(|m| m.frame.as_bytes().len() as u64).sum()
    }

    /// What is left of it after a restart. `clean`: everything that was shown is remembered as such; otherwise what was
    /// shown at least a second before the last record that is left.
    pub(super) fn restart(&mut self, clean: bool, left_ms: u64, wall_ms: u64, mono_ms: u64) {
        self.messages.retain(|m| m.stored);
        self.lives.push(None);
        self.next = 0;
        self.exclusive_consumer = None;
        (self.active, self.used_ms) = (None, mono_ms);
        self.waiting.clear();
        let ranked = self.spec.properties.priority != PriorityMode::None;
        self.gate = Gate::Free;
        for message in &mut self.messages {
            message.seen = match message.given_ms.take() {
                Some(at) if clean || at + 1000 <= left_ms => Seen::Yes,
                Some(_) if message.seen == Seen::No => Seen::Maybe,
                // passed over before its time, as if it had been shown
                None if message.seen == Seen::No && (ranked || message.envelope.deliver_at_ms != 0) => {
                    Seen::Maybe
                }
                _ => message.seen,
            };
            message.undeliverable = 0;
            message.gate = Gate::Free;
            let delay = message.envelope.deliver_at_ms.saturating_sub(wall_ms);
            message.place = if delay > 0 { Place::Delayed(mono_ms + delay) } else { Place::Ready };
        }
    }
}

/// The envelope of the copy that goes to the dead-letter exchange.
pub(super) fn buried(
    envelope: &Envelope,
    queue: &QueueSpec,
    reason: DeathReason,
    wall_ms: u64,
) -> Option<Envelope> {
    let exchange = queue.properties.dead_letter_exchange.clone()?;
    let mut envelope = envelope.clone();
    let ttl_ms = envelope.ttl_ms.take();
    let same = |d: &Death| d.queue == queue.name && d.reason == reason;
    let mut deaths: Vec<Death> = envelope.deaths.iter().filter(|d| !same(d)).cloned().collect();
    let mut death = envelope.deaths.iter().find(|d| same(d)).cloned().unwrap_or(Death {
        queue: queue.name.clone(),
        reason,
        exchange: envelope.exchange.clone(),
        keys: envelope.keys.clone(),
        count: 0,
        time_ms: wall_ms,
        ttl_ms,
    });
    death.count += 1;
    deaths.insert(0, death);
    deaths.truncate(crate::limits::DEATHS_MAX);
    envelope.deaths = deaths;
    envelope.exchange = exchange;
    if let Some(key) = &queue.properties.dead_letter_key {
        envelope.keys = smallvec::smallvec![key.clone()];
    }
    envelope.expires_at_ms = 0;
    envelope.deliver_at_ms = 0;
    envelope.dedup = None;
    envelope.data_bytes = 0;
    Some(envelope)
}

/// A dead letter may enter a queue, unless it died there before and nobody rejected it since: it would go round without
/// anybody touching it.
pub(super) fn may_enter(envelope: &Envelope, queue: &Name) -> bool {
    let rejected = |d: &Death| d.reason == DeathReason::Rejected;
    match envelope.deaths.iter().position(|d| d.queue == *queue) {
        Some(at) => envelope.deaths[..=at].iter().any(rejected),
        None => envelope.deaths.len() < crate::limits::DEATHS_MAX || envelope.deaths.iter().any(rejected),
    }
}
