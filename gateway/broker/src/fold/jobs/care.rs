//! Workers that are silent, and dead jobs: how many are kept, for how long, and which are queued again.
//!
//! An attempt under a lock ends with its lock and by nothing else, so that no job runs twice while its lock is alive.

use std::sync::Arc;

use framegate_storage::Lsn;

use super::Answered;
use super::finish::{Failure, backoff_ms};
use crate::fold::Core;
use crate::fold::timers::Timer;
use crate::ids::{ConnectionId, QueueId};
use crate::job::{JobCare, JobPhase, JobReason};
use crate::limits::{JOB_DEAD_LOOK_MS, SLICE_MESSAGES_MAX};
use crate::name::Name;
use crate::record::Record;
use crate::request::{JobCareChange, JobEventKind, JobReply};
use crate::state::JobEntry;

impl Core {
    /// What becomes of silent and dead jobs of a queue.
    pub(super) fn job_care(&self, vhost: &Name, queue: &Name) -> JobCare {
        self.job_queue(vhost, queue).map_or_else(JobCare::default, |id| self.durable.jobs.care(id))
    }

    /// Changes it. The queue is made when it is missing.
    pub(super) fn care_for_jobs(
        &mut self,
        connection: ConnectionId,
        vhost: &Name,
        queue: &Name,
        change: &JobCareChange,
    ) -> Answered {
        let id = self.home_of(connection, vhost, queue)?;
        let old = self.durable.jobs.care(id);
        let care = JobCare {
            watches_silence: change.watches_silence.unwrap_or(old.watches_silence),
            silence_ms: change.silence_ms.unwrap_or(old.silence_ms),
            grace_ms: change.grace_ms.unwrap_or(old.grace_ms),
            stalls_max: change.stalls_max.unwrap_or(old.stalls_max).max(1),
            revives: change.revives.unwrap_or(old.revives),
            revive_ms: change.revive_ms.unwrap_or(old.revive_ms),
            revivals_max: change.revivals_max.unwrap_or(old.revivals_max),
            dead_ms: change.dead_ms.unwrap_or(old.dead_ms),
            dead_max: change.dead_max.unwrap_or(old.dead_max).max(1),
        };
        if care == old {
            return Ok((Lsn(0), JobReply::Done));
        }
        let gate = self.log(Record::JobCare { queue: id, care }, None, true).0;
        let active: Vec<u64> =
            self.jobs.active.keys().filter(|(of, _)| *of == id).map(|(_, seq)| *seq).collect();
        active.into_iter().for_each(|seq| self.listen_for(id, seq));
        self.look_at_dead(id, self.now.mono_ms);
        Ok((gate, JobReply::Done))
    }

    /// After a start: dead jobs are looked at.
    pub(in crate::fold) fn start_care(&mut self) {
        for queue in self.durable.jobs.queues().collect::<Vec<_>>() {
            if self.durable.jobs.count(queue, JobPhase::Failed) > 0 {
                self.look_at_dead(queue, self.now.mono_ms);
            }
        }
    }

    /// When an attempt has been silent for too long, ms since 1970; None: it has a lock, or nobody minds.
    fn silent_ms(&self, queue: QueueId, seq: u64) -> Option<u64> {
        let active = self.jobs.active.get(&(queue, seq)).filter(|active| active.may_stall)?;
        let entry = self.durable.jobs.at(queue, seq)?;
        let care = self.durable.jobs.care(entry.home);
        let silence_ms = entry.job.terms.stall_ms.unwrap_or(care.silence_ms);
        let heard_ms = active.heartbeat_ms.saturating_add(silence_ms);
        care.watches_silence.then(|| heard_ms.max(active.began_ms.saturating_add(care.grace_ms)) + 1)
    }

    /// Sets the timer of an attempt without a lock.
    pub(super) fn listen_for(&mut self, queue: QueueId, seq: u64) {
        let Some(silent_ms) = self.silent_ms(queue, seq) else { return };
        let Some(began_ms) = self.jobs.active.get(&(queue, seq)).map(|active| active.began_ms) else {
            return;
        };
        let due = self.now.mono_ms.saturating_add(silent_ms.saturating_sub(self.now.wall_ms)).max(1);
        self.timers.add(due, Timer::JobSilence(queue, seq, began_ms));
    }

    /// The worker of an attempt may have been silent for too long.
    pub(in crate::fold) fn job_silent(&mut self, queue: QueueId, seq: u64, began_ms: u64) {
        let is_own = self.jobs.active.get(&(queue, seq)).is_some_and(|active| active.began_ms == began_ms);
        let Some(silent_ms) = self.silent_ms(queue, seq).filter(|_| is_own) else { return };
        if silent_ms > self.now.wall_ms {
            return self.listen_for(queue, seq);
        }
        if let Some(entry) = self.durable.jobs.at(queue, seq).cloned() {
            self.stall_silent(&entry);
        }
    }

    /// Its worker was silent: tried again after a while, or dead.
    fn stall_silent(&mut self, entry: &JobEntry) {
        let began_ms = self.began(entry);
        self.release_job(entry);
        let now_ms = self.now.wall_ms;
        let mut job = entry.job.clone();
        job.attempts = job.attempts.saturating_add(1);
        job.stalls = job.stalls.saturating_add(1);
        job.heartbeat_ms = now_ms;
        let count = job.stalls;
        let goes_on =
            job.attempts < job.terms.max_attempts && count < self.durable.jobs.care(entry.home).stalls_max;
        let (vhost, queue, id) = (&entry.vhost, &entry.job.queue, Some(&entry.job.id));
        self.tell_job(vhost, queue, id, JobEventKind::Stalled { count, goes_on }, None);
        if goes_on {
            super::place::note_attempt(&mut job, began_ms);
            let delay_ms = backoff_ms(&job);
            self.queue_job(entry, job, now_ms.saturating_add(delay_ms));
            return;
        }
        let error: Option<Arc<str>> = Some(Arc::from(format!("Job stalled {count} times")));
        let failure = Failure {
            reason: JobReason::Stalled,
            error: error.clone(),
            stack: None,
            is_final: true,
            remove: None,
        };
        self.note_failure(&mut job, &failure, began_ms, false);
        let frame = self.watched_frame(entry);
        let remove = job.terms.remove_on_fail;
        self.bury(entry, job, None, remove);
        self.tell_job(vhost, queue, id, JobEventKind::Failed { error, is_final: true }, frame);
    }

    /// A queue has one more dead job: the oldest goes when there are too many.
    pub(super) fn one_more_dead(&mut self, home: QueueId) {
        let care = self.durable.jobs.care(home);
        if self.durable.jobs.count(home, JobPhase::Failed) > care.dead_max.into() {
            self.remove_oldest_dead(home);
        }
        let revive_ms = care.revives.then_some(care.revive_ms.clamp(1, JOB_DEAD_LOOK_MS));
        if let Some(in_ms) = revive_ms.into_iter().chain(care.dead_ms).min() {
            self.look_at_dead(home, self.now.mono_ms.saturating_add(in_ms));
        }
    }

    fn remove_oldest_dead(&mut self, home: QueueId) {
        let Some(vhost) = self.durable.queue(home).map(|queue| queue.vhost.clone()) else { return };
        let oldest =
            self.durable.jobs.ended(home, JobPhase::Failed, None).next().map(|(.., id)| Arc::clone(id));
        if let Some(entry) = oldest.and_then(|id| self.durable.jobs.get(&vhost, &id).cloned()) {
            self.remove_job(&entry);
        }
    }

    /// Dead jobs of a queue are looked at then, unless they are before.
    fn look_at_dead(&mut self, queue: QueueId, due_ms: u64) {
        let due_ms = due_ms.max(1);
        let look = self.jobs.dead_looks.entry(queue).or_insert((u64::MAX, None));
        if due_ms < look.0 {
            look.0 = due_ms;
            self.timers.add(due_ms, Timer::DeadJobs(queue));
        }
    }

    /// Looks at a slice of the dead jobs of a queue: too many, too old, or due again.
    pub(in crate::fold) fn dead_jobs_due(&mut self, home: QueueId) {
        let Some((due_ms, behind)) = self.jobs.dead_looks.get(&home).cloned() else { return };
        let Some(vhost) = self.durable.queue(home).map(|queue| queue.vhost.clone()) else { return };
        if due_ms > self.now.mono_ms {
            return;
        }
        let care = self.durable.jobs.care(home);
        let now_ms = self.now.wall_ms;
        let jobs = &self.durable.jobs;
        let mut surplus = jobs.count(home, JobPhase::Failed).saturating_sub(care.dead_max.into());
        let slice: Vec<_> =
            jobs.ended(home, JobPhase::Failed, behind.as_ref()).take(SLICE_MESSAGES_MAX).cloned().collect();
        let mut next_ms = u64::MAX;
        for (_, _, id) in &slice {
            let Some(entry) = self.durable.jobs.get(&vhost, id).cloned() else { continue };
            let (removal_ms, revival_ms) = (care.removal_ms(&entry.job), care.revival_ms(&entry.job));
            if surplus > 0 || removal_ms.is_some_and(|at| at <= now_ms) {
                surplus = surplus.saturating_sub(1);
                self.remove_job(&entry);
            } else if revival_ms.is_some_and(|at| at <= now_ms) {
                self.revive(&entry, entry.job.revivals.saturating_add(1));
            } else {
                let due = removal_ms.into_iter().chain(revival_ms).min();
                next_ms = next_ms.min(due.unwrap_or(u64::MAX));
                if !care.revives && surplus == 0 {
                    // those behind it died later
                    break;
                }
            }
        }
        let is_last = slice.len() < SLICE_MESSAGES_MAX || (!care.revives && next_ms != u64::MAX);
        let behind = slice.last().cloned().filter(|_| !is_last);
        self.jobs.dead_looks.insert(home, (u64::MAX, behind));
        if !is_last {
            // the inbox is let in between slices
            return self.look_at_dead(home, self.now.mono_ms + 1);
        }
        let mut wait_ms = next_ms.saturating_sub(now_ms);
        if care.revives {
            // what earlier slices saw is not remembered
            wait_ms = wait_ms.min(care.revive_ms.clamp(1, JOB_DEAD_LOOK_MS));
        }
        let is_empty = self.durable.jobs.count(home, JobPhase::Failed) == 0;
        if next_ms != u64::MAX || (care.revives && !is_empty) {
            self.look_at_dead(home, self.now.mono_ms.saturating_add(wait_ms.max(1)));
        }
    }
}
