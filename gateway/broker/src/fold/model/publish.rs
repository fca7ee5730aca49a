//! Requests in their turn: publishing, definitions, all or nothing.

use std::rc::Rc;

use framegate_frame::Frame;

use super::expect::Place as Went;
use super::routing::{is_predeclared, same};
use super::{Answered, Gate, Known, Model, What};
use crate::definition::{
    BindTarget, BindingSpec, ExchangeKind, ExchangeSpec, HeaderValue, Overflow, QueueSpec, TopicSpec,
};
use crate::ids::{ConnectionId, ConsumerId, RequestId};
use crate::message::Envelope;
use crate::name::Name;
use crate::request::{Answer, Define, Publish, Request};

/// How long a publish is remembered.
const REMEMBERED_MS: u64 = 10 * 60 * 1000;

/// A publish that was taken.
struct Taken {
    went: Went,
    gate: Gate,
    envelope: Envelope,
    /// A queue did not take it.
    full: bool,
}

impl Model {
    /// A request in its turn.
    pub(in crate::fold) fn request(&mut self, id: ConnectionId, request_id: RequestId, request: &Request) {
        self.decide(id, request_id, request);
        self.relieve_at_once();
    }

    fn decide(&mut self, id: ConnectionId, request_id: RequestId, request: &Request) {
        let mut announces = None;
        let (gate, answer) = match request {
            Request::Publish(publish) => return self.publish(id, request_id, publish),
            Request::Atomic(parts) => return self.atomic(id, request_id, parts),
            Request::Fetch(fetch) => return self.fetch(id, request_id, fetch),
            Request::Consume(consume) => {
                announces = Some(consume.consumer);
                (Gate::Free, self.consume(id, consume))
            }
            Request::Credit(credit) => {
                self.credit(id, *credit);
                (Gate::Free, Answered::Done)
            }
            Request::Cancel(consumer) => (Gate::Free, self.cancel(id, *consumer)),
            Request::Settle(settle) | Request::SettleAs(settle, _) => match self.settle(id, settle) {
                Ok(count) if settle.answer => (Gate::Free, Answered::Settled(count)),
                Ok(_) => return self.forget_holders(),
                Err(why) => (Gate::Free, Answered::Because(why)),
            },
            Request::Recover(consumer) => (Gate::Free, Answered::Settled(self.recover(id, *consumer))),
            Request::Define(define) => self.define(id, define),
            Request::Query(_) | Request::Browse(_) | Request::Report(_) => return,
            Request::ConsumeGroup(consume, member) => {
                announces = Some(consume.consumer);
                (Gate::Free, self.consume_group(id, consume, member))
            }
            Request::FetchGroup(fetch, member) => return self.fetch_group(id, request_id, fetch, member),
            // jobs and mailboxes have tests of their own; the driver makes none
            Request::Mailbox { .. } | Request::Job(_) => return,
        };
        self.forget_holders();
        let announces = announces.filter(|_| answer == Answered::Done);
        self.expect(id, gate, What::Reply(request_id, answer, announces));
    }

    fn publish(&mut self, id: ConnectionId, request: RequestId, publish: &Publish) {
        match self.take(id, publish) {
            Ok(taken) => {
                self.return_unrouted(id, request, publish, &taken);
                match publish.answer {
                    Answer::Watermark if taken.full => self.expect(id, Gate::Free, What::Refused(request)),
                    Answer::Reply if taken.full => {
                        let why = Answered::Because("queue full");
                        self.expect(id, Gate::Free, What::Reply(request, why, None));
                    }
                    Answer::None => {}
                    Answer::Watermark => self.expect(id, taken.gate, What::Confirm(request)),
                    Answer::Reply => {
                        self.expect(
                            id,
                            taken.gate,
                            What::Reply(request, Answered::Published(taken.went), None),
                        );
                    }
                }
            }
            Err(_) if publish.answer == Answer::Watermark => {
                self.expect(id, Gate::Free, What::Refused(request));
            }
            Err(why) => self.expect(id, Gate::Free, What::Reply(request, Answered::Because(why), None)),
        }
    }

    fn return_unrouted(&mut self, id: ConnectionId, request: RequestId, publish: &Publish, taken: &Taken) {
        if publish.mandatory && !taken.went.routed {
            let what = What::Returned(request, Box::new(taken.envelope.clone()), publish.frame.clone());
            self.expect(id, Gate::Free, what);
        }
    }

    /// All of it, tried on a copy, or nothing of it.
    fn atomic(&mut self, id: ConnectionId, request: RequestId, parts: &[Request]) {
        let before = (self.world.clone(), self.events.len(), self.known.len(), self.counts.clone());
        let mut taken = Vec::new();
        let mut refused = false;
        for part in parts {
            refused |= match part {
                Request::Publish(publish) => match self.take(id, publish) {
                    Ok(done) => {
                        let full = done.full;
                        taken.push((publish, done));
                        full
                    }
                    Err(_) => true,
                },
                Request::Settle(settle) => self.settle(id, settle).is_err(),
                _ => true,
            };
            if refused {
                break;
            }
        }
        if refused {
            self.events.truncate(before.1);
            self.known.truncate(before.2);
            (self.world, self.counts) = (before.0, before.3);
            self.letters.clear();
            self.met("atomic refused");
            return self.expect(id, Gate::Free, What::Reply(request, Answered::Refused, None));
        }
        self.forget_holders();
        let mut gate = Gate::Free;
        let mut went = Vec::new();
        for (publish, done) in taken {
            self.return_unrouted(id, request, publish, &done);
            if self.lo(done.gate) > self.lo(gate) || gate == Gate::Free {
                gate = done.gate;
            }
            went.push(done.went);
        }
        self.expect(id, gate, What::Reply(request, Answered::Atomic(went), None));
    }

    /// A publish, whoever hears of it.
    fn take(&mut self, id: ConnectionId, publish: &Publish) -> Result<Taken, &'static str> {
        let now = self.now;
        let exchange = self.world.routing.exchanges.get(&publish.exchange).ok_or("not found")?;
        if exchange.internal {
            return Err("reserved");
        }
        let envelope = Envelope {
            newest_first: false,
            exchange: publish.exchange.clone(),
            keys: publish.keys.clone(),
            persistent: publish.persistent,
            priority: publish.priority,
            deliver_at_ms: if publish.delay_ms == 0 { 0 } else { now.wall_ms + publish.delay_ms },
            expires_at_ms: publish.ttl_ms.map_or(0, |ttl| now.wall_ms + ttl),
            time_ms: now.wall_ms,
            dedup: publish.dedup,
            publisher: publish.publisher.clone(),
            ttl_ms: publish.ttl_ms,
            data_bytes: 0,
            attempts: 0,
            deaths: Vec::new(),
        };
        if let Some(dedup) = &publish.dedup {
            let known = self.known.iter().rev().find(|k| k.key == dedup.key);
            if let Some(known) = known.filter(|k| k.time_ms + REMEMBERED_MS >= now.wall_ms) {
                if known.content != dedup.content {
                    return Err("conflict");
                }
                let went = Went { queues: 0, event: known.event, duplicate: true, routed: true };
                return Ok(Taken { went, gate: known.gate, envelope, full: false });
            }
        }
        let key = publish.keys.first().cloned().unwrap_or_default();
        if publish.create_topic && !self.world.topics.contains_key(&key) {
            self.make_topic(TopicSpec { name: key.clone(), age_ms_max: None, bytes_max: None });
        }
        let reaches = !self.queues_of(&envelope, &publish.frame).is_empty()
            || !self.topics_of(&envelope, &publish.frame).is_empty();
        if publish.create_queue && !reaches {
            self.make_queue(QueueSpec { name: key, durable: true, ..QueueSpec::default() }, id);
            self.met("a publish made its queue");
        }
        let queues = self.queues_of(&envelope, &publish.frame);
        let mut stored = false;
        let mut count = 0;
        let full = queues.iter().any(|name| self.would_refuse(name, &publish.frame));
        // what was refused somewhere is published again, and is no repetition then
        let dedup = publish.dedup.filter(|_| !full);
        let envelope = Envelope { dedup, ..envelope };
        for name in &queues {
            let durable = self.world.queues.get(name).is_some_and(|q| q.is_stored());
            if self.offer(name, &envelope, &publish.frame) {
                stored |= durable && envelope.persistent;
                count += 1;
            }
        }
        let topics = self.topics_of(&envelope, &publish.frame);
        let watched = self.watched_by(&envelope, &publish.frame);
        let mut went = Went { queues: count, event: None, duplicate: false, routed: false };
        went.routed = !queues.is_empty() || !topics.is_empty() || watched;
        let logged = Gate::Logged(self.pass());
        let lives = watched && !envelope.keys.first().is_some_and(|key| topics.contains(key));
        for topic in topics {
            if envelope.exchange != crate::AMQ_TOPIC && envelope.keys.first() != Some(&topic) {
                self.met("an event came by a binding");
            }
            let at = self.events.len();
            stored = true;
            let offset = self.append(Some(topic), envelope.clone(), publish.frame.clone(), logged);
            went.event = went.event.or(offset.map(|offset| (offset, at)));
        }
        if lives {
            let waits = self.events.len() > self.shown;
            let gate = if waits { Gate::Behind(self.pass()) } else { Gate::Free };
            self.append(None, envelope.clone(), publish.frame.clone(), gate);
        }
        if let Some(dedup) = dedup.filter(|_| stored) {
            let (event, gate, time_ms) = (went.event, logged, now.wall_ms);
            self.known.push(Known { key: dedup.key, content: dedup.content, time_ms, event, gate });
        }
        if !went.routed {
            self.met("unroutable");
        }
        Ok(Taken { went, gate: if stored { logged } else { Gate::Free }, envelope, full })
    }

    /// A copy goes into a queue.
    pub(super) fn enqueue(&mut self, name: &Name, envelope: Envelope, frame: &Frame) {
        let (uid, pass, now) = (self.uid(), self.pass(), self.now);
        let Some(queue) = self.queue_mut(name) else { return };
        let gate = match queue.is_gated() {
            false => Gate::Free,
            true if envelope.persistent => Gate::Logged(pass),
            true => Gate::Behind(pass),
        };
        queue.put(uid, envelope, frame.clone(), gate, now.mono_ms, now.wall_ms);
        if let Some(message) = queue.messages.last_mut() {
            message.came = pass;
        }
    }

    fn reached(&self, envelope: &Envelope, frame: &Frame) -> super::routing::Reached {
        let (queues, topics) = (&self.world.queues, &self.world.topics);
        let hit = |by_name: bool| {
            envelope.keys.iter().any(|key| {
                let watched = !by_name && self.is_watched(key);
                (by_name && queues.contains_key(key)) || topics.contains_key(key) || watched
            })
        };
        self.world.routing.route(&envelope.exchange, &envelope.keys, frame, hit)
    }

    /// Queues that a message goes to, each once.
    pub(super) fn queues_of(&self, envelope: &Envelope, frame: &Frame) -> Vec<Name> {
        let reached = self.reached(envelope, frame);
        let named = envelope.keys.iter().filter(|_| reached.named).cloned();
        let mut found: Vec<Name> = Vec::new();
        for name in reached.queues.into_iter().chain(named) {
            if self.world.queues.contains_key(&name) && !found.contains(&name) {
                found.push(name);
            }
        }
        found
    }

    /// The publish goes to a queue with a limit: what it refuses, and the order in which it drops, hang on who takes.
    pub(in crate::fold) fn is_limited(&self, request: &Request) -> bool {
        let Request::Publish(publish) = request else { return false };
        let (exchange, keys) = (publish.exchange.clone(), publish.keys.clone());
        let envelope = Envelope { exchange, keys, ..Envelope::default() };
        let limited = |n: &Name| {
            let queue = &self.world.queues[n];
            let strict = queue.spec.properties.overflow != Overflow::DropHead;
            strict || (queue.spec.properties.length_max.is_some() && self.has_takers(queue))
        };
        self.queues_of(&envelope, &publish.frame).iter().any(limited)
    }

    /// A consumer's queue has a limit.
    pub(in crate::fold) fn is_limited_for(&self, id: ConnectionId, consumer: ConsumerId) -> bool {
        let known = self.connections.get(&id).and_then(|c| c.consumers.get(&consumer));
        let queue = known.and_then(|known| self.world.queues.get(&known.queue));
        let properties = queue.map(|queue| &queue.spec.properties);
        properties.is_some_and(|p| p.length_max.is_some() || p.bytes_max.is_some())
    }

    /// The topics that keep it, each once: those that keys name, and those that are bound.
    pub(super) fn topics_of(&self, envelope: &Envelope, frame: &Frame) -> Vec<Name> {
        let reached = self.reached(envelope, frame);
        let named = |key: &&Name| {
            let by_name = reached.named && !self.world.queues.contains_key(*key);
            (reached.topics || by_name) && self.world.topics.contains_key(*key)
        };
        let mut found: Vec<Name> = Vec::new();
        for met in &reached.met {
            let names = match met {
                Some(topic) => vec![topic.clone()],
                None => envelope.keys.iter().filter(named).cloned().collect(),
            };
            for name in names {
                if !found.contains(&name) {
                    found.push(name);
                }
            }
        }
        found
    }

    /// Live subscriptions see it.
    fn watched_by(&self, envelope: &Envelope, frame: &Frame) -> bool {
        let reached = self.reached(envelope, frame);
        reached.topics && envelope.keys.iter().any(|key| self.is_watched(key))
    }

    /// A definition: from when on its answer may be heard, and the answer.
    fn define(&mut self, id: ConnectionId, define: &Define) -> (Gate, Answered) {
        let (logged, upto) = (Gate::Logged(self.pass()), Gate::Upto(self.pass()));
        match define {
            Define::Exchange(spec) => self.declare_exchange(spec),
            Define::ExchangePassive(name) => match self.world.routing.exchanges.contains_key(name) {
                true => (Gate::Free, Answered::Exchange),
                false => (Gate::Free, Answered::Because("not found")),
            },
            Define::DeleteExchange { name, if_unused } => self.delete_exchange(name, *if_unused),
            Define::Queue(spec) => self.declare_queue(id, spec),
            Define::QueuePassive(name) => match self.usable(id, name) {
                Ok(queue) => {
                    let answer = Answered::Queue(queue.ready(), self.consumers(queue));
                    self.touch(name);
                    (Gate::Free, answer)
                }
                Err(why) => (Gate::Free, Answered::Because(why)),
            },
            Define::DeleteQueue { name, if_unused, if_empty } => match self.usable(id, name) {
                Ok(queue) if *if_unused && self.consumers(queue) > 0 => (upto, Answered::Because("in use")),
                Ok(queue) if *if_empty && queue.ready() > 0 => (upto, Answered::Because("not empty")),
                Ok(queue) => {
                    let (messages, stored) = (queue.ready(), queue.is_stored());
                    self.drop_queue(name);
                    self.forget_holders();
                    (if stored { logged } else { upto }, Answered::Removed(messages))
                }
                Err(why) => (upto, Answered::Because(why)),
            },
            Define::Purge(name) => match self.usable(id, name) {
                Ok(queue) => {
                    let ready = queue.ready();
                    if let Some(queue) = self.queue_mut(name) {
                        queue.messages.retain(|m| m.place != super::Place::Ready);
                    }
                    (upto, Answered::Removed(ready))
                }
                Err(why) => (upto, Answered::Because(why)),
            },
            Define::Bind(binding) => self.bind(id, binding),
            Define::Unbind(binding) => self.unbind(id, binding),
            Define::Topic(spec) => match self.world.topics.get(&spec.name).map(|t| t.spec.clone()) {
                Some(now)
                    if spec.age_ms_max.is_some_and(|v| now.age_ms_max != Some(v))
                        || spec.bytes_max.is_some_and(|v| now.bytes_max != Some(v)) =>
                {
                    (Gate::Free, Answered::Because("inequivalent"))
                }
                Some(_) => (Gate::Free, Answered::Topic),
                None => {
                    self.make_topic(spec.clone());
                    (logged, Answered::Topic)
                }
            },
            Define::Group(spec) => self.declare_group(spec),
            Define::DeleteGroup { topic, group } => self.delete_group(topic, group),
            Define::SeekGroup { topic, group, to } => self.seek_group(topic, group, *to),
            Define::DeleteTopic(name) if self.world.topics.contains_key(name) => {
                self.drop_groups_of(name);
                self.drop_topic(name);
                (logged, Answered::Done)
            }
            Define::DeleteTopic(_) => (Gate::Free, Answered::Because("not found")),
        }
    }

    fn declare_exchange(&mut self, spec: &ExchangeSpec) -> (Gate, Answered) {
        match self.world.routing.exchanges.get(&spec.name) {
            Some(now) if now == spec => (Gate::Free, Answered::Exchange),
            Some(_) => (Gate::Free, Answered::Because("inequivalent")),
            None if is_predeclared(&spec.name) => (Gate::Free, Answered::Because("reserved")),
            None => {
                let routing = Rc::make_mut(&mut self.world.routing);
                routing.exchanges.insert(spec.name.clone(), spec.clone());
                let pass = self.pass();
                (if spec.durable { Gate::Logged(pass) } else { Gate::Upto(pass) }, Answered::Exchange)
            }
        }
    }

    fn delete_exchange(&mut self, name: &Name, if_unused: bool) -> (Gate, Answered) {
        let pass = self.pass();
        let routing = &self.world.routing;
        let Some(spec) = routing.exchanges.get(name) else {
            let why = if is_predeclared(name) { "reserved" } else { "not found" };
            return (Gate::Free, Answered::Because(why));
        };
        if is_predeclared(name) {
            return (Gate::Free, Answered::Because("reserved"));
        }
        if if_unused && routing.bindings.iter().any(|b| b.exchange == *name) {
            return (Gate::Free, Answered::Because("in use"));
        }
        let gate = if spec.durable { Gate::Logged(pass) } else { Gate::Upto(pass) };
        Rc::make_mut(&mut self.world.routing).delete(name);
        (gate, Answered::Done)
    }

    fn declare_queue(&mut self, id: ConnectionId, spec: &QueueSpec) -> (Gate, Answered) {
        if self.world.queues.contains_key(&spec.name) {
            return match self.usable(id, &spec.name) {
                Err(why) => (Gate::Free, Answered::Because(why)),
                Ok(queue) if queue.spec != *spec => (Gate::Free, Answered::Because("inequivalent")),
                Ok(queue) => {
                    let answer = Answered::Queue(queue.ready(), self.consumers(queue));
                    self.touch(&spec.name);
                    (Gate::Free, answer)
                }
            };
        }
        let stored = spec.durable && !spec.exclusive;
        self.make_queue(spec.clone(), id);
        let pass = self.pass();
        (if stored { Gate::Logged(pass) } else { Gate::Upto(pass) }, Answered::Queue(0, 0))
    }

    /// A queue name that no queue has may be a topic's.
    fn aimed(&self, binding: &BindingSpec) -> BindingSpec {
        let mut binding = binding.clone();
        if let BindTarget::Queue(name) = &binding.target
            && !self.world.queues.contains_key(name)
            && self.world.topics.contains_key(name)
        {
            binding.target = BindTarget::Topic(name.clone());
        }
        binding
    }

    fn bind(&mut self, id: ConnectionId, binding: &BindingSpec) -> (Gate, Answered) {
        let refused = |why| (Gate::Free, Answered::Because(why));
        let binding = &self.aimed(binding);
        if let BindTarget::Queue(name) = &binding.target
            && let Err(why) = self.usable(id, name)
        {
            return refused(why);
        }
        let routing = &self.world.routing;
        if binding.exchange.is_empty() || binding.target == BindTarget::Exchange(Name::default()) {
            return refused("reserved");
        }
        if let BindTarget::Exchange(name) = &binding.target
            && !routing.exchanges.contains_key(name)
        {
            return refused("not found");
        }
        let Some(exchange) = routing.exchanges.get(&binding.exchange) else { return refused("not found") };
        let mode = binding.arguments.iter().find(|(name, _)| name.as_str() == "x-match");
        let words = ["all", "any", "all-with-x", "any-with-x"];
        let known = |value: &HeaderValue<'_>| matches!(value, HeaderValue::Text(w) if words.contains(&&**w));
        if exchange.kind == ExchangeKind::Headers && mode.is_some_and(|(_, value)| !known(value)) {
            return refused("other");
        }
        if routing.is_bound(binding) {
            return (Gate::Free, Answered::Done);
        }
        let gate = self.gate_of(binding);
        if let BindTarget::Topic(_) = &binding.target {
            self.met("a topic was bound");
        }
        Rc::make_mut(&mut self.world.routing).bindings.push(binding.clone());
        (gate, Answered::Done)
    }

    fn unbind(&mut self, id: ConnectionId, binding: &BindingSpec) -> (Gate, Answered) {
        let binding = &self.aimed(binding);
        let routing = &self.world.routing;
        let there = match &binding.target {
            BindTarget::Queue(name) => self.world.queues.contains_key(name),
            BindTarget::Exchange(name) => routing.exchanges.contains_key(name),
            BindTarget::Topic(name) => self.world.topics.contains_key(name),
        };
        if !there || !routing.exchanges.contains_key(&binding.exchange) {
            return (Gate::Free, Answered::Because("not found"));
        }
        if let BindTarget::Queue(name) = &binding.target
            && let Err(why) = self.usable(id, name)
        {
            return (Gate::Free, Answered::Because(why));
        }
        if !routing.is_bound(binding) {
            return (Gate::Free, Answered::Done);
        }
        let gate = self.gate_of(binding);
        Rc::make_mut(&mut self.world.routing).unbind(|b| same(b, binding));
        (gate, Answered::Done)
    }

    /// A binding is stored when both of its ends are.
    fn gate_of(&self, binding: &BindingSpec) -> Gate {
        let durable = |name: &Name| self.world.routing.exchanges.get(name).is_some_and(|e| e.durable);
        let target = match &binding.target {
            BindTarget::Queue(name) => self.world.queues.get(name).is_some_and(|q| q.is_stored()),
            BindTarget::Exchange(name) => durable(name),
            BindTarget::Topic(_) => true,
        };
        let pass = self.pass();
        if target && durable(&binding.exchange) { Gate::Logged(pass) } else { Gate::Upto(pass) }
    }
}
