//! Changes of one job.

use super::Answered;
use super::place::note_attempt;
use crate::error::BrokerError;
use crate::fold::Core;
use crate::ids::Token;
use crate::job::{Job, JobFailure, JobId, JobPhase, JobReason, JobState};
use crate::name::Name;
use crate::request::{JobChange, JobError, JobEventKind, JobReply};
use crate::state::JobEntry;

impl Core {
    /// The job as it is when its worker, if it has one, has it no more.
    fn taken_back(&mut self, entry: &JobEntry) -> Job {
        let mut job = entry.job.clone();
        if let Some(active) = self.jobs.active.get(&(entry.place.0, entry.place.1.0)) {
            note_attempt(&mut job, Some(active.began_ms));
            job.heartbeat_ms = active.heartbeat_ms;
        }
        self.release_job(entry);
        job
    }

    /// Changes a job. An active one that goes back needs its token, if it has one.
    pub(super) fn change_job(
        &mut self,
        vhost: &Name,
        id: &JobId,
        token: Option<Token>,
        change: JobChange,
    ) -> Answered {
        let entry = self.find_job(vhost, id)?;
        let state = self.job_state(&entry);
        let wrong = || Err(BrokerError::Job(JobError::WrongState { id: JobId::clone(id), state }));
        let queue = entry.job.queue.clone();
        let needs_token = matches!(change, JobChange::Requeue | JobChange::Delay(_) | JobChange::Discard);
        let own = self.jobs.active.get(&(entry.place.0, entry.place.1.0)).and_then(|active| active.token);
        match (own, token) {
            (Some(_), None) if needs_token => {
                return Err(BrokerError::Job(JobError::TokenRequired(JobId::clone(id))));
            }
            (Some(own), Some(given)) if needs_token && own != given => {
                return Err(BrokerError::Job(JobError::WrongToken(JobId::clone(id))));
            }
            _ => {}
        }
        let now_ms = self.now.wall_ms;
        let is_waiting = matches!(state, JobState::Waiting | JobState::Prioritized);
        match change {
            JobChange::Cancel if is_waiting || state == JobState::Delayed => {
                self.remove_job(&entry);
                self.tell_job(vhost, &queue, Some(id), JobEventKind::Removed, None);
            }
            JobChange::Promote if state == JobState::Delayed => {
                self.queue_job(&entry, entry.job.clone(), now_ms);
            }
            JobChange::Requeue if is_waiting => {}
            JobChange::Requeue if state == JobState::Failed => self.run_again(&entry),
            JobChange::Requeue if state != JobState::Completed => {
                let job = self.taken_back(&entry);
                self.queue_job(&entry, job, now_ms);
            }
            JobChange::Delay(ms) if entry.job.phase == JobPhase::Queued => {
                let was_active = state == JobState::Active;
                let job = self.taken_back(&entry);
                self.queue_job(&entry, job, now_ms.saturating_add(ms));
                if was_active {
                    self.tell_job(vhost, &queue, Some(id), JobEventKind::Delayed(ms), None);
                }
            }
            JobChange::Discard if entry.job.phase == JobPhase::Queued => {
                let began_ms = self.began(&entry);
                let mut job = self.taken_back(&entry);
                let attempt = job.attempts;
                let failure = JobFailure {
                    attempt,
                    started_ms: began_ms.unwrap_or(now_ms),
                    failed_ms: now_ms,
                    reason: JobReason::Discarded,
                    error: None,
                };
                job.failures.push(failure);
                self.bury(&entry, job, None, false);
            }
            JobChange::Priority { priority, newest_first } if is_waiting || state == JobState::Delayed => {
                let mut job = entry.job.clone();
                job.terms.priority = priority;
                job.terms.newest_first = newest_first.unwrap_or(job.terms.newest_first);
                let run_ms = job.run_ms;
                self.queue_job(&entry, job, run_ms);
            }
            JobChange::Message(frame) if entry.job.phase == JobPhase::Queued => {
                self.rewrite_job(&entry, &frame);
            }
            _ => return wrong(),
        }
        Ok((self.newest(), JobReply::Done))
    }
}
