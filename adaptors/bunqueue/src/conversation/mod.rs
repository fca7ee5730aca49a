//! What a client that is logged in and the broker have going. Starts commands and turns the broker's effects into replies and
//! events. Never reads packets.

mod care;
mod consume;
mod control;
mod events;
mod limits;
mod produce;
mod query;
mod session;
mod workers;

use framegate_adaptor_api::Outbound;
use framegate_broker::{BrokerError, Effect, JobError, JobReply, JobRequest, JobState, Reply, Request};

use crate::commands::{Fields, Op, Refusal};
use crate::job::word;
use crate::pending::InProgress;
use crate::reply::{ReqId, put_data, put_done, put_error, put_ok};

/// State of a connection that is logged in.
#[derive(Default)]
pub(crate) struct Conversation {
    in_progress: InProgress<Waiting>,
    /// The client looks for a job's name in its data.
    is_legacy: bool,
    /// Holders of pulls so far.
    holders: u32,
}

/// A command that waits for the broker, and what is to be made of its reply.
#[derive(Debug)]
pub(crate) struct Waiting {
    op: Op,
    /// What else the reply or an error needs.
    with: Beside,
}

/// What else a reply needs.
#[derive(Debug)]
enum Beside {
    Nothing,
    /// The job that the command named.
    Id(Box<str>),
    /// The queue that the command named.
    Queue(Box<str>),
    /// Ids of a batch, in its order.
    Ids(Vec<Box<str>>),
    /// With an owner there are tokens.
    Owned(bool),
    /// A part of a list.
    Range(usize, usize),
    /// Ready jobs of the list are shown as held back.
    HeldBack,
    /// The data that a job gets.
    Data(Box<[u8]>),
    /// Dead jobs with this reason only.
    Reason(Box<str>),
}

/// A command that is being started.
pub(crate) struct Call<'c, 'a> {
    pub(crate) op: Op,
    pub(crate) req_id: &'c ReqId,
    pub(crate) fields: &'c Fields<'a>,
    pub(crate) out: &'c mut Outbound,
}

impl Conversation {
    /// A command that comes now can be started.
    pub(crate) fn has_room(&self) -> bool {
        self.in_progress.has_room()
    }

    /// No command is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_progress.is_empty()
    }

    /// Starts a command. It is answered at once or when the broker has said something.
    pub(crate) fn start(&mut self, op: Op, req_id: &ReqId, fields: &Fields<'_>, out: &mut Outbound) {
        let mut call = Call { op, req_id, fields, out };
        if let Err(Refusal(text)) = self.run(&mut call) {
            put_error(req_id, &text, out);
        }
    }

    fn run(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        match call.op {
            // The session has answered it.
            Op::Auth => Ok(()),
            Op::Hello => self.hello(call),
            Op::Ping => Self::ping(call),
            Op::Push | Op::PushBatch => self.push(call),
            Op::Pull | Op::PullBatch => self.pull(call),
            Op::Ack => self.ack(call),
            Op::AckBatch => self.ack_batch(call),
            Op::Fail => self.fail(call),
            Op::JobHeartbeat | Op::JobHeartbeatBatch | Op::ExtendLock | Op::ExtendLocks => self.extend(call),
            Op::Progress | Op::AddLog | Op::ClearLogs => self.note(call),
            Op::GetJob
            | Op::GetJobByCustomId
            | Op::GetState
            | Op::GetResult
            | Op::GetProgress
            | Op::GetLogs
            | Op::WaitJob => self.ask_job(call),
            Op::GetJobs
            | Op::GetJobCounts
            | Op::Count
            | Op::IsPaused
            | Op::ListQueues
            | Op::Dlq
            | Op::GetCountsPerPriority
            | Op::GetDlqStats => self.ask_queue(call),
            Op::Pause
            | Op::Resume
            | Op::Drain
            | Op::Obliterate
            | Op::Clean
            | Op::RetryDlq
            | Op::PurgeDlq
            | Op::RemoveDlqJob
            | Op::PromoteJobs
            | Op::RetryCompleted => self.control_queue(call),
            Op::Cancel
            | Op::Promote
            | Op::MoveToWait
            | Op::MoveToDelayed
            | Op::Discard
            | Op::ChangePriority
            | Op::ChangeDelay => self.change_job(call),
            Op::SubscribeEvents | Op::UnsubscribeEvents => self.watch(call),
            Op::RegisterWorker | Op::Heartbeat | Op::UnregisterWorker | Op::ListWorkers => self.worker(call),
            Op::RateLimit
            | Op::RateLimitClear
            | Op::SetConcurrency
            | Op::ClearConcurrency
            | Op::GetQueueLimits => self.limit(call),
            Op::GetStallConfig | Op::SetStallConfig | Op::GetDlqConfig | Op::SetDlqConfig => self.care(call),
            Op::Update => self.update(call),
            Op::GetDeduplicationJobId | Op::RemoveDeduplicationKey => self.key(call),
            Op::RemoveJobDeduplicationKey => self.key_of(call),
        }
    }

    /// Asks the broker; the reply answers the command.
    fn ask(&mut self, call: &mut Call<'_, '_>, with: Beside, is_wait: bool, request: JobRequest) {
        let waiting = Waiting { op: call.op, with };
        let id = self.in_progress.start(call.req_id, waiting, is_wait);
        call.out.request(id, Request::Job(Box::new(request)));
    }

    /// Something the broker says.
    pub(crate) fn effect(&mut self, effect: Effect, out: &mut Outbound) {
        match effect {
            Effect::Reply(_, Ok(Reply::Job(JobReply::Event(event)))) => events::put(&event, out),
            Effect::Reply(id, result) => {
                let Some(pending) = self.in_progress.take(id) else { return };
                let (req_id, waiting) = (pending.req_id, pending.waiting);
                match result {
                    Ok(Reply::Job(reply)) => self.complete(&req_id, &waiting, reply, out),
                    Ok(_) => put_error(&req_id, "Internal server error", out),
                    Err(error) => refuse(&req_id, &waiting, &error, out),
                }
            }
            // Nothing here is consumed, and publishes are answered by replies.
            _ => {}
        }
    }

    fn complete(&mut self, req_id: &ReqId, waiting: &Waiting, reply: JobReply, out: &mut Outbound) {
        match reply {
            JobReply::Pushed(ids) => Self::pushed(req_id, waiting, &ids, out),
            JobReply::Pulled(jobs) => self.pulled(req_id, waiting, &jobs, out),
            JobReply::Ignored(indices) => Self::settled(req_id, waiting, &indices, out),
            JobReply::Jobs(jobs) if waiting.op == Op::Update => self.rewrite(req_id, waiting, &jobs, out),
            JobReply::Jobs(jobs) => self.shown(req_id, waiting, &jobs, out),
            JobReply::Job(job) => Self::peeked(req_id, waiting, job.as_deref(), out),
            JobReply::Workers(workers) => Self::workers(req_id, waiting, &workers, out),
            JobReply::Care(care) => Self::cared(req_id, waiting, &care, out),
            JobReply::Limits(limits) => Self::limits(req_id, &limits, out),
            JobReply::Priorities(counts) => Self::by_priority(req_id, waiting, &counts, out),
            JobReply::Holder(id) => put_data(req_id, out, |map| map.text_or_nil("jobId", id.as_deref())),
            JobReply::Counts(counts) => Self::counted(req_id, waiting, &counts, out),
            JobReply::Count(count) => Self::count(req_id, waiting, count, out),
            JobReply::Removed(ids) => put_ok(req_id, out, |map| {
                map.int("count", i64::try_from(ids.len()).unwrap_or(i64::MAX));
                crate::codec::put_texts(map.name("ids"), ids.iter().map(|id| &**id));
            }),
            JobReply::Queues(names) => put_ok(req_id, out, |map| {
                crate::codec::put_texts(map.name("queues"), names.iter().map(|name| name.as_str()));
            }),
            JobReply::Waited(result) => put_ok(req_id, out, |map| {
                map.bool("completed", result.is_some());
                if let Some(result) = result.flatten() {
                    map.raw("result", &result);
                }
            }),
            JobReply::Done if waiting.op == Op::AddLog => {
                put_data(req_id, out, |map| map.bool("added", true));
            }
            JobReply::Done | JobReply::Event(_) => put_done(req_id, out),
        }
    }
}

/// Writes an error in the words of the original.
fn refuse(req_id: &ReqId, waiting: &Waiting, error: &BrokerError, out: &mut Outbound) {
    let op = waiting.op;
    let id = match (&waiting.with, error) {
        (
            _,
            BrokerError::Job(JobError::Unknown(id) | JobError::TokenRequired(id) | JobError::WrongToken(id)),
        ) => id,
        (Beside::Id(id), _) => &**id,
        _ => "",
    };
    let in_state = |state: Option<JobState>| {
        format!("Job is not active (current state: {})", state.map_or("unknown", word))
    };
    let state = match error {
        BrokerError::Job(JobError::WrongState { state, .. }) => Some(*state),
        _ => None,
    };
    let text = match (error, op) {
        (BrokerError::Job(JobError::TokenRequired(_)), _) => format!("Lock token required for job {id}"),
        (BrokerError::Job(JobError::WrongToken(_)), _) => {
            format!("Invalid or expired lock token for job {id}")
        }
        (BrokerError::Job(JobError::KeyHeld), _) => "Duplicate unique_key (extended TTL)".to_owned(),
        (BrokerError::Job(_), Op::Ack | Op::AckBatch | Op::Fail) => {
            format!("Job not found or not in processing state: {id}")
        }
        (BrokerError::Job(_), Op::Cancel) => "Job not found or cannot be cancelled".to_owned(),
        (BrokerError::Job(_), Op::Promote) => "Job not found or not delayed".to_owned(),
        (BrokerError::Job(_), Op::Update) => "Job not found or cannot be updated".to_owned(),
        (BrokerError::Job(_), Op::ChangePriority) => "Job not found or not in queue".to_owned(),
        (BrokerError::Job(_), Op::ChangeDelay) => "Job not found or cannot change delay".to_owned(),
        (BrokerError::Job(_), Op::MoveToWait) => {
            format!("Cannot move job from state '{}' to waiting", state.map_or("unknown", word))
        }
        (
            BrokerError::Job(JobError::WrongState { .. }),
            Op::Progress | Op::GetProgress | Op::MoveToDelayed,
        ) => in_state(state),
        (BrokerError::Job(_), _) => "Job not found".to_owned(),
        (error, _) => error.to_string(),
    };
    put_error(req_id, &text, out);
}
