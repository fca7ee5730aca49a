//! What the core says and holds beside what the model expects.

use std::collections::{BTreeMap, VecDeque};

use framegate_frame::Frame;
use framegate_storage::ShardId;

use super::super::Gate;
use super::life::Life;
use crate::feed::FeedItem;
use crate::fold::Core;
use crate::fold::tests::rig::name;
use crate::ids::{ConnectionId, QueueId, RequestId, Seq};
use crate::message::Delivery;
use crate::request::{BindingInfo, Effect, Query, Reply};

/// Something that a connection hears, or that is decided and waits for its turn.
#[expect(clippy::large_enum_variant, reason = "there are few at a time")]
enum Heard {
    Effect(Effect),
    Decided(RequestId, Vec<Delivery>, u64, bool),
}

impl Life {
    /// Takes everything that was heard in this pass, in an order that makes sense, if there is one. True when there may be
    /// more at once.
    pub(super) fn judge(&mut self) -> Result<bool, String> {
        let mut more = false;
        let mut lines: BTreeMap<(ConnectionId, Option<RequestId>), VecDeque<Heard>> = BTreeMap::new();
        for at in 0..self.peers.len() {
            let (id, effects) = (self.peers[at].id, self.peers[at].effects());
            let line = lines.entry((id, None)).or_default();
            for effect in effects {
                let bytes = window_bytes(&effect);
                if bytes > 0 && self.room.window_bytes < 1 << 20 {
                    self.rig.give_back(&self.peers[at], bytes);
                    more = true;
                }
                line.push_back(Heard::Effect(effect));
            }
        }
        for at in 0..self.peers.len() {
            let id = self.peers[at].id;
            let decided = self.decided(id, lines.get(&(id, None)));
            lines.extend(decided.into_iter().map(|(request, heard)| ((id, Some(request)), [heard].into())));
        }
        while lines.values().any(|line| !line.is_empty()) {
            let mut why = Vec::new();
            let mut any = false;
            for ((id, _), line) in &mut lines {
                while let Some(heard) = line.front() {
                    match accept(&mut self.model, *id, heard) {
                        Ok(()) => {
                            any = true;
                            line.pop_front();
                        }
                        Err(reason) => {
                            why.push(format!("connection {id} heard {}: {reason}", describe(heard)));
                            break;
                        }
                    }
                }
            }
            if !any && !self.model.relieve() {
                return Err(why.join("\n"));
            }
        }
        while self.model.relieve() {}
        for (slot, subscription) in &mut self.subscriptions {
            for item in self.rig.read(subscription) {
                let heard = self.model.hear(*slot, &item);
                heard.map_err(|why| format!("subscription {slot}: {why}, heard {}", brief(&item)))?;
            }
        }
        if self.rig.load() {
            more = true;
        }
        Ok(more)
    }

    /// Pulls that are decided: their answers may wait behind what is not durable yet.
    fn decided(&self, id: ConnectionId, line: Option<&VecDeque<Heard>>) -> Vec<(RequestId, Heard)> {
        let said = line.into_iter().flatten();
        let said = said.filter_map(|h| if let Heard::Effect(e) = h { Some(e) } else { None });
        let waits = self.rig.core.connections.get(&id).map(|c| c.gated.iter().map(|g| &g.1));
        let mut found = Vec::new();
        for effect in said.chain(waits.into_iter().flatten()) {
            if let Effect::Reply(request, Ok(Reply::Fetched { messages, remaining })) = effect
                && !self.model.is_decided(id, *request)
            {
                let of_topic =
                    messages.first().is_some_and(|m| self.model.world.topics.contains_key(&m.origin.name));
                // frames of a group's events are read when somebody wants them
                let is_cold = of_topic || is_cold(&self.rig.core, messages);
                found.push((*request, Heard::Decided(*request, messages.clone(), *remaining, is_cold)));
            }
        }
        found
    }

    /// Behind which record of the pass a transient message waits, in a queue that shows only what is durable, is the core's
    /// choice: it is taken over.
    pub(super) fn resolve_gates(&mut self) {
        let (core, pass) = (&self.rig.core, self.model.pass());
        self.model.wait_for_turn(core.gated_feed.len());
        for (name, queue) in &mut self.model.world.queues {
            if !queue.messages.iter().any(|m| m.gate == Gate::Behind(pass)) {
                continue;
            }
            let Some(id) = core.editor.current().queue("/", name) else { continue };
            let Some(state) = core.state(id).queue(id) else { continue };
            let seqs: Vec<u64> = state.slots.iter().map(|(seq, _)| seq).collect();
            let waits = |at: usize| {
                let waiting = |v: &&(framegate_storage::Lsn, crate::ids::QueueId, u64)| {
                    v.1 == id && Some(&v.2) == seqs.get(at)
                };
                core.gated_visible.iter().find(waiting).map(|v| v.0.0)
            };
            std::rc::Rc::make_mut(queue).resolve(pass, waits);
        }
    }

    /// Names, numbers and sizes of queues.
    pub(super) fn compare_counts(&mut self) -> Result<(), String> {
        let Ok(Reply::Queues(queues)) = self.rig.core.query(&name("/"), Query::Queues) else {
            return Err("no list of queues".to_owned());
        };
        let seen: Vec<_> = queues
            .iter()
            .map(|q| (q.name.clone(), q.durable, q.ready, q.unacked, q.bytes, q.consumers))
            .collect();
        let wanted: Vec<_> = self
            .model
            .world
            .queues
            .iter()
            .map(|(name, q)| {
                let consumers = self.model.consumers(q);
                (name.clone(), q.spec.durable, q.ready(), q.unacked(), q.bytes(), consumers)
            })
            .collect();
        if seen != wanted {
            return Err(format!(
                "queues (name, durable, ready, unacked, bytes, consumers)\n{seen:?}, not\n{wanted:?}"
            ));
        }
        Ok(())
    }

    /// Everything that is there, message by message.
    pub(super) fn compare_content(&mut self) -> Result<(), String> {
        self.compare_counts()?;
        self.compare_definitions()?;
        self.compare_topics()?;
        self.compare_messages()?;
        self.rig.core.check_counters();
        Ok(())
    }

    fn compare_messages(&mut self) -> Result<(), String> {
        let core = &self.rig.core;
        for (name, queue) in &self.model.world.queues {
            let id = core.editor.current().queue("/", name).ok_or(format!("{name} is not there"))?;
            let state = core.state(id).queue(id).ok_or(format!("{name} has no state"))?;
            let live = core.live.get(&id).ok_or(format!("{name} is not live"))?;
            let seqs: Vec<u64> = state.slots.iter().map(|(seq, _)| seq).collect();
            if seqs.len() != queue.messages.len() {
                return Err(format!("{name} has {seqs:?}, not {} messages", queue.messages.len()));
            }
            for (seq, message) in seqs.into_iter().zip(&queue.messages) {
                let text = text(&message.frame);
                if queue.number(message).is_some_and(|known| known != seq) {
                    return Err(format!("'{text}' of {name} has number {seq}"));
                }
                let envelope = state.envelope(Seq(seq));
                if envelope.as_ref() != Some(&message.shown()) {
                    return Err(format!("'{text}' of {name} has {envelope:?}, not {:?}", message.shown()));
                }
                let stored = state.slots.get(seq).and_then(|slot| slot.body());
                let stored = stored.map(|at| core.store.fetch(ShardId(0), &[at]).remove(0));
                if let Some(stored) = stored
                    && stored.as_ref().ok() != Some(message.frame.as_bytes())
                {
                    return Err(format!("'{text}' of {name} is stored as {stored:?}"));
                }
                let cached = live.frames.get(&seq);
                if cached.is_some_and(|frame| frame.as_bytes() != message.frame.as_bytes()) {
                    return Err(format!("'{text}' of {name} is another frame in memory"));
                }
            }
        }
        Ok(())
    }

    fn compare_topics(&mut self) -> Result<(), String> {
        let Ok(Reply::Topics(topics)) = self.rig.core.query(&name("/"), Query::Topics) else {
            return Err("no list of topics".to_owned());
        };
        let seen: Vec<_> =
            topics.iter().map(|t| (t.name.clone(), t.first.0, t.next.0, t.subscribers)).collect();
        let wanted: Vec<_> = self
            .model
            .world
            .topics
            .values()
            .map(|t| {
                let subscribers = self.model.subscribers(&t.spec.name);
                (t.spec.name.clone(), t.first(), t.next, subscribers)
            })
            .collect();
        if seen != wanted {
            return Err(format!("topics (name, first, next, subscribers)\n{seen:?}, not\n{wanted:?}"));
        }
        Ok(())
    }

    fn compare_definitions(&mut self) -> Result<(), String> {
        let core = &self.rig.core;
        let Ok(Reply::Exchanges(exchanges)) = core.query(&name("/"), Query::Exchanges) else {
            return Err("no list of exchanges".to_owned());
        };
        let own = |n: &crate::name::Name| !n.is_empty() && !n.starts_with("amq.");
        let seen: Vec<_> = exchanges.iter().filter(|e| own(&e.name)).map(|e| (&e.name, &e.kind)).collect();
        let routing = &self.model.world.routing;
        let wanted: Vec<_> =
            routing.exchanges.values().filter(|e| own(&e.name)).map(|e| (&e.name, &e.kind)).collect();
        if seen != wanted {
            return Err(format!("exchanges {seen:?}, not {wanted:?}"));
        }
        let Ok(Reply::Bindings(bindings)) =
            core.query(&name("/"), Query::Bindings { exchange: None, queue: None })
        else {
            return Err("no list of bindings".to_owned());
        };
        let info = |b: &crate::definition::BindingSpec| BindingInfo {
            exchange: b.exchange.clone(),
            target: b.target.clone(),
            key: b.key.clone(),
            arguments: b.arguments.clone(),
        };
        let wanted: Vec<_> = routing.bindings.iter().map(info).collect();
        if bindings != wanted {
            return Err(format!("bindings\n{bindings:?}, not\n{wanted:?}"));
        }
        Ok(())
    }
}

/// Not every frame of the queue is in memory.
fn is_cold(core: &Core, messages: &[Delivery]) -> bool {
    let id = messages.first().map(|m| QueueId(m.origin.id));
    let queue = id.and_then(|id| Some((core.live.get(&id)?, core.state(id).queue(id)?)));
    queue.is_some_and(|(live, state)| state.slots.iter().any(|(seq, _)| !live.frames.contains_key(&seq)))
}

fn accept(model: &mut super::super::Model, id: ConnectionId, heard: &Heard) -> Result<(), String> {
    match heard {
        Heard::Decided(request, messages, remaining, is_cold) => {
            model.accept_fetched(id, *request, messages, *remaining, *is_cold)
        }
        Heard::Effect(Effect::Delivery(delivery)) => model.accept_delivery(id, delivery),
        Heard::Effect(Effect::Reply(request, Ok(Reply::Fetched { messages, .. }))) => {
            model.accept_answer(id, *request, messages)
        }
        Heard::Effect(effect) => model.accept_in_turn(id, effect),
    }
}

fn window_bytes(effect: &Effect) -> usize {
    match effect {
        Effect::Delivery(delivery) => delivery.window_bytes(),
        Effect::Reply(_, Ok(Reply::Fetched { messages, .. })) => {
            messages.iter().map(Delivery::window_bytes).sum()
        }
        _ => 0,
    }
}

fn brief(item: &FeedItem) -> String {
    match item {
        FeedItem::Event(e) => format!("'{}' of {} {:?} at {}", text(&e.frame), e.topic, e.kept, e.cursor),
        FeedItem::Lost { resumed_from, .. } => format!("a loss up to {resumed_from}"),
    }
}

/// The beginning of a body.
pub(in crate::fold::model) fn text(frame: &Frame) -> String {
    String::from_utf8_lossy(frame.data()).chars().take(10).collect()
}

fn describe(heard: &Heard) -> String {
    let delivery = |d: &Delivery| {
        let (text, queue, seq, consumer) = (text(&d.frame), &d.origin.name, d.origin.seq, d.consumer);
        format!("'{text}' {queue} {seq} to {consumer} attempt {} redelivered {}", d.attempt, d.redelivered)
    };
    let list = |messages: &[Delivery]| messages.iter().map(delivery).collect::<Vec<_>>().join(", ");
    match heard {
        Heard::Decided(id, messages, remaining, _) => {
            format!("pull {id} decided [{}], {remaining} remaining", list(messages))
        }
        Heard::Effect(Effect::Delivery(d)) => delivery(d),
        Heard::Effect(Effect::Reply(id, Ok(Reply::Fetched { messages, .. }))) => {
            format!("pull {id} answered [{}]", list(messages))
        }
        Heard::Effect(effect) => format!("{effect:?}").chars().take(400).collect(),
    }
}
