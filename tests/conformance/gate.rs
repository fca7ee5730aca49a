//! A store that can be taken away from a running broker: what a kill is, seen from the store. Owns the moment of the
//! kill; what is lost is decided by the backend's factory.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use framegate_storage::{
    Block, BodyRef, Caps, Claim, Lsn, Pos, ReportFn, ShardId, ShardStore, Snapshot, StoreError, StoredBlock,
    Usage,
};

/// Passes every call on until the store is taken.
pub(crate) struct Gate {
    name: &'static str,
    caps: Caps,
    inner: Mutex<Option<Arc<dyn ShardStore>>>,
}

impl Gate {
    /// In front of a store.
    pub(crate) fn new(store: Arc<dyn ShardStore>) -> Arc<Self> {
        Arc::new(Self { name: store.name(), caps: store.caps(), inner: Mutex::new(Some(store)) })
    }

    /// Takes the store: calls from now on fail. Gives it when the calls under way have ended, as its last handle.
    pub(crate) fn take(&self) -> Option<Arc<dyn ShardStore>> {
        let store = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        while Arc::strong_count(&store) > 1 {
            std::thread::yield_now();
        }
        Some(store)
    }

    fn inner(&self) -> Result<Arc<dyn ShardStore>, StoreError> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner).clone();
        inner.ok_or_else(|| StoreError::Fatal {
            action: "use",
            path: PathBuf::from("gate"),
            detail: "the store was taken away".to_owned(),
        })
    }
}

impl ShardStore for Gate {
    fn name(&self) -> &'static str {
        self.name
    }

    fn caps(&self) -> Caps {
        self.caps
    }

    fn claim(&self, shard: ShardId, report: ReportFn) -> Result<Claim, StoreError> {
        self.inner()?.claim(shard, report)
    }

    fn append(&self, claim: &Claim, block: Block) -> Result<Pos, StoreError> {
        self.inner()?.append(claim, block)
    }

    fn read(&self, shard: ShardId, from: Pos, bytes_max: usize) -> Result<Vec<StoredBlock>, StoreError> {
        self.inner()?.read(shard, from, bytes_max)
    }

    fn next_pos(&self, shard: ShardId, pos: Pos) -> Result<Pos, StoreError> {
        self.inner()?.next_pos(shard, pos)
    }

    fn fetch(&self, shard: ShardId, at: &[BodyRef]) -> Vec<Result<Bytes, StoreError>> {
        match self.inner() {
            Ok(store) => store.fetch(shard, at),
            Err(error) => at.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn release(&self, claim: &Claim, dead: &[Pos]) -> Result<(), StoreError> {
        self.inner()?.release(claim, dead)
    }

    fn trim(&self, claim: &Claim, before: Pos) -> Result<(), StoreError> {
        self.inner()?.trim(claim, before)
    }

    fn put_snapshot(
        &self,
        claim: &Claim,
        upto: Lsn,
        replay_from: Pos,
        parts: &mut dyn Iterator<Item = Bytes>,
    ) -> Result<(), StoreError> {
        self.inner()?.put_snapshot(claim, upto, replay_from, parts)
    }

    fn snapshot(&self, shard: ShardId) -> Result<Option<Snapshot>, StoreError> {
        self.inner()?.snapshot(shard)
    }

    fn usage(&self, shard: ShardId) -> Usage {
        self.inner().map_or_else(|_| Usage::default(), |store| store.usage(shard))
    }

    fn shutdown(&self) -> Result<(), StoreError> {
        self.inner()?.shutdown()
    }
}
