//! Which names an attribute area holds, and whether each stands there once. Never allocates; bounded work.
//!
//! While the attributes are walked, a 64-bit filter takes one bit per name. A bit that is already set means "maybe
//! seen": the name is then compared with the attributes before it, but only among the first [`PAIRWISE`] (at most
//! 496 comparisons in all). With more attributes than that, the question is put off; public ingest then answers it
//! by sorting the names' offsets in a table on the stack (4 KiB, at most 1024 entries: about 10,000 comparisons,
//! also in the worst case), trusted reads leave it open, and lookups go through all attributes as if there were
//! duplicates. So hostile names cost a constant more, never a square.

use crate::layout::RawAttribute;
use crate::limits::ATTRIBUTES_CEILING;

/// Attributes up to which a suspected duplicate is looked for at once, by comparing.
const PAIRWISE: u16 = 32;

/// What is known about the names of a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameIndex {
    filter: u64,
    unique: bool,
}

impl NameIndex {
    /// False if no attribute has this name.
    #[inline(always)]
    pub(crate) fn may_contain(&self, name: &[u8]) -> bool {
        self.filter & filter_bit(name) != 0
    }

    /// Whether no name is known to stand twice, so that the first match is the last one too.
    #[inline(always)]
    pub(crate) fn unique(&self) -> bool {
        self.unique
    }
}

/// Collects a [`NameIndex`] attribute by attribute.
#[derive(Debug)]
pub(crate) struct NameScan {
    filter: u64,
    seen: u16,
    duplicate: bool,
    undecided: bool,
}

impl NameScan {
    pub(crate) fn new() -> Self {
        Self { filter: 0, seen: 0, duplicate: false, undecided: false }
    }

    /// Adds a name; `before` are the bytes of all attributes before it. False if it is certainly a duplicate.
    #[inline(always)]
    pub(crate) fn add(&mut self, before: &[u8], name: &[u8]) -> bool {
        let bit = filter_bit(name);
        let fresh = self.filter & bit == 0 || self.look_back(before, name);
        self.filter |= bit;
        self.seen += 1;
        fresh
    }

    #[inline(never)]
    fn look_back(&mut self, before: &[u8], name: &[u8]) -> bool {
        if self.seen >= PAIRWISE {
            self.undecided = true;
            return true;
        }
        let duplicate = find_first(before, name).is_some();
        self.duplicate |= duplicate;
        !duplicate
    }

    /// The result for trusted bytes.
    #[inline]
    pub(crate) fn finish(&self) -> NameIndex {
        NameIndex { filter: self.filter, unique: !self.duplicate && !self.undecided }
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
        Ok(NameIndex { filter: self.filter, unique: true })
    }
}

/// The value of the first attribute of this name.
#[inline(always)]
pub(crate) fn find_first<'a>(area: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = area;
    while let Some(attribute) = RawAttribute::split(rest) {
        if attribute.name == name {
            return Some(attribute.value);
        }
        rest = attribute.rest;
    }
    None
}

/// The value of the last attribute of this name.
pub(crate) fn find_last<'a>(area: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (mut rest, mut found) = (area, None);
    while let Some(attribute) = RawAttribute::split(rest) {
        if attribute.name == name {
            found = Some(attribute.value);
        }
        rest = attribute.rest;
    }
    found
}

/// One of 64 bits for a name, from its length and its first, middle and last byte.
#[inline(always)]
fn filter_bit(name: &[u8]) -> u64 {
    let (Some(&first), Some(&middle), Some(&last)) = (name.first(), name.get(name.len() / 2), name.last())
    else {
        return 1;
    };
    let key = u64::from(first) | u64::from(middle) << 8 | u64::from(last) << 16 | (name.len() as u64) << 24;
    1 << (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58)
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
        let (scan, _) = scan(names);
        assert!(scan.finish().unique());
        assert!(names.iter().all(|name| scan.finish().may_contain(name.as_bytes())));
    }

    #[test]
    fn filter_never_denies_a_name_that_is_there() {
        let names: Vec<String> = (0..64).map(|i| "x".repeat(i)).collect();
        let (scan, _) = scan(names.iter().map(String::as_str));
        assert!(names.iter().all(|name| scan.finish().may_contain(name.as_bytes())));
    }
}
