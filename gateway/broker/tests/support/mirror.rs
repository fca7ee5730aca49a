//! A journal over simulated files, and beside it the plain list of what was appended; crashes of copies in between.

#![allow(dead_code, unreachable_pub, missing_docs)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use framegate_broker::{Fingerprints, fingerprint};
use framegate_storage::{
    Block, Caps, Claim, Front, Lsn, Pos, Report, ReportFn, ShardId, ShardStore, Snapshot, StoreError,
    StoredBlock,
};
use framegate_storage_journal::sim::{Crash, SimFiles};
use framegate_storage_journal::{Journal, Options, damage};

/// Small segments, so that many begin and go.
pub fn options() -> Options {
    let mut options = Options::new(PathBuf::from("/sim"));
    options.segment_bytes = 32 << 10;
    options.first_segment_bytes = 16 << 10;
    options.block_bytes_max = 1 << 20;
    options.idle_mark = None;
    options
}

type Blocks = Arc<Mutex<Vec<StoredBlock>>>;

/// What was appended, and how far it was promised.
#[derive(Default)]
pub struct Known {
    blocks: Blocks,
    /// Last records of blocks that asked for a sync.
    synced: Mutex<Vec<u64>>,
    /// Reported so far.
    durable: AtomicU64,
    folded: Mutex<Folded>,
}

/// What a fold of the blocks below a record gives, for each first record of a block so far.
#[derive(Default)]
struct Folded {
    fold: Fingerprints,
    blocks: usize,
    hashes: BTreeMap<Lsn, u64>,
}

impl Known {
    /// The last record that a crash must leave: after a kill all that was reported, after a power cut what asked for a sync.
    fn promised(&self, power: bool) -> u64 {
        let durable = self.durable.load(Ordering::Acquire);
        let synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = synced.iter().rev().find(|last| **last <= durable).copied();
        if power { newest.unwrap_or(0) } else { durable }
    }

    /// What a fold of the records below `next` gives.
    fn reference(&self, next: Lsn) -> u64 {
        let mut folded = self.folded.lock().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<StoredBlock> = {
            let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            blocks[folded.blocks..].iter().take_while(|block| block.first < next).cloned().collect()
        };
        let Folded { fold, blocks, hashes } = &mut *folded;
        if hashes.is_empty() {
            hashes.insert(Lsn(1), fold.hash());
        }
        for block in new {
            let (pos, end) = (block.pos, Lsn(block.first.0 + u64::from(block.count)));
            fold.go_on(&List(vec![block]), pos).expect("folded");
            hashes.insert(end, fold.hash());
            *blocks += 1;
        }
        hashes.get(&next).copied().expect("the log ends behind a block")
    }
}

/// Crashes copies of the files after changes.
pub struct Watch {
    files: SimFiles,
    stride: u64,
    changes: AtomicU64,
    crashes: AtomicU64,
    /// Blocks whose end was crashed at, and how many of these crashes came within a write of several.
    ended: Mutex<usize>,
    within: AtomicU64,
    known: OnceLock<Arc<Known>>,
}

impl Watch {
    pub fn new(files: SimFiles, stride: u64) -> Self {
        let (changes, crashes, within) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Self { files, stride, changes, crashes, ended: Mutex::new(0), within, known: OnceLock::new() }
    }

    /// Crashes within a write of several blocks.
    pub fn within(&self) -> u64 {
        self.within.load(Ordering::Relaxed)
    }

    /// Changes so far, and crashes.
    pub fn counts(&self) -> (u64, u64) {
        (self.changes.load(Ordering::Relaxed), self.crashes.load(Ordering::Relaxed))
    }

    /// After a change.
    pub fn look(&self) {
        let change = self.changes.fetch_add(1, Ordering::Relaxed);
        let Some(known) = self.known.get().filter(|_| change.is_multiple_of(self.stride)) else { return };
        let power = !(change / self.stride).is_multiple_of(4);
        self.look_within(known);
        let promised = known.promised(power);
        let image = self.files.copy();
        let crash = if power { Crash::Power(change) } else { Crash::Process };
        let crashed = image.crash(crash);
        let journal = Journal::open_with(Arc::new(crashed), options()).expect("opens after a crash");
        let claim = journal.claim(ShardId(0), Box::new(|_| {})).expect("recovers after a crash");
        assert!(claim.next.0 > promised, "{promised} was promised, the log ends before {}", claim.next);
        let found = fingerprint(&journal).expect("folded after a crash");
        assert_eq!(found, known.reference(claim.next), "change {change}, {crash:?}, next {}", claim.next);
        self.crashes.fetch_add(1, Ordering::Relaxed);
    }
}

impl Watch {
    /// Crashes after each block of a write but the last one, which the next crash is after: the blocks behind are not there.
    /// The thread that wrote them waits in here, so nothing of them is synced yet.
    fn look_within(&self, known: &Known) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = self.files.paths().into_iter().filter(|p| p.to_string_lossy().contains("seg-")).max();
        let Some((path, bytes)) = newest.and_then(|path| self.files.bytes(&path).map(|bytes| (path, bytes)))
        else {
            return;
        };
        let new: Vec<(Pos, u64)> = {
            let blocks = known.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            blocks[*ended..].iter().map(|b| (b.pos, b.first.0 + u64::from(b.count))).collect()
        };
        let written = |pos: Pos| damage::locate(&bytes, pos).map(|place| place.offset);
        let segment = |pos: Pos| pos.0 >> 32;
        for pair in new.windows(2) {
            let ((at, next), (behind, _)) = (pair[0], pair[1]);
            let (Some(_), Some(behind)) = (written(at), written(behind)) else {
                // the last one of a segment ends where a file ends
                if segment(behind) == segment(at) && written(at).is_some() {
                    return;
                }
                *ended += 1;
                continue;
            };
            *ended += 1;
            let image = self.files.copy();
            let mut cut = bytes.clone();
            cut[behind..].fill(0);
            image.set_bytes(&path, cut);
            let journal =
                Journal::open_with(Arc::new(image.crash(Crash::Process)), options()).expect("opens");
            let claim = journal.claim(ShardId(0), Box::new(|_| {})).expect("recovers within a write");
            assert_eq!(claim.next, Lsn(next), "the block is there and nothing behind it");
            assert_eq!(fingerprint(&journal).expect("folded"), known.reference(claim.next), "{}", claim.next);
            self.within.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// See the module.
pub struct Mirror {
    journal: Arc<Journal>,
    known: Arc<Known>,
}

impl Mirror {
    pub fn new(journal: Journal, watch: Arc<Watch>) -> Self {
        let known = Arc::new(Known::default());
        let _ = watch.known.set(Arc::clone(&known));
        Self { journal: Arc::new(journal), known }
    }

    /// Records appended.
    pub fn records(&self) -> u64 {
        let blocks = self.known.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.last().map_or(0, |block| block.first.0 + u64::from(block.count) - 1)
    }

    /// The newest block.
    pub fn last_block(&self) -> Pos {
        let blocks = self.known.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.last().expect("there are blocks").pos
    }

    /// What a fold of the records below `next` gives.
    pub fn reference(&self, next: Lsn) -> u64 {
        self.known.reference(next)
    }
}

impl Front for Mirror {
    fn behind(&self) -> Result<Arc<dyn ShardStore>, StoreError> {
        Ok(Arc::clone(&self.journal) as Arc<dyn ShardStore>)
    }
    fn name(&self) -> &'static str {
        "mirror"
    }
    fn caps(&self) -> Caps {
        self.journal.caps()
    }
    fn claim(&self, shard: ShardId, mut report: ReportFn) -> Result<Claim, StoreError> {
        let known = Arc::clone(&self.known);
        let watched = move |said: Report| {
            if let Report::Durable { upto } = &said {
                known.durable.store(upto.0, Ordering::Release);
            }
            report(said);
        };
        self.journal.claim(shard, Box::new(watched))
    }
    fn append(&self, claim: &Claim, block: Block) -> Result<Pos, StoreError> {
        // held until it is listed: whoever sees it in a file finds it in the list
        let mut blocks = self.known.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stored = StoredBlock {
            pos: Pos(0),
            epoch: claim.epoch,
            first: block.first,
            count: block.count,
            time_ms: block.time_ms,
            flags: block.flags,
            records: Bytes::from(block.records.concat()),
        };
        let (sync, last) = (block.sync, block.last());
        stored.pos = self.journal.append(claim, block)?;
        if sync {
            self.known.synced.lock().unwrap_or_else(PoisonError::into_inner).push(last.0);
        }
        let pos = stored.pos;
        blocks.push(stored);
        Ok(pos)
    }
}

/// Blocks without files and without snapshots, to be folded.
struct List(Vec<StoredBlock>);

impl Front for List {
    fn behind(&self) -> Result<Arc<dyn ShardStore>, StoreError> {
        Err(StoreError::Io { action: "change", path: "list".into(), detail: "it is only read".to_owned() })
    }
    fn name(&self) -> &'static str {
        "list"
    }
    fn caps(&self) -> Caps {
        Caps { block_bytes_max: 0, pipelining: 1, shared: false, durable: false }
    }
    fn read(&self, _shard: ShardId, from: Pos, _bytes_max: usize) -> Result<Vec<StoredBlock>, StoreError> {
        Ok(self.0.iter().filter(|block| block.pos >= from).cloned().collect())
    }
    fn next_pos(&self, _shard: ShardId, pos: Pos) -> Result<Pos, StoreError> {
        Ok(Pos(pos.0 + 1))
    }
    fn snapshot(&self, _shard: ShardId) -> Result<Option<Snapshot>, StoreError> {
        Ok(None)
    }
    fn shutdown(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
