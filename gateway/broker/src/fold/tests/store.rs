//! What a rig starts over: a paused store in memory, or a journal over simulated files whose reports are held back until
//! a test lets them go.

use std::collections::VecDeque;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use framegate_storage::{
    Block, Caps, Claim, Front, Lsn, Pos, Report, ReportFn, ShardId, ShardStore, StoreError,
};
use framegate_storage_journal::sim::{Crash, SimFiles};
use framegate_storage_journal::{Journal, Options};
use framegate_storage_memory::MemoryStore;

/// See the module; clones are the same one.
#[derive(Clone)]
pub(in crate::fold) enum Store {
    Memory(MemoryStore),
    Files(FileStore),
}

impl From<&MemoryStore> for Store {
    fn from(store: &MemoryStore) -> Self {
        Self::Memory(store.clone())
    }
}

impl From<&Self> for Store {
    fn from(store: &Self) -> Self {
        store.clone()
    }
}

impl Deref for Store {
    type Target = dyn ShardStore;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Memory(store) => store,
            Self::Files(store) => store,
        }
    }
}

impl Store {
    pub(in crate::fold) fn files() -> Self {
        Self::Files(FileStore::default())
    }

    pub(in crate::fold) fn shared(&self) -> Arc<dyn ShardStore> {
        match self {
            Self::Memory(store) => Arc::new(store.clone()),
            Self::Files(store) => Arc::new(store.clone()),
        }
    }

    /// Lets so many blocks be reported. Gives how many were.
    pub(in crate::fold) fn release(&self, blocks: usize) -> usize {
        match self {
            Self::Memory(store) => store.release(blocks),
            Self::Files(store) => store.let_go(blocks),
        }
    }

    /// Blocks that are not reported.
    pub(in crate::fold) fn waiting(&self) -> usize {
        match self {
            Self::Memory(store) => store.waiting(),
            Self::Files(store) => lock(&store.held).blocks.len(),
        }
    }

    /// Position up to which nothing that was reported is lost by a power cut. `reported` and `synced`: up to which it was
    /// reported, and what this said before.
    pub(in crate::fold) fn synced(&self, reported: u64, before: (u64, u64)) -> (u64, u64) {
        match self {
            Self::Memory(store) => match store.usage(ShardId(0)).syncs {
                syncs if syncs == before.0 => before,
                syncs => (syncs, reported),
            },
            Self::Files(store) => (0, before.1.max(lock(&store.held).synced)),
        }
    }

    pub(in crate::fold) fn cut_unsynced(&self) {
        match self {
            Self::Memory(store) => store.cut_unsynced(),
            Self::Files(store) => store.crash(true),
        }
    }

    pub(in crate::fold) fn cut_unwritten(&self) {
        match self {
            Self::Memory(store) => store.cut_unwritten(),
            Self::Files(store) => store.crash(false),
        }
    }

    pub(in crate::fold) fn fail_next_sync(&self) {
        match self {
            Self::Memory(store) => store.fail_next_sync(),
            Self::Files(_) => unreachable!("only in memory"),
        }
    }
}

/// Reports that are held back.
#[derive(Default)]
struct Held {
    /// Last records of blocks, and whether they asked for a sync.
    blocks: VecDeque<(u64, bool)>,
    /// Up to where the journal has reported.
    reached: u64,
    /// Last record of the newest block that was let go and had asked for a sync.
    synced: u64,
    report: Option<ReportFn>,
    crashes: u64,
}

/// The journal.
#[derive(Clone, Default)]
pub(in crate::fold) struct FileStore {
    files: Arc<Mutex<SimFiles>>,
    journal: Arc<Mutex<Option<Arc<Journal>>>>,
    held: Arc<Mutex<Held>>,
    reached: Arc<Condvar>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Small segments, so that many begin and go.
fn options() -> Options {
    let mut options = Options::new(PathBuf::from("/sim"));
    options.segment_bytes = 32 << 10;
    options.first_segment_bytes = 16 << 10;
    options.block_bytes_max = 1 << 20;
    options.idle_mark = None;
    options
}

impl FileStore {
    fn now(&self) -> Result<Arc<Journal>, StoreError> {
        let gone = || StoreError::Io { action: "use", path: "/sim".into(), detail: "crashed".to_owned() };
        lock(&self.journal).clone().ok_or_else(gone)
    }

    fn let_go(&self, blocks: usize) -> usize {
        let mut held = lock(&self.held);
        let count = blocks.min(held.blocks.len());
        let Some(last) = count.checked_sub(1).map(|at| held.blocks[at].0) else { return 0 };
        while held.reached < last {
            held = self.reached.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        for (last, sync) in held.blocks.drain(..count).collect::<Vec<_>>() {
            if sync {
                held.synced = last;
            }
        }
        if let Some(report) = &mut held.report {
            report(Report::Durable { upto: Lsn(last) });
        }
        count
    }

    /// The process ends, or the power: whatever the threads of the journal are doing, their files are dead.
    fn crash(&self, power: bool) {
        let mut held = lock(&self.held);
        held.report = None;
        held.crashes += 1;
        let how = if power { Crash::Power(held.crashes) } else { Crash::Process };
        drop(held);
        let mut files = lock(&self.files);
        *files = files.crash(how);
        drop(files);
        let journal = lock(&self.journal).take();
        drop(journal);
    }
}

impl Front for FileStore {
    fn behind(&self) -> Result<Arc<dyn ShardStore>, StoreError> {
        Ok(self.now()?)
    }
    fn name(&self) -> &'static str {
        "files"
    }
    fn caps(&self) -> Caps {
        Caps { block_bytes_max: 1 << 20, pipelining: 64, shared: false, durable: true }
    }
    fn claim(&self, shard: ShardId, report: ReportFn) -> Result<Claim, StoreError> {
        if let Some(journal) = lock(&self.journal).take() {
            journal.shutdown()?;
            // the process ends, whoever still reads
            let mut files = lock(&self.files);
            *files = files.crash(Crash::Process);
        }
        let files = lock(&self.files).clone();
        let journal = Arc::new(Journal::open_with(Arc::new(files), options())?);
        let crashes = lock(&self.held).crashes;
        *lock(&self.held) = Held { report: Some(report), crashes, ..Held::default() };
        let (held, reached) = (Arc::clone(&self.held), Arc::clone(&self.reached));
        let claim = journal.claim(
            shard,
            Box::new(move |said| {
                if let Report::Durable { upto } = said {
                    let mut held = lock(&held);
                    held.reached = held.reached.max(upto.0);
                    reached.notify_all();
                }
            }),
        )?;
        *lock(&self.journal) = Some(journal);
        Ok(claim)
    }
    fn append(&self, claim: &Claim, block: Block) -> Result<Pos, StoreError> {
        let what = (block.last().0, block.sync);
        let pos = self.now()?.append(claim, block)?;
        lock(&self.held).blocks.push_back(what);
        Ok(pos)
    }
}
