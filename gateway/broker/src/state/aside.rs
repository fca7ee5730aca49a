//! Envelopes that stand beside their slots, in `Arc` pages by number: a snapshot clones page pointers, a change copies a
//! page that is shared. It never looks into an envelope.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::limits::PAGE_ENTRIES;
use crate::message::Envelope;

const SIZE: u64 = PAGE_ENTRIES as u64;

/// One page; its envelopes are shared, so that copying it copies pointers.
type Page = BTreeMap<u64, Arc<Envelope>>;

/// See the module. Empty pages are not kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Aside {
    pages: BTreeMap<u64, Arc<Page>>,
}

impl Aside {
    /// Puts one in; replaces what is there.
    pub(crate) fn insert(&mut self, number: u64, envelope: Envelope) {
        let page = self.pages.entry(number / SIZE).or_default();
        Arc::make_mut(page).insert(number, Arc::new(envelope));
    }

    /// The one at a number.
    pub(crate) fn get(&self, number: u64) -> Option<&Envelope> {
        self.pages.get(&(number / SIZE))?.get(&number).map(|e| &**e)
    }

    /// Memory that they take, in bytes, but for what an envelope points to.
    pub(super) fn stored_bytes(&self) -> u64 {
        // an entry of a map of numbers and pointers takes about three words
        const EACH: usize = size_of::<Envelope>() + 24;
        let entries: usize = self.pages.values().map(|page| page.len()).sum();
        (entries * EACH) as u64
    }

    /// Takes one out.
    pub(crate) fn remove(&mut self, number: u64) {
        let at = number / SIZE;
        let Some(page) = self.pages.get_mut(&at).filter(|p| p.contains_key(&number)) else { return };
        let page = Arc::make_mut(page);
        page.remove(&number);
        if page.is_empty() {
            self.pages.remove(&at);
        }
    }

    /// Everything below a number goes.
    pub(crate) fn keep_from(&mut self, first: u64) {
        self.pages = self.pages.split_off(&(first / SIZE));
        if let Some(mut page) = self.pages.first_entry() {
            let kept = Arc::make_mut(page.get_mut()).split_off(&first);
            if kept.is_empty() {
                page.remove();
            } else {
                *page.get_mut() = Arc::new(kept);
            }
        }
    }

    /// Everything, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Envelope)> {
        self.pages.values().flat_map(|page| page.iter().map(|(number, e)| (*number, &**e)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn it_behaves_like_a_sorted_map(steps in proptest::collection::vec((0_u8..8, 0_u64..4000), 1..300)) {
            let mut aside = Aside::default();
            let mut model = BTreeMap::new();
            let mut frozen = None;
            for (what, number) in steps {
                match what {
                    0..=3 => {
                        aside.insert(number, Envelope { time_ms: number, ..Envelope::default() });
                        model.insert(number, number);
                    }
                    4 | 5 => {
                        aside.remove(number);
                        model.remove(&number);
                    }
                    6 => frozen = Some((aside.clone(), model.clone())),
                    _ => {
                        aside.keep_from(number);
                        model = model.split_off(&number);
                    }
                }
                assert_eq!(aside.get(number).map(|e| e.time_ms), model.get(&number).copied());
                let seen: Vec<u64> = aside.iter().map(|(n, _)| n).collect();
                assert_eq!(seen, model.keys().copied().collect::<Vec<_>>());
            }
            if let Some((aside, model)) = frozen {
                let seen: Vec<u64> = aside.iter().map(|(n, _)| n).collect();
                assert_eq!(seen, model.keys().copied().collect::<Vec<_>>());
            }
        }
    }
}
