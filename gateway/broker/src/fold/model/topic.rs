//! Topics and subscriptions as the contract describes them: one list of all that was published, and readers that walk
//! along it.

use std::collections::VecDeque;

use framegate_frame::Frame;

use super::driver::text;
use super::routing::matches;
use super::{Gate, Model};
use crate::definition::{BindTarget, TopicSpec};
use crate::feed::{Cursor, FeedEvent, FeedItem, From};
use crate::ids::TopicId;
use crate::limits::Limits;
use crate::message::Envelope;
use crate::name::Name;

/// One event that subscribers see.
#[derive(Debug, Clone)]
pub(in crate::fold) struct Event {
    pub(super) key: Name,
    /// Topic (by incarnation) and offset; None: live only.
    pub(super) kept: Option<(u64, u64)>,
    pub(super) envelope: Envelope,
    pub(super) frame: Frame,
    pub(super) gate: Gate,
    /// Position, once somebody heard of it.
    pub(in crate::fold) cursor: Option<Cursor>,
}

/// A topic.
#[derive(Debug, Clone)]
pub(in crate::fold) struct Topic {
    pub(in crate::fold) spec: TopicSpec,
    pub(super) incarnation: u64,
    pub(super) id: Option<TopicId>,
    /// Kept events, by place in the list of all.
    pub(super) events: VecDeque<usize>,
    pub(in crate::fold) next: u64,
    /// Place of the newest event that is not kept any more.
    pub(super) gone: Option<usize>,
    /// Empty and without subscriber since, monotonic ms.
    pub(super) idle_ms: Option<u64>,
}

impl Topic {
    pub(super) fn new(spec: TopicSpec, incarnation: u64) -> Self {
        Self { spec, incarnation, id: None, events: VecDeque::new(), next: 0, gone: None, idle_ms: None }
    }

    pub(in crate::fold) fn first(&self) -> u64 {
        self.next - self.events.len() as u64
    }
}

/// A subscription and what it must still be told.
#[derive(Debug)]
pub(in crate::fold) struct Reader {
    pub(super) patterns: Vec<Name>,
    /// Loss notice that comes first.
    pub(super) lost: bool,
    /// Kept events that it replays, by place.
    pub(super) replay: VecDeque<usize>,
    /// From here on it sees everything that matches.
    pub(super) next: usize,
}

impl Reader {
    fn wants(&self, key: &str) -> bool {
        self.patterns.iter().any(|p| matches(p, key))
    }
}

impl Model {
    /// Somebody listens to this key.
    pub(super) fn is_watched(&self, key: &str) -> bool {
        self.readers.values().any(|r| r.wants(key))
    }

    /// Subscriptions that name or match a topic.
    pub(in crate::fold) fn subscribers(&self, topic: &str) -> u32 {
        self.readers.values().filter(|r| r.wants(topic)).count() as u32
    }

    /// Subscribers see what has become durable, in order.
    pub(super) fn show(&mut self) {
        self.shown_before = self.shown;
        while self.events.get(self.shown).is_some_and(|e| self.hi(e.gate) <= self.durable) {
            self.shown += 1;
        }
    }

    /// The broker decides when an event that no topic keeps had its turn: so many events still wait.
    pub(in crate::fold) fn wait_for_turn(&mut self, waiting: usize) {
        let turn = self.events.len().saturating_sub(waiting);
        while self.shown < turn
            && self.events.get(self.shown).is_some_and(|e| e.kept.is_none() || self.lo(e.gate) <= self.synced)
        {
            self.shown += 1;
        }
    }

    /// Subscribers have seen an event, or may ask for it.
    pub(in crate::fold) fn is_shown(&self, at: usize) -> bool {
        at < self.shown
    }

    /// A subscription starts.
    pub(in crate::fold) fn subscribe(&mut self, id: u32, patterns: &[Name], from: &From) {
        for name in patterns.iter().filter(|p| !p.contains(['*', '#'])) {
            if !self.world.topics.contains_key(name) {
                self.make_topic(TopicSpec { name: name.clone(), age_ms_max: None, bytes_max: None });
            }
        }
        let shown = self.shown;
        let mut reader =
            Reader { patterns: patterns.to_vec(), lost: false, replay: VecDeque::new(), next: shown };
        let topics: Vec<_> =
            self.world.topics.values().filter(|t| reader.wants(&t.spec.name)).cloned().collect();
        let mut kept: Vec<usize> =
            topics.iter().flat_map(|t| t.events.iter().copied()).filter(|at| *at < shown).collect();
        kept.sort_unstable();
        let gone = topics.iter().filter_map(|t| t.gone).max();
        match from {
            From::Latest => kept.clear(),
            From::Earliest => {}
            From::Time(time) => kept.retain(|at| self.events[*at].envelope.time_ms >= *time),
            From::Ago(ms) => {
                let time = self.now.wall_ms.saturating_sub(*ms);
                kept.retain(|at| self.events[*at].envelope.time_ms >= time);
            }
            From::Last(count) => drop(kept.drain(..kept.len().saturating_sub(*count as usize))),
            From::Offset(offset) => kept.retain(|at| self.events[*at].kept.is_some_and(|k| k.1 >= offset.0)),
            From::After(text) => {
                let place = self
                    .events
                    .iter()
                    .position(|e| e.kept.is_some() && e.cursor.is_some_and(|c| c.to_string() == *text));
                reader.lost = match place {
                    Some(place) => gone.is_some_and(|gone| gone > place),
                    None => true,
                };
                kept.retain(|at| place.is_none_or(|place| *at > place));
            }
        }
        reader.replay = kept.into();
        self.readers.insert(id, reader);
    }

    /// A subscription ended.
    pub(in crate::fold) fn unsubscribe(&mut self, id: u32) {
        self.readers.remove(&id);
    }

    /// A subscription saw something.
    pub(in crate::fold) fn hear(&mut self, id: u32, item: &FeedItem) -> Result<(), String> {
        let reader = self.readers.get(&id).ok_or("a subscription that is not there")?;
        let event = match item {
            FeedItem::Lost { .. } if reader.lost => {
                self.readers.get_mut(&id).ok_or("gone")?.lost = false;
                self.met("a loss notice");
                return Ok(());
            }
            FeedItem::Lost { .. } => return Err("a loss notice without a loss".to_owned()),
            FeedItem::Event(_) if reader.lost => return Err("an event before the loss notice".to_owned()),
            FeedItem::Event(event) => event.clone(),
        };
        if self.is_left_over(&event) {
            self.met("an event that is kept no more");
            return Ok(());
        }
        let at = match reader.replay.front() {
            Some(at) => *at,
            None => {
                let wants = |at: &usize| reader.wants(&self.events[*at].key);
                (reader.next..self.events.len()).find(wants).ok_or("an event that nobody published")?
            }
        };
        self.same_event(at, &event)?;
        let known = &self.events[at];
        // one that no topic keeps promises its turn, and nothing that is stored
        if known.kept.is_some() && self.lo(known.gate) > self.synced {
            return Err(format!("{} is shown before it is durable", event.topic));
        }
        self.learn_cursor(at, event.cursor)?;
        self.met(if self.events[at].kept.is_some() { "a kept event" } else { "a live-only event" });
        let reader = self.readers.get_mut(&id).ok_or("gone")?;
        if reader.replay.pop_front().is_some() {
            self.met("a replayed event");
        } else {
            reader.next = at + 1;
        }
        Ok(())
    }

    /// An event that its topic does not keep any more, still in memory because somebody else listens too.
    fn is_left_over(&self, event: &FeedEvent) -> bool {
        let at = self.events.iter().rposition(|e| e.kept.is_some() && e.cursor == Some(event.cursor));
        let Some((incarnation, at)) = at.and_then(|at| Some((self.events[at].kept?.0, at))) else {
            return false;
        };
        let topic = self.world.topics.get(&event.topic).filter(|t| t.incarnation == incarnation);
        event.kept.is_some() && at < self.shown_before && !topic.is_some_and(|t| t.events.contains(&at))
    }

    fn same_event(&mut self, at: usize, event: &FeedEvent) -> Result<(), String> {
        let known = &self.events[at];
        let body = text(&known.frame);
        if event.frame.as_bytes() != known.frame.as_bytes() {
            return Err(format!("event '{}', not '{body}'", text(&event.frame)));
        }
        if event.topic != known.key || event.envelope != known.envelope {
            return Err(format!("'{body}' came as {:?}, not {:?}", event.envelope, known.envelope));
        }
        match (known.kept, event.kept) {
            (Some((incarnation, offset)), Some((id, seen))) if seen.0 == offset => {
                let topic = self.world.topics.get(&known.key).filter(|t| t.incarnation == incarnation);
                if let Some(before) = topic.and_then(|t| t.id).filter(|before| *before != id) {
                    return Err(format!("topic {} is {id} and was {before}", known.key));
                }
                let what = (id.0, offset);
                let (key, uid) = (known.key.clone(), (incarnation, offset));
                if self.offsets.insert(what, uid).is_some_and(|before| before != uid) {
                    return Err(format!("offset {offset} of {key} named another event before"));
                }
                if let Some(topic) = self.world.topics.get_mut(&key).filter(|t| t.incarnation == incarnation)
                {
                    std::rc::Rc::make_mut(topic).id = Some(id);
                }
                Ok(())
            }
            (None, None) => Ok(()),
            (wanted, seen) => Err(format!("'{body}' is kept as {seen:?}, not {wanted:?}")),
        }
    }

    /// The position of an event: the same for everybody, growing along the list.
    pub(super) fn learn_cursor(&mut self, at: usize, cursor: Cursor) -> Result<(), String> {
        if let Some(before) = self.events[at].cursor.filter(|before| *before != cursor) {
            return Err(format!("an event has cursor {cursor} and had {before}"));
        }
        if self.events[at].kept.is_none() {
            return Ok(());
        }
        let before = self.events[..at].iter().rev().find_map(|e| e.kept.and(e.cursor));
        let after = self.events[at + 1..].iter().find_map(|e| e.kept.and(e.cursor));
        if before.is_some_and(|c| c.position >= cursor.position)
            || after.is_some_and(|c| c.position <= cursor.position)
        {
            return Err(format!("cursor {cursor} stands between {before:?} and {after:?}"));
        }
        self.events[at].cursor = Some(cursor);
        Ok(())
    }

    /// Everything that is durable was shown.
    pub(super) fn all_heard(&self) -> Result<(), String> {
        let shown = self.shown;
        for (id, reader) in &self.readers {
            let waits = reader.lost
                || !reader.replay.is_empty()
                || (reader.next..shown).any(|at| reader.wants(&self.events[at].key));
            if waits {
                return Err(format!("subscription {id} was not told all: {reader:?}, {shown} events"));
            }
        }
        Ok(())
    }

    /// An event goes to a topic, to live subscribers, or both. Gives its offset.
    pub(super) fn append(
        &mut self,
        topic: Option<Name>,
        envelope: Envelope,
        frame: Frame,
        gate: Gate,
    ) -> Option<u64> {
        let at = self.events.len();
        let key = topic.clone().or(envelope.keys.first().cloned()).unwrap_or_default();
        let kept = topic.and_then(|name| {
            let topic = std::rc::Rc::make_mut(self.world.topics.get_mut(&name)?);
            topic.events.push_back(at);
            topic.next += 1;
            Some((topic.incarnation, topic.next - 1))
        });
        let time_ms = if kept.is_some() { self.now.wall_ms } else { envelope.time_ms };
        let envelope = Envelope { time_ms, ..envelope };
        self.events.push(Event { key, kept, envelope, frame, gate, cursor: None });
        kept.map(|k| k.1)
    }

    /// Events beyond a topic's retention go, oldest first; topics that nobody needs go too. Once a second.
    pub(super) fn sweep(&mut self, limits: &Limits) {
        if self.now.mono_ms < self.next_sweep_ms {
            return;
        }
        self.next_sweep_ms = self.now.mono_ms + 1000;
        let mut idle = Vec::new();
        let names: Vec<Name> = self.world.topics.keys().cloned().collect();
        for name in names {
            let watched = self.is_watched(&name);
            let target = BindTarget::Topic(name.clone());
            let is_bound = self.world.routing.bindings.iter().any(|b| b.target == target);
            let Some(topic) = self.world.topics.get_mut(&name) else { continue };
            let age = topic.spec.age_ms_max.unwrap_or(limits.topic_age_ms_max);
            let bytes_max = topic.spec.bytes_max.unwrap_or(limits.topic_bytes_max);
            let size = |at: &usize| self.events[*at].frame.as_bytes().len() as u64;
            let mut bytes: u64 = topic.events.iter().map(size).sum();
            let mut topic_now = (**topic).clone();
            while let Some(at) = topic_now.events.front().copied() {
                let old = self.events[at].envelope.time_ms < self.now.wall_ms.saturating_sub(age);
                if !old && bytes <= bytes_max {
                    break;
                }
                bytes -= size(&at);
                topic_now.events.pop_front();
                topic_now.gone = Some(at);
                *self.counts.entry("retention").or_default() += 1;
            }
            let (first, is_group) = (topic_now.first(), self.world.groups.keys().any(|key| key.0 == name));
            let was_empty = topic.events.is_empty() && !is_group;
            topic_now.idle_ms =
                (was_empty && !watched && !is_bound).then_some(topic.idle_ms.unwrap_or(self.now.mono_ms));
            if topic_now.idle_ms.is_some_and(|since| self.now.mono_ms - since >= limits.topic_idle_ms) {
                idle.push(name.clone());
            }
            *topic = topic_now.into();
            self.retain_groups(&name, first);
        }
        for name in idle {
            self.drop_topic(&name);
            self.met("an idle topic");
        }
    }
}
