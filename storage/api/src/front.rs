//! A store in front of another one: passes every call on, save those that it handles itself. Tests stand between the broker
//! and a backend with it. Owns nothing.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    Block, BodyRef, Caps, Claim, Extent, Lsn, Pos, ReportFn, ShardId, ShardStore, Snapshot, StoreError,
    StoredBlock, Usage,
};

/// Implement it, overriding what is of interest, and the type is a `ShardStore`. Each method is that of `ShardStore` of
/// the same name.
#[expect(missing_docs, reason = "each is documented in `ShardStore`")]
#[expect(clippy::missing_errors_doc, reason = "each is documented in `ShardStore`")]
pub trait Front: Send + Sync + 'static {
    /// The store behind; an error when there is none any more.
    fn behind(&self) -> Result<Arc<dyn ShardStore>, StoreError>;

    /// What the store behind can do.
    fn caps(&self) -> Caps;

    fn name(&self) -> &'static str {
        "front"
    }

    fn claim(&self, shard: ShardId, report: ReportFn) -> Result<Claim, StoreError> {
        self.behind()?.claim(shard, report)
    }

    fn append(&self, claim: &Claim, block: Block) -> Result<Pos, StoreError> {
        self.behind()?.append(claim, block)
    }

    fn read(&self, shard: ShardId, from: Pos, bytes_max: usize) -> Result<Vec<StoredBlock>, StoreError> {
        self.behind()?.read(shard, from, bytes_max)
    }

    fn next_pos(&self, shard: ShardId, pos: Pos) -> Result<Pos, StoreError> {
        self.behind()?.next_pos(shard, pos)
    }

    fn fetch(&self, shard: ShardId, at: &[BodyRef]) -> Vec<Result<Bytes, StoreError>> {
        match self.behind() {
            Ok(store) => store.fetch(shard, at),
            Err(error) => at.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn release(&self, claim: &Claim, dead: &[Pos]) -> Result<(), StoreError> {
        self.behind()?.release(claim, dead)
    }

    fn extents(&self, shard: ShardId) -> Vec<Extent> {
        self.behind().map(|store| store.extents(shard)).unwrap_or_default()
    }

    fn release_extent(&self, claim: &Claim, extent: &Extent) -> Result<(), StoreError> {
        self.behind()?.release_extent(claim, extent)
    }

    fn trim(&self, claim: &Claim, before: Pos) -> Result<(), StoreError> {
        self.behind()?.trim(claim, before)
    }

    fn put_snapshot(
        &self,
        claim: &Claim,
        upto: Lsn,
        replay_from: Pos,
        parts: &mut dyn Iterator<Item = Bytes>,
    ) -> Result<(), StoreError> {
        self.behind()?.put_snapshot(claim, upto, replay_from, parts)
    }

    fn snapshot(&self, shard: ShardId) -> Result<Option<Snapshot>, StoreError> {
        self.behind()?.snapshot(shard)
    }

    fn usage(&self, shard: ShardId) -> Usage {
        self.behind().map(|store| store.usage(shard)).unwrap_or_default()
    }

    fn shutdown(&self) -> Result<(), StoreError> {
        self.behind()?.shutdown()
    }
}

impl<T: Front> ShardStore for T {
    fn name(&self) -> &'static str {
        Front::name(self)
    }

    fn caps(&self) -> Caps {
        Front::caps(self)
    }

    fn claim(&self, shard: ShardId, report: ReportFn) -> Result<Claim, StoreError> {
        Front::claim(self, shard, report)
    }

    fn append(&self, claim: &Claim, block: Block) -> Result<Pos, StoreError> {
        Front::append(self, claim, block)
    }

    fn read(&self, shard: ShardId, from: Pos, bytes_max: usize) -> Result<Vec<StoredBlock>, StoreError> {
        Front::read(self, shard, from, bytes_max)
    }

    fn next_pos(&self, shard: ShardId, pos: Pos) -> Result<Pos, StoreError> {
        Front::next_pos(self, shard, pos)
    }

    fn fetch(&self, shard: ShardId, at: &[BodyRef]) -> Vec<Result<Bytes, StoreError>> {
        Front::fetch(self, shard, at)
    }

    fn release(&self, claim: &Claim, dead: &[Pos]) -> Result<(), StoreError> {
        Front::release(self, claim, dead)
    }

    fn extents(&self, shard: ShardId) -> Vec<Extent> {
        Front::extents(self, shard)
    }

    fn release_extent(&self, claim: &Claim, extent: &Extent) -> Result<(), StoreError> {
        Front::release_extent(self, claim, extent)
    }

    fn trim(&self, claim: &Claim, before: Pos) -> Result<(), StoreError> {
        Front::trim(self, claim, before)
    }

    fn put_snapshot(
        &self,
        claim: &Claim,
        upto: Lsn,
        replay_from: Pos,
        parts: &mut dyn Iterator<Item = Bytes>,
    ) -> Result<(), StoreError> {
        Front::put_snapshot(self, claim, upto, replay_from, parts)
    }

    fn snapshot(&self, shard: ShardId) -> Result<Option<Snapshot>, StoreError> {
        Front::snapshot(self, shard)
    }

    fn usage(&self, shard: ShardId) -> Usage {
        Front::usage(self, shard)
    }

    fn shutdown(&self) -> Result<(), StoreError> {
        Front::shutdown(self)
    }
}
