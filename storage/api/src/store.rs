//! The interface that every backend implements.

use bytes::Bytes;

use crate::block::{Block, BodyRef, StoredBlock};
use crate::caps::{Caps, Extent, Usage};
use crate::error::StoreError;
use crate::ids::{Epoch, Generation, Lsn, Pos, ShardId};

/// What a backend tells the owner of a shard, in log order, from a thread of its own.
#[derive(Debug, Clone)]
pub enum Report {
    /// Every block whose last record is at or below `upto` is as durable as it asked to be.
    Durable {
        /// Last record of the newest such block.
        upto: Lsn,
    },
    /// A write found no room; the block stays queued and is written when room returns.
    Full(StoreError),
    /// Room returned after `Full`.
    Room,
    /// The shard is over: no block above the last `Durable` report is promised. Reported once.
    Failed(StoreError),
}

/// Receives reports. Called from one backend thread at a time; must not block.
pub type ReportFn = Box<dyn FnMut(Report) + Send>;

/// The right to append to a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The shard.
    pub shard: ShardId,
    /// Fencing token of this ownership.
    pub epoch: Epoch,
    /// Names the store; stable over restarts.
    pub generation: Generation,
    /// LSN that the first appended block must start with.
    pub next: Lsn,
    /// Whether the log ended with a clean-shutdown block (true for an empty log).
    pub clean: bool,
}

/// A stored snapshot: covers every record below `upto`.
pub struct Snapshot {
    /// First LSN that is not covered.
    pub upto: Lsn,
    /// Position to read the log from, to go on after the snapshot.
    pub replay_from: Pos,
    /// Its parts, in order, checked before the first is handed out.
    pub parts: Box<dyn Iterator<Item = Result<Bytes, StoreError>> + Send>,
}

/// One log per shard. Object-safe; shared by the fold, the reader pool and tools.
pub trait ShardStore: Send + Sync + 'static {
    /// Name for log lines and metrics.
    fn name(&self) -> &'static str;

    /// Fixed properties.
    fn caps(&self) -> Caps;

    /// Becomes the only writer of `shard`. Recovers the log first (torn tail cut, corruption refused).
    /// When it returns, no append of an older epoch can succeed. `report` hears of every append of
    /// this claim, in order. Blocks.
    fn claim(&self, shard: ShardId, report: ReportFn) -> Result<Claim, StoreError>;

    /// Queues a block and returns where it will be. Order of calls is order in the log; if a block
    /// fails, all later ones of the claim fail too. Never waits for the disk. `block.first` must be
    /// the LSN after the previous block's last.
    fn append(&self, claim: &Claim, block: Block) -> Result<Pos, StoreError>;

    /// Blocks from position `from` (`Pos(0)`: the oldest), in order, until `bytes_max` record bytes are
    /// passed (at least one block if there is one); empty at the end of what is written. Blocks the thread.
    fn read(&self, shard: ShardId, from: Pos, bytes_max: usize) -> Result<Vec<StoredBlock>, StoreError>;

    /// Position right after block `pos`, to continue a `read`.
    fn next_pos(&self, shard: ShardId, pos: Pos) -> Result<Pos, StoreError>;

    /// Bodies by reference; each succeeds or fails alone. Serves blocks that are appended but not yet
    /// written, too. Blocks the thread.
    fn fetch(&self, shard: ShardId, at: &[BodyRef]) -> Vec<Result<Bytes, StoreError>>;

    /// Hint that these blocks hold nothing live and lie below the older snapshot. Lazy, idempotent.
    fn release(&self, claim: &Claim, dead: &[Pos]) -> Result<(), StoreError>;

    /// Pieces of the log whose space comes back as a whole, oldest first; the one that is being written is not among
    /// them. A backend that has none gives space back block by block only. Does not wait for the disk.
    fn extents(&self, _shard: ShardId) -> Vec<Extent> {
        Vec::new()
    }

    /// Hint that no block of `extent` holds anything live. It goes once it lies below the older snapshot. Lazy,
    /// idempotent.
    fn release_extent(&self, _claim: &Claim, _extent: &Extent) -> Result<(), StoreError> {
        Ok(())
    }

    /// Promise that nothing below `before` will be read again. Monotonic, idempotent.
    fn trim(&self, claim: &Claim, before: Pos) -> Result<(), StoreError>;

    /// Publishes a snapshot of every record below `upto`, atomically; `replay_from` is the position of the
    /// block that starts at `upto`, or of the end of the log. Waits until every record below `upto` is on stable
    /// storage, asking for a sync if none is due. The previous snapshot stays until the new one is durable, and is kept as fallback. Blocks.
    fn put_snapshot(
        &self,
        claim: &Claim,
        upto: Lsn,
        replay_from: Pos,
        parts: &mut dyn Iterator<Item = Bytes>,
    ) -> Result<(), StoreError>;

    /// The newest snapshot that is intact, if any. Blocks.
    fn snapshot(&self, shard: ShardId) -> Result<Option<Snapshot>, StoreError>;

    /// Space and counters.
    fn usage(&self, shard: ShardId) -> Usage;

    /// Writes and syncs what is queued, then stops the backend's threads. Blocks. Appends after it fail.
    fn shutdown(&self) -> Result<(), StoreError>;
}
