//! Finds the end of the log after a start: the torn tail is cut, everything else that is bad is refused.
//!
//! The scan starts where the older intact snapshot would be replayed from. Only the newest segment can have
//! a torn tail: a segment is begun after the one before it was synced, so damage in an earlier one is
//! corruption. In the newest, a bad batch at LSN b is corruption if a batch behind it, or a snapshot, says
//! that b had been durable; else it is the unsynced tail. Nothing is ever appended behind a cut: the owner
//! begins a new segment.

use std::sync::Arc;

use framegate_storage::{Lsn, Pos, StoreError};

use crate::batch::{BatchHeader, supported_version};
use crate::files::Files;
use crate::header::HEADER_BYTES;
use crate::manifest::io_error;
use crate::names;
use crate::options::Options;
use crate::proof::search;
use crate::scan::{Scan, Step};
use crate::segments::{Segment, Segments, corrupt};

const STEP_BYTES: usize = 1 << 20;

/// What the snapshots say about the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Known {
    /// Where the scan starts, and the LSN that stands there.
    pub(crate) start: Option<(Pos, Lsn)>,
    /// Records up to this one were durable, because a snapshot covers them.
    pub(crate) durable: Lsn,
}

/// The recovered end of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// LSN after the last record.
    pub(crate) next: Lsn,
    /// Whether nothing was cut and the last block, if the scan saw one, has the clean-shutdown flag.
    pub(crate) clean: bool,
}

/// Scans, cuts and syncs the tail. On success everything up to `next` is on stable storage.
pub(crate) fn recover(
    files: &dyn Files,
    options: &Options,
    segments: &Segments,
    known: Known,
) -> Result<Recovered, StoreError> {
    let mut walk = Walk { next: Lsn(1), clean: true };
    let all = segments.all();
    let (skip, mut offset) = start(&all, known, &mut walk)?;
    let tail = &all[skip..];
    for (index, segment) in tail.iter().enumerate() {
        if offset == HEADER_BYTES && segment.base != walk.next {
            let detail = format!(
                "it begins with LSN {}, expected {}: the records between are lost",
                segment.base, walk.next
            );
            return Err(corrupt(&segment.path, 24, detail));
        }
        let newest = index + 1 == tail.len();
        let mut seen = walk.segment(segments, segment, offset)?;
        if seen.end <= offset && offset != HEADER_BYTES {
            // The block to replay from was lost, perhaps with a mark before it: look for the end of the data
            // from the beginning. The records below the snapshot must be there.
            walk = Walk { next: segment.base, clean: true };
            offset = HEADER_BYTES;
            seen = walk.segment(segments, segment, offset)?;
        }
        let Seen { end, blocks, bad } = seen;
        if let Some(detail) = bad
            && !newest
        {
            return Err(corrupt(&segment.path, end, lost(detail, walk.next, "a later segment exists")));
        }
        // Blocks below the start of the scan are not counted.
        segment.set_written(end, if offset == HEADER_BYTES { blocks } else { u32::MAX });
        if newest {
            cut(files, options, segments, segment, &mut walk, known.durable, bad)?;
        }
        offset = HEADER_BYTES;
    }
    if known.durable >= walk.next {
        let detail =
            format!("the log ends before LSN {}, a snapshot covers up to {}", walk.next, known.durable);
        return Err(corrupt(&options.dir, 0, detail));
    }
    Ok(Recovered { next: walk.next, clean: walk.clean })
}

/// Index of the first segment to scan and the offset in it.
fn start(all: &[Arc<Segment>], known: Known, walk: &mut Walk) -> Result<(usize, u64), StoreError> {
    let Some((pos, lsn)) = known.start else {
        walk.next = all.first().map_or(Lsn(1), |segment| segment.base);
        return Ok((0, HEADER_BYTES));
    };
    let (number, offset) = names::unpack(pos);
    walk.next = lsn;
    let skip = all.partition_point(|segment| segment.number < number);
    match all.get(skip) {
        Some(segment) if segment.number == number => Ok((skip, offset.max(HEADER_BYTES))),
        _ => Ok((skip, HEADER_BYTES)),
    }
}

struct Walk {
    next: Lsn,
    clean: bool,
}

/// What a walk through one segment came to.
struct Seen {
    /// Byte after the last good batch.
    end: u64,
    blocks: u32,
    /// What is wrong at `end`, if anything is.
    bad: Option<&'static str>,
}

impl Walk {
    /// Goes through one segment.
    fn segment(&mut self, segments: &Segments, segment: &Segment, offset: u64) -> Result<Seen, StoreError> {
        let failed = |error| io_error("read", &segment.path, &error);
        let file = segments.file(segment)?;
        let limit = file.size().map_err(failed)?;
        let mut scan = Scan::new(&*file, segment.seed, offset, limit, STEP_BYTES);
        let mut blocks = 0;
        loop {
            match scan.step().map_err(failed)? {
                Step::Batch(header, at) => {
                    understood(&header, segment, at)?;
                    if let Some(detail) = self.misplaced(&header, segment) {
                        return Ok(Seen { end: at, blocks, bad: Some(detail) });
                    }
                    if !header.is_mark() {
                        blocks += 1;
                        self.clean = header.block_flags().clean_shutdown;
                    }
                    self.next = header.next().expect("misplaced refuses an overflow");
                }
                Step::End(at) => return Ok(Seen { end: at, blocks, bad: None }),
                Step::Bad(at, detail) => return Ok(Seen { end: at, blocks, bad: Some(detail) }),
            }
        }
    }

    fn misplaced(&self, header: &BatchHeader, segment: &Segment) -> Option<&'static str> {
        if header.base != self.next || header.next().is_none() {
            return Some("the batch does not continue the LSNs");
        }
        if header.epoch != segment.epoch {
            return Some("the batch is of another epoch than its segment");
        }
        (header.is_mark() != (header.count == 0)).then_some("the batch has no records")
    }
}

fn understood(header: &BatchHeader, segment: &Segment, at: u64) -> Result<(), StoreError> {
    if let Some(found) = header.newer_version() {
        return Err(StoreError::Version {
            path: segment.path.clone(),
            found,
            supported: supported_version(),
        });
    }
    match header.unknown_flags() {
        0 => Ok(()),
        flags => Err(corrupt(&segment.path, at, format!("this version does not know the flags {flags:#x}"))),
    }
}

/// Ends the newest segment at its last good batch, after making sure that nothing durable is lost.
fn cut(
    files: &dyn Files,
    options: &Options,
    segments: &Segments,
    segment: &Segment,
    walk: &mut Walk,
    durable: Lsn,
    bad: Option<&'static str>,
) -> Result<(), StoreError> {
    let end = segment.readable();
    let failed = |error| io_error("read", &segment.path, &error);
    let file = files.open(&segment.path, true).map_err(|error| io_error("open", &segment.path, &error))?;
    let len = file.size().map_err(failed)?;
    let remains = search(&*file, segment.seed, end, len).map_err(failed)?;
    let detail = bad.unwrap_or("there are only zeros");
    if remains.synced >= walk.next {
        let proof = format!("a later batch says that LSN {} was synced", remains.synced);
        return Err(corrupt(&segment.path, end, lost(detail, walk.next, &proof)));
    }
    if durable >= walk.next {
        let proof = format!("a snapshot covers LSN {durable}");
        return Err(corrupt(&segment.path, end, lost(detail, walk.next, &proof)));
    }
    if remains.garbage {
        walk.clean = false;
        tracing::warn!(file = %segment.path.display(), offset = end, lsn = walk.next.0, "cut an unsynced tail");
    }
    if segment.blocks() == Some(0) {
        // Its name belongs to the next segment, which begins with the same LSN.
        files.remove(&segment.path).map_err(|error| io_error("remove", &segment.path, &error))?;
        files.sync_dir(&options.dir).map_err(|error| io_error("sync", &options.dir, &error))?;
        segments.remove(segment.number);
        return Ok(());
    }
    let finish = || {
        if len != end {
            file.set_len(end)?;
        }
        file.sync()
    };
    finish().map_err(|error| io_error("cut and sync", &segment.path, &error))?;
    segment.size.store(end, std::sync::atomic::Ordering::Release);
    Ok(())
}

fn lost(detail: &str, lsn: Lsn, proof: &str) -> String {
    format!("{detail}; LSN {lsn} had been durable ({proof}), records from there on are lost")
}
