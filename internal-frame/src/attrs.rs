//! The attributes of a frame in wire order, as text. Never looks for a name: lookups are the frame's.

use crate::layout::RawAttribute;

/// Attribute areas up to this size are checked for being text as a whole.
const WHOLE_BYTES_MAX: usize = 4096;

/// Iterator over the attributes of a [`Frame`](crate::Frame) in wire order, duplicates included, as
/// `(name, value)`. Borrows from the frame; does not allocate.
#[derive(Debug, Clone)]
pub struct Attrs<'a> {
    area: &'a [u8],
    whole: Option<&'a str>,
    left: u16,
}

impl<'a> Attrs<'a> {
    /// Over the attribute bytes of a checked frame, which hold `count` attributes.
    ///
    /// An area without a length byte above 127 is UTF-8 as a whole, and then names and values are cut out of one
    /// text instead of being converted one by one.
    #[inline]
    pub(crate) fn new(area: &'a [u8], count: u16) -> Self {
        let small = area.len() <= WHOLE_BYTES_MAX;
        let whole = if small { std::str::from_utf8(area).ok() } else { None };
        Self { area, whole, left: count }
    }

    /// Over no attributes.
    pub(crate) fn empty() -> Self {
        Self { area: &[], whole: None, left: 0 }
    }
}

impl<'a> Iterator for Attrs<'a> {
    type Item = (&'a str, &'a str);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let RawAttribute { name, value, rest } = RawAttribute::split(self.area)?;
        self.area = rest;
        self.left = self.left.saturating_sub(1);
        if let Some(whole) = self.whole {
            let end = whole.len() - rest.len();
            let start = end - value.len();
            let name_end = start - 4;
            let name = whole.get(name_end - name.len()..name_end);
            if let (Some(name), Some(value)) = (name, whole.get(start..end)) {
                return Some((name, value));
            }
        }
        Some((text(name), text(value)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left.into(), Some(self.left.into()))
    }
}

impl ExactSizeIterator for Attrs<'_> {}

/// Text of bytes that parse or build has checked.
#[inline]
pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("names and values are checked when a frame is made")
}
