//! Sets of sequence numbers as runs: what acks and returns carry. In order they take 2 to 3 bytes a message.

use crate::ids::Seq;

/// Ascending runs of (first, length), none touching the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SeqSet {
    runs: smallvec::SmallVec<[(u64, u64); 2]>,
}

impl SeqSet {
    /// One sequence number.
    pub(crate) fn one(seq: Seq) -> Self {
        Self { runs: smallvec::smallvec![(seq.0, 1)] }
    }

    /// From any order; duplicates count once.
    pub(crate) fn from_unsorted(mut seqs: Vec<Seq>) -> Self {
        seqs.sort_unstable();
        seqs.dedup();
        let mut set = Self::default();
        for seq in seqs {
            set.push(seq);
        }
        set
    }

    /// Adds one that is above all others; false (and unchanged) when it is not.
    pub(crate) fn push(&mut self, seq: Seq) -> bool {
        match self.runs.last_mut() {
            Some((first, len)) if *first + *len == seq.0 => *len += 1,
            Some((first, len)) if *first + *len > seq.0 => return false,
            _ => self.runs.push((seq.0, 1)),
        }
        true
    }

    /// Adds a run that is above all others; false when it is not, is empty or passes the last number.
    pub(crate) fn push_run(&mut self, first: u64, len: u64) -> bool {
        if len == 0 || first.checked_add(len).is_none() {
            return false;
        }
        if self.runs.last().is_some_and(|(f, l)| f + l >= first) {
            return false;
        }
        self.runs.push((first, len));
        true
    }

    /// Adds a run that is above all others and may touch the last one.
    pub(crate) fn extend_run(&mut self, first: u64, len: u64) -> bool {
        match self.runs.last_mut() {
            Some((f, l)) if *f + *l == first && first.checked_add(len).is_some() => {
                *l += len;
                true
            }
            _ => self.push_run(first, len),
        }
    }

    /// That number is in it.
    pub(crate) fn contains(&self, seq: Seq) -> bool {
        let below = self.runs.partition_point(|(first, _)| *first <= seq.0);
        below.checked_sub(1).is_some_and(|at| self.runs[at].0 + self.runs[at].1 > seq.0)
    }

    /// Every number, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Seq> + '_ {
        self.runs.iter().flat_map(|(first, len)| (*first..first + len).map(Seq))
    }

    /// The runs.
    pub(crate) fn runs(&self) -> &[(u64, u64)] {
        &self.runs
    }

    /// How many numbers.
    pub(crate) fn len(&self) -> u64 {
        self.runs.iter().map(|r| r.1).sum()
    }

    /// None at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}
