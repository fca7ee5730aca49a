//! A naive model of the broker: what a client may rely on, in lists and maps, without a log, a cache or a timer wheel.
//! It is told what was asked and judges what was heard; where the contract leaves a choice (which consumer takes a
//! message), any legal choice is taken over. It never looks into the core.
//!
//! ```text
//! pass:  begin -> request* -> tick -> accept* -> end      (one pass of the fold; `end` keeps a copy for a restart)
//! ```

mod consumer;
mod driver;
mod expect;
mod group;
mod publish;
mod queue;
mod routing;
mod settle;
mod takers;
mod topic;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

pub(in crate::fold) use consumer::{Connection, Waiter};
pub(in crate::fold) use expect::{Answered, What};
pub(in crate::fold) use group::{Group, GroupKey, Shown};
pub(in crate::fold) use queue::{Lease, Message, Place, Queue, Seen};
pub(in crate::fold) use routing::Routing;
pub(in crate::fold) use topic::{Event, Reader, Topic};

use framegate_frame::Frame;

use super::Now;
use crate::definition::{BindTarget, Overflow, QueueSpec, TopicSpec};
use crate::ids::ConnectionId;
use crate::limits::Limits;
use crate::message::{DeathReason, Envelope};
use crate::name::Name;

/// When something may be seen: at once, when the records of a pass are durable, or when those before that pass are (and
/// those of it may have to be).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fold) enum Gate {
    Free,
    Logged(usize),
    Behind(usize),
    /// When this position is durable.
    At(u64),
    /// Promises nothing that is stored, and may wait for the pass all the same.
    Upto(usize),
}

/// What survives, and what hangs on it. Cheap to copy.
#[derive(Debug, Clone)]
pub(in crate::fold) struct World {
    pub(in crate::fold) queues: BTreeMap<Name, Rc<Queue>>,
    pub(in crate::fold) topics: BTreeMap<Name, Rc<Topic>>,
    pub(in crate::fold) groups: BTreeMap<GroupKey, Rc<Group>>,
    pub(in crate::fold) routing: Rc<Routing>,
}

/// A publish that is remembered.
#[derive(Debug, Clone)]
struct Known {
    key: [u8; 16],
    content: u64,
    time_ms: u64,
    /// Offset and place of its event.
    event: Option<(u64, usize)>,
    gate: Gate,
}

/// What a restart finds when the log ends there.
struct Copy {
    newest: u64,
    wall_ms: u64,
    world: World,
    events: usize,
    known: usize,
}

/// See the module.
pub(in crate::fold) struct Model {
    pub(in crate::fold) now: Now,
    pub(in crate::fold) world: World,
    pub(in crate::fold) connections: BTreeMap<ConnectionId, Connection>,
    pub(in crate::fold) waiters: Vec<Waiter>,
    pub(in crate::fold) readers: BTreeMap<u32, Reader>,
    /// Everything that subscribers can see, in order.
    pub(in crate::fold) events: Vec<Event>,
    shown: usize,
    /// What was shown before the last pass.
    shown_before: usize,
    known: Vec<Known>,
    limits: Limits,
    /// Positions of the newest record before and after each pass.
    passes: Vec<(u64, u64)>,
    pub(in crate::fold) durable: u64,
    pub(in crate::fold) synced: u64,
    /// Nothing is delivered before the log is durable up to here.
    opens_at: u64,
    copies: Vec<Copy>,
    next_uid: u64,
    next_sweep_ms: u64,
    /// Which copy every number that was seen names; a restart does not forget it.
    numbers: HashMap<(u32, u64), u64>,
    offsets: HashMap<(u32, u64), (u64, u64)>,
    /// How often each kind of outcome was met.
    pub(in crate::fold) counts: BTreeMap<&'static str, u64>,
    /// Fewer messages than there are may be handed out at once: bodies are being read, or the window is small.
    pub(in crate::fold) is_tight: bool,
    /// Refused messages on their way to a dead-letter exchange.
    letters: Vec<(Envelope, Frame)>,
}

impl Model {
    pub(in crate::fold) fn new(limits: Limits, now: Now) -> Self {
        let routing = Rc::new(Routing::new());
        let mut model = Self {
            now,
            world: World {
                queues: BTreeMap::new(),
                topics: BTreeMap::new(),
                groups: BTreeMap::new(),
                routing,
            },
            connections: BTreeMap::new(),
            waiters: Vec::new(),
            readers: BTreeMap::new(),
            events: Vec::new(),
            shown: 0,
            shown_before: 0,
            known: Vec::new(),
            limits,
            passes: vec![(0, 0)],
            durable: 0,
            synced: 0,
            opens_at: 0,
            copies: Vec::new(),
            next_uid: 0,
            next_sweep_ms: 1000,
            numbers: HashMap::new(),
            offsets: HashMap::new(),
            counts: BTreeMap::new(),
            is_tight: false,
            letters: Vec::new(),
        };
        model.keep(0);
        model
    }

    /// Something happened that the test wants to have met.
    pub(in crate::fold) fn met(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Number of the pass that is under way.
    pub(in crate::fold) fn pass(&self) -> usize {
        self.passes.len() - 1
    }

    /// Queues with their messages, for whoever reads a mismatch.
    pub(in crate::fold) fn picture(&self) -> String {
        let mut lines = format!("  durable {} synced {} {:?}\n", self.durable, self.synced, self.now);
        for (name, queue) in &self.world.queues {
            lines += &format!("  {name}:");
            for m in &queue.messages {
                let place = match &m.place {
                    Place::Ready => "ready".to_owned(),
                    Place::Leased(lease) => format!("with {}/{}", lease.connection, lease.consumer),
                    Place::Delayed(due) => format!("from {due}"),
                };
                let expires = m.envelope.expires_at_ms;
                let expires = if expires > 0 { format!(" until {expires}") } else { String::new() };
                lines += &format!(" '{}' {place}{expires};", driver::text(&m.frame));
            }
            lines += "\n";
        }
        lines
    }

    /// Certainly not before this position is durable.
    fn lo(&self, gate: Gate) -> u64 {
        match gate {
            Gate::Free | Gate::Upto(_) => 0,
            Gate::Logged(pass) => self.passes[pass].0 + 1,
            Gate::Behind(pass) => self.passes[pass].0,
            Gate::At(position) => position,
        }
    }

    /// Certainly once this position is durable.
    fn hi(&self, gate: Gate) -> u64 {
        match gate {
            Gate::Free => 0,
            Gate::At(position) => position,
            Gate::Logged(pass) | Gate::Behind(pass) | Gate::Upto(pass) => self.passes[pass].1,
        }
    }

    /// A pass begins.
    pub(in crate::fold) fn begin(&mut self, newest: u64, durable: u64, synced: u64, now: Now) {
        self.passes.push((newest, u64::MAX));
        (self.durable, self.synced, self.now) = (durable, synced, now);
    }

    /// Everything of the pass was taken: what is left of it for a restart is kept until it is on stable storage.
    pub(in crate::fold) fn end(&mut self, newest: u64) {
        let pass = self.pass();
        self.passes[pass].1 = newest;
        self.settle_members();
        self.show();
        let keep = self.copies.iter().rposition(|c| c.newest <= self.synced).unwrap_or(0);
        self.copies.drain(..keep);
        self.keep(newest);
    }

    /// The broker's process ends and starts again over a log that ends at `left`.
    pub(in crate::fold) fn restart(&mut self, left: u64, clean: bool, now: Now) -> Result<(), String> {
        let at = self.copies.iter().rposition(|c| c.newest <= left).ok_or("no copy is old enough")?;
        if self.copies[at].newest != left {
            return Err(format!("the log ends at {left}, inside a pass"));
        }
        let Copy { wall_ms, world, events, known, .. } = self.copies.swap_remove(at);
        self.copies.clear();
        self.world = world;
        self.events.truncate(events);
        self.known.truncate(known);
        self.connections.clear();
        self.waiters.clear();
        self.readers.clear();
        self.now = now;
        (self.durable, self.synced) = (left, left);
        self.next_sweep_ms = 1000;
        self.world.queues.retain(|_, q| q.is_stored());
        for queue in self.world.queues.values_mut() {
            Rc::make_mut(queue).restart(clean, wall_ms, now.wall_ms, now.mono_ms);
        }
        for topic in self.world.topics.values_mut() {
            Rc::make_mut(topic).idle_ms = None;
        }
        for group in self.world.groups.values_mut() {
            Rc::make_mut(group).restart(clean);
        }
        let queues = &self.world.queues;
        Rc::make_mut(&mut self.world.routing).restart(|name| queues.contains_key(name));
        self.passes.push((left, left));
        self.shown = self.events.len();
        self.keep(left);
        Ok(())
    }

    fn keep(&mut self, newest: u64) {
        self.copies.push(Copy {
            newest,
            wall_ms: self.now.wall_ms,
            world: self.world.clone(),
            events: self.events.len(),
            known: self.known.len(),
        });
    }

    /// The start of an unclean log must be durable before anything is delivered.
    pub(in crate::fold) fn opens_at(&mut self, position: u64) {
        self.opens_at = position;
    }

    /// The last block is out: nothing is delivered any more.
    pub(in crate::fold) fn closes(&mut self) {
        self.opens_at = u64::MAX;
    }

    /// Nothing is owed to anybody.
    pub(in crate::fold) fn settled(&mut self) -> Result<(), String> {
        self.all_answered()?;
        self.all_given()?;
        self.all_events_given()?;
        self.all_heard()
    }

    fn is_open(&self) -> bool {
        self.durable >= self.opens_at
    }

    fn uid(&mut self) -> u64 {
        self.next_uid += 1;
        self.next_uid
    }

    fn queue_mut(&mut self, name: &Name) -> Option<&mut Queue> {
        self.world.queues.get_mut(name).map(Rc::make_mut)
    }

    fn make_queue(&mut self, spec: QueueSpec, owner: ConnectionId) {
        let (name, owner) = (spec.name.clone(), spec.exclusive.then_some(owner));
        let queue = Queue::new(spec, self.uid(), owner, (self.pass(), self.now.mono_ms));
        self.world.queues.insert(name, Rc::new(queue));
    }

    fn make_topic(&mut self, spec: TopicSpec) {
        let topic = Topic::new(spec, self.uid());
        self.world.topics.insert(topic.spec.name.clone(), Rc::new(topic));
    }

    /// A topic goes with its events and bindings. False: there is none.
    fn drop_topic(&mut self, name: &Name) -> bool {
        let target = BindTarget::Topic(name.clone());
        Rc::make_mut(&mut self.world.routing).unbind(|b| b.target == target);
        self.world.topics.remove(name).is_some()
    }

    /// A queue goes with its messages, bindings and takers.
    fn drop_queue(&mut self, name: &Name) {
        self.end_takers(name);
        self.world.queues.remove(name);
        let target = BindTarget::Queue(name.clone());
        Rc::make_mut(&mut self.world.routing).unbind(|b| b.target == target);
    }

    /// Monotonic time in ms of the next lease, delay, expiry or wait that is over.
    pub(in crate::fold) fn next_due(&self) -> Option<u64> {
        let now = self.now;
        let of = |m: &Message| match &m.place {
            Place::Ready => None,
            Place::Leased(lease) => lease.deadline_ms,
            Place::Delayed(due) => Some(*due),
        };
        let expiry = |m: &Message| {
            let at = m.envelope.expires_at_ms;
            (at > now.wall_ms).then(|| now.mono_ms + at - now.wall_ms)
        };
        let messages = self.world.queues.values().flat_map(|q| &q.messages);
        let due = messages.flat_map(|m| [of(m), expiry(m)]).flatten();
        due.chain(self.groups_due())
            .chain(self.waiters.iter().map(|w| w.due_ms()))
            .filter(|due| *due > now.mono_ms)
            .min()
    }

    /// What has become due.
    pub(in crate::fold) fn tick(&mut self) {
        let mono_ms = self.now.mono_ms;
        let names: Vec<Name> = self.world.queues.keys().cloned().collect();
        for name in &names {
            let due = |m: &Message| match &m.place {
                Place::Ready => false,
                Place::Leased(lease) => lease.deadline_ms.is_some_and(|d| d <= mono_ms),
                Place::Delayed(due) => *due <= mono_ms,
            };
            if !self.world.queues.get(name).is_some_and(|q| q.messages.iter().any(due)) {
                continue;
            }
            let Some(queue) = self.world.queues.get_mut(name).map(Rc::make_mut) else { continue };
            let mut failed = Vec::new();
            for message in queue.messages.iter_mut().filter(|m| due(m)) {
                let lease = message.lease().is_some();
                *self.counts.entry(if lease { "a lease ran out" } else { "a delay passed" }).or_default() +=
                    1;
                if lease {
                    failed.push(message.uid);
                } else {
                    message.place = Place::Ready;
                }
            }
            self.fail(name, &failed, 0);
        }
        // what became due before the sweep came before it
        self.tick_groups(self.next_sweep_ms);
        self.forget_holders();
        for name in &names {
            self.drop_unused(name);
        }
        self.sweep(&self.limits.clone());
        self.tick_groups(u64::MAX);
        self.forget_holders();
        for name in &names {
            self.expire(name);
        }
    }

    /// The first message that a taker may have, by place.
    fn head(&self, queue: &Queue) -> Option<usize> {
        self.head_but(queue, &[])
    }

    fn head_but(&self, queue: &Queue, gone: &[u64]) -> Option<usize> {
        let at = queue.first(|m| m.place == Place::Ready && !gone.contains(&m.uid))?;
        // what is not shown yet holds back what came after it
        let hidden = |m: &Message| queue.is_gated() && self.lo(m.gate) > self.durable;
        (self.is_open() && self.lo(queue.gate) <= self.synced && !queue.messages[..=at].iter().any(hidden))
            .then_some(at)
    }

    /// The first message that must be handed out to whoever can take it.
    fn certain_head(&self, queue: &Queue) -> bool {
        let hidden = |m: &Message| queue.is_gated() && self.hi(m.gate) > self.durable;
        self.hi(queue.gate) <= self.durable
            && self.head(queue).is_some_and(|at| !queue.messages[..=at].iter().any(hidden))
    }

    /// A queue that nobody used for a while goes.
    fn drop_unused(&mut self, name: &Name) {
        let Some(queue) = self.world.queues.get(name) else { return };
        let Some(expires_ms) = queue.spec.properties.expires_ms else { return };
        let waits = self.waiters.iter().any(|w| w.is_for(queue));
        if waits {
            self.touch(name);
        } else if self.consumers(queue) == 0 && queue.used_ms + expires_ms <= self.now.mono_ms {
            self.drop_queue(name);
            self.met("an unused queue went");
        }
    }

    /// A queue is used now.
    fn touch(&mut self, name: &Name) {
        let mono_ms = self.now.mono_ms;
        if let Some(queue) = self.queue_mut(name).filter(|q| q.spec.properties.expires_ms.is_some()) {
            queue.used_ms = mono_ms;
        }
    }

    /// Queues that hold too many drop their heads, once everybody took what they can. True when one did.
    pub(in crate::fold) fn relieve(&mut self) -> bool {
        let mut any = !self.letters.is_empty();
        self.send_letters();
        for name in self.world.queues.keys().cloned().collect::<Vec<_>>() {
            any |= self.drop_heads(&name);
            // what comes to the head may have expired
            self.expire(&name);
        }
        any
    }

    /// After each request a queue drops its head as soon as it holds too many, once whoever can take something has taken
    /// it: where somebody can, what was heard says what was left.
    pub(super) fn relieve_at_once(&mut self) {
        self.send_letters();
        for name in self.names() {
            let is_meant = |q: &Queue| {
                q.spec.properties.overflow == Overflow::DropHead && q.is_over(0, 0) && !self.is_wanted(q)
            };
            if self.world.queues.get(&name).is_some_and(|q| is_meant(q)) {
                self.expire(&name);
                self.drop_heads(&name);
            }
        }
    }

    /// Drops heads until the limits hold. True when it did.
    fn drop_heads(&mut self, name: &Name) -> bool {
        let mut any = false;
        while let Some(queue) = self.world.queues.get(name)
            && queue.spec.properties.overflow == Overflow::DropHead
            && queue.is_over(0, 0)
            && let Some(at) = queue.first(|m| m.place == Place::Ready)
        {
            let uid = queue.messages[at].uid;
            self.met("dropped");
            self.dead_letter(name, &[uid], DeathReason::MaxLen);
            any = true;
        }
        any
    }

    /// Messages that full queues refused go to their dead-letter exchanges.
    pub(in crate::fold) fn send_letters(&mut self) {
        while !self.letters.is_empty() {
            let (envelope, frame) = self.letters.remove(0);
            self.send_letter(&envelope, &frame);
        }
    }

    /// Messages that have expired leave when they come to the head; those of one look in the order in which they came.
    fn expire(&mut self, name: &Name) {
        let Some(queue) = self.world.queues.get(name) else { return };
        let mut expired: Vec<u64> = Vec::new();
        while let Some(at) = self.head_but(queue, &expired)
            && queue.messages[at].is_expired(self.now.wall_ms)
        {
            expired.push(queue.messages[at].uid);
        }
        if !expired.is_empty() {
            self.met("expired");
            self.dead_letter(name, &expired, DeathReason::Expired);
        }
    }
}
