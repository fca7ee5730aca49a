//! How fast the jobs of a queue are handed out: a bucket of tokens, and how many may be worked on at once. What is left in a
//! bucket is volatile: after a start it is full.

use framegate_storage::Lsn;

use super::Answered;
use crate::error::BrokerError;
use crate::fold::Core;
use crate::fold::timers::Timer;
use crate::ids::{ConnectionId, QueueId};
use crate::job::{JobRate, JobRules};
use crate::name::Name;
use crate::record::Record;
use crate::request::{JobLimits, JobReply};

/// What may be handed out still.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    rate: JobRate,
    /// Monotonic time in ms at which it is full, if nothing is taken.
    full_ms: f64,
    /// Monotonic time in ms of the timer that waits for the next one; 0: there is none.
    timer_ms: u64,
}

impl Bucket {
    /// ms that one token takes.
    fn each_ms(&self) -> f64 {
        self.rate.per_ms as f64 / f64::from(self.rate.max)
    }

    /// Monotonic time in ms from which a token is there.
    fn ready_ms(&self) -> u64 {
        // what is missing never exceeds the whole but by the one that is wanted
        (self.full_ms - self.each_ms() * f64::from(self.rate.max - 1)).ceil().max(0.0) as u64
    }
}

impl Core {
    /// One more message of a queue may be handed out now. When one may be later, the queue is looked at then.
    pub(in crate::fold) fn may_hand_out(&mut self, queue: QueueId) -> bool {
        let Some(rules) = self.durable.jobs.rules(queue).copied() else { return true };
        let leased = self.live.get(&queue).map_or(0, |live| live.leased);
        if rules.concurrency.is_some_and(|max| leased >= u64::from(max)) {
            return false;
        }
        let Some(rate) = self.rate_now(&rules) else { return true };
        let now_ms = self.now.mono_ms;
        let bucket = self.jobs.buckets.entry(queue).or_insert(Bucket { rate, full_ms: 0.0, timer_ms: 0 });
        if bucket.rate != rate {
            *bucket = Bucket { rate, full_ms: 0.0, timer_ms: bucket.timer_ms };
        }
        let ready_ms = bucket.ready_ms();
        if ready_ms > now_ms && bucket.timer_ms <= now_ms {
            bucket.timer_ms = ready_ms;
            self.timers.add(ready_ms, Timer::Look(queue));
        }
        ready_ms <= now_ms
    }

    /// The rate, unless its time is over.
    fn rate_now(&self, rules: &JobRules) -> Option<JobRate> {
        rules.rate.filter(|rate| rate.until_ms.is_none_or(|until| until > self.now.wall_ms))
    }

    /// One more was handed out.
    pub(in crate::fold) fn count_handed_out(&mut self, queue: QueueId) {
        if let Some(bucket) = self.jobs.buckets.get_mut(&queue) {
            bucket.full_ms = bucket.full_ms.max(self.now.mono_ms as f64) + bucket.each_ms();
        }
    }

    /// Somebody has less of a queue: another one may be handed out.
    pub(in crate::fold) fn fewer_at_once(&mut self, queue: QueueId) {
        if self.durable.jobs.rules(queue).is_some_and(|rules| rules.concurrency.is_some()) {
            self.mark_dirty(queue);
        }
    }

    /// Other rules for a queue, which is made when it is missing.
    pub(super) fn rule_jobs(
        &mut self,
        connection: ConnectionId,
        vhost: &Name,
        queue: &Name,
        change: impl FnOnce(&mut JobRules),
    ) -> Answered {
        let id = self.home_of(connection, vhost, queue)?;
        let old = self.durable.jobs.rules(id).copied().unwrap_or_default();
        let mut rules = old;
        change(&mut rules);
        let is_valid =
            rules.concurrency != Some(0) && rules.rate.is_none_or(|rate| rate.max > 0 && rate.per_ms > 0);
        if !is_valid {
            return Err(BrokerError::NotSupported { what: "a limit of nothing" });
        }
        if rules.rate.is_none() {
            self.jobs.buckets.remove(&id);
        }
        let gate = match rules == old {
            true => Lsn(0),
            false => self.log(Record::JobRules { queue: id, rules }, None, true).0,
        };
        self.mark_dirty(id);
        Ok((gate, JobReply::Done))
    }

    /// The rules of a queue as they are now.
    pub(super) fn job_limits(&self, vhost: &Name, queue: &Name) -> JobLimits {
        let Some(id) = self.job_queue(vhost, queue) else { return JobLimits::default() };
        let rules = self.durable.jobs.rules(id).copied().unwrap_or_default();
        let rate = self.rate_now(&rules);
        let leased = self.live.get(&id).map_or(0, |live| live.leased);
        JobLimits {
            rate,
            rate_ends_in_ms: rate.and_then(|rate| Some(rate.until_ms?.saturating_sub(self.now.wall_ms))),
            concurrency: rules.concurrency,
            is_maxed: rules.concurrency.is_some_and(|max| leased >= u64::from(max)),
        }
    }
}
