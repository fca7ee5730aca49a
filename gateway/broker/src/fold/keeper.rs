//! Snapshots and disk space: the fold decides when and freezes the state, a thread of its own writes the snapshot, counts
//! what each piece of the log still holds and gives back what holds nothing. The fold never waits for it.
//!
//! Space goes back in three steps: a piece is seen dead in a snapshot, it lies below the older snapshot, the store
//! deletes it. A piece that is mostly dead is emptied by `moves.rs`.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use framegate_storage::{Claim, Lsn, Pos, ShardStore, StoreError};

use super::Core;
use super::inbox::Inbox;
use super::survey::{Survey, Survivor};
use super::timers::Timer;
use crate::broker::Shared;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::record::Record;
use crate::state::{Export, Frozen};

/// A second snapshot, which lets what the first one saw dead go, follows after this part of the usual time.
const FOLLOW_PART: u64 = 10;
/// An orderly stop writes a snapshot when the log after the newest one is longer than this part of the usual length...
const STOP_LOG_PART: u64 = 64;
/// ... and there are at most so many messages and events.
const STOP_ENTRIES_MAX: u64 = 200_000;

/// What the thread is asked for.
pub(super) enum Job {
    /// Write a snapshot and look at the pieces of the log.
    Snapshot(Box<Task>),
    /// Read bodies that are to be written again.
    Read(Vec<Survivor>),
}

/// A snapshot to write.
pub(super) struct Task {
    durable: Frozen,
    /// Not written, but what it refers to is kept.
    volatile: Frozen,
    upto: Lsn,
    /// The newest block.
    last: Pos,
    time_ms: u64,
}

/// What the thread says.
pub(crate) enum Kept {
    /// The snapshot is in place, and what was seen.
    Snapshot(Result<Survey, StoreError>),
    /// Bodies to write again.
    Bodies(Vec<(Survivor, Result<Bytes, StoreError>)>),
}

/// The fold's side.
pub(super) struct Keeper {
    /// `None` at the end.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// The newest block of this start.
    last: Option<Pos>,
    /// Record bytes since the newest snapshot.
    log_bytes: u64,
    /// What the newest snapshot covers.
    upto: Lsn,
    running: bool,
    /// Monotonic time in ms at which the next one is due; 0: none is. A timer of another time is passed over.
    due_ms: u64,
    wanted: bool,
    /// What is to be written again, in the order in which it stands.
    pub(super) survivors: VecDeque<Survivor>,
    /// Bodies are being read.
    pub(super) reading: bool,
    pub(super) move_timer: bool,
}

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// It could not be started.
    pub(super) fn start(
        store: &Arc<dyn ShardStore>,
        claim: Claim,
        shared: &Weak<Shared>,
    ) -> std::io::Result<Self> {
        let (jobs, receiver) = channel();
        let (store, shared) = (Arc::clone(store), Weak::clone(shared));
        let thread = std::thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || run(&receiver, &*store, &claim, &shared))?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
            last: None,
            log_bytes: 0,
            upto: Lsn(0),
            running: false,
            due_ms: 0,
            wanted: false,
            survivors: VecDeque::new(),
            reading: false,
            move_timer: false,
        })
    }

    /// A snapshot is being written.
    pub(super) fn is_running(&self) -> bool {
        self.running
    }

    /// The first record that the newest snapshot does not cover.
    pub(super) fn covered(&self) -> Lsn {
        self.upto
    }

    /// A block was appended.
    pub(super) fn appended(&mut self, pos: Pos, bytes: usize) {
        self.last = Some(pos);
        self.log_bytes += bytes as u64;
    }

    /// Nobody waits for the thread: on a store that is full it goes on until the store is shut down.
    pub(super) fn let_go(&mut self) {
        self.thread = None;
    }

    pub(super) fn send(&self, job: Job) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok())
    }

    fn is_due(&self, limits: &Limits) -> bool {
        self.wanted || self.log_bytes >= limits.snapshot_log_bytes
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Core {
    /// At the end of a pass: begins a snapshot if one is due, and the state is what the log says.
    pub(super) fn keep(&mut self) {
        if self.keeper.is_due(&self.shared.limits) && !self.keeper.running && !self.failed {
            self.begin_snapshot();
        }
        // what the newest one covers is no change
        let every = self.shared.limits.snapshot_every_ms;
        if self.keeper.due_ms == 0 && self.first > self.keeper.upto && every > 0 {
            self.arm(every);
        }
    }

    /// A snapshot is due after so many ms, or at its time if that is earlier.
    fn arm(&mut self, after_ms: u64) {
        let due_ms = self.now.mono_ms + after_ms.max(1);
        if self.keeper.due_ms == 0 || due_ms < self.keeper.due_ms {
            self.keeper.due_ms = due_ms;
            self.timers.add(due_ms, Timer::Snapshot);
        }
    }

    /// The usual time has passed, or what a snapshot saw dead can go with the next one.
    pub(super) fn snapshot_due(&mut self) {
        if self.keeper.due_ms == 0 || self.keeper.due_ms > self.now.mono_ms || self.closing || self.failed {
            return;
        }
        self.keeper.due_ms = 0;
        if self.first == self.keeper.upto {
            // two snapshots of one place are one
            self.log(Record::Tick, None, false);
        }
        self.keeper.wanted = true;
    }

    /// Shares the state with the thread. Not while the open block holds something, nor while the log knows of a purge
    /// that the state has not seen to the end.
    fn begin_snapshot(&mut self) {
        let Some(last) = self.keeper.last.filter(|_| self.encoder.count() == 0 && !self.has_work()) else {
            return;
        };
        if self.first <= self.keeper.upto {
            self.keeper.wanted = false;
            return;
        }
        let started = Instant::now();
        let task = Task {
            durable: self.durable.freeze(),
            volatile: self.volatile.freeze(),
            upto: self.first,
            last,
            time_ms: self.now.wall_ms,
        };
        let us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.shared.metrics.snapshot_freeze_us.store(us, Ordering::Relaxed);
        self.keeper.running = self.keeper.send(Job::Snapshot(Box::new(task)));
        (self.keeper.upto, self.keeper.log_bytes, self.keeper.wanted) = (self.first, 0, false);
    }

    /// What the thread says.
    pub(super) fn kept(&mut self, kept: Kept) {
        match kept {
            Kept::Snapshot(outcome) => {
                self.keeper.running = false;
                match outcome {
                    Ok(survey) => self.surveyed(survey),
                    Err(error) => {
                        // the log is still there: the next one is tried at its time
                        Metrics::add(&self.shared.metrics.snapshot_failures, 1);
                        if !self.failed && !self.closing {
                            tracing::warn!(%error, "a snapshot could not be written; the log is kept");
                        }
                    }
                }
            }
            Kept::Bodies(bodies) => self.move_bodies(bodies),
        }
    }

    fn surveyed(&mut self, survey: Survey) {
        let metrics = &self.shared.metrics;
        Metrics::add(&metrics.snapshots, 1);
        for (gauge, value) in [
            (&metrics.snapshot_entries, survey.entries),
            (&metrics.snapshot_time_ms, survey.time_ms),
            (&metrics.live_bytes, survey.live_bytes),
        ] {
            gauge.store(value, Ordering::Relaxed);
        }
        Metrics::add(&metrics.extents_released, survey.released);
        Metrics::add(&metrics.release_failures, survey.unreleased);
        if survey.follow && !self.closing {
            self.follow();
        }
        self.keeper.survivors = survey.survivors.into();
        self.go_on_moving();
    }

    /// What was seen dead, or was emptied, need not wait for the usual time.
    pub(super) fn follow(&mut self) {
        let every = self.shared.limits.snapshot_every_ms;
        if every > 0 {
            self.arm(every / FOLLOW_PART);
        }
    }

    /// A snapshot is written soon, at the latest after so many ms.
    pub(super) fn snapshot_within(&mut self, ms: u64) {
        let every = self.shared.limits.snapshot_every_ms;
        self.arm(if every > 0 { ms.min(every / FOLLOW_PART) } else { ms });
    }

    /// At an orderly stop: begins a snapshot when it makes the next start shorter and is soon written.
    pub(super) fn keep_at_stop(&mut self) {
        let entries: u64 = self.durable.queues().map(|q| q.count).sum::<u64>()
            + self.durable.topics().map(|t| t.entries.next() - t.entries.first()).sum::<u64>();
        let is_long = self.keeper.log_bytes >= self.shared.limits.snapshot_log_bytes / STOP_LOG_PART;
        if self.failed || self.keeper.running || !is_long || entries > STOP_ENTRIES_MAX {
            return;
        }
        self.begin_snapshot();
    }
}

fn run(jobs: &Receiver<Job>, store: &dyn ShardStore, claim: &Claim, shared: &Weak<Shared>) {
    let mut older = None;
    for job in jobs {
        let kept = match job {
            Job::Snapshot(task) => Kept::Snapshot(write(*task, store, claim, &mut older)),
            Job::Read(survivors) => {
                let refs: Vec<_> = survivors.iter().map(|s| s.body).collect();
                Kept::Bodies(survivors.into_iter().zip(store.fetch(claim.shard, &refs)).collect())
            }
        };
        let Some(shared) = shared.upgrade() else { return };
        shared.send(Inbox::Kept(kept));
    }
}

/// Writes a snapshot and gives back what it says holds nothing. `older`: where the snapshot before it is replayed from.
fn write(
    task: Task,
    store: &dyn ShardStore,
    claim: &Claim,
    older: &mut Option<Pos>,
) -> Result<Survey, StoreError> {
    let Task { durable, volatile, upto, last, time_ms } = task;
    let replay_from = store.next_pos(claim.shard, last)?;
    let mut parts = Export::new(durable.clone(), time_ms);
    store.put_snapshot(claim, upto, replay_from, &mut parts)?;
    drop(parts);
    let extents = store.extents(claim.shard);
    let mut survey = Survey::new(&extents, &[&durable, &volatile]);
    for extent in survey.dead(&extents, replay_from) {
        // the snapshot is in place, whatever becomes of the space
        if let Err(error) = store.release_extent(claim, extent) {
            tracing::warn!(%error, "a piece of the log that holds nothing could not be given back; it is tried again");
            survey.unreleased += 1;
            continue;
        }
        survey.released += 1;
        // it goes when the next snapshot makes this one the older
        survey.follow |= older.is_some_and(|older| extent.end > older);
    }
    survey.choose(&extents, replay_from, &[&durable, &volatile]);
    *older = Some(replay_from);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    survey.time_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    Ok(survey)
}
