//! What is asked of all jobs of a queue, and what is done with one of them by its queue. What changes many is in `sweep.rs`.

use framegate_storage::Lsn;

use super::Answered;
use super::place::{note, ready};
use crate::error::{Access, Kind};
use crate::fold::Core;
use crate::job::{JobId, JobPhase, JobStep};
use crate::name::Name;
use crate::principal::Principal;
use crate::request::{JobCounts, JobReply};
use crate::state::JobEntry;

impl Core {
    /// How many jobs a queue has, by state. A message of another protocol counts as the job that it will be.
    pub(super) fn count_jobs(&self, vhost: &Name, queue: &Name) -> JobCounts {
        let mut counts = JobCounts::default();
        let Some(id) = self.job_queue(vhost, queue) else { return counts };
        let Some(live) = self.live.get(&id) else { return counts };
        counts.is_paused = self.durable.jobs.is_paused(id);
        counts.completed = self.durable.jobs.count(id, JobPhase::Completed);
        counts.failed = self.durable.jobs.count(id, JobPhase::Failed);
        counts.prioritized = live.ready.prioritized_count();
        counts.waiting = self.ready_count(id).saturating_sub(counts.prioritized);
        counts.delayed = live.held.saturating_sub(live.leased);
        counts.active = live.leased;
        counts
    }

    /// Queues that have jobs, or had some.
    pub(super) fn job_queues(&self, vhost: &Name, principal: &Principal) -> Vec<Name> {
        let queues = self.durable.jobs.queues().filter_map(|id| self.durable.queue(id));
        let own = queues.filter(|queue| queue.vhost == *vhost).map(|queue| queue.spec.name.clone());
        own.filter(|name| principal.check(Access::Read, Kind::Queue, name, vhost).is_ok()).collect()
    }

    /// Ready and delayed jobs by priority, ascending. Reads one number for each priority in use and each delayed job.
    pub(super) fn job_priorities(&self, vhost: &Name, queue: &Name) -> Vec<(i32, u64)> {
        let Some(id) = self.job_queue(vhost, queue) else { return Vec::new() };
        let (Some(live), Some(state)) = (self.live.get(&id), self.durable.queue(id)) else {
            return Vec::new();
        };
        live.ready.by_priority(state, self.ready_count(id))
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

    /// A job holds its key no more, if it does.
    pub(super) fn free_key_of(&mut self, vhost: &Name, id: &JobId) -> Answered {
        let entry = self.durable.jobs.get(vhost, id).cloned();
        let holds = |entry: &std::sync::Arc<JobEntry>| {
            let key = entry.job.terms.unique.as_ref().map(|unique| &*unique.key);
            key.is_some_and(|key| self.durable.jobs.holder(entry.home, key) == Some(id))
        };
        let Some(entry) = entry.filter(holds) else { return Ok((Lsn(0), JobReply::Count(0))) };
        let gate = self.change_entry(&entry, |job| job.terms.unique = None);
        Ok((gate, JobReply::Count(1)))
    }

    /// A job of a queue that has ended that way.
    fn ended_job(
        &self,
        vhost: &Name,
        queue: &Name,
        phase: JobPhase,
        id: &JobId,
    ) -> Option<std::sync::Arc<JobEntry>> {
        let home = self.job_queue(vhost, queue)?;
        self.durable
            .jobs
            .get(vhost, id)
            .filter(|entry| entry.home == home && entry.job.phase == phase)
            .cloned()
    }

    /// Lets one that has ended run again.
    pub(super) fn retry_job(&mut self, vhost: &Name, queue: &Name, phase: JobPhase, id: &JobId) -> Answered {
        let found = self.ended_job(vhost, queue, phase, id);
        if let Some(entry) = &found {
            self.run_again(entry);
        }
        Ok((self.newest(), JobReply::Count(u64::from(found.is_some()))))
    }

    /// Removes one that is dead.
    pub(super) fn purge_dead_job(&mut self, vhost: &Name, queue: &Name, id: &JobId) -> Answered {
        let found = self.ended_job(vhost, queue, JobPhase::Failed, id);
        if let Some(entry) = &found {
            self.remove_job(entry);
        }
        Ok((self.newest(), JobReply::Count(u64::from(found.is_some()))))
    }

    /// A job that has ended is queued again, as if for the first time.
    pub(super) fn run_again(&mut self, entry: &JobEntry) {
        self.revive(entry, 0);
    }

    /// The same, so often since anybody asked for it.
    pub(super) fn revive(&mut self, entry: &JobEntry, revivals: u32) {
        let mut job = entry.job.clone();
        (job.revivals, job.revived_ms) = (revivals, (revivals > 0).then_some(self.now.wall_ms));
        (job.attempts, job.stalls) = (0, 0);
        job.failures.clear();
        (job.started_ms, job.finished_ms, job.result) = (None, None, None);
        job.heartbeat_ms = self.now.wall_ms;
        let step = JobStep { state: ready(&job), at_ms: self.now.wall_ms, error: None, attempt: None };
        note(&mut job, step);
        self.queue_job(entry, job, self.now.wall_ms);
    }
}
