//! Copies the valid remainder of a damaged journal into a new directory. Positions and LSNs stay what they were, so that
//! everything outside the damage is found again: a damaged range is replaced by one batch of the same length and the same
//! number of records, whose content the caller provides. The damaged directory is only read.

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use framegate_storage::{Epoch, Generation, Lsn, StoreError};

use crate::batch::{BATCH_BYTES, BatchHeader, MARK, plausible};
use crate::files::{DiskFiles, FileHandle, Files, read_full, write_all};
use crate::header::{HEADER_BYTES, SegmentHeader, seed};
use crate::manifest::{Manifest, io_error};
use crate::names;
use crate::scan::{Scan, Step};
use crate::snapshot_file::Parts;

const STEP_BYTES: usize = 1 << 20;

/// Gives so many records of so many bytes altogether that say that something is lost; `None` when none fit exactly.
pub type Filler<'f> = &'f dyn Fn(u32, usize) -> Option<Vec<u8>>;

/// A range of the log that could not be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRange {
    /// File in the damaged directory.
    pub file: PathBuf,
    /// First byte that is lost.
    pub from: u64,
    /// Byte after the last one that is lost.
    pub to: u64,
    /// First record that is lost.
    pub first: Lsn,
    /// Records that are lost; 0: only what says that others were synced.
    pub records: u64,
}

/// What a repair did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repaired {
    /// What is lost, in log order.
    pub lost: Vec<LostRange>,
    /// Segments of the new directory.
    pub segments: u64,
    /// Snapshots that were kept.
    pub snapshots: u64,
    /// Snapshots that were damaged.
    pub snapshots_lost: Vec<PathBuf>,
}

/// Copies what is valid in `from` to `to`, which must be empty or missing. Blocks.
///
/// # Errors
/// `InUse` while a process has `from`, `Io` for everything the system refuses, `Corrupt` when a range cannot be replaced.
pub fn repair(from: &Path, to: &Path, filler: Filler<'_>) -> Result<Repaired, StoreError> {
    repair_with(&DiskFiles, from, to, filler)
}

/// As `repair`, on another file layer.
///
/// # Errors
/// As `repair`.
pub fn repair_with(
    files: &dyn Files,
    from: &Path,
    to: &Path,
    filler: Filler<'_>,
) -> Result<Repaired, StoreError> {
    let listed = files.list(from).map_err(|error| io_error("list", from, &error))?;
    if !listed.iter().any(|name| name == names::MANIFEST || names::parse_segment(name).is_some()) {
        let detail = "there is no journal".to_owned();
        return Err(StoreError::Io { action: "repair", path: from.to_owned(), detail });
    }
    let lock_path = from.join(names::LOCK);
    let guard = files.lock(&lock_path).map_err(|error| io_error("lock", &lock_path, &error))?;
    let _guard = guard.ok_or(StoreError::InUse { path: from.to_owned() })?;
    files.create_dir(to).map_err(|error| io_error("make", to, &error))?;
    if !files.list(to).map_err(|error| io_error("list", to, &error))?.is_empty() {
        let detail = "the directory is not empty; name a new one".to_owned();
        return Err(StoreError::Io { action: "repair into", path: to.to_owned(), detail });
    }
    let mut job = Job { files, from, to, filler, done: Repaired::default(), newest_epoch: Epoch(0) };
    let generation = job.snapshots(&listed)?;
    job.segments(&listed)?;
    let manifest = match Manifest::load(files, from) {
        Ok(Some(manifest)) => Manifest { clean: false, ..manifest },
        // the name of the store is in its snapshots too
        Ok(None) | Err(StoreError::Corrupt { .. }) => {
            let random = || files.random().map(Generation);
            let generation = generation.map_or_else(random, Ok);
            let generation = generation.map_err(|error| io_error("name", to, &error))?;
            Manifest { generation, epoch: job.newest_epoch, clean: false }
        }
        Err(error) => return Err(error),
    };
    manifest.store(files, to)?;
    Ok(job.done)
}

struct Job<'j> {
    files: &'j dyn Files,
    from: &'j Path,
    to: &'j Path,
    filler: Filler<'j>,
    done: Repaired,
    newest_epoch: Epoch,
}

/// A segment on its way.
struct Target {
    path: PathBuf,
    file: Arc<dyn FileHandle>,
    seed: u32,
    epoch: Epoch,
}

impl Job<'_> {
    /// Copies the snapshots that are intact; gives the store's name.
    fn snapshots(&mut self, listed: &[String]) -> Result<Option<Generation>, StoreError> {
        let mut generation = None;
        for name in listed.iter().filter(|name| names::parse_snapshot(name).is_some()) {
            let path = self.from.join(name);
            let checked = Parts::open(self.files, &path).and_then(|mut parts| {
                parts.check()?;
                Ok(parts.header.generation)
            });
            match checked {
                Ok(found) => {
                    generation = Some(found);
                    self.copy(&path, &self.to.join(name), u64::MAX)?;
                    self.done.snapshots += 1;
                }
                Err(StoreError::Corrupt { .. }) => self.done.snapshots_lost.push(path),
                Err(error) => return Err(error),
            }
        }
        Ok(generation)
    }

    /// Copies up to `limit` bytes of a file.
    fn copy(&self, from: &Path, to: &Path, limit: u64) -> Result<Arc<dyn FileHandle>, StoreError> {
        let copied = || {
            let source = self.files.open(from, false)?;
            let target = self.files.create(to)?;
            let mut buffer = vec![0; STEP_BYTES];
            let mut at = 0;
            while at < limit {
                let want = STEP_BYTES.min((limit - at) as usize);
                let read = read_full(&*source, at, &mut buffer[..want])?;
                if read == 0 {
                    break;
                }
                write_all(&*target, at, &mut [IoSlice::new(&buffer[..read])])?;
                at += read as u64;
            }
            target.sync()?;
            Ok(target)
        };
        copied().map_err(|error: std::io::Error| io_error("copy", from, &error))
    }

    fn segments(&mut self, listed: &[String]) -> Result<(), StoreError> {
        let mut bases: Vec<Lsn> = listed.iter().filter_map(|name| names::parse_segment(name)).collect();
        bases.sort_unstable();
        let mut number = 0;
        for (at, base) in bases.iter().enumerate() {
            let path = self.from.join(names::segment(*base));
            let next_base = bases.get(at + 1).copied();
            match self.header(&path, *base)? {
                Some(header) => {
                    number = header.number;
                    self.newest_epoch = self.newest_epoch.max(header.epoch);
                    self.segment(&path, &header, next_base)?;
                }
                // nothing in it can be checked
                None => {
                    number += 1;
                    let size = self.files.open(&path, false).and_then(|file| file.size());
                    let to = size.map_err(|error| io_error("open", &path, &error))?;
                    let records = next_base.map_or(0, |next| next.0 - base.0);
                    let lost = LostRange { file: path.clone(), from: 0, to, first: *base, records };
                    self.done.lost.push(lost);
                    if let Some(next) = next_base {
                        self.whole_filler(*base, next, number)?;
                    }
                }
            }
        }
        self.files.sync_dir(self.to).map_err(|error| io_error("sync", self.to, &error))
    }

    fn header(&self, path: &Path, base: Lsn) -> Result<Option<SegmentHeader>, StoreError> {
        let mut bytes = [0; HEADER_BYTES as usize];
        let read = self.files.open(path, false).and_then(|file| read_full(&*file, 0, &mut bytes));
        read.map_err(|error| io_error("read the header of", path, &error))?;
        Ok(SegmentHeader::decode(&bytes).ok().filter(|header| header.base == base))
    }

    /// Copies one segment and replaces what is damaged in it.
    fn segment(
        &mut self,
        path: &Path,
        header: &SegmentHeader,
        next_base: Option<Lsn>,
    ) -> Result<(), StoreError> {
        let failed = |error: std::io::Error| io_error("read", path, &error);
        let source = self.files.open(path, false).map_err(failed)?;
        let limit = source.size().map_err(failed)?;
        let file = self.copy(path, &self.to.join(names::segment(header.base)), limit)?;
        let target = Target { path: path.to_owned(), file, seed: seed(header.salt), epoch: header.epoch };
        self.done.segments += 1;
        let (mut at, mut next) = (HEADER_BYTES, header.base);
        loop {
            // good batches
            let mut scan = Scan::new(&*source, target.seed, at, limit, STEP_BYTES);
            at = loop {
                match scan.step().map_err(failed)? {
                    Step::Batch(batch, _) if batch.base == next && batch.next().is_some() => {
                        next = batch.next().expect("checked");
                    }
                    Step::Batch(_, at) | Step::End(at) | Step::Bad(at, _) => break at,
                }
            };
            match find(&*source, target.seed, at, limit, next).map_err(failed)? {
                Some((to, batch)) => {
                    self.replace(&target, at, to, next, batch.base)?;
                    (at, next) = (to, batch.base);
                }
                None => return self.tail(&target, at, limit, next, next_base),
            }
        }
    }

    /// Replaces the bytes from `at` to `to`, which held the records from `first` to before `next`.
    fn replace(
        &mut self,
        target: &Target,
        at: u64,
        to: u64,
        first: Lsn,
        next: Lsn,
    ) -> Result<(), StoreError> {
        let records = next.0 - first.0;
        self.done.lost.push(LostRange { file: target.path.clone(), from: at, to, first, records });
        let bytes = self.batches(target, at, to - at, first, records).ok_or_else(|| StoreError::Corrupt {
            file: target.path.clone(),
            offset: at,
            detail: format!("{records} records do not fit the {} bytes that are damaged", to - at),
        })?;
        let written = write_all(&*target.file, at, &mut [IoSlice::new(&bytes)]);
        written.and_then(|()| target.file.sync()).map_err(|error| io_error("repair", &target.path, &error))
    }

    /// Batches of exactly `len` bytes with `records` records.
    fn batches(&self, target: &Target, at: u64, len: u64, first: Lsn, records: u64) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut left = len;
        while records > 0 && left >= BATCH_BYTES {
            let count = u32::try_from(records).ok()?;
            if let Some(content) = (self.filler)(count, (left - BATCH_BYTES) as usize) {
                let crc = crc32c::crc32c_append(target.seed, &content);
                let len = u32::try_from(content.len()).ok()?;
                let header = BatchHeader { count, ..BatchHeader::new(len, crc, first, target.epoch, Lsn(0)) };
                header.encode(target.seed, at + out.len() as u64, &mut out);
                out.extend_from_slice(&content);
                return Some(out);
            }
            // no records of that length: a mark makes it another one
            self.mark(target, at, first, &mut out);
            left -= BATCH_BYTES;
        }
        while records == 0 && left >= BATCH_BYTES {
            self.mark(target, at, first, &mut out);
            left -= BATCH_BYTES;
        }
        (left == 0 && records == 0).then_some(out)
    }

    fn mark(&self, target: &Target, at: u64, first: Lsn, out: &mut Vec<u8>) {
        let empty = crc32c::crc32c_append(target.seed, &[]);
        let header = BatchHeader { flags: MARK, ..BatchHeader::new(0, empty, first, target.epoch, Lsn(0)) };
        header.encode(target.seed, at + out.len() as u64, out);
    }

    /// The end of a segment: nothing valid comes any more.
    fn tail(
        &mut self,
        target: &Target,
        at: u64,
        limit: u64,
        next: Lsn,
        next_base: Option<Lsn>,
    ) -> Result<(), StoreError> {
        let failed = |error: std::io::Error| io_error("repair", &target.path, &error);
        target.file.set_len(at).map_err(failed)?;
        let records = next_base.map_or(0, |base| base.0.saturating_sub(next.0));
        // a deleted segment after this one is no loss: a snapshot covers what was in it
        let mut garbage = vec![0; (limit - at).min(STEP_BYTES as u64) as usize];
        let source = self.files.open(&target.path, false).map_err(failed)?;
        read_full(&*source, at, &mut garbage).map_err(failed)?;
        let damaged = garbage.iter().any(|byte| *byte != 0);
        if damaged {
            let file = target.path.clone();
            self.done.lost.push(LostRange { file, from: at, to: limit, first: next, records });
        }
        if damaged && records > 0 {
            let len = BATCH_BYTES + 3 * records;
            let bytes = (0..8).find_map(|more| self.batches(target, at, len + more, next, records));
            let bytes = bytes.unwrap_or_default();
            write_all(&*target.file, at, &mut [IoSlice::new(&bytes)]).map_err(failed)?;
        }
        target.file.sync().map_err(failed)
    }

    /// A segment that holds nothing but the word that its records are lost.
    fn whole_filler(&mut self, base: Lsn, next: Lsn, number: u64) -> Result<(), StoreError> {
        let path = self.to.join(names::segment(base));
        let failed = |error: std::io::Error| io_error("write", &path, &error);
        let salt = self.files.random().map_err(failed)?;
        let epoch = self.newest_epoch;
        let header = SegmentHeader { shard: 0, number, base, epoch, salt, created_ms: 0 };
        let file = self.files.create(&path).map_err(failed)?;
        let target = Target { path: path.clone(), file, seed: seed(salt), epoch };
        let records = next.0 - base.0;
        let len = BATCH_BYTES + 3 * records;
        let bytes = (0..8).find_map(|more| self.batches(&target, HEADER_BYTES, len + more, base, records));
        let mut bytes = bytes.unwrap_or_default();
        let mut all = header.encode().to_vec();
        all.append(&mut bytes);
        write_all(&*target.file, 0, &mut [IoSlice::new(&all)]).map_err(failed)?;
        self.done.segments += 1;
        target.file.sync().map_err(failed)
    }
}

/// The first intact batch at or behind `from` whose records come at or after `next`.
fn find(
    file: &dyn FileHandle,
    seed: u32,
    from: u64,
    limit: u64,
    next: Lsn,
) -> std::io::Result<Option<(u64, BatchHeader)>> {
    let mut buffer = vec![0; STEP_BYTES];
    let mut start = from;
    while start < limit {
        let want = STEP_BYTES.min((limit - start) as usize);
        let read = read_full(file, start, &mut buffer[..want])?;
        for at in 0..read.saturating_sub(BATCH_BYTES as usize - 1) {
            let offset = start + at as u64;
            if !plausible(&buffer[at..read]) {
                continue;
            }
            let Some(header) = BatchHeader::decode(&buffer[at..read], seed, offset) else { continue };
            if header.base < next || offset + header.stored_bytes() > limit {
                continue;
            }
            let mut scan = Scan::new(file, seed, offset, limit, BATCH_BYTES as usize);
            if matches!(scan.step()?, Step::Batch(..)) {
                return Ok(Some((offset, header)));
            }
        }
        if read < want || start + read as u64 >= limit {
            break;
        }
        // windows overlap, so that a header across the border is seen
        start += read as u64 - (BATCH_BYTES - 1);
    }
    Ok(None)
}
