//! Sends the events of one subscription: a member of its consumer group whose deliveries become requests. A request that hangs holds
//! up no other subscription, and of this one no more than its share. Never changes the subscription; says when it must end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use framegate_adaptor_api::Egress;
use framegate_broker::{
    Broker, BrokerError, Connection, Consume, ConsumerId, Define, Delivery, Effect, GroupStart, HeaderTable,
    Lease, Member, Name, Outbox, Outcome, Position, Principal, Request, RequestId, Seq, Settle,
};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::attempt::{Done, Post};
use super::counters::COUNTERS;
use super::engine::Command;
use super::history::{Attempt, History};
use super::message::Mode;
use super::record::Record;
use super::spec::ClientErrors;
use super::verdict::{self, Pace, Verdict};
use crate::filter::Filters;
use crate::http::now_ms;
use crate::limits::{HOOK_AGAIN, HOOK_BATCH_BYTES};
use crate::metrics::Counters;

const CONSUMER: ConsumerId = ConsumerId(1);

/// What a worker is made of.
pub(crate) struct Job {
    pub(crate) record: Arc<Record>,
    pub(crate) broker: Broker,
    pub(crate) vhost: Name,
    pub(crate) headers: Arc<HeaderTable>,
    pub(crate) post: Arc<Post>,
    pub(crate) filters: Filters,
    pub(crate) history: Arc<History>,
    /// Turns true when the subscription changes or pauses.
    pub(crate) stop: watch::Receiver<bool>,
    /// Turns true when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Hears when the subscription must be disabled.
    pub(crate) tell: mpsc::Sender<Command>,
    /// A subscription whose attempts have all failed for so long is disabled.
    pub(crate) disable_after: Option<Duration>,
}

/// How a session with the broker ended.
enum End {
    /// It was told to stop, or the broker has.
    Over,
    /// It may begin again.
    Again,
}

impl Job {
    /// Sends until it is told to stop.
    pub(crate) async fn run(self) {
        let mut stop = self.stop.clone();
        let mut pace = Pace::new(self.record.rate());
        let began = Instant::now();
        loop {
            match self.session(&mut pace, began).await {
                Ok(End::Over) | Err(BrokerError::Stopping | BrokerError::StorageFailed) => return,
                Ok(End::Again) => {}
                Err(error) => {
                    tracing::warn!(webhook = %self.record.id, %error, "a web hook cannot take its events");
                }
            }
            tokio::select! {
                () = sleep(HOOK_AGAIN) => {}
                () = told(&mut stop) => return,
            }
        }
    }

    async fn session(&self, pace: &mut Pace, began: Instant) -> Result<End, BrokerError> {
        // its rights were looked at when it was made
        let owner = Principal::unrestricted(Name::new(&self.record.owner)?);
        let label = format!("webhook {}", self.record.id);
        let (connection, outbox) = self.broker.connect(&owner, &self.vhost, &label)?;
        let Some(group) = self.record.group(GroupStart::Earliest) else { return Ok(End::Over) };
        let (topic, name) = (group.topic.clone(), group.name.clone());
        let prefetch = match self.record.spec.mode {
            Mode::Batched => self.record.spec.inflight_max.saturating_mul(self.record.spec.batch_max),
            Mode::Binary | Mode::Structured => self.record.spec.inflight_max,
        };
        let consume = Consume {
            consumer: CONSUMER,
            queue: topic,
            prefetch: Some(prefetch),
            pool: None,
            exclusive: false,
            auto_ack: false,
            lease_ms: None,
            tokens: false,
            priority: 0,
        };
        connection
            .submit(vec![
                // it is there, unless the topic was deleted
                (RequestId(1), Request::Define(Define::Group(group))),
                (RequestId(2), Request::ConsumeGroup(consume, Member::of(name))),
            ])
            .await?;
        let mut session = Session {
            job: self,
            connection,
            outbox,
            requests: 2,
            waiting: VecDeque::new(),
            running: FuturesUnordered::new(),
            pace,
            began,
            ending: false,
        };
        session.run().await
    }
}

/// An event that waits for its request.
struct Waiting {
    delivery: Delivery,
    since: Instant,
    /// It is sent by itself: the batch that it was in was called bad.
    alone: bool,
}

struct Session<'j> {
    job: &'j Job,
    connection: Connection,
    outbox: Outbox,
    requests: u64,
    waiting: VecDeque<Waiting>,
    running: FuturesUnordered<BoxFuture<'static, Done>>,
    pace: &'j mut Pace,
    began: Instant,
    /// Nothing new is begun.
    ending: bool,
}

impl Session<'_> {
    async fn run(&mut self) -> Result<End, BrokerError> {
        let (mut stop, mut stopping) = (self.job.stop.clone(), self.job.stopping.clone());
        loop {
            let wake = self.begin();
            if self.ending && self.running.is_empty() {
                return Ok(End::Over);
            }
            tokio::select! {
                effects = self.outbox.recv() => {
                    let Some(effects) = effects else { return Ok(End::Over) };
                    if self.hear(effects).await? {
                        return Ok(End::Again);
                    }
                }
                Some(done) = self.running.next(), if !self.running.is_empty() => self.settle(done).await?,
                () = sleep_until(wake.unwrap_or(self.began)), if wake.is_some() => {}
                () = told(&mut stop), if !self.ending => self.ending = true,
                () = told(&mut stopping), if !self.ending => {
                    // what is under way is settled; the rest stays leased until the broker has stopped, which is no failure of it
                    return self.outlive().await;
                }
            }
        }
    }

    /// The server stops: what is under way may still be settled.
    async fn outlive(&mut self) -> Result<End, BrokerError> {
        loop {
            tokio::select! {
                effects = self.outbox.recv() => if effects.is_none() { return Ok(End::Over) },
                Some(done) = self.running.next(), if !self.running.is_empty() => self.settle(done).await?,
            }
        }
    }

    /// Begins what can be begun now, and says when there is more to do.
    fn begin(&mut self) -> Option<Instant> {
        let spec = &self.job.record.spec;
        loop {
            let under_way = self.running.len() >= self.pace.concurrency(spec.inflight_max as usize);
            if self.ending || under_way || self.waiting.is_empty() {
                return None;
            }
            let now = Instant::now();
            let next = self.began + self.pace.next();
            if next > now {
                return Some(next);
            }
            let count = match self.batch(now) {
                Ok(count) => count,
                Err(later) => return Some(later),
            };
            let deliveries: Vec<Delivery> =
                self.waiting.drain(..count).map(|waiting| waiting.delivery).collect();
            self.pace.sent(now - self.began);
            Counters::add(&COUNTERS.attempts, 1);
            let (post, record, headers) =
                (Arc::clone(&self.job.post), Arc::clone(&self.job.record), Arc::clone(&self.job.headers));
            self.running.push(Box::pin(async move { post.attempt(&record, deliveries, &headers).await }));
        }
    }

    /// How many of those that wait go into the next request, or when to look again.
    fn batch(&self, now: Instant) -> Result<usize, Instant> {
        let spec = &self.job.record.spec;
        let first = self.waiting.front();
        if spec.mode != Mode::Batched || first.is_some_and(|first| first.alone) {
            return Ok(1);
        }
        let (mut bytes, mut count) = (0, 0);
        for waiting in self.waiting.iter().take(spec.batch_max as usize).take_while(|waiting| !waiting.alone)
        {
            bytes += waiting.delivery.frame.as_bytes().len();
            if count > 0 && bytes > HOOK_BATCH_BYTES {
                return Ok(count);
            }
            count += 1;
        }
        let full = count == spec.batch_max as usize || count < self.waiting.len();
        let until = first.map(|first| first.since + Duration::from_millis(spec.batch_wait_ms));
        match until.filter(|until| *until > now && !full) {
            Some(until) => Err(until),
            None => Ok(count.max(1)),
        }
    }

    /// Takes what the broker says. Whether the group is gone.
    async fn hear(&mut self, effects: Vec<Effect>) -> Result<bool, BrokerError> {
        let mut passed_over = Vec::new();
        let mut gone = false;
        for effect in effects {
            match effect {
                Effect::Reply(RequestId(1 | 2), Err(error)) => return Err(error),
                Effect::Delivery(delivery) => {
                    let egress = egress(&delivery, &self.job.headers);
                    if self.job.filters.pass_message(egress) {
                        self.waiting.push_back(Waiting { delivery, since: Instant::now(), alone: false });
                    } else {
                        passed_over.push(delivery);
                    }
                }
                Effect::Cancelled { .. } => gone = true,
                _ => {}
            }
        }
        Counters::add(&COUNTERS.filtered, passed_over.len() as u64);
        self.tell_broker(passed_over.iter().map(|delivery| (delivery, Outcome::Ack)).collect()).await?;
        Ok(gone)
    }

    /// Settles the events of a request by its answer.
    async fn settle(&mut self, done: Done) -> Result<(), BrokerError> {
        let now = self.began.elapsed();
        let spec = &self.job.record.spec;
        let verdict = match &done.answer {
            Ok(status) => verdict::of_status(*status, spec.retry.client_errors == ClientErrors::Retry),
            Err(_) => Verdict::Retry,
        };
        // a receiver that answers is there, whatever it says of an event
        match verdict {
            Verdict::Delivered | Verdict::Reject => self.pace.succeeded(),
            Verdict::Retry | Verdict::Gone => {
                self.pace.failed(now, done.retry_after);
                Counters::add(&COUNTERS.throttled, u64::from(self.pace.next() > now));
            }
        }
        self.remember(&done, verdict);
        let refused = done.undeliverable.iter().map(|delivery| (delivery, Outcome::Undeliverable)).collect();
        self.tell_broker(refused).await?;
        if verdict == Verdict::Reject && done.deliveries.len() > 1 {
            // perhaps only one of them is bad
            let since = Instant::now();
            for delivery in done.deliveries.into_iter().rev() {
                self.waiting.push_front(Waiting { delivery, since, alone: true });
            }
            return Ok(());
        }
        let outcomes =
            done.deliveries.iter().map(|delivery| (delivery, self.outcome(verdict, delivery))).collect();
        self.tell_broker(outcomes).await?;
        let failing = self.job.disable_after.is_some_and(|after| self.pace.failing_for(now) >= after);
        if verdict == Verdict::Gone || failing {
            self.disable(if failing { "failing" } else { "gone" });
        }
        Ok(())
    }

    fn outcome(&self, verdict: Verdict, delivery: &Delivery) -> Outcome {
        let retry = &self.job.record.spec.retry;
        let now = now_ms();
        let too_old =
            retry.age_ms_max.is_some_and(|most| now.saturating_sub(delivery.envelope.time_ms) > most);
        let (counter, outcome) = match verdict {
            Verdict::Delivered => (&COUNTERS.delivered, Outcome::Ack),
            Verdict::Reject => (&COUNTERS.rejected, Outcome::Reject),
            // it waits for the subscription to be enabled
            Verdict::Gone => (&COUNTERS.retried, Outcome::Requeue { delay_ms: 1 }),
            Verdict::Retry if too_old || delivery.attempt >= retry.attempts_max => {
                (&COUNTERS.rejected, Outcome::Reject)
            }
            Verdict::Retry => {
                let chance = uuid::Uuid::new_v4().as_u64_pair().1;
                let delay_ms = verdict::wait_ms(&retry.schedule_ms, delivery.attempt, chance).max(1);
                (&COUNTERS.retried, Outcome::Requeue { delay_ms })
            }
        };
        Counters::add(counter, 1);
        outcome
    }

    /// Settles deliveries and gives their bytes back to the window.
    async fn tell_broker(&mut self, outcomes: Vec<(&Delivery, Outcome)>) -> Result<(), BrokerError> {
        let mut requests: Vec<(RequestId, Request)> = Vec::new();
        let mut bytes = 0;
        for (delivery, outcome) in outcomes {
            bytes += delivery.window_bytes();
            let Position::Queue(seq) = delivery.position else { continue };
            if let Some((_, Request::Settle(Settle { lease: Lease::Positions(_, seqs), outcome: last, .. }))) =
                requests.last_mut()
                && *last == outcome
            {
                seqs.push(seq);
                continue;
            }
            self.requests += 1;
            requests.push((RequestId(self.requests), settle(seq, outcome)));
        }
        if bytes > 0 {
            self.connection.written(bytes);
        }
        if requests.is_empty() {
            return Ok(());
        }
        self.connection.submit(requests).await
    }

    fn disable(&mut self, reason: &'static str) {
        if !std::mem::replace(&mut self.ending, true) {
            let id = self.job.record.id.clone();
            let version = self.job.record.version;
            // a full queue: the next failure says it again, when the worker has begun anew
            self.ending = self.job.tell.try_send(Command::Disable { id, version, reason }).is_ok();
        }
    }

    fn remember(&self, done: &Done, verdict: Verdict) {
        let outcome = match verdict {
            Verdict::Delivered => "delivered",
            Verdict::Retry => "retry",
            Verdict::Reject => "rejected",
            Verdict::Gone => "gone",
        };
        self.job.history.push(Attempt {
            id: done.id.clone(),
            events: done.deliveries.len(),
            number: done.deliveries.first().map_or(1, |delivery| delivery.attempt),
            at_ms: done.at_ms,
            duration_ms: done.duration_ms,
            answer: done.answer.clone().map_err(|error| error.to_string()),
            outcome,
        });
    }
}

fn settle(seq: Seq, outcome: Outcome) -> Request {
    Request::Settle(Settle { lease: Lease::Positions(CONSUMER, vec![seq]), outcome, answer: false })
}

/// Waits until the signal is given, or nobody can give it any more.
async fn told(signal: &mut watch::Receiver<bool>) {
    drop(signal.wait_for(|told| *told).await);
}

/// A delivery as adaptors see it.
pub(crate) fn egress<'a>(delivery: &'a Delivery, headers: &'a HeaderTable) -> Egress<'a> {
    Egress { envelope: &delivery.envelope, frame: &delivery.frame, origin: &delivery.origin, headers }
}
