//! Everything about segments that can wait: preparing spares, sealing, deleting. One background thread.
//!
//! Deleting obeys two bounds: never the newest segment, and never one that the older snapshot would be
//! replayed over. The log does not depend on this thread: what it fails to do is logged and left.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use framegate_storage::Pos;

use crate::files::Files;
use crate::header::HEADER_BYTES;
use crate::metrics::JournalMetrics;
use crate::names;
use crate::scan::{Scan, Step};
use crate::segments::{Segment, Segments, lock};
use crate::spare::{Spare, Spares};

/// Bytes read at once when blocks are counted.
const STEP_BYTES: usize = 1 << 20;

enum Task {
    Prepare(u64),
    Seal(Arc<Segment>),
    Release(Vec<Pos>),
    Reclaim,
}

/// What the thread and its clients share.
pub(crate) struct Upkeep {
    files: Arc<dyn Files>,
    dir: PathBuf,
    segments: Arc<Segments>,
    metrics: Arc<JournalMetrics>,
    spares: Spares,
    stop: AtomicBool,
    /// Position from which the older snapshot is replayed; `u64::MAX` without a snapshot.
    pub(crate) floor: AtomicU64,
}

/// Sends work to the thread; stops and joins it when dropped.
pub(crate) struct Maintenance {
    pub(crate) upkeep: Arc<Upkeep>,
    tasks: Mutex<Option<Sender<Task>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Maintenance {
    pub(crate) fn start(
        files: Arc<dyn Files>,
        dir: PathBuf,
        segments: Arc<Segments>,
        metrics: Arc<JournalMetrics>,
    ) -> io::Result<Self> {
        let upkeep = Arc::new(Upkeep {
            files,
            dir,
            segments,
            metrics,
            spares: Spares::default(),
            stop: AtomicBool::new(false),
            floor: AtomicU64::new(u64::MAX),
        });
        let (tasks, inbox) = mpsc::channel();
        let for_thread = Arc::clone(&upkeep);
        let thread = std::thread::Builder::new()
            .name("journal-upkeep".to_owned())
            .spawn(move || for_thread.run(&inbox))?;
        Ok(Self { upkeep, tasks: Mutex::new(Some(tasks)), thread: Mutex::new(Some(thread)) })
    }

    /// Prepares a spare of this size, replacing one of another size.
    pub(crate) fn prepare(&self, capacity: u64) {
        if lock(&self.tasks).is_some() {
            self.upkeep.spares.begin();
            self.send(Task::Prepare(capacity));
        }
    }

    /// Gives the unused space of a finished segment back.
    pub(crate) fn seal(&self, segment: Arc<Segment>) {
        self.send(Task::Seal(segment));
    }

    pub(crate) fn release(&self, dead: &[Pos]) {
        self.send(Task::Release(dead.to_vec()));
    }

    /// Deletes what may be deleted now.
    pub(crate) fn reclaim(&self) {
        self.send(Task::Reclaim);
    }

    /// The spare, if it has this size and is ready.
    pub(crate) fn take_spare(&self, capacity: u64) -> Option<Spare> {
        self.upkeep.spares.take(capacity)
    }

    /// Waits until no spare is being prepared.
    pub(crate) fn wait_ready(&self) {
        self.upkeep.spares.wait();
    }

    /// Bytes of the spare that is ready.
    pub(crate) fn spare_bytes(&self) -> u64 {
        self.upkeep.spares.bytes()
    }

    fn send(&self, task: Task) {
        if let Some(tasks) = lock(&self.tasks).as_ref() {
            // The thread lives until the sender is gone.
            let _ = tasks.send(task);
        }
    }

    /// Ends the thread. With `finish` all tasks are done first and the spare is removed.
    pub(crate) fn stop(&self, finish: bool) {
        self.upkeep.stop.store(!finish, Ordering::Relaxed);
        drop(lock(&self.tasks).take());
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
        if finish {
            self.upkeep.spares.clear(&*self.upkeep.files);
        }
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.stop(false);
    }
}

impl Upkeep {
    fn run(&self, inbox: &Receiver<Task>) {
        for task in inbox {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let outcome = match task {
                Task::Prepare(capacity) => self.spares.prepare(&*self.files, &self.dir, capacity, &self.stop),
                Task::Seal(segment) => self.seal(&segment),
                Task::Release(dead) => self.release(&dead),
                Task::Reclaim => self.reclaim(),
            };
            if let Err(error) = outcome {
                tracing::warn!(dir = %self.dir.display(), %error, "journal maintenance failed");
            }
        }
        self.spares.finish();
    }

    fn seal(&self, segment: &Segment) -> io::Result<()> {
        let Some(end) = segment.end() else { return Ok(()) };
        // It may have been trimmed meanwhile.
        if self.segments.get(segment.number).is_some() {
            self.files.open(&segment.path, true)?.set_len(end)?;
            segment.size.store(end, Ordering::Release);
        }
        self.reclaim()
    }

    fn release(&self, dead: &[Pos]) -> io::Result<()> {
        for pos in dead {
            let (number, offset) = names::unpack(*pos);
            if let Some(segment) = self.segments.get(number) {
                lock(&segment.dead).insert(offset as u32);
            }
        }
        self.reclaim()
    }

    fn reclaim(&self) -> io::Result<()> {
        let all = self.segments.all();
        let (floor, _) = names::unpack(Pos(self.floor.load(Ordering::Acquire)));
        let (trimmed, _) = names::unpack(self.segments.trimmed());
        let has_snapshot = self.floor.load(Ordering::Acquire) != u64::MAX;
        let mut deleted = 0;
        for segment in all.iter().take(all.len().saturating_sub(1)).filter(|segment| segment.number < floor) {
            if segment.number < trimmed || (has_snapshot && self.is_dead(segment)?) {
                self.segments.remove(segment.number);
                self.files.remove(&segment.path)?;
                deleted += 1;
            }
        }
        if deleted > 0 {
            JournalMetrics::add(&self.metrics.segments_deleted, deleted);
            self.files.sync_dir(&self.dir)?;
        }
        Ok(())
    }

    /// Whether every block of the segment was released.
    fn is_dead(&self, segment: &Segment) -> io::Result<bool> {
        if segment.empty.load(Ordering::Acquire) {
            return Ok(true);
        }
        let dead = lock(&segment.dead).len() as u64;
        if dead == 0 {
            return Ok(false);
        }
        if let Some(blocks) = segment.blocks() {
            return Ok(dead >= u64::from(blocks));
        }
        let file = self.segments.file(segment).map_err(|error| io::Error::other(error.to_string()))?;
        let limit = file.size()?;
        let mut scan = Scan::new(&*file, segment.seed, HEADER_BYTES, limit, STEP_BYTES);
        let mut blocks = 0u32;
        loop {
            match scan.step()? {
                Step::Batch(header, _) => blocks += u32::from(!header.is_mark()),
                Step::End(end) => {
                    segment.set_written(end, blocks);
                    return Ok(dead >= u64::from(blocks));
                }
                // Keep what cannot be counted.
                Step::Bad(..) => return Ok(false),
            }
        }
    }
}
