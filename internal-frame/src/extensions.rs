//! The attributes of an event that are neither CloudEvents context nor private, from a frame or from an adaptor.
//! Never sorts them and never drops duplicates.

use std::{iter, slice};

use crate::attrs::Attrs;
use crate::names::{PRIVATE_PREFIX, is_context};

/// Iterator over an event's extensions as `(name, value)`, in their order. Context attributes and names starting
/// with `~` are skipped whatever it was made from. Clone it to walk again.
#[derive(Debug, Clone)]
pub struct Extensions<'a> {
    origin: Origin<'a>,
}

#[derive(Debug, Clone)]
enum Origin<'a> {
    Frame(Attrs<'a>),
    Pairs(iter::Copied<slice::Iter<'a, (&'a str, &'a str)>>),
}

impl<'a> Extensions<'a> {
    pub(crate) fn of_frame(attrs: Attrs<'a>) -> Self {
        Self { origin: Origin::Frame(attrs) }
    }
}

impl Default for Extensions<'_> {
    /// No extensions.
    fn default() -> Self {
        Self { origin: Origin::Frame(Attrs::empty()) }
    }
}

impl<'a> From<&'a [(&'a str, &'a str)]> for Extensions<'a> {
    fn from(pairs: &'a [(&'a str, &'a str)]) -> Self {
        Self { origin: Origin::Pairs(pairs.iter().copied()) }
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let is_extension =
            |&(name, _): &(&'a str, &'a str)| !name.starts_with(PRIVATE_PREFIX) && !is_context(name);
        match &mut self.origin {
            Origin::Frame(attrs) => attrs.find(is_extension),
            Origin::Pairs(pairs) => pairs.find(is_extension),
        }
    }
}
