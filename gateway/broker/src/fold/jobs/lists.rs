//! What is done with many jobs of a queue at once. At most a slice of them is touched in one pass; the answer counts what was.

use std::sync::Arc;

use framegate_storage::Lsn;

use super::Answered;
use super::place::{note, ready};
use crate::error::{Access, Kind};
use crate::fold::Core;
use crate::ids::QueueId;
use crate::job::{JobId, JobPhase, JobState, JobStep};
use crate::name::Name;
use crate::principal::Principal;
use crate::request::{JobCounts, JobReply};
use crate::state::JobEntry;

impl Core {
    /// Jobs of a queue in one phase, oldest first.
    fn entries(&self, queue: QueueId, phase: JobPhase) -> Vec<Arc<JobEntry>> {
        let Some(vhost) = self.durable.queue(queue).map(|state| state.vhost.clone()) else {
            return Vec::new();
        };
        let ids = self.durable.jobs.list(queue, phase);
        ids.filter_map(|(.., id)| self.durable.jobs.get(&vhost, id).cloned()).collect()
    }

    /// How many jobs a queue has, by state.
    pub(super) fn count_jobs(&self, vhost: &Name, queue: &Name) -> JobCounts {
        let mut counts = JobCounts::default();
        let Some(id) = self.job_queue(vhost, queue) else { return counts };
        counts.is_paused = self.durable.jobs.is_paused(id);
        counts.completed = self.durable.jobs.count(id, JobPhase::Completed);
        counts.failed = self.durable.jobs.count(id, JobPhase::Failed);
        for entry in self.entries(id, JobPhase::Queued) {
            match self.job_state(&entry) {
                JobState::Waiting => counts.waiting += 1,
                JobState::Prioritized => counts.prioritized += 1,
                JobState::Delayed => counts.delayed += 1,
                _ => counts.active += 1,
            }
        }
        // messages of other protocols, which are jobs when somebody takes them as such
        let known = self.durable.jobs.count(id, JobPhase::Queued);
        let held = self.live.get(&id).map_or(0, |live| live.held);
        let others = self.durable.queue(id).map_or(0, |state| state.count.saturating_sub(known));
        counts.waiting += others.min(self.ready_count(id).max(others.saturating_sub(held)));
        counts
    }

    /// Queues that have jobs, or had some.
    pub(super) fn job_queues(&self, vhost: &Name, principal: &Principal) -> Vec<Name> {
        let queues = self.durable.jobs.queues().filter_map(|id| self.durable.queue(id));
        let own = queues.filter(|queue| queue.vhost == *vhost).map(|queue| queue.spec.name.clone());
        own.filter(|name| principal.check(Access::Read, Kind::Queue, name, vhost).is_ok()).collect()
    }

    /// Removes what is queued and nobody works on.
    pub(super) fn drain_jobs(&mut self, vhost: &Name, queue: &Name) -> Answered {
        let Some(id) = self.job_queue(vhost, queue) else { return Ok((Lsn(0), JobReply::Count(0))) };
        let mut count = 0;
        for entry in self.entries(id, JobPhase::Queued) {
            if self.job_state(&entry) != JobState::Active {
                self.remove_job(&entry);
                count += 1;
            }
        }
        Ok((self.newest(), JobReply::Count(count)))
    }

    /// Removes everything of a queue, and what is held of it.
    pub(super) fn obliterate_jobs(&mut self, vhost: &Name, queue: &Name) -> Answered {
        let Some(id) = self.job_queue(vhost, queue) else { return Ok((Lsn(0), JobReply::Done)) };
        for phase in [JobPhase::Queued, JobPhase::Completed, JobPhase::Failed] {
            for entry in self.entries(id, phase) {
                self.release_job(&entry);
                self.remove_job(&entry);
            }
        }
        if self.durable.jobs.is_paused(id) {
            self.log(crate::record::Record::PauseJobs { queue: id, paused: false }, None, true);
        }
        Ok((self.newest(), JobReply::Done))
    }

    /// Removes those that are old enough. Active ones stay.
    pub(super) fn clean_jobs(
        &mut self,
        vhost: &Name,
        queue: &Name,
        grace_ms: u64,
        state: Option<JobState>,
        max: u32,
    ) -> Answered {
        let mut removed = Vec::new();
        let phase = match state {
            Some(JobState::Completed) => JobPhase::Completed,
            Some(JobState::Failed) => JobPhase::Failed,
            Some(JobState::Active) => return Ok((Lsn(0), JobReply::Removed(removed))),
            _ => JobPhase::Queued,
        };
        let Some(id) = self.job_queue(vhost, queue) else { return Ok((Lsn(0), JobReply::Removed(removed))) };
        let before_ms = self.now.wall_ms.saturating_sub(grace_ms);
        for entry in self.entries(id, phase) {
            if removed.len() >= max as usize {
                break;
            }
            let at_ms = entry.job.finished_ms.unwrap_or(entry.job.created_ms);
            if at_ms <= before_ms && self.job_state(&entry) != JobState::Active {
                removed.push(JobId::clone(&entry.job.id));
                self.remove_job(&entry);
            }
        }
        Ok((self.newest(), JobReply::Removed(removed)))
    }

    /// Delayed ones are ready at once, oldest first.
    pub(super) fn promote_jobs(&mut self, vhost: &Name, queue: &Name, max: u32) -> Answered {
        let Some(id) = self.job_queue(vhost, queue) else { return Ok((Lsn(0), JobReply::Count(0))) };
        let mut count = 0;
        for entry in self.entries(id, JobPhase::Queued) {
            if count < u64::from(max) && self.job_state(&entry) == JobState::Delayed {
                self.queue_job(&entry, entry.job.clone(), self.now.wall_ms);
                count += 1;
            }
        }
        Ok((self.newest(), JobReply::Count(count)))
    }

    /// Queued jobs by priority, ascending.
    pub(super) fn job_priorities(&self, vhost: &Name, queue: &Name) -> Vec<(i32, u64)> {
        let mut counts = std::collections::BTreeMap::new();
        for entry in
            self.job_queue(vhost, queue).into_iter().flat_map(|id| self.entries(id, JobPhase::Queued))
        {
            if self.job_state(&entry) != JobState::Active {
                *counts.entry(entry.job.terms.priority).or_insert(0) += 1;
            }
        }
        counts.into_iter().collect()
    }

    /// The job that holds a key holds it no more.
    pub(super) fn free_key(&mut self, vhost: &Name, queue: &Name, key: &str) -> Answered {
        let holder = self.job_queue(vhost, queue).and_then(|id| self.durable.jobs.holder(id, key).cloned());
        let Some(entry) = holder.and_then(|id| self.durable.jobs.get(vhost, &id).cloned()) else {
            return Ok((Lsn(0), JobReply::Count(0)));
        };
        let gate = self.change_entry(&entry, |job| job.terms.unique = None);
        Ok((gate, JobReply::Count(1)))
    }

    /// Those that have ended that way, one of them or the oldest.
    fn ended(&self, vhost: &Name, queue: &Name, phase: JobPhase, id: Option<&JobId>) -> Vec<Arc<JobEntry>> {
        let Some(home) = self.job_queue(vhost, queue) else { return Vec::new() };
        match id {
            None => {
                let mut entries = self.entries(home, phase);
                entries.sort_by_key(|entry| entry.job.finished_ms);
                entries
            }
            Some(id) => {
                let entry = self.durable.jobs.get(vhost, id);
                entry
                    .filter(|entry| entry.home == home && entry.job.phase == phase)
                    .cloned()
                    .into_iter()
                    .collect()
            }
        }
    }

    /// Lets jobs that have ended run again, as if for the first time.
    pub(super) fn retry_jobs(
        &mut self,
        vhost: &Name,
        queue: &Name,
        phase: JobPhase,
        id: Option<&JobId>,
        max: u32,
    ) -> Answered {
        let mut count = 0;
        for entry in self.ended(vhost, queue, phase, id).into_iter().take(max as usize) {
            self.run_again(&entry);
            count += 1;
        }
        Ok((self.newest(), JobReply::Count(count)))
    }

    /// A job that has ended is queued again.
    pub(super) fn run_again(&mut self, entry: &JobEntry) {
        let mut job = entry.job.clone();
        (job.attempts, job.stalls) = (0, 0);
        job.failures.clear();
        (job.started_ms, job.finished_ms, job.result) = (None, None, None);
        job.heartbeat_ms = self.now.wall_ms;
        let step = JobStep { state: ready(&job), at_ms: self.now.wall_ms, error: None, attempt: None };
        note(&mut job, step);
        self.queue_job(entry, job, self.now.wall_ms);
    }

    /// Removes dead jobs.
    pub(super) fn purge_dead_jobs(&mut self, vhost: &Name, queue: &Name, id: Option<&JobId>) -> Answered {
        let mut count = 0;
        for entry in self.ended(vhost, queue, JobPhase::Failed, id) {
            self.remove_job(&entry);
            count += 1;
        }
        Ok((self.newest(), JobReply::Count(count)))
    }
}
