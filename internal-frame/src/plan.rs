//! The sizes of a frame to be built, checked against the limits before anything is allocated.
//! Never writes: the builder does.

use crate::error::FrameError;
use crate::head::{FrameHead, note};
use crate::layout::{ATTRIBUTE_BYTES, HEADER_BYTES, Header};
use crate::limits::{Limits, NameRule};

/// Sizes of a frame to be built, all within their limits.
pub(crate) struct Plan {
    pub(crate) header: Header,
    /// Bytes before the data.
    pub(crate) data_start: usize,
}

impl Plan {
    /// Walks the attributes once, counting.
    ///
    /// # Errors
    /// The first limit that the frame would break, or an empty name under [`NameRule::Public`].
    #[inline]
    pub(crate) fn measure<'a>(
        head: &FrameHead<'_>,
        attrs: impl Iterator<Item = (&'a str, &'a str)>,
        data_bytes: usize,
        limits: &Limits,
    ) -> Result<Self, FrameError> {
        if data_bytes > limits.data_bytes() {
            return Err(FrameError::DataLength { have: data_bytes, max: limits.data_bytes() });
        }
        let mut plan = Measure { offset: HEADER_BYTES, count: 0, limits };
        if let Some(private) = &head.private {
            plan.add(private.adaptor().len() + 1, private.value_len())?;
        }
        let mut flags = head.first_flags();
        let derives_flags = head.derives_flags();
        for (name, value) in attrs {
            plan.add(name.len(), value.len())?;
            if derives_flags {
                flags = note(flags, name, value);
            }
        }
        let (data_start, count) = (plan.offset, plan.count);
        let frame_bytes = data_start.saturating_add(data_bytes);
        if frame_bytes > limits.frame_bytes() {
            return Err(FrameError::TooLong { have: frame_bytes, max: limits.frame_bytes() });
        }
        let (kind, seq) = (head.kind, head.seq);
        let header = Header { kind, flags, seq, count: count as u16, data_bytes: data_bytes as u32 };
        Ok(Self { header, data_start })
    }
}

/// Offset and number of the attributes counted so far.
struct Measure<'l> {
    offset: usize,
    count: usize,
    limits: &'l Limits,
}

impl Measure<'_> {
    #[inline]
    fn add(&mut self, name_bytes: usize, value_bytes: usize) -> Result<(), FrameError> {
        let Self { offset, count, limits } = *self;
        if count == limits.attributes() {
            return Err(FrameError::AttributeCount { have: count + 1, max: count });
        }
        if name_bytes > limits.name_bytes() {
            return Err(FrameError::NameLength { offset, have: name_bytes, max: limits.name_bytes() });
        }
        if value_bytes > limits.value_bytes() {
            return Err(FrameError::ValueLength { offset, have: value_bytes, max: limits.value_bytes() });
        }
        if name_bytes == 0 && matches!(limits.names, NameRule::Public) {
            return Err(FrameError::EmptyName { offset });
        }
        self.count += 1;
        self.offset = offset.saturating_add(ATTRIBUTE_BYTES + name_bytes).saturating_add(value_bytes);
        Ok(())
    }
}
