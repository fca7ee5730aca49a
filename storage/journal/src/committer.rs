//! The committer thread of one claim: takes every block that waits, has it written, syncs once, reports.
//!
//! Owns when: the order write, sync, report, when a sync or a mark is due, and how the thread ends. It is
//! the only thread that calls the report.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use framegate_storage::{Lsn, Report, Resource, StoreError};

use crate::options::SyncMode;
use crate::pending::Pending;
use crate::segments::lock;
use crate::shared::Shared;
use crate::state::{Phase, Stop};
use crate::writer::{Halt, Writer};

/// Bytes of blocks that one group takes, if there is more than one block.
const GROUP_BYTES_MAX: usize = 32 << 20;

pub(crate) struct Committer {
    shared: Arc<Shared>,
    writer: Writer,
}

enum Work {
    Group(Vec<Arc<Pending>>),
    Sync,
    Finish,
    Abandon,
}

impl Committer {
    pub(crate) fn new(writer: Writer) -> Self {
        Self { shared: Arc::clone(&writer.shared), writer }
    }

    /// Runs until stopped or failed.
    pub(crate) fn run(mut self) -> Result<(), StoreError> {
        // A panic must not leave the owner waiting for a report that never comes.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.work())).unwrap_or_else(|_| {
            let detail = "the committer thread panicked".to_owned();
            let path = self.shared.options.dir.clone();
            Err(Halt::Fatal(StoreError::Fatal { action: "write to", path, detail }))
        });
        match outcome {
            Ok(()) => Ok(()),
            Err(Halt::Fatal(error)) => {
                tracing::error!(%error, "the journal has failed");
                {
                    let mut state = lock(&self.shared.state);
                    state.phase = Phase::Failed(error.clone());
                    state.pending.clear();
                }
                self.shared.settled.notify_all();
                (self.writer.report)(Report::Failed(error.clone()));
                Err(error)
            }
            Err(Halt::Full) => Err(StoreError::Full { what: Resource::Disk }),
            Err(Halt::Abandoned) => {
                let current = lock(&self.shared.state).epoch;
                if current != self.writer.epoch {
                    (self.writer.report)(Report::Failed(StoreError::Fenced { current }));
                }
                Ok(())
            }
        }
    }

    fn work(&mut self) -> Result<(), Halt> {
        loop {
            match self.next_work() {
                Work::Group(group) => self.group(&group)?,
                Work::Sync => self.writer.sync()?,
                Work::Finish => return self.finish(),
                Work::Abandon => return Err(Halt::Abandoned),
            }
        }
    }

    /// Waits for something to do.
    fn next_work(&mut self) -> Work {
        let mut state = lock(&self.shared.state);
        let idle_since = Instant::now();
        loop {
            if state.stop == Stop::Abandon {
                return Work::Abandon;
            }
            if !state.pending.is_empty() {
                let mut bytes = 0;
                let fits = |pending: &&Arc<Pending>| {
                    bytes += pending.block.len();
                    bytes <= GROUP_BYTES_MAX
                };
                let count = state.pending.iter().take_while(fits).count().max(1);
                return Work::Group(state.pending.range(..count).cloned().collect());
            }
            if state.sync_wanted.min(self.writer.written) > self.writer.synced {
                return Work::Sync;
            }
            if state.stop == Stop::Drain {
                return Work::Finish;
            }
            let sync_every = self.interval().filter(|_| self.writer.is_dirty());
            let sync_in = sync_every.map(|every| every.saturating_sub(self.writer.last_sync.elapsed()));
            let mark_after = self.shared.options.idle_mark.filter(|_| self.writer.needs_mark());
            let mark_in = mark_after.map(|after| after.saturating_sub(idle_since.elapsed()));
            if sync_in == Some(Duration::ZERO) {
                return Work::Sync;
            }
            if mark_in == Some(Duration::ZERO) {
                state.push_mark(self.writer.time_ms);
                continue;
            }
            state.idle = true;
            let wake = &self.shared.wake;
            state = match sync_in.into_iter().chain(mark_in).min() {
                Some(time) => wake.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0,
                None => wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
            state.idle = false;
        }
    }

    fn interval(&self) -> Option<Duration> {
        match self.shared.options.sync {
            SyncMode::Group => None,
            SyncMode::Interval(every) => Some(every),
        }
    }

    fn group(&mut self, group: &[Arc<Pending>]) -> Result<(), Halt> {
        for run in group.chunk_by(|a, b| a.segment == b.segment) {
            self.writer.enter(&run[0])?;
            self.writer.write(run)?;
        }
        self.writer.report_room();
        let asked = group.iter().any(|pending| pending.block.sync);
        let (sync_first, sync_after) = match self.interval() {
            None => {
                let late = asked && self.shared.options.confirms_before_sync();
                (asked && !late, late)
            }
            Some(every) => (false, self.writer.last_sync.elapsed() >= every),
        };
        if sync_first {
            self.writer.sync()?;
        }
        self.settle(group);
        if sync_after { self.writer.sync() } else { Ok(()) }
    }

    /// Takes the group off the queue and reports it, unless it is only a mark.
    fn settle(&mut self, group: &[Arc<Pending>]) {
        lock(&self.shared.state).pending.drain(..group.len());
        if group.iter().any(|pending| !pending.is_mark()) {
            self.shared.metrics.group(group.len());
            let upto: Lsn = self.writer.written;
            (self.writer.report)(Report::Durable { upto });
        }
    }

    /// Orderly end: syncs everything, covers it with a mark, and gives unused space back.
    fn finish(&mut self) -> Result<(), Halt> {
        if self.writer.is_dirty() {
            self.writer.sync()?;
        }
        if self.writer.needs_mark() {
            let group: Vec<Arc<Pending>> = {
                let mut state = lock(&self.shared.state);
                state.push_mark(self.writer.time_ms);
                state.pending.iter().cloned().collect()
            };
            self.group(&group)?;
            self.writer.sync()?;
        }
        self.writer.leave();
        Ok(())
    }
}
