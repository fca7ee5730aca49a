//! Bindings of a direct exchange: key equals binding key, found by one hash look-up.

use super::entries::{Entries, Entry};
use super::route::Found;
use super::shared_map::SharedMap;
use crate::name::Name;

/// Entries by key.
#[derive(Debug, Clone, Default)]
pub(super) struct Direct {
    keys: SharedMap<Name, Entries>,
}

impl Direct {
    pub(super) fn bind(&mut self, key: Name, entry: Entry) {
        self.keys.entry(key, Entries::default).push(entry);
    }

    pub(super) fn unbind(&mut self, key: &str, order: u64) {
        if let Some(entries) = self.keys.get_mut(key) {
            entries.remove(order);
            if entries.is_empty() {
                self.keys.remove(key);
            }
        }
    }

    pub(super) fn find<'t>(&'t self, key: &str, found: &mut Found<'t>) {
        found.comparisons += 1;
        if let Some(entries) = self.keys.get(key) {
            found.entries.extend(entries.iter());
        }
    }
}
