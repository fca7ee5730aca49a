//! Bindings of a fanout exchange: every one matches, whatever the key.

use super::entries::{Entries, Entry};
use super::route::Found;

/// All entries.
#[derive(Debug, Clone, Default)]
pub(super) struct Fanout {
    entries: Entries,
}

impl Fanout {
    pub(super) fn bind(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    pub(super) fn unbind(&mut self, order: u64) {
        self.entries.remove(order);
    }

    pub(super) fn find<'t>(&'t self, found: &mut Found<'t>) {
        found.entries.extend(self.entries.iter());
    }
}
