//! Commands that change a queue or one job.

use framegate_adaptor_api::Outbound;
use framegate_broker::{JobChange, JobInfo, JobRequest, Name, Request};

use super::consume::{given_token, id};
use super::{Beside, Call, Conversation, Waiting};
use crate::adaptor::{LEGACY, fields_of, job_frame, name_of, private_of};
use crate::commands::{Op, Range, Refusal, any_queue, checked_data};
use crate::job::state;
use crate::limits::{PRIORITY_MAX, YEAR_MS};
use crate::reply::{ReqId, put_error};

impl Conversation {
    pub(super) fn control_queue(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let fields = call.fields;
        let shown = fields.need_text("queue")?;
        let Some(queue) = any_queue(fields)? else {
            return Err(format!("queue '{shown}' cannot exist").into());
        };
        let number = |name: &str| fields.lenient(name).map(|n| u32::try_from(n.max(0)).unwrap_or(u32::MAX));
        let job = |name: &str| fields.text(name).map(id);
        let request = match call.op {
            Op::Pause => JobRequest::Pause(queue, true),
            Op::Resume => JobRequest::Pause(queue, false),
            Op::Drain => JobRequest::Drain(queue),
            Op::Obliterate => JobRequest::Obliterate(queue),
            Op::Clean => JobRequest::Clean {
                grace_ms: fields.lenient("grace").map_or(0, |ms| u64::try_from(ms).unwrap_or(0)),
                state: fields.text("state").and_then(state),
                max: number("limit").unwrap_or(1000),
                queue,
            },
            Op::RetryDlq => {
                JobRequest::RetryDead { queue, id: job("jobId"), max: number("count").unwrap_or(u32::MAX) }
            }
            Op::RetryCompleted => {
                JobRequest::RetryCompleted { queue, id: job("id"), max: number("count").unwrap_or(u32::MAX) }
            }
            Op::PromoteJobs => JobRequest::PromoteAll(queue, number("count").unwrap_or(u32::MAX)),
            Op::RemoveDlqJob => JobRequest::PurgeDead { queue, id: Some(id(fields.need_text("jobId")?)) },
            _ => JobRequest::PurgeDead { queue, id: None },
        };
        self.ask(call, Beside::Queue(shown.into()), false, request);
        Ok(())
    }

    pub(super) fn change_job(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let fields = call.fields;
        let own = fields.need_text("id")?;
        let delay =
            || Ok::<_, Refusal>(fields.number("delay", Range::upto(YEAR_MS))?.unwrap_or(0).unsigned_abs());
        let change = match call.op {
            Op::Cancel => JobChange::Cancel,
            Op::Promote => JobChange::Promote,
            Op::MoveToWait => JobChange::Requeue,
            Op::Discard => JobChange::Discard,
            Op::ChangePriority => {
                let priority = fields.number("priority", Range::whole(-PRIORITY_MAX, PRIORITY_MAX))?;
                let priority = priority.ok_or("priority is required")?;
                JobChange::Priority {
                    priority: i32::try_from(priority).unwrap_or(0),
                    newest_first: fields.raw("lifo").map(|_| fields.is_truthy("lifo")),
                }
            }
            _ => JobChange::Delay(delay()?),
        };
        self.ask(call, Beside::Id(own.into()), false, JobRequest::Change(id(own), given_token(call), change));
        Ok(())
    }

    pub(super) fn watch(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let queue: Option<Name> = match call.op {
            Op::SubscribeEvents => Some(crate::commands::checked_queue(call.fields)?),
            _ => None,
        };
        self.ask(call, Beside::Nothing, false, JobRequest::Watch(queue));
        Ok(())
    }

    /// Keys of a queue.
    pub(super) fn key(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let fields = call.fields;
        let shown = fields.need_text("queue")?;
        let key = std::sync::Arc::from(fields.need_text("deduplicationId")?);
        let Some(queue) = any_queue(fields)? else {
            return Err(format!("queue '{shown}' cannot exist").into());
        };
        let request = match call.op {
            Op::RemoveDeduplicationKey => JobRequest::FreeKey(queue, key),
            _ => JobRequest::KeyHolder(queue, key),
        };
        self.ask(call, Beside::Nothing, false, request);
        Ok(())
    }

    /// The key of a job.
    pub(super) fn key_of(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let own = id(call.fields.need_text("id")?);
        self.ask(call, Beside::Nothing, false, JobRequest::FreeKeyOf(own));
        Ok(())
    }

    /// Other data for a job: its message is read first, since everything else of it stays.
    pub(super) fn update(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let own = call.fields.need_text("id")?;
        let data = checked_data(call.fields)?;
        self.ask(call, Beside::Data(data.into()), false, JobRequest::Get(id(own)));
        Ok(())
    }

    /// The message of a job that gets other data was read.
    pub(super) fn rewrite(
        &mut self,
        req_id: &ReqId,
        waiting: &Waiting,
        jobs: &[JobInfo],
        out: &mut Outbound,
    ) {
        let (Some(job), Beside::Data(data)) = (jobs.first(), &waiting.with) else {
            return put_error(req_id, "Job not found or cannot be updated", out);
        };
        let private = private_of(&job.frame);
        let given = fields_of(&private);
        match job_frame(name_of(&job.frame), data, &given, given.is_truthy(LEGACY)) {
            Ok(frame) => {
                let own = std::sync::Arc::clone(&job.job.id);
                let waiting = Waiting { op: Op::Update, with: Beside::Id((&*own).into()) };
                let request = JobRequest::Change(own, None, JobChange::Message(frame));
                let number = self.in_progress.start(req_id, waiting, false);
                out.request(number, Request::Job(Box::new(request)));
            }
            Err(error) => put_error(req_id, &error.to_string(), out),
        }
    }
}
