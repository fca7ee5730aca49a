//! The log of a volatile store: which blocks exist, and how far they are written and synced.
//!
//! Owns every transition (append, settle, cut, trim) as plain functions under the store's lock. It never
//! calls a report itself: `settle` returns what is to be reported.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use bytes::{Bytes, BytesMut};
use framegate_storage::{
    Block, BlockFlags, Claim, Epoch, Extent, Generation, Lsn, Pos, Report, Resource, ShardId, StoreError,
};

use crate::options::MemoryOptions;
use crate::snapshots::Snapshots;

/// Positions advance by the record bytes plus this, so that nobody can take them for a block count.
pub(crate) const HEADER: u64 = 52;
const FIRST_POS: u64 = 64;
/// Positions of one extent.
const EXTENT: u64 = 1 << 20;

pub(crate) struct Entry {
    pub(crate) epoch: Epoch,
    pub(crate) first: Lsn,
    pub(crate) count: u32,
    pub(crate) time_ms: u64,
    pub(crate) flags: BlockFlags,
    pub(crate) records: Bytes,
    sync: bool,
}

pub(crate) struct State {
    pub(crate) options: MemoryOptions,
    pub(crate) generation: Generation,
    pub(crate) epoch: Epoch,
    /// Whether the settling thread waits for work.
    pub(crate) idle: bool,
    /// Whether the newest claim may still append.
    pub(crate) open: bool,
    pub(crate) failed: Option<StoreError>,
    pub(crate) fail_next_sync: bool,
    pub(crate) full: bool,
    pub(crate) full_reported: bool,
    pub(crate) snapshots: Snapshots,
    pub(crate) syncs: u64,
    pub(crate) writes: u64,
    pub(crate) entries: BTreeMap<u64, Entry>,
    /// Positions of blocks that are not yet written, oldest first.
    waiting: VecDeque<u64>,
    next_lsn: u64,
    next_pos: u64,
    /// Every block below this position is written.
    pub(crate) written: u64,
    /// Every block below this position is synced.
    synced: u64,
    /// Nothing below this position is served.
    pub(crate) trimmed: u64,
    clean: bool,
}

impl State {
    pub(crate) fn new(options: MemoryOptions, generation: Generation) -> Self {
        Self {
            options,
            generation,
            epoch: Epoch(0),
            idle: false,
            open: false,
            failed: None,
            fail_next_sync: false,
            full: false,
            full_reported: false,
            snapshots: Snapshots::default(),
            syncs: 0,
            writes: 0,
            entries: BTreeMap::new(),
            waiting: VecDeque::new(),
            next_lsn: 1,
            next_pos: FIRST_POS,
            written: FIRST_POS,
            synced: FIRST_POS,
            trimmed: 0,
            clean: true,
        }
    }

    /// Ends the previous claim (its unwritten blocks are gone) and starts the next one.
    pub(crate) fn claim(&mut self, shard: ShardId) -> Claim {
        self.cut(self.written);
        // What recovery hands out is durable from then on, as in the journal.
        self.synced = self.next_pos;
        self.epoch.0 += 1;
        self.open = true;
        self.failed = None;
        self.full_reported = false;
        self.syncs = 0;
        self.writes = 0;
        Claim {
            shard,
            epoch: self.epoch,
            generation: self.generation,
            next: Lsn(self.next_lsn),
            clean: self.clean,
        }
    }

    pub(crate) fn check(&self, claim: &Claim) -> Result<(), StoreError> {
        if claim.epoch != self.epoch {
            return Err(StoreError::Fenced { current: self.epoch });
        }
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if self.open => Ok(()),
            None => Err(refused("use", "the store is shut down".to_owned())),
        }
    }

    pub(crate) fn append(&mut self, claim: &Claim, block: &Block) -> Result<Pos, StoreError> {
        self.check(claim)?;
        let len = block.len();
        if len > self.options.block_bytes_max {
            return Err(StoreError::TooLarge { len, max: self.options.block_bytes_max });
        }
        if block.count == 0 || block.first.0 != self.next_lsn {
            let detail = format!(
                "block of {} records starts at LSN {}, the log goes on at {}",
                block.count, block.first, self.next_lsn
            );
            return Err(refused("append to", detail));
        }
        let records = match block.records.as_slice() {
            [whole] => whole.clone(),
            chunks => {
                let mut records = BytesMut::with_capacity(len);
                chunks.iter().for_each(|chunk| records.extend_from_slice(chunk));
                records.freeze()
            }
        };
        let pos = self.next_pos;
        self.next_pos += HEADER + len as u64;
        self.next_lsn += u64::from(block.count);
        self.waiting.push_back(pos);
        let entry = Entry {
            epoch: claim.epoch,
            first: block.first,
            count: block.count,
            time_ms: block.time_ms,
            flags: block.flags,
            records,
            sync: block.sync,
        };
        self.entries.insert(pos, entry);
        Ok(Pos(pos))
    }

    /// Writes (and syncs, when one of them asks) up to `blocks` waiting blocks as one group. Returns the
    /// number of blocks and what is to be reported, in order.
    pub(crate) fn settle(&mut self, blocks: usize) -> (usize, Vec<Report>) {
        let mut reports = Vec::new();
        if self.failed.is_some() || self.waiting.is_empty() || blocks == 0 {
            return (0, reports);
        }
        if self.full {
            if !self.full_reported {
                self.full_reported = true;
                reports.push(Report::Full(StoreError::Full { what: Resource::Disk }));
            }
            return (0, reports);
        }
        if std::mem::take(&mut self.full_reported) {
            reports.push(Report::Room);
        }
        let count = blocks.min(self.waiting.len());
        let group: Vec<u64> = self.waiting.range(..count).copied().collect();
        let sync = group.iter().any(|pos| self.entries.get(pos).is_some_and(|entry| entry.sync));
        self.writes += 1;
        if sync && std::mem::take(&mut self.fail_next_sync) {
            let error = StoreError::Fatal {
                action: "sync",
                path: PathBuf::from("memory"),
                detail: "injected failure (EIO)".to_owned(),
            };
            self.failed = Some(error.clone());
            reports.push(Report::Failed(error));
            return (0, reports);
        }
        self.waiting.drain(..count);
        self.written = self.waiting.front().copied().unwrap_or(self.next_pos);
        if sync {
            self.syncs += 1;
            self.synced = self.written;
        }
        let last = group.last().and_then(|pos| self.entries.get(pos)).expect("a waiting block is stored");
        self.clean = last.flags.clean_shutdown;
        reports.push(Report::Durable { upto: Lsn(last.first.0 + u64::from(last.count) - 1) });
        (count, reports)
    }

    /// Ends the claim and drops every block that is not synced, as a power cut does.
    pub(crate) fn cut_unsynced(&mut self) {
        self.open = false;
        self.cut(self.synced);
    }

    /// Ends the claim and drops every block that is not written, as a process kill does.
    pub(crate) fn cut_unwritten(&mut self) {
        self.open = false;
        self.cut(self.written);
    }

    /// Drops the blocks from position `end` on. Their positions are never given out again.
    fn cut(&mut self, end: u64) {
        let lost = self.entries.split_off(&end);
        self.waiting.clear();
        if let Some(entry) = lost.values().next() {
            self.next_lsn = entry.first.0;
            self.clean = self.entries.values().next_back().is_none_or(|entry| entry.flags.clean_shutdown);
        }
        self.written = self.next_pos;
        if self.synced >= end {
            self.synced = self.next_pos;
        }
    }

    pub(crate) fn release(&mut self, dead: &[Pos]) {
        let Some(limit) = self.snapshots.older_replay_from() else { return };
        for pos in dead.iter().filter(|pos| **pos < limit && pos.0 < self.written) {
            self.entries.remove(&pos.0);
        }
    }

    /// Closed ranges of positions that hold something.
    pub(crate) fn extents(&self) -> Vec<Extent> {
        let mut extents = Vec::new();
        let mut at = 0;
        while let Some((pos, _)) = self.entries.range(at..).next() {
            let first = pos / EXTENT * EXTENT;
            let end = first + EXTENT;
            if end > self.written {
                break;
            }
            let bytes = self.entries.range(first..end).map(|(_, entry)| HEADER + entry.records.len() as u64);
            extents.push(Extent { first: Pos(first), end: Pos(end), bytes: bytes.sum() });
            at = end;
        }
        extents
    }

    pub(crate) fn release_extent(&mut self, extent: &Extent) {
        let Some(limit) = self.snapshots.older_replay_from() else { return };
        let end = extent.end.min(limit).0.min(self.written);
        let dead: Vec<u64> =
            self.entries.range(extent.first.0..end.max(extent.first.0)).map(|e| *e.0).collect();
        for pos in dead {
            self.entries.remove(&pos);
        }
    }

    pub(crate) fn trim(&mut self, before: Pos) {
        self.trimmed = self.trimmed.max(before.0.min(self.written));
        self.entries = self.entries.split_off(&self.trimmed);
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// LSN of the newest written record; 0 when there is none.
    pub(crate) fn written_lsn(&self) -> Lsn {
        let next =
            self.waiting.front().and_then(|pos| self.entries.get(pos)).map_or(self.next_lsn, |e| e.first.0);
        Lsn(next - 1)
    }

    pub(crate) fn log_bytes(&self) -> u64 {
        self.entries.values().map(|entry| HEADER + entry.records.len() as u64).sum()
    }
}

pub(crate) fn refused(action: &'static str, detail: String) -> StoreError {
    StoreError::Io { action, path: PathBuf::from("memory"), detail }
}
