//! Bindings of a headers exchange: arguments against the message's headers, typed.
//!
//! Nothing is compared binding by binding. Each header name that some binding asks for has an index from value to
//! the bindings that want it, so a route costs one look-up a header, and work only for bindings of which something
//! matched. A binding that wants all of several headers stands in the index of the one that fewest others stand in,
//! and is checked in full when that one matches. When every criterion of many bindings is common (any two of a hundred
//! colours and a hundred sizes), those that share one are looked at.

use std::sync::Arc;

use smallvec::SmallVec;

use super::entries::{Entries, Entry};
use super::route::Found;
use super::seen::Seen;
use super::shared_map::SharedMap;
use super::value::{AnyValue, Value};
use crate::definition::{Arguments, HeaderValue};
use crate::error::BrokerError;
use crate::name::Name;

/// Argument that says how the others count. Never a criterion itself.
const X_MATCH: &str = "x-match";

/// How the criteria of a binding count (`x-match`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    All,
    Any,
}

/// What a binding asks for: the mode, and each argument name once with the value wanted; Null wants any value.
#[derive(Debug)]
struct Criteria {
    mode: Mode,
    wanted: Vec<(Name, Value<'static>)>,
}

impl Criteria {
    /// Reads binding arguments. The first of two arguments of one name counts.
    ///
    /// # Errors
    /// `Invalid` for an `x-match` that is none of its four words.
    fn read(arguments: &Arguments) -> Result<Self, BrokerError> {
        let (mode, with_x) = match arguments.iter().find(|(name, _)| name == X_MATCH).map(|(_, value)| value)
        {
            None => (Mode::All, false),
            Some(HeaderValue::Text(word)) if word == "all" => (Mode::All, false),
            Some(HeaderValue::Text(word)) if word == "any" => (Mode::Any, false),
            Some(HeaderValue::Text(word)) if word == "all-with-x" => (Mode::All, true),
            Some(HeaderValue::Text(word)) if word == "any-with-x" => (Mode::Any, true),
            Some(other) => {
                let value = match other {
                    HeaderValue::Text(word) => word.chars().take(40).collect(),
                    other => format!("{other:?}").chars().take(40).collect(),
                };
                let reason = "is none of all, any, all-with-x, any-with-x";
                return Err(BrokerError::Invalid { what: X_MATCH, value, reason });
            }
        };
        let mut wanted: Vec<(Name, Value<'static>)> = Vec::new();
        for (name, value) in arguments {
            let counts = name != X_MATCH && (with_x || !name.starts_with("x-"));
            if counts && !wanted.iter().any(|(known, _)| known == name) {
                wanted.push((name.clone(), Value(value.clone())));
            }
        }
        Ok(Self { mode, wanted })
    }
}

/// Checks the arguments of a binding to a headers exchange.
///
/// # Errors
/// `Invalid` for an `x-match` that is none of its four words.
pub(super) fn check(arguments: &Arguments) -> Result<(), BrokerError> {
    Criteria::read(arguments).map(drop)
}

/// A binding in an index.
#[derive(Debug, Clone)]
struct Wish {
    entry: Entry,
    /// What else it wants; empty when the header of the index is enough.
    others: Arc<[(Name, Value<'static>)]>,
}

/// Bindings that want one header.
#[derive(Debug, Clone, Default)]
struct Index {
    /// That want this value.
    equal: SharedMap<Value<'static>, Arc<Vec<Wish>>>,
    /// That want any value.
    present: Arc<Vec<Wish>>,
}

/// Bindings by header name.
#[derive(Debug, Clone, Default)]
pub(super) struct Headers {
    names: SharedMap<Name, Arc<Index>>,
    /// Without criteria, mode all: match everything.
    always: Entries,
}

impl Headers {
    pub(super) fn bind(&mut self, arguments: &Arguments, entry: Entry) {
        // Refused by `check` before; here an unreadable binding would match nothing.
        let Ok(Criteria { mode, wanted }) = Criteria::read(arguments) else { return };
        match mode {
            Mode::All if wanted.is_empty() => self.always.push(entry),
            Mode::All => {
                let at = self.rarest(&wanted);
                let others =
                    wanted.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, w)| w.clone()).collect();
                self.add(&wanted[at], Wish { entry, others });
            }
            Mode::Any => {
                for criterion in &wanted {
                    self.add(criterion, Wish { entry: entry.clone(), others: Arc::default() });
                }
            }
        }
    }

    pub(super) fn unbind(&mut self, arguments: &Arguments, order: u64) {
        let Ok(Criteria { mode, wanted }) = Criteria::read(arguments) else { return };
        match mode {
            Mode::All if wanted.is_empty() => self.always.remove(order),
            // of mode all it stands in one of them
            Mode::All | Mode::Any => wanted.iter().for_each(|criterion| self.remove(criterion, order)),
        }
    }

    /// Adds every entry whose arguments match; in no order, and more than once when several of `any` match.
    pub(super) fn find<'t>(&'t self, headers: &HeadersOf<'_>, found: &mut Found<'t>) {
        found.entries.extend(self.always.iter());
        if self.names.is_empty() {
            return;
        }
        let mut met = Seen::default();
        let mut candidates: SmallVec<[&'t Wish; 8]> = SmallVec::new();
        headers(&mut |name, value| {
            found.comparisons += 1;
            let Some(index) = self.names.get(name) else { return };
            // Of two headers of one name the first counts.
            if !met.first_ref(&**index) {
                return;
            }
            found.comparisons += 1;
            let value = Value(value);
            let equal =
                index.equal.get(&value as &dyn AnyValue).map(|wishes| wishes.as_slice()).unwrap_or_default();
            for wish in equal.iter().chain(index.present.iter()) {
                if wish.others.is_empty() {
                    found.entries.push(&wish.entry);
                } else {
                    candidates.push(wish);
                }
            }
        });
        if !candidates.is_empty() {
            verify(&candidates, headers, found);
        }
    }

    /// The criterion that a binding of mode all is indexed by: the one that fewest others stand in; of those one with a
    /// value, for it tells more than presence; and the last, since applications write the general before the particular.
    fn rarest(&self, wanted: &[(Name, Value<'static>)]) -> usize {
        let standing = |(name, value): &(Name, Value<'static>)| {
            let Some(index) = self.names.get(name) else { return 0 };
            let is_null = matches!(value.0, HeaderValue::Null);
            if is_null {
                index.present.len()
            } else {
                index.equal.get(value).map_or(0, |wishes| wishes.len())
            }
        };
        let rank = |(_, criterion): &(usize, &(Name, Value<'static>))| {
            (standing(criterion), matches!(criterion.1.0, HeaderValue::Null))
        };
        wanted.iter().enumerate().rev().min_by_key(rank).map_or(0, |(at, _)| at)
    }

    fn add(&mut self, (name, value): &(Name, Value<'static>), wish: Wish) {
        let index = Arc::make_mut(self.names.entry(name.clone(), Arc::default));
        let wishes = match value.0 {
            HeaderValue::Null => &mut index.present,
            _ => index.equal.entry(value.clone(), Arc::default),
        };
        Arc::make_mut(wishes).push(wish);
    }

    fn remove(&mut self, (name, value): &(Name, Value<'static>), order: u64) {
        let Some(index) = self.names.get_mut(name) else { return };
        let index = Arc::make_mut(index);
        if matches!(value.0, HeaderValue::Null) {
            Arc::make_mut(&mut index.present).retain(|wish| wish.entry.order != order);
        } else if let Some(wishes) = index.equal.get_mut(value) {
            let wishes = Arc::make_mut(wishes);
            wishes.retain(|wish| wish.entry.order != order);
            if wishes.is_empty() {
                index.equal.remove(value);
            }
        }
        if index.equal.is_empty() && index.present.is_empty() {
            self.names.remove(name);
        }
    }
}

/// Hands every header of the message to a visitor. Pure: the same headers each time.
pub(crate) type HeadersOf<'a> = dyn Fn(&mut dyn FnMut(&str, HeaderValue<'_>)) + 'a;

/// Takes the candidates whose other criteria match as well.
fn verify<'t>(candidates: &[&'t Wish], headers: &HeadersOf<'_>, found: &mut Found<'t>) {
    // Only now are headers copied, and only when a binding of several criteria came this far.
    let mut owned: Vec<(Box<str>, Value<'static>)> = Vec::new();
    headers(&mut |name, value| owned.push((name.into(), Value(value.into_owned()))));
    // Stable, so that the first of one name stays first.
    owned.sort_by(|a, b| a.0.cmp(&b.0));
    for wish in candidates {
        let fits = wish.others.iter().all(|(name, value)| {
            found.comparisons += 1;
            let at = owned.partition_point(|(known, _)| **known < **name);
            owned.get(at).is_some_and(|(known, header)| {
                **known == **name && (matches!(value.0, HeaderValue::Null) || value == header)
            })
        });
        if fits {
            found.entries.push(&wish.entry);
        }
    }
}
