//! The ready order of a queue: which message is the next one. A plain queue is a cursor over its numbers and the set of
//! those below it that are ready again; a queue with priorities has one lane per priority. Volatile: rebuilt after a start.
//!
//! Knows nothing of takers, leases and records; whoever takes a message out says what becomes of it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::ids::Seq;
use crate::properties::PriorityMode;
use crate::record::SeqSet;
use crate::state::{QueueState, Weight};

/// Messages of one priority.
#[derive(Debug, Default)]
struct Lane {
    /// Before all others, the newest first.
    newest_first: BTreeSet<u64>,
    /// In the order in which they came.
    fresh: VecDeque<u64>,
    /// Came in out of order: returned, or due after a delay.
    returned: BTreeSet<u64>,
}

impl Lane {
    /// The next one in order that is not above `visible`.
    fn first_visible(&self, visible: u64) -> Option<u64> {
        let newest = self.newest_first.range(..=visible).next_back().copied();
        newest.or_else(|| self.oldest().filter(|seq| *seq <= visible))
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.newest_first.len() + self.fresh.len() + self.returned.len()
    }

    /// The first of those that go in the order in which they came.
    fn oldest(&self) -> Option<u64> {
        match (self.fresh.front(), self.returned.first()) {
            (Some(a), Some(b)) => Some(*a.min(b)),
            (a, b) => a.or(b).copied(),
        }
    }

    fn contains(&self, seq: u64) -> bool {
        self.newest_first.contains(&seq)
            || self.returned.contains(&seq)
            || self.fresh.binary_search(&seq).is_ok()
    }

    fn remove(&mut self, seq: u64) -> bool {
        if self.fresh.front() == Some(&seq) {
            self.fresh.pop_front();
            return true;
        }
        if self.returned.remove(&seq) || self.newest_first.remove(&seq) {
            return true;
        }
        self.fresh.binary_search(&seq).ok().and_then(|at| self.fresh.remove(at)).is_some()
    }

    /// Everything, in the order in which it is given.
    fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let (mut fresh, mut returned) = (self.fresh.iter().peekable(), self.returned.iter().peekable());
        let others = std::iter::from_fn(move || match (fresh.peek(), returned.peek()) {
            (Some(a), Some(b)) if b < a => returned.next().copied(),
            (Some(_), _) => fresh.next().copied(),
            _ => returned.next().copied(),
        });
        self.newest_first.iter().rev().copied().chain(others)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Ready {
    /// Plain: nothing from here on was taken out. With priorities: above everything that was.
    cursor: u64,
    /// Plain: below the cursor, ready again.
    returned: BTreeSet<u64>,
    /// Not ready before their time.
    delayed: BTreeSet<u64>,
    /// Only with priorities; a lane that is empty is not there.
    lanes: Option<BTreeMap<Reverse<i32>, Lane>>,
    /// What the ready messages count against the byte limit.
    bytes: u64,
}

impl Ready {
    /// From this number on everything is ready; with priorities what is there has to `arrive`.
    pub(crate) fn new(first: u64, priority: PriorityMode) -> Self {
        Self {
            cursor: first,
            returned: BTreeSet::new(),
            delayed: BTreeSet::new(),
            lanes: (priority != PriorityMode::None).then(BTreeMap::new),
            bytes: 0,
        }
    }

    /// Nothing from here on was ever given to anybody.
    pub(crate) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Moves the begin, before anything was taken out.
    pub(crate) fn start_at(&mut self, first: u64) {
        self.cursor = first;
    }

    /// How many are ready with a priority above 0.
    pub(crate) fn prioritized_count(&self) -> u64 {
        let above = self.lanes.iter().flat_map(|lanes| lanes.range(..Reverse(0)));
        above.map(|(_, lane)| lane.len() as u64).sum()
    }

    /// How many there are of each priority, ready or delayed. `ready`: how many are ready, for a queue without priorities.
    pub(crate) fn by_priority(&self, queue: &QueueState, ready: u64) -> Vec<(i32, u64)> {
        let mut counts = BTreeMap::new();
        match &self.lanes {
            None => *counts.entry(0).or_default() += ready,
            Some(lanes) => {
                for (rank, lane) in lanes {
                    counts.insert(rank.0, lane.len() as u64);
                }
            }
        }
        for seq in &self.delayed {
            *counts.entry(queue.weight(Seq(*seq)).rank).or_default() += 1;
        }
        counts.retain(|_, count| *count > 0);
        counts.into_iter().collect()
    }

    /// Bytes of the ready messages, as far as they are counted.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next message in order, if it is not above `visible`. The cursor passes over those that wait for their time.
    pub(crate) fn next(&mut self, queue: &QueueState, visible: u64) -> Option<u64> {
        if let Some(lanes) = &self.lanes {
            return lanes.values().find_map(|lane| lane.first_visible(visible));
        }
        if let Some(seq) = self.returned.first() {
            return (*seq <= visible).then_some(*seq);
        }
        loop {
            let (seq, _) = queue.slots.at_or_after(self.cursor)?;
            if self.delayed.is_empty() || !self.delayed.contains(&seq) {
                return (seq <= visible).then_some(seq);
            }
            self.cursor = seq + 1;
        }
    }

    /// Takes out the message that is next; true when nobody was given it before.
    pub(crate) fn take(&mut self, seq: u64, weight: Weight) -> bool {
        self.bytes = self.bytes.saturating_sub(weight.bytes.into());
        let fresh = seq >= self.cursor;
        if self.lanes.is_some() {
            self.leave_lane(seq, weight.rank);
            self.cursor = self.cursor.max(seq + 1);
            return fresh;
        }
        if !self.returned.remove(&seq) {
            self.cursor = seq + 1;
        }
        fresh
    }

    /// A message came in, ready at once.
    pub(crate) fn arrive(&mut self, seq: u64, weight: Weight) {
        self.bytes += u64::from(weight.bytes);
        if let Some(lanes) = &mut self.lanes {
            let lane = lanes.entry(Reverse(weight.rank)).or_default();
            match weight.newest_first {
                true => {
                    lane.newest_first.insert(seq);
                }
                false => lane.fresh.push_back(seq),
            }
        }
    }

    /// A message that was taken out is ready again, at its old place.
    pub(crate) fn put_back(&mut self, seq: u64, weight: Weight) {
        self.bytes += u64::from(weight.bytes);
        match &mut self.lanes {
            Some(lanes) => {
                let lane = lanes.entry(Reverse(weight.rank)).or_default();
                let set = if weight.newest_first { &mut lane.newest_first } else { &mut lane.returned };
                set.insert(seq)
            }
            None => self.returned.insert(seq),
        };
    }

    /// A message waits for its time.
    pub(crate) fn is_delayed(&self, seq: u64) -> bool {
        self.delayed.contains(&seq)
    }

    /// A message came in that waits for its time.
    pub(crate) fn delay(&mut self, seq: u64) {
        self.delayed.insert(seq);
    }

    /// A message's time has come, whether it came in delayed or returned with a delay.
    pub(crate) fn due(&mut self, seq: u64, weight: Weight) {
        let came_delayed = self.delayed.remove(&seq);
        if came_delayed && self.lanes.is_none() && seq >= self.cursor {
            // the cursor finds it
            self.bytes += u64::from(weight.bytes);
        } else {
            self.put_back(seq, weight);
        }
    }

    /// A message is gone, wherever it stood in the order.
    pub(crate) fn forget(&mut self, seq: u64, weight: Weight) {
        if self.is_ready(seq, weight.rank) {
            self.bytes = self.bytes.saturating_sub(weight.bytes.into());
        }
        self.delayed.remove(&seq);
        self.returned.remove(&seq);
        self.leave_lane(seq, weight.rank);
    }

    fn leave_lane(&mut self, seq: u64, rank: i32) {
        let Some(lanes) = &mut self.lanes else { return };
        if let Some(lane) = lanes.get_mut(&Reverse(rank)) {
            lane.remove(seq);
            if lane.is_empty() {
                lanes.remove(&Reverse(rank));
            }
        }
    }

    /// A message that is in the queue may be given to the next taker, as far as its own time and others' leases go.
    pub(crate) fn is_ready(&self, seq: u64, rank: i32) -> bool {
        match &self.lanes {
            Some(lanes) => lanes.get(&Reverse(rank)).is_some_and(|lane| lane.contains(seq)),
            None => (seq >= self.cursor && !self.delayed.contains(&seq)) || self.returned.contains(&seq),
        }
    }

    /// Nothing below `next` is ready any more; those that wait for their time stay.
    pub(crate) fn clear(&mut self, next: u64) {
        self.cursor = next;
        self.returned.clear();
        if let Some(lanes) = &mut self.lanes {
            lanes.clear();
        }
        self.bytes = 0;
    }

    /// Everything that is ready. In a plain queue the runs may cover numbers that are gone.
    pub(crate) fn all(&self, queue: &QueueState) -> SeqSet {
        if let Some(lanes) = &self.lanes {
            return SeqSet::from_unsorted(lanes.values().flat_map(Lane::iter).map(Seq).collect());
        }
        let mut seqs = SeqSet::default();
        for seq in &self.returned {
            seqs.push(Seq(*seq));
        }
        let mut first = self.cursor;
        for end in self.delayed.range(first..).copied().chain([queue.slots.next()]) {
            if queue.slots.at_or_after(first).is_some_and(|(seq, _)| seq < end) {
                seqs.extend_run(first, end - first);
            }
            first = end + 1;
        }
        seqs
    }

    /// What is ready, in the order in which it will be given.
    pub(crate) fn upcoming<'a>(&'a self, queue: &'a QueueState) -> Box<dyn Iterator<Item = u64> + 'a> {
        if let Some(lanes) = &self.lanes {
            return Box::new(lanes.values().flat_map(Lane::iter));
        }
        let mut at = self.cursor;
        let fresh = std::iter::from_fn(move || {
            let (seq, _) = queue.slots.at_or_after(at)?;
            at = seq + 1;
            Some(seq)
        });
        Box::new(self.returned.iter().copied().chain(fresh))
    }
}
