//! Handing out jobs, and keeping them held.

use std::collections::BTreeMap;
use std::sync::Arc;

use framegate_storage::Lsn;

use super::{Active, JobsLive};
use crate::fold::live::{ConsumerLive, Held, Terms};
use crate::fold::timers::Timer;
use crate::fold::{AnswerTo, Core, DETACHED};
use crate::ids::{ConnectionId, ConsumerId, QueueId, Seq};
use crate::job::{Job, JobBackoff, JobGrowth, JobPhase, JobState, JobStep, JobTerms};
use crate::message::{Delivery, Position};
use crate::name::Name;
use crate::request::{Fetch, JobEventKind, JobExtend, JobInfo, JobPull, JobReply, Reply};
use crate::state::JobEntry;

/// Attempts of a message of another protocol that names none.
const PASSING_ATTEMPTS: u32 = 3;
/// Its backoff in ms.
const PASSING_BACKOFF_MS: u64 = 1000;

impl Core {
    /// A pull in its turn. A queue that is not there yet has nothing: whoever waits for it waits in vain, as in an empty one.
    pub(super) fn pull_jobs(&mut self, to: AnswerTo, connection: ConnectionId, vhost: &Name, pull: JobPull) {
        let queue = match self.home_of(connection, vhost, &pull.queue) {
            Ok(queue) => queue,
            Err(error) => return self.answer(to, Lsn(0), Err(error)),
        };
        let fetch = Fetch {
            consumer: pull.consumer,
            queue: pull.queue.clone(),
            max: pull.max,
            wait_ms: pull.wait_ms,
            auto_ack: false,
            lease_ms: pull.lock_ms,
            tokens: pull.lock_ms.is_some(),
        };
        // the number that the wait gets
        let waiter = self.next_waiter + 1;
        self.jobs.pulls.insert(waiter, pull);
        self.fetch_at(to, connection, queue, fetch, None);
        if !self.waiters.contains_key(&waiter) {
            self.jobs.pulls.remove(&waiter);
        }
    }

    /// A message that may be a job was handed out.
    pub(in crate::fold) fn job_taken(
        &mut self,
        queue: QueueId,
        seq: Seq,
        connection: ConnectionId,
        consumer: ConsumerId,
        delivery: &Delivery,
        lock_ms: Option<u64>,
    ) {
        let Some(entry) = self.durable.jobs.at(queue, seq.0).cloned() else { return };
        let now_ms = self.now.wall_ms;
        let active = Active {
            connection,
            consumer,
            token: delivery.token,
            lock_ms,
            began_ms: now_ms,
            heartbeat_ms: now_ms,
            stays: false,
            may_stall: false,
        };
        self.jobs.active.insert((queue, seq.0), active);
        if let Some(timeout_ms) = entry.job.terms.timeout_ms {
            let due = self.now.mono_ms.saturating_add(timeout_ms);
            self.timers.add(due, Timer::JobTimeout(queue, seq.0, now_ms));
        }
        let id = Some(&entry.job.id);
        self.tell_job(&entry.vhost, &entry.job.queue, id, JobEventKind::Pulled, None);
    }

    /// A pull of jobs gets what was handed out to it. What came by another protocol becomes a job in this moment.
    pub(in crate::fold) fn jobs_pulled(
        &mut self,
        to: AnswerTo,
        connection: ConnectionId,
        queue: QueueId,
        pull: &JobPull,
        messages: Vec<Delivery>,
    ) {
        let mut jobs = Vec::with_capacity(messages.len());
        let mut gate = Lsn(0);
        for delivery in messages {
            let Position::Queue(seq) = delivery.position else { continue };
            if self.durable.jobs.at(queue, seq.0).is_none() {
                gate = gate.max(self.adopt(queue, seq, &delivery));
                self.job_taken(queue, seq, connection, pull.consumer, &delivery, pull.lock_ms);
            }
            let Some(entry) = self.durable.jobs.at(queue, seq.0).cloned() else { continue };
            if let Some(active) = self.jobs.active.get_mut(&(queue, seq.0)) {
                active.stays |= pull.detach;
                active.may_stall = active.token.is_none();
            }
            self.listen_for(queue, seq.0);
            jobs.push(self.info(&entry, delivery.frame, delivery.token));
        }
        self.answer(to, gate, Ok(Reply::Job(JobReply::Pulled(jobs))));
    }

    /// A message of another protocol is a job from now on, with the usual terms.
    fn adopt(&mut self, queue: QueueId, seq: Seq, delivery: &Delivery) -> Lsn {
        let Some(state) = self.durable.queue(queue) else { return Lsn(0) };
        let (vhost, name) = (state.vhost.clone(), state.spec.name.clone());
        let terms = JobTerms {
            priority: delivery.envelope.priority.unwrap_or(0),
            newest_first: delivery.envelope.newest_first,
            max_attempts: PASSING_ATTEMPTS,
            backoff: JobBackoff { delay_ms: PASSING_BACKOFF_MS, growth: JobGrowth::Plain },
            ttl_ms: delivery.envelope.ttl_ms,
            timeout_ms: None,
            stall_ms: None,
            remove_on_complete: false,
            remove_on_fail: false,
            stack_lines_max: 10,
            unique: None,
        };
        let created_ms = delivery.envelope.time_ms;
        let job = Job {
            id: Arc::from(uuid::Uuid::now_v7().to_string()),
            queue: name,
            phase: JobPhase::Queued,
            is_named: false,
            is_passing: true,
            terms,
            created_ms,
            run_ms: created_ms,
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
            steps: vec![JobStep { state: JobState::Waiting, at_ms: created_ms, error: None, attempt: None }],
            failures: Vec::new(),
            logs: Vec::new(),
        };
        self.put_job(JobEntry { vhost, home: queue, place: (queue, seq), job })
    }

    /// Renews locks; how many were.
    pub(super) fn extend_jobs(&mut self, vhost: &Name, extends: &[JobExtend]) -> u64 {
        let mut count = 0;
        for extend in extends {
            let Some(entry) = self.durable.jobs.get(vhost, &extend.id).cloned() else { continue };
            let place = (entry.place.0, entry.place.1.0);
            let Some(active) = self.jobs.active.get(&place).copied() else { continue };
            if extend.token.is_none() && extend.needs_token
                || extend.token.is_some() && extend.token != active.token
            {
                continue;
            }
            count += 1;
            let now_ms = self.now.wall_ms;
            if let Some(active) = self.jobs.active.get_mut(&place) {
                active.heartbeat_ms = now_ms;
                if extend.token.is_some() {
                    active.stays = true;
                    active.lock_ms = extend.lock_ms.or(active.lock_ms);
                }
            }
            if let (Some(_), Some(lock_ms)) = (extend.token, extend.lock_ms.or(active.lock_ms)) {
                self.extend(active.connection, active.consumer, &[entry.place.1], lock_ms);
            }
        }
        count
    }

    /// A connection ends: jobs whose lock was renewed stay held, by nobody in particular. Gives the others.
    pub(in crate::fold) fn keep_jobs(
        &mut self,
        queue: QueueId,
        held: BTreeMap<u64, Held>,
    ) -> BTreeMap<u64, Held> {
        let stays =
            |jobs: &JobsLive, seq: u64| jobs.active.get(&(queue, seq)).is_some_and(|active| active.stays);
        if !held.keys().any(|seq| stays(&self.jobs, *seq)) {
            return held;
        }
        let (kept, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            held.into_iter().partition(|(seq, _)| stays(&self.jobs, *seq));
        self.next_holder += 1;
        let consumer = ConsumerId(self.next_holder);
        let mut timer_ms = 0;
        for (seq, held) in &kept {
            if let Some(token) = held.token {
                self.tokens.insert(token, (DETACHED, consumer, *seq));
            }
            if let Some(active) = self.jobs.active.get_mut(&(queue, *seq)) {
                (active.connection, active.consumer) = (DETACHED, consumer);
            }
            if held.deadline_ms != 0 && (timer_ms == 0 || held.deadline_ms < timer_ms) {
                timer_ms = held.deadline_ms;
            }
        }
        let holder = ConsumerLive {
            queue,
            prefetch: None,
            pool: None,
            terms: Terms { auto_ack: false, lease_ms: None, tokens: true },
            priority: 0,
            active: false,
            announced: false,
            in_line: false,
            waits: 0,
            lease_timer_ms: timer_ms,
            held: kept,
        };
        if let Some(detached) = self.connections.get_mut(&DETACHED) {
            detached.consumers.insert(consumer, holder);
        }
        if timer_ms != 0 {
            self.timers.add(timer_ms, Timer::Lease(DETACHED, consumer));
        }
        others
    }

    /// What a client sees of a job.
    pub(super) fn info(
        &self,
        entry: &JobEntry,
        frame: framegate_frame::Frame,
        token: Option<crate::ids::Token>,
    ) -> JobInfo {
        let active = self.jobs.active.get(&(entry.place.0, entry.place.1.0));
        JobInfo {
            job: entry.job.clone(),
            state: self.job_state(entry),
            active_ms: active.map(|active| active.began_ms),
            heartbeat_ms: active.map(|active| active.heartbeat_ms),
            token,
            care: self.durable.jobs.care(entry.home),
            frame,
        }
    }
}
