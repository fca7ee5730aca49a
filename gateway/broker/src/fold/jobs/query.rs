//! Showing jobs: what is known of them is picked here, messages that are not in memory are read by the reader pool.

use std::sync::Arc;

use framegate_storage::Lsn;

use crate::error::BrokerError;
use crate::fold::browse::{BrowseJob, Unseen};
use crate::fold::{AnswerTo, Core};
use crate::job::{Job, JobId, JobPhase, JobState};
use crate::limits::JOB_LIST_MAX;
use crate::message::Origin;
use crate::name::Name;
use crate::request::{Browsed, JobError, JobInfo, JobList, JobReply, Reply};
use crate::state::{JobEntry, JobOrder3};

/// A job whose message is being read.
pub(crate) struct JobHead {
    entry: Arc<JobEntry>,
    state: JobState,
    active_ms: Option<u64>,
    heartbeat_ms: Option<u64>,
}

impl Core {
    /// Shows one job.
    pub(super) fn get_job(&mut self, to: AnswerTo, vhost: &Name, id: &JobId) {
        match self.durable.jobs.get(vhost, id).cloned() {
            Some(entry) => self.show_jobs(to, vec![entry]),
            None => {
                let error = BrokerError::Job(JobError::Unknown(JobId::clone(id)));
                self.answer(to, Lsn(0), Err(error));
            }
        }
    }

    /// What is known of a job but its message.
    pub(super) fn peek_job(&self, vhost: &Name, id: &JobId) -> Option<Box<(Job, JobState)>> {
        let entry = self.durable.jobs.get(vhost, id)?;
        Some(Box::new((entry.job.clone(), self.job_state(entry))))
    }

    /// Shows jobs of a queue.
    pub(super) fn list_jobs(&mut self, to: AnswerTo, vhost: &Name, list: &JobList) {
        let Some(queue) = self.job_queue(vhost, &list.queue) else {
            return self.answer(to, Lsn(0), Ok(Reply::Job(JobReply::Jobs(Vec::new()))));
        };
        let is_held = self.durable.jobs.is_paused(queue);
        let is_wanted = |entry: &&Arc<JobEntry>| match self.job_state(entry) {
            _ if list.states.is_empty() && !list.held_back => true,
            JobState::Waiting | JobState::Prioritized if is_held => list.held_back,
            state => list.states.contains(&state),
        };
        let (offset, max) = (list.offset as usize, list.max.min(JOB_LIST_MAX) as usize);
        let wants_only = |state: JobState| !list.held_back && list.states == [state];
        let page: Vec<Arc<JobEntry>> = if wants_only(JobState::Active) {
            // few among many
            let places = self.jobs.active.keys().filter(|(of, _)| *of == queue);
            let mut active: Vec<_> =
                places.filter_map(|(of, seq)| self.durable.jobs.at(*of, *seq)).cloned().collect();
            active.sort_by(|a, b| (a.job.created_ms, &a.job.id).cmp(&(b.job.created_ms, &b.job.id)));
            if list.descending {
                active.reverse();
            }
            active.into_iter().skip(offset).take(max).collect()
        } else {
            let of = |phase| -> Box<dyn Iterator<Item = &JobOrder3>> {
                let ids = self.durable.jobs.list(queue, phase, None);
                if list.descending { Box::new(ids.rev()) } else { Box::new(ids) }
            };
            let may_be_in = |phase: &JobPhase| {
                list.states.is_empty() && !list.held_back
                    || match phase {
                        JobPhase::Completed => list.states.contains(&JobState::Completed),
                        JobPhase::Failed => list.states.contains(&JobState::Failed),
                        JobPhase::Queued => {
                            let ended =
                                |state: &JobState| matches!(state, JobState::Completed | JobState::Failed);
                            list.held_back || !list.states.iter().all(ended)
                        }
                    }
            };
            let phases = [JobPhase::Queued, JobPhase::Completed, JobPhase::Failed].into_iter();
            let phases = phases.filter(may_be_in);
            let mut phases: Vec<_> = phases.map(|phase| of(phase).peekable()).collect();
            // three lists in order become one
            let merged = std::iter::from_fn(|| {
                let heads = phases.iter_mut().enumerate();
                let heads = heads.filter_map(|(at, ids)| ids.peek().map(|head| ((head.1, &head.2), at)));
                let next = if list.descending { heads.max() } else { heads.min() };
                phases[next?.1].next()
            });
            let found = merged.filter_map(|(.., id)| self.durable.jobs.get(vhost, id));
            found.filter(is_wanted).skip(offset).take(max).cloned().collect()
        };
        self.show_jobs(to, page);
    }

    fn show_jobs(&mut self, to: AnswerTo, entries: Vec<Arc<JobEntry>>) {
        let (mut heads, mut messages) = (Vec::new(), Vec::new());
        for entry in entries {
            let (queue, seq) = entry.place;
            let Some(state) = self.durable.queue(queue) else { continue };
            let (Some(slot), Some(envelope)) = (state.slots.get(seq.0), state.envelope(seq)) else {
                continue;
            };
            let frame = self.live.get(&queue).and_then(|live| live.frames.get(&seq.0).cloned());
            let Some(frame) = frame.map(Ok).or_else(|| slot.body().map(Err)) else { continue };
            let origin =
                Origin { vhost: state.vhost.clone(), name: state.spec.name.clone(), id: queue.0, seq: seq.0 };
            let shown =
                move |frame| Browsed { seq, held: false, redelivered: false, envelope, frame, origin };
            messages.push(Unseen { frame, shown: Box::new(shown) });
            let active = self.jobs.active.get(&(queue, seq.0));
            heads.push(JobHead {
                state: self.job_state(&entry),
                active_ms: active.map(|active| active.began_ms),
                heartbeat_ms: active.map(|active| active.heartbeat_ms),
                entry,
            });
        }
        if messages.iter().all(|m| m.frame.is_ok()) {
            let messages = messages.into_iter().filter_map(|m| m.frame.ok().map(m.shown)).collect();
            return self.jobs_read(to, heads, messages);
        }
        if let Err(error) = self.reader.browse(BrowseJob { to, messages, more: false, jobs: Some(heads) }) {
            self.answer(to, Lsn(0), Err(error));
        }
    }

    /// Messages of jobs have been read; those that could not be are left out, and their jobs with them.
    pub(in crate::fold) fn jobs_read(&mut self, to: AnswerTo, heads: Vec<JobHead>, messages: Vec<Browsed>) {
        let mut messages = messages.into_iter().peekable();
        let mut jobs = Vec::with_capacity(heads.len());
        for head in heads {
            let place = (head.entry.place.0.0, head.entry.place.1.0);
            let Some(message) = messages.next_if(|m| (m.origin.id, m.origin.seq) == place) else { continue };
            let job = head.entry.job.clone();
            let (state, active_ms, heartbeat_ms) = (head.state, head.active_ms, head.heartbeat_ms);
            let care = self.durable.jobs.care(head.entry.home);
            jobs.push(JobInfo {
                job,
                state,
                active_ms,
                heartbeat_ms,
                token: None,
                care,
                frame: message.frame,
            });
        }
        self.answer(to, Lsn(0), Ok(Reply::Job(JobReply::Jobs(jobs))));
    }
}
