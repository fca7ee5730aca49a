//! Long passes in slices: what would hold up the inbox goes on a slice a pass.

use framegate_storage::Lsn;

use super::{AnswerTo, Core};
use crate::ids::{QueueId, Seq};
use crate::limits::SLICE_MESSAGES_MAX;
use crate::record::SeqSet;
use crate::request::Reply;

/// Something that goes on.
#[derive(Debug)]
pub(super) enum Work {
    /// Ready messages of a queue are removed.
    Purge {
        /// Which queue.
        queue: QueueId,
        /// Up to here.
        upto: u64,
        /// So far.
        count: u64,
        /// Who hears how many.
        to: AnswerTo,
        /// Newest record so far.
        gate: Lsn,
    },
}

impl Core {
    /// Starts to remove all ready messages of a queue. None of them is delivered any more.
    pub(super) fn purge(&mut self, to: AnswerTo, queue: QueueId) {
        let next = self.state(queue).queue(queue).map_or(1, |q| q.slots.next());
        if let Some(live) = self.live.get_mut(&queue) {
            live.purging = next - 1;
        }
        self.work.push_back(Work::Purge { queue, upto: next - 1, count: 0, to, gate: Lsn(0) });
    }

    /// One slice of the oldest work.
    pub(super) fn step_work(&mut self) {
        let Some(work) = self.work.pop_front() else { return };
        let Work::Purge { queue, upto, count, to, gate } = work;
        let seqs = self.purgeable(queue, upto);
        if seqs.is_empty() {
            if let Some(live) = self.live.get_mut(&queue).filter(|l| l.purging == upto) {
                live.purging = 0;
            }
            self.sync |= gate.0 != 0 && gate > self.durable_to;
            self.mark_dirty(queue);
            return self.answer(to, gate, Ok(Reply::Removed { messages: count }));
        }
        let count = count + seqs.len();
        for seq in seqs.iter() {
            if let Some(live) = self.live.get_mut(&queue)
                && !live.returned.remove(&seq.0)
            {
                live.cursor = live.cursor.max(seq.0 + 1);
            }
        }
        let before = self.encoder.count();
        self.remove(queue, &seqs);
        let gate = if self.encoder.count() == before { gate } else { self.newest() };
        self.work.push_front(Work::Purge { queue, upto, count, to, gate });
    }

    /// The next ready messages up to a number.
    fn purgeable(&self, queue: QueueId, upto: u64) -> SeqSet {
        let (Some(live), Some(state)) = (self.live.get(&queue), self.state(queue).queue(queue)) else {
            return SeqSet::default();
        };
        let mut seqs: Vec<Seq> =
            live.returned.range(..=upto).take(SLICE_MESSAGES_MAX).map(|s| Seq(*s)).collect();
        let mut at = live.cursor;
        while seqs.len() < SLICE_MESSAGES_MAX {
            let Some((seq, _)) = state.slots.at_or_after(at).filter(|(seq, _)| *seq <= upto) else { break };
            seqs.push(Seq(seq));
            at = seq + 1;
        }
        SeqSet::from_unsorted(seqs)
    }
}
