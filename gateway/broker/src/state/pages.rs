//! A ring of `Arc` pages of 1024 entries, indexed by a dense number. A snapshot clones page pointers; a change copies a
//! page that is shared. The front advances over entries that are gone; a page behind it of which all are gone takes no
//! memory, so that one entry that stays does not keep those that passed it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::limits::PAGE_ENTRIES;

const SIZE: u64 = PAGE_ENTRIES as u64;

/// An entry that can be gone.
pub(crate) trait Gone: Clone {
    /// The entry that holds a place open.
    fn gone() -> Self;
    /// Nothing is here (any more).
    fn is_gone(&self) -> bool;
}

/// Entries, none of them stored when all are gone and others follow on a later page.
#[derive(Debug, Clone)]
struct Page<T> {
    entries: Vec<T>,
    /// Entries that are there.
    live: usize,
}

impl<T> Page<T> {
    const EMPTY: Self = Self { entries: Vec::new(), live: 0 };
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Pages<T> {
    pages: VecDeque<Arc<Page<T>>>,
    /// Number of the first entry of the first page; a multiple of the page size.
    base: u64,
    /// No entry below it is there.
    first: u64,
    /// Number after the last entry.
    next: u64,
}

impl<T: Gone> Pages<T> {
    /// Empty; the first entry gets this number.
    pub(crate) fn starting_at(first: u64) -> Self {
        Self { pages: VecDeque::new(), base: first / SIZE * SIZE, first, next: first }
    }

    /// Number that the next entry gets.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Lowest number that may be there.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Puts an entry at `number`; numbers that are passed over are gone. Below `next`, it replaces nothing: ignored.
    pub(crate) fn put(&mut self, number: u64, entry: T) {
        if number < self.next {
            return;
        }
        if self.pages.is_empty() {
            self.base = number / SIZE * SIZE;
            self.first = number;
        }
        if self.base + self.pages.len() as u64 * SIZE <= number
            && let Some(last) = self.pages.back_mut().filter(|last| last.live == 0)
        {
            *last = Arc::new(Page::EMPTY);
        }
        while self.base + self.pages.len() as u64 * SIZE <= number {
            self.pages.push_back(Arc::new(Page::EMPTY));
        }
        let page = Arc::make_mut(self.pages.back_mut().expect("a page for the number was pushed"));
        if page.entries.capacity() == 0 {
            page.entries.reserve_exact(PAGE_ENTRIES);
        }
        let at = (number % SIZE) as usize;
        page.entries.resize_with(at, T::gone);
        page.live += usize::from(!entry.is_gone());
        page.entries.push(entry);
        self.next = number + 1;
    }

    /// Numbers below this are passed over.
    pub(crate) fn skip_to(&mut self, number: u64) {
        self.next = self.next.max(number);
        if self.pages.is_empty() {
            self.first = self.next;
        }
    }

    /// An entry that is there.
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let offset = number.checked_sub(self.base)?;
        self.pages
            .get((offset / SIZE) as usize)?
            .entries
            .get((offset % SIZE) as usize)
            .filter(|e| !e.is_gone())
    }

    /// An entry that is there, to change.
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let offset = number.checked_sub(self.base)?;
        let page = self.pages.get_mut((offset / SIZE) as usize)?;
        Arc::make_mut(page).entries.get_mut((offset % SIZE) as usize).filter(|e| !e.is_gone())
    }

    /// Takes an entry out; the front advances when it was the first.
    pub(crate) fn take(&mut self, number: u64) -> Option<T> {
        let taken = std::mem::replace(self.get_mut(number)?, T::gone());
        let at = ((number - self.base) / SIZE) as usize;
        let is_last = at + 1 == self.pages.len();
        if let Some(page) = self.pages.get_mut(at) {
            let own = Arc::make_mut(page);
            own.live -= 1;
            if own.live == 0 && !is_last {
                *own = Page::EMPTY;
            }
        }
        if number == self.first {
            self.advance();
        }
        Some(taken)
    }

    /// The first entry at or above a number.
    pub(crate) fn at_or_after(&self, number: u64) -> Option<(u64, &T)> {
        let mut number = number.max(self.first);
        while number < self.next {
            let offset = number - self.base;
            let page = &self.pages.get((offset / SIZE) as usize)?.entries;
            let from = (offset % SIZE) as usize;
            if let Some(found) = page.get(from..).and_then(|rest| rest.iter().position(|e| !e.is_gone())) {
                return Some((number + found as u64, &page[from + found]));
            }
            number = (number / SIZE + 1) * SIZE;
        }
        None
    }

    /// Memory that the entries take, in bytes.
    pub(crate) fn stored_bytes(&self) -> u64 {
        let entries: usize = self.pages.iter().map(|page| page.entries.capacity()).sum();
        (entries * size_of::<T>()) as u64
    }

    /// Everything that is there, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let mut at = self.first;
        std::iter::from_fn(move || {
            let (number, entry) = self.at_or_after(at)?;
            at = number + 1;
            Some((number, entry))
        })
    }

    fn advance(&mut self) {
        self.first = self.at_or_after(self.first).map_or(self.next, |(number, _)| number);
        while self.first >= self.base + SIZE && self.pages.pop_front().is_some() {
            self.base += SIZE;
        }
        if self.pages.is_empty() {
            self.base = self.first / SIZE * SIZE;
        }
        // an emptied last page is filled on: its numbers go on
        if self.first == self.next && self.next.is_multiple_of(SIZE) {
            self.pages.clear();
            self.base = self.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Cell(u64);
    impl Gone for Cell {
        fn gone() -> Self {
            Self(0)
        }
        fn is_gone(&self) -> bool {
            self.0 == 0
        }
    }

    #[test]
    fn one_entry_that_stays_does_not_keep_the_pages_of_those_that_passed_it() {
        let mut pages = Pages::starting_at(1);
        pages.put(1, Cell(1));
        for number in 2..100 * SIZE {
            pages.put(number, Cell(number));
            if number % 2 == 0 {
                assert_eq!(pages.take(number), Some(Cell(number)));
            } else if number > 3 {
                assert_eq!(pages.take(number - 2), Some(Cell(number - 2)));
            }
        }
        let stored = pages.pages.iter().filter(|page| page.entries.capacity() > 0).count();
        assert!(stored <= 2, "{stored} pages for two entries");
        assert_eq!(pages.iter().map(|(n, _)| n).collect::<Vec<_>>(), [1, 100 * SIZE - 1]);
        assert_eq!(pages.get(50 * SIZE), None);
        assert_eq!(pages.take(50 * SIZE), None);
        assert_eq!(pages.take(1), Some(Cell(1)));
        assert_eq!(pages.first(), 100 * SIZE - 1);
    }

    proptest::proptest! {
        #[test]
        fn it_behaves_like_a_sorted_map(start in 1_u64..3000, steps in proptest::collection::vec((0_u8..10, 0_u64..1500), 1..400)) {
            let mut pages = Pages::starting_at(start);
            let mut model = std::collections::BTreeMap::new();
            for (what, n) in steps {
                let next = pages.next();
                match what {
                    0..=4 => {
                        pages.put(next, Cell(next));
                        model.insert(next, next);
                    }
                    5 => {
                        pages.put(next + n, Cell(next + n));
                        model.insert(next + n, next + n);
                    }
                    6 => pages.skip_to(next + n),
                    7 => {
                        let first = model.keys().next().copied().unwrap_or(0);
                        assert_eq!(pages.take(first).map(|c| c.0), model.remove(&first));
                    }
                    _ => {
                        let pick = model.keys().nth(n as usize % model.len().max(1)).copied().unwrap_or(n);
                        assert_eq!(pages.take(pick).map(|c| c.0), model.remove(&pick));
                    }
                }
                let seen: Vec<u64> = pages.iter().map(|(n, _)| n).collect();
                assert_eq!(seen, model.keys().copied().collect::<Vec<_>>());
                assert!(pages.first() <= pages.next());
            }
        }
    }
}
