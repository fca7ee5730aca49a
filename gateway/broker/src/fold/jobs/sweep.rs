//! What is done with many jobs of a queue: a slice of them in each pass, in the order in which they are listed. The answer comes
//! with the last one. Jobs that come in meanwhile are left alone.

use std::sync::Arc;

use framegate_storage::Lsn;

use crate::fold::work::Work;
use crate::fold::{AnswerTo, Core};
use crate::ids::{QueueId, Seq};
use crate::job::{JobId, JobPhase, JobState};
use crate::limits::SLICE_MESSAGES_MAX;
use crate::name::Name;
use crate::record::{Record, SeqSet};
use crate::request::{JobReply, JobRequest, Reply};
use crate::state::{JobEntry, JobOrder3};

/// What becomes of each job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// Gone, unless somebody works on it.
    Remove,
    /// Gone, whoever has it.
    Obliterate,
    /// Ready at once, if it is delayed.
    Promote,
    /// Queued again.
    RunAgain,
}

/// Something that goes on with a queue's jobs.
#[derive(Debug)]
pub(in crate::fold) struct Sweep {
    to: AnswerTo,
    vhost: Name,
    queue: QueueId,
    act: Act,
    phase: JobPhase,
    /// By the time of their end, not by creation.
    by_end: bool,
    /// Only those that are that old, by the end of those that have ended.
    before_ms: Option<u64>,
    /// At most so many.
    max: u64,
    /// The answer names them.
    names: bool,
    after: Option<JobOrder3>,
    /// Queued jobs from this number on came in later.
    below: u64,
    count: u64,
    ids: Vec<JobId>,
}

impl Core {
    /// Begins one, and ends it if a slice is enough.
    pub(super) fn sweep_jobs(&mut self, to: AnswerTo, vhost: &Name, request: JobRequest) {
        let mut sweep = Sweep {
            to,
            vhost: vhost.clone(),
            queue: QueueId(0),
            act: Act::Remove,
            phase: JobPhase::Queued,
            by_end: false,
            before_ms: None,
            max: u64::MAX,
            names: false,
            after: None,
            below: 0,
            count: 0,
            ids: Vec::new(),
        };
        let queue = match request {
            JobRequest::Obliterate(queue) => {
                sweep.act = Act::Obliterate;
                queue
            }
            JobRequest::PromoteAll(queue, max) => {
                (sweep.act, sweep.max) = (Act::Promote, max.into());
                queue
            }
            JobRequest::Clean { queue, grace_ms, state, max } => {
                sweep.phase = match state {
                    Some(JobState::Completed) => JobPhase::Completed,
                    Some(JobState::Failed) => JobPhase::Failed,
                    _ => JobPhase::Queued,
                };
                sweep.by_end = sweep.phase != JobPhase::Queued;
                sweep.before_ms = Some(self.now.wall_ms.saturating_sub(grace_ms));
                // active ones stay
                sweep.max = if state == Some(JobState::Active) { 0 } else { max.into() };
                sweep.names = true;
                queue
            }
            JobRequest::RetryDead { queue, max, .. } => {
                (sweep.act, sweep.phase, sweep.max) = (Act::RunAgain, JobPhase::Failed, max.into());
                sweep.by_end = true;
                queue
            }
            JobRequest::RetryCompleted { queue, max, .. } => {
                (sweep.act, sweep.phase, sweep.max) = (Act::RunAgain, JobPhase::Completed, max.into());
                sweep.by_end = true;
                queue
            }
            JobRequest::PurgeDead { queue, .. } => {
                (sweep.phase, sweep.by_end) = (JobPhase::Failed, true);
                queue
            }
            JobRequest::Drain(queue) => queue,
            _ => return,
        };
        let Some(id) = self.job_queue(vhost, &queue) else { return self.end_sweep(sweep, Lsn(0)) };
        sweep.queue = id;
        sweep.below = self.durable.queue(id).map_or(0, |state| state.slots.next());
        if sweep.act == Act::Obliterate && self.durable.jobs.is_paused(id) {
            self.log(Record::PauseJobs { queue: id, paused: false }, None, true);
        }
        let care = crate::job::JobCare::default();
        if sweep.act == Act::Obliterate && self.durable.jobs.care(id) != care {
            self.log(Record::JobCare { queue: id, care }, None, true);
        }
        self.sweep_on(sweep);
    }

    /// A queue is gone: what goes on with its jobs ends with what it came to.
    pub(super) fn end_sweeps(&mut self, of: QueueId) {
        for _ in 0..self.work.len() {
            match self.work.pop_front() {
                Some(Work::Jobs(sweep)) if sweep.queue == of => {
                    let gate = self.newest();
                    self.end_sweep(*sweep, gate);
                }
                work => self.work.extend(work),
            }
        }
    }

    /// The next slice.
    pub(in crate::fold) fn sweep_on(&mut self, mut sweep: Sweep) {
        let mut keys = Vec::new();
        let mut looked = 0;
        {
            let jobs = &self.durable.jobs;
            let slice: Vec<&JobOrder3> = if sweep.by_end {
                jobs.ended(sweep.queue, sweep.phase, sweep.after.as_ref()).take(SLICE_MESSAGES_MAX).collect()
            } else {
                jobs.list(sweep.queue, sweep.phase, sweep.after.as_ref()).take(SLICE_MESSAGES_MAX).collect()
            };
            for key in slice {
                looked += 1;
                keys.push(key.clone());
            }
        }
        let mut is_done = looked < SLICE_MESSAGES_MAX;
        for key in keys {
            if sweep.count >= sweep.max {
                is_done = true;
                break;
            }
            let is_late = sweep.by_end && sweep.before_ms.is_some_and(|before| key.1 > before);
            if is_late {
                is_done = true;
                break;
            }
            if let Some(entry) = self.durable.jobs.get(&sweep.vhost, &key.2).map(Arc::clone) {
                self.sweep_one(&mut sweep, &entry);
            }
            sweep.after = Some(key);
        }
        if is_done && sweep.act == Act::Obliterate && sweep.phase != JobPhase::Failed {
            sweep.phase =
                if sweep.phase == JobPhase::Queued { JobPhase::Completed } else { JobPhase::Failed };
            is_done = false;
        }
        let empties = match sweep.act {
            Act::Remove => sweep.phase == JobPhase::Queued && sweep.before_ms.is_none(),
            act => act == Act::Obliterate,
        };
        if is_done && empties {
            sweep.count += self.drain_messages(sweep.queue, sweep.below);
        }
        if is_done {
            let gate = self.newest();
            self.end_sweep(sweep, gate);
        } else {
            self.work.push_back(Work::Jobs(Box::new(sweep)));
        }
    }

    fn sweep_one(&mut self, sweep: &mut Sweep, entry: &JobEntry) {
        let is_new = entry.place.0 == sweep.queue && entry.place.1.0 >= sweep.below;
        let state = self.job_state(entry);
        let is_young = !sweep.by_end && sweep.before_ms.is_some_and(|before| entry.job.created_ms > before);
        match sweep.act {
            _ if is_new || is_young => return,
            Act::Obliterate => {
                self.release_job(entry);
                self.remove_job(entry);
            }
            Act::Remove if state != JobState::Active => {
                self.remove_job(entry);
            }
            Act::Promote if state == JobState::Delayed => {
                self.queue_job(entry, entry.job.clone(), self.now.wall_ms);
            }
            Act::RunAgain => self.run_again(entry),
            Act::Remove | Act::Promote => return,
        }
        sweep.count += 1;
        if sweep.names {
            sweep.ids.push(JobId::clone(&entry.job.id));
        }
    }

    /// Removes what is ready and no job. The jobs have gone before.
    fn drain_messages(&mut self, queue: QueueId, below: u64) -> u64 {
        let (Some(state), Some(live)) = (self.durable.queue(queue), self.live.get(&queue)) else { return 0 };
        let is_job = |seq: Seq| self.durable.jobs.at(queue, seq.0).is_some();
        let is_there = |seq: Seq| state.slots.get(seq.0).is_some();
        let ready = live.ready.all(state);
        let seqs: Vec<Seq> = ready.iter().filter(|s| s.0 < below && is_there(*s) && !is_job(*s)).collect();
        for seq in &seqs {
            let weight = self.weight(queue, *seq);
            if let Some(live) = self.live.get_mut(&queue) {
                live.ready.forget(seq.0, weight);
            }
        }
        let seqs = SeqSet::from_unsorted(seqs);
        self.remove(queue, &seqs);
        seqs.len()
    }

    fn end_sweep(&mut self, sweep: Sweep, gate: Lsn) {
        let reply = match sweep.act {
            Act::Obliterate => JobReply::Done,
            _ if sweep.names => JobReply::Removed(sweep.ids),
            _ => JobReply::Count(sweep.count),
        };
        self.sync |= gate >= self.first && self.encoder.count() > 0;
        self.answer(sweep.to, gate, Ok(Reply::Job(reply)));
    }
}
