//! How fast the jobs of a queue are handed out, and how many at once.

use std::time::{SystemTime, UNIX_EPOCH};

use framegate_adaptor_api::Outbound;
use framegate_broker::{JobLimits, JobRate, JobRequest};

use super::{Beside, Call, Conversation};
use crate::commands::{Fields, Op, Refusal, any_queue};
use crate::job::ms;
use crate::reply::{ReqId, put_data};

/// What the time left of a rate is when there is no rate, and when it has no end.
const NO_RATE: i64 = -2;
const NO_END: i64 = -1;

impl Conversation {
    pub(super) fn limit(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let fields = call.fields;
        let shown = fields.need_text("queue")?;
        let Some(queue) = any_queue(fields)? else {
            return Err(format!("queue '{shown}' cannot exist").into());
        };
        let request = match call.op {
            Op::RateLimit => JobRequest::SetRate(queue, Some(rate(fields)?)),
            Op::RateLimitClear => JobRequest::SetRate(queue, None),
            Op::SetConcurrency => JobRequest::SetConcurrency(queue, Some(limit(fields)?)),
            Op::ClearConcurrency => JobRequest::SetConcurrency(queue, None),
            _ => JobRequest::Limits(queue),
        };
        self.ask(call, Beside::Nothing, false, request);
        Ok(())
    }

    /// What limits a queue.
    pub(super) fn limits(req_id: &ReqId, limits: &JobLimits, out: &mut Outbound) {
        put_data(req_id, out, |map| {
            let mut map = map.map("limits");
            match limits.rate {
                None => map.nil("rateLimit"),
                Some(rate) => {
                    let mut shown = map.map("rateLimit");
                    shown.int("max", rate.max.into());
                    shown.int("duration", ms(rate.per_ms));
                    shown.end();
                }
            }
            let no_end = if limits.rate.is_some() { NO_END } else { NO_RATE };
            map.int("rateLimitTtl", limits.rate_ends_in_ms.map_or(no_end, ms));
            map.int_or_nil("concurrencyLimit", limits.concurrency.map(i64::from));
            map.bool("maxed", limits.is_maxed);
            map.end();
        });
    }
}

/// How many, at least 1.
fn limit(fields: &Fields<'_>) -> Result<u32, Refusal> {
    let limit = fields.lenient("limit").ok_or("limit must be a finite number")?;
    u32::try_from(limit).ok().filter(|limit| *limit > 0).ok_or("limit must be at least 1".into())
}

fn rate(fields: &Fields<'_>) -> Result<JobRate, Refusal> {
    let span = |name: &str| fields.lenient(name).and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms > 0);
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let now_ms = u64::try_from(now_ms).unwrap_or(u64::MAX);
    Ok(JobRate {
        max: limit(fields)?,
        per_ms: span("duration").unwrap_or(1000),
        until_ms: span("ttl").map(|ttl| now_ms.saturating_add(ttl)),
    })
}
