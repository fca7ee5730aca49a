//! A job as clients see it: 47 fields, each written, nil where there is nothing; and the entry of a dead one. Never asks the
//! broker.

use bytes::BytesMut;
use framegate_broker::{JobGrowth, JobInfo, JobReason, JobState, JobStep};

use crate::adaptor::{LEGACY, data_of, fields_of, name_of, private_of};
use crate::codec::{MapWriter, Whole, put_list_head, put_nil, put_texts, whole};
use crate::commands::{Fields, with_name};

/// What a query adds to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum With {
    /// Nothing: PULL.
    Nothing,
    /// `state`, and result and error where there are some.
    State,
    /// The same, of a list of what is held back: ready is shown as "paused".
    Paused,
}

/// The word for a state.
pub(crate) fn word(state: JobState) -> &'static str {
    match state {
        JobState::Waiting => "waiting",
        JobState::Prioritized => "prioritized",
        JobState::Delayed => "delayed",
        JobState::Active => "active",
        JobState::Completed => "completed",
        JobState::Failed => "failed",
    }
}

/// The state for a word; None: no job here is ever in it.
pub(crate) fn state(word: &str) -> Option<JobState> {
    [
        JobState::Waiting,
        JobState::Prioritized,
        JobState::Delayed,
        JobState::Active,
        JobState::Completed,
        JobState::Failed,
    ]
    .into_iter()
    .find(|state| self::word(*state) == word)
}

fn reason(reason: JobReason) -> &'static str {
    match reason {
        JobReason::Explicit => "explicit_fail",
        JobReason::Attempts => "max_attempts_exceeded",
        JobReason::Timeout => "timeout",
        JobReason::Stalled => "stalled",
        JobReason::Discarded => "unknown",
    }
}

/// Milliseconds as the wire's numbers.
pub(crate) fn ms(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// Writes a job as the value that follows. `is_legacy`: the client looks for the name in the data, when it came in there.
pub(crate) fn put_job(buffer: &mut BytesMut, info: &JobInfo, with: With, is_legacy: bool) {
    let job = &info.job;
    let terms = &job.terms;
    let private = private_of(&info.frame);
    let given = fields_of(&private);
    let mut map = MapWriter::begin(buffer);
    map.text("id", &job.id);
    map.text("queue", &job.queue);
    map.text("name", name_of(&info.frame));
    put_data(&mut map, info, is_legacy && given.is_truthy(LEGACY));
    map.int("createdAt", ms(job.created_ms));
    map.int("runAt", ms(job.run_ms));
    map.int_or_nil("startedAt", info.active_ms.or(job.started_ms).map(ms));
    map.int_or_nil("completedAt", completed_ms(info).map(ms));
    map.int("attempts", i64::from(job.attempts));
    map.int("backoff", ms(terms.backoff.delay_ms));
    match terms.backoff.growth {
        JobGrowth::Plain => map.nil("backoffConfig"),
        growth => {
            let mut config = map.map("backoffConfig");
            config.text("type", if growth == JobGrowth::Fixed { "fixed" } else { "exponential" });
            config.int("delay", ms(terms.backoff.delay_ms));
            config.end();
        }
    }
    put_list_head(map.name("dependsOn"), 0);
    put_list_head(map.name("childrenIds"), 0);
    map.int("childrenCompleted", 0);
    put_given(&mut map, &given, "tags", |buffer| put_list_head(buffer, 0));
    map.number("progress", job.progress);
    map.text_or_nil("progressMessage", job.progress_message.as_deref());
    match &job.stack {
        Some(lines) => put_texts(map.name("stacktrace"), lines.iter().map(|line| &**line)),
        None => map.nil("stacktrace"),
    }
    map.nil("repeat");
    map.bool("durable", given.is_truthy("durable"));
    map.int("lastHeartbeat", ms(info.heartbeat_ms.unwrap_or(job.heartbeat_ms)));
    map.int("stallCount", i64::from(job.stalls));
    map.int("priority", i64::from(terms.priority));
    map.bool("lifo", terms.newest_first);
    map.int("maxAttempts", i64::from(terms.max_attempts));
    map.bool("removeOnComplete", terms.remove_on_complete);
    map.bool("removeOnFail", terms.remove_on_fail);
    map.int_or_nil("ttl", terms.ttl_ms.map(ms));
    map.int_or_nil("timeout", terms.timeout_ms.map(ms));
    let unique = terms.unique.as_ref();
    map.text_or_nil("uniqueKey", unique.map(|unique| &*unique.key));
    map.text_or_nil("customId", job.is_named.then_some(&*job.id));
    map.nil("parentId");
    map.nil("groupId");
    put_given(&mut map, &given, "stallTimeout", put_nil);
    map.int("stackTraceLimit", i64::from(terms.stack_lines_max));
    put_given(&mut map, &given, "keepLogs", put_nil);
    put_given(&mut map, &given, "sizeLimit", put_nil);
    for name in [
        "failParentOnFailure",
        "removeDependencyOnFailure",
        "continueParentOnFailure",
        "ignoreDependencyOnFailure",
    ] {
        map.bool(name, given.is_truthy(name));
    }
    map.int_or_nil("deduplicationTtl", unique.and_then(|unique| unique.ttl_ms).map(ms));
    map.bool("deduplicationExtend", unique.is_some_and(|unique| unique.extend));
    map.bool("deduplicationReplace", unique.is_some_and(|unique| unique.replace));
    put_given(&mut map, &given, "debounceId", put_nil);
    put_given(&mut map, &given, "debounceTtl", put_nil);
    put_timeline(&mut map, info);
    if with != With::Nothing {
        let is_ready = matches!(info.state, JobState::Waiting | JobState::Prioritized);
        map.text("state", if with == With::Paused && is_ready { "paused" } else { word(info.state) });
        if let Some(result) = &job.result {
            map.raw("returnvalue", result);
        }
        let failed = job.steps.iter().rev().find(|step| step.state == JobState::Failed);
        if let Some(error) = failed.and_then(|step| step.error.as_deref()) {
            map.text("failedReason", error);
        }
    }
    map.end();
}

/// A dead job has no time of completion.
fn completed_ms(info: &JobInfo) -> Option<u64> {
    info.job.finished_ms.filter(|_| info.state == JobState::Completed)
}

fn put_data(map: &mut MapWriter<'_>, info: &JobInfo, with_own_name: bool) {
    let data = data_of(&info.frame);
    let Some(Whole { raw, .. }) = whole(&data) else { return };
    match with_own_name.then(|| with_name(raw, name_of(&info.frame))).flatten() {
        Some(named) => map.raw("data", &named),
        None => map.raw("data", &data),
    }
}

fn put_timeline(map: &mut MapWriter<'_>, info: &JobInfo) {
    let active =
        info.active_ms.map(|at_ms| JobStep { state: JobState::Active, at_ms, error: None, attempt: None });
    let buffer = map.name("timeline");
    put_list_head(buffer, info.job.steps.len() + usize::from(active.is_some()));
    for step in info.job.steps.iter().chain(&active) {
        let mut entry = MapWriter::begin(buffer);
        entry.text("state", word(step.state));
        entry.int("timestamp", ms(step.at_ms));
        if let Some(error) = &step.error {
            entry.text("error", error);
        }
        if let Some(attempt) = step.attempt {
            entry.int("attempt", i64::from(attempt));
        }
        entry.end();
    }
}

/// A field as it was given, else what `absent` writes.
fn put_given(map: &mut MapWriter<'_>, given: &Fields<'_>, name: &str, absent: impl FnOnce(&mut BytesMut)) {
    match given.raw(name) {
        Some(raw) => map.raw(name, raw.bytes()),
        None => absent(map.name(name)),
    }
}

/// Writes the entry of a dead job as the value that follows.
pub(crate) fn put_dead(buffer: &mut BytesMut, info: &JobInfo, is_legacy: bool) {
    let job = &info.job;
    let mut map = MapWriter::begin(buffer);
    put_job(map.name("job"), info, With::Nothing, is_legacy);
    let entered_ms = job.finished_ms.unwrap_or(job.created_ms);
    map.int("enteredAt", ms(entered_ms));
    let last = job.failures.last();
    map.text("reason", dead_reason(info));
    map.text_or_nil("error", last.and_then(|failure| failure.error.as_deref()));
    let buffer = map.name("attempts");
    put_list_head(buffer, job.failures.len());
    for failure in &job.failures {
        let mut entry = MapWriter::begin(buffer);
        entry.int("attempt", i64::from(failure.attempt));
        entry.int("startedAt", ms(failure.started_ms));
        entry.int("failedAt", ms(failure.failed_ms));
        entry.text("reason", reason(failure.reason));
        entry.text_or_nil("error", failure.error.as_deref());
        let took_ms = match failure.reason {
            JobReason::Discarded => 0,
            _ => failure.failed_ms.saturating_sub(failure.started_ms),
        };
        entry.int("duration", ms(took_ms));
        entry.end();
    }
    map.int("retryCount", i64::from(job.revivals));
    map.int_or_nil("lastRetryAt", job.revived_ms.map(ms));
    map.int_or_nil("nextRetryAt", info.care.revival_ms(job).map(ms));
    map.int_or_nil("expiresAt", info.care.removal_ms(job).map(ms));
    map.end();
}

/// Why a job is dead.
pub(crate) fn dead_reason(info: &JobInfo) -> &'static str {
    info.job.failures.last().map_or("unknown", |failure| reason(failure.reason))
}
