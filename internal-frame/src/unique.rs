//! Which names an attribute area holds, where to start looking for one, and whether each stands there once. Never
//! allocates; bounded work.
//!
//! While the attributes are walked, each name sets one bit of a 64-bit filter, and the first name of every four bits
//! leaves its offset as a hint, so that a lookup seldom walks. A bit that is already set means "maybe seen": the
//! name is then compared with attributes before it, but only among the first [`PAIRWISE`] (at most 496 comparisons
//! in all). With more attributes than that, the question is put off; public ingest then answers it by sorting the
//! names' offsets in a table on the stack (4 KiB, at most 1024 entries: about 10,000 comparisons, also in the worst
//! case), trusted reads leave it open, and lookups go on to the end as if there were duplicates. So hostile names
//! cost a constant more, never a square.

use crate::layout::RawAttribute;
use crate::limits::ATTRIBUTES_CEILING;

/// Attributes up to which a suspected duplicate is looked for at once, by comparing.
const PAIRWISE: u16 = 32;

/// Hints of a frame; each covers four bits of the filter.
const HINTS: usize = 16;

/// Multiplier of the hash: searched for among random odd numbers, so that the names of `names.rs` that one frame may
/// hold together have a hint each.
const SPREAD: u64 = 0xC55E_BBEB_998A_5C4F;

/// A hint that no name has left.
const NO_HINT: u16 = u16::MAX;

/// What is known about the names of a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameIndex {
    filter: u64,
    hints: [u16; HINTS],
    unique: bool,
}

impl NameIndex {
    /// The value of an attribute in the area that this is the index of. Of duplicates the last one counts.
    #[inline]
    pub(crate) fn find<'a>(&self, area: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
        let hash = hash(name);
        if self.filter & 1 << hash == 0 {
            return None;
        }
        let from = self.hints[hint_of(hash)].into();
        if self.unique { find_first(area, from, name) } else { find_last(area, from, name) }
    }

    /// Whether no name can stand twice.
    #[cfg(test)]
    fn unique(&self) -> bool {
        self.unique
    }
}

/// Collects a [`NameIndex`] attribute by attribute.
#[derive(Debug)]
pub(crate) struct NameScan {
    filter: u64,
    hints: [u16; HINTS],
    last_hint: u16,
    seen: u16,
    duplicate: bool,
    undecided: bool,
}

impl NameScan {
    #[inline]
    pub(crate) fn new() -> Self {
        let hints = [NO_HINT; HINTS];
        Self { filter: 0, hints, last_hint: 0, seen: 0, duplicate: false, undecided: false }
    }

    /// Adds a name; `before` are the bytes of all attributes before it. False if it is certainly a duplicate.
    #[inline(always)]
    pub(crate) fn add(&mut self, before: &[u8], name: &[u8]) -> bool {
        let hash = hash(name);
        // Beyond 64 KiB the hint is the last attribute that a hint can name: too early, but never too late.
        if before.len() < usize::from(NO_HINT) {
            self.last_hint = before.len() as u16;
        }
        let hint = &mut self.hints[hint_of(hash)];
        if *hint == NO_HINT {
            *hint = self.last_hint;
        }
        let from = usize::from(*hint);
        let fresh = self.filter & 1 << hash == 0 || self.look_back(before, from, name);
        self.filter |= 1 << hash;
        self.seen += 1;
        fresh
    }

    #[inline(never)]
    fn look_back(&mut self, before: &[u8], from: usize, name: &[u8]) -> bool {
        if self.seen >= PAIRWISE {
            self.undecided = true;
            return true;
        }
        let duplicate = find_first(before, from, name).is_some();
        self.duplicate |= duplicate;
        !duplicate
    }

    /// The result for trusted bytes.
    #[inline]
    pub(crate) fn finish(&self) -> NameIndex {
        let unique = !self.duplicate && !self.undecided;
        NameIndex { filter: self.filter, hints: self.hints, unique }
    }

    /// The result if all names are different.
    ///
    /// # Errors
    /// The offset in `area` of an attribute whose name stands there twice.
    #[inline]
    pub(crate) fn finish_unique(&self, area: &[u8]) -> Result<NameIndex, usize> {
        if (self.undecided || self.duplicate)
            && let Some(offset) = find_duplicate(area)
        {
            return Err(offset);
        }
        Ok(NameIndex { unique: true, ..self.finish() })
    }
}

/// The value of the first attribute of this name, from the attribute at `from` on.
#[inline(always)]
fn find_first<'a>(area: &'a [u8], from: usize, name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = area.get(from..)?;
    while let Some(attribute) = RawAttribute::split(rest) {
        if attribute.name == name {
            return Some(attribute.value);
        }
        rest = attribute.rest;
    }
    None
}

/// The value of the last attribute of this name, from the attribute at `from` on.
fn find_last<'a>(area: &'a [u8], from: usize, name: &[u8]) -> Option<&'a [u8]> {
    let (mut rest, mut found) = (area.get(from..)?, None);
    while let Some(attribute) = RawAttribute::split(rest) {
        if attribute.name == name {
            found = Some(attribute.value);
        }
        rest = attribute.rest;
    }
    found
}

/// A number below 64 for a name, from its length and its first, middle and last byte.
#[inline(always)]
fn hash(name: &[u8]) -> u32 {
    let (Some(&first), Some(&middle), Some(&last)) = (name.first(), name.get(name.len() / 2), name.last())
    else {
        return 0;
    };
    let key = u64::from(first) | u64::from(middle) << 8 | u64::from(last) << 16 | (name.len() as u64) << 24;
    (key.wrapping_mul(SPREAD) >> 58) as u32
}

#[inline(always)]
fn hint_of(hash: u32) -> usize {
    hash as usize / 4 % HINTS
}

/// The offset of an attribute whose name stands in `area` twice. Looks at the first 1024 attributes, which is all
/// that a frame may have.
#[cold]
fn find_duplicate(area: &[u8]) -> Option<usize> {
    let mut offsets = [0u32; ATTRIBUTES_CEILING];
    let (mut rest, mut count) = (area, 0);
    for slot in &mut offsets {
        let Some(attribute) = RawAttribute::split(rest) else { break };
        *slot = u32::try_from(area.len() - rest.len()).ok()?;
        count += 1;
        rest = attribute.rest;
    }
    let offsets = offsets.get_mut(..count)?;
    let name_at = |offset: u32| {
        area.get(offset as usize..).and_then(RawAttribute::split).map_or(&[][..], |attribute| attribute.name)
    };
    offsets.sort_unstable_by(|&a, &b| name_at(a).cmp(name_at(b)));
    let neighbours = offsets.iter().zip(offsets.iter().skip(1));
    neighbours.map(|(&a, &b)| (a, b)).find(|&(a, b)| name_at(a) == name_at(b)).map(|(a, b)| a.max(b) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan<'a>(names: impl IntoIterator<Item = &'a str>) -> (NameScan, Vec<u8>) {
        let (mut scan, mut area) = (NameScan::new(), Vec::new());
        for name in names {
            scan.add(&area, name.as_bytes());
            area.extend_from_slice(&u16::try_from(name.len()).unwrap().to_be_bytes());
            area.extend_from_slice(name.as_bytes());
            area.extend_from_slice(&[0; 4]);
        }
        (scan, area)
    }

    #[test]
    fn duplicate_is_found_among_few_and_among_many() {
        for others in [1, 10, 31, 32, 100, 1022] {
            let names: Vec<String> = (0..others).map(|i| format!("name{i}")).collect();
            let (alone, area) = scan(names.iter().map(String::as_str));
            assert!(alone.finish_unique(&area).unwrap().unique(), "{others}");
            let (twice, area) = scan(names.iter().map(String::as_str).chain(["name0"]));
            assert!(!twice.finish().unique(), "{others}");
            let offset = twice.finish_unique(&area).unwrap_err();
            assert_eq!(RawAttribute::split(&area[offset..]).unwrap().name, b"name0", "{others}");
            assert_ne!(offset, 0);
        }
    }

    #[test]
    fn few_names_are_told_apart_even_when_their_bits_collide() {
        let names = ["a1b2c", "a2b1c", "a3b3c", "a4b4c"];
        let (scan, area) = scan(names);
        assert!(scan.finish().unique());
        assert!(names.iter().all(|name| scan.finish().find(&area, name.as_bytes()).is_some()));
    }

    #[test]
    fn names_that_go_together_have_a_hint_each() {
        use crate::names::{CONTEXT, FRAMEWORK};
        let event: Vec<&str> = CONTEXT.into_iter().chain(FRAMEWORK).collect();
        for names in [&event[..], &["sid", "replyTo", "model", "conv"], &["sid", "err", "etype", "meta"]] {
            let hints: std::collections::HashSet<usize> =
                names.iter().map(|name| hint_of(hash(name.as_bytes()))).collect();
            assert_eq!(hints.len(), names.len(), "{names:?}");
        }
    }

    #[test]
    fn filter_and_hints_never_hide_a_name_that_is_there() {
        for length in [1, 700, 9_000] {
            let names: Vec<String> = (0..200).map(|i| format!("{i:0length$}")).collect();
            let (scan, area) = scan(names.iter().map(String::as_str));
            assert!(names.iter().all(|name| scan.finish().find(&area, name.as_bytes()).is_some()));
            assert_eq!(scan.finish().find(&area, b"200"), None);
            let index = scan.finish_unique(&area).unwrap();
            assert!(names.iter().all(|name| index.find(&area, name.as_bytes()).is_some()));
        }
    }
}
