//! Where a job's message is, and how it comes elsewhere.

use std::collections::HashMap;
use std::sync::Arc;

use framegate_frame::Frame;
use framegate_storage::{BodyRef, Lsn, Pos};

use crate::fold::Core;
use crate::fold::delayed::KEPT;
use crate::ids::{QueueId, Seq};
use crate::job::{Job, JobPhase, JobState, JobStep};
use crate::limits::{JOB_STEPS_MAX, JOBS_COMPLETED_MAX};
use crate::message::Envelope;
use crate::name::Name;
use crate::record::{Body, Record, SeqSet};
use crate::state::{JobEntry, OPEN_BLOCK};

impl Core {
    /// The vhost's hidden queue of jobs that have ended, made when it is missing.
    fn kept_queue(&mut self, vhost: &Name) -> Option<QueueId> {
        let is_own = |queue: &&crate::state::QueueState| queue.spec.name == KEPT && queue.vhost == *vhost;
        if let Some(known) = self.jobs.kept.get(vhost) {
            return Some(*known);
        }
        let known = self.durable.queues().find(is_own).map(|queue| queue.id);
        let id = match known {
            Some(known) => known,
            None => self.hidden_queue(vhost, KEPT)?,
        };
        self.jobs.kept.insert(vhost.clone(), id);
        Some(id)
    }

    /// Ends the lease of a job's message, if somebody has it.
    pub(super) fn release_job(&mut self, entry: &JobEntry) {
        let place = (entry.place.0, entry.place.1.0);
        let Some(active) = self.jobs.active.get(&place).copied() else { return };
        if self.release(active.connection, active.consumer, vec![entry.place.1]).is_some() {
            self.wake_consumer(active.connection, active.consumer);
            self.forget_empty_holder(active.connection, active.consumer);
        }
    }

    /// Takes a message that nobody has out of the order of its queue.
    fn lift(&mut self, queue: QueueId, seq: Seq) {
        let weight = self.weight(queue, seq);
        let Some(live) = self.live.get_mut(&queue) else { return };
        if live.ready.is_delayed(seq.0) {
            live.held = live.held.saturating_sub(1);
            self.jobs.lifted.insert((queue, seq.0));
        }
        live.ready.forget(seq.0, weight);
    }

    /// Puts a job's message into a queue, and takes it out where it was. Nobody may have it.
    pub(super) fn move_job(&mut self, entry: &JobEntry, job: Job, into: QueueId, deliver_at_ms: u64) -> Lsn {
        let (from, seq) = entry.place;
        let Some(state) = self.durable.queue(from) else { return Lsn(0) };
        let (Some(mut envelope), Some(slot)) = (state.envelope(seq), state.slots.get(seq.0).copied()) else {
            return Lsn(0);
        };
        let open = BodyRef { block: Pos(slot.block), offset: slot.offset, len: slot.len };
        let open = (slot.block == OPEN_BLOCK).then_some(open);
        let body = slot.body().or(open).map(Body::At);
        let frame = self.live.get(&from).and_then(|live| live.frames.get(&seq.0).cloned());
        let len = frame.as_ref().map_or(slot.len, |f| u32::try_from(f.as_bytes().len()).unwrap_or(u32::MAX));
        envelope.priority = Some(job.terms.priority).filter(|priority| *priority != 0);
        envelope.newest_first = job.terms.newest_first;
        envelope.deliver_at_ms = deliver_at_ms;
        envelope.attempts = 0;
        if job.phase != JobPhase::Queued {
            envelope.expires_at_ms = 0;
        }
        self.lift(from, seq);
        let (place, lsn) = self.put_message(into, envelope, frame.as_ref(), body, len);
        self.put_job(JobEntry { vhost: entry.vhost.clone(), home: entry.home, place: (into, place), job });
        self.remove(from, &SeqSet::one(seq));
        lsn.max(self.newest())
    }

    /// A job's message is another one from now on, at the same place. Whoever works on it keeps what it was given.
    pub(super) fn rewrite_job(&mut self, entry: &JobEntry, frame: &Frame) -> Lsn {
        let (queue, seq) = entry.place;
        let len = u32::try_from(frame.as_bytes().len()).unwrap_or(u32::MAX);
        let lsn = self.log(Record::Move { queue, seq, body: Body::Memory { len } }, Some(frame), true).0;
        if self.live.get(&queue).is_some_and(|live| live.loading) {
            self.jobs.rewritten.insert((queue, seq.0));
        }
        self.uncache(queue, seq);
        self.cache_frame(queue, seq, frame.clone());
        lsn
    }

    /// The message of a job stands in a queue from now on.
    pub(super) fn put_message(
        &mut self,
        queue: QueueId,
        envelope: Envelope,
        frame: Option<&Frame>,
        body: Option<Body>,
        len: u32,
    ) -> (Seq, Lsn) {
        let (seq, lsn, _) = self.enqueue(queue, envelope, frame, body, len);
        (seq, lsn)
    }

    /// A job is this from now on.
    pub(super) fn put_job(&mut self, entry: JobEntry) -> Lsn {
        self.log(Record::Job(Box::new(entry)), None, true).0
    }

    /// Writes a change of a job that stays where it is.
    pub(super) fn change_entry(&mut self, entry: &JobEntry, change: impl FnOnce(&mut Job)) -> Lsn {
        let mut changed = entry.clone();
        change(&mut changed.job);
        self.put_job(changed)
    }

    /// Removes a job that nobody has.
    pub(super) fn remove_job(&mut self, entry: &JobEntry) -> Lsn {
        let (queue, seq) = entry.place;
        self.lift(queue, seq);
        self.remove(queue, &SeqSet::one(seq));
        self.newest()
    }

    /// After a start: jobs whose message the log does not know any more are gone with it.
    pub(in crate::fold) fn forget_lost_jobs(&mut self) {
        let is_there = |queue, seq| self.durable.queue(queue).is_some_and(|q| q.slots.get(seq).is_some());
        for (queue, seq) in self.durable.jobs.lost(is_there) {
            self.log(Record::Ack { queue, seqs: SeqSet::one(seq) }, None, false);
        }
    }

    /// A queue is about to go: messages of its jobs that are kept elsewhere go with it.
    pub(in crate::fold) fn forget_kept_jobs(&mut self, home: QueueId) {
        if !self.durable.jobs.has(home) {
            return;
        }
        let mut kept: HashMap<QueueId, Vec<Seq>> = HashMap::new();
        for (queue, seq) in self.durable.jobs.places_of_ended(home) {
            if queue != home {
                kept.entry(queue).or_default().push(seq);
            }
        }
        for (queue, seqs) in kept {
            self.remove(queue, &SeqSet::from_unsorted(seqs));
        }
    }

    /// The volatile side of the jobs of a queue goes with it.
    pub(in crate::fold) fn forget_jobs_of(&mut self, queue: QueueId) {
        self.end_sweeps(queue);
        self.jobs.lifted.retain(|(of, _)| *of != queue);
        self.jobs.rewritten.retain(|(of, _)| *of != queue);
        self.jobs.active.retain(|(of, _), _| *of != queue);
        self.jobs.buckets.remove(&queue);
        self.jobs.dead_looks.remove(&queue);
    }

    /// A job that nobody has has ended: it is kept, or gone.
    pub(super) fn end_job(&mut self, entry: &JobEntry, job: Job, remove: bool) -> Lsn {
        let phase = job.phase;
        if remove {
            let lsn = self.remove_job(entry);
            return lsn;
        }
        let Some(kept) = self.kept_queue(&entry.vhost) else {
            // no id is left for a queue: what has ended cannot be kept
            return self.remove_job(entry);
        };
        let lsn = self.move_job(entry, job, kept, 0);
        if phase == JobPhase::Failed {
            self.one_more_dead(entry.home);
        }
        if phase == JobPhase::Completed
            && let Some(oldest) = self.durable.jobs.surplus(&entry.vhost, JOBS_COMPLETED_MAX).cloned()
            && let Some(oldest) = self.durable.jobs.get(&entry.vhost, &oldest).map(Arc::clone)
        {
            self.remove_job(&oldest);
        }
        lsn
    }

    /// A job that nobody has is queued again, ready from `run_ms` on.
    pub(super) fn queue_job(&mut self, entry: &JobEntry, mut job: Job, run_ms: u64) -> Lsn {
        let now_ms = self.now.wall_ms;
        job.phase = JobPhase::Queued;
        job.run_ms = run_ms;
        let deliver_at_ms = if run_ms > now_ms { run_ms } else { 0 };
        self.move_job(entry, job, entry.home, deliver_at_ms)
    }
}

/// The state of a job that is ready.
pub(super) fn ready(job: &Job) -> JobState {
    if job.terms.priority > 0 { JobState::Prioritized } else { JobState::Waiting }
}

/// Notes that somebody worked on it.
pub(super) fn note_attempt(job: &mut Job, began_ms: Option<u64>) {
    if let Some(at_ms) = began_ms {
        note(job, JobStep { state: JobState::Active, at_ms, error: None, attempt: None });
    }
}

/// Adds a step, and forgets the oldest above the bound.
pub(super) fn note(job: &mut Job, step: JobStep) {
    if job.steps.len() >= JOB_STEPS_MAX {
        job.steps.remove(0);
    }
    job.steps.push(step);
}
