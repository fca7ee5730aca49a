//! Bodies by reference: from memory while a block is pending, else from its segment.
//!
//! The first touch of a block reads it whole and checks its records; after that a small part of a large
//! block is read alone. References into the same block should stand together: it is then read once.

use std::collections::HashSet;

use bytes::Bytes;
use framegate_storage::{BodyRef, Pos, StoreError};

use crate::batch::BATCH_BYTES;
use crate::commit::COPY_BELOW;
use crate::files::read_full;
use crate::manifest::io_error;
use crate::names::unpack;
use crate::read::header_at;
use crate::segments::{corrupt, lock};
use crate::shared::Shared;

/// Blocks up to this size are always read whole.
const WHOLE_BYTES: u32 = 64 << 10;
/// Checked blocks that are remembered.
const CHECKED_MAX: usize = 64 << 10;

/// Positions of blocks whose records were checked since the start.
#[derive(Default)]
pub(crate) struct Checked(HashSet<Pos>);

impl Checked {
    fn insert(&mut self, pos: Pos) {
        if self.0.len() >= CHECKED_MAX {
            self.0.clear();
        }
        self.0.insert(pos);
    }
}

/// One result for each reference.
pub(crate) fn fetch(shared: &Shared, at: &[BodyRef]) -> Vec<Result<Bytes, StoreError>> {
    let mut last: Option<(Pos, Bytes)> = None;
    at.iter().map(|at| fetch_one(shared, *at, &mut last)).collect()
}

fn fetch_one(shared: &Shared, at: BodyRef, last: &mut Option<(Pos, Bytes)>) -> Result<Bytes, StoreError> {
    let missing = StoreError::NotFound { pos: at.block };
    let (start, len) = (at.offset as usize, at.len as usize);
    if let Some((_, block)) = last.as_ref().filter(|(pos, _)| *pos == at.block) {
        return part(block, start, len).ok_or(missing);
    }
    if let Some(pending) = lock(&shared.state).find(at.block) {
        return pending.body(start, len).ok_or(missing);
    }
    let (segment, file, header) = header_at(shared, at.block)?;
    if u64::from(at.offset) + u64::from(at.len) > u64::from(header.len) {
        return Err(missing);
    }
    let (_, offset) = unpack(at.block);
    let records_at = offset + BATCH_BYTES;
    let read = |from: u64, len: usize| {
        let mut bytes = vec![0; len];
        match read_full(&*file, from, &mut bytes) {
            Ok(read) if read == len => Ok(Bytes::from(bytes)),
            Ok(_) => Err(corrupt(&segment.path, from, "the file is shorter than its blocks")),
            Err(error) => Err(io_error("read", &segment.path, &error)),
        }
    };
    let small_part = header.len > WHOLE_BYTES && at.len < header.len / 4;
    if small_part && lock(&shared.checked).0.contains(&at.block) {
        return read(records_at + u64::from(at.offset), len);
    }
    let block = read(records_at, header.len as usize)?;
    if crc32c::crc32c_append(segment.seed, &block) != header.body_crc {
        return Err(corrupt(&segment.path, offset, "the records do not match their checksum"));
    }
    lock(&shared.checked).insert(at.block);
    let found = part(&block, start, len).ok_or(missing);
    *last = Some((at.block, block));
    found
}

/// A part of a block. A small one is a copy of its own, so that it does not keep the block in memory.
fn part(block: &Bytes, start: usize, len: usize) -> Option<Bytes> {
    let end = start.checked_add(len).filter(|end| *end <= block.len())?;
    Some(if len < COPY_BELOW || len < block.len() / 2 {
        Bytes::copy_from_slice(&block[start..end])
    } else {
        block.slice(start..end)
    })
}
