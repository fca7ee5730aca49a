//! Long passes in slices: what would hold up the inbox goes on a slice a pass.

use std::collections::BTreeMap;

use framegate_storage::Lsn;

use super::Core;
use super::jobs::Sweep;
use super::live::Held;
use crate::ids::{QueueId, Seq};
use crate::limits::SLICE_MESSAGES_MAX;
use crate::record::{Record, SeqSet};
use crate::state::VOLATILE_BIT;

/// Something that goes on.
#[derive(Debug)]
pub(super) enum Work {
    /// Purged messages are taken out. The log knows of it already, and nobody sees them any more.
    Purge {
        /// Which queue.
        queue: QueueId,
        /// From here.
        from: u64,
        /// What was purged.
        seqs: SeqSet,
    },
    /// Leases of a lost connection return.
    GiveBack {
        /// Which queue.
        queue: QueueId,
        /// What is left of them.
        held: BTreeMap<u64, Held>,
    },
    /// Many jobs of a queue change.
    Jobs(Box<Sweep>),
}

impl Core {
    /// Removes all ready messages of a queue: from now on nobody gets them and nobody counts them. One record says so; the
    /// memory follows in slices. Gives how many.
    pub(super) fn purge(&mut self, queue: QueueId) -> u64 {
        let count = self.ready_count(queue);
        let (Some(live), Some(state)) = (self.live.get(&queue), self.state(queue).queue(queue)) else {
            return 0;
        };
        let (seqs, next) = (live.ready.all(state), state.slots.next());
        let Some(live) = self.live.get_mut(&queue).filter(|_| !seqs.is_empty()) else { return 0 };
        live.ready.clear(next);
        live.purging += count;
        if queue.0 & VOLATILE_BIT == 0 {
            self.log_unapplied(&Record::Ack { queue, seqs: seqs.clone() });
        }
        self.purge_on(queue, 0, seqs);
        count
    }

    /// One slice of the oldest work.
    pub(super) fn step_work(&mut self) {
        match self.work.pop_front() {
            Some(Work::Purge { queue, from, seqs }) => self.purge_on(queue, from, seqs),
            Some(Work::GiveBack { queue, held }) => self.give_back(queue, held),
            Some(Work::Jobs(sweep)) => self.sweep_on(*sweep),
            None => {}
        }
    }

    /// What goes on with a queue ends: it is gone, or none of its leases is to return.
    pub(super) fn void_work(&mut self, of: QueueId) {
        let tokens = &mut self.tokens;
        self.work.retain(|work| match work {
            Work::GiveBack { queue, held } if *queue == of => {
                for token in held.values().filter_map(|h| h.token) {
                    tokens.remove(&token);
                }
                false
            }
            Work::Purge { queue, .. } => *queue != of,
            Work::GiveBack { .. } | Work::Jobs(_) => true,
        });
    }

    /// Work that has begun is not done.
    pub(super) fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    fn purge_on(&mut self, queue: QueueId, from: u64, seqs: SeqSet) {
        let Some(state) = self.state(queue).queue(queue) else { return };
        let mut slice = SeqSet::default();
        let mut taken = 0;
        let mut end = None;
        'runs: for (first, len) in seqs.runs() {
            let mut at = (*first).max(from);
            while let Some((seq, _)) = state.slots.at_or_after(at).filter(|(seq, _)| *seq < first + len) {
                if taken == SLICE_MESSAGES_MAX {
                    end = Some(seq);
                    break 'runs;
                }
                slice.push(Seq(seq));
                taken += 1;
                at = seq + 1;
            }
        }
        for seq in slice.iter() {
            self.uncache(queue, seq);
            if let Some(live) = self.live.get_mut(&queue).filter(|l| !l.undeliverable.is_empty()) {
                live.undeliverable.remove(&seq.0);
            }
        }
        self.apply_unlogged(queue, Record::Ack { queue, seqs: slice });
        if let Some(live) = self.live.get_mut(&queue) {
            live.purging = live.purging.saturating_sub(taken as u64);
        }
        if let Some(from) = end {
            self.work.push_front(Work::Purge { queue, from, seqs });
        }
    }

    /// Writes a record whose effect on the state comes later.
    fn log_unapplied(&mut self, record: &Record) -> Lsn {
        self.encoder.put(record, None, 0, "");
        crate::metrics::Metrics::add(&self.shared.metrics.records, 1);
        self.newest()
    }
}
