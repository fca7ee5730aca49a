//! A log that was read from some store, as a store of its own with the same positions: records refer to bodies by
//! position, so a copy must keep them. What is appended stays in memory and is durable at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use framegate_storage::{
    Block, BodyRef, Caps, Claim, Epoch, Generation, Lsn, Pos, Report, ReportFn, ShardId, ShardStore,
    Snapshot, StoreError, StoredBlock, Usage,
};

/// Positions of appended blocks begin this far above the last one that was read.
const GAP: u64 = 1 << 40;

/// See the module.
pub(crate) struct Replica {
    caps: Caps,
    inner: Mutex<Inner>,
}

struct Inner {
    blocks: BTreeMap<Pos, StoredBlock>,
    report: Option<ReportFn>,
}

impl Replica {
    /// Of these blocks.
    pub(crate) fn new(caps: Caps, log: &[StoredBlock]) -> Self {
        let blocks = log.iter().map(|block| (block.pos, block.clone())).collect();
        Self { caps, inner: Mutex::new(Inner { blocks, report: None }) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn next_lsn(&self) -> u64 {
        self.blocks.values().next_back().map_or(1, |last| last.first.0 + u64::from(last.count))
    }

    fn body(&self, at: &BodyRef) -> Option<Bytes> {
        let from = at.offset as usize;
        let block = self.blocks.get(&at.block)?;
        let inside = from + at.len as usize <= block.records.len();
        inside.then(|| block.records.slice(from..from + at.len as usize))
    }
}

impl ShardStore for Replica {
    fn name(&self) -> &'static str {
        "replica"
    }

    fn caps(&self) -> Caps {
        self.caps
    }

    fn claim(&self, shard: ShardId, report: ReportFn) -> Result<Claim, StoreError> {
        let mut inner = self.inner();
        inner.report = Some(report);
        let clean = inner.blocks.values().next_back().is_none_or(|last| last.flags.clean_shutdown);
        let next = Lsn(inner.next_lsn());
        Ok(Claim { shard, epoch: Epoch(1), generation: Generation(1), next, clean })
    }

    fn append(&self, claim: &Claim, block: Block) -> Result<Pos, StoreError> {
        let mut inner = self.inner();
        assert_eq!(block.first.0, inner.next_lsn(), "blocks follow each other");
        let pos = Pos(inner.blocks.keys().next_back().map_or(0, |last| last.0) + GAP);
        let upto = block.last();
        let stored = StoredBlock {
            pos,
            epoch: claim.epoch,
            first: block.first,
            count: block.count,
            time_ms: block.time_ms,
            flags: block.flags,
            records: block.records.concat().into(),
        };
        inner.blocks.insert(pos, stored);
        if let Some(report) = &mut inner.report {
            report(Report::Durable { upto });
        }
        Ok(pos)
    }

    fn read(&self, _: ShardId, from: Pos, _: usize) -> Result<Vec<StoredBlock>, StoreError> {
        Ok(self.inner().blocks.range(from..).take(1).map(|(_, block)| block.clone()).collect())
    }

    fn next_pos(&self, _: ShardId, pos: Pos) -> Result<Pos, StoreError> {
        Ok(Pos(pos.0 + 1))
    }

    fn fetch(&self, _: ShardId, at: &[BodyRef]) -> Vec<Result<Bytes, StoreError>> {
        let inner = self.inner();
        at.iter().map(|at| inner.body(at).ok_or(StoreError::NotFound { pos: at.block })).collect()
    }

    fn release(&self, _: &Claim, _: &[Pos]) -> Result<(), StoreError> {
        Ok(())
    }

    fn trim(&self, _: &Claim, _: Pos) -> Result<(), StoreError> {
        Ok(())
    }

    fn put_snapshot(
        &self,
        _: &Claim,
        _: Lsn,
        _: Pos,
        _: &mut dyn Iterator<Item = Bytes>,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    fn snapshot(&self, _: ShardId) -> Result<Option<Snapshot>, StoreError> {
        Ok(None)
    }

    fn usage(&self, _: ShardId) -> Usage {
        Usage::default()
    }

    fn shutdown(&self) -> Result<(), StoreError> {
        self.inner().report = None;
        Ok(())
    }
}
