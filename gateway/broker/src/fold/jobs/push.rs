//! Making jobs.

use std::sync::Arc;

use framegate_storage::Lsn;

use super::Answered;
use crate::definition::{PriorityMode, QueueProperties, QueueSpec};
use crate::error::BrokerError;
use crate::fold::Core;
use crate::ids::{ConnectionId, QueueId};
use crate::job::{Job, JobId, JobPhase, JobState, JobStep};
use crate::message::Envelope;
use crate::name::Name;
use crate::request::{JobError, JobEventKind, JobReply, NewJob};
use crate::state::{JobEntry, VOLATILE_BIT};

impl Core {
    /// Makes jobs, in order. One that a full queue refuses ends it; those before it stay.
    pub(super) fn push_jobs(
        &mut self,
        connection: ConnectionId,
        vhost: &Name,
        jobs: Vec<NewJob>,
    ) -> Answered {
        let mut ids = Vec::with_capacity(jobs.len());
        for job in jobs {
            ids.push(self.push_job(connection, vhost, job)?);
        }
        Ok((self.newest(), JobReply::Pushed(ids)))
    }

    /// The queue of a job, made when it is missing: durable, by priority, and nothing is seen in it before it is durable.
    pub(super) fn home_of(
        &mut self,
        connection: ConnectionId,
        vhost: &Name,
        name: &Name,
    ) -> Result<QueueId, BrokerError> {
        if let Some(known) = self.job_queue(vhost, name) {
            if known.0 & VOLATILE_BIT != 0 {
                return Err(BrokerError::NotSupported { what: "a job in a queue that is not durable" });
            }
            return self.usable(connection, vhost, name);
        }
        let properties = QueueProperties {
            deliver_durable: true,
            priority: PriorityMode::Full,
            ..QueueProperties::default()
        };
        let spec = QueueSpec { name: name.clone(), durable: true, properties, ..QueueSpec::default() };
        self.make_queue(connection, vhost, spec)
    }

    fn push_job(
        &mut self,
        connection: ConnectionId,
        vhost: &Name,
        new: NewJob,
    ) -> Result<JobId, BrokerError> {
        if let Some(id) = &new.id
            && let Some(entry) = self.durable.jobs.get(vhost, id).cloned()
        {
            if entry.job.phase == JobPhase::Queued {
                return Ok(JobId::clone(id));
            }
            self.remove_job(&entry);
        }
        let home = self.home_of(connection, vhost, &new.queue)?;
        let mut terms = new.terms;
        let now_ms = self.now.wall_ms;
        if let Some(unique) = &mut terms.unique {
            if let Some(holder) = self.hold_key(vhost, home, unique)? {
                return Ok(holder);
            }
            unique.until_ms = unique.ttl_ms.map(|ttl| now_ms.saturating_add(ttl));
        }
        let created_ms = new.created_ms.unwrap_or(now_ms);
        let run_ms = created_ms.saturating_add(new.delay_ms);
        let deliver_at_ms = if run_ms > now_ms { run_ms } else { 0 };
        let envelope = Envelope {
            keys: smallvec::smallvec![new.queue.clone()],
            persistent: true,
            priority: Some(terms.priority).filter(|priority| *priority != 0),
            newest_first: terms.newest_first,
            deliver_at_ms,
            expires_at_ms: terms.ttl_ms.map_or(0, |ttl| created_ms.saturating_add(ttl).max(1)),
            ttl_ms: terms.ttl_ms,
            time_ms: now_ms,
            ..Envelope::default()
        };
        if let Some(name) = self.refuses(home, &envelope, &new.frame) {
            return Err(BrokerError::QueueFull { name });
        }
        let state = match deliver_at_ms {
            0 if terms.priority > 0 => JobState::Prioritized,
            0 => JobState::Waiting,
            _ => JobState::Delayed,
        };
        let is_named = new.id.is_some();
        let id = new.id.unwrap_or_else(|| Arc::from(uuid::Uuid::now_v7().to_string()));
        let len = u32::try_from(new.frame.as_bytes().len()).unwrap_or(u32::MAX);
        let (seq, _) = self.put_message(home, envelope, Some(&new.frame), None, len);
        let job = Job {
            id: JobId::clone(&id),
            queue: new.queue.clone(),
            phase: JobPhase::Queued,
            is_named,
            is_passing: false,
            terms,
            created_ms,
            run_ms,
            started_ms: None,
            finished_ms: None,
            attempts: 0,
            stalls: 0,
            revivals: 0,
            revived_ms: None,
            heartbeat_ms: created_ms,
            progress: 0.0,
            progress_message: None,
            stack: None,
            result: None,
            steps: vec![JobStep { state, at_ms: now_ms, error: None, attempt: None }],
            failures: Vec::new(),
            logs: Vec::new(),
        };
        self.put_job(JobEntry { vhost: vhost.clone(), home, place: (home, seq), job });
        self.tell_job(vhost, &new.queue, Some(&id), JobEventKind::Pushed, None);
        Ok(id)
    }

    /// What becomes of a job whose key may be held: the holder's id when it takes the new one's place.
    fn hold_key(
        &mut self,
        vhost: &Name,
        home: QueueId,
        new: &crate::job::JobUnique,
    ) -> Result<Option<JobId>, BrokerError> {
        let holder = self.durable.jobs.holder(home, &new.key).cloned();
        let Some(holder) = holder.and_then(|id| self.durable.jobs.get(vhost, &id).cloned()) else {
            return Ok(None);
        };
        let until_ms = holder.job.terms.unique.as_ref().and_then(|unique| unique.until_ms);
        if until_ms.is_some_and(|until| until <= self.now.wall_ms) {
            return Ok(None);
        }
        let id = JobId::clone(&holder.job.id);
        let is_active = self.job_state(&holder) == JobState::Active;
        if new.replace {
            if !is_active {
                self.remove_job(&holder);
            }
            return Ok(None);
        }
        if let (true, Some(ttl_ms)) = (new.extend, new.ttl_ms) {
            if is_active {
                return Err(BrokerError::Job(JobError::KeyHeld));
            }
            let until_ms = Some(self.now.wall_ms.saturating_add(ttl_ms));
            self.change_entry(&holder, |job| {
                if let Some(unique) = &mut job.terms.unique {
                    (unique.until_ms, unique.ttl_ms) = (until_ms, Some(ttl_ms));
                }
            });
        }
        self.tell_job(vhost, &holder.job.queue, Some(&id), JobEventKind::Duplicated, None);
        Ok(Some(id))
    }

    /// Holds the jobs of a queue back, or lets them go on.
    pub(super) fn pause_jobs(
        &mut self,
        connection: ConnectionId,
        vhost: &Name,
        queue: Name,
        paused: bool,
    ) -> Answered {
        let id = self.home_of(connection, vhost, &queue)?;
        let mut gate = Lsn(0);
        if self.durable.jobs.is_paused(id) != paused {
            gate = self.log(crate::record::Record::PauseJobs { queue: id, paused }, None, true).0;
            self.mark_dirty(id);
        }
        let kind = if paused { JobEventKind::Paused } else { JobEventKind::Resumed };
        self.tell_job(vhost, &queue, None, kind, None);
        Ok((gate, JobReply::Done))
    }
}
