//! The segments that exist, and a bounded set of open files for readers.
//!
//! Owns the table of segments and what is known of each. It creates and deletes nothing.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use framegate_storage::{Epoch, Lsn, Pos, ShardId, StoreError};

use crate::files::{FileHandle, Files, read_full};
use crate::header::{BadHeader, FORMAT, HEADER_BYTES, SegmentHeader, seed};
use crate::manifest::io_error;
use crate::names;

/// Files kept open for readers.
const OPEN_FILES_MAX: usize = 16;
const UNKNOWN: u64 = u64::MAX;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One segment file.
pub(crate) struct Segment {
    pub(crate) number: u32,
    pub(crate) base: Lsn,
    pub(crate) epoch: Epoch,
    /// Seed of its checksums.
    pub(crate) seed: u32,
    pub(crate) path: PathBuf,
    /// Bytes of the file.
    pub(crate) size: AtomicU64,
    end: AtomicU64,
    blocks: AtomicU32,
    /// Offsets of blocks that were released.
    pub(crate) dead: Mutex<HashSet<u32>>,
    /// Nothing in it lives.
    pub(crate) empty: AtomicBool,
}

impl Segment {
    pub(crate) fn new(header: &SegmentHeader, path: PathBuf, size: u64) -> Self {
        Self {
            number: header.number as u32,
            base: header.base,
            epoch: header.epoch,
            seed: seed(header.salt),
            path,
            size: AtomicU64::new(size),
            end: AtomicU64::new(UNKNOWN),
            blocks: AtomicU32::new(u32::MAX),
            dead: Mutex::default(),
            empty: AtomicBool::new(false),
        }
    }

    /// Byte after the last written batch, if known.
    pub(crate) fn end(&self) -> Option<u64> {
        Some(self.end.load(Ordering::Acquire)).filter(|end| *end != UNKNOWN)
    }

    /// Number of blocks below `end`, if known.
    pub(crate) fn blocks(&self) -> Option<u32> {
        Some(self.blocks.load(Ordering::Acquire)).filter(|blocks| *blocks != u32::MAX)
    }

    pub(crate) fn set_written(&self, end: u64, blocks: u32) {
        self.blocks.store(blocks, Ordering::Release);
        self.end.store(end, Ordering::Release);
    }

    /// Bytes that can be read: up to `end`, or the whole file while that is unknown.
    pub(crate) fn readable(&self) -> u64 {
        self.end().unwrap_or_else(|| self.size.load(Ordering::Acquire))
    }
}

/// All segments of the shard, by number.
pub(crate) struct Segments {
    files: Arc<dyn Files>,
    table: Mutex<BTreeMap<u32, Arc<Segment>>>,
    open: Mutex<VecDeque<(u32, Arc<dyn FileHandle>)>>,
    trimmed: AtomicU64,
}

impl Segments {
    pub(crate) fn new(files: Arc<dyn Files>) -> Self {
        Self { files, table: Mutex::default(), open: Mutex::default(), trimmed: AtomicU64::new(0) }
    }

    /// Reads the header of every segment in `dir` and replaces the table.
    pub(crate) fn load(&self, dir: &Path, shard: ShardId) -> Result<(), StoreError> {
        let listed = self.files.list(dir).map_err(|error| io_error("list", dir, &error))?;
        let mut bases: Vec<Lsn> = listed.iter().filter_map(|name| names::parse_segment(name)).collect();
        bases.sort_unstable();
        let mut table: BTreeMap<u32, Arc<Segment>> = BTreeMap::new();
        for base in bases {
            let segment = self.load_one(dir.join(names::segment(base)), base, shard)?;
            if table.last_key_value().is_some_and(|(last, _)| *last >= segment.number) {
                return Err(corrupt(&segment.path, 16, "segment numbers do not follow the LSNs"));
            }
            table.insert(segment.number, Arc::new(segment));
        }
        *lock(&self.table) = table;
        lock(&self.open).clear();
        Ok(())
    }

    fn load_one(&self, path: PathBuf, base: Lsn, shard: ShardId) -> Result<Segment, StoreError> {
        let mut bytes = [0; HEADER_BYTES as usize];
        let mut read = || -> io::Result<u64> {
            let file = self.files.open(&path, false)?;
            read_full(&*file, 0, &mut bytes)?;
            file.size()
        };
        let size = read().map_err(|error| io_error("read the header of", &path, &error))?;
        match SegmentHeader::decode(&bytes) {
            Ok(header) if header.base != base || header.shard != u32::from(shard.0) => {
                Err(corrupt(&path, 24, "the header is that of another segment"))
            }
            Ok(header) if header.number == 0 || header.number > u64::from(u32::MAX) => {
                Err(corrupt(&path, 16, "the segment number is out of range"))
            }
            Ok(header) => Ok(Segment::new(&header, path, size)),
            Err(BadHeader::Version(found)) => Err(StoreError::Version { path, found, supported: FORMAT }),
            Err(BadHeader::NotASegment | BadHeader::Checksum) => {
                Err(corrupt(&path, 0, "the segment header is damaged, so no batch in it can be checked"))
            }
        }
    }

    pub(crate) fn get(&self, number: u32) -> Option<Arc<Segment>> {
        lock(&self.table).get(&number).cloned()
    }

    /// The first segment numbered `number` or higher.
    pub(crate) fn at_or_after(&self, number: u32) -> Option<Arc<Segment>> {
        lock(&self.table).range(number..).next().map(|(_, segment)| Arc::clone(segment))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Segment>> {
        lock(&self.table).values().cloned().collect()
    }

    pub(crate) fn last_number(&self) -> u32 {
        lock(&self.table).last_key_value().map_or(0, |(number, _)| *number)
    }

    pub(crate) fn insert(&self, segment: Arc<Segment>, file: Arc<dyn FileHandle>) {
        let number = segment.number;
        lock(&self.table).insert(number, segment);
        self.remember(number, file);
    }

    pub(crate) fn remove(&self, number: u32) {
        lock(&self.table).remove(&number);
        lock(&self.open).retain(|(open, _)| *open != number);
    }

    /// An open file of the segment; `NotFound` when it was deleted meanwhile.
    pub(crate) fn file(&self, segment: &Segment) -> Result<Arc<dyn FileHandle>, StoreError> {
        if let Some((_, file)) = lock(&self.open).iter().find(|(number, _)| *number == segment.number) {
            return Ok(Arc::clone(file));
        }
        let file = match self.files.open(&segment.path, false) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::NotFound { pos: names::pack(segment.number, 0) });
            }
            Err(error) => return Err(io_error("open", &segment.path, &error)),
        };
        self.remember(segment.number, Arc::clone(&file));
        Ok(file)
    }

    fn remember(&self, number: u32, file: Arc<dyn FileHandle>) {
        let mut open = lock(&self.open);
        open.retain(|(other, _)| *other != number);
        open.push_back((number, file));
        if open.len() > OPEN_FILES_MAX {
            open.pop_front();
        }
    }

    /// Position below which nothing is served.
    pub(crate) fn trimmed(&self) -> Pos {
        Pos(self.trimmed.load(Ordering::Acquire))
    }

    pub(crate) fn trim(&self, before: Pos) {
        self.trimmed.fetch_max(before.0, Ordering::AcqRel);
    }
}

pub(crate) fn corrupt(path: &Path, offset: u64, detail: impl Into<String>) -> StoreError {
    StoreError::Corrupt { file: path.to_owned(), offset, detail: detail.into() }
}
