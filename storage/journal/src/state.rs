//! What append and committer share under one lock: the queue of blocks and where the next one goes.
//!
//! Owns the rule that a block's position is fixed when it is appended. It touches no file.

use std::collections::VecDeque;
use std::sync::Arc;

use framegate_storage::{Block, BlockFlags, Claim, Epoch, Lsn, Pos, StoreError};

use crate::batch::BATCH_BYTES;
use crate::header::HEADER_BYTES;
use crate::names::pack;
use crate::options::Options;
use crate::pending::Pending;

/// Behind every block there is room for a mark and for the zero length that ends the data.
const TAIL_BYTES: u64 = BATCH_BYTES + 4;

#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// Not claimed, or shut down.
    Closed,
    /// Claimed by the owner of `State::epoch`.
    Open,
    /// A write or sync failed for good.
    Failed(StoreError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    No,
    /// Write and sync everything first.
    Drain,
    /// At once, as a kill does.
    Abandon,
}

/// Where the next block goes.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    segment: u32,
    offset: u64,
    /// 0: no segment was begun by this claim.
    capacity: u64,
    /// Full-size segments begun by this claim.
    rolls: u32,
}

pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) epoch: Epoch,
    pub(crate) stop: Stop,
    /// Whether the committer waits for work.
    pub(crate) idle: bool,
    /// Blocks that are not yet reported, oldest first.
    pub(crate) pending: VecDeque<Arc<Pending>>,
    /// Somebody waits for a sync up to here.
    pub(crate) sync_wanted: Lsn,
    /// Everything up to here is on stable storage.
    pub(crate) synced: Lsn,
    next: Lsn,
    place: Place,
    /// Flags of the last block appended.
    pub(crate) last_flags: BlockFlags,
}

impl State {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Closed,
            epoch: Epoch(0),
            stop: Stop::No,
            idle: false,
            pending: VecDeque::new(),
            sync_wanted: Lsn(0),
            synced: Lsn(0),
            next: Lsn(1),
            place: Place::default(),
            last_flags: BlockFlags::default(),
        }
    }

    /// Begins a claim after recovery; the first block begins segment `last_segment` + 1.
    pub(crate) fn open(&mut self, epoch: Epoch, next: Lsn, last_segment: u32, clean: bool) {
        *self = Self {
            phase: Phase::Open,
            epoch,
            synced: Lsn(next.0 - 1),
            next,
            place: Place { segment: last_segment, ..Place::default() },
            last_flags: BlockFlags { clean_shutdown: clean },
            ..Self::new()
        };
    }

    /// Whether `claim` may still change the shard.
    pub(crate) fn check(&self, claim: &Claim, options: &Options) -> Result<(), StoreError> {
        if claim.epoch != self.epoch {
            return Err(StoreError::Fenced { current: self.epoch });
        }
        match &self.phase {
            Phase::Open => Ok(()),
            Phase::Failed(error) => Err(error.clone()),
            Phase::Closed => Err(refused(options, "it was shut down".to_owned())),
        }
    }

    pub(crate) fn append(
        &mut self,
        options: &Options,
        claim: &Claim,
        block: Block,
    ) -> Result<Pos, StoreError> {
        self.check(claim, options)?;
        if self.stop != Stop::No {
            return Err(refused(options, "it is being shut down".to_owned()));
        }
        let len = block.len();
        if len > options.block_bytes_max {
            return Err(StoreError::TooLarge { len, max: options.block_bytes_max });
        }
        if block.count == 0 || block.first != self.next {
            let Block { first, count, .. } = block;
            let detail =
                format!("block of {count} records starts at LSN {first}, the log goes on at {}", self.next);
            return Err(refused(options, detail));
        }
        let stored = BATCH_BYTES + len as u64;
        if self.place.offset + stored + TAIL_BYTES > self.place.capacity {
            self.roll(options, stored);
        }
        self.next = Lsn(block.last().0 + 1);
        self.last_flags = block.flags;
        Ok(self.push(block, stored))
    }

    /// Queues a mark behind the last block. `append` left room for it.
    pub(crate) fn push_mark(&mut self, time_ms: u64) {
        debug_assert!(
            self.place.offset + BATCH_BYTES + 4 <= self.place.capacity,
            "append leaves room for a mark"
        );
        let block = Block {
            first: self.next,
            count: 0,
            time_ms,
            records: Vec::new(),
            sync: false,
            flags: BlockFlags::default(),
        };
        self.push(block, BATCH_BYTES);
    }

    fn push(&mut self, block: Block, stored: u64) -> Pos {
        let Place { segment, offset, capacity, .. } = self.place;
        let pos = pack(segment, offset);
        self.place.offset += stored;
        self.pending.push_back(Arc::new(Pending { pos, segment, offset, capacity, block }));
        pos
    }

    /// Goes to the next segment. A block larger than that gets a segment of its own.
    fn roll(&mut self, options: &Options, stored: u64) {
        let usual = options.capacity(self.place.rolls);
        let need = HEADER_BYTES + stored + TAIL_BYTES;
        self.place.segment += 1;
        self.place.offset = HEADER_BYTES;
        self.place.capacity = need.max(usual);
        if need <= usual {
            self.place.rolls += 1;
        }
    }

    /// Size that the next usual segment will have.
    pub(crate) fn next_capacity(&self, options: &Options) -> u64 {
        options.capacity(self.place.rolls)
    }

    /// The unreported block at `pos`.
    pub(crate) fn find(&self, pos: Pos) -> Option<Arc<Pending>> {
        let index = self.pending.binary_search_by_key(&pos, |pending| pending.pos).ok()?;
        self.pending.get(index).filter(|pending| !pending.is_mark()).cloned()
    }
}

pub(crate) fn refused(options: &Options, detail: String) -> StoreError {
    StoreError::Io { action: "append to", path: options.dir.clone(), detail }
}
