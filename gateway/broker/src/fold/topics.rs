//! Topics: what becomes visible to subscribers, where a subscription starts, what is read back, what is no longer kept.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use framegate_frame::Frame;
use framegate_storage::Lsn;
use tokio::sync::oneshot;

use super::inbox::Inbox;
use super::postponed::{PageWanted, Postponed};
use super::reader::{PageJob, Unread};
use super::{Core, timers::Timer};
use crate::definition::TopicSpec;
use crate::error::BrokerError;
use crate::feed::{Cursor, FeedEvent, From, Parts, Start, Subscribe, Watch};
use crate::ids::{Offset, TopicId, WatchId};
use crate::limits::SLICE_MESSAGES_MAX;
use crate::message::{Envelope, Origin};
use crate::metrics::Metrics;
use crate::name::Name;
use crate::record::Record;
use crate::state::{OPEN_BLOCK, TopicEntry, TopicState};

/// How often topics are looked at for events that are no longer kept.
const SWEEP_MS: u64 = 1000;
/// The same while a slice was not enough, so that a busy topic does not outgrow its limits.
const SWEEP_ON_MS: u64 = 10;

/// An event that subscribers see when the log is durable up to its gate.
pub(super) struct Visible {
    pub(super) gate: Lsn,
    pub(super) vhost: Name,
    /// Of the topic that keeps it, else its key: what subscriptions match.
    pub(super) name: Name,
    /// Topic, offset and position, when a topic keeps it.
    pub(super) topic: Option<(TopicId, Offset, Lsn)>,
    pub(super) envelope: Envelope,
    pub(super) frame: Frame,
}

impl Core {
    /// Shows subscribers what has become durable, in order.
    pub(super) fn show_feed(&mut self) {
        let upto = self.durable_to;
        while let Some(visible) = self.gated_feed.pop_front_if(|v| v.gate <= upto) {
            let Visible { vhost, name, topic, envelope, frame, .. } = visible;
            if let Some((_, _, lsn)) = topic {
                self.visible_to = lsn;
            }
            // by the topology of now: a watch that came since the publish was routed sees it too
            let mut watches = smallvec::SmallVec::new();
            self.editor.current().watches(&vhost, &name, &mut watches);
            if watches.is_empty() {
                continue;
            }
            let (id, seq) = topic.map_or((0, self.visible_to.0), |(id, offset, _)| (id.0, offset.0));
            let origin = Origin { vhost, name: name.clone(), id, seq };
            let kept = topic.map(|(id, offset, _)| (id, offset));
            let event =
                Arc::new(FeedEvent::new(name, kept, self.cursor(self.visible_to), envelope, frame, origin));
            for id in watches {
                if let Some(watch) = self.watches.get(&id) {
                    watch.push([Arc::clone(&event)]);
                    Metrics::add(&self.shared.metrics.feed_events, 1);
                    if !self.woken.iter().any(|w| w.id() == id) {
                        self.woken.push(Arc::clone(watch));
                    }
                }
            }
        }
        for watch in self.woken.drain(..) {
            self.shared.hub.wake(&watch);
        }
    }

    /// A subscription starts: exact topics exist, its watch is there, its start is found.
    pub(super) fn subscribe(
        &mut self,
        vhost: &Name,
        what: Subscribe,
        reply: oneshot::Sender<Result<Parts, BrokerError>>,
    ) {
        if self.failed {
            let _ = reply.send(Err(BrokerError::StorageFailed));
            return;
        }
        for pattern in what.patterns.iter().filter(|p| !p.contains(['*', '#'])) {
            if self.editor.current().topic(vhost, pattern).is_some() {
                continue;
            }
            let spec = TopicSpec { name: pattern.clone(), age_ms_max: None, bytes_max: None };
            if let Err(error) = self.make_topic(vhost, spec) {
                let _ = reply.send(Err(error));
                return;
            }
        }
        let (id, new) = self.editor.add_watch(vhost, &what.patterns);
        if new {
            self.watches.insert(id, Watch::new(id, self.visible_to, &self.rings));
        }
        let Some(watch) = self.watches.get(&id).map(Arc::clone) else { return };
        let (start, lost) = self.start_of(id, what.from);
        let shared = Arc::clone(&self.shared);
        shared.subscribed(1);
        let ended = Box::new(move |id| {
            shared.subscribed(-1);
            shared.send(Inbox::Unwatch(id));
        });
        let replay = self.shared.replay();
        let (told, generation) = (self.newest(), self.claim.generation);
        let parts = Parts { watch, replay, start, lost, told, generation, ended };
        // whoever hears of the subscription may publish to it at once
        self.publish_topology();
        // dropping the parts of a caller that is gone would leave the watch: `ended` is not called then
        if reply.send(Ok(parts)).is_err() {
            self.shared.subscribed(-1);
            self.unwatch(id);
        }
    }

    /// Where a subscription starts, and what it must be told first.
    fn start_of(&self, watch: WatchId, from: From) -> (Start, Option<(Option<String>, Cursor)>) {
        let topics = self.editor.topics_of(watch);
        let states = || topics.iter().filter_map(|(_, id)| self.durable.topic(*id));
        let gone_to = self.gone_to(watch);
        // the position right before the first event from an offset on
        let before = |first: fn(&crate::state::TopicState, u64) -> u64, argument: u64| {
            let position = |t: &crate::state::TopicState| {
                let offset = first(t, argument);
                t.entries.at_or_after(offset).map_or(self.visible_to.0, |(_, e)| e.lsn - 1)
            };
            Lsn(states().map(position).min().unwrap_or(self.visible_to.0).min(self.visible_to.0))
        };
        // right behind what is gone, or before it where other topics keep something there
        let earliest = gone_to.min(before(|t, _| t.entries.first(), 0));
        match from {
            From::Latest => (Start::Live, None),
            From::Earliest => (Start::After(earliest), None),
            From::Time(time_ms) => (Start::After(before(|t, at| t.since(at), time_ms)), None),
            From::Ago(ms) => self.start_of(watch, From::Time(self.now.wall_ms.saturating_sub(ms))),
            From::Offset(offset) => (Start::After(before(|t, at| at.max(t.entries.first()), offset.0)), None),
            From::Last(count) => (Start::After(self.before_last(&topics, count)), None),
            From::After(text) => match text.parse::<Cursor>() {
                Ok(cursor)
                    if cursor.generation == self.claim.generation
                        && cursor.position >= gone_to
                        && cursor.position <= self.visible_to =>
                {
                    (Start::After(cursor.position), None)
                }
                // what other topics keep above it is still to come
                Ok(cursor)
                    if cursor.generation == self.claim.generation && cursor.position <= self.visible_to =>
                {
                    let at = cursor.position;
                    let start = at.max(gone_to.min(before(|t, at| t.after(Lsn(at)), at.0)));
                    (Start::After(start), Some((Some(text), self.cursor(start))))
                }
                _ => (Start::After(earliest), Some((Some(text), self.cursor(earliest)))),
            },
        }
    }

    /// Position of the newest event of a watch's topics that is not kept any more.
    fn gone_to(&self, watch: WatchId) -> Lsn {
        let topics = self.editor.topics_of(watch);
        let gone = topics.iter().filter_map(|(_, id)| self.durable.topic(*id)).map(|t| t.gone_to);
        gone.max().unwrap_or(Lsn(0))
    }

    /// The position before the last so many events of some topics.
    fn before_last(&self, topics: &[(Name, TopicId)], count: u32) -> Lsn {
        let mut newest = BinaryHeap::new();
        for (_, id) in topics {
            let Some(topic) = self.durable.topic(*id) else { continue };
            // what is not visible yet is none of the last ones: it comes live
            let end = topic.after(self.visible_to);
            let first = end.saturating_sub(count.into()).max(topic.entries.first());
            for offset in first..end {
                newest.extend(topic.entries.get(offset).map(|e| Reverse(e.lsn)));
                if newest.len() > count as usize {
                    newest.pop();
                }
            }
        }
        newest.peek().map_or(self.visible_to, |lsn| Lsn(lsn.0 - 1))
    }

    /// A subscription ended; the last one takes the watch with it.
    pub(super) fn unwatch(&mut self, id: WatchId) {
        if self.editor.remove_watch(id)
            && let Some(watch) = self.watches.remove(&id)
        {
            watch.close();
        }
    }

    /// Finds the events of a page and has them read. It ends before an event whose body is being written again, and waits
    /// when that is the first one.
    pub(super) fn page(&mut self, wanted: PageWanted) {
        let PageWanted { watch, after, told, events_max, bytes_max, .. } = wanted;
        let topics = self.editor.topics_of(watch);
        let (mut gone_to, mut is_new) = (after, false);
        let mut heads = BinaryHeap::new();
        for (_, id) in &topics {
            let Some(topic) = self.durable.topic(*id) else { continue };
            gone_to = gone_to.max(topic.gone_to);
            is_new |= topic.gone_to > after && topic.gone_at > told;
            if let Some((offset, entry)) = topic.entries.at_or_after(topic.after(after)) {
                heads.push(Reverse((entry.lsn, *id, offset)));
            }
        }
        // what other topics keep there is not passed over
        let kept: Option<&Reverse<(u64, TopicId, u64)>> = heads.peek();
        let gone_to = kept.map_or(gone_to, |head| gone_to.min(Lsn(head.0.0 - 1)));
        let mut events = Vec::new();
        let mut complete_to = self.visible_to.max(after);
        let mut bytes = 0;
        while let Some(Reverse((lsn, id, offset))) = heads.pop() {
            if lsn > self.visible_to.0 {
                break;
            }
            if events.len() >= events_max.max(1) || bytes >= bytes_max {
                complete_to = Lsn(lsn - 1);
                break;
            }
            let Some(topic) = self.durable.topic(id) else { continue };
            let Some(entry) = topic.entries.get(offset) else { continue };
            if entry.block == OPEN_BLOCK {
                if events.is_empty() {
                    return self.postpone(Postponed::Page(wanted));
                }
                complete_to = Lsn(lsn - 1);
                break;
            }
            bytes += entry.len as usize;
            events.push(self.unread(id, topic, offset, entry));
            if let Some((next, entry)) = topic.entries.at_or_after(offset + 1) {
                heads.push(Reverse((entry.lsn, id, next)));
            }
        }
        let (gone_to, told) = (is_new.then_some(gone_to), self.newest());
        self.reader.page(PageJob { events, after, complete_to, gone_to, told, reply: wanted.reply });
    }

    /// An event whose body is still to be read.
    pub(super) fn unread(&self, id: TopicId, topic: &TopicState, offset: u64, entry: &TopicEntry) -> Unread {
        let name = topic.spec.name.clone();
        let origin = Origin { vhost: topic.vhost.clone(), name: name.clone(), id: id.0, seq: offset };
        let envelope = topic.envelope(Offset(offset));
        let kept = Some((id, Offset(offset)));
        (entry.body(), name, kept, self.cursor(Lsn(entry.lsn)), envelope, origin)
    }

    /// Looks for events that are no longer kept and topics that nobody needs, a slice of them.
    pub(super) fn sweep_topics(&mut self) {
        let limits = &self.shared.limits;
        let mut more = false;
        let (mut retain, mut idle) = (Vec::new(), Vec::new());
        let mut empty = BTreeMap::new();
        for topic in self.durable.topics() {
            let age = topic.spec.age_ms_max.unwrap_or(limits.topic_age_ms_max);
            let bytes_max = topic.spec.bytes_max.unwrap_or(limits.topic_bytes_max);
            let oldest = self.now.wall_ms.saturating_sub(age);
            let mut bytes = topic.bytes;
            let mut first = topic.entries.first();
            for (n, (offset, entry)) in topic.entries.iter().enumerate() {
                if entry.time_ms >= oldest && bytes <= bytes_max {
                    break;
                }
                if n == SLICE_MESSAGES_MAX {
                    more = true;
                    break;
                }
                bytes -= u64::from(entry.len);
                first = offset + 1;
            }
            if first > topic.entries.first() {
                retain.push((topic.id, first));
            }
            let unused = topic.bytes == 0
                && !self.groups.has(topic.id)
                && !self.editor.is_bound(&topic.vhost, &topic.spec.name)
                && topic.entries.first() == topic.entries.next()
                && self.editor.subscribers(&topic.vhost, &topic.spec.name) == 0;
            if unused {
                let since = self.topic_idle_since.get(&topic.id).copied().unwrap_or(self.now.mono_ms);
                empty.insert(topic.id, since);
                if self.now.mono_ms.saturating_sub(since) >= limits.topic_idle_ms {
                    idle.push(topic.id);
                }
            }
        }
        self.topic_idle_since = empty;
        self.timers.add(self.now.mono_ms + if more { SWEEP_ON_MS } else { SWEEP_MS }, Timer::Sweep);
        for (topic, first) in retain {
            self.log(Record::Retain { topic, first: Offset(first) }, None, false);
            self.groups_retained(topic);
        }
        for topic in idle {
            self.drop_topic(topic);
        }
    }

    /// Begins to look at topics.
    pub(super) fn start_sweeping(&mut self) {
        self.timers.add(SWEEP_MS, Timer::Sweep);
    }
}
