//! A set of numbers as runs, that numbers are added to in any order: what is settled above a group's floor.

use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Runs {
    /// First number of a run and the number behind its last; no two touch.
    runs: BTreeMap<u64, u64>,
    count: u64,
}

impl Runs {
    /// Adds `first..end`; gives how many were not in it.
    pub(crate) fn insert(&mut self, first: u64, end: u64) -> u64 {
        if first >= end {
            return 0;
        }
        let (mut low, mut high, mut known) = (first, end, 0);
        let before = self.runs.range(..=first).next_back().filter(|r| *r.1 >= first).map(|r| *r.0);
        let start = before.unwrap_or(first);
        let touched: Vec<(u64, u64)> = self.runs.range(start..=end).map(|r| (*r.0, *r.1)).collect();
        for (from, to) in touched {
            known += to.min(end).saturating_sub(from.max(first));
            (low, high) = (low.min(from), high.max(to));
            self.runs.remove(&from);
        }
        self.runs.insert(low, high);
        let added = end - first - known;
        self.count += added;
        added
    }

    /// Removes everything below a number; gives how many.
    pub(crate) fn remove_below(&mut self, number: u64) -> u64 {
        let mut removed = 0;
        while let Some(mut run) = self.runs.first_entry().filter(|r| *r.key() < number) {
            let (from, to) = (*run.key(), *run.get());
            removed += to.min(number) - from;
            if to > number {
                *run.get_mut() = number;
                run.remove();
                self.runs.insert(number, to);
                break;
            }
            run.remove();
        }
        self.count -= removed;
        removed
    }

    /// Takes the first run out when it begins at or below a number; gives the number behind it.
    pub(crate) fn take_from(&mut self, number: u64) -> Option<u64> {
        let run = self.runs.first_entry().filter(|r| *r.key() <= number)?;
        let (from, to) = run.remove_entry();
        self.count -= to - from;
        Some(to)
    }

    /// Whether a number is in it.
    pub(crate) fn contains(&self, number: u64) -> bool {
        self.runs.range(..=number).next_back().is_some_and(|(_, end)| *end > number)
    }

    /// The first number at or above one that is not in it.
    pub(crate) fn next_free(&self, number: u64) -> u64 {
        self.runs.range(..=number).next_back().map_or(number, |(_, end)| number.max(*end))
    }

    /// How many numbers.
    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    /// How many runs.
    pub(crate) fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// (first, number behind the last) of each run, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().map(|(from, to)| (*from, *to))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    proptest::proptest! {
        #[test]
        fn it_behaves_like_a_set(steps in proptest::collection::vec((0_u8..8, 0_u64..60, 0_u64..9), 1..200)) {
            let (mut runs, mut model) = (Runs::default(), BTreeSet::new());
            for (what, number, len) in steps {
                match what {
                    0..=5 => {
                        let before = model.len();
                        model.extend(number..number + len);
                        assert_eq!(runs.insert(number, number + len), (model.len() - before) as u64);
                    }
                    6 => {
                        let before = model.len();
                        model.retain(|n| *n >= number);
                        assert_eq!(runs.remove_below(number), (before - model.len()) as u64);
                    }
                    _ => {
                        let first = model.first().copied().filter(|f| *f <= number);
                        let end = first.map(|f| (f..).find(|n| !model.contains(n)).expect("an end"));
                        assert_eq!(runs.take_from(number), end);
                        model.retain(|n| end.is_none_or(|end| *n >= end));
                    }
                }
                assert_eq!(runs.len(), model.len() as u64);
                let listed: BTreeSet<u64> = runs.iter().flat_map(|(a, b)| a..b).collect();
                assert_eq!(listed, model);
                let ends: Vec<_> = runs.iter().collect();
                assert!(ends.windows(2).all(|w| w[0].1 < w[1].0), "no two touch: {ends:?}");
                for n in 0..70 {
                    assert_eq!(runs.contains(n), model.contains(&n));
                    assert_eq!(Some(runs.next_free(n)), (n..).find(|m| !model.contains(m)));
                }
            }
        }
    }
}
