//! Every bound of the broker in one table, with units. What can be configured is in `Limits`.

/// Longest name or routing key, in bytes (AMQP short string).
pub const NAME_BYTES_MAX: usize = 255;
/// Requests that one pass of the fold takes at most.
pub const PASS_REQUESTS_MAX: usize = 256;
/// Requests of a pass that whoever brings them may run, when the fold sits idle.
pub const OWN_PASS_REQUESTS_MAX: usize = 16;
/// Frame bytes of such a pass.
pub const OWN_PASS_BYTES_MAX: usize = 32 * 1024;
/// Record bytes that one pass of the fold makes before it closes its block.
pub const PASS_BYTES_MAX: usize = 1024 * 1024;
/// Messages that one slice of a long pass (expiry, purge, drain, lost connection) handles.
pub const SLICE_MESSAGES_MAX: usize = 1024;
/// Batches of one connection that the fold has not taken yet.
pub const BATCHES_UNTAKEN_MAX: usize = 4;
/// Slots or entries a page of durable state holds.
pub const PAGE_ENTRIES: usize = 1024;
/// Bytes of one read-ahead of a queue whose next message is not in memory.
pub const READ_AHEAD_BYTES: usize = 256 * 1024;
/// Frames in the ring of a watch.
pub const RING_FRAMES_MAX: usize = 4096;
/// Frame bytes in the ring of a watch.
pub const RING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Frames below this size are copied when cached, so that they do not pin a large buffer.
pub const CACHE_COPY_BELOW_BYTES: usize = 4096;
/// Deaths kept in an envelope.
pub const DEATHS_MAX: usize = 16;
/// Topics whose replay can be merged by position; beyond it a pattern replays from the hot journal.
pub const REPLAY_TOPICS_MAX: usize = 1000;
/// Offsets above its floor that a group may have in use; then it delivers nothing new before the floor moves.
pub const GROUP_GAP_MAX: u64 = 65_536;
/// Groups of one vhost.
pub const GROUPS_MAX: usize = 10_000;
/// Events that a sticky or filtered group has chosen a member for and that wait for its credit.
pub const GROUP_ASSIGNED_MAX: usize = 1024;
/// A member that holds all that it may hold for so many ms is slow.
pub const SLOW_MEMBER_MS: u64 = 10_000;
/// Events of one answer to a history query.
pub const HISTORY_EVENTS_MAX: u32 = 1000;
/// Frame bytes after which an answer to a history query is cut short.
pub const HISTORY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Volatile queues (exclusive or not durable) of the shard. Their ids are given again.
pub const VOLATILE_QUEUES_MAX: u32 = 1 << 20;
/// Deliveries that a consumer's protocol could not carry before the message is dead-lettered.
pub const UNDELIVERABLE_MAX: u32 = 3;
/// Messages refused by full queues that wait to be dead-lettered; beyond it they are dropped.
pub const LETTERS_MAX: usize = 16_384;
/// Messages that one browse shows at most.
pub const BROWSE_MESSAGES_MAX: u32 = 1000;
/// Frame bytes that one browse shows at most, but for a single message.
pub const BROWSE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// After an unclean stop a plain queue's next sequence number moves to a multiple of this.
pub const SEQ_STEP_AFTER_CRASH: u64 = 1 << 20;

/// Broker events of a vhost that are kept for questions.
pub const EVENTS_KEPT_MAX: usize = 10_000;
/// Kept events in one answer.
pub const EVENTS_PAGE_MAX: usize = 1000;

/// What the operator can set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections of all protocols.
    pub connections_max: usize,
    /// Consumers of one connection.
    pub consumers_per_connection_max: usize,
    /// Queues of one vhost.
    pub queues_max: usize,
    /// Topics of one vhost.
    pub topics_max: usize,
    /// Bindings of one vhost.
    pub bindings_max: usize,
    /// Pulls that wait for a message, all connections together.
    pub waiters_max: usize,
    /// Queries of one connection that are not answered yet.
    pub queries_per_connection_max: usize,
    /// Bytes of published messages accepted but not yet durable.
    pub admission_bytes_max: usize,
    /// Bytes of message bodies kept in memory.
    pub cache_bytes_max: usize,
    /// Bytes of bodies read ahead for consumers.
    pub read_ahead_bytes_max: usize,
    /// Bytes on the way to one connection.
    pub window_bytes: usize,
    /// Default retention of a topic by age, in ms.
    pub topic_age_ms_max: u64,
    /// Default retention of a topic by size, in frame bytes.
    pub topic_bytes_max: u64,
    /// How long an empty topic without groups and subscribers is kept, in ms.
    pub topic_idle_ms: u64,
    /// Largest message in frame bytes.
    pub message_bytes_max: usize,
    /// Record bytes of log after which a snapshot is written.
    pub snapshot_log_bytes: u64,
    /// Time after a change, in ms, within which a snapshot is written; 0: only by length of the log.
    pub snapshot_every_ms: u64,
    /// How long an orderly stop waits for room on a full disk, in ms.
    pub stop_full_ms: u64,
    /// Publishers are held while less is free on the disk, in bytes, and until a quarter more is; 0: never.
    pub disk_free_min_bytes: u64,
    /// Publishers are held while the index of messages and events takes more memory, until a tenth less is taken.
    pub index_bytes_max: usize,
    /// Publishers are held while more record bytes wait for the log, until half as many do. Larger than the admission
    /// budget and the largest message: it is for what no publisher brings.
    pub log_queue_bytes_max: usize,
    /// Time between two looks at the disk and the index, in ms.
    pub look_every_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            consumers_per_connection_max: 1024,
            queues_max: 10_000,
            topics_max: 10_000,
            bindings_max: 100_000,
            waiters_max: 10_000,
            queries_per_connection_max: 64,
            admission_bytes_max: 32 * 1024 * 1024,
            cache_bytes_max: 48 * 1024 * 1024,
            read_ahead_bytes_max: 16 * 1024 * 1024,
            window_bytes: 1024 * 1024,
            topic_age_ms_max: 24 * 3600 * 1000,
            topic_bytes_max: 1024 * 1024 * 1024,
            topic_idle_ms: 3600 * 1000,
            message_bytes_max: 65 * 1024 * 1024,
            snapshot_log_bytes: 256 * 1024 * 1024,
            snapshot_every_ms: 5 * 60 * 1000,
            stop_full_ms: 5000,
            disk_free_min_bytes: 128 * 1024 * 1024,
            index_bytes_max: 1024 * 1024 * 1024,
            log_queue_bytes_max: 128 * 1024 * 1024,
            look_every_ms: 1000,
        }
    }
}

/// Steps and failures of a job that are remembered.
pub const JOB_STEPS_MAX: usize = 20;
/// Lines of a job's log.
pub const JOB_LOG_LINES_MAX: usize = 100;
/// Completed jobs of a vhost that are kept.
pub const JOBS_COMPLETED_MAX: usize = 50_000;
/// Longest wait between two attempts of a job, in ms.
pub const JOB_BACKOFF_MS_MAX: u64 = 3_600_000;
/// How often dead jobs that come back without anybody's asking are looked at at least, in ms.
pub const JOB_DEAD_LOOK_MS: u64 = 60_000;
/// Time after which a worker that was not heard is forgotten, in ms.
pub const JOB_WORKER_MS: u64 = 90_000;
/// Workers of a process.
pub const JOB_WORKERS_MAX: usize = 10_000;
/// Jobs of one list at most.
pub const JOB_LIST_MAX: u32 = 1000;
