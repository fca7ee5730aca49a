//! States by id, in pages that go when nothing is left in them, and the numbers that ids are made of.
//!
//! Numbers are given in turn. When all have been given once, those that are free are given again in the same order, so that
//! as long as possible lies between two lives of one id. What a life counts (messages, events) begins at a multiple of
//! `LIFE_STEP` that says which life it is: nothing that speaks of an earlier one can be taken for something of the new one.

use std::sync::Arc;

/// Ids of one page.
const PAGE: u32 = 1024;
/// Ids there are.
const IDS: u32 = super::GROUP_BIT;
/// What the first message or event of an id's next life is numbered above that of the life before.
const LIFE_STEP: u64 = 1 << 40;

#[cfg(test)]
thread_local! {
    static FEWER: std::cell::Cell<u32> = const { std::cell::Cell::new(IDS) };
}

/// As if there were only so many ids, for this thread and as long as this lives.
#[cfg(test)]
#[must_use]
pub(crate) fn have_ids(count: u32) -> impl Drop {
    struct Fewer;
    impl Drop for Fewer {
        fn drop(&mut self) {
            FEWER.set(IDS);
        }
    }
    FEWER.set(count);
    Fewer
}

#[cfg(not(test))]
fn ids() -> u32 {
    IDS
}

#[cfg(test)]
fn ids() -> u32 {
    FEWER.get()
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Table<T> {
    pages: Vec<Option<Box<Page<T>>>>,
    /// Numbers given so far, those that were passed over included.
    given: u64,
}

#[derive(Debug, Clone)]
struct Page<T> {
    entries: Vec<Option<Arc<T>>>,
    count: u32,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), given: 0 }
    }
}

impl<T: Clone> Table<T> {
    /// What is there under an id.
    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        let page = self.pages.get((id / PAGE) as usize)?.as_ref()?;
        page.entries.get((id % PAGE) as usize)?.as_deref()
    }

    /// The same, to change.
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        let page = self.pages.get_mut((id / PAGE) as usize)?.as_mut()?;
        page.entries.get_mut((id % PAGE) as usize)?.as_mut().map(Arc::make_mut)
    }

    /// Puts something there.
    pub(crate) fn put(&mut self, id: u32, value: T) {
        let at = (id / PAGE) as usize;
        if self.pages.len() <= at {
            self.pages.resize_with(at + 1, || None);
        }
        let page = self.pages[at].get_or_insert_with(|| Box::new(Page { entries: Vec::new(), count: 0 }));
        let at = (id % PAGE) as usize;
        if page.entries.len() <= at {
            page.entries.resize_with(at + 1, || None);
        }
        page.count += u32::from(page.entries[at].replace(Arc::new(value)).is_none());
        self.given = self.given.max(u64::from(id) + 1);
    }

    /// Takes something out.
    pub(crate) fn take(&mut self, id: u32) -> Option<Arc<T>> {
        let slot = self.pages.get_mut((id / PAGE) as usize)?;
        let page = slot.as_mut()?;
        let taken = page.entries.get_mut((id % PAGE) as usize)?.take()?;
        page.count -= 1;
        if page.count == 0 {
            *slot = None;
        }
        Some(taken)
    }

    /// Everything, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flatten().flat_map(|page| page.entries.iter().flatten()).map(|entry| &**entry)
    }

    /// Everything, to change.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Arc<T>> {
        self.pages.iter_mut().flatten().flat_map(|page| page.entries.iter_mut().flatten())
    }

    /// The first one at or after an id.
    pub(crate) fn at_or_after(&self, id: u32) -> Option<(u32, &T)> {
        let mut from = id % PAGE;
        for at in id / PAGE..u32::try_from(self.pages.len()).unwrap_or(u32::MAX) {
            if let Some(page) = &self.pages[at as usize] {
                let entries = page.entries.iter().enumerate().skip(from as usize);
                if let Some((n, entry)) = entries.flat_map(|(n, e)| e.as_ref().map(|e| (n, e))).next() {
                    return Some((at * PAGE + u32::try_from(n).unwrap_or(0), &**entry));
                }
            }
            from = 0;
        }
        None
    }

    /// The id that comes next; `None`: all are used.
    pub(crate) fn next(&self) -> Option<u32> {
        let count = u64::from(ids());
        let id = |number: u64| u32::try_from(number % count).unwrap_or(0);
        (self.given..self.given + count).map(id).find(|id| self.get(*id).is_none())
    }

    /// An id was given to something new; gives the number before the first of what it will count.
    pub(crate) fn give(&mut self, id: u32) -> u64 {
        let count = u64::from(ids());
        let ahead = (u64::from(id) + count - self.given % count) % count;
        let number = self.given + ahead;
        self.given = number + 1;
        number / count * LIFE_STEP
    }

    /// Numbers given so far.
    pub(crate) fn given(&self) -> u64 {
        self.given
    }

    /// So many numbers were given.
    pub(crate) fn have_given(&mut self, given: u64) {
        self.given = self.given.max(given);
    }

    /// Pages in memory.
    #[cfg(test)]
    fn pages(&self) -> usize {
        self.pages.iter().flatten().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_with_what_was_in_them_and_ids_are_given_in_turn() {
        let mut table = Table::default();
        for n in 0..10_000 {
            let id = table.next().expect("free");
            assert_eq!((id, table.give(id)), (n, 0));
            table.put(id, n);
            if n % 1000 != 999 {
                table.take(id);
            }
        }
        assert_eq!(
            table.iter().copied().collect::<Vec<_>>(),
            (0..10).map(|n| n * 1000 + 999).collect::<Vec<_>>()
        );
        assert_eq!(table.at_or_after(1000), Some((1999, &1999)));
        assert_eq!(table.at_or_after(9999), Some((9999, &9999)));
        assert_eq!(table.at_or_after(10_000), None);
        table.take(9999);
        assert_eq!(table.pages(), 9);
    }

    #[test]
    fn ids_come_again_when_all_were_given_and_each_life_counts_from_another_number() {
        let _few = have_ids(4);
        let mut table = Table::default();
        for id in 0..4 {
            assert_eq!((table.next(), table.give(id)), (Some(id), 0));
            table.put(id, ());
        }
        assert_eq!(table.next(), None);
        table.take(2);
        assert_eq!((table.next(), table.give(2)), (Some(2), LIFE_STEP));
        table.put(2, ());
        table.take(1);
        table.take(2);
        assert_eq!((table.next(), table.give(1)), (Some(1), 2 * LIFE_STEP));
    }
}
