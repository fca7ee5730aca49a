//! Deliveries that the client has not settled, by tags that look like UUIDs. One table a consumer, since `multiple` means the
//! earlier deliveries of the same consumer. Holds no message.
//!
//! ```text
//! bits   what
//! 60     random, the same for all tags of a connection     (with version 8: 64 bits)
//! 2      variant
//! 24     consumer
//! 38     counter of that consumer, from 1                   (these three: 64 bits)
//! ```

use std::collections::HashMap;

use framegate_adaptor_api::Unacked;
use framegate_broker::{ConsumerId, Seq};
use uuid::Uuid;

/// Largest consumer number that a tag can name.
pub(crate) const CONSUMER_MAX: u32 = (1 << CONSUMER_BITS) - 1;

const CONSUMER_BITS: u32 = 24;
const COUNTER_BITS: u32 = 38;
const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;
const VARIANT: u64 = 1 << 63;
const VERSION_MASK: u64 = 0xF000;
const VERSION: u64 = 0x8000;

/// A tag as the broker's consumer and the place in its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) consumer: ConsumerId,
    number: u64,
}

/// The table of a connection.
#[derive(Debug)]
pub(crate) struct Unsettled {
    high: u64,
    by_consumer: HashMap<ConsumerId, Unacked>,
}

impl Unsettled {
    /// An empty table; `random` makes its tags unlike those of other connections.
    pub(crate) fn new(random: u64) -> Self {
        Self { high: random & !VERSION_MASK | VERSION, by_consumer: HashMap::new() }
    }

    /// Adds a delivery, or only makes a tag for one that needs no settlement (None).
    pub(crate) fn push(&mut self, consumer: ConsumerId, seq: Option<Seq>) -> Uuid {
        let table = self.by_consumer.entry(consumer).or_default();
        let number = match seq {
            Some(seq) => table.push(consumer, seq),
            None => table.skip(),
        };
        let low = u64::from(consumer.0) << COUNTER_BITS | number & COUNTER_MASK;
        Uuid::from_u64_pair(self.high, low | VARIANT)
    }

    /// Takes the delivery back that was pushed last: it was not sent.
    pub(crate) fn take_back(&mut self, tag: Uuid) {
        if let Some(tag) = self.parse(tag) {
            let _ = self.take(tag);
        }
    }

    /// An outstanding delivery by its tag's text.
    pub(crate) fn find(&self, text: &str) -> Option<Tag> {
        let tag = self.parse(Uuid::try_parse(text).ok()?)?;
        let table = self.by_consumer.get(&tag.consumer)?;
        table.get(tag.number).ok().map(|_| tag)
    }

    /// Takes one out; None: it is out already.
    pub(crate) fn take(&mut self, tag: Tag) -> Option<Seq> {
        self.by_consumer.get_mut(&tag.consumer)?.take(tag.number).ok().map(|(_, seq)| seq)
    }

    /// Takes it and all earlier ones of its consumer out, in order of delivery.
    pub(crate) fn take_upto(&mut self, tag: Tag) -> Vec<Seq> {
        let taken = self.by_consumer.get_mut(&tag.consumer).map(|table| table.take_upto(tag.number));
        taken.and_then(Result::ok).unwrap_or_default().into_iter().flat_map(|(_, seqs)| seqs).collect()
    }

    /// Takes everything out: the broker has it back.
    pub(crate) fn clear(&mut self) {
        for table in self.by_consumer.values_mut() {
            let _ = table.take_all();
        }
    }

    /// Frees the table of a consumer that has ended, when nothing is in it.
    pub(crate) fn end(&mut self, consumer: ConsumerId) {
        if self.by_consumer.get(&consumer).is_some_and(Unacked::is_empty) {
            self.by_consumer.remove(&consumer);
        }
    }

    /// How many are outstanding.
    pub(crate) fn len(&self) -> usize {
        self.by_consumer.values().map(Unacked::len).sum()
    }

    fn parse(&self, tag: Uuid) -> Option<Tag> {
        let (high, low) = tag.as_u64_pair();
        let consumer = ConsumerId((low >> COUNTER_BITS & u64::from(CONSUMER_MAX)) as u32);
        (high == self.high && low >> 62 == 2).then_some(Tag { consumer, number: low & COUNTER_MASK })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ConsumerId = ConsumerId(0);
    const B: ConsumerId = ConsumerId(CONSUMER_MAX);

    #[test]
    fn tag_is_a_uuid_that_is_taken_once_and_only_by_its_connection() {
        let (mut mine, mut other) = (Unsettled::new(7), Unsettled::new(8));
        let tag = mine.push(B, Some(Seq(5)));
        assert_eq!(tag.get_version_num(), 8);
        let found = mine.find(&tag.to_string()).unwrap();
        assert_eq!(found.consumer, B);
        let foreign = other.push(B, Some(Seq(5)));
        assert_eq!(mine.find(&foreign.to_string()), None);
        assert_eq!(mine.find("zzz"), None);
        assert_eq!(mine.take(found), Some(Seq(5)));
        assert_eq!(mine.find(&tag.to_string()), None);
        assert_eq!(mine.take(found), None);
    }

    #[test]
    fn multiple_takes_the_earlier_ones_of_the_same_consumer_only() {
        let mut table = Unsettled::new(1);
        let tags: Vec<_> =
            (1..=6).map(|seq| table.push(if seq % 2 == 0 { A } else { B }, Some(Seq(seq)))).collect();
        let fourth = table.find(&tags[3].to_string()).unwrap();
        assert_eq!(table.take_upto(fourth), [Seq(2), Seq(4)]);
        assert_eq!(table.len(), 4);
        table.clear();
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn tag_without_settlement_is_not_outstanding() {
        let mut table = Unsettled::new(1);
        let tag = table.push(A, None);
        assert_eq!(table.find(&tag.to_string()), None);
        assert_ne!(table.push(A, None), tag);
    }
}
