//! The handle of a volatile store and its face as a backend.
//!
//! Owns the claim's life and the test controls (release, cut, fail, full). What happens to blocks is in
//! `state`, who reports is in `reporter`.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use bytes::Bytes;
use framegate_storage::{
    Block, BodyRef, Caps, Claim, Extent, Generation, Lsn, Pos, Report, ReportFn, Resource, ShardId,
    ShardStore, Snapshot, StoreError, StoredBlock, Usage,
};

use crate::options::MemoryOptions;
use crate::reporter::{Reporter, Shared, lock, tell};
use crate::state::{State, refused};

/// A volatile store. Clones are handles of the same log, which lives as long as one of them; claiming
/// again through any handle plays the part of a restart.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
    reporter: Arc<Mutex<Option<Reporter>>>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// A store whose own thread reports each block soon after it was appended.
    #[must_use]
    pub fn new() -> Self {
        Self::with_options(MemoryOptions::default())
    }

    /// A store in which nothing becomes durable before `release` says so. It has no thread: reports are
    /// called on the thread that calls `release`, `shutdown` or `claim`.
    #[must_use]
    pub fn paused() -> Self {
        Self::with_options(MemoryOptions { paused: true, ..MemoryOptions::default() })
    }

    /// A store with these settings.
    #[must_use]
    pub fn with_options(options: MemoryOptions) -> Self {
        let generation = Generation(RandomState::new().build_hasher().finish());
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(options, generation)),
            report: Mutex::new(None),
            wake: Condvar::new(),
            settled: Condvar::new(),
        });
        Self { shared, reporter: Arc::new(Mutex::new(None)) }
    }

    /// Writes up to `blocks` waiting blocks as one group, syncs if one of them asks, reports, and returns
    /// how many there were: 0 when none waits, when the store is full or when it failed. The report has
    /// been called when this returns.
    pub fn release(&self, blocks: usize) -> usize {
        self.shared.settle(blocks)
    }

    /// Blocks that are appended and not yet written.
    #[must_use]
    pub fn waiting(&self) -> usize {
        lock(&self.shared.state).waiting()
    }

    /// The next group with a block that asks for a sync fails: `Report::Failed`, and nothing after it.
    pub fn fail_next_sync(&self) {
        lock(&self.shared.state).fail_next_sync = true;
    }

    /// Takes the room away or gives it back; reported when the next group is tried.
    pub fn set_full(&self, full: bool) {
        lock(&self.shared.state).full = full;
        self.shared.wake.notify_all();
    }

    /// Power cut: ends the claim without a report and drops every block that is not synced, those
    /// reported as written included. `claim` again to restart.
    pub fn cut_unsynced(&self) {
        self.cut(State::cut_unsynced);
    }

    /// Process kill: ends the claim without a report and drops every block that is not written.
    pub fn cut_unwritten(&self) {
        self.cut(State::cut_unwritten);
    }

    /// Damages the newest snapshot, so that the older one is served; false when there is none.
    #[must_use]
    pub fn corrupt_snapshot(&self) -> bool {
        lock(&self.shared.state).snapshots.corrupt_newest()
    }

    fn cut(&self, how: fn(&mut State)) {
        let mut report = lock(&self.shared.report);
        *report = None;
        how(&mut lock(&self.shared.state));
        self.shared.settled.notify_all();
    }
}

impl ShardStore for MemoryStore {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn caps(&self) -> Caps {
        let state = lock(&self.shared.state);
        Caps {
            block_bytes_max: state.options.block_bytes_max,
            pipelining: state.options.pipelining,
            shared: false,
            durable: false,
        }
    }

    fn claim(&self, shard: ShardId, report: ReportFn) -> Result<Claim, StoreError> {
        let mut slot = lock(&self.shared.report);
        let (claim, paused, old_lives) = {
            let mut state = lock(&self.shared.state);
            let old_lives = state.open && state.failed.is_none();
            (state.claim(shard), state.options.paused, old_lives)
        };
        if old_lives {
            tell(&mut slot, Report::Failed(StoreError::Fenced { current: claim.epoch }));
        }
        *slot = Some(report);
        drop(slot);
        self.shared.settled.notify_all();
        let mut reporter = lock(&self.reporter);
        if !paused && reporter.is_none() {
            let started = Reporter::start(&self.shared);
            *reporter = Some(started.map_err(|error| refused("start a thread for", error.to_string()))?);
        }
        Ok(claim)
    }

    fn append(&self, claim: &Claim, block: Block) -> Result<Pos, StoreError> {
        let (pos, idle) = {
            let mut state = lock(&self.shared.state);
            (state.append(claim, &block)?, state.idle)
        };
        if idle {
            self.shared.wake.notify_one();
        }
        Ok(pos)
    }

    fn read(&self, _shard: ShardId, from: Pos, bytes_max: usize) -> Result<Vec<StoredBlock>, StoreError> {
        lock(&self.shared.state).read(from, bytes_max)
    }

    fn next_pos(&self, _shard: ShardId, pos: Pos) -> Result<Pos, StoreError> {
        lock(&self.shared.state).next_pos(pos)
    }

    fn fetch(&self, _shard: ShardId, at: &[BodyRef]) -> Vec<Result<Bytes, StoreError>> {
        let state = lock(&self.shared.state);
        at.iter().map(|at| state.fetch(*at)).collect()
    }

    fn release(&self, claim: &Claim, dead: &[Pos]) -> Result<(), StoreError> {
        let mut state = lock(&self.shared.state);
        state.check(claim)?;
        state.release(dead);
        Ok(())
    }

    fn extents(&self, _shard: ShardId) -> Vec<Extent> {
        lock(&self.shared.state).extents()
    }

    fn release_extent(&self, claim: &Claim, extent: &Extent) -> Result<(), StoreError> {
        let mut state = lock(&self.shared.state);
        state.check(claim)?;
        state.release_extent(extent);
        Ok(())
    }

    fn trim(&self, claim: &Claim, before: Pos) -> Result<(), StoreError> {
        let mut state = lock(&self.shared.state);
        state.check(claim)?;
        state.trim(before);
        Ok(())
    }

    fn put_snapshot(
        &self,
        claim: &Claim,
        upto: Lsn,
        replay_from: Pos,
        parts: &mut dyn Iterator<Item = Bytes>,
    ) -> Result<(), StoreError> {
        lock(&self.shared.state).check(claim)?;
        let parts: Vec<Bytes> = parts.collect();
        let mut state = lock(&self.shared.state);
        loop {
            state.check(claim)?;
            if upto.0 <= state.written_lsn().0 + 1 {
                break;
            }
            if state.options.paused {
                let detail = format!("it covers LSNs below {upto}, written is {}", state.written_lsn());
                return Err(refused("put a snapshot into", detail));
            }
            state = self.shared.settled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.snapshots.put(upto, replay_from, parts);
        Ok(())
    }

    fn snapshot(&self, _shard: ShardId) -> Result<Option<Snapshot>, StoreError> {
        Ok(lock(&self.shared.state).snapshots.newest())
    }

    fn usage(&self, _shard: ShardId) -> Usage {
        let state = lock(&self.shared.state);
        Usage {
            disk_bytes: 0,
            log_bytes: state.log_bytes(),
            segments: 1,
            free_bytes: None,
            blocks_in_flight: state.waiting() as u64,
            syncs: state.syncs,
            writes: state.writes,
        }
    }

    fn shutdown(&self) -> Result<(), StoreError> {
        while self.shared.settle(usize::MAX) > 0 {}
        let outcome = {
            let mut report = lock(&self.shared.report);
            let mut state = lock(&self.shared.state);
            *report = None;
            state.open = false;
            match &state.failed {
                Some(error) => Err(error.clone()),
                None if state.waiting() > 0 => Err(StoreError::Full { what: Resource::Disk }),
                None => Ok(()),
            }
        };
        self.shared.settled.notify_all();
        let thread = lock(&self.reporter).take();
        drop(thread);
        outcome
    }
}
