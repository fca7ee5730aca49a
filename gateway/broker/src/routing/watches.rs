//! The sets of patterns that somebody subscribes to right now. One set is one watch, however many subscribe to it.

use std::collections::HashMap;

use super::hash::Seed;
use crate::ids::WatchId;
use crate::name::Name;

/// A live set of patterns of a vhost.
#[derive(Debug)]
pub(super) struct Patterns {
    pub(super) vhost: Name,
    /// Sorted, each once.
    pub(super) patterns: Vec<Name>,
    subscribers: u32,
}

/// All live sets.
#[derive(Debug, Default)]
pub(super) struct Watches {
    by_id: HashMap<WatchId, Patterns, Seed>,
    ids: HashMap<(Name, Vec<Name>), WatchId, Seed>,
    counts: HashMap<Name, usize, Seed>,
    last: u32,
}

impl Watches {
    pub(super) fn get(&self, id: WatchId) -> Option<&Patterns> {
        self.by_id.get(&id)
    }

    /// Subscriptions to the set now.
    pub(super) fn subscribers(&self, id: WatchId) -> u32 {
        self.by_id.get(&id).map_or(0, |watch| watch.subscribers)
    }

    /// Live sets of a vhost.
    pub(super) fn count(&self, vhost: &str) -> usize {
        self.counts.get(vhost).copied().unwrap_or(0)
    }

    /// Counts one more subscription to these patterns; true when it is the first.
    pub(super) fn add(&mut self, vhost: &Name, patterns: &[Name]) -> (WatchId, bool) {
        let mut patterns = patterns.to_vec();
        patterns.sort_unstable();
        patterns.dedup();
        let key = (vhost.clone(), patterns);
        if let Some(id) = self.ids.get(&key).copied()
            && let Some(watch) = self.by_id.get_mut(&id)
        {
            watch.subscribers += 1;
            return (id, false);
        }
        // Free ids come back only after all others were used.
        loop {
            self.last = self.last.wrapping_add(1);
            if !self.by_id.contains_key(&WatchId(self.last)) {
                break;
            }
        }
        let id = WatchId(self.last);
        self.by_id.insert(id, Patterns { vhost: vhost.clone(), patterns: key.1.clone(), subscribers: 1 });
        self.ids.insert(key, id);
        *self.counts.entry(vhost.clone()).or_default() += 1;
        (id, true)
    }

    /// Counts one subscription less; the set when that was the last.
    pub(super) fn remove(&mut self, id: WatchId) -> Option<Patterns> {
        let watch = self.by_id.get_mut(&id)?;
        watch.subscribers -= 1;
        if watch.subscribers > 0 {
            return None;
        }
        let watch = self.by_id.remove(&id)?;
        self.ids.remove(&(watch.vhost.clone(), watch.patterns.clone()));
        if let Some(count) = self.counts.get_mut(&watch.vhost) {
            *count -= 1;
        }
        Some(watch)
    }
}
