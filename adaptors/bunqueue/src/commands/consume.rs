//! What workers send: pulls, outcomes, heartbeats. Only what they mean; what is made of it is the conversation's.

use framegate_broker::Name;

use super::fields::{Fields, Range, Refusal};
use super::options::check_group_id;
use super::queue_name::checked_queue;
use crate::codec::{Item, Raw};
use crate::limits::{PULL_JOBS_MAX, PULL_WAIT_MS_MAX, SAFE_INTEGER_MAX, STACK_LINES_MAX};

/// A lock's time when none is given, in ms.
const LOCK_MS: u64 = 30_000;

/// PULL and PULLB.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pull<'a> {
    pub(crate) queue: Name,
    pub(crate) count: u32,
    pub(crate) wait_ms: u64,
    /// With an owner each job has a lock and a token.
    pub(crate) owner: Option<&'a str>,
    pub(crate) lock_ms: u64,
    /// The job stays with the puller when the connection ends.
    pub(crate) detach: bool,
    pub(crate) group: GroupLimits<'a>,
}

/// Limits of groups that a pull brings along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GroupLimits<'a> {
    pub(crate) concurrency: Option<i64>,
    /// Jobs in so many ms.
    pub(crate) rate: Option<(i64, i64)>,
    pub(crate) affinity: Option<&'a str>,
}

impl<'a> Pull<'a> {
    /// Reads PULL (`many` false) or PULLB.
    pub(crate) fn read(fields: &Fields<'a>, many: bool) -> Result<Self, Refusal> {
        let queue = checked_queue(fields)?;
        let count = match many {
            true => fields.number("count", Range::whole(1, PULL_JOBS_MAX))?.unwrap_or(1),
            false => 1,
        };
        let wait_ms = fields.number("timeout", Range::upto(PULL_WAIT_MS_MAX))?.unwrap_or(0);
        let lock_ms = fields.lenient("lockTtl").and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms > 0);
        Ok(Self {
            queue,
            count: u32::try_from(count).unwrap_or(1),
            wait_ms: wait_ms.unsigned_abs(),
            owner: fields.text("owner").filter(|owner| !owner.is_empty()),
            lock_ms: lock_ms.unwrap_or(LOCK_MS),
            detach: fields.is_truthy("detach"),
            group: group_limits(fields)?,
        })
    }
}

fn group_limits<'a>(fields: &Fields<'a>) -> Result<GroupLimits<'a>, Refusal> {
    let Some(group) = fields.map("group")? else { return Ok(GroupLimits::default()) };
    let rate = match group.map("limit")? {
        None => None,
        Some(limit) => {
            let max = limit.positive("max", "group.limit.max")?;
            let duration = limit.positive("duration", "group.limit.duration")?;
            match (max, duration) {
                (Some(max), Some(duration)) => Some((max, duration)),
                (None, _) => return Err("group.limit.max must be a positive safe integer".into()),
                (_, None) => return Err("group.limit.duration must be a positive safe integer".into()),
            }
        }
    };
    let affinity = group.text("affinity");
    if let Some(id) = affinity {
        check_group_id(id)?;
    }
    Ok(GroupLimits { concurrency: group.positive("concurrency", "group.concurrency")?, rate, affinity })
}

/// A job by id, with the token of its lock; empty: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held<'a> {
    pub(crate) id: &'a str,
    pub(crate) token: Option<&'a str>,
}

impl<'a> Held<'a> {
    pub(crate) fn read(fields: &Fields<'a>) -> Result<Self, Refusal> {
        let token = fields.text("token").filter(|token| !token.is_empty());
        Ok(Self { id: fields.need_text("id")?, token })
    }
}

/// One job of ACK or ACKB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Done<'a> {
    pub(crate) job: Held<'a>,
    /// As it stands; nothing: `undefined`.
    pub(crate) result: Option<Raw<'a>>,
    /// Overrides the job's own option.
    pub(crate) remove: Option<bool>,
}

/// Reads ACK.
pub(crate) fn ack<'a>(fields: &Fields<'a>) -> Result<Done<'a>, Refusal> {
    let remove = fields.item("removeOnComplete").map(|_| fields.is_truthy("removeOnComplete"));
    Ok(Done { job: Held::read(fields)?, result: fields.raw("result"), remove })
}

/// Reads ACKB.
pub(crate) fn ack_all<'a>(fields: &Fields<'a>) -> Result<Vec<Done<'a>>, Refusal> {
    let ids = fields.texts("ids")?.ok_or("ids is required")?;
    let tokens = column(fields, "tokens", ids.len())?;
    let results = column(fields, "results", ids.len())?;
    let removes = column(fields, "removeOnCompletes", ids.len())?;
    let mut done = Vec::with_capacity(ids.len());
    for (index, id) in ids.into_iter().enumerate() {
        let cell =
            |column: &Option<Vec<Raw<'a>>>| column.as_ref().and_then(|cells| cells.get(index)).copied();
        let token = match cell(&tokens).map(Raw::item) {
            Some(Item::Text(token)) if !token.is_empty() => Some(token),
            _ => None,
        };
        let remove = match cell(&removes).map(Raw::item) {
            Some(Item::Bool(flag)) => Some(flag),
            _ => None,
        };
        let result = cell(&results).filter(|raw| !raw.is_absent());
        done.push(Done { job: Held { id, token }, result, remove });
    }
    Ok(done)
}

/// A list that must be as long as `ids`.
fn column<'a>(fields: &Fields<'a>, name: &str, length: usize) -> Result<Option<Vec<Raw<'a>>>, Refusal> {
    let Some(list) = fields.list(name)? else { return Ok(None) };
    if list.count() != length {
        return Err(format!("ACKB {name} length must match ids length").into());
    }
    Ok(Some(list.collect()))
}

/// FAIL.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failed<'a> {
    pub(crate) job: Held<'a>,
    pub(crate) error: Option<&'a str>,
    pub(crate) stack: Vec<&'a str>,
    pub(crate) unrecoverable: bool,
    pub(crate) remove: Option<bool>,
}

impl<'a> Failed<'a> {
    pub(crate) fn read(fields: &Fields<'a>) -> Result<Self, Refusal> {
        let text = |raw: Raw<'a>| match raw.item() {
            Item::Text(text) => Some(text),
            _ => None,
        };
        let stack = match fields.item("stack") {
            Some(Item::List(lines)) => lines.take(STACK_LINES_MAX).filter_map(text).collect(),
            _ => Vec::new(),
        };
        Ok(Self {
            job: Held::read(fields)?,
            error: fields.text("error"),
            stack,
            unrecoverable: fields.is_truthy("unrecoverable"),
            remove: fields.item("removeOnFail").map(|_| fields.is_truthy("removeOnFail")),
        })
    }
}

/// Several jobs with tokens: JobHeartbeatB and ExtendLocks.
pub(crate) fn held_all<'a>(fields: &Fields<'a>) -> Result<Vec<Held<'a>>, Refusal> {
    let ids = fields.texts("ids")?.ok_or("ids is required")?;
    let tokens: Vec<_> = fields.list("tokens")?.into_iter().flatten().collect();
    let token = |index: usize| match tokens.get(index).map(|raw| raw.item()) {
        Some(Item::Text(token)) if !token.is_empty() => Some(token),
        _ => None,
    };
    Ok(ids.into_iter().enumerate().map(|(index, id)| Held { id, token: token(index) }).collect())
}

/// A time in ms that a lock is held for from now on, if given.
pub(crate) fn lock_ms(raw: Option<Raw<'_>>) -> Option<u64> {
    let ms = match raw?.item() {
        Item::Int(ms) => ms as f64,
        Item::Float(ms) => ms,
        _ => return None,
    };
    (ms > 0.0).then(|| ms.min(SAFE_INTEGER_MAX as f64) as u64)
}

/// Progress as a number: clamped to 0 to 100; what is no number is not one.
pub(crate) fn progress(fields: &Fields<'_>) -> f64 {
    match fields.item("progress") {
        Some(Item::Int(number)) => number.clamp(0, 100) as f64,
        Some(Item::Float(number)) => number.clamp(0.0, 100.0),
        _ => f64::NAN,
    }
}
