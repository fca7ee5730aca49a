//! Bindings of a consistent-hash exchange: one of them for each message, chosen by weighted rendezvous hashing.
//!
//! Every binding draws a number from the message's hash and its own name; the best number in proportion to its weight
//! wins. So the choice depends on nothing but the set of targets and their weights, never on the order in which they
//! were bound or on this process; and a binding that comes or goes moves only what it wins or had won. A route
//! costs one multiplication a binding and one logarithm a weight that is in use.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::entries::Entry;
use super::route::{Found, Parts};
use crate::definition::{BindTarget, BindingSpec, HashOn, HeaderValue};
use crate::error::BrokerError;

/// Highest weight of a binding.
const WEIGHT_MAX: u32 = 1_000_000;

/// Bindings by weight.
#[derive(Debug, Clone)]
pub(super) struct Hashed {
    on: HashOn,
    weights: BTreeMap<u32, Arc<Vec<Node>>>,
}

#[derive(Debug, Clone)]
struct Node {
    /// Hash of where it leads.
    place: u64,
    entry: Entry,
}

/// The weight that a binding key says.
///
/// # Errors
/// `Invalid` when it is no whole number from 1 to `WEIGHT_MAX`.
pub(super) fn weight(key: &str) -> Result<u32, BrokerError> {
    let weight = key.parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight));
    weight.ok_or_else(|| BrokerError::Invalid {
        what: "binding key",
        value: key.chars().take(40).collect(),
        reason: "is no weight: a whole number from 1 to 1000000",
    })
}

impl Hashed {
    /// Without bindings.
    pub(super) fn new(on: HashOn) -> Self {
        Self { on, weights: BTreeMap::new() }
    }

    pub(super) fn bind(&mut self, binding: &BindingSpec, entry: Entry) {
        // Refused by `weight` before; here an unreadable binding would match nothing.
        let Ok(weight) = weight(&binding.key) else { return };
        let place = place(&binding.target);
        Arc::make_mut(self.weights.entry(weight).or_default()).push(Node { place, entry });
    }

    pub(super) fn unbind(&mut self, key: &str, order: u64) {
        let Ok(weight) = weight(key) else { return };
        let Some(nodes) = self.weights.get_mut(&weight) else { return };
        Arc::make_mut(nodes).retain(|node| node.entry.order != order);
        if nodes.is_empty() {
            self.weights.remove(&weight);
        }
    }

    /// Adds the entry that the message goes to, if there are any.
    pub(super) fn find<'t>(&'t self, parts: &Parts<'_>, found: &mut Found<'t>) {
        if self.weights.is_empty() {
            return;
        }
        let hash = self.hash(parts);
        let mut winner: Option<(f64, &Node)> = None;
        for (weight, nodes) in &self.weights {
            found.comparisons += nodes.len() as u64;
            // Of equal weights the highest number wins, whatever the weight.
            let best = nodes
                .iter()
                .map(|node| (mix(hash ^ node.place), node))
                .max_by_key(|(drawn, node)| (*drawn, std::cmp::Reverse(node.entry.order)));
            let Some((drawn, node)) = best else { continue };
            // 53 bits as a number between 0 and 1; never one of them, so that the logarithm is finite and not zero.
            let uniform = ((drawn >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
            let score = -uniform.ln() / f64::from(*weight);
            if winner.is_none_or(|(best, _)| score < best) {
                winner = Some((score, node));
            }
        }
        found.entries.extend(winner.map(|(_, node)| &node.entry));
    }

    fn hash(&self, parts: &Parts<'_>) -> u64 {
        match &self.on {
            HashOn::Key => hash_text(parts.keys.first().map_or("", |key| key.as_str())),
            HashOn::Property(property) => hash_text(&(parts.property)(*property).unwrap_or_default()),
            HashOn::Header(wanted) => {
                let mut hash = None;
                (parts.headers)(&mut |name, value| {
                    if hash.is_none() && name == wanted.as_str() {
                        hash = Some(hash_value(&value));
                    }
                });
                hash.unwrap_or_else(|| hash_text(""))
            }
        }
    }
}

/// Of the name, not the id: the same after a restart.
fn place(target: &BindTarget) -> u64 {
    match target {
        BindTarget::Queue(name) => hash_text(name),
        // Another place than the queue of that name.
        BindTarget::Exchange(name) => !hash_text(name),
        BindTarget::Topic(name) => hash_text(name).rotate_left(32),
    }
}

fn hash_value(value: &HeaderValue<'_>) -> u64 {
    match value {
        HeaderValue::Null => hash_text(""),
        HeaderValue::Bool(value) => hash_bytes(&[u8::from(*value)]),
        HeaderValue::Int(value) => hash_bytes(&value.to_le_bytes()),
        HeaderValue::Float(value) => hash_bytes(&value.to_bits().to_le_bytes()),
        HeaderValue::Text(text) => hash_text(text),
        HeaderValue::Bytes(bytes) => hash_bytes(bytes),
        HeaderValue::Time(value) => hash_bytes(&value.to_le_bytes()),
    }
}

fn hash_text(text: &str) -> u64 {
    hash_bytes(text.as_bytes())
}

/// FNV-1a with a finish that spreads it: the same on every machine and in every version, since which queue has which keys
/// is worth keeping over a restart.
fn hash_bytes(bytes: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold))
}

/// Every bit of the input changes half of the bits of the output (the finish of splitmix64).
fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
