//! What a log holds, for tools: folded from a store that is only read, whether a broker runs on it or not.

use framegate_storage::{Extent, Lsn, Pos, ShardId, ShardStore};

use crate::broker::StartError;
use crate::fold::{Loaded, Survey, go_on, load};
use crate::name::Name;
pub use crate::record::lost_records;

/// What a log holds. Counts are of what the log knows: persistent messages of durable queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// First record that was read from the log and not from a snapshot: 1 without one.
    pub from: Lsn,
    /// Clock of the newest block that the snapshot covers, ms since the Unix epoch; 0 without one.
    pub snapshot_time_ms: u64,
    /// LSN after the newest record.
    pub next: Lsn,
    /// Clock of the newest block, ms since the Unix epoch.
    pub time_ms: u64,
    /// Record bytes of log that had to be read.
    pub log_bytes: u64,
    /// Body bytes that live.
    pub live_bytes: u64,
    /// Closed pieces of the log and the body bytes that live in each.
    pub extents: Vec<(Extent, u64)>,
    /// Queues in the order in which they were made.
    pub queues: Vec<FoundQueue>,
    /// Topics in the order in which they were made.
    pub topics: Vec<FoundTopic>,
    /// Exchanges that were declared.
    pub exchanges: usize,
    /// Bindings.
    pub bindings: usize,
    /// Publishes that are remembered.
    pub remembered: usize,
}

/// A queue in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundQueue {
    /// Where.
    pub vhost: Name,
    /// Its name.
    pub name: Name,
    /// Messages.
    pub messages: u64,
    /// Their frame bytes.
    pub bytes: u64,
    /// Number that the next message gets.
    pub next: u64,
    /// Everything up to this number may have been seen by a consumer.
    pub delivered: u64,
}

/// A topic in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundTopic {
    /// Where.
    pub vhost: Name,
    /// Its name.
    pub name: Name,
    /// Events that are kept.
    pub events: u64,
    /// Their frame bytes.
    pub bytes: u64,
    /// Offset of the first one that is kept.
    pub first: u64,
    /// Offset that the next one gets.
    pub next: u64,
}

/// Folds a store without claiming it. Blocks; takes as long as a start.
///
/// # Errors
/// The store's error, or a record that this version does not understand.
pub fn inspect(store: &dyn ShardStore) -> Result<Inspection, StartError> {
    let shard = ShardId(0);
    let loaded = load(store, shard)?;
    let extents = store.extents(shard);
    let survey = Survey::new(&extents, &[&loaded.state.freeze()]);
    let state = &loaded.state;
    let queues = state.queues().map(|queue| FoundQueue {
        vhost: queue.vhost.clone(),
        name: queue.spec.name.clone(),
        messages: queue.count,
        bytes: queue.bytes,
        next: queue.next_logged,
        delivered: queue.delivered,
    });
    let topics = state.topics().map(|topic| FoundTopic {
        vhost: topic.vhost.clone(),
        name: topic.spec.name.clone(),
        events: topic.entries.iter().count() as u64,
        bytes: topic.bytes,
        first: topic.entries.first(),
        next: topic.entries.next(),
    });
    Ok(Inspection {
        from: loaded.from,
        snapshot_time_ms: loaded.snapshot_time_ms,
        next: loaded.next,
        time_ms: loaded.time_ms,
        log_bytes: loaded.log_bytes,
        live_bytes: survey.live_bytes,
        extents: survey.live(&extents),
        queues: queues.collect(),
        topics: topics.collect(),
        exchanges: state.exchanges.len(),
        bindings: state.bindings.iter().count(),
        remembered: state.dedups.len(),
    })
}

/// A hash of all that a log says: equal for equal content, whatever snapshots there are. Blocks.
///
/// # Errors
/// As `inspect`.
pub fn fingerprint(store: &dyn ShardStore) -> Result<u64, StartError> {
    Ok(load(store, ShardId(0))?.state.content_hash())
}

/// The same for a log that grows: folds what is new. For tests that compare many places of one log.
#[derive(Default)]
pub struct Fingerprints(Option<Loaded>);

impl Fingerprints {
    /// Folds what a store holds from `from` on, behind what was folded before. Blocks.
    ///
    /// # Errors
    /// As `inspect`.
    pub fn go_on(&mut self, store: &dyn ShardStore, from: Pos) -> Result<(), StartError> {
        let loaded = self.0.get_or_insert_with(|| Loaded::from(Lsn(1)));
        loaded.from = loaded.next;
        go_on(store, ShardId(0), from, loaded)
    }

    /// The hash of what was folded so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.0.as_ref().map_or_else(|| Loaded::from(Lsn(1)).state.content_hash(), |l| l.state.content_hash())
    }
}
