//! Finds and changes stored blocks, for tests that damage a store at rest. Works on the bytes of a segment.

use framegate_storage::Pos;

use crate::batch::{BATCH_BYTES, BatchHeader};
use crate::header::{HEADER_BYTES, SegmentHeader, seed};
use crate::names::unpack;

/// Where a block is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Byte offset in the segment file.
    pub offset: usize,
    /// Bytes of header and records.
    pub len: usize,
}

/// Where the block at `pos` is in the file with these bytes; `None` when it is in another one.
#[must_use]
pub fn locate(file: &[u8], pos: Pos) -> Option<Place> {
    let (number, offset) = unpack(pos);
    let header = segment_header(file)?;
    if header.number != u64::from(number) {
        return None;
    }
    let batch = BatchHeader::decode(file.get(offset as usize..)?, seed(header.salt), offset)?;
    Some(Place { offset: offset as usize, len: batch.stored_bytes() as usize })
}

/// Sets flag bits of the block at `place` and repairs the checksum; false when there is no block.
pub fn set_flags(file: &mut [u8], place: Place, flags: u16) -> bool {
    let Some(header) = segment_header(file) else { return false };
    let (seed, offset) = (seed(header.salt), place.offset as u64);
    let Some(mut batch) = BatchHeader::decode(&file[place.offset..], seed, offset) else { return false };
    batch.flags |= flags;
    let mut bytes = Vec::new();
    batch.encode(seed, offset, &mut bytes);
    file[place.offset..place.offset + BATCH_BYTES as usize].copy_from_slice(&bytes);
    true
}

fn segment_header(file: &[u8]) -> Option<SegmentHeader> {
    let bytes = file.get(..HEADER_BYTES as usize)?.try_into().ok()?;
    SegmentHeader::decode(bytes).ok()
}
