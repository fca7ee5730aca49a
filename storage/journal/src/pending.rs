//! A block between `append` and the end of its group. Serves its bodies from memory.

use bytes::{Bytes, BytesMut};
use framegate_storage::{Block, Lsn, Pos};

use crate::batch::BATCH_BYTES;

pub(crate) struct Pending {
    pub(crate) pos: Pos,
    /// Number of its segment.
    pub(crate) segment: u32,
    /// Offset of its batch in the segment.
    pub(crate) offset: u64,
    /// Size of its segment, should the block be its first.
    pub(crate) capacity: u64,
    /// `count` 0: a mark.
    pub(crate) block: Block,
}

impl Pending {
    pub(crate) fn is_mark(&self) -> bool {
        self.block.count == 0
    }

    /// LSN of its last record; of the one before it for a mark.
    pub(crate) fn last(&self) -> Lsn {
        Lsn(self.block.first.0 + u64::from(self.block.count) - 1)
    }

    /// Position right after it.
    pub(crate) fn next(&self) -> Pos {
        Pos(self.pos.0 + BATCH_BYTES + self.block.len() as u64)
    }

    /// `len` record bytes from `offset`; `None` when it has not as many. Copies only across chunks.
    pub(crate) fn body(&self, offset: usize, len: usize) -> Option<Bytes> {
        let total = self.block.len();
        let end = offset.checked_add(len).filter(|end| *end <= total)?;
        let mut start = 0;
        let mut out = BytesMut::new();
        for chunk in &self.block.records {
            let (from, to) = (offset.max(start), end.min(start + chunk.len()));
            if from < to {
                let part = from - start..to - start;
                if to - from == len {
                    return Some(chunk.slice(part));
                }
                out.extend_from_slice(&chunk[part]);
            }
            start += chunk.len();
        }
        Some(out.freeze())
    }
}
