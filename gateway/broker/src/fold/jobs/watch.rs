//! Who hears of jobs: connections that watch a queue, and those that wait for one job's end.

use bytes::Bytes;
use framegate_frame::Frame;
use framegate_storage::Lsn;

use crate::error::BrokerError;
use crate::fold::timers::Timer;
use crate::fold::{AnswerTo, Core};
use crate::job::{JobId, JobPhase};
use crate::name::Name;
use crate::request::{JobError, JobEvent, JobEventKind, JobReply, Reply};
use crate::state::JobEntry;

impl Core {
    /// Tells those that watch the queue, before the answer to what caused it.
    pub(super) fn tell_job(
        &mut self,
        vhost: &Name,
        queue: &Name,
        id: Option<&JobId>,
        kind: JobEventKind,
        frame: Option<Frame>,
    ) {
        if self.jobs.watchers.is_empty() {
            return;
        }
        let is_of = |of: &&(Name, Name, AnswerTo)| of.0 == *vhost && of.1 == *queue;
        let watchers: Vec<AnswerTo> = self.jobs.watchers.values().filter(is_of).map(|(.., to)| *to).collect();
        // nobody hears of something that a crash may undo
        let gate = self.newest();
        for watcher in watchers {
            let event = JobEvent {
                kind: kind.clone(),
                queue: queue.clone(),
                id: id.cloned(),
                at_ms: self.now.wall_ms,
                frame: frame.clone(),
            };
            self.answer(watcher, gate, Ok(Reply::Job(JobReply::Event(Box::new(event)))));
        }
    }

    /// A job's message, when somebody watches its queue and it is in memory.
    pub(super) fn watched_frame(&self, entry: &JobEntry) -> Option<Frame> {
        if self.jobs.watchers.is_empty() {
            return None;
        }
        self.live.get(&entry.place.0)?.frames.get(&entry.place.1.0).cloned()
    }

    /// Answers when a job is completed, or after so many ms.
    pub(super) fn wait_job(&mut self, to: AnswerTo, vhost: &Name, id: JobId, ms: u64) {
        let Some(entry) = self.durable.jobs.get(vhost, &id) else {
            return self.answer(to, Lsn(0), Err(BrokerError::Job(JobError::Unknown(id))));
        };
        if entry.job.phase == JobPhase::Completed {
            let result = entry.job.result.clone();
            return self.answer(to, Lsn(0), Ok(Reply::Job(JobReply::Waited(Some(result)))));
        }
        if self.jobs.waiting.len() >= self.shared.limits.waiters_max {
            let max = self.shared.limits.waiters_max as u64;
            return self.answer(to, Lsn(0), Err(BrokerError::Limit { what: "waits for jobs", max }));
        }
        self.jobs.next_wait += 1;
        let number = self.jobs.next_wait;
        self.jobs.waits.entry((vhost.clone(), JobId::clone(&id))).or_default().push(number);
        self.jobs.waiting.insert(number, (to, vhost.clone(), id));
        self.timers.add(self.now.mono_ms.saturating_add(ms), Timer::JobWait(number));
    }

    /// A job was completed.
    pub(super) fn job_completed(&mut self, vhost: &Name, id: &JobId, result: Option<Bytes>) {
        let Some(numbers) = self.jobs.waits.remove(&(vhost.clone(), JobId::clone(id))) else { return };
        let gate = self.newest();
        for number in numbers {
            if let Some((to, ..)) = self.jobs.waiting.remove(&number) {
                self.answer(to, gate, Ok(Reply::Job(JobReply::Waited(Some(result.clone())))));
            }
        }
    }

    /// Somebody has waited long enough.
    pub(in crate::fold) fn job_wait_over(&mut self, number: u64) {
        let Some((to, vhost, id)) = self.jobs.waiting.remove(&number) else { return };
        let key = (vhost, id);
        if let Some(numbers) = self.jobs.waits.get_mut(&key) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.jobs.waits.remove(&key);
            }
        }
        self.answer(to, Lsn(0), Ok(Reply::Job(JobReply::Waited(None))));
    }
}
