//! Records: what the fold decided, as it stands in the log. Encoding and decoding; no state.
//!
//! ```text
//! record   = kind u8, flags u8, length varint, content
//! flags    : bit 7 = may be skipped by a version that does not know the kind; the others belong to the kind
//! integers : varint; text = length varint + UTF-8; an optional field stands behind a flag bit
//! ENQUEUE      queue, [seq], [route], [extras], frame bytes to the end
//! ENQUEUE_REF  queue, [seq], [route], [extras], block, offset, length
//! ACK          queue, runs: (gap, length) pairs over ascending sequence numbers
//! ```
//! The layouts of the envelope are drawn in `envelope.rs`, those of definitions in `definition.rs`, those of groups in
//! `group.rs`, those of jobs in `job.rs`, those of snapshots and moves in `standing.rs`.

mod decode;
mod definition;
mod encode;
mod envelope;
mod group;
mod job;
mod kind;
mod seqs;
mod standing;
#[cfg(test)]
mod tests;

use framegate_storage::{BodyRef, Lsn};

pub(crate) use decode::{Expected, Reader};
pub(crate) use encode::Encoder;
pub(crate) use group::Settled;
pub(crate) use kind::RecordKind;
pub(crate) use seqs::SeqSet;
pub use standing::lost_records;

use crate::definition::{BindingSpec, ExchangeSpec, QueueSpec, TopicSpec};
use crate::group::{GroupCounts, GroupSpec};
use crate::ids::{Offset, QueueId, Seq, TopicId};
use crate::message::{Dedup, Envelope};
use crate::name::Name;

/// One decision. Applying it needs nothing but the state and this.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Record {
    /// A message stands in a queue from now on.
    Enqueue {
        /// The queue.
        queue: QueueId,
        /// Its place.
        seq: Seq,
        /// What the broker knows.
        envelope: Envelope,
        /// Where its frame is.
        body: Body,
    },
    /// These messages are gone: acked, expired, purged, rejected, moved.
    Ack {
        /// The queue.
        queue: QueueId,
        /// Which.
        seqs: SeqSet,
    },
    /// A delivery of these messages failed or they were returned: one more attempt each.
    Return {
        /// The queue.
        queue: QueueId,
        /// Which.
        seqs: SeqSet,
    },
    /// Everything up to here may have been seen by a consumer.
    Delivered {
        /// The queue.
        queue: QueueId,
        /// Newest sequence number that was delivered.
        upto: Seq,
    },
    /// An event stands in a topic from now on.
    Append {
        /// The topic.
        topic: TopicId,
        /// Its place.
        offset: Offset,
        /// What the broker knows.
        envelope: Envelope,
        /// Where its frame is.
        body: Body,
    },
    /// Events below this offset are no longer kept.
    Retain {
        /// The topic.
        topic: TopicId,
        /// First offset that is kept.
        first: Offset,
    },
    /// A queue exists.
    DefineQueue {
        /// Its id.
        id: QueueId,
        /// Where.
        vhost: Name,
        /// What it is.
        spec: Box<QueueSpec>,
    },
    /// A queue with its messages and bindings is gone.
    DeleteQueue {
        /// Its id.
        id: QueueId,
    },
    /// An exchange exists.
    DefineExchange {
        /// Where.
        vhost: Name,
        /// What it is.
        spec: ExchangeSpec,
    },
    /// An exchange with its bindings is gone.
    DeleteExchange {
        /// Where.
        vhost: Name,
        /// Its name.
        name: Name,
    },
    /// A binding exists.
    Bind {
        /// Where.
        vhost: Name,
        /// What it is.
        binding: BindingSpec,
    },
    /// A binding is gone.
    Unbind {
        /// Where.
        vhost: Name,
        /// What it was.
        binding: BindingSpec,
    },
    /// A topic exists.
    DefineTopic {
        /// Its id.
        id: TopicId,
        /// Where.
        vhost: Name,
        /// What it is.
        spec: TopicSpec,
    },
    /// A topic with its events is gone.
    DeleteTopic {
        /// Its id.
        id: TopicId,
    },
    /// A consumer group exists.
    DefineGroup {
        /// Its id, among those of queues.
        id: QueueId,
        /// Of which topic.
        topic: TopicId,
        /// Where.
        vhost: Name,
        /// What it is.
        spec: Box<GroupSpec>,
        /// Where it begins.
        floor: u64,
    },
    /// A group is gone.
    DeleteGroup {
        /// Its id.
        id: QueueId,
    },
    /// Everything is open for a group from here on, and nothing before it.
    SeekGroup {
        /// Its id.
        id: QueueId,
        /// First offset.
        floor: u64,
    },
    /// These offsets are settled for a group.
    SettleGroup {
        /// Its id.
        id: QueueId,
        /// How.
        how: Settled,
        /// Which.
        offsets: SeqSet,
    },
    /// A delivery of these events to a member failed: one more attempt each.
    FailGroup {
        /// Its id.
        id: QueueId,
        /// Offset, and when it may be delivered again in ms since the Unix epoch (0: at once); ascending.
        failed: Vec<(u64, u64)>,
    },
    /// What a group remembers, as a whole: follows its definition in a snapshot.
    GroupStands {
        /// Its id.
        id: QueueId,
        /// Every offset below it may have been seen.
        seen: u64,
        /// What became of events.
        counts: GroupCounts,
        /// Settled above the floor.
        settled: SeqSet,
        /// Offset, failed deliveries, and when it may be delivered again.
        failed: Vec<(u64, u32, u64)>,
    },
    /// The broker started; after an unclean stop sequence numbers jump.
    Start {
        /// The log ended with a clean stop.
        clean: bool,
    },
    /// The frame of a message that is lost at a restart, written only to take it out of memory.
    Spill {
        /// The queue.
        queue: QueueId,
        /// Its place.
        seq: Seq,
        /// Where its frame is.
        body: Body,
    },
    /// Nothing happened; the last record of an orderly stop.
    Tick,
    /// The frame of a message was written again, here, so that its old segment can go.
    Move {
        /// The queue.
        queue: QueueId,
        /// Its place, unchanged.
        seq: Seq,
        /// Where its frame is now.
        body: Body,
    },
    /// The frame of an event was written again.
    MoveEvent {
        /// The topic.
        topic: TopicId,
        /// Its place, unchanged.
        offset: Offset,
        /// Where its frame is now.
        body: Body,
    },
    /// A snapshot begins.
    Standing {
        /// Numbers of queues given so far.
        queues: u64,
        /// Numbers of topics given so far.
        topics: u64,
        /// Clock of the newest block.
        time_ms: u64,
    },
    /// The record that follows in the snapshot stood there in the log.
    At {
        /// Where.
        lsn: Lsn,
    },
    /// Where the numbers of a queue stand.
    QueueNumbers {
        /// The queue.
        queue: QueueId,
        /// Number that a reader of the log expects next.
        next: Seq,
        /// Everything up to here may have been seen.
        delivered: Seq,
    },
    /// Where the numbers of a topic stand.
    TopicNumbers {
        /// The topic.
        topic: TopicId,
        /// Offset that it gives next.
        next: Offset,
        /// Position of the newest event that is no longer kept.
        gone_to: Lsn,
    },
    /// A job is this from now on.
    Job(Box<crate::state::JobEntry>),
    /// Jobs of a queue are held back, or no longer.
    PauseJobs {
        /// The queue.
        queue: QueueId,
        /// Held back.
        paused: bool,
    },
    /// How fast jobs of a queue are handed out from now on.
    JobRules {
        /// The queue.
        queue: QueueId,
        /// All of them.
        rules: crate::job::JobRules,
    },
    /// What becomes of jobs of a queue whose workers are silent, and of dead ones, from now on.
    JobCare {
        /// The queue.
        queue: QueueId,
        /// All of it.
        care: crate::job::JobCare,
    },
    /// Something stood here that was damaged: what follows may speak of what nobody knows.
    Lost,
    /// A publish that is remembered.
    Remembered {
        /// Key and content.
        dedup: Dedup,
        /// Its record.
        lsn: Lsn,
        /// Its place in a topic, if it has one.
        offset: Option<Offset>,
        /// When the broker took it.
        time_ms: u64,
    },
}

/// Where the frame of a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// In the record itself; the span is known once the record stands in a block.
    Here {
        /// Offset of the frame in the block's record bytes.
        offset: u32,
        /// Length in bytes.
        len: u32,
    },
    /// Written before.
    At(BodyRef),
    /// In memory only: a transient message, or one of a volatile queue.
    Memory {
        /// Length in bytes.
        len: u32,
    },
}

impl Body {
    /// Frame bytes.
    pub(crate) fn len(self) -> u32 {
        match self {
            Self::Here { len, .. } | Self::Memory { len } => len,
            Self::At(body) => body.len,
        }
    }
}
