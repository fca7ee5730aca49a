//! The open segment of one claim: begins, fills, syncs and leaves segment files.
//!
//! Owns what is written and what is synced. A failed sync or write is fatal and never repeated; only a write
//! that found no room is, at the same place. It decides neither what is written nor when a sync is due.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use framegate_storage::{Epoch, Lsn, Report, ReportFn, Resource, ShardId, StoreError};

use crate::commit::Commit;
use crate::files::{FileHandle, is_full, write_all};
use crate::header::{HEADER_BYTES, SegmentHeader};
use crate::metrics::JournalMetrics;
use crate::names;
use crate::pending::Pending;
use crate::segments::{Segment, lock};
use crate::shared::Shared;
use crate::state::Stop;

/// Why the thread ends before its time.
pub(crate) enum Halt {
    Fatal(StoreError),
    /// Told to stop while there is no room.
    Full,
    Abandoned,
}

/// The segment that is being written.
struct Live {
    segment: Arc<Segment>,
    file: Arc<dyn FileHandle>,
    dirty: bool,
}

pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    /// Hears of room from here, of everything else from the committer.
    pub(crate) report: ReportFn,
    shard: ShardId,
    pub(crate) epoch: Epoch,
    live: Option<Live>,
    commit: Commit,
    pub(crate) written: Lsn,
    pub(crate) synced: Lsn,
    /// What the newest batch says was synced.
    covered: Lsn,
    /// Clock of the newest block.
    pub(crate) time_ms: u64,
    pub(crate) last_sync: Instant,
    /// Whether `Report::Full` is out.
    full: bool,
}

impl Writer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        report: ReportFn,
        shard: ShardId,
        epoch: Epoch,
        next: Lsn,
    ) -> Self {
        let recovered = Lsn(next.0 - 1);
        Self {
            shared,
            report,
            shard,
            epoch,
            live: None,
            commit: Commit::default(),
            written: recovered,
            synced: recovered,
            covered: recovered,
            time_ms: 0,
            last_sync: Instant::now(),
            full: false,
        }
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.dirty)
    }

    /// Whether the last synced group is not yet covered by a later batch.
    pub(crate) fn needs_mark(&self) -> bool {
        self.live.is_some() && self.synced > self.covered
    }

    /// Tells of room if there was none before.
    pub(crate) fn report_room(&mut self) {
        if std::mem::take(&mut self.full) {
            (self.report)(Report::Room);
        }
    }

    /// Leaves the open segment; its unused space is given back later.
    pub(crate) fn leave(&mut self) {
        if let Some(old) = self.live.take() {
            self.shared.maintenance.seal(old.segment);
        }
    }

    /// Writes blocks of the open segment at their places; waits while there is no room.
    pub(crate) fn write(&mut self, run: &[Arc<Pending>]) -> Result<(), Halt> {
        let Some(live) = self.live.as_mut() else { return Ok(()) };
        let done = self.commit.encode(live.segment.seed, self.epoch, self.synced, run);
        live.dirty = true;
        let (file, path) = (Arc::clone(&live.file), live.segment.path.clone());
        while let Err(error) = self.commit.write(&*file, run) {
            self.no_room("write to", &path, &error)?;
        }
        let Some((live, last)) = self.live.as_ref().zip(run.last()) else { return Ok(()) };
        let blocks = run.iter().filter(|pending| !pending.is_mark()).count() as u32;
        let end = last.offset + (last.next().0 - last.pos.0);
        live.segment.set_written(end, live.segment.blocks().unwrap_or(0) + blocks);
        self.written = last.last();
        self.covered = self.synced;
        self.time_ms = last.block.time_ms;
        let metrics = &self.shared.metrics;
        JournalMetrics::add(&metrics.writes, 1);
        JournalMetrics::add(&metrics.blocks, u64::from(blocks));
        JournalMetrics::add(&metrics.marks, run.len() as u64 - u64::from(blocks));
        JournalMetrics::add(&metrics.bytes_written, done.bytes);
        JournalMetrics::add(&metrics.bytes_copied, done.copied);
        Ok(())
    }

    /// Syncs the open segment. Never retried.
    pub(crate) fn sync(&mut self) -> Result<(), Halt> {
        let start = Instant::now();
        if let Some(live) = self.live.as_mut().filter(|live| live.dirty) {
            live.file.sync().map_err(|error| fatal("sync", &live.segment.path, &error))?;
            live.dirty = false;
            JournalMetrics::add(&self.shared.metrics.syncs, 1);
        }
        self.last_sync = Instant::now();
        JournalMetrics::add(&self.shared.metrics.sync_us, (self.last_sync - start).as_micros() as u64);
        self.synced = self.written;
        lock(&self.shared.state).synced = self.synced;
        self.shared.settled.notify_all();
        Ok(())
    }

    /// Makes the segment of `first` the open one: syncs the one before it, then begins the new file.
    pub(crate) fn enter(&mut self, first: &Pending) -> Result<(), Halt> {
        if self.live.as_ref().is_some_and(|live| live.segment.number == first.segment) {
            return Ok(());
        }
        if self.is_dirty() {
            self.sync()?;
        }
        self.leave();
        let path = self.shared.options.dir.join(names::segment(first.block.first));
        let live = loop {
            match self.begin(first, &path) {
                Ok(live) => break live,
                Err((action, error, true)) => self.no_room(action, &path, &error)?,
                Err((action, error, false)) => return Err(fatal(action, &path, &error)),
            }
        };
        self.shared.segments.insert(Arc::clone(&live.segment), Arc::clone(&live.file));
        self.live = Some(live);
        let capacity = lock(&self.shared.state).next_capacity(&self.shared.options);
        self.shared.maintenance.prepare(capacity);
        JournalMetrics::add(&self.shared.metrics.segments, 1);
        Ok(())
    }

    /// Writes and syncs the header before the file gets its name. The error says whether to try again when
    /// it is one of room.
    fn begin(&self, first: &Pending, path: &Path) -> Result<Live, (&'static str, io::Error, bool)> {
        let shared = &*self.shared;
        let files = &shared.files;
        let salt = files.random().map_err(|error| ("choose a salt for", error, false))?;
        let header = SegmentHeader {
            shard: u32::from(self.shard.0),
            number: u64::from(first.segment),
            base: first.block.first,
            epoch: self.epoch,
            salt,
            created_ms: first.block.time_ms,
        };
        let spare = shared.maintenance.take_spare(first.capacity);
        let (file, temporary) = match spare {
            Some(spare) => (spare.file, spare.path),
            None => {
                JournalMetrics::add(&shared.metrics.segments_unprepared, 1);
                let temporary = path.with_extension("log.tmp");
                let file = files.create(&temporary).map_err(|error| ("create", error, true))?;
                file.set_len(first.capacity).map_err(|error| ("extend", error, true))?;
                (file, temporary)
            }
        };
        write_all(&*file, 0, &mut [IoSlice::new(&header.encode())])
            .map_err(|error| ("write the header of", error, true))?;
        file.sync().map_err(|error| ("sync", error, false))?;
        files.rename(&temporary, path).map_err(|error| ("rename into place", error, true))?;
        files.sync_dir(&shared.options.dir).map_err(|error| ("sync the directory of", error, false))?;
        let segment = Segment::new(&header, path.to_owned(), first.capacity);
        segment.set_written(HEADER_BYTES, 0);
        Ok(Live { segment: Arc::new(segment), file, dirty: false })
    }

    /// Returns when it is time to try again after an error of room; every other error is fatal.
    fn no_room(&mut self, action: &'static str, path: &Path, error: &io::Error) -> Result<(), Halt> {
        if !is_full(error) {
            return Err(fatal(action, path, error));
        }
        let shared = Arc::clone(&self.shared);
        if !std::mem::replace(&mut self.full, true) {
            tracing::warn!(file = %path.display(), %error, "no room for the journal, trying again until there is");
            JournalMetrics::add(&shared.metrics.full, 1);
            (self.report)(Report::Full(StoreError::Full { what: Resource::Disk }));
        }
        let start = Instant::now();
        let mut state = lock(&shared.state);
        loop {
            match state.stop {
                Stop::Abandon => return Err(Halt::Abandoned),
                Stop::Drain => return Err(Halt::Full),
                Stop::No => {}
            }
            let left = shared.options.full_retry.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            state = shared.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn fatal(action: &'static str, path: &Path, error: &io::Error) -> Halt {
    let errno = error.raw_os_error().map_or(String::new(), |errno| format!(" (errno {errno})"));
    Halt::Fatal(StoreError::Fatal { action, path: path.to_owned(), detail: format!("{error}{errno}") })
}
