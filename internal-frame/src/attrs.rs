//! The attributes of a frame in wire order, as text. Never looks for a name: lookups are the frame's.

use crate::layout::RawAttribute;

/// Iterator over the attributes of a [`Frame`](crate::Frame) in wire order, duplicates included, as
/// `(name, value)`. Borrows from the frame; does not allocate.
#[derive(Debug, Clone)]
pub struct Attrs<'a> {
    area: &'a [u8],
    left: u16,
}

impl<'a> Attrs<'a> {
    /// Over the attribute bytes of a checked frame, which hold `count` attributes.
    #[inline]
    pub(crate) fn new(area: &'a [u8], count: u16) -> Self {
        Self { area, left: count }
    }

    /// Over no attributes.
    pub(crate) fn empty() -> Self {
        Self { area: &[], left: 0 }
    }
}

impl<'a> Iterator for Attrs<'a> {
    type Item = (&'a str, &'a str);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let attribute = RawAttribute::split(self.area)?;
        self.area = attribute.rest;
        self.left = self.left.saturating_sub(1);
        Some((text(attribute.name), text(attribute.value)))
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
