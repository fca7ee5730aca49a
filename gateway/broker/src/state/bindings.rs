//! Bindings as the log knows them, in the order in which they were made. Each change finds its own by hash, so that ten
//! thousand others cost it nothing.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::definition::{BindTarget, BindingSpec, HeaderValue};
use crate::name::Name;

/// One end of bindings: an exchange that they hang on, or what they lead to.
type End<T> = HashMap<(Name, T), BTreeSet<u64>>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    all: BTreeMap<u64, (Name, BindingSpec)>,
    next: u64,
    /// By hash of everything that makes two bindings the same; different ones may share one.
    same: HashMap<u64, BTreeSet<u64>>,
    of: End<Name>,
    to: End<BindTarget>,
}

impl Bindings {
    /// Adds a binding behind the others; one that is there is there once.
    pub(crate) fn insert(&mut self, vhost: Name, binding: BindingSpec) {
        if self.find(&vhost, &binding).is_some() {
            return;
        }
        let at = self.next;
        self.next += 1;
        self.same.entry(hash(&vhost, &binding)).or_default().insert(at);
        self.of.entry((vhost.clone(), binding.exchange.clone())).or_default().insert(at);
        self.to.entry((vhost.clone(), binding.target.clone())).or_default().insert(at);
        self.all.insert(at, (vhost, binding));
    }

    /// Removes a binding, if it is there.
    pub(crate) fn remove(&mut self, vhost: &Name, binding: &BindingSpec) {
        if let Some(at) = self.find(vhost, binding) {
            self.remove_at(at);
        }
    }

    /// Removes all that hang on an exchange.
    pub(crate) fn remove_of(&mut self, vhost: &Name, exchange: &Name) {
        for at in self.of.remove(&(vhost.clone(), exchange.clone())).unwrap_or_default() {
            self.remove_at(at);
        }
    }

    /// Removes all that lead to something.
    pub(crate) fn remove_to(&mut self, vhost: &Name, target: &BindTarget) {
        for at in self.to.remove(&(vhost.clone(), target.clone())).unwrap_or_default() {
            self.remove_at(at);
        }
    }

    /// All, in the order in which they were made.
    pub(crate) fn iter(&self) -> std::collections::btree_map::Values<'_, u64, (Name, BindingSpec)> {
        self.all.values()
    }

    fn find(&self, vhost: &Name, binding: &BindingSpec) -> Option<u64> {
        let same = self.same.get(&hash(vhost, binding))?;
        same.iter().copied().find(|at| self.all.get(at).is_some_and(|(v, b)| v == vhost && b == binding))
    }

    fn remove_at(&mut self, at: u64) {
        let Some((vhost, binding)) = self.all.remove(&at) else { return };
        take(self.same.entry(hash(&vhost, &binding)), at);
        take(self.of.entry((vhost.clone(), binding.exchange)), at);
        take(self.to.entry((vhost, binding.target)), at);
    }
}

impl<'a> IntoIterator for &'a Bindings {
    type Item = &'a (Name, BindingSpec);
    type IntoIter = std::collections::btree_map::Values<'a, u64, (Name, BindingSpec)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

fn take<K>(entry: Entry<'_, K, BTreeSet<u64>>, at: u64) {
    if let Entry::Occupied(mut entry) = entry {
        entry.get_mut().remove(&at);
        if entry.get().is_empty() {
            entry.remove();
        }
    }
}

/// Equal for bindings that are the same.
fn hash(vhost: &Name, binding: &BindingSpec) -> u64 {
    let mut hasher = DefaultHasher::new();
    (vhost, &binding.exchange, &binding.target, &binding.key).hash(&mut hasher);
    for (name, value) in &binding.arguments {
        (name, std::mem::discriminant(value)).hash(&mut hasher);
        match value {
            HeaderValue::Bool(v) => v.hash(&mut hasher),
            HeaderValue::Int(v) => v.hash(&mut hasher),
            HeaderValue::Time(v) => v.hash(&mut hasher),
            HeaderValue::Text(v) => v.hash(&mut hasher),
            HeaderValue::Bytes(v) => v.hash(&mut hasher),
            // equal floats need not have equal bits
            HeaderValue::Null | HeaderValue::Float(_) => {}
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).expect("short")
    }

    fn binding(exchange: u8, target: u8, key: u8) -> BindingSpec {
        let target = match target {
            0 => BindTarget::Exchange(name("x0")),
            n => BindTarget::Queue(name(&format!("q{n}"))),
        };
        let arguments = match key {
            0 => vec![(name("f"), HeaderValue::Float(0.0))],
            1 => vec![(name("f"), HeaderValue::Float(-0.0))],
            2 => vec![(name("n"), HeaderValue::Null)],
            _ => Vec::new(),
        };
        let key = if key < 3 { name("") } else { name(&key.to_string()) };
        BindingSpec { exchange: name(&format!("x{exchange}")), target, key, arguments }
    }

    proptest::proptest! {
        #[test]
        fn they_behave_like_a_list_in_order(
            steps in proptest::collection::vec((0_u8..10, 0_u8..2, 0_u8..2, 0_u8..3, 0_u8..5), 1..300)
        ) {
            let mut bindings = Bindings::default();
            let mut model: Vec<(Name, BindingSpec)> = Vec::new();
            for (what, vhost, exchange, target, key) in steps {
                let (vhost, spec) = (name(&format!("v{vhost}")), binding(exchange, target, key));
                match what {
                    0..=6 => {
                        if !model.iter().any(|(v, b)| *v == vhost && *b == spec) {
                            model.push((vhost.clone(), spec.clone()));
                        }
                        bindings.insert(vhost, spec);
                    }
                    7 => {
                        model.retain(|(v, b)| *v != vhost || *b != spec);
                        bindings.remove(&vhost, &spec);
                    }
                    8 => {
                        model.retain(|(v, b)| *v != vhost || b.exchange != spec.exchange);
                        bindings.remove_of(&vhost, &spec.exchange);
                    }
                    _ => {
                        model.retain(|(v, b)| *v != vhost || b.target != spec.target);
                        bindings.remove_to(&vhost, &spec.target);
                    }
                }
                assert!(bindings.iter().eq(model.iter()));
                let ends = bindings.of.values().map(BTreeSet::len).sum::<usize>();
                assert_eq!((ends, bindings.same.values().map(BTreeSet::len).sum()), (model.len(), model.len()));
            }
        }
    }
}
