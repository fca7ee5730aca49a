//! A job: a message of a queue with a life of its own. What is known of it beside its message, as it stands in the log. Plain data.

use std::sync::Arc;

use bytes::Bytes;

use crate::name::Name;

/// A job's id: given by the client, or a UUID of version 7 made when the job is.
pub type JobId = Arc<str>;

/// Everything about a job but its message. Its data, result and texts are the client's; nothing here is looked into.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its id, unique in the vhost.
    pub id: JobId,
    /// Its queue.
    pub queue: Name,
    /// What became of it.
    pub phase: JobPhase,
    /// The client gave the id.
    pub is_named: bool,
    /// It came as a message of another protocol, and is forgotten when it is settled.
    pub is_passing: bool,
    /// How it is ordered, retried and removed.
    pub terms: JobTerms,
    /// When it was made, or says that it was, ms since 1970.
    pub created_ms: u64,
    /// When it is or was ready.
    pub run_ms: u64,
    /// When its last attempt that ended began.
    pub started_ms: Option<u64>,
    /// When it was completed, or died.
    pub finished_ms: Option<u64>,
    /// Attempts that failed.
    pub attempts: u32,
    /// Of those, by a lock that ran out, or a worker that was silent.
    pub stalls: u32,
    /// How often it was queued again after its death without anybody's asking, since somebody last did.
    pub revivals: u32,
    /// When that was last, ms since 1970.
    pub revived_ms: Option<u64>,
    /// When somebody last said that it is alive, or it was last given back.
    pub heartbeat_ms: u64,
    /// 0 to 100, or not a number.
    pub progress: f64,
    /// Text with it.
    pub progress_message: Option<Arc<str>>,
    /// Stack trace of the last failure.
    pub stack: Option<Vec<Arc<str>>>,
    /// Its result, if it has one.
    pub result: Option<Bytes>,
    /// What happened to it, at most `limits::JOB_STEPS_MAX`, oldest first.
    pub steps: Vec<JobStep>,
    /// Attempts that failed, at most `limits::JOB_STEPS_MAX`, oldest first.
    pub failures: Vec<JobFailure>,
    /// Lines that its workers wrote, at most `limits::JOB_LOG_LINES_MAX`, oldest first.
    pub logs: Vec<JobLogLine>,
}

/// How a job is ordered, retried and removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobTerms {
    /// Higher is sooner.
    pub priority: i32,
    /// Before others of its priority, and the newest of those that are so first.
    pub newest_first: bool,
    /// Attempts before it is dead, at least 1.
    pub max_attempts: u32,
    /// How long the next attempt waits.
    pub backoff: JobBackoff,
    /// Removed when it was not taken so many ms after its creation.
    pub ttl_ms: Option<u64>,
    /// An attempt fails after so many ms.
    pub timeout_ms: Option<u64>,
    /// An attempt without a lock fails when its worker was silent for so many ms; None: as its queue says.
    pub stall_ms: Option<u64>,
    /// Removed when completed.
    pub remove_on_complete: bool,
    /// Removed when dead.
    pub remove_on_fail: bool,
    /// Lines of stack traces that are kept.
    pub stack_lines_max: u32,
    /// Only one job of its queue has this key while it is queued or active.
    pub unique: Option<JobUnique>,
}

/// A job's key, and what another one with it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobUnique {
    /// The key.
    pub key: Arc<str>,
    /// Until when it is held, ms since 1970; None: until the job ends.
    pub until_ms: Option<u64>,
    /// Its time to live when it was given.
    pub ttl_ms: Option<u64>,
    /// Another one restarts the time.
    pub extend: bool,
    /// Another one takes its place.
    pub replace: bool,
}

/// How long the next attempt waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobBackoff {
    /// ms.
    pub delay_ms: u64,
    /// How it grows.
    pub growth: JobGrowth,
}

/// How a backoff grows with the attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobGrowth {
    /// As exponential; the client gave a number only.
    Plain,
    /// Not at all.
    Fixed,
    /// Doubled each time.
    Exponential,
}

/// What became of a job, as far as the log knows: whether it is being worked on is known to nobody after a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobPhase {
    /// Waiting, delayed or active.
    Queued,
    /// Done.
    Completed,
    /// Dead.
    Failed,
}

/// A job's state as clients see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    /// Ready.
    Waiting,
    /// Ready, with a priority above 0.
    Prioritized,
    /// Not ready before its time.
    Delayed,
    /// Somebody works on it.
    Active,
    /// Done.
    Completed,
    /// Dead.
    Failed,
}

/// Something that happened to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStep {
    /// What it was from then on.
    pub state: JobState,
    /// When, ms since 1970.
    pub at_ms: u64,
    /// Why, for failures.
    pub error: Option<Arc<str>>,
    /// Which attempt, for failures.
    pub attempt: Option<u32>,
}

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFailure {
    /// Which one, from 1 on.
    pub attempt: u32,
    /// When it began, ms since 1970.
    pub started_ms: u64,
    /// When it failed.
    pub failed_ms: u64,
    /// Why the job did not go on, or that it did.
    pub reason: JobReason,
    /// What its worker said.
    pub error: Option<Arc<str>>,
}

/// Why an attempt failed, or a job died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobReason {
    /// Its worker said so, and another attempt follows.
    Explicit,
    /// Its worker said so, for the last time.
    Attempts,
    /// It took too long.
    Timeout,
    /// Its lock ran out.
    Stalled,
    /// Somebody gave it up.
    Discarded,
}

/// How fast the jobs of a queue are handed out, and how many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobRules {
    /// At most so many in a time.
    pub rate: Option<JobRate>,
    /// At most so many at once, whoever has them; at least 1.
    pub concurrency: Option<u32>,
}

/// What becomes of jobs of a queue whose workers are silent, and of dead ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobCare {
    /// Attempts without a lock fail when their worker is silent.
    pub watches_silence: bool,
    /// Silent for longer than so many ms.
    pub silence_ms: u64,
    /// Not so many ms after an attempt began.
    pub grace_ms: u64,
    /// Stalls after which a job is dead; at least 1.
    pub stalls_max: u32,
    /// Dead jobs are queued again without anybody's asking.
    pub revives: bool,
    /// So many ms after their death, and twice as long each time.
    pub revive_ms: u64,
    /// So often.
    pub revivals_max: u32,
    /// Dead jobs are removed after so many ms; None: never.
    pub dead_ms: Option<u64>,
    /// Dead jobs that are kept, the newest; at least 1.
    pub dead_max: u32,
}

impl Default for JobCare {
    fn default() -> Self {
        Self {
            watches_silence: true,
            silence_ms: 30_000,
            grace_ms: 5000,
            stalls_max: 3,
            revives: false,
            revive_ms: 3_600_000,
            revivals_max: 3,
            dead_ms: Some(7 * 86_400_000),
            dead_max: 10_000,
        }
    }
}

impl JobCare {
    /// When a dead job is queued again, ms since 1970.
    #[must_use]
    pub fn revival_ms(&self, job: &Job) -> Option<u64> {
        let is_due = self.revives && job.revivals < self.revivals_max;
        let wait_ms = self.revive_ms.saturating_mul(1 << job.revivals.min(32));
        job.finished_ms.filter(|_| is_due).map(|at| at.saturating_add(wait_ms))
    }

    /// When a dead job is removed, ms since 1970.
    #[must_use]
    pub fn removal_ms(&self, job: &Job) -> Option<u64> {
        Some(job.finished_ms?.saturating_add(self.dead_ms?))
    }
}

/// A rate: a bucket of so many, filled evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobRate {
    /// How many, at least 1.
    pub max: u32,
    /// In so many ms, at least 1.
    pub per_ms: u64,
    /// Until when it holds, ms since 1970; None: until it is taken away.
    pub until_ms: Option<u64>,
}

/// A line of a job's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobLogLine {
    /// When, ms since 1970.
    pub at_ms: u64,
    /// 0 info, 1 warn, 2 error.
    pub level: u8,
    /// The line.
    pub text: Arc<str>,
}

/// Where a list begins and ends, as (order, id).
pub(crate) type JobOrder = (u64, JobId);
