//! Sequential reading: blocks in log order from a position on. Never looks at what is not yet written.

use std::sync::Arc;

use bytes::Bytes;
use framegate_storage::{Pos, StoreError, StoredBlock};

use crate::batch::{BATCH_BYTES, BatchHeader};
use crate::files::{FileHandle, read_full};
use crate::header::HEADER_BYTES;
use crate::manifest::io_error;
use crate::names::{pack, unpack};
use crate::scan::{Scan, Step};
use crate::segments::{Segment, corrupt, lock};
use crate::shared::Shared;

/// Bounds of one read from a file.
const STEP_BYTES_MIN: usize = 4 << 10;
const STEP_BYTES_MAX: usize = 1 << 20;

/// Blocks from `from` on until `bytes_max` record bytes are passed; at least one if there is one.
pub(crate) fn read(shared: &Shared, from: Pos, bytes_max: usize) -> Result<Vec<StoredBlock>, StoreError> {
    let segments = &shared.segments;
    let trimmed = segments.trimmed();
    if from.0 != 0 && from < trimmed {
        return Err(StoreError::NotFound { pos: from });
    }
    let (number, offset) = unpack(from.max(trimmed));
    let mut next = segments.at_or_after(number);
    let mut offset = offset.max(HEADER_BYTES);
    if let Some(first) = next.as_ref().filter(|first| first.number != number) {
        if from.0 != 0 && from != trimmed {
            return Err(StoreError::NotFound { pos: from });
        }
        tracing::trace!(segment = first.number, "the log begins here");
        offset = HEADER_BYTES;
    }
    let mut out = Collected { blocks: Vec::new(), bytes: 0, bytes_max };
    while let Some(segment) = next {
        next = segments.at_or_after(segment.number + 1);
        if read_segment(shared, &segment, offset, next.is_none(), &mut out)? {
            break;
        }
        offset = HEADER_BYTES;
    }
    Ok(out.blocks)
}

struct Collected {
    blocks: Vec<StoredBlock>,
    bytes: usize,
    bytes_max: usize,
}

/// Reads from one segment; true when enough was read.
fn read_segment(
    shared: &Shared,
    segment: &Segment,
    offset: u64,
    newest: bool,
    out: &mut Collected,
) -> Result<bool, StoreError> {
    let file = shared.segments.file(segment)?;
    let step_bytes = out.bytes_max.saturating_sub(out.bytes).clamp(STEP_BYTES_MIN, STEP_BYTES_MAX);
    let mut scan = Scan::new(&*file, segment.seed, offset, segment.readable(), step_bytes);
    loop {
        match scan.step().map_err(|error| io_error("read", &segment.path, &error))? {
            Step::Batch(header, _) if header.is_mark() => {}
            Step::Batch(header, at) => {
                let records = Bytes::copy_from_slice(scan.body());
                out.bytes += records.len();
                out.blocks.push(stored(&header, pack(segment.number, at), records));
                if out.bytes >= out.bytes_max {
                    return Ok(true);
                }
            }
            Step::End(_) => return Ok(false),
            // Not recovered yet: whether this is a torn tail is for `claim` to say.
            Step::Bad(..) if newest && segment.end().is_none() => return Ok(true),
            Step::Bad(at, _) if at == offset && offset != HEADER_BYTES => {
                return Err(StoreError::NotFound { pos: pack(segment.number, at) });
            }
            Step::Bad(at, detail) => return Err(corrupt(&segment.path, at, detail)),
        }
    }
}

fn stored(header: &BatchHeader, pos: Pos, records: Bytes) -> StoredBlock {
    StoredBlock {
        pos,
        epoch: header.epoch,
        first: header.base,
        count: header.count,
        time_ms: header.time_ms,
        flags: header.block_flags(),
        records,
    }
}

/// Position right after the block at `pos`.
pub(crate) fn next_pos(shared: &Shared, pos: Pos) -> Result<Pos, StoreError> {
    if let Some(pending) = lock(&shared.state).find(pos) {
        return Ok(pending.next());
    }
    let (_, _, header) = header_at(shared, pos)?;
    Ok(Pos(pos.0 + header.stored_bytes()))
}

/// A block on disk: its segment, an open file of it, and its header.
pub(crate) type Found = (Arc<Segment>, Arc<dyn FileHandle>, BatchHeader);

/// A written block's header, with its segment and an open file; `NotFound` when no block starts at `pos`.
pub(crate) fn header_at(shared: &Shared, pos: Pos) -> Result<Found, StoreError> {
    let missing = StoreError::NotFound { pos };
    let (number, offset) = unpack(pos);
    if pos < shared.segments.trimmed() || offset < HEADER_BYTES {
        return Err(missing);
    }
    let Some(segment) = shared.segments.get(number) else { return Err(missing) };
    let readable = segment.readable();
    if offset + BATCH_BYTES > readable {
        return Err(missing);
    }
    let file = shared.segments.file(&segment).map_err(|error| at(error, pos))?;
    let mut bytes = [0; BATCH_BYTES as usize];
    read_full(&*file, offset, &mut bytes).map_err(|error| io_error("read", &segment.path, &error))?;
    match BatchHeader::decode(&bytes, segment.seed, offset) {
        Some(header) if !header.is_mark() && offset + header.stored_bytes() <= readable => {
            Ok((segment, file, header))
        }
        _ => Err(missing),
    }
}

/// The same error; a deleted file is a missing position.
fn at(error: StoreError, pos: Pos) -> StoreError {
    match error {
        StoreError::NotFound { .. } => StoreError::NotFound { pos },
        other => other,
    }
}
