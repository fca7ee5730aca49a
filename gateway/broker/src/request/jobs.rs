//! What a session asks of the job engine, and what it hears back. Plain data. A job's data and result are bytes that the engine never
//! looks into; ids and texts are the client's.

use std::sync::Arc;

use bytes::Bytes;
use framegate_frame::Frame;

use crate::ids::{ConsumerId, Token};
use crate::job::{Job, JobCare, JobId, JobRate, JobState, JobTerms};
use crate::name::Name;

/// A request to the job engine. Requests of a batch are decided in order.
#[derive(Debug, Clone)]
pub enum JobRequest {
    /// Make jobs. Answered with `JobReply::Pushed` when they are durable.
    Push(Vec<NewJob>),
    /// Take jobs. Answered with `JobReply::Pulled`.
    Pull(JobPull),
    /// Complete jobs. All are judged first: one that is wrong refuses all, save those that ended meanwhile, which are ignored.
    /// Answered with `JobReply::Ignored` when durable.
    Ack(Vec<JobAck>),
    /// Fail an attempt. Answered with `JobReply::Ignored` when durable.
    Fail(JobFail),
    /// Keep jobs for longer. Answered with `JobReply::Count`: those that were.
    Extend(Vec<JobExtend>),
    /// Note how far an active job is.
    Progress {
        /// Which.
        id: JobId,
        /// 0 to 100, or not a number.
        progress: f64,
        /// Text with it; None: as before.
        message: Option<Arc<str>>,
    },
    /// Add a line to a job's log.
    Log {
        /// Which.
        id: JobId,
        /// 0 info, 1 warn, 2 error.
        level: u8,
        /// The line.
        text: Arc<str>,
    },
    /// Remove lines of a job's log, but so many of the newest.
    ClearLog {
        /// Which.
        id: JobId,
        /// Lines that stay.
        keep: u32,
    },
    /// One job. Answered with `JobReply::Jobs`.
    Get(JobId),
    /// What is known of a job but its message. Answered with `JobReply::Job`.
    Peek(JobId),
    /// Jobs of a queue in these states by creation. Answered with `JobReply::Jobs`.
    List(JobList),
    /// Jobs of a queue by state. Answered with `JobReply::Counts`.
    Counts(Name),
    /// Queues that have jobs. Answered with `JobReply::Queues`.
    Queues,
    /// Hold a queue back (true) or let it go on.
    Pause(Name, bool),
    /// Hand jobs of a queue out at a rate; None: as fast as they are wanted. The rate says until when it holds.
    SetRate(Name, Option<JobRate>),
    /// Let so many jobs of a queue be worked on at once; None: any number.
    SetConcurrency(Name, Option<u32>),
    /// Change what becomes of jobs of a queue whose workers are silent, and of dead ones.
    SetCare(Name, JobCareChange),
    /// The same as it is. Answered with `JobReply::Care`.
    Care(Name),
    /// What limits a queue. Answered with `JobReply::Limits`.
    Limits(Name),
    /// Remove queued jobs of a queue. Answered with `JobReply::Count`.
    Drain(Name),
    /// Remove everything of a queue.
    Obliterate(Name),
    /// Remove jobs of a queue that are older than so many ms. Answered with `JobReply::Removed`.
    Clean {
        /// The queue.
        queue: Name,
        /// Age in ms.
        grace_ms: u64,
        /// Those in this state; None: queued ones.
        state: Option<JobState>,
        /// At most so many.
        max: u32,
    },
    /// Change one job.
    Change(JobId, Option<Token>, JobChange),
    /// Let dead jobs run again. Answered with `JobReply::Count`.
    RetryDead {
        /// The queue.
        queue: Name,
        /// Only this one.
        id: Option<JobId>,
        /// At most so many, oldest first.
        max: u32,
    },
    /// Let completed jobs run again. Answered with `JobReply::Count`.
    RetryCompleted {
        /// The queue.
        queue: Name,
        /// Only this one.
        id: Option<JobId>,
        /// At most so many, oldest first.
        max: u32,
    },
    /// Let delayed jobs of a queue be ready at once, so many, oldest first. Answered with `JobReply::Count`.
    PromoteAll(Name, u32),
    /// Queued jobs of a queue by priority, active ones aside. Answered with `JobReply::Priorities`.
    Priorities(Name),
    /// The job that holds a key of a queue. Answered with `JobReply::Holder`.
    KeyHolder(Name, Arc<str>),
    /// Let go of a key of a queue. Answered with `JobReply::Count`.
    FreeKey(Name, Arc<str>),
    /// Let go of the key that a job holds. Answered with `JobReply::Count`: 0 when it holds none.
    FreeKeyOf(JobId),
    /// A worker is there, as long as the connection and as it says so again within `limits::JOB_WORKER_MS`. Answered with
    /// `JobReply::Workers`: it alone.
    Register(JobWorker),
    /// A worker says that it is there: what it works on, has done and has failed. Answered with `JobReply::Count`: 0 when it is unknown.
    Beat(Arc<str>, Option<[u64; 3]>),
    /// A worker leaves. Answered with `JobReply::Count`: 0 when it is unknown.
    Unregister(Arc<str>),
    /// Workers of the vhost. Answered with `JobReply::Workers`.
    Workers,
    /// Remove dead jobs. Answered with `JobReply::Count`.
    PurgeDead {
        /// The queue.
        queue: Name,
        /// Only this one.
        id: Option<JobId>,
    },
    /// Wait until a job is completed, so many ms. Answered with `JobReply::Waited`.
    Wait(JobId, u64),
    /// Hear of what happens to jobs of a queue, in place of another one; None: of nothing.
    Watch(Option<Name>),
}

/// A change of what becomes of silent and dead jobs; None: as before. What has to be at least 1 is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobCareChange {
    /// See `JobCare`.
    pub watches_silence: Option<bool>,
    /// ms.
    pub silence_ms: Option<u64>,
    /// ms.
    pub grace_ms: Option<u64>,
    /// How many.
    pub stalls_max: Option<u32>,
    /// See `JobCare`.
    pub revives: Option<bool>,
    /// ms.
    pub revive_ms: Option<u64>,
    /// How often.
    pub revivals_max: Option<u32>,
    /// ms; None in it: never.
    pub dead_ms: Option<Option<u64>>,
    /// How many.
    pub dead_max: Option<u32>,
}

/// A change of one job.
#[derive(Debug, Clone)]
pub enum JobChange {
    /// Remove it, unless somebody works on it or it has ended.
    Cancel,
    /// Ready at once, if it is delayed.
    Promote,
    /// Ready at once, whatever it is.
    Requeue,
    /// Ready in so many ms; an active one goes back.
    Delay(u64),
    /// Dead.
    Discard,
    /// Another place in the order; queued ones only.
    Priority {
        /// Its priority.
        priority: i32,
        /// Before others of its priority; None: as before.
        newest_first: Option<bool>,
    },
    /// Another message; not for those that have ended.
    Message(Frame),
}

/// A job to make.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Its queue, which is made when it is missing.
    pub queue: Name,
    /// Its id; None: one is made. An id that is queued or active already is answered, and nothing is made.
    pub id: Option<JobId>,
    /// Its message.
    pub frame: Frame,
    /// ms before it is ready.
    pub delay_ms: u64,
    /// When it says that it was created, ms since 1970.
    pub created_ms: Option<u64>,
    /// How it is ordered, retried and removed.
    pub terms: JobTerms,
}

/// A pull of jobs.
#[derive(Debug, Clone)]
pub struct JobPull {
    /// Who holds them.
    pub consumer: ConsumerId,
    /// From where.
    pub queue: Name,
    /// At most so many, at least 1.
    pub max: u32,
    /// How long to wait for the first, ms; 0: not at all.
    pub wait_ms: u64,
    /// How long each is held before it counts as stalled, ms; None: until the connection ends, and no token is asked for.
    pub lock_ms: Option<u64>,
    /// They stay held when the connection ends.
    pub detach: bool,
}

/// Jobs to list.
#[derive(Debug, Clone)]
pub struct JobList {
    /// Their queue.
    pub queue: Name,
    /// In these states; empty: in any.
    pub states: Vec<JobState>,
    /// Ready ones of a queue that is held back, which are otherwise listed only when any state will do.
    pub held_back: bool,
    /// Passed over.
    pub offset: u32,
    /// At most so many.
    pub max: u32,
    /// Newest first.
    pub descending: bool,
}

/// A completion.
#[derive(Debug, Clone)]
pub struct JobAck {
    /// Which.
    pub id: JobId,
    /// Token of its lock.
    pub token: Option<Token>,
    /// Its result, if there is one.
    pub result: Option<Bytes>,
    /// In place of the job's own option.
    pub remove: Option<bool>,
}

/// A failed attempt.
#[derive(Debug, Clone)]
pub struct JobFail {
    /// Which.
    pub id: JobId,
    /// Token of its lock.
    pub token: Option<Token>,
    /// Why.
    pub error: Option<Arc<str>>,
    /// Stack trace.
    pub stack: Vec<Arc<str>>,
    /// No further attempt.
    pub is_final: bool,
    /// In place of the job's own option.
    pub remove: Option<bool>,
}

/// A renewal.
#[derive(Debug, Clone)]
pub struct JobExtend {
    /// Which.
    pub id: JobId,
    /// Token of its lock; without one the job is only marked as alive, where `needs_token` is not set.
    pub token: Option<Token>,
    /// New time from now, ms; None: the lock's own.
    pub lock_ms: Option<u64>,
    /// Only with the right token.
    pub needs_token: bool,
}

/// An answer of the job engine.
#[derive(Debug, Clone)]
pub enum JobReply {
    /// Ids, in the order in which jobs were given.
    Pushed(Vec<JobId>),
    /// Jobs that were taken.
    Pulled(Vec<JobInfo>),
    /// Jobs.
    Jobs(Vec<JobInfo>),
    /// A job without its message; None: there is none.
    Job(Option<Box<(Job, JobState)>>),
    /// Places in the request of those that had ended already.
    Ignored(Vec<usize>),
    /// How many.
    Count(u64),
    /// How many, by state.
    Counts(JobCounts),
    /// What limits a queue.
    Limits(JobLimits),
    /// What becomes of silent and dead ones.
    Care(JobCare),
    /// How many, by priority.
    Priorities(Vec<(i32, u64)>),
    /// Who holds a key.
    Holder(Option<JobId>),
    /// Workers.
    Workers(Vec<JobWorker>),
    /// Names.
    Queues(Vec<Name>),
    /// Those that were removed.
    Removed(Vec<JobId>),
    /// Its result, when it is completed.
    Waited(Option<Option<Bytes>>),
    /// Done.
    Done,
    /// Something happened to a job of the queue that the connection watches: comes under the id of that request, any number of
    /// times.
    Event(Box<JobEvent>),
}

/// What limits a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobLimits {
    /// At most so many in a time.
    pub rate: Option<JobRate>,
    /// When the rate holds no more, in ms from now.
    pub rate_ends_in_ms: Option<u64>,
    /// At most so many at once.
    pub concurrency: Option<u32>,
    /// So many are worked on.
    pub is_maxed: bool,
}

/// Somebody who says that it works on jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobWorker {
    /// Its id.
    pub id: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Queues that it serves.
    pub queues: Vec<Arc<str>>,
    /// Jobs at once.
    pub concurrency: u64,
    /// Where it runs.
    pub host: Option<Arc<str>>,
    /// Its process.
    pub process: u64,
    /// Since when, ms since 1970.
    pub since_ms: u64,
    /// When it was heard last.
    pub seen_ms: u64,
    /// Jobs that it works on, has done and has failed, as it says.
    pub counts: [u64; 3],
}

/// A job with its message.
#[derive(Debug, Clone)]
pub struct JobInfo {
    /// What is known of it.
    pub job: Job,
    /// As clients see it.
    pub state: JobState,
    /// When the attempt that is going on began, ms since 1970.
    pub active_ms: Option<u64>,
    /// When somebody last said that it is alive.
    pub heartbeat_ms: Option<u64>,
    /// What becomes of it when it is dead.
    pub care: JobCare,
    /// Token of its lock, for whoever pulled it.
    pub token: Option<Token>,
    /// Its message.
    pub frame: Frame,
}

impl JobInfo {
    /// Bytes that count against the connection's window, for whoever pulled it.
    #[must_use]
    pub fn window_bytes(&self) -> usize {
        self.frame.as_bytes().len() + 128
    }
}

/// Jobs of a queue by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobCounts {
    /// Ready.
    pub waiting: u64,
    /// Ready, with a priority above 0.
    pub prioritized: u64,
    /// Not ready yet.
    pub delayed: u64,
    /// Being worked on.
    pub active: u64,
    /// Done and kept.
    pub completed: u64,
    /// Dead.
    pub failed: u64,
    /// The queue is held back.
    pub is_paused: bool,
}

/// Why the job engine refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// No such job.
    #[error("no job '{0}'")]
    Unknown(JobId),
    /// It is in another state than the request needs.
    #[error("job '{id}' is {state:?}")]
    WrongState {
        /// Which.
        id: JobId,
        /// What it is.
        state: JobState,
    },
    /// It is locked, and no token was given.
    #[error("job '{0}' needs its token")]
    TokenRequired(JobId),
    /// Another token than its lock's.
    #[error("wrong token for job '{0}'")]
    WrongToken(JobId),
    /// Its key is held by an active job, and cannot be held for longer.
    #[error("key of an active job")]
    KeyHeld,
}

/// Something that happened to a job of a queue that is watched.
#[derive(Debug, Clone)]
pub struct JobEvent {
    /// What.
    pub kind: JobEventKind,
    /// Where.
    pub queue: Name,
    /// Which; None: the queue as a whole.
    pub id: Option<JobId>,
    /// When, ms since 1970.
    pub at_ms: u64,
    /// The job's message, for failures.
    pub frame: Option<Frame>,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum JobEventKind {
    /// It was made.
    Pushed,
    /// It was handed out.
    Pulled,
    /// It was completed.
    Completed(Option<Bytes>),
    /// An attempt failed.
    Failed {
        /// Why.
        error: Option<Arc<str>>,
        /// For the last time.
        is_final: bool,
    },
    /// It will be tried again.
    Retried,
    /// It is so far.
    Progress(f64, Option<Arc<str>>),
    /// Its lock ran out, so often.
    Stalled {
        /// So often.
        count: u32,
        /// It goes on.
        goes_on: bool,
    },
    /// It was removed.
    Removed,
    /// An active one waits, so many ms.
    Delayed(u64),
    /// Another one had its key.
    Duplicated,
    /// Its queue is held back.
    Paused,
    /// Its queue goes on.
    Resumed,
}
