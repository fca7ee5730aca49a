//! A map that many snapshots share: a clone copies at most 64 pointers, a change copies one of the 64 parts, and only
//! when a snapshot still holds it. Owns the split; knows nothing of names and bindings.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use super::hash::Seed;

/// Parts of a large map.
const PARTS: usize = 64;
/// Entries up to which a map is one part.
const ONE_PART_MAX: usize = 64;

type Part<K, V> = Arc<HashMap<K, V, Seed>>;

/// Empty: no part. Up to `ONE_PART_MAX` entries: one. Beyond: `PARTS`, by hash.
#[derive(Debug, Clone)]
pub(super) struct SharedMap<K, V> {
    parts: Vec<Part<K, V>>,
    len: usize,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self { parts: Vec::new(), len: 0 }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> SharedMap<K, V> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.parts.get(self.part_of(key))?.get(key)
    }

    /// The value of `key` for a change; None when it is missing.
    pub(super) fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let part = self.part_of(key);
        let part = self.parts.get_mut(part)?;
        // Looked up first, so that a miss copies nothing.
        if !part.contains_key(key) {
            return None;
        }
        Arc::make_mut(part).get_mut(key)
    }

    /// The value of `key` for a change, made when it is missing.
    pub(super) fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.make_room();
        let part = self.part_of(&key);
        let part = Arc::make_mut(&mut self.parts[part]);
        let len = &mut self.len;
        part.entry(key).or_insert_with(|| {
            *len += 1;
            make()
        })
    }

    /// Sets `key`; the former value, if any.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.make_room();
        let part = self.part_of(&key);
        let former = Arc::make_mut(&mut self.parts[part]).insert(key, value);
        self.len += usize::from(former.is_none());
        former
    }

    pub(super) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.get(key)?;
        let part = self.part_of(key);
        let removed = Arc::make_mut(&mut self.parts[part]).remove(key);
        self.len -= 1;
        if self.len == 0 {
            self.parts = Vec::new();
        }
        removed
    }

    /// All entries, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.parts.iter().flat_map(|part| part.iter())
    }

    fn part_of<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        if self.parts.len() < PARTS {
            return 0;
        }
        // Neither the low bits nor the top seven: the table of the part uses those.
        (Seed::default().hash_one(key) >> 32) as usize % PARTS
    }

    /// Makes the parts that one more entry needs.
    fn make_room(&mut self) {
        if self.parts.is_empty() {
            self.parts.push(Part::default());
        }
        if self.parts.len() < PARTS && self.len >= ONE_PART_MAX {
            let whole = std::mem::take(&mut self.parts);
            let mut parts = vec![HashMap::with_hasher(Seed::default()); PARTS];
            self.parts = vec![Part::default(); PARTS];
            for (key, value) in whole.iter().flat_map(|part| part.iter()) {
                parts[self.part_of(key)].insert(key.clone(), value.clone());
            }
            self.parts = parts.into_iter().map(Arc::new).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_map_and_leaves_snapshots_alone(
            steps in proptest::collection::vec((0_u16..200, any::<bool>(), any::<bool>()), 0..600),
        ) {
            let mut map = SharedMap::default();
            let mut model = BTreeMap::new();
            let mut snapshots = Vec::new();
            for (i, (key, insert, snapshot)) in steps.into_iter().enumerate() {
                if insert {
                    prop_assert_eq!(map.insert(key, i), model.insert(key, i));
                } else {
                    prop_assert_eq!(map.remove(&key), model.remove(&key));
                }
                prop_assert_eq!(map.len(), model.len());
                if snapshot && snapshots.len() < 8 {
                    snapshots.push((map.clone(), model.clone()));
                }
            }
            snapshots.push((map, model));
            for (map, model) in snapshots {
                prop_assert_eq!(map.iter().map(|(k, v)| (*k, *v)).collect::<BTreeMap<_, _>>(), model);
            }
        }
    }

    #[test]
    fn a_change_copies_one_part_of_a_large_map() {
        let mut map: SharedMap<u32, u32> = SharedMap::default();
        for i in 0..10_000 {
            *map.entry(i, || 0) += i;
        }
        let before = map.clone();
        *map.get_mut(&77).unwrap() = 1;
        assert!(map.get_mut(&10_001).is_none());
        let copied = map.parts.iter().zip(&before.parts).filter(|(a, b)| !Arc::ptr_eq(a, b)).count();
        assert_eq!(copied, 1);
        assert_eq!((before.get(&77), map.get(&77)), (Some(&77), Some(&1)));
    }
}
