//! Where one key, pattern or criterion leads: binding ends in the order in which the bindings were made. A change
//! copies one page, so that the ten-thousandth queue of a fanout costs what the first did.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::ids::{QueueId, TopicId, WatchId};
use crate::name::Name;

/// Entries up to which they are kept in place.
const FEW_MAX: usize = 16;
/// Entries of a page.
const PAGE: usize = 256;

/// What a binding leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// A queue.
    Queue(QueueId),
    /// An exchange of the same vhost.
    Exchange(Name),
    /// A topic.
    Topic(TopicId),
    /// A set of patterns with live subscriptions.
    Watch(WatchId),
}

/// One binding, as routing sees it. `order` is unique in its exchange and grows with each binding made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) order: u64,
    pub(super) end: End,
}

/// Entries by ascending order.
#[derive(Debug, Clone)]
pub(super) enum Entries {
    Few(SmallVec<[Entry; 1]>),
    Pages(Vec<Arc<Vec<Entry>>>),
}

impl Default for Entries {
    fn default() -> Self {
        Self::Few(SmallVec::new())
    }
}

impl Entries {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Few(few) => few.is_empty(),
            Self::Pages(pages) => pages.is_empty(),
        }
    }

    /// Adds an entry, whose order is above all others.
    pub(super) fn push(&mut self, entry: Entry) {
        match self {
            Self::Few(few) if few.len() < FEW_MAX => few.push(entry),
            Self::Few(few) => {
                let mut page = std::mem::take(few).into_vec();
                page.push(entry);
                *self = Self::Pages(vec![Arc::new(page)]);
            }
            Self::Pages(pages) => match pages.last_mut() {
                Some(last) if last.len() < PAGE => Arc::make_mut(last).push(entry),
                _ => pages.push(Arc::new(vec![entry])),
            },
        }
    }

    /// Removes the entry of that order, if it is there.
    pub(super) fn remove(&mut self, order: u64) {
        match self {
            Self::Few(few) => few.retain(|entry| entry.order != order),
            Self::Pages(pages) => {
                let after =
                    pages.partition_point(|page| page.first().is_some_and(|first| first.order <= order));
                let Some(at) = after.checked_sub(1) else { return };
                if let Ok(index) = pages[at].binary_search_by_key(&order, |entry| entry.order) {
                    Arc::make_mut(&mut pages[at]).remove(index);
                }
                if pages[at].is_empty() {
                    pages.remove(at);
                }
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        let (few, pages) = match self {
            Self::Few(few) => (few.as_slice(), &[][..]),
            Self::Pages(pages) => (&[][..], pages.as_slice()),
        };
        few.iter().chain(pages.iter().flat_map(|page| page.iter()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_over_pages_and_forgets_what_is_removed() {
        let mut entries = Entries::default();
        for order in 0..1000 {
            entries.push(Entry { order, end: End::Queue(QueueId(order as u32)) });
        }
        let snapshot = entries.clone();
        for order in (0..1000).filter(|order| order % 3 != 0) {
            entries.remove(order);
        }
        entries.remove(5000);
        assert!(entries.iter().map(|e| e.order).eq((0..1000).step_by(3)));
        assert!(snapshot.iter().map(|e| e.order).eq(0..1000));
        for order in 0..1000 {
            entries.remove(order);
        }
        assert!(entries.is_empty());
    }
}
