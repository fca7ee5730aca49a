//! Bindings of a topic exchange: a trie over the words of the patterns. Also holds the patterns of live topic
//! subscriptions.
//!
//! A route walks the key word by word with the set of nodes that the words so far lead to. A `#` node, once reached,
//! stays in the set, because it takes any further word. So a route costs words times live nodes, whatever the patterns
//! are, and it neither recurses nor allocates as long as few nodes are live.

use std::sync::Arc;

use smallvec::SmallVec;

use super::entries::{Entries, Entry};
use super::pattern::words;
use super::route::Found;
use super::seen::Seen;
use super::shared_map::SharedMap;
use crate::name::Name;

/// The trie. A clone is one pointer; a change copies the nodes on its path.
#[derive(Debug, Clone, Default)]
pub(super) struct Trie {
    root: Arc<Node>,
}

#[derive(Debug, Clone, Default)]
struct Node {
    /// Patterns that end here.
    entries: Entries,
    /// Next word, spelled out.
    words: SharedMap<Name, Arc<Node>>,
    /// Next word `*`.
    star: Option<Arc<Node>>,
    /// Next word `#`. A `#` node has no such child: `#.#` is `#`.
    hash: Option<Arc<Node>>,
}

type Nodes<'t> = SmallVec<[&'t Node; 16]>;

impl Trie {
    pub(super) fn bind(&mut self, pattern: &str, entry: Entry) {
        let mut node = Arc::make_mut(&mut self.root);
        for word in steps(pattern) {
            let child = match word {
                "*" => node.star.get_or_insert_default(),
                "#" => node.hash.get_or_insert_default(),
                // A word of a name is no longer than a name.
                _ => node.words.entry(Name::new(word).unwrap_or_default(), Arc::default),
            };
            node = Arc::make_mut(child);
        }
        node.entries.push(entry);
    }

    pub(super) fn unbind(&mut self, pattern: &str, order: u64) {
        let steps: SmallVec<[&str; 16]> = steps(pattern).collect();
        Arc::make_mut(&mut self.root).unbind(&steps, order);
    }

    /// Adds every entry whose pattern matches `key`; each once, in no order.
    pub(super) fn find<'t>(&'t self, key: &str, found: &mut Found<'t>) {
        let (mut live, mut next) = (Nodes::new(), Nodes::new());
        let mut sticky = Sticky::default();
        live.push(&self.root);
        sticky.enter(&self.root);
        for word in words(key) {
            // Nodes that stick from this word on take part from the next.
            let stuck = sticky.nodes.len();
            for node in live.drain(..) {
                node.step(word, &mut next, found);
            }
            for node in &sticky.nodes[..stuck] {
                node.step(word, &mut next, found);
            }
            for node in &next {
                sticky.enter(node);
            }
            std::mem::swap(&mut live, &mut next);
            if live.is_empty() && sticky.nodes.is_empty() {
                return;
            }
        }
        for node in live.iter().chain(&sticky.nodes) {
            found.entries.extend(node.entries.iter());
        }
    }
}

/// The words of a pattern, with runs of `#` taken as one.
fn steps(pattern: &str) -> impl Iterator<Item = &str> {
    let mut after_hash = false;
    words(pattern).filter(move |word| {
        let repeated = after_hash && *word == "#";
        after_hash = *word == "#";
        !repeated
    })
}

/// The `#` nodes reached so far.
#[derive(Default)]
struct Sticky<'t> {
    nodes: Nodes<'t>,
    seen: Option<Seen>,
}

impl<'t> Sticky<'t> {
    /// Takes the `#` child of a node that was just reached: it matches no word as well.
    fn enter(&mut self, node: &'t Node) {
        if let Some(hash) = node.hash.as_deref()
            && self.seen.get_or_insert_default().first_ref(hash)
        {
            self.nodes.push(hash);
        }
    }
}

impl Node {
    fn step<'t>(&'t self, word: &str, next: &mut Nodes<'t>, found: &mut Found<'t>) {
        if !self.words.is_empty() {
            found.comparisons += 1;
            next.extend(self.words.get(word).map(|child| &**child));
        }
        if let Some(star) = self.star.as_deref() {
            found.comparisons += 1;
            next.push(star);
        }
    }

    /// Removes the entry below; true when nothing is left here. As deep as a name has words: 256 at most.
    fn unbind(&mut self, steps: &[&str], order: u64) -> bool {
        match steps.split_first() {
            None => self.entries.remove(order),
            Some((&"*", rest)) => prune(&mut self.star, rest, order),
            Some((&"#", rest)) => prune(&mut self.hash, rest, order),
            Some((&word, rest)) => {
                if let Some(child) = self.words.get_mut(word)
                    && Arc::make_mut(child).unbind(rest, order)
                {
                    self.words.remove(word);
                }
            }
        }
        self.entries.is_empty() && self.words.is_empty() && self.star.is_none() && self.hash.is_none()
    }
}

fn prune(child: &mut Option<Arc<Node>>, rest: &[&str], order: u64) {
    if let Some(node) = child
        && Arc::make_mut(node).unbind(rest, order)
    {
        *child = None;
    }
}
