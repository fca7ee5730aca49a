//! The end of attempts: completed, failed, stalled, too slow; and what workers say meanwhile.

use std::sync::Arc;

use bytes::Bytes;
use framegate_storage::Lsn;

use super::Answered;
use super::place::{note, note_attempt, ready};
use crate::error::BrokerError;
use crate::fold::Core;
use crate::ids::{ConnectionId, ConsumerId, QueueId, Seq, Token};
use crate::job::{Job, JobFailure, JobGrowth, JobId, JobLogLine, JobPhase, JobReason, JobState, JobStep};
use crate::limits::{JOB_BACKOFF_MS_MAX, JOB_LOG_LINES_MAX, JOB_STEPS_MAX};
use crate::name::Name;
use crate::record::SeqSet;
use crate::request::{JobAck, JobError, JobEventKind, JobFail, JobReply};
use crate::state::JobEntry;

/// What an attempt came to.
pub(super) struct Failure {
    pub(super) reason: JobReason,
    pub(super) error: Option<Arc<str>>,
    pub(super) stack: Option<Vec<Arc<str>>>,
    pub(super) is_final: bool,
    pub(super) remove: Option<bool>,
}

impl Core {
    /// The job of an outcome, if it is active and the token is right; None: that attempt ended meanwhile.
    fn judge(
        &self,
        vhost: &Name,
        id: &JobId,
        token: Option<Token>,
    ) -> Result<Option<Arc<JobEntry>>, BrokerError> {
        let not_active = || match self.has_ended(token) {
            true => Ok(None),
            false => Err(BrokerError::Job(JobError::Unknown(JobId::clone(id)))),
        };
        let Some(entry) = self.durable.jobs.get(vhost, id) else { return not_active() };
        let Some(active) = self.jobs.active.get(&(entry.place.0, entry.place.1.0)) else {
            return not_active();
        };
        match (active.token, token) {
            (Some(own), Some(given)) if own != given && self.has_ended(token) => Ok(None),
            (Some(own), Some(given)) if own != given => {
                Err(BrokerError::Job(JobError::WrongToken(JobId::clone(id))))
            }
            (Some(_), None) => Err(BrokerError::Job(JobError::TokenRequired(JobId::clone(id)))),
            _ => Ok(Some(Arc::clone(entry))),
        }
    }

    /// Completes jobs, all or none of those that are still active.
    pub(super) fn ack_jobs(&mut self, vhost: &Name, acks: Vec<JobAck>) -> Answered {
        let mut ignored = Vec::new();
        for (index, ack) in acks.iter().enumerate() {
            if self.judge(vhost, &ack.id, ack.token)?.is_none() {
                ignored.push(index);
            }
        }
        for ack in acks {
            // one that is named twice is completed once
            if let Ok(Some(entry)) = self.judge(vhost, &ack.id, ack.token) {
                self.complete_job(&entry, ack.result, ack.remove);
            }
        }
        Ok((self.newest(), JobReply::Ignored(ignored)))
    }

    fn complete_job(&mut self, entry: &JobEntry, result: Option<Bytes>, remove: Option<bool>) {
        let (began_ms, heartbeat_ms) = (self.began(entry), self.heartbeat(entry));
        self.release_job(entry);
        let now_ms = self.now.wall_ms;
        let mut job = entry.job.clone();
        job.phase = JobPhase::Completed;
        job.heartbeat_ms = heartbeat_ms;
        job.started_ms = began_ms;
        job.finished_ms = Some(now_ms);
        job.result = result.clone();
        note_attempt(&mut job, began_ms);
        note(&mut job, JobStep { state: JobState::Completed, at_ms: now_ms, error: None, attempt: None });
        let remove = remove.unwrap_or(job.terms.remove_on_complete);
        self.end_job(entry, job, remove);
        let kind = JobEventKind::Completed(result.clone());
        self.tell_job(&entry.vhost, &entry.job.queue, Some(&entry.job.id), kind, None);
        self.job_completed(&entry.vhost, &entry.job.id, result);
    }

    /// When the attempt that is going on began.
    pub(super) fn began(&self, entry: &JobEntry) -> Option<u64> {
        self.jobs.active.get(&(entry.place.0, entry.place.1.0)).map(|active| active.began_ms)
    }

    /// When somebody last said that it is alive.
    pub(super) fn heartbeat(&self, entry: &JobEntry) -> u64 {
        let active = self.jobs.active.get(&(entry.place.0, entry.place.1.0));
        active.map_or(entry.job.heartbeat_ms, |active| active.heartbeat_ms)
    }

    /// Completes those of these messages that are jobs, and that nobody has any more; gives the others.
    pub(in crate::fold) fn complete_jobs(&mut self, queue: QueueId, seqs: SeqSet) -> SeqSet {
        self.each_job(queue, seqs, |core, entry| core.complete_job(entry, None, None))
    }

    /// Fails those that are jobs; gives the others.
    pub(in crate::fold) fn reject_jobs(&mut self, queue: QueueId, seqs: SeqSet) -> SeqSet {
        self.each_job(queue, seqs, |core, entry| {
            let error = Some(Arc::from("rejected"));
            core.fail_attempt(
                entry,
                Failure { reason: JobReason::Attempts, error, stack: None, is_final: false, remove: None },
            );
        })
    }

    /// Locks ran out: those that are jobs are tried again or dead; gives the others.
    pub(in crate::fold) fn stall_jobs(&mut self, queue: QueueId, seqs: SeqSet) -> SeqSet {
        self.each_job(queue, seqs, |core, entry| core.stall_job(entry))
    }

    /// Locks of a holder are about to run out: what their attempts leave behind is kept for a moment.
    pub(in crate::fold) fn jobs_expire(&mut self, id: ConnectionId, consumer: ConsumerId, due: &[Seq]) {
        let holder = self.connections.get(&id).and_then(|connection| connection.consumers.get(&consumer));
        let Some(queue) = holder.map(|holder| holder.queue).filter(|queue| self.durable.jobs.has(*queue))
        else {
            return;
        };
        self.jobs.expired.clear();
        for seq in due {
            if let Some(active) = self.jobs.active.get(&(queue, seq.0)) {
                self.jobs.expired.insert((queue, seq.0), active.began_ms);
            }
        }
    }

    /// A connection gave jobs back: what nobody else would know is written down.
    pub(in crate::fold) fn jobs_given_back(&mut self, queue: QueueId, seqs: impl Iterator<Item = u64>) {
        if !self.durable.jobs.has(queue) {
            return;
        }
        let now_ms = self.now.wall_ms;
        for seq in seqs {
            let began_ms = self.jobs.active.remove(&(queue, seq)).map(|active| active.began_ms);
            if let Some(entry) = self.durable.jobs.at(queue, seq).cloned() {
                self.change_entry(&entry, |job| {
                    note_attempt(job, began_ms);
                    job.heartbeat_ms = now_ms;
                });
            }
        }
    }

    fn each_job(&mut self, queue: QueueId, seqs: SeqSet, act: impl Fn(&mut Self, &JobEntry)) -> SeqSet {
        if !self.durable.jobs.has(queue) {
            return seqs;
        }
        let mut others = SeqSet::default();
        for seq in seqs.iter() {
            match self.durable.jobs.at(queue, seq.0).cloned() {
                Some(entry) => act(self, &entry),
                None => {
                    others.push(seq);
                }
            }
        }
        others
    }

    /// Fails an attempt, as its worker says.
    pub(super) fn fail_job(&mut self, vhost: &Name, fail: JobFail) -> Answered {
        let Some(entry) = self.judge(vhost, &fail.id, fail.token)? else {
            return Ok((Lsn(0), JobReply::Ignored(vec![0])));
        };
        let stack = Some(fail.stack).filter(|lines| !lines.is_empty());
        let (is_final, error, remove) = (fail.is_final, fail.error, fail.remove);
        self.fail_attempt(&entry, Failure { reason: JobReason::Attempts, error, stack, is_final, remove });
        Ok((self.newest(), JobReply::Ignored(Vec::new())))
    }

    /// An attempt failed: another one follows, or the job is dead.
    fn fail_attempt(&mut self, entry: &JobEntry, failure: Failure) {
        let (began_ms, heartbeat_ms) = (self.began(entry), self.heartbeat(entry));
        self.release_job(entry);
        let now_ms = self.now.wall_ms;
        let mut job = entry.job.clone();
        job.heartbeat_ms = heartbeat_ms;
        job.attempts = job.attempts.saturating_add(1);
        let goes_on = !failure.is_final && job.attempts < job.terms.max_attempts;
        self.note_failure(&mut job, &failure, began_ms, goes_on);
        let frame = self.watched_frame(entry);
        if goes_on {
            let delay_ms = backoff_ms(&job);
            job.started_ms = None;
            let (state, attempt) = (ready(&job), Some(job.attempts + 1));
            note(&mut job, JobStep { state, at_ms: now_ms, error: None, attempt });
            self.queue_job(entry, job, now_ms.saturating_add(delay_ms));
        } else {
            let remove = failure.remove.unwrap_or(job.terms.remove_on_fail);
            self.bury(entry, job, began_ms, remove);
        }
        let (vhost, queue, id) = (&entry.vhost, &entry.job.queue, Some(&entry.job.id));
        let kind = JobEventKind::Failed { error: failure.error, is_final: !goes_on };
        self.tell_job(vhost, queue, id, kind, frame);
        if goes_on {
            self.tell_job(vhost, queue, id, JobEventKind::Retried, None);
        }
    }

    pub(super) fn note_failure(
        &self,
        job: &mut Job,
        failure: &Failure,
        began_ms: Option<u64>,
        goes_on: bool,
    ) {
        let now_ms = self.now.wall_ms;
        note_attempt(job, began_ms);
        let error = failure.error.clone();
        note(job, JobStep { state: JobState::Failed, at_ms: now_ms, error, attempt: Some(job.attempts) });
        let reason = match failure.reason {
            JobReason::Attempts if goes_on => JobReason::Explicit,
            reason => reason,
        };
        if job.failures.len() >= JOB_STEPS_MAX {
            job.failures.remove(0);
        }
        job.failures.push(JobFailure {
            attempt: job.attempts,
            started_ms: began_ms.unwrap_or(now_ms),
            failed_ms: now_ms,
            reason,
            error: failure.error.clone(),
        });
        if let Some(stack) = &failure.stack {
            let lines = stack.iter().filter(|line| !line.trim().is_empty());
            let lines = lines.take(job.terms.stack_lines_max as usize).map(|line| Arc::from(line.trim()));
            job.stack = Some(lines.collect());
        }
    }

    /// A job that nobody has is dead.
    pub(super) fn bury(&mut self, entry: &JobEntry, mut job: Job, began_ms: Option<u64>, remove: bool) {
        job.phase = JobPhase::Failed;
        job.started_ms = began_ms;
        job.finished_ms = Some(self.now.wall_ms);
        self.end_job(entry, job, remove);
    }

    /// Its lock ran out, and nobody has it any more: at once again, or dead after the last attempt.
    fn stall_job(&mut self, entry: &JobEntry) {
        let mut job = entry.job.clone();
        job.attempts = job.attempts.saturating_add(1);
        job.stalls = job.stalls.saturating_add(1);
        note_attempt(&mut job, self.jobs.expired.remove(&(entry.place.0, entry.place.1.0)));
        job.heartbeat_ms = self.now.wall_ms;
        let is_last = job.attempts >= job.terms.max_attempts;
        let goes_on = !is_last && job.stalls < self.durable.jobs.care(entry.home).stalls_max;
        let error: Option<Arc<str>> = match (goes_on, is_last) {
            (true, _) => None,
            (false, true) => Some(Arc::from(format!("Lock expired at max attempts ({})", job.attempts))),
            (false, false) => Some(Arc::from("Job stalled")),
        };
        let count = job.stalls;
        let (vhost, queue, id) = (&entry.vhost, &entry.job.queue, Some(&entry.job.id));
        self.tell_job(vhost, queue, id, JobEventKind::Stalled { count, goes_on }, None);
        if goes_on {
            self.queue_job(entry, job, self.now.wall_ms);
            return;
        }
        let reason = if is_last { JobReason::Attempts } else { JobReason::Stalled };
        let failure = Failure { reason, error: error.clone(), stack: None, is_final: true, remove: None };
        self.note_failure(&mut job, &failure, None, false);
        let frame = self.watched_frame(entry);
        let remove = job.terms.remove_on_fail;
        self.bury(entry, job, None, remove);
        self.tell_job(vhost, queue, id, JobEventKind::Failed { error, is_final: true }, frame);
    }

    /// The time of an attempt is over.
    pub(in crate::fold) fn job_timeout(&mut self, queue: QueueId, seq: u64, began_ms: u64) {
        let is_own = self.jobs.active.get(&(queue, seq)).filter(|active| active.began_ms == began_ms);
        let Some(active) = is_own.copied() else { return };
        let Some(entry) = self.durable.jobs.at(queue, Seq(seq).0).cloned() else { return };
        if let Some(token) = active.token {
            self.note_ended(token);
        }
        let error = Some(Arc::from("Job timeout exceeded"));
        self.fail_attempt(
            &entry,
            Failure { reason: JobReason::Timeout, error, stack: None, is_final: false, remove: None },
        );
    }

    /// Notes how far an active job is.
    pub(super) fn job_progress(
        &mut self,
        vhost: &Name,
        id: &JobId,
        progress: f64,
        message: Option<Arc<str>>,
    ) -> Answered {
        let entry = self.find_job(vhost, id)?;
        let state = self.job_state(&entry);
        if state != JobState::Active {
            return Err(BrokerError::Job(JobError::WrongState { id: JobId::clone(id), state }));
        }
        let now_ms = self.now.wall_ms;
        if let Some(active) = self.jobs.active.get_mut(&(entry.place.0, entry.place.1.0)) {
            active.heartbeat_ms = now_ms;
        }
        let told = message.clone();
        self.change_entry(&entry, |job| {
            job.progress = progress;
            job.progress_message = message.or(job.progress_message.take());
        });
        let kind = JobEventKind::Progress(progress, told);
        self.tell_job(vhost, &entry.job.queue, Some(id), kind, None);
        Ok((self.newest(), JobReply::Done))
    }

    /// Adds a line to a job's log.
    pub(super) fn job_log(&mut self, vhost: &Name, id: &JobId, level: u8, text: Arc<str>) -> Answered {
        let entry = self.find_job(vhost, id)?;
        let at_ms = self.now.wall_ms;
        self.change_entry(&entry, |job| {
            if job.logs.len() >= JOB_LOG_LINES_MAX {
                job.logs.remove(0);
            }
            job.logs.push(JobLogLine { at_ms, level, text });
        });
        Ok((self.newest(), JobReply::Done))
    }

    /// Removes lines but the newest.
    pub(super) fn clear_job_log(&mut self, vhost: &Name, id: &JobId, keep: u32) -> Answered {
        let Some(entry) = self.durable.jobs.get(vhost, id).cloned() else {
            return Ok((Lsn(0), JobReply::Done));
        };
        self.change_entry(&entry, |job| {
            let gone = job.logs.len().saturating_sub(keep as usize);
            job.logs.drain(..gone);
        });
        Ok((self.newest(), JobReply::Done))
    }
}

/// How long the next attempt waits, with chance in it, so that jobs that failed together do not come together again.
pub(super) fn backoff_ms(job: &Job) -> u64 {
    let backoff = job.terms.backoff;
    let chance = (uuid::Uuid::new_v4().as_u64_pair().1 % 10_000) as f64 / 10_000.0;
    let delay = backoff.delay_ms as f64;
    let wanted = match backoff.growth {
        JobGrowth::Fixed => delay * (0.8 + 0.4 * chance),
        JobGrowth::Plain | JobGrowth::Exponential => {
            delay * 2_f64.powi(i32::try_from(job.attempts.min(64)).unwrap_or(64)) * (0.5 + chance)
        }
    };
    (wanted as u64).min(JOB_BACKOFF_MS_MAX)
}
