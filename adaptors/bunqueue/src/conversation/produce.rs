//! PUSH and PUSHB.

use std::sync::Arc;

use framegate_adaptor_api::Outbound;
use framegate_broker::{JobBackoff, JobGrowth, JobId, JobRequest, JobTerms, JobUnique, Name, NewJob};

use super::{Beside, Call, Conversation, Waiting};
use crate::adaptor::job_frame;
use crate::codec::{Item, put_texts};
use crate::commands::{BackoffKind, Fields, JobInput, Op, Refusal, checked_queue};
use crate::reply::{ReqId, put_ok};

impl Conversation {
    pub(super) fn push(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let queue = checked_queue(call.fields)?;
        let mut jobs = Vec::new();
        if call.op == Op::Push {
            let job = JobInput::read(call.fields, "jobId")?;
            self.is_legacy |= job.is_legacy;
            jobs.push(new_job(&queue, &job, call.fields)?);
        } else {
            for (index, raw) in call.fields.need_list("jobs")?.enumerate() {
                let at = |Refusal(text)| Refusal::from(format!("jobs[{index}]: {text}"));
                let Item::Map(map) = raw.item() else {
                    return Err(at(Refusal::from("must be an object")));
                };
                let fields = Fields::of(map);
                let job = JobInput::read(&fields, "customId").map_err(at)?;
                self.is_legacy |= job.is_legacy;
                jobs.push(new_job(&queue, &job, &fields).map_err(at)?);
            }
        }
        self.ask(call, Beside::Nothing, false, JobRequest::Push(jobs));
        Ok(())
    }

    pub(super) fn pushed(req_id: &ReqId, waiting: &Waiting, ids: &[JobId], out: &mut Outbound) {
        put_ok(req_id, out, |map| match (waiting.op, ids.first()) {
            (Op::Push, Some(id)) => map.text("id", id),
            _ => put_texts(map.name("ids"), ids.iter().map(|id| &**id)),
        });
    }
}

/// What the broker makes of a job. What it cannot do yet is refused, never passed over.
fn new_job(queue: &Name, job: &JobInput<'_>, fields: &Fields<'_>) -> Result<NewJob, Refusal> {
    let unserved = [
        ("dependsOn", !job.depends_on.is_empty()),
        ("parentId", job.parent_id.is_some()),
        ("childrenIds", !job.children_ids.is_empty()),
        ("groupId", job.group.is_some()),
        ("repeat", job.repeat.is_some()),
    ];
    if let Some((name, _)) = unserved.into_iter().find(|(_, is_given)| *is_given) {
        return Err(format!("{name} is not supported yet").into());
    }
    let frame = job_frame(&job.name, &job.data, fields, job.is_legacy).map_err(|error| error.to_string())?;
    let growth = match job.backoff.kind {
        None => JobGrowth::Plain,
        Some(BackoffKind::Fixed) => JobGrowth::Fixed,
        Some(BackoffKind::Exponential) => JobGrowth::Exponential,
    };
    let unique = job.unique.map(|unique| JobUnique {
        key: Arc::from(unique.key),
        until_ms: None,
        ttl_ms: unique.ttl_ms.and_then(|ms| u64::try_from(ms).ok()),
        extend: unique.extend,
        replace: unique.replace,
    });
    let terms = JobTerms {
        priority: job.priority,
        newest_first: job.lifo,
        max_attempts: job.max_attempts,
        backoff: JobBackoff { delay_ms: job.backoff.delay_ms, growth },
        ttl_ms: job.ttl_ms,
        timeout_ms: job.timeout_ms,
        stall_ms: job.stall_timeout_ms.and_then(|ms| u64::try_from(ms).ok()),
        remove_on_complete: job.remove_on_complete,
        remove_on_fail: job.remove_on_fail,
        stack_lines_max: job.stack_trace_limit,
        unique,
    };
    let id = job.custom_id.map(Arc::from);
    let (queue, delay_ms, created_ms) = (queue.clone(), job.delay_ms, job.timestamp_ms);
    Ok(NewJob { queue, id, frame, delay_ms, created_ms, terms })
}
