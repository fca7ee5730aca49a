//! Questions about one job or one queue.

use framegate_adaptor_api::Outbound;
use framegate_broker::{Job, JobCounts, JobInfo, JobList, JobRequest, JobState, Name};

use super::consume::id;
use super::{Beside, Call, Conversation, Waiting};
use crate::codec::{Item, Raw, put_list_head};
use crate::commands::{Op, Range, Refusal, any_queue};
use crate::job::{With, dead_reason, ms, put_dead, put_job, state, word};
use crate::limits::{JOB_WAIT_MS_MAX, LIST_JOBS_MAX};
use crate::reply::{ReqId, put_data, put_error, put_ok};

/// The reasons that a count of dead jobs names, in the order of the original.
const REASONS: [&str; 7] =
    ["explicit_fail", "max_attempts_exceeded", "timeout", "stalled", "ttl_expired", "worker_lost", "unknown"];

/// A state that is only a view: ready jobs of a queue that is held back.
const PAUSED: &str = "paused";

impl Conversation {
    pub(super) fn ask_job(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let fields = call.fields;
        let own = fields.need_text(if call.op == Op::GetJobByCustomId { "customId" } else { "id" })?;
        let mut with = Beside::Id(own.into());
        let mut is_wait = false;
        let request = match call.op {
            Op::GetJob | Op::GetJobByCustomId => JobRequest::Get(id(own)),
            Op::WaitJob => {
                let wait_ms = fields.number("timeout", Range::upto(JOB_WAIT_MS_MAX))?.unwrap_or(30_000);
                is_wait = true;
                JobRequest::Wait(id(own), wait_ms.unsigned_abs())
            }
            Op::GetLogs => {
                let at = |name, absent| {
                    fields.lenient(name).map_or(absent, |at| usize::try_from(at.max(0)).unwrap_or(usize::MAX))
                };
                with = Beside::Range(at("start", 0), at("end", usize::MAX));
                JobRequest::Peek(id(own))
            }
            _ => JobRequest::Peek(id(own)),
        };
        self.ask(call, with, is_wait, request);
        Ok(())
    }

    /// What is known of a job but its message.
    pub(super) fn peeked(
        req_id: &ReqId,
        waiting: &Waiting,
        job: Option<&(Job, JobState)>,
        out: &mut Outbound,
    ) {
        let own = match &waiting.with {
            Beside::Id(id) => &**id,
            _ => "",
        };
        match (waiting.op, job) {
            (Op::GetState, _) => put_ok(req_id, out, |map| {
                map.text("id", own);
                map.text("state", job.map_or("unknown", |(_, state)| word(*state)));
            }),
            (Op::GetResult, _) => put_ok(req_id, out, |map| {
                map.text("id", own);
                if let Some(result) = job.and_then(|(job, _)| job.result.as_ref()) {
                    map.raw("result", result);
                }
            }),
            (Op::GetLogs, _) => Self::put_logs(req_id, waiting, job.map(|(job, _)| job), out),
            (_, None) => put_error(req_id, "Job not found", out),
            (_, Some((job, JobState::Active))) => put_ok(req_id, out, |map| {
                map.number("progress", job.progress);
                map.text_or_nil("message", job.progress_message.as_deref());
            }),
            (_, Some((_, state))) => {
                put_error(req_id, &format!("Job is not active (current state: {})", word(*state)), out);
            }
        }
    }

    fn put_logs(req_id: &ReqId, waiting: &Waiting, job: Option<&Job>, out: &mut Outbound) {
        let (start, end) = match waiting.with {
            Beside::Range(start, end) => (start, end),
            _ => (0, usize::MAX),
        };
        let logs = job.map_or(&[][..], |job| &job.logs[..]);
        let shown = logs.iter().enumerate().filter(|(at, _)| (start..=end).contains(at));
        put_data(req_id, out, |map| {
            let buffer = map.name("logs");
            put_list_head(buffer, shown.clone().count());
            for (_, line) in shown.clone() {
                let mut entry = crate::codec::MapWriter::begin(buffer);
                entry.int("timestamp", ms(line.at_ms));
                entry
                    .text("level", ["info", "warn", "error"].get(usize::from(line.level)).unwrap_or(&"info"));
                entry.text("message", &line.text);
                entry.end();
            }
            map.int("count", i64::try_from(logs.len()).unwrap_or(i64::MAX));
        });
    }

    pub(super) fn ask_queue(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        if call.op == Op::ListQueues {
            self.ask(call, Beside::Nothing, false, JobRequest::Queues);
            return Ok(());
        }
        let fields = call.fields;
        let shown = fields.need_text("queue")?;
        // a name that no queue can have is that of an empty one
        let queue = any_queue(fields)?.unwrap_or_else(|| Name::from_static("amq.no.such.queue"));
        let number = |name, absent| {
            fields.lenient(name).map_or(absent, |n| u32::try_from(n.max(0)).unwrap_or(u32::MAX))
        };
        let request = match call.op {
            Op::GetJobs => {
                let states = states(fields.item("state"));
                let is_ascending = fields.item("asc").is_none() || fields.is_truthy("asc");
                JobRequest::List(JobList {
                    queue,
                    // none that is known: nothing is in it
                    max: match &states {
                        Some((states, false)) if states.is_empty() => 0,
                        _ => number("limit", 100),
                    },
                    held_back: states.as_ref().is_some_and(|(_, paused)| *paused),
                    states: states.map(|(states, _)| states).unwrap_or_default(),
                    offset: number("offset", 0),
                    descending: !is_ascending,
                })
            }
            Op::Dlq | Op::GetDlqStats => JobRequest::List(JobList {
                queue,
                states: vec![JobState::Failed],
                held_back: false,
                offset: 0,
                max: number("count", LIST_JOBS_MAX).min(LIST_JOBS_MAX),
                descending: false,
            }),
            Op::GetCountsPerPriority => JobRequest::Priorities(queue),
            _ => JobRequest::Counts(queue),
        };
        let filter = if call.op == Op::Dlq { fields.map("filter")? } else { None };
        let reason = filter.as_ref().and_then(|filter| filter.text("reason"));
        for name in ["olderThan", "newerThan", "retriable", "expired", "limit", "offset"] {
            if filter.as_ref().is_some_and(|filter| filter.item(name).is_some()) {
                return Err(format!("filter.{name} is not supported yet").into());
            }
        }
        let with = match (&request, reason) {
            (_, Some(reason)) => Beside::Reason(reason.into()),
            (JobRequest::List(JobList { held_back: true, .. }), _) => Beside::HeldBack,
            _ => Beside::Queue(shown.into()),
        };
        self.ask(call, with, false, request);
        Ok(())
    }

    /// Jobs, with their messages.
    pub(super) fn shown(&self, req_id: &ReqId, waiting: &Waiting, jobs: &[JobInfo], out: &mut Outbound) {
        let is_legacy = self.is_legacy;
        match waiting.op {
            Op::GetJob | Op::GetJobByCustomId => {
                let with = if waiting.op == Op::GetJob { With::State } else { With::Nothing };
                match jobs.first() {
                    Some(job) => put_ok(req_id, out, |map| put_job(map.name("job"), job, with, is_legacy)),
                    None => put_error(req_id, "Job not found", out),
                }
            }
            Op::GetDlqStats => put_data(req_id, out, |map| self.put_stats(map, waiting, jobs)),
            op => {
                let bytes = |job: &JobInfo| job.frame.data().len() + 2048;
                let mut sum = 0;
                let of_reason = |job: &&JobInfo| match &waiting.with {
                    Beside::Reason(reason) => dead_reason(job) == &**reason,
                    _ => true,
                };
                let fitting = jobs.iter().filter(of_reason).take_while(|job| {
                    sum += bytes(job);
                    Self::fits(sum)
                });
                let jobs: Vec<&JobInfo> = fitting.collect();
                put_ok(req_id, out, |map| {
                    let with = match (op, &waiting.with) {
                        (Op::GetJobs, Beside::HeldBack) => With::Paused,
                        (Op::GetJobs, _) => With::State,
                        _ => With::Nothing,
                    };
                    let buffer = map.name("jobs");
                    put_list_head(buffer, jobs.len());
                    jobs.iter().for_each(|job| put_job(buffer, job, with, is_legacy));
                    if op == Op::Dlq {
                        let buffer = map.name("entries");
                        put_list_head(buffer, jobs.len());
                        jobs.iter().for_each(|job| put_dead(buffer, job, is_legacy));
                    }
                });
            }
        }
    }

    fn put_stats(&self, map: &mut crate::codec::MapWriter<'_>, waiting: &Waiting, jobs: &[JobInfo]) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let mut stats = map.map("stats");
        stats.int("total", number(jobs.len()));
        let mut by = stats.map("byReason");
        for reason in REASONS {
            by.int(reason, number(jobs.iter().filter(|job| dead_reason(job) == reason).count()));
        }
        by.end();
        let mut by = stats.map("byQueue");
        if let (Beside::Queue(queue), false) = (&waiting.with, jobs.is_empty()) {
            by.int(queue, number(jobs.len()));
        }
        by.end();
        let pending = jobs.iter().filter(|job| job.care.revival_ms(&job.job).is_some());
        stats.int("pendingRetry", number(pending.count()));
        stats.int("expired", 0);
        let times = jobs.iter().filter_map(|job| job.job.finished_ms);
        stats.int_or_nil("oldestEntry", times.clone().min().map(ms));
        stats.int_or_nil("newestEntry", times.max().map(ms));
        stats.end();
    }

    /// Jobs of a queue by priority.
    pub(super) fn by_priority(req_id: &ReqId, waiting: &Waiting, counts: &[(i32, u64)], out: &mut Outbound) {
        put_ok(req_id, out, |map| {
            if let Beside::Queue(queue) = &waiting.with {
                map.text("queue", queue);
            }
            let mut by = map.map("counts");
            for (priority, count) in counts {
                by.int(&priority.to_string(), ms(*count));
            }
            by.end();
        });
    }

    /// Jobs of a queue by state.
    pub(super) fn counted(req_id: &ReqId, waiting: &Waiting, counts: &JobCounts, out: &mut Outbound) {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        match waiting.op {
            Op::IsPaused => put_ok(req_id, out, |map| map.bool("paused", counts.is_paused)),
            Op::Count => put_ok(req_id, out, |map| {
                map.int("count", number(counts.waiting + counts.prioritized + counts.delayed));
            }),
            _ => put_ok(req_id, out, |map| {
                let ready = counts.waiting + counts.prioritized;
                let (waiting, prioritized, paused) = match counts.is_paused {
                    true => (0, 0, ready),
                    false => (counts.waiting, counts.prioritized, 0),
                };
                let mut map = map.map("counts");
                map.int("waiting", number(waiting));
                map.int("prioritized", number(prioritized));
                map.int("delayed", number(counts.delayed));
                map.int("active", number(counts.active));
                map.int("completed", number(counts.completed));
                map.int("failed", number(counts.failed));
                map.int("waiting-children", 0);
                map.int("paused", number(paused));
                map.end();
            }),
        }
    }
}

/// The states that a list is asked for, and whether "paused" is among them; None: any. Words that are no state are in none.
fn states<'a>(item: Option<Item<'a>>) -> Option<(Vec<JobState>, bool)> {
    let words = match item? {
        Item::Text(text) => vec![text],
        Item::List(list) if list.count() > 0 => {
            let text = |raw: Raw<'a>| match raw.item() {
                Item::Text(text) => Some(text),
                _ => None,
            };
            list.filter_map(text).collect()
        }
        _ => return None,
    };
    Some((words.iter().filter_map(|word| state(word)).collect(), words.contains(&PAUSED)))
}
