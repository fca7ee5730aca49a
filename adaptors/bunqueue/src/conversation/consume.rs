//! What workers send: pulls, outcomes, heartbeats, progress and logs.

use std::sync::Arc;

use bytes::Bytes;
use framegate_adaptor_api::Outbound;
use framegate_broker::{ConsumerId, JobAck, JobExtend, JobFail, JobId, JobInfo, JobPull, JobRequest, Token};
use uuid::Uuid;

use super::{Beside, Call, Conversation, Waiting};
use crate::codec::{put_int, put_list_head, put_nil, put_text, put_texts};
use crate::commands::{Done, Failed, Held, Op, Pull, Refusal, ack, ack_all, held_all, lock_ms, progress};
use crate::job::{With, put_job};
use crate::limits::{PAYLOAD_BYTES_MAX, REPLY_RESERVE_BYTES};
use crate::reply::{ReqId, put_data, put_done, put_error, put_ok};

/// Workers of the Python client name themselves so, and look for a job's name in its data.
const LEGACY_OWNER: &str = "py-";

/// A token as the broker knows it; text that is none is one that is never right.
fn token(text: Option<&str>) -> Option<Token> {
    text.map(|text| Token(Uuid::parse_str(text).map_or(0, |uuid| uuid.as_u128())))
}

fn token_text(token: Token) -> String {
    Uuid::from_u128(token.0).to_string()
}

pub(super) fn id(text: &str) -> JobId {
    Arc::from(text)
}

impl Conversation {
    pub(super) fn pull(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let pull = Pull::read(call.fields, call.op == Op::PullBatch)?;
        let owner = pull.owner;
        self.is_legacy |= owner.is_some_and(|owner| owner.starts_with(LEGACY_OWNER));
        self.holders = self.holders.wrapping_add(1);
        let request = JobPull {
            consumer: ConsumerId(self.holders),
            queue: pull.queue,
            max: pull.count,
            wait_ms: pull.wait_ms,
            lock_ms: owner.map(|_| pull.lock_ms),
            detach: pull.detach,
        };
        let is_wait = pull.wait_ms > 0;
        self.ask(call, Beside::Owned(owner.is_some()), is_wait, JobRequest::Pull(request));
        Ok(())
    }

    pub(super) fn pulled(&self, req_id: &ReqId, waiting: &Waiting, jobs: &[JobInfo], out: &mut Outbound) {
        let owned = matches!(waiting.with, Beside::Owned(true));
        let text = |job: &JobInfo| job.token.map(token_text);
        if waiting.op == Op::Pull {
            return put_ok(req_id, out, |map| {
                match jobs.first() {
                    Some(job) => put_job(map.name("job"), job, With::Nothing, self.is_legacy),
                    None => map.nil("job"),
                }
                if owned {
                    map.text_or_nil("token", jobs.first().and_then(text).as_deref());
                }
            });
        }
        put_ok(req_id, out, |map| {
            let buffer = map.name("jobs");
            put_list_head(buffer, jobs.len());
            jobs.iter().for_each(|job| put_job(buffer, job, With::Nothing, self.is_legacy));
            if owned {
                let buffer = map.name("tokens");
                put_list_head(buffer, jobs.len());
                for job in jobs {
                    match text(job) {
                        Some(token) => put_text(buffer, &token),
                        None => put_nil(buffer),
                    }
                }
            }
        });
    }

    pub(super) fn ack(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let done = ack(call.fields)?;
        let with = Beside::Ids(vec![done.job.id.into()]);
        self.ask(call, with, false, JobRequest::Ack(vec![job_ack(&done)]));
        Ok(())
    }

    pub(super) fn ack_batch(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let done = ack_all(call.fields)?;
        let with = Beside::Ids(done.iter().map(|done| done.job.id.into()).collect());
        self.ask(call, with, false, JobRequest::Ack(done.iter().map(job_ack).collect()));
        Ok(())
    }

    pub(super) fn fail(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let failed = Failed::read(call.fields)?;
        let request = JobFail {
            id: id(failed.job.id),
            token: token(failed.job.token),
            error: failed.error.map(Arc::from),
            stack: failed.stack.into_iter().map(Arc::from).collect(),
            is_final: failed.unrecoverable,
            remove: failed.remove,
        };
        let with = Beside::Ids(vec![failed.job.id.into()]);
        self.ask(call, with, false, JobRequest::Fail(request));
        Ok(())
    }

    /// An outcome was taken, or came too late.
    pub(super) fn settled(req_id: &ReqId, waiting: &Waiting, indices: &[usize], out: &mut Outbound) {
        if indices.is_empty() {
            return put_done(req_id, out);
        }
        if waiting.op != Op::AckBatch {
            return put_data(req_id, out, |map| {
                map.bool("applied", false);
                map.text("reason", "already-finalized");
            });
        }
        let Beside::Ids(ids) = &waiting.with else { return put_done(req_id, out) };
        put_data(req_id, out, |map| {
            let buffer = map.name("ignoredIndices");
            put_list_head(buffer, indices.len());
            indices.iter().for_each(|index| put_int(buffer, i64::try_from(*index).unwrap_or(0)));
            let ignored: Vec<&str> =
                indices.iter().filter_map(|index| ids.get(*index)).map(|id| &**id).collect();
            put_texts(map.name("ignoredIds"), ignored.into_iter());
        });
    }

    pub(super) fn extend(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let fields = call.fields;
        let needs_token = matches!(call.op, Op::ExtendLock | Op::ExtendLocks);
        let one = |held: Held<'_>, lock_ms| JobExtend {
            id: id(held.id),
            token: token(held.token),
            lock_ms,
            needs_token,
        };
        let extends = match call.op {
            Op::JobHeartbeatBatch => held_all(fields)?.into_iter().map(|held| one(held, None)).collect(),
            Op::ExtendLocks => {
                let durations: Vec<_> = fields.need_list("durations")?.collect();
                let held = held_all(fields)?.into_iter().enumerate();
                held.map(|(at, held)| one(held, lock_ms(durations.get(at).copied()))).collect()
            }
            _ => vec![one(Held::read(fields)?, lock_ms(fields.raw("duration")))],
        };
        self.ask(call, Beside::Nothing, false, JobRequest::Extend(extends));
        Ok(())
    }

    pub(super) fn note(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let fields = call.fields;
        let own = fields.need_text("id")?;
        let request = match call.op {
            Op::Progress => JobRequest::Progress {
                id: id(own),
                progress: progress(fields),
                message: fields.text("message").map(Arc::from),
            },
            Op::ClearLogs => {
                let keep = fields
                    .lenient("keepLogs")
                    .map_or(0, |keep| u32::try_from(keep.max(0)).unwrap_or(u32::MAX));
                JobRequest::ClearLog { id: id(own), keep }
            }
            _ => {
                let level = match fields.text("level") {
                    Some("warn") => 1,
                    Some("error") => 2,
                    _ => 0,
                };
                JobRequest::Log { id: id(own), level, text: Arc::from(fields.need_text("message")?) }
            }
        };
        self.ask(call, Beside::Id(own.into()), false, request);
        Ok(())
    }

    /// A number of jobs.
    pub(super) fn count(req_id: &ReqId, waiting: &Waiting, count: u64, out: &mut Outbound) {
        let number = i64::try_from(count).unwrap_or(i64::MAX);
        match waiting.op {
            Op::JobHeartbeat if count == 0 => {
                put_error(req_id, "Job not found or not active (or invalid token)", out);
            }
            Op::JobHeartbeat => put_data(req_id, out, |map| map.bool("ok", true)),
            Op::JobHeartbeatBatch => put_data(req_id, out, |map| {
                map.bool("ok", true);
                map.int("count", number);
            }),
            Op::Heartbeat | Op::UnregisterWorker if count == 0 => put_error(req_id, "Worker not found", out),
            Op::Heartbeat => put_data(req_id, out, |map| map.bool("ok", true)),
            Op::UnregisterWorker => put_data(req_id, out, |map| map.bool("removed", true)),
            Op::RemoveDeduplicationKey => put_data(req_id, out, |map| map.int("count", number)),
            Op::ExtendLock if count == 0 => put_error(req_id, "Lock not found or invalid token", out),
            Op::ExtendLock => put_done(req_id, out),
            Op::RemoveDlqJob | Op::RemoveJobDeduplicationKey => {
                put_data(req_id, out, |map| map.bool("removed", count > 0));
            }
            _ => put_ok(req_id, out, |map| map.int("count", number)),
        }
    }

    /// Jobs of a list that fit one packet.
    pub(super) fn fits(bytes: usize) -> bool {
        bytes < PAYLOAD_BYTES_MAX - REPLY_RESERVE_BYTES
    }
}

fn job_ack(done: &Done<'_>) -> JobAck {
    JobAck {
        id: id(done.job.id),
        token: token(done.job.token),
        result: done.result.map(|raw| Bytes::copy_from_slice(raw.bytes())),
        remove: done.remove,
    }
}

/// The token of a command that changes a job.
pub(super) fn given_token(call: &Call<'_, '_>) -> Option<Token> {
    token(call.fields.text("token").filter(|token| !token.is_empty()))
}
