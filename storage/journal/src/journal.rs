//! The journal as a backend: opens a directory and delegates each call to the part that owns it.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};

use bytes::Bytes;
use framegate_storage::{
    Block, BodyRef, Caps, Claim, Epoch, Extent, Generation, Lsn, Pos, ReportFn, ShardId, ShardStore,
    Snapshot, StoreError, StoredBlock, Usage,
};

use crate::claim::Owner;
use crate::fetch::fetch;
use crate::files::{DiskFiles, Files};
use crate::maintenance::Maintenance;
use crate::manifest::{Manifest, io_error};
use crate::metrics::JournalMetrics;
use crate::names;
use crate::options::Options;
use crate::read::{next_pos, read};
use crate::segments::{Segment, Segments, corrupt, lock};
use crate::shared::Shared;
use crate::snapshots::Snapshots;
use crate::state::{State, Stop};

const SHARD: ShardId = ShardId(0);

/// An open journal: one directory, one shard. The directory is locked until it is dropped. Dropping it
/// without `shutdown` stops its threads at once, as a kill would; nothing reported durable is lost.
pub struct Journal {
    shared: Arc<Shared>,
    owner: Mutex<Owner>,
    /// Dropped last: the lock of the directory.
    _lock: Option<Box<dyn Send + Sync>>,
}

/// A file of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentFile {
    /// Its name in the directory.
    pub name: String,
    /// The position at which it begins.
    pub first: Pos,
    /// Its length.
    pub bytes: u64,
}

impl Journal {
    /// Opens the journal in `options.dir`, making it if there is none. Blocks.
    ///
    /// # Errors
    /// `InUse` when another process has it, `Version` when a newer version wrote it, `Corrupt` with file
    /// and offset when manifest or segment headers are damaged, `Io` for everything the system refuses and
    /// for options out of bounds.
    pub fn open(options: Options) -> Result<Self, StoreError> {
        #[cfg(feature = "faults")]
        if options.faults.any() {
            let files = crate::faults::FaultyFiles::new(Arc::new(DiskFiles), options.faults.clone());
            return Self::open_with(Arc::new(files), options);
        }
        Self::open_with(Arc::new(DiskFiles), options)
    }

    /// As `open`, on another file layer.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_with(files: Arc<dyn Files>, options: Options) -> Result<Self, StoreError> {
        options.check()?;
        let dir = options.dir.clone();
        files.create_dir(&dir).map_err(|error| io_error("make", &dir, &error))?;
        let lock_path = dir.join(names::LOCK);
        let guard = files.lock(&lock_path).map_err(|error| io_error("lock", &lock_path, &error))?;
        let guard = guard.ok_or(StoreError::InUse { path: dir.clone() })?;
        let listed = files.list(&dir).map_err(|error| io_error("list", &dir, &error))?;
        let found = Manifest::load(&*files, &dir)?;
        for name in listed.iter().filter(|name| names::is_leftover(name)) {
            let path = dir.join(name);
            files.remove(&path).map_err(|error| io_error("remove", &path, &error))?;
        }
        let manifest = match found {
            Some(manifest) => manifest,
            None if listed.iter().any(|name| names::parse_segment(name).is_some()) => {
                let path = dir.join(names::MANIFEST);
                return Err(corrupt(&path, 0, "the manifest is missing although there are segments"));
            }
            None => {
                let generation = files.random().map_err(|error| io_error("name", &dir, &error))?;
                let manifest = Manifest { generation: Generation(generation), epoch: Epoch(0), clean: true };
                manifest.store(&*files, &dir)?;
                manifest
            }
        };
        Self::assemble(files, options, manifest, false, Some(guard))
    }

    /// Opens an existing journal for `read`, `fetch` and `snapshot` only, as tools do. Takes no lock and
    /// changes nothing; sees what was written when it was opened.
    ///
    /// # Errors
    /// As `open`; `Io` when there is no journal.
    pub fn open_read_only(dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::open_read_only_with(Arc::new(DiskFiles), Options::new(dir))
    }

    /// As `open_read_only`, on another file layer.
    ///
    /// # Errors
    /// As `open_read_only`.
    pub fn open_read_only_with(files: Arc<dyn Files>, options: Options) -> Result<Self, StoreError> {
        let Some(manifest) = Manifest::load(&*files, &options.dir)? else {
            let detail = "there is no journal".to_owned();
            return Err(StoreError::Io { action: "open", path: options.dir, detail });
        };
        Self::assemble(files, options, manifest, true, None)
    }

    fn assemble(
        files: Arc<dyn Files>,
        options: Options,
        manifest: Manifest,
        read_only: bool,
        guard: Option<Box<dyn Send + Sync>>,
    ) -> Result<Self, StoreError> {
        let segments = Arc::new(Segments::new(Arc::clone(&files)));
        segments.load(&options.dir, SHARD)?;
        let metrics = Arc::new(JournalMetrics::default());
        let (for_upkeep, dir) = (Arc::clone(&files), options.dir.clone());
        let maintenance = Maintenance::start(for_upkeep, dir, Arc::clone(&segments), Arc::clone(&metrics))
            .map_err(|error| io_error("start a thread for", &options.dir, &error))?;
        let shared = Arc::new(Shared {
            files,
            options,
            generation: manifest.generation,
            read_only,
            segments,
            snapshots: Snapshots::default(),
            maintenance,
            metrics,
            manifest: Mutex::new(manifest),
            checked: Mutex::default(),
            state: Mutex::new(State::new()),
            wake: Condvar::new(),
            settled: Condvar::new(),
        });
        shared.snapshots.load(&shared)?;
        Ok(Self { shared, owner: Mutex::default(), _lock: guard })
    }

    /// The segments that exist, oldest first.
    #[must_use]
    pub fn segment_files(&self) -> Vec<SegmentFile> {
        let file = |segment: &Arc<Segment>| SegmentFile {
            name: names::segment(segment.base),
            first: names::pack(segment.number, 0),
            bytes: segment.size.load(Ordering::Acquire),
        };
        self.shared.segments.all().iter().map(file).collect()
    }

    /// Counters, alive for as long as the caller keeps them.
    #[must_use]
    pub fn metrics(&self) -> Arc<JournalMetrics> {
        Arc::clone(&self.shared.metrics)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let _ = lock(&self.owner).stop(&self.shared, Stop::Abandon);
        self.shared.maintenance.stop(false);
    }
}

impl ShardStore for Journal {
    fn name(&self) -> &'static str {
        "journal"
    }

    fn caps(&self) -> Caps {
        Caps {
            block_bytes_max: self.shared.options.block_bytes_max,
            pipelining: self.shared.options.pipelining,
            shared: false,
            durable: true,
        }
    }

    fn claim(&self, shard: ShardId, report: ReportFn) -> Result<Claim, StoreError> {
        lock(&self.owner).claim(&self.shared, shard, report)
    }

    fn append(&self, claim: &Claim, block: Block) -> Result<Pos, StoreError> {
        let (pos, idle) = {
            let mut state = lock(&self.shared.state);
            (state.append(&self.shared.options, claim, block)?, state.idle)
        };
        if idle {
            self.shared.wake.notify_all();
        }
        Ok(pos)
    }

    fn read(&self, _shard: ShardId, from: Pos, bytes_max: usize) -> Result<Vec<StoredBlock>, StoreError> {
        read(&self.shared, from, bytes_max)
    }

    fn next_pos(&self, _shard: ShardId, pos: Pos) -> Result<Pos, StoreError> {
        next_pos(&self.shared, pos)
    }

    fn fetch(&self, _shard: ShardId, at: &[BodyRef]) -> Vec<Result<Bytes, StoreError>> {
        fetch(&self.shared, at)
    }

    fn release(&self, claim: &Claim, dead: &[Pos]) -> Result<(), StoreError> {
        lock(&self.shared.state).check(claim, &self.shared.options)?;
        self.shared.maintenance.release(dead);
        Ok(())
    }

    fn extents(&self, _shard: ShardId) -> Vec<Extent> {
        let all = self.shared.segments.all();
        let closed = all.iter().take(all.len().saturating_sub(1));
        let extent = |segment: &Arc<Segment>| Extent {
            first: names::pack(segment.number, 0),
            end: names::pack(segment.number + 1, 0),
            bytes: segment.size.load(Ordering::Acquire),
        };
        closed.map(extent).collect()
    }

    fn release_extent(&self, claim: &Claim, extent: &Extent) -> Result<(), StoreError> {
        lock(&self.shared.state).check(claim, &self.shared.options)?;
        if let Some(segment) = self.shared.segments.get(names::unpack(extent.first).0) {
            segment.empty.store(true, Ordering::Release);
            self.shared.maintenance.reclaim();
        }
        Ok(())
    }

    fn trim(&self, claim: &Claim, before: Pos) -> Result<(), StoreError> {
        lock(&self.shared.state).check(claim, &self.shared.options)?;
        self.shared.segments.trim(before);
        self.shared.maintenance.reclaim();
        Ok(())
    }

    fn put_snapshot(
        &self,
        claim: &Claim,
        upto: Lsn,
        replay_from: Pos,
        parts: &mut dyn Iterator<Item = Bytes>,
    ) -> Result<(), StoreError> {
        lock(&self.shared.state).check(claim, &self.shared.options)?;
        self.shared.snapshots.put(&self.shared, claim, upto, replay_from, parts)
    }

    fn snapshot(&self, _shard: ShardId) -> Result<Option<Snapshot>, StoreError> {
        self.shared.snapshots.newest(&self.shared)
    }

    fn usage(&self, _shard: ShardId) -> Usage {
        let shared = &self.shared;
        let all = shared.segments.all();
        let files: u64 = all.iter().map(|segment| segment.size.load(Ordering::Acquire)).sum();
        let spare = shared.maintenance.spare_bytes();
        Usage {
            disk_bytes: files + spare + shared.snapshots.bytes(),
            log_bytes: all.iter().map(|segment| segment.readable()).sum(),
            segments: all.len() as u64,
            free_bytes: shared.files.free_bytes(&shared.options.dir),
            blocks_in_flight: lock(&shared.state).pending.len() as u64,
            syncs: shared.metrics.syncs.load(Ordering::Relaxed),
            writes: shared.metrics.writes.load(Ordering::Relaxed),
        }
    }

    fn shutdown(&self) -> Result<(), StoreError> {
        let outcome = lock(&self.owner).shut_down(&self.shared);
        self.shared.maintenance.stop(outcome.is_ok());
        outcome
    }
}
