//! Records of jobs.
//!
//! ```text
//! JOB    vhost, id, queue name, home, place (queue, seq), phase u8, bits u8, terms, times, counts, texts, lists
//! PAUSE  queue, paused u8
//! RULES  queue, rate (0: none, else max), when there is one: ms, until + 1 or 0; concurrency (0: none)
//! CARE   queue, bits u8 (0 watches silence, 1 revives), silence, grace, stalls, revive ms, revivals, dead ms + 1 or 0, dead max
//! ```
//! A job is written whole whenever something of it changes: the newest record says everything. Optional numbers are one more than
//! they are, 0 for none; optional texts stand behind a byte; lists behind their length.

use std::sync::Arc;

use bytes::Bytes;
use framegate_storage::put_varint;

use super::decode::{DecodeError, Fields};
use super::envelope::put_text;
use super::{Record, RecordKind};
use crate::ids::{QueueId, Seq};
use crate::job::{
    Job, JobBackoff, JobCare, JobFailure, JobGrowth, JobLogLine, JobPhase, JobRate, JobReason, JobRules,
    JobState, JobStep, JobTerms, JobUnique,
};
use crate::state::JobEntry;

const PHASES: [JobPhase; 3] = [JobPhase::Queued, JobPhase::Completed, JobPhase::Failed];
const GROWTHS: [JobGrowth; 3] = [JobGrowth::Plain, JobGrowth::Fixed, JobGrowth::Exponential];
const STATES: [JobState; 6] = [
    JobState::Waiting,
    JobState::Prioritized,
    JobState::Delayed,
    JobState::Active,
    JobState::Completed,
    JobState::Failed,
];
const REASONS: [JobReason; 5] =
    [JobReason::Explicit, JobReason::Attempts, JobReason::Timeout, JobReason::Stalled, JobReason::Discarded];

/// Appends the content of a job's record; false when it is another one.
pub(super) fn put(out: &mut Vec<u8>, record: &Record) -> bool {
    match record {
        Record::Job(entry) => put_entry(out, entry),
        Record::PauseJobs { queue, paused } => {
            put_varint(out, queue.0.into());
            out.push(u8::from(*paused));
        }
        Record::JobRules { queue, rules } => {
            put_varint(out, queue.0.into());
            put_varint(out, rules.rate.map_or(0, |rate| rate.max.into()));
            if let Some(rate) = rules.rate {
                put_varint(out, rate.per_ms);
                option(out, rate.until_ms);
            }
            put_varint(out, rules.concurrency.map_or(0, u64::from));
        }
        Record::JobCare { queue, care } => {
            put_varint(out, queue.0.into());
            out.push(u8::from(care.watches_silence) | u8::from(care.revives) << 1);
            put_varint(out, care.silence_ms);
            put_varint(out, care.grace_ms);
            put_varint(out, care.stalls_max.into());
            put_varint(out, care.revive_ms);
            put_varint(out, care.revivals_max.into());
            option(out, care.dead_ms);
            put_varint(out, care.dead_max.into());
        }
        _ => return false,
    }
    true
}

fn code<T: PartialEq>(out: &mut Vec<u8>, all: &[T], one: &T) {
    out.push(all.iter().position(|each| each == one).unwrap_or(0) as u8);
}

fn option(out: &mut Vec<u8>, number: Option<u64>) {
    put_varint(out, number.map_or(0, |number| number.saturating_add(1)));
}

fn optional_text(out: &mut Vec<u8>, text: Option<&str>) {
    out.push(u8::from(text.is_some()));
    if let Some(text) = text {
        put_text(out, text);
    }
}

fn put_entry(out: &mut Vec<u8>, entry: &JobEntry) {
    let JobEntry { vhost, home, place, job } = entry;
    put_text(out, vhost);
    put_text(out, &job.id);
    put_text(out, &job.queue);
    put_varint(out, home.0.into());
    put_varint(out, place.0.0.into());
    put_varint(out, place.1.0);
    code(out, &PHASES, &job.phase);
    let terms = &job.terms;
    let bits = [
        job.is_named,
        job.is_passing,
        terms.remove_on_complete,
        terms.remove_on_fail,
        job.stack.is_some(),
        terms.newest_first,
    ];
    out.push(bits.iter().enumerate().fold(0, |byte, (n, bit)| byte | (u8::from(*bit) << n)));
    // zigzag
    put_varint(out, u64::from(((terms.priority << 1) ^ (terms.priority >> 31)) as u32));
    put_varint(out, terms.max_attempts.into());
    put_varint(out, terms.backoff.delay_ms);
    code(out, &GROWTHS, &terms.backoff.growth);
    option(out, terms.ttl_ms);
    option(out, terms.timeout_ms);
    option(out, terms.stall_ms);
    put_varint(out, terms.stack_lines_max.into());
    optional_text(out, terms.unique.as_ref().map(|unique| &*unique.key));
    if let Some(unique) = &terms.unique {
        option(out, unique.until_ms);
        option(out, unique.ttl_ms);
        out.push(u8::from(unique.extend) | u8::from(unique.replace) << 1);
    }
    put_varint(out, job.created_ms);
    put_varint(out, job.run_ms);
    option(out, job.started_ms);
    option(out, job.finished_ms);
    put_varint(out, job.attempts.into());
    put_varint(out, job.stalls.into());
    put_varint(out, job.revivals.into());
    option(out, job.revived_ms);
    put_varint(out, job.heartbeat_ms);
    out.extend_from_slice(&job.progress.to_bits().to_le_bytes());
    optional_text(out, job.progress_message.as_deref());
    let lines = job.stack.as_deref().unwrap_or_default();
    put_varint(out, lines.len() as u64);
    lines.iter().for_each(|line| put_text(out, line));
    option(out, job.result.as_ref().map(|result| result.len() as u64));
    out.extend_from_slice(job.result.as_deref().unwrap_or_default());
    put_varint(out, job.steps.len() as u64);
    for step in &job.steps {
        code(out, &STATES, &step.state);
        put_varint(out, step.at_ms);
        optional_text(out, step.error.as_deref());
        option(out, step.attempt.map(u64::from));
    }
    put_varint(out, job.failures.len() as u64);
    for failure in &job.failures {
        put_varint(out, failure.attempt.into());
        put_varint(out, failure.started_ms);
        put_varint(out, failure.failed_ms);
        code(out, &REASONS, &failure.reason);
        optional_text(out, failure.error.as_deref());
    }
    put_varint(out, job.logs.len() as u64);
    for line in &job.logs {
        put_varint(out, line.at_ms);
        out.push(line.level);
        put_text(out, &line.text);
    }
}

/// Reads the content of a job's record.
pub(super) fn take(kind: RecordKind, f: &mut Fields<'_>) -> Result<Record, DecodeError> {
    if kind == RecordKind::PauseJobs {
        return Ok(Record::PauseJobs {
            queue: QueueId(f.number32("queue")?),
            paused: f.byte("paused")? != 0,
        });
    }
    if kind == RecordKind::JobRules {
        let queue = QueueId(f.number32("queue")?);
        let rate = match f.number32("rate")? {
            0 => None,
            max => Some(JobRate { max, per_ms: f.number("per")?, until_ms: maybe(f, "until")? }),
        };
        let concurrency = Some(f.number32("concurrency")?).filter(|max| *max > 0);
        return Ok(Record::JobRules { queue, rules: JobRules { rate, concurrency } });
    }
    if kind == RecordKind::JobCare {
        let queue = QueueId(f.number32("queue")?);
        let bits = f.byte("bits")?;
        let care = JobCare {
            watches_silence: bits & 1 != 0,
            revives: bits & 2 != 0,
            silence_ms: f.number("silence")?,
            grace_ms: f.number("grace")?,
            stalls_max: f.number32("stalls")?,
            revive_ms: f.number("revive")?,
            revivals_max: f.number32("revivals")?,
            dead_ms: maybe(f, "dead")?,
            dead_max: f.number32("dead max")?,
        };
        return Ok(Record::JobCare { queue, care });
    }
    take_entry(f).map(|entry| Record::Job(Box::new(entry)))
}

fn of<T: Copy>(all: &[T], code: u8, what: &str) -> Result<T, DecodeError> {
    all.get(usize::from(code)).copied().ok_or_else(|| DecodeError(format!("{what} {code} is unknown")))
}

fn text(f: &mut Fields<'_>, what: &str) -> Result<Arc<str>, DecodeError> {
    Ok(Arc::from(f.text(what)?))
}

fn maybe(f: &mut Fields<'_>, what: &str) -> Result<Option<u64>, DecodeError> {
    Ok(f.number(what)?.checked_sub(1))
}

fn maybe_text(f: &mut Fields<'_>, what: &str) -> Result<Option<Arc<str>>, DecodeError> {
    Ok(if f.byte(what)? != 0 { Some(text(f, what)?) } else { None })
}

/// A list: at most as many as there are bytes.
fn list<T>(
    f: &mut Fields<'_>,
    what: &str,
    mut one: impl FnMut(&mut Fields<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut all = Vec::new();
    for _ in 0..f.number(what)? {
        all.push(one(f)?);
    }
    Ok(all)
}

fn take_entry(f: &mut Fields<'_>) -> Result<JobEntry, DecodeError> {
    let vhost = f.name("vhost")?;
    let id = text(f, "id")?;
    let queue = f.name("queue name")?;
    let home = QueueId(f.number32("home")?);
    let place = (QueueId(f.number32("place")?), Seq(f.number("seq")?));
    let phase = of(&PHASES, f.byte("phase")?, "phase")?;
    let bits = f.byte("bits")?;
    let bit = |n: u8| bits & 1 << n != 0;
    let zigzag = f.number32("priority")?;
    let priority = (zigzag >> 1) as i32 ^ -((zigzag & 1) as i32);
    let max_attempts = f.number32("attempts")?;
    let delay_ms = f.number("backoff")?;
    let growth = of(&GROWTHS, f.byte("growth")?, "growth")?;
    let (ttl_ms, timeout_ms) = (maybe(f, "ttl")?, maybe(f, "timeout")?);
    let stall_ms = maybe(f, "stall")?;
    let stack_lines_max = f.number32("stack lines")?;
    let unique = match maybe_text(f, "key")? {
        None => None,
        Some(key) => {
            let (until_ms, ttl_ms) = (maybe(f, "until")?, maybe(f, "key ttl")?);
            let bits = f.byte("key bits")?;
            Some(JobUnique { key, until_ms, ttl_ms, extend: bits & 1 != 0, replace: bits & 2 != 0 })
        }
    };
    let terms = JobTerms {
        priority,
        newest_first: bit(5),
        max_attempts,
        backoff: JobBackoff { delay_ms, growth },
        ttl_ms,
        timeout_ms,
        stall_ms,
        remove_on_complete: bit(2),
        remove_on_fail: bit(3),
        stack_lines_max,
        unique,
    };
    let (created_ms, run_ms) = (f.number("created")?, f.number("run")?);
    let (started_ms, finished_ms) = (maybe(f, "started")?, maybe(f, "finished")?);
    let (attempts, stalls) = (f.number32("attempts")?, f.number32("stalls")?);
    let (revivals, revived_ms) = (f.number32("revivals")?, maybe(f, "revived")?);
    let heartbeat_ms = f.number("heartbeat")?;
    let progress = f.bytes(8, "progress")?.try_into().map_or(0.0, |b| f64::from_bits(u64::from_le_bytes(b)));
    let progress_message = maybe_text(f, "progress message")?;
    let lines = list(f, "stack", |f| text(f, "line"))?;
    let result = match maybe(f, "result")? {
        None => None,
        Some(length) => {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            Some(Bytes::copy_from_slice(f.bytes(length, "result")?))
        }
    };
    let steps = list(f, "steps", |f| {
        Ok(JobStep {
            state: of(&STATES, f.byte("state")?, "state")?,
            at_ms: f.number("at")?,
            error: maybe_text(f, "error")?,
            attempt: maybe(f, "attempt")?.and_then(|attempt| u32::try_from(attempt).ok()),
        })
    })?;
    let failures = list(f, "failures", |f| {
        Ok(JobFailure {
            attempt: f.number32("attempt")?,
            started_ms: f.number("started")?,
            failed_ms: f.number("failed")?,
            reason: of(&REASONS, f.byte("reason")?, "reason")?,
            error: maybe_text(f, "error")?,
        })
    })?;
    let logs = list(f, "logs", |f| {
        Ok(JobLogLine { at_ms: f.number("at")?, level: f.byte("level")?, text: text(f, "line")? })
    })?;
    let job = Job {
        id,
        queue,
        phase,
        is_named: bit(0),
        is_passing: bit(1),
        terms,
        created_ms,
        run_ms,
        started_ms,
        finished_ms,
        attempts,
        stalls,
        revivals,
        revived_ms,
        heartbeat_ms,
        progress,
        progress_message,
        stack: bit(4).then_some(lines),
        result,
        steps,
        failures,
        logs,
    };
    Ok(JobEntry { vhost, home, place, job })
}
