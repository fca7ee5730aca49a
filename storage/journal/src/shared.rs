//! What the threads of one journal share. Owns no behaviour but waiting for a sync.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use framegate_storage::{Claim, Generation, Lsn, StoreError};

use crate::fetch::Checked;
use crate::files::Files;
use crate::maintenance::Maintenance;
use crate::manifest::Manifest;
use crate::metrics::JournalMetrics;
use crate::options::Options;
use crate::segments::{Segments, lock};
use crate::snapshots::Snapshots;
use crate::state::State;

/// Files, tables and the lock around the queue. Lock order: no two of its locks are held together, except
/// that a claim holds the manifest.
pub(crate) struct Shared {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) options: Options,
    pub(crate) generation: Generation,
    pub(crate) read_only: bool,
    pub(crate) segments: Arc<Segments>,
    pub(crate) snapshots: Snapshots,
    pub(crate) maintenance: Maintenance,
    pub(crate) metrics: Arc<JournalMetrics>,
    pub(crate) manifest: Mutex<Manifest>,
    pub(crate) checked: Mutex<Checked>,
    pub(crate) state: Mutex<State>,
    /// Wakes the committer: appends while it is idle, wishes for a sync, the end.
    pub(crate) wake: Condvar,
    /// Wakes who waits for a sync: a sync, a failure, the end.
    pub(crate) settled: Condvar,
}

impl Shared {
    /// Waits until everything up to `upto` is on stable storage, asking for a sync.
    pub(crate) fn wait_synced(&self, claim: &Claim, upto: Lsn) -> Result<(), StoreError> {
        let mut state = lock(&self.state);
        loop {
            state.check(claim, &self.options)?;
            if state.synced >= upto {
                return Ok(());
            }
            state.sync_wanted = state.sync_wanted.max(upto);
            self.wake.notify_all();
            state = self.settled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
