//! Settings of a queue: when a silent worker's job counts as stalled, and what becomes of dead jobs.

use framegate_adaptor_api::Outbound;
use framegate_broker::{JobCare, JobCareChange, JobRequest};

use super::{Beside, Call, Conversation, Waiting};
use crate::codec::{Item, Raw};
use crate::commands::{Fields, Op, Refusal, any_queue};
use crate::job::ms;
use crate::reply::{ReqId, put_ok};

impl Conversation {
    pub(super) fn care(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let fields = call.fields;
        let shown = fields.need_text("queue")?;
        let Some(queue) = any_queue(fields)? else {
            return Err(format!("queue '{shown}' cannot exist").into());
        };
        let request = match call.op {
            Op::SetStallConfig => JobRequest::SetCare(queue, stalls(&config(fields)?)?),
            Op::SetDlqConfig => JobRequest::SetCare(queue, dead(&config(fields)?)?),
            _ => JobRequest::Care(queue),
        };
        self.ask(call, Beside::Nothing, false, request);
        Ok(())
    }

    /// The settings as they are.
    pub(super) fn cared(req_id: &ReqId, waiting: &Waiting, care: &JobCare, out: &mut Outbound) {
        put_ok(req_id, out, |map| {
            let mut map = map.map("config");
            if waiting.op == Op::GetStallConfig {
                map.bool("enabled", care.watches_silence);
                map.int("stallInterval", ms(care.silence_ms));
                map.int("maxStalls", care.stalls_max.into());
                map.int("gracePeriod", ms(care.grace_ms));
            } else {
                map.bool("autoRetry", care.revives);
                map.int("autoRetryInterval", ms(care.revive_ms));
                map.int("maxAutoRetries", care.revivals_max.into());
                map.int_or_nil("maxAge", care.dead_ms.map(ms));
                map.int("maxEntries", care.dead_max.into());
            }
            map.end();
        });
    }
}

fn config<'a>(fields: &Fields<'a>) -> Result<Fields<'a>, Refusal> {
    fields.map("config")?.ok_or_else(|| "config is required".into())
}

/// A number of at least 0, if given.
fn number(config: &Fields<'_>, name: &str) -> Result<Option<u64>, Refusal> {
    match config.item(name) {
        None | Some(Item::Absent) => Ok(None),
        Some(_) => match config.lenient(name) {
            Some(number) => Ok(Some(u64::try_from(number).unwrap_or(0))),
            None => Err(format!("{name} must be a number").into()),
        },
    }
}

fn count(config: &Fields<'_>, name: &str) -> Result<Option<u32>, Refusal> {
    Ok(number(config, name)?.map(|number| u32::try_from(number).unwrap_or(u32::MAX)))
}

fn flag(config: &Fields<'_>, name: &str) -> Result<Option<bool>, Refusal> {
    match config.item(name) {
        None | Some(Item::Absent) => Ok(None),
        Some(Item::Bool(flag)) => Ok(Some(flag)),
        Some(_) => Err(format!("{name} must be a boolean").into()),
    }
}

fn stalls(config: &Fields<'_>) -> Result<JobCareChange, Refusal> {
    Ok(JobCareChange {
        watches_silence: flag(config, "enabled")?,
        silence_ms: number(config, "stallInterval")?,
        grace_ms: number(config, "gracePeriod")?,
        stalls_max: count(config, "maxStalls")?,
        ..JobCareChange::default()
    })
}

fn dead(config: &Fields<'_>) -> Result<JobCareChange, Refusal> {
    let is_for_ever = config.raw("maxAge").map(Raw::item) == Some(Item::Nil);
    Ok(JobCareChange {
        revives: flag(config, "autoRetry")?,
        revive_ms: number(config, "autoRetryInterval")?,
        revivals_max: count(config, "maxAutoRetries")?,
        dead_ms: if is_for_ever { Some(None) } else { number(config, "maxAge")?.map(Some) },
        dead_max: count(config, "maxEntries")?,
        ..JobCareChange::default()
    })
}
