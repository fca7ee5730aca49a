//! Deliveries that a client has not settled: the session's tag of each, and what the broker calls it. One ring per channel
//! (or connection); an entry is 24 bytes and never an allocation of its own. Holds no message.
//!
//! The table is as large as what the broker leased, so its bound is the consumers' prefetch and the connection's window.

use std::collections::VecDeque;

use framegate_broker::{ConsumerId, Seq};
use uuid::Uuid;

/// Settled entries that may lie between live ones before the ring is packed: as many as live ones, and this.
const HOLES_SLACK: usize = 64;

/// A tag that names no unsettled delivery.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnackedError {
    /// No delivery had this tag yet.
    #[error("delivery tag {0} was never given")]
    NeverGiven(u64),
    /// It was settled before, or its delivery is gone.
    #[error("delivery tag {0} is settled already")]
    Settled(u64),
    /// Not a tag of this session at all.
    #[error("delivery tag '{0}' is unknown")]
    Foreign(String),
}

/// What one settlement covers: positions of one consumer, in order of delivery.
pub type ConsumerSeqs = (ConsumerId, Vec<Seq>);

#[derive(Debug, Clone, Copy)]
struct Entry {
    tag: u64,
    seq: Seq,
    consumer: ConsumerId,
    live: bool,
}

/// Unsettled deliveries by tags 1, 2, 3, ...
#[derive(Debug, Default)]
pub struct Unacked {
    /// Sorted by tag; the first entry is live.
    ring: VecDeque<Entry>,
    live: usize,
    last: u64,
}

impl Unacked {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a delivery and gives its tag.
    pub fn push(&mut self, consumer: ConsumerId, seq: Seq) -> u64 {
        self.last += 1;
        self.ring.push_back(Entry { tag: self.last, seq, consumer, live: true });
        self.live += 1;
        self.last
    }

    /// Gives a tag to a delivery that needs no settlement (auto-ack).
    pub fn skip(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// What a tag stands for.
    ///
    /// # Errors
    /// `NeverGiven` or `Settled`.
    pub fn get(&self, tag: u64) -> Result<(ConsumerId, Seq), UnackedError> {
        let entry = self.find(tag).and_then(|at| self.ring.get(at)).filter(|e| e.live);
        entry.map(|e| (e.consumer, e.seq)).ok_or_else(|| self.unknown(tag))
    }

    /// Takes one delivery out.
    ///
    /// # Errors
    /// `NeverGiven` or `Settled`; then nothing has changed.
    pub fn take(&mut self, tag: u64) -> Result<(ConsumerId, Seq), UnackedError> {
        let at = self.find(tag).ok_or_else(|| self.unknown(tag))?;
        let Some(entry) = self.ring.get_mut(at).filter(|e| e.live) else { return Err(self.unknown(tag)) };
        entry.live = false;
        let taken = (entry.consumer, entry.seq);
        self.live -= 1;
        self.pack();
        Ok(taken)
    }

    /// Takes everything up to and including a tag out ("multiple"), grouped by consumer in order of first appearance. The
    /// tag itself may be settled already, as long as something before it is not.
    ///
    /// # Errors
    /// `NeverGiven` for a tag above the last one, `Settled` when nothing is left up to the tag; then nothing has
    /// changed.
    pub fn take_upto(&mut self, tag: u64) -> Result<Vec<ConsumerSeqs>, UnackedError> {
        if tag > self.last || self.ring.front().is_none_or(|first| first.tag > tag) {
            return Err(self.unknown(tag));
        }
        let count = self.ring.partition_point(|e| e.tag <= tag);
        Ok(self.drain(count))
    }

    /// Takes everything out, grouped by consumer; also nothing.
    pub fn take_all(&mut self) -> Vec<ConsumerSeqs> {
        self.drain(self.ring.len())
    }

    /// Forgets what one consumer holds: its leases are gone.
    pub fn forget(&mut self, consumer: ConsumerId) {
        self.ring.retain(|e| e.live && e.consumer != consumer);
        self.live = self.ring.len();
    }

    /// What one consumer holds is another's from now on.
    pub fn hand_over(&mut self, from: ConsumerId, to: ConsumerId) {
        for entry in self.ring.iter_mut().filter(|entry| entry.consumer == from) {
            entry.consumer = to;
        }
    }

    /// What is unsettled, in order of delivery: tag and holder.
    pub fn holders(&self) -> impl Iterator<Item = (u64, ConsumerId)> {
        self.ring.iter().filter(|entry| entry.live).map(|entry| (entry.tag, entry.consumer))
    }

    /// The last tag that was given; 0 at first.
    #[must_use]
    pub fn last_tag(&self) -> u64 {
        self.last
    }

    /// The oldest tag that is unsettled.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.ring.front().map(|entry| entry.tag)
    }

    /// How many are unsettled.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether all are settled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    fn find(&self, tag: u64) -> Option<usize> {
        let first = self.ring.front()?.tag;
        let guess = usize::try_from(tag.checked_sub(first)?).ok()?;
        if self.ring.get(guess).is_some_and(|e| e.tag == tag) {
            return Some(guess);
        }
        self.ring.binary_search_by_key(&tag, |e| e.tag).ok()
    }

    fn unknown(&self, tag: u64) -> UnackedError {
        if tag == 0 || tag > self.last { UnackedError::NeverGiven(tag) } else { UnackedError::Settled(tag) }
    }

    fn drain(&mut self, count: usize) -> Vec<ConsumerSeqs> {
        let mut taken: Vec<ConsumerSeqs> = Vec::new();
        for entry in self.ring.drain(..count).filter(|e| e.live) {
            self.live -= 1;
            match taken.iter_mut().find(|(consumer, _)| *consumer == entry.consumer) {
                Some((_, seqs)) => seqs.push(entry.seq),
                None => taken.push((entry.consumer, vec![entry.seq])),
            }
        }
        self.pack();
        taken
    }

    /// Drops settled entries at the front, and all of them when they outnumber the live ones.
    fn pack(&mut self) {
        while self.ring.front().is_some_and(|e| !e.live) {
            self.ring.pop_front();
        }
        if self.ring.len() - self.live > self.live + HOLES_SLACK {
            self.ring.retain(|e| e.live);
        }
        if self.ring.is_empty() && self.ring.capacity() > HOLES_SLACK {
            self.ring = VecDeque::new();
        }
    }
}

/// Unsettled deliveries by tags that look like UUIDs. The tags of one table are a counter beside 60 random bits, so they
/// cost no randomness each, and a tag of another session is not found here.
#[derive(Debug)]
pub struct UnackedUuids {
    high: u64,
    inner: Unacked,
}

/// Version 8 (custom) in the upper half of a UUID, variant 1 in the lower half.
const VERSION_MASK: u64 = 0xf000;
const VERSION: u64 = 0x8000;
const VARIANT: u64 = 1 << 63;
const COUNTER_MASK: u64 = (1 << 62) - 1;

impl UnackedUuids {
    /// An empty table with tags of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::with_random(Uuid::new_v4().as_u64_pair().0)
    }

    /// As `new`, with the random bits given: for tests that compare bytes.
    #[must_use]
    pub fn with_random(random: u64) -> Self {
        Self { high: random & !VERSION_MASK | VERSION, inner: Unacked::new() }
    }

    /// Adds a delivery and gives its tag.
    pub fn push(&mut self, consumer: ConsumerId, seq: Seq) -> Uuid {
        let number = self.inner.push(consumer, seq);
        self.tag(number)
    }

    /// Gives a tag to a delivery that needs no settlement (auto-ack).
    pub fn skip(&mut self) -> Uuid {
        let number = self.inner.skip();
        self.tag(number)
    }

    /// Takes one delivery out, by the text of its tag (any of the usual UUID spellings).
    ///
    /// # Errors
    /// `Foreign` for text that is no tag of this session, else `NeverGiven` or `Settled`; then nothing has changed.
    pub fn take(&mut self, tag: &str) -> Result<(ConsumerId, Seq), UnackedError> {
        let number = self.number(tag)?;
        self.inner.take(number).map_err(|_| Self::foreign(tag))
    }

    /// What a tag stands for.
    ///
    /// # Errors
    /// As `take`.
    pub fn get(&self, tag: &str) -> Result<(ConsumerId, Seq), UnackedError> {
        let number = self.number(tag)?;
        self.inner.get(number).map_err(|_| Self::foreign(tag))
    }

    /// The table behind it: everything that does not need the text of a tag.
    pub fn numbered(&mut self) -> &mut Unacked {
        &mut self.inner
    }

    /// How many are unsettled.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// Whether all are settled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    fn tag(&self, number: u64) -> Uuid {
        Uuid::from_u64_pair(self.high, number & COUNTER_MASK | VARIANT)
    }

    fn number(&self, tag: &str) -> Result<u64, UnackedError> {
        let (high, low) = Uuid::try_parse(tag).map_err(|_| Self::foreign(tag))?.as_u64_pair();
        let number = low & COUNTER_MASK;
        if high != self.high || number | VARIANT != low {
            return Err(Self::foreign(tag));
        }
        Ok(number)
    }

    fn foreign(tag: &str) -> UnackedError {
        UnackedError::Foreign(tag.chars().take(80).collect())
    }
}

impl Default for UnackedUuids {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ConsumerId = ConsumerId(1);
    const B: ConsumerId = ConsumerId(2);

    fn table(count: u64) -> Unacked {
        let mut table = Unacked::new();
        for seq in 1..=count {
            table.push(if seq % 2 == 1 { A } else { B }, Seq(seq + 100));
        }
        table
    }

    #[test]
    fn tag_is_taken_once() {
        let mut table = table(3);
        assert_eq!(table.take(2), Ok((B, Seq(102))));
        assert_eq!(table.take(2), Err(UnackedError::Settled(2)));
        assert_eq!(table.oldest(), Some(1));
        assert_eq!(table.take(4), Err(UnackedError::NeverGiven(4)));
        assert_eq!(table.take(0), Err(UnackedError::NeverGiven(0)));
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn multiple_groups_by_consumer_and_skips_settled_ones() {
        let mut table = table(6);
        table.take(3).unwrap();
        assert_eq!(
            table.take_upto(5),
            Ok(vec![(A, vec![Seq(101), Seq(105)]), (B, vec![Seq(102), Seq(104)])])
        );
        assert_eq!(table.take_upto(5), Err(UnackedError::Settled(5)));
        assert_eq!(table.take_upto(7), Err(UnackedError::NeverGiven(7)));
        assert_eq!(table.take_all(), vec![(B, vec![Seq(106)])]);
        assert!(table.take_all().is_empty());
    }

    #[test]
    fn one_stuck_delivery_does_not_keep_the_settled_ones() {
        let mut table = Unacked::new();
        table.push(A, Seq(1));
        for seq in 2..100_000 {
            let tag = table.push(B, Seq(seq));
            assert_eq!(table.take(tag), Ok((B, Seq(seq))));
        }
        assert!(table.ring.len() <= 2 * HOLES_SLACK, "{}", table.ring.len());
        assert_eq!(table.take(1), Ok((A, Seq(1))));
        assert!(table.is_empty());
    }

    #[test]
    fn forgotten_consumer_leaves_the_others() {
        let mut table = table(4);
        table.forget(A);
        assert_eq!(table.take(1), Err(UnackedError::Settled(1)));
        assert_eq!(table.take_all(), vec![(B, vec![Seq(102), Seq(104)])]);
    }

    #[test]
    fn uuid_tags_are_found_by_their_text_only_in_their_session() {
        let (mut mine, mut other) = (UnackedUuids::with_random(7), UnackedUuids::with_random(8));
        let tag = mine.push(A, Seq(5)).to_string();
        let foreign = other.push(A, Seq(5)).to_string();
        assert_eq!(mine.get(&tag), Ok((A, Seq(5))));
        assert_eq!(mine.take(&foreign), Err(UnackedError::Foreign(foreign)));
        assert_eq!(mine.take("nonsense"), Err(UnackedError::Foreign("nonsense".into())));
        assert_eq!(mine.take(&tag.to_uppercase()), Ok((A, Seq(5))));
        assert_eq!(mine.take(&tag), Err(UnackedError::Foreign(tag.clone())));
        assert_eq!(Uuid::parse_str(&tag).unwrap().get_version_num(), 8);
    }
}
