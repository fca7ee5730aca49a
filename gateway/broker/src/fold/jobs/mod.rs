//! Jobs: what becomes of each request, and of each message that is a job. A job is a message of an ordinary queue and an entry
//! beside it; whatever changes its place takes its message out and puts it in again, with the same body. Jobs that have ended are
//! kept in a hidden queue of their vhost.

mod care;
mod change;
mod finish;
mod lists;
mod place;
mod pull;
mod push;
mod query;
mod rules;
mod sweep;
mod watch;
mod workers;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use framegate_storage::Lsn;

pub(super) use query::JobHead;
pub(super) use sweep::Sweep;

use super::{AnswerTo, Core};
use crate::error::{Access, BrokerError, Kind};
use crate::ids::{ConnectionId, ConsumerId, QueueId, Token};
use crate::job::{JobId, JobPhase, JobState};
use crate::name::Name;
use crate::principal::Principal;
use crate::request::{JobError, JobPull, JobReply, JobRequest, JobWorker, Reply};
use crate::state::JobEntry;

/// Attempts that ended without their worker and are remembered, so that it can be told.
const ENDED_MAX: usize = 10_000;

/// The volatile side of jobs. Empty after a start.
#[derive(Default)]
pub(super) struct JobsLive {
    /// Who works on what, by the place of its message.
    pub(super) active: HashMap<(QueueId, u64), Active>,
    /// Pulls of jobs among those that wait.
    pub(super) pulls: HashMap<u64, JobPull>,
    /// Delayed messages that were taken out before their time: their timers have nothing to say.
    pub(super) lifted: HashSet<(QueueId, u64)>,
    /// Messages that are others since a read of their queue's bodies began: what it brings of them is old.
    pub(super) rewritten: HashSet<(QueueId, u64)>,
    /// When attempts began whose lock has just run out.
    pub(super) expired: HashMap<(QueueId, u64), u64>,
    /// Monotonic time in ms at which dead jobs of a queue are looked at, and behind which one.
    dead_looks: BTreeMap<QueueId, (u64, Option<crate::state::JobOrder3>)>,
    /// What may be handed out still, of queues with a rate.
    buckets: HashMap<QueueId, rules::Bucket>,
    /// Workers by vhost and id, with the connection that they came over.
    workers: BTreeMap<(Name, std::sync::Arc<str>), (ConnectionId, JobWorker)>,
    /// Which queue a connection watches.
    pub(super) watchers: BTreeMap<ConnectionId, (Name, Name, AnswerTo)>,
    /// Who waits for a job's end, by job.
    waits: HashMap<(Name, JobId), Vec<u64>>,
    /// The same by number.
    waiting: HashMap<u64, (AnswerTo, Name, JobId)>,
    next_wait: u64,
    /// Hidden queues of jobs that have ended, by vhost.
    kept: HashMap<Name, QueueId>,
    /// Tokens of attempts that ended without their worker, oldest first.
    ended: VecDeque<Token>,
    ended_tokens: HashSet<Token>,
}

/// An attempt that is going on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Active {
    connection: ConnectionId,
    consumer: ConsumerId,
    token: Option<Token>,
    lock_ms: Option<u64>,
    /// When it began, ms since 1970.
    began_ms: u64,
    heartbeat_ms: u64,
    /// It has no lock, and counts as stalled when its worker is silent.
    may_stall: bool,
    /// Its lock was renewed, or it is to stay: the end of the connection does not end it.
    stays: bool,
}

/// A token. Those of jobs read as UUIDs of version 7.
pub(super) fn new_token(of_job: bool) -> u128 {
    if of_job { uuid::Uuid::now_v7().as_u128() } else { uuid::Uuid::new_v4().as_u128() }
}

/// What a request comes to: an answer and the position from which it is safe.
type Answered = Result<(Lsn, JobReply), BrokerError>;

impl Core {
    /// A request in its turn.
    pub(super) fn job(
        &mut self,
        to: AnswerTo,
        connection: ConnectionId,
        vhost: &Name,
        request: JobRequest,
        principal: &Principal,
    ) {
        if let Err(error) = self.check_job(vhost, &request, principal) {
            return self.answer(to, Lsn(0), Err(error));
        }
        let answered = match request {
            JobRequest::Pull(pull) => return self.pull_jobs(to, connection, vhost, pull),
            JobRequest::Get(id) => return self.get_job(to, vhost, &id),
            JobRequest::List(list) => return self.list_jobs(to, vhost, &list),
            JobRequest::Wait(id, ms) => return self.wait_job(to, vhost, id, ms),
            JobRequest::Push(jobs) => self.push_jobs(connection, vhost, jobs),
            JobRequest::Ack(acks) => self.ack_jobs(vhost, acks),
            JobRequest::Fail(fail) => self.fail_job(vhost, fail),
            JobRequest::Extend(extends) => Ok((Lsn(0), JobReply::Count(self.extend_jobs(vhost, &extends)))),
            JobRequest::Progress { id, progress, message } => {
                self.job_progress(vhost, &id, progress, message)
            }
            JobRequest::Log { id, level, text } => self.job_log(vhost, &id, level, text),
            JobRequest::ClearLog { id, keep } => self.clear_job_log(vhost, &id, keep),
            JobRequest::Peek(id) => Ok((Lsn(0), JobReply::Job(self.peek_job(vhost, &id)))),
            JobRequest::Counts(queue) => Ok((Lsn(0), JobReply::Counts(self.count_jobs(vhost, &queue)))),
            JobRequest::Queues => Ok((Lsn(0), JobReply::Queues(self.job_queues(vhost, principal)))),
            JobRequest::Pause(queue, paused) => self.pause_jobs(connection, vhost, queue, paused),
            JobRequest::SetRate(queue, rate) => self.rule_jobs(connection, vhost, &queue, |r| r.rate = rate),
            JobRequest::SetConcurrency(queue, max) => {
                self.rule_jobs(connection, vhost, &queue, |r| r.concurrency = max)
            }
            JobRequest::SetCare(queue, change) => self.care_for_jobs(connection, vhost, &queue, &change),
            JobRequest::Care(queue) => Ok((Lsn(0), JobReply::Care(self.job_care(vhost, &queue)))),
            JobRequest::Limits(queue) => Ok((Lsn(0), JobReply::Limits(self.job_limits(vhost, &queue)))),
            JobRequest::Change(id, token, change) => self.change_job(vhost, &id, token, change),
            JobRequest::RetryDead { queue, id: Some(id), .. } => {
                self.retry_job(vhost, &queue, JobPhase::Failed, &id)
            }
            JobRequest::RetryCompleted { queue, id: Some(id), .. } => {
                self.retry_job(vhost, &queue, JobPhase::Completed, &id)
            }
            JobRequest::PurgeDead { queue, id: Some(id) } => self.purge_dead_job(vhost, &queue, &id),
            request @ (JobRequest::Drain(_)
            | JobRequest::Obliterate(_)
            | JobRequest::Clean { .. }
            | JobRequest::RetryDead { .. }
            | JobRequest::RetryCompleted { .. }
            | JobRequest::PurgeDead { .. }
            | JobRequest::PromoteAll(..)) => return self.sweep_jobs(to, vhost, request),
            JobRequest::Priorities(queue) => {
                Ok((Lsn(0), JobReply::Priorities(self.job_priorities(vhost, &queue))))
            }
            JobRequest::KeyHolder(queue, key) => {
                let queue = self.job_queue(vhost, &queue);
                Ok((
                    Lsn(0),
                    JobReply::Holder(queue.and_then(|queue| self.durable.jobs.holder(queue, &key).cloned())),
                ))
            }
            JobRequest::FreeKeyOf(id) => self.free_key_of(vhost, &id),
            JobRequest::FreeKey(queue, key) => self.free_key(vhost, &queue, &key),
            JobRequest::Register(worker) => self.register_worker(connection, vhost, worker),
            JobRequest::Beat(id, counts) => self.worker_beat(vhost, &id, counts),
            JobRequest::Unregister(id) => self.unregister_worker(vhost, &id),
            JobRequest::Workers => self.list_workers(vhost),
            JobRequest::Watch(queue) => {
                match queue {
                    Some(queue) => self.jobs.watchers.insert(connection, (vhost.clone(), queue, to)),
                    None => self.jobs.watchers.remove(&connection),
                };
                Ok((Lsn(0), JobReply::Done))
            }
        };
        match answered {
            Ok((gate, reply)) => {
                // what is promised is written at once, though it may only take something out
                self.sync |= gate >= self.first && self.encoder.count() > 0;
                self.answer(to, gate, Ok(Reply::Job(reply)));
            }
            Err(error) => self.answer(to, Lsn(0), Err(error)),
        }
    }

    /// The principal may do that with the queue that the request, or its job, is of.
    fn check_job(
        &self,
        vhost: &Name,
        request: &JobRequest,
        principal: &Principal,
    ) -> Result<(), BrokerError> {
        let may = |access, queue: &Name| principal.check(access, Kind::Queue, queue, vhost);
        let may_job = |access, id: &JobId| match self.durable.jobs.get(vhost, id) {
            Some(entry) => may(access, &entry.job.queue),
            None => Ok(()),
        };
        match request {
            JobRequest::Push(jobs) => jobs.iter().try_for_each(|job| may(Access::Write, &job.queue)),
            JobRequest::Pull(pull) => may(Access::Read, &pull.queue),
            JobRequest::Ack(acks) => acks.iter().try_for_each(|ack| may_job(Access::Read, &ack.id)),
            JobRequest::Fail(fail) => may_job(Access::Read, &fail.id),
            JobRequest::Extend(extends) => extends.iter().try_for_each(|e| may_job(Access::Read, &e.id)),
            JobRequest::Progress { id, .. }
            | JobRequest::Log { id, .. }
            | JobRequest::Get(id)
            | JobRequest::Peek(id)
            | JobRequest::Wait(id, _) => may_job(Access::Read, id),
            JobRequest::Counts(queue)
            | JobRequest::Priorities(queue)
            | JobRequest::KeyHolder(queue, _)
            | JobRequest::Limits(queue)
            | JobRequest::Care(queue)
            | JobRequest::Watch(Some(queue)) => may(Access::Read, queue),
            JobRequest::List(list) => may(Access::Read, &list.queue),
            JobRequest::Queues
            | JobRequest::Watch(None)
            | JobRequest::Register(_)
            | JobRequest::Beat(..)
            | JobRequest::Unregister(_)
            | JobRequest::Workers => Ok(()),
            JobRequest::Pause(queue, _)
            | JobRequest::Drain(queue)
            | JobRequest::Obliterate(queue)
            | JobRequest::Clean { queue, .. }
            | JobRequest::PromoteAll(queue, _)
            | JobRequest::FreeKey(queue, _)
            | JobRequest::SetRate(queue, _)
            | JobRequest::SetConcurrency(queue, _)
            | JobRequest::SetCare(queue, _)
            | JobRequest::RetryDead { queue, .. }
            | JobRequest::RetryCompleted { queue, .. }
            | JobRequest::PurgeDead { queue, .. } => may(Access::Configure, queue),
            JobRequest::ClearLog { id, .. } | JobRequest::Change(id, ..) | JobRequest::FreeKeyOf(id) => {
                may_job(Access::Write, id)
            }
        }
    }

    /// A job by id.
    fn find_job(&self, vhost: &Name, id: &JobId) -> Result<std::sync::Arc<JobEntry>, BrokerError> {
        let entry = self.durable.jobs.get(vhost, id).cloned();
        entry.ok_or_else(|| BrokerError::Job(JobError::Unknown(JobId::clone(id))))
    }

    /// A queue by name.
    fn job_queue(&self, vhost: &Name, queue: &Name) -> Option<QueueId> {
        self.editor.current().queue(vhost, queue)
    }

    /// A job's state as clients see it.
    fn job_state(&self, entry: &JobEntry) -> JobState {
        let place = (entry.place.0, entry.place.1.0);
        match entry.job.phase {
            JobPhase::Completed => JobState::Completed,
            JobPhase::Failed => JobState::Failed,
            JobPhase::Queued if self.jobs.active.contains_key(&place) => JobState::Active,
            JobPhase::Queued
                if self.live.get(&place.0).is_some_and(|live| live.ready.is_delayed(place.1)) =>
            {
                JobState::Delayed
            }
            JobPhase::Queued if entry.job.terms.priority > 0 => JobState::Prioritized,
            JobPhase::Queued => JobState::Waiting,
        }
    }

    /// An attempt ended without its worker.
    fn note_ended(&mut self, token: Token) {
        if self.jobs.ended_tokens.insert(token) {
            self.jobs.ended.push_back(token);
        }
        if self.jobs.ended.len() > ENDED_MAX
            && let Some(oldest) = self.jobs.ended.pop_front()
        {
            self.jobs.ended_tokens.remove(&oldest);
        }
    }

    fn has_ended(&self, token: Option<Token>) -> bool {
        token.is_some_and(|token| self.jobs.ended_tokens.contains(&token))
    }
}
