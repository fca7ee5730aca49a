//! Workers that say that they are there. Only shown: who may work on what is decided by locks.

use std::sync::Arc;

use framegate_storage::Lsn;

use super::Answered;
use crate::error::BrokerError;
use crate::fold::Core;
use crate::ids::ConnectionId;
use crate::limits::{JOB_WORKER_MS, JOB_WORKERS_MAX};
use crate::name::Name;
use crate::request::{JobReply, JobWorker};

impl Core {
    /// Workers that were not heard for too long are gone.
    fn forget_silent_workers(&mut self) {
        let now_ms = self.now.wall_ms;
        self.jobs.workers.retain(|_, (_, worker)| worker.seen_ms.saturating_add(JOB_WORKER_MS) > now_ms);
    }

    pub(super) fn register_worker(
        &mut self,
        id: ConnectionId,
        vhost: &Name,
        mut worker: JobWorker,
    ) -> Answered {
        self.forget_silent_workers();
        worker.seen_ms = self.now.wall_ms;
        if worker.since_ms == 0 {
            worker.since_ms = self.now.wall_ms;
        }
        let key = (vhost.clone(), Arc::clone(&worker.id));
        if self.jobs.workers.len() >= JOB_WORKERS_MAX && !self.jobs.workers.contains_key(&key) {
            return Err(BrokerError::Limit { what: "workers", max: JOB_WORKERS_MAX as u64 });
        }
        self.jobs.workers.insert(key, (id, worker.clone()));
        Ok((Lsn(0), JobReply::Workers(vec![worker])))
    }

    pub(super) fn worker_beat(&mut self, vhost: &Name, id: &Arc<str>, counts: Option<[u64; 3]>) -> Answered {
        self.forget_silent_workers();
        let now_ms = self.now.wall_ms;
        let known = self.jobs.workers.get_mut(&(vhost.clone(), Arc::clone(id)));
        let count = known.map_or(0, |(_, worker)| {
            worker.seen_ms = now_ms;
            worker.counts = counts.unwrap_or(worker.counts);
            1
        });
        Ok((Lsn(0), JobReply::Count(count)))
    }

    pub(super) fn unregister_worker(&mut self, vhost: &Name, id: &Arc<str>) -> Answered {
        let was = self.jobs.workers.remove(&(vhost.clone(), Arc::clone(id)));
        Ok((Lsn(0), JobReply::Count(u64::from(was.is_some()))))
    }

    pub(super) fn list_workers(&mut self, vhost: &Name) -> Answered {
        self.forget_silent_workers();
        let own = self.jobs.workers.iter().filter(|((of, _), _)| of == vhost);
        let mut own: Vec<JobWorker> = own.map(|(_, (_, worker))| worker.clone()).collect();
        own.sort_by_key(|worker| worker.since_ms);
        Ok((Lsn(0), JobReply::Workers(own)))
    }

    /// A connection ends, and with it the workers that came over it.
    pub(in crate::fold) fn workers_gone(&mut self, id: ConnectionId) {
        self.jobs.workers.retain(|_, (of, _)| *of != id);
    }
}
