//! The start: the volatile side is built in one pass around the state that the log gave.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use framegate_storage::{Claim, Lsn, ShardStore};

use super::delayed::{is_hidden, is_park_queue};
use super::effects::detached;
use super::keeper::Keeper;
use super::live::{IdMap, QueueLive};
use super::{Core, DETACHED, Now, ReaderPool};
use crate::broker::{Shared, StartError};
use crate::feed::RingBudget;
use crate::ids::{QueueId, Seq};
use crate::name::Name;
use crate::record::{Encoder, Record};
use crate::routing::TopologyEditor;
use crate::state::{QueueState, State, is_group};

impl Core {
    /// Builds the core around a state. The first thing that it logs is the start.
    pub(crate) fn new(
        state: State,
        claim: Claim,
        store: Arc<dyn ShardStore>,
        shared: Arc<Shared>,
        now: Now,
    ) -> Result<Self, StartError> {
        let mut editor = TopologyEditor::new(&shared.vhosts);
        let mut live = IdMap::default();
        for ((vhost, _), spec) in &state.exchanges {
            editor.declare_exchange(vhost, spec.clone());
        }
        let mut parks = IdMap::default();
        for queue in state.queues() {
            if is_park_queue(queue) {
                parks.insert(queue.id, Default::default());
            } else if !is_hidden(queue) {
                editor.add_queue(&queue.vhost, queue.spec.name.clone(), queue.id);
            }
            let (first, properties) = (queue.slots.first(), &queue.spec.properties);
            live.insert(queue.id, QueueLive::new(first, queue.delivered, None, properties));
        }
        for topic in state.topics() {
            editor.add_topic(&topic.vhost, topic.spec.name.clone(), topic.id);
        }
        for (vhost, binding) in &state.bindings {
            editor.bind(vhost, binding);
        }
        let weak: Weak<Shared> = Arc::downgrade(&shared);
        let reader = ReaderPool::start(&store, claim.shard, &weak)?;
        let keeper = Keeper::start(&store, claim, &weak)?;
        let durable_to = Lsn(claim.next.0 - 1);
        let mut connections = IdMap::default();
        connections
            .insert(DETACHED, detached(shared.vhosts.first().cloned().unwrap_or(Name::from_static("/"))));
        let mut core = Self {
            durable: state,
            volatile: State::default(),
            live,
            connections,
            editor,
            store,
            claim,
            reader,
            now,
            encoder: Encoder::default(),
            numbered_queues: IdMap::default(),
            numbered_topics: IdMap::default(),
            first: claim.next,
            sync: false,
            placed: Vec::new(),
            permits: Vec::new(),
            in_flight: Default::default(),
            in_flight_bytes: 0,
            durable_to,
            failed: false,
            full: false,
            touched: Vec::new(),
            gated: Default::default(),
            calls: IdMap::default(),
            next_call: 0,
            gated_calls: Default::default(),
            applied: Vec::new(),
            dirty: Vec::new(),
            overfull: Default::default(),
            letters: Default::default(),
            looks: 0,
            waiters: IdMap::default(),
            next_waiter: 0,
            tokens: IdMap::default(),
            cache: Default::default(),
            gated_visible: Default::default(),
            delivered: Default::default(),
            parks,
            events: Default::default(),
            opening: Default::default(),
            delivered_mark_ms: 0,
            mark_timer: false,
            work: Default::default(),
            opens_at: Lsn(0),
            closing: false,
            idle_timer: false,
            idle_seen: Lsn(0),
            ticked: Lsn(0),
            timers: Default::default(),
            next_holder: 0,
            watches: Default::default(),
            rings: Arc::new(RingBudget::default()),
            gated_feed: Default::default(),
            visible_to: durable_to,
            postponed: Vec::new(),
            woken: Vec::new(),
            topic_idle_since: Default::default(),
            keeper,
            holding: Default::default(),
            lookout: None,
            groups: Default::default(),
            jobs: Default::default(),
            volatile_ids: Default::default(),
            shared,
        };
        // after a clean stop too: were this life lost with its start, the next one would begin as clean and give its numbers
        // again
        core.opens_at = core.log(Record::Start { clean: claim.clean }, None, true).0;
        core.forget_lost_jobs();
        core.reset_cursors();
        core.reset_order();
        // what was held is ready again, and may be too much
        for queue in core.live.keys().copied().collect::<Vec<_>>() {
            core.mark_overfull(queue);
        }
        core.start_groups();
        core.start_care();
        core.start_sweeping();
        core.publish_topology();
        Ok(core)
    }

    /// Puts the ready cursors where the slots begin, after an unclean stop moved the numbers.
    fn reset_cursors(&mut self) {
        let gated = self.store.caps().shared;
        for queue in self.durable.queues() {
            if let Some(live) = self.live.get_mut(&queue.id) {
                live.ready.start_at(queue.slots.first());
                if gated || queue.spec.properties.deliver_durable {
                    live.visible = queue.slots.next().saturating_sub(1);
                }
            }
        }
    }

    /// Makes definitions visible to publishers.
    pub(super) fn publish_topology(&mut self) {
        if let Some(topology) = self.editor.publish() {
            self.shared.topology.store(topology);
        }
    }

    /// Sets the timers of messages that wait for their time or expire, and puts the others in order where a queue has
    /// more of an order than their numbers.
    fn reset_order(&mut self) {
        let mut timed: Vec<_> =
            self.durable.queues().flat_map(|q| q.timed().map(|(seq, times)| (q.id, seq, times))).collect();
        // stable: what is due at the same time keeps its order
        timed.sort_by_key(|(_, _, times)| times.deliver_at_ms);
        let mut waiting = HashSet::new();
        for (queue, seq, times) in timed {
            if self.schedule(queue, seq, times) {
                waiting.insert((queue, seq.0));
            }
        }
        let expiring = |q: &&QueueState| q.spec.properties.expires_ms.is_some();
        let expiring: Vec<QueueId> = self.durable.queues().filter(expiring).map(|q| q.id).collect();
        for queue in expiring {
            self.touch(queue);
        }
        for queue in self.durable.queues().filter(|q| q.has_weights()) {
            let Some(live) = self.live.get_mut(&queue.id) else { continue };
            for (seq, _) in queue.slots.iter().filter(|(seq, _)| !waiting.contains(&(queue.id, *seq))) {
                live.ready.arrive(seq, queue.weight(Seq(seq)));
            }
        }
    }

    /// Notes how far queues have been delivered, at most once a second.
    pub(super) fn mark_delivered(&mut self) {
        const MARK_MS: u64 = 1000;
        if self.delivered.is_empty() || self.failed {
            return;
        }
        if self.now.mono_ms < self.delivered_mark_ms {
            if !std::mem::replace(&mut self.mark_timer, true) {
                self.timers.add(self.delivered_mark_ms, super::timers::Timer::Mark);
            }
            return;
        }
        self.delivered_mark_ms = self.now.mono_ms + MARK_MS;
        self.write_marks();
    }

    /// Notes how far queues have been delivered.
    pub(super) fn write_marks(&mut self) {
        for queue in std::mem::take(&mut self.delivered) {
            let upto = self.live.get(&queue).map_or(0, |l| l.ready.cursor().saturating_sub(1));
            if is_group(queue) {
                self.mark_group(queue);
            } else if self.durable.queue(queue).is_some_and(|q| upto > q.delivered) {
                self.log(Record::Delivered { queue, upto: Seq(upto) }, None, false);
            }
        }
    }
}
