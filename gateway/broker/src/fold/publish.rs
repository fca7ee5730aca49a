//! Publishing: where a routed message goes, in the moment of its turn.

use std::collections::{BTreeSet, HashMap};

use framegate_storage::Lsn;
use smallvec::SmallVec;

use super::inbox::Task;
use super::topics::Visible;
use super::{AnswerTo, Core};
use crate::definition::{QueueSpec, TopicSpec};
use crate::error::{BrokerError, Kind};
use crate::feed::Cursor;
use crate::ids::{ConnectionId, Offset, QueueId};
use crate::message::Envelope;
use crate::metrics::Metrics;
use crate::name::Name;
use crate::record::{Body, Record};
use crate::request::{Answer, Effect, Outcome as SettleOutcome, Publish, Published, Reply, Request};
use crate::routing::Targets;

/// What became of a publish, and from when on it is safe.
pub(super) struct Outcome {
    published: Published,
    gate: Lsn,
    /// A queue that did not take it.
    full: Option<Name>,
}

impl Core {
    /// A publish in its turn.
    pub(super) fn publish(
        &mut self,
        to: AnswerTo,
        connection: ConnectionId,
        vhost: &Name,
        publish: Publish,
        targets: Targets,
    ) {
        let (answer, mandatory) = (publish.answer, publish.mandatory);
        let is_first = self
            .connections
            .get_mut(&connection)
            .is_some_and(|live| !std::mem::replace(&mut live.publishes, true));
        if is_first && self.is_held() {
            self.push_effect(connection, Effect::Blocked(true));
        }
        let returned = mandatory.then(|| (publish.frame.clone(), self.envelope_of(&publish)));
        match self.take_publish(connection, vhost, publish, targets) {
            Ok(outcome) => {
                self.tell_returned(to, &outcome, returned);
                if let Some(name) = outcome.full {
                    return self.tell_full(to, answer, name);
                }
                match (answer, to) {
                    // a call waits for an answer, whatever it asked for
                    (Answer::Reply, _) | (_, AnswerTo::Call(_)) => {
                        self.answer(to, outcome.gate, Ok(Reply::Published(outcome.published)));
                    }
                    (Answer::Watermark, AnswerTo::Request(connection, id)) => {
                        self.confirm(connection, id, outcome.gate);
                    }
                    _ => {}
                }
            }
            Err(error) if answer == Answer::Watermark => self.refuse_publish(to, error),
            Err(error) => self.answer(to, Lsn(0), Err(error)),
        }
    }

    /// A queue was full. Whoever asked for no answer does not hear of it.
    fn tell_full(&mut self, to: AnswerTo, answer: Answer, name: Name) {
        let error = BrokerError::QueueFull { name };
        match (answer, to) {
            (Answer::Watermark, AnswerTo::Request(..)) => self.refuse_publish(to, error),
            (Answer::Reply, _) | (_, AnswerTo::Call(_)) => self.answer(to, Lsn(0), Err(error)),
            _ => {}
        }
    }

    /// A publish with watermark is refused, in its order.
    pub(super) fn refuse_publish(&mut self, to: AnswerTo, error: BrokerError) {
        match to {
            AnswerTo::Request(connection, id) => {
                self.effect(connection, Lsn(0), Effect::Refused { id, error });
            }
            to => self.answer(to, Lsn(0), Err(error)),
        }
    }

    fn envelope_of(&self, publish: &Publish) -> Envelope {
        let now = self.now.wall_ms;
        Envelope {
            newest_first: false,
            exchange: publish.exchange.clone(),
            keys: publish.keys.clone(),
            persistent: publish.persistent,
            priority: publish.priority,
            deliver_at_ms: if publish.delay_ms == 0 { 0 } else { now.saturating_add(publish.delay_ms) },
            expires_at_ms: publish.ttl_ms.map_or(0, |ttl| now.saturating_add(ttl).max(1)),
            ttl_ms: publish.ttl_ms,
            data_bytes: 0,
            time_ms: now,
            dedup: publish.dedup,
            publisher: publish.publisher.clone(),
            attempts: 0,
            deaths: Vec::new(),
        }
    }

    fn take_publish(
        &mut self,
        connection: ConnectionId,
        vhost: &Name,
        publish: Publish,
        mut targets: Targets,
    ) -> Result<Outcome, BrokerError> {
        if let Some(dedup) = &publish.dedup
            && let Some(known) = self.durable.dedups.get(&dedup.key, self.now.wall_ms)
        {
            if known.content != dedup.content {
                return Err(BrokerError::Conflict);
            }
            let cursor = known.offset.map(|_| self.cursor(known.lsn));
            let published =
                Published { queues: 0, offset: known.offset, cursor, duplicate: true, routed: true };
            return Ok(Outcome { published, gate: known.lsn, full: None });
        }
        self.create_targets(connection, vhost, &publish, &mut targets)?;
        Metrics::add(&self.shared.metrics.published, 1);
        Metrics::add(&self.shared.metrics.published_bytes, publish.frame.as_bytes().len() as u64);
        let envelope = self.envelope_of(&publish);
        self.message_published(vhost, &publish);
        let outcome = self.place(vhost, envelope, &publish.frame, None, &targets);
        self.message_routed(vhost, &publish, &targets, &outcome.published);
        Ok(outcome)
    }

    /// Makes the topic or queue that the publish names, when it asks for that.
    fn create_targets(
        &mut self,
        connection: ConnectionId,
        vhost: &Name,
        publish: &Publish,
        targets: &mut Targets,
    ) -> Result<(), BrokerError> {
        let Some(key) = publish.keys.first() else { return Ok(()) };
        if publish.create_topic {
            let topic = match self.editor.current().topic(vhost, key) {
                Some(topic) => topic,
                None => self
                    .make_topic(vhost, TopicSpec { name: key.clone(), age_ms_max: None, bytes_max: None })?,
            };
            if !targets.topics.contains(&topic) {
                targets.topics.insert(0, topic);
            }
        }
        self.drop_stale(targets);
        if publish.create_queue && targets.queues.is_empty() && targets.topics.is_empty() {
            let queue = match self.editor.current().queue(vhost, key) {
                Some(queue) => queue,
                None => {
                    let spec = QueueSpec { name: key.clone(), durable: true, ..QueueSpec::default() };
                    self.make_queue(connection, vhost, spec)?
                }
            };
            targets.queues.push(queue);
        }
        Ok(())
    }

    /// Gives a message to its targets; those that are gone by now are passed over.
    pub(super) fn place(
        &mut self,
        vhost: &Name,
        mut envelope: Envelope,
        frame: &framegate_frame::Frame,
        body: Option<Body>,
        targets: &Targets,
    ) -> Outcome {
        let mut published = Published::default();
        let mut gate = Lsn(0);
        let mut full = None;
        let mut body = body;
        let len = u32::try_from(frame.as_bytes().len()).unwrap_or(u32::MAX);
        let mut refusing: SmallVec<[QueueId; 2]> = SmallVec::new();
        for queue in &targets.queues {
            if let Some(name) = self.refuses(*queue, &envelope, frame) {
                full = full.or(Some(name));
                refusing.push(*queue);
            }
        }
        if full.is_some() {
            // it will be published again, and must not be taken for a repetition of what only some have
            envelope.dedup = None;
        }
        for queue in &targets.queues {
            if !self.live.contains_key(queue) {
                continue;
            }
            published.routed = true;
            if !refusing.contains(queue) {
                let (_, lsn, stands) = self.enqueue(*queue, envelope.clone(), Some(frame), body, len);
                body = stands;
                gate = gate.max(lsn);
                published.queues += 1;
            }
        }
        for exchange in &targets.parked {
            let Some((lsn, stands)) = self.park(vhost, exchange, &envelope, frame, body, len) else {
                continue;
            };
            published.routed = true;
            body = stands;
            gate = gate.max(lsn);
        }
        // who watches the key sees what the topic of that name keeps, once
        let mut key_is_kept = false;
        for topic in targets.topics.iter().copied() {
            let Some(state) = self.durable.topic(topic) else { continue };
            let (offset, name) = (Offset(state.entries.next()), state.spec.name.clone());
            let stands = body.unwrap_or(Body::Memory { len });
            // a dead letter came here now: by that time it is kept, and found
            let envelope = Envelope { time_ms: self.now.wall_ms, ..envelope.clone() };
            let record = Record::Append { topic, offset, envelope: envelope.clone(), body: stands };
            let (lsn, written) = self.log(record, Some(frame), true);
            body = written.or(body);
            gate = gate.max(lsn);
            self.offer_to_groups(topic, offset, lsn, frame);
            if published.offset.is_none() {
                published.offset = Some(offset);
                published.cursor = Some(self.cursor(lsn));
            }
            published.routed = true;
            key_is_kept |= name == *envelope.key();
            let (vhost, topic, frame) = (vhost.clone(), Some((topic, offset, lsn)), frame.clone());
            self.gated_feed.push_back(Visible { gate: lsn, vhost, name, topic, envelope, frame });
        }
        published.routed |= !targets.watches.is_empty() || !targets.parked.is_empty();
        if !targets.watches.is_empty() && !key_is_kept {
            // live only: in its turn behind what is not visible yet
            let gate = if self.gated_feed.is_empty() { Lsn(0) } else { self.newest() };
            let (vhost, frame) = (vhost.clone(), frame.clone());
            let name = envelope.keys.first().cloned().unwrap_or_default();
            self.gated_feed.push_back(Visible { gate, vhost, name, topic: None, envelope, frame });
        }
        if !published.routed {
            Metrics::add(&self.shared.metrics.unroutable, 1);
        }
        Outcome { published, gate, full }
    }

    /// The cursor of a position.
    pub(super) fn cursor(&self, position: Lsn) -> Cursor {
        Cursor { generation: self.claim.generation, position }
    }

    /// All of these or nothing: checked first, then done in one block.
    pub(super) fn atomic(&mut self, to: AnswerTo, connection: ConnectionId, vhost: &Name, tasks: Vec<Task>) {
        let mut tasks = tasks;
        if let Err(error) = self.check_atomic(connection, vhost, &mut tasks) {
            return self.answer(to, Lsn(0), Err(error));
        }
        let mut gate = Lsn(0);
        let mut published = Vec::new();
        for task in tasks {
            match task {
                Task::Publish(publish) => {
                    let (publish, targets) = *publish;
                    let returned =
                        publish.mandatory.then(|| (publish.frame.clone(), self.envelope_of(&publish)));
                    let Ok(outcome) = self.take_publish(connection, vhost, publish, targets) else {
                        continue;
                    };
                    self.tell_returned(to, &outcome, returned);
                    gate = gate.max(outcome.gate);
                    published.push(outcome.published);
                }
                Task::Request(request) => self.request(AnswerTo::Nobody, connection, vhost, request),
                _ => {}
            }
        }
        self.answer(to, gate, Ok(Reply::Atomic(published)));
    }

    /// The content of an earlier publish that this one repeats.
    fn known_content(&self, publish: &Publish) -> Option<u64> {
        let dedup = publish.dedup.as_ref()?;
        self.durable.dedups.get(&dedup.key, self.now.wall_ms).map(|known| known.content)
    }

    /// Finds whatever would refuse a part, so that afterwards no part can be refused.
    fn check_atomic(
        &mut self,
        connection: ConnectionId,
        vhost: &Name,
        tasks: &mut [Task],
    ) -> Result<(), BrokerError> {
        let mut leases = BTreeSet::new();
        let mut dedups = HashMap::new();
        let mut room = HashMap::new();
        for task in tasks.iter() {
            match task {
                Task::Refused(error) | Task::RefusedPublish(error) => return Err(error.clone()),
                Task::Publish(publish) => {
                    let known = self.known_content(&publish.0);
                    if known.is_none() {
                        self.check_room(&publish.1, &publish.0.frame, &mut room)?;
                    }
                    let Some(dedup) = &publish.0.dedup else { continue };
                    let before = dedups.insert(dedup.key, dedup.content).or(known);
                    if before.is_some_and(|content| content != dedup.content) {
                        return Err(BrokerError::Conflict);
                    }
                }
                Task::Request(Request::Settle(settle) | Request::SettleAs(settle, _)) => {
                    let (id, consumer, seqs) = self.check_lease(connection, &settle.lease)?;
                    let extends = matches!(settle.outcome, SettleOutcome::Extend { .. });
                    // what one part settles, no later one can settle or keep
                    let free = |seq| match extends {
                        true => !leases.contains(&(id, consumer, seq)),
                        false => leases.insert((id, consumer, seq)),
                    };
                    if !seqs.into_iter().all(free) {
                        return Err(BrokerError::UnknownDelivery);
                    }
                }
                Task::Request(_) | Task::Atomic(_) | Task::Job(..) => {
                    let what = "anything but publishing and settling in an atomic request";
                    return Err(BrokerError::NotSupported { what });
                }
            }
        }
        // topics and queues that are missing are made first: that is what a limit can refuse
        for task in tasks {
            if let Task::Publish(publish) = task {
                let (publish, targets) = &mut **publish;
                // a duplicate goes nowhere
                if self.known_content(publish).is_some() {
                    continue;
                }
                self.create_targets(connection, vhost, publish, targets)?;
            }
        }
        Ok(())
    }

    /// A mandatory message that reached nobody goes back before its answer.
    fn tell_returned(
        &mut self,
        to: AnswerTo,
        outcome: &Outcome,
        returned: Option<(framegate_frame::Frame, Envelope)>,
    ) {
        if let (false, Some((frame, envelope)), AnswerTo::Request(connection, id)) =
            (outcome.published.routed, returned, to)
        {
            self.message_returned(connection, &envelope, &frame);
            let envelope = Box::new(envelope);
            self.effect(connection, Lsn(0), Effect::Returned { id, envelope, frame });
        }
    }

    /// `NotFound` for something in a vhost.
    pub(super) fn missing(kind: Kind, name: &Name, vhost: &Name) -> BrokerError {
        BrokerError::NotFound { kind, name: name.clone(), vhost: vhost.clone() }
    }
}
