//! A consumer group as the log knows it: what it is, its floor, what is settled above, which events failed. No members,
//! no leases.

use std::collections::BTreeMap;

use super::runs::Runs;
use crate::group::{GroupCounts, GroupSpec};
use crate::ids::{QueueId, TopicId};
use crate::name::Name;
use crate::record::{Record, SeqSet, Settled};

/// An event that failed and is not settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Failed {
    /// Failed deliveries.
    pub(crate) attempts: u32,
    /// Not delivered again before, in ms since the Unix epoch.
    pub(crate) due_ms: u64,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct GroupState {
    /// Its id, among those of queues.
    pub(crate) id: QueueId,
    /// Of which topic.
    pub(crate) topic: TopicId,
    /// Where.
    pub(crate) vhost: Name,
    /// What it is.
    pub(crate) spec: GroupSpec,
    /// What became of events.
    pub(crate) counts: GroupCounts,
    /// Every offset below it may have been seen.
    pub(crate) seen: u64,
    floor: u64,
    settled: Runs,
    failed: BTreeMap<u64, Failed>,
}

impl GroupState {
    /// Nothing is settled from `floor` on.
    pub(crate) fn new(id: QueueId, topic: TopicId, vhost: Name, spec: GroupSpec, floor: u64) -> Self {
        let (settled, failed) = (Runs::default(), BTreeMap::new());
        Self { id, topic, vhost, spec, counts: GroupCounts::default(), seen: 0, floor, settled, failed }
    }

    /// Everything below it is settled.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// What is settled above the floor.
    pub(crate) fn settled(&self) -> &Runs {
        &self.settled
    }

    /// Not settled, whether the topic has it or not.
    pub(crate) fn is_open(&self, offset: u64) -> bool {
        offset >= self.floor && !self.settled.contains(offset)
    }

    /// The first offset at or above one that is not settled.
    pub(crate) fn next_open(&self, offset: u64) -> u64 {
        self.settled.next_free(offset.max(self.floor))
    }

    /// How often a delivery of an event failed.
    pub(crate) fn attempts(&self, offset: u64) -> u32 {
        self.failed.get(&offset).map_or(0, |f| f.attempts)
    }

    /// Events that failed and are not settled.
    pub(crate) fn failed(&self) -> impl Iterator<Item = (u64, Failed)> + '_ {
        self.failed.iter().map(|(offset, failed)| (*offset, *failed))
    }

    /// These are settled.
    pub(super) fn settle(&mut self, runs: &[(u64, u64)], how: Settled) {
        let mut added = 0;
        for (first, len) in runs {
            let (first, end) = ((*first).max(self.floor), first.saturating_add(*len));
            added += self.settled.insert(first, end);
            let gone: Vec<u64> = self.failed.range(first.min(end)..end).map(|f| *f.0).collect();
            for offset in gone {
                self.failed.remove(&offset);
            }
        }
        if let Some(end) = self.settled.take_from(self.floor) {
            self.floor = end;
        }
        let counts = &mut self.counts;
        match how {
            Settled::Acked => {}
            Settled::Skipped => counts.skipped += added,
            Settled::Expired => counts.expired += added,
            Settled::DeadLettered => counts.dead_lettered += added,
            Settled::Dropped => counts.dropped += added,
            Settled::DroppedNested => counts.dropped_nested += added,
            Settled::Damaged => counts.damaged += added,
        }
    }

    /// A delivery of this one failed.
    pub(super) fn fail(&mut self, offset: u64, due_ms: u64) {
        if self.is_open(offset) {
            let failed = self.failed.entry(offset).or_insert(Failed { attempts: 0, due_ms });
            failed.attempts = failed.attempts.saturating_add(1);
            failed.due_ms = due_ms;
        }
    }

    /// The records that say all of it: for a snapshot.
    pub(crate) fn records(&self) -> [Record; 2] {
        let Self { id, topic, vhost, spec, counts, seen, floor, settled, failed } = self;
        let mut runs = SeqSet::default();
        for (first, end) in settled.iter() {
            runs.push_run(first, end - first);
        }
        let failed = failed.iter().map(|(offset, f)| (*offset, f.attempts, f.due_ms)).collect();
        let (id, topic, vhost, floor) = (*id, *topic, vhost.clone(), *floor);
        [
            Record::DefineGroup { id, topic, vhost, spec: Box::new(spec.clone()), floor },
            Record::GroupStands { id, seen: *seen, counts: *counts, settled: runs, failed },
        ]
    }

    /// What a snapshot remembers.
    pub(super) fn restore(
        &mut self,
        seen: u64,
        counts: GroupCounts,
        settled: &[(u64, u64)],
        failed: &[(u64, u32, u64)],
    ) {
        self.settle(settled, Settled::Acked);
        (self.seen, self.counts) = (seen, counts);
        let failed = failed.iter().filter(|f| self.is_open(f.0));
        self.failed = failed
            .map(|(o, attempts, due_ms)| (*o, Failed { attempts: *attempts, due_ms: *due_ms }))
            .collect();
    }

    /// Everything is open from `floor` on.
    pub(super) fn seek(&mut self, floor: u64) {
        self.floor = floor;
        self.settled = Runs::default();
        self.failed.clear();
    }

    /// The topic keeps nothing below `first` any more.
    pub(super) fn retain(&mut self, first: u64) {
        if first > self.floor {
            let settled = self.settled.remove_below(first);
            self.counts.lost += first - self.floor - settled;
            self.floor = self.settled.take_from(first).unwrap_or(first);
            self.failed = self.failed.split_off(&self.floor);
        }
    }
}

#[cfg(test)]
mod tests {
    use framegate_storage::Lsn;

    use super::*;
    use crate::ids::Seq;
    use crate::state::{At, GROUP_BIT, State};

    fn set(offsets: &[u64]) -> SeqSet {
        SeqSet::from_unsorted(offsets.iter().map(|o| Seq(*o)).collect())
    }

    fn apply(state: &mut State, record: Record) {
        state.apply(record, At { lsn: Lsn(1), block: 7, logged: true });
    }

    fn group() -> (State, QueueId) {
        let (mut state, id) = (State::default(), QueueId(GROUP_BIT | 3));
        let name = Name::from_static;
        let spec = Box::new(GroupSpec::new(name("t"), name("g")));
        apply(&mut state, Record::DefineGroup { id, topic: TopicId(0), vhost: name("/"), spec, floor: 10 });
        (state, id)
    }

    #[test]
    fn the_floor_moves_over_what_is_settled_and_failures_end_with_it() {
        let (mut state, id) = group();
        apply(&mut state, Record::FailGroup { id, failed: vec![(9, 0), (10, 0), (12, 55)] });
        apply(&mut state, Record::FailGroup { id, failed: vec![(12, 77)] });
        let ack = |offsets: &[u64]| Record::SettleGroup { id, how: Settled::Acked, offsets: set(offsets) };
        apply(&mut state, ack(&[11, 13]));
        let g = state.group(id).expect("there");
        assert_eq!(
            (g.floor(), g.settled().len(), g.attempts(9), g.attempts(10), g.attempts(12)),
            (10, 2, 0, 1, 2)
        );
        assert_eq!((g.next_open(0), g.next_open(11), g.next_open(13)), (10, 12, 14));
        apply(&mut state, ack(&[10]));
        let g = state.group(id).expect("there");
        assert_eq!((g.floor(), g.settled().len(), g.failed().count()), (12, 1, 1));
        apply(&mut state, Record::SettleGroup { id, how: Settled::Expired, offsets: set(&[5, 12]) });
        let g = state.group(id).expect("there");
        assert_eq!((g.floor(), g.settled().len(), g.failed().count(), g.counts.expired), (14, 0, 0, 1));
    }

    #[test]
    fn what_is_remembered_comes_back_from_its_records() {
        let (mut state, id) = group();
        apply(&mut state, Record::FailGroup { id, failed: vec![(10, 0), (12, 55)] });
        apply(&mut state, Record::SettleGroup { id, how: Settled::Skipped, offsets: set(&[11, 14, 15]) });
        apply(&mut state, Record::Delivered { queue: id, upto: Seq(20) });
        let mut again = State::default();
        for record in state.group(id).expect("there").records() {
            apply(&mut again, record);
        }
        assert_eq!(state.content_hash(), again.content_hash());
        assert_eq!(again.group(id).map(|g| (g.counts.skipped, g.seen, g.attempts(12))), Some((3, 21, 1)));
    }
}
