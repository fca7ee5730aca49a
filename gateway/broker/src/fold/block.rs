//! The open block: records of this pass, written to the log as one. Also what comes back from the log.

use framegate_frame::Frame;
use framegate_storage::{Block, BlockFlags, Lsn, Report};
use tokio::sync::OwnedSemaphorePermit;

use super::Core;
use super::timers::Timer;
use crate::hold::Hold;
use crate::ids::{QueueId, Seq};
use crate::message::Envelope;
use crate::metrics::Metrics;
use crate::record::{Body, Record, SeqSet, Settled};
use crate::state::{At, NO_BLOCK, OPEN_BLOCK, Placed, Times, VOLATILE_BIT, is_group};

/// How long nothing is appended before the shard counts as idle.
const IDLE_MS: u64 = 1000;

/// A block on its way to the disk.
pub(super) struct InFlight {
    last: Lsn,
    bytes: u64,
    /// Given back when it is durable.
    _permits: Vec<OwnedSemaphorePermit>,
}

impl Core {
    /// Writes a record into the open block and applies it. Gives its position.
    pub(super) fn log(&mut self, record: Record, frame: Option<&Frame>, sync: bool) -> (Lsn, Option<Body>) {
        let lsn = Lsn(self.first.0 + u64::from(self.encoder.count()));
        let (next, name) = match &record {
            Record::Enqueue { queue, .. } => {
                self.durable.queue(*queue).map(|q| (q.next_logged, q.spec.name.clone())).unwrap_or_default()
            }
            Record::Append { topic, .. } => self
                .durable
                .topic(*topic)
                .map(|t| (t.entries.next(), t.spec.name.clone()))
                .unwrap_or_default(),
            _ => Default::default(),
        };
        // the first one of a block says its number, so that a block is understood when one before it is lost
        let next = if self.is_first_in_block(&record) { u64::MAX } else { next };
        let written = self.encoder.put(&record, frame, next, &name);
        let mut record = record;
        let mut open = false;
        if let Record::Enqueue { body, .. }
        | Record::Append { body, .. }
        | Record::Spill { body, .. }
        | Record::Move { body, .. }
        | Record::MoveEvent { body, .. } = &mut record
        {
            if let Some(written) = written {
                *body = written;
            }
            open =
                matches!(body, Body::Here { .. }) || matches!(body, Body::At(at) if at.block.0 == OPEN_BLOCK);
        }
        match &record {
            Record::Enqueue { queue, seq, .. }
            | Record::Spill { queue, seq, .. }
            | Record::Move { queue, seq, .. }
                if open =>
            {
                self.placed.push(Placed::Queue(*queue, *seq));
            }
            Record::Append { topic, offset, .. } | Record::MoveEvent { topic, offset, .. } if open => {
                self.placed.push(Placed::Topic(*topic, *offset));
            }
            _ => {}
        }
        self.sync |= sync;
        Metrics::add(&self.shared.metrics.records, 1);
        let at = At { lsn, block: OPEN_BLOCK, logged: true };
        match record {
            Record::Spill { queue, .. } if queue.0 & VOLATILE_BIT != 0 => self.volatile.apply(record, at),
            record => self.durable.apply(record, at),
        }
        (lsn, written)
    }

    /// Whether no message of that queue, or event of that topic, stands in the open block yet.
    fn is_first_in_block(&mut self, record: &Record) -> bool {
        match record {
            Record::Enqueue { queue, .. } => self.numbered_queues.insert(*queue, ()).is_none(),
            Record::Append { topic, .. } => self.numbered_topics.insert(*topic, ()).is_none(),
            _ => false,
        }
    }

    /// Applies a record that the log need not know.
    pub(super) fn apply_unlogged(&mut self, queue: QueueId, record: Record) {
        let at = At { lsn: Lsn(0), block: NO_BLOCK, logged: false };
        if queue.0 & VOLATILE_BIT != 0 {
            self.volatile.apply(record, at);
        } else {
            self.durable.apply(record, at);
        }
    }

    /// Puts a message into a queue. `body`: where its frame stands already. Gives its number, its position in the log
    /// (0: not logged) and where its frame stands now.
    pub(super) fn enqueue(
        &mut self,
        queue: QueueId,
        mut envelope: Envelope,
        frame: Option<&Frame>,
        body: Option<Body>,
        len: u32,
    ) -> (Seq, Lsn, Option<Body>) {
        let logged = queue.0 & VOLATILE_BIT == 0 && envelope.persistent;
        let Some(state) = self.state(queue).queue(queue) else { return (Seq(0), Lsn(0), body) };
        let seq = Seq(state.slots.next());
        let properties = &state.spec.properties;
        let now_ms = self.now.wall_ms;
        if let Some(ttl_ms) = properties.message_ttl_ms {
            let end = now_ms.max(envelope.deliver_at_ms).saturating_add(ttl_ms).max(1);
            let own = Some(envelope.expires_at_ms).filter(|own| *own != 0);
            envelope.expires_at_ms = own.map_or(end, |own| own.min(end));
        }
        let weighed = properties.bytes_max.is_some();
        envelope.data_bytes = if weighed { frame.map_or(len, super::limit::data_bytes) } else { 0 };
        let (limited, has_weights) = (state.is_limited(), state.has_weights());
        let times = Times::of(&envelope);
        let (lsn, written) = if logged {
            let body = body.unwrap_or(Body::Memory { len });
            self.log(Record::Enqueue { queue, seq, envelope, body }, frame, true)
        } else {
            // a frame that is not in memory is read from where it stands
            let readable = |b: &Body| matches!(b, Body::At(at) if at.block.0 != OPEN_BLOCK);
            let body = body.filter(|b| frame.is_none() && readable(b)).unwrap_or(Body::Memory { len });
            self.apply_unlogged(queue, Record::Enqueue { queue, seq, envelope, body });
            (Lsn(0), None)
        };
        let waits = times != Times::default() && self.schedule(queue, seq, times);
        if !waits && has_weights {
            let weight = self.weight(queue, seq);
            if let Some(live) = self.live.get_mut(&queue) {
                live.ready.arrive(seq.0, weight);
            }
        }
        if times.expires_at_ms != 0
            && times.expires_at_ms <= now_ms
            && let Some(live) = self.live.get_mut(&queue)
        {
            live.fresh_from = live.fresh_from.min(seq.0);
        }
        if let Some(frame) = frame {
            self.cache_frame(queue, seq, frame.clone());
        }
        let newest = self.newest();
        if let Some(live) = self.live.get_mut(&queue).filter(|l| l.visible != u64::MAX) {
            // a gated queue shows a message when everything before it is durable
            let gate = if logged { lsn } else { newest };
            if gate <= self.durable_to && self.gated_visible.is_empty() {
                live.visible = seq.0;
            } else {
                self.gated_visible.push_back((gate, queue, seq.0));
            }
        }
        if limited {
            self.mark_overfull(queue);
        }
        self.mark_dirty(queue);
        (seq, lsn, written.map(in_open_block).or(body))
    }

    /// Removes messages for good: logged for those that the log knows.
    pub(super) fn remove(&mut self, queue: QueueId, seqs: &SeqSet) {
        if is_group(queue) {
            return self.settle_group(queue, seqs, Settled::Acked);
        }
        let (logged, unlogged) = self.split(queue, seqs);
        for seq in seqs.iter() {
            self.uncache(queue, seq);
            if let Some(live) = self.live.get_mut(&queue).filter(|l| !l.undeliverable.is_empty()) {
                live.undeliverable.remove(&seq.0);
            }
        }
        if !logged.is_empty() {
            self.log(Record::Ack { queue, seqs: logged }, None, false);
        }
        if !unlogged.is_empty() {
            self.apply_unlogged(queue, Record::Ack { queue, seqs: unlogged });
        }
    }

    /// Counts a failed delivery.
    pub(super) fn count_return(&mut self, queue: QueueId, seqs: &SeqSet) {
        let (logged, unlogged) = self.split(queue, seqs);
        if !logged.is_empty() {
            self.log(Record::Return { queue, seqs: logged }, None, false);
        }
        if !unlogged.is_empty() {
            self.apply_unlogged(queue, Record::Return { queue, seqs: unlogged });
        }
    }

    /// Those that the log knows, and the others.
    fn split(&self, queue: QueueId, seqs: &SeqSet) -> (SeqSet, SeqSet) {
        let (mut logged, mut unlogged) = (SeqSet::default(), SeqSet::default());
        let state = self.state(queue).queue(queue);
        for seq in seqs.iter() {
            match state.and_then(|q| q.slots.get(seq.0)) {
                Some(slot) if queue.0 & VOLATILE_BIT == 0 && !slot.is_transient() => logged.push(seq),
                Some(_) => unlogged.push(seq),
                None => continue,
            };
        }
        (logged, unlogged)
    }

    /// Position of the newest record, written or open.
    pub(super) fn newest(&self) -> Lsn {
        Lsn(self.first.0 + u64::from(self.encoder.count()) - 1)
    }

    /// Closes the pass: the block goes to the log when there is room in flight, and effects leave.
    pub(crate) fn end_pass(&mut self) {
        // after the last block nothing is decided any more: what was promised leaves
        if !self.closing {
            self.step_work();
            self.dispatch_dirty();
            self.publish_events();
            self.relieve();
            self.publish_topology();
            self.mark_delivered();
            self.shrink_cache();
        }
        let may_append = !self.failed && !self.closing;
        if may_append && self.encoder.count() > 0 && self.in_flight.len() < self.store.caps().pipelining {
            self.close_block(BlockFlags::default());
        }
        if may_append {
            self.look_at_log();
            self.keep();
        }
        self.show_feed();
        self.flush();
        Metrics::add(&self.shared.metrics.passes, 1);
    }

    /// Appends the open block.
    pub(super) fn close_block(&mut self, flags: BlockFlags) {
        let (records, count) = self.encoder.take();
        self.numbered_queues.clear();
        self.numbered_topics.clear();
        let sync = std::mem::take(&mut self.sync) || flags.clean_shutdown;
        let block = Block { first: self.first, count, time_ms: self.now.wall_ms, records, sync, flags };
        let (last, bytes) = (block.last(), block.len());
        match self.store.append(&self.claim, block) {
            Ok(pos) => {
                self.keeper.appended(pos, bytes);
                for placed in std::mem::take(&mut self.placed) {
                    let volatile = matches!(placed, Placed::Queue(queue, _) if queue.0 & VOLATILE_BIT != 0);
                    let state = if volatile { &mut self.volatile } else { &mut self.durable };
                    state.set_block(placed, pos);
                }
                let permits = std::mem::take(&mut self.permits);
                self.in_flight_bytes += bytes as u64;
                self.in_flight.push_back(InFlight { last, bytes: bytes as u64, _permits: permits });
                self.first = Lsn(last.0 + 1);
                self.watch_idle(last);
                Metrics::add(&self.shared.metrics.blocks, 1);
                self.go_on_reading();
            }
            Err(error) => self.fail(error),
        }
    }

    /// Looks later whether this was the last block for a while.
    fn watch_idle(&mut self, last: Lsn) {
        if last != self.ticked && !std::mem::replace(&mut self.idle_timer, true) {
            self.idle_seen = last;
            self.timers.add(self.now.mono_ms + IDLE_MS, Timer::Idle);
        }
    }

    /// The last group of a shard that has become idle is followed by one more block, so that a block says of it that it
    /// is durable.
    pub(super) fn maybe_idle(&mut self) {
        self.idle_timer = false;
        let last = Lsn(self.first.0 - 1);
        if self.failed || self.closing || last == self.ticked {
            return;
        }
        if last != self.idle_seen || !self.in_flight.is_empty() || self.encoder.count() > 0 {
            return self.watch_idle(last);
        }
        self.ticked = self.log(Record::Tick, None, true).0;
    }

    /// What the store says.
    pub(super) fn report(&mut self, report: Report) {
        match report {
            Report::Durable { upto } if !self.failed => self.durable(upto),
            Report::Durable { .. } => {}
            Report::Full(error) => {
                self.full = true;
                tracing::debug!(%error, "a write found no room");
                self.set_hold(Hold::DiskFull, true, 0, 0);
            }
            Report::Room => {
                self.full = false;
                self.set_hold(Hold::DiskFull, false, 0, 0);
            }
            Report::Failed(error) => self.fail(error),
        }
    }

    fn durable(&mut self, upto: Lsn) {
        let was_open = self.is_open();
        self.durable_to = self.durable_to.max(upto);
        if !was_open && self.is_open() {
            let queues: Vec<QueueId> = self.live.keys().copied().collect();
            for queue in queues {
                self.mark_dirty(queue);
            }
        }
        while let Some(block) = self.in_flight.pop_front_if(|b| b.last <= upto) {
            self.in_flight_bytes -= block.bytes;
        }
        while let Some((_, queue)) = self.opening.pop_front_if(|o| o.0 <= upto) {
            self.mark_dirty(queue);
        }
        while let Some((_, queue, seq)) = self.gated_visible.pop_front_if(|v| v.0 <= upto) {
            if let Some(live) = self.live.get_mut(&queue) {
                live.visible = seq;
            }
            self.mark_dirty(queue);
        }
        self.groups_durable(upto);
        self.open_gates();
    }

    /// The end of the shard: nothing leaves any more.
    pub(super) fn fail(&mut self, error: framegate_storage::StoreError) {
        if std::mem::replace(&mut self.failed, true) {
            return;
        }
        tracing::error!(%error, "storage failed: nothing more is confirmed; the process must be restarted");
        self.permits.clear();
        self.in_flight.clear();
        self.in_flight_bytes = 0;
        self.close_everything();
        self.shared.fail(error);
    }
}

/// How another record of the same block refers to a frame.
fn in_open_block(body: Body) -> Body {
    match body {
        Body::Here { offset, len } => {
            let block = framegate_storage::Pos(OPEN_BLOCK);
            Body::At(framegate_storage::BodyRef { block, offset, len })
        }
        other => other,
    }
}
