//! Workers that register.

use std::sync::Arc;

use framegate_adaptor_api::Outbound;
use framegate_broker::{JobRequest, JobWorker};
use uuid::Uuid;

use super::{Beside, Call, Conversation, Waiting};
use crate::codec::{MapWriter, put_list_head, put_texts};
use crate::commands::{Fields, Op, Refusal};
use crate::job::ms;
use crate::reply::{ReqId, put_data};

/// A worker that was heard so long before another one, in ms, does not count as active.
const ACTIVE_MS: u64 = 30_000;

fn count(fields: &Fields<'_>, name: &str) -> Option<u64> {
    fields.lenient(name).map(|count| u64::try_from(count).unwrap_or(0))
}

impl Conversation {
    pub(super) fn worker(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let fields = call.fields;
        let request = match call.op {
            Op::RegisterWorker => JobRequest::Register(JobWorker {
                id: fields.text("workerId").map_or_else(|| Uuid::now_v7().to_string().into(), Arc::from),
                name: Arc::from(fields.need_text("name")?),
                queues: fields
                    .texts("queues")?
                    .ok_or("queues is required")?
                    .into_iter()
                    .map(Arc::from)
                    .collect(),
                concurrency: count(fields, "concurrency").unwrap_or(1),
                host: fields.text("hostname").map(Arc::from),
                process: count(fields, "pid").unwrap_or(0),
                since_ms: count(fields, "startedAt").unwrap_or(0),
                seen_ms: 0,
                counts: [0; 3],
            }),
            Op::Heartbeat => {
                let counts = ["activeJobs", "processed", "failed"].map(|name| count(fields, name));
                let given = counts.iter().any(Option::is_some);
                let counts = given.then(|| counts.map(Option::unwrap_or_default));
                JobRequest::Beat(Arc::from(fields.need_text("id")?), counts)
            }
            Op::UnregisterWorker => JobRequest::Unregister(Arc::from(fields.need_text("workerId")?)),
            _ => JobRequest::Workers,
        };
        self.ask(call, Beside::Nothing, false, request);
        Ok(())
    }

    pub(super) fn workers(req_id: &ReqId, waiting: &Waiting, workers: &[JobWorker], out: &mut Outbound) {
        if waiting.op == Op::RegisterWorker {
            return put_data(req_id, out, |map| {
                if let Some(worker) = workers.first() {
                    map.text("workerId", &worker.id);
                    put_worker(map, worker);
                }
            });
        }
        let sum = |count: fn(&JobWorker) -> u64| ms(workers.iter().map(count).sum());
        let newest = workers.iter().map(|worker| worker.seen_ms).max().unwrap_or(0);
        put_data(req_id, out, |map| {
            let buffer = map.name("workers");
            put_list_head(buffer, workers.len());
            for worker in workers {
                let mut entry = MapWriter::begin(buffer);
                entry.text("id", &worker.id);
                put_worker(&mut entry, worker);
                entry.int("uptime", ms(worker.seen_ms.saturating_sub(worker.since_ms)));
                entry.end();
            }
            let mut stats = map.map("stats");
            stats.int("total", ms(workers.len() as u64));
            let active = workers.iter().filter(|worker| worker.seen_ms + ACTIVE_MS > newest).count();
            stats.int("active", ms(active as u64));
            stats.int("totalProcessed", sum(|worker| worker.counts[1]));
            stats.int("totalFailed", sum(|worker| worker.counts[2]));
            stats.int("activeJobs", sum(|worker| worker.counts[0]));
            stats.int("concurrencySlots", sum(|worker| worker.concurrency));
            stats.end();
        });
    }
}

fn put_worker(map: &mut MapWriter<'_>, worker: &JobWorker) {
    map.text("name", &worker.name);
    put_texts(map.name("queues"), worker.queues.iter().map(|queue| &**queue));
    map.int("concurrency", ms(worker.concurrency));
    map.text("hostname", worker.host.as_deref().unwrap_or("unknown"));
    map.int("pid", ms(worker.process));
    map.text("status", "active");
    map.int("registeredAt", ms(worker.since_ms));
    map.int("lastSeen", ms(worker.seen_ms));
    map.int("activeJobs", ms(worker.counts[0]));
    map.int("processedJobs", ms(worker.counts[1]));
    map.int("failedJobs", ms(worker.counts[2]));
    map.nil("currentJob");
}
