//! What each operation of a session does: checks, requests, subscriptions. Answers that come later are noted as pending;
//! what the broker then says is handled in `session`.

use framegate_adaptor_api::{Outbound, Secret};
use framegate_broker::{
    Answer, BrokerError, Consume, ConsumerId, Credit, Lease, Name, Outcome, Publish, Request, RequestId, Seq,
    Settle,
};
use serde_json::{Value, json};

use super::answers::Place;
use super::op::{AckMode, Op, Source, Subscribe, Which};
use super::session::{JsonSession, Pending, Phase, Renewal, feed_key};
use super::subs::{Kind, Sub};
use super::write::{answer, error, ok};
use crate::http::problem::Problem;
use crate::limits::{ACK_WAIT, CREDIT_MAX, INFLIGHT_MAX, SUBSCRIPTIONS_MAX};

impl JsonSession {
    /// Carries an operation out. None: its answer comes later.
    pub(super) fn carry_out(
        &mut self,
        op: Op,
        place: Place,
        id: Option<&str>,
        out: &mut Outbound,
    ) -> Result<Option<String>, Problem> {
        match op {
            Op::Hello { token: None, heartbeat_s } => return Ok(Some(self.welcome(id, heartbeat_s))),
            Op::Hello { token: Some(token), .. } => self.renew(place, id, true, token)?,
            Op::Refresh { token } => self.renew(place, id, false, token)?,
            Op::Subscribe(subscribe) => self.subscribe(subscribe, place, id, out)?,
            Op::Unsubscribe { sub } => {
                self.unsubscribe(&sub, out)?;
                return Ok(Some(ok(id, Some(&sub), Value::Null)));
            }
            Op::Publish { topic, events, single } => {
                let (user, vhost) = self.user();
                let mut publishes = self.publisher.read(topic.as_deref(), &events, single, &vhost, &user)?;
                let count = (!single).then_some(publishes.len());
                let request = match (single, publishes.len()) {
                    (_, 0) => return Ok(Some(ok(id, None, json!({"accepted": 0})))),
                    (_, 1) => Request::Publish(publishes.remove(0)),
                    _ => Request::Atomic(publishes.into_iter().map(quiet).collect()),
                };
                self.ask(request, Pending::Publish(place, id.map(str::to_owned), count), out);
            }
            Op::Ack { sub, which } => {
                let entry = self.sub(&sub)?;
                let (consumer, queue) = (entry.consumer, entry.kind != Kind::Topic);
                let positions = match which {
                    Which::Ids(ids) => entry.take(&ids)?,
                    Which::UpTo(cursor) => entry.take_up_to(&cursor)?,
                };
                if !queue {
                    return Ok(Some(ok(id, Some(&sub), Value::Null)));
                }
                self.settle(consumer, positions, Outcome::Ack, (place, id, sub), out);
            }
            Op::Nack { sub, ack_ids, delay_ms, requeue } => {
                let outcome = if requeue { Outcome::Requeue { delay_ms } } else { Outcome::Reject };
                let entry = self.leased(&sub)?;
                let (consumer, positions) = (entry.consumer, entry.take(&ack_ids)?);
                self.settle(consumer, positions, outcome, (place, id, sub), out);
            }
            Op::Extend { sub, ack_ids, by_ms } => {
                let entry = self.leased(&sub)?;
                let (consumer, positions) = (entry.consumer, entry.known(&ack_ids)?);
                self.settle(consumer, positions, Outcome::Extend { lease_ms: by_ms }, (place, id, sub), out);
            }
            Op::Credit { sub, add } => {
                let entry = self.sub(&sub)?;
                entry.credit = entry.credit.saturating_add(add).min(CREDIT_MAX);
                self.tell_credit(&sub, out);
                return Ok(Some(ok(id, Some(&sub), Value::Null)));
            }
            Op::Pause { sub } => {
                self.sub(&sub)?.paused = true;
                self.tell_credit(&sub, out);
                return Ok(Some(ok(id, Some(&sub), Value::Null)));
            }
            Op::Resume { sub } => {
                self.sub(&sub)?.paused = false;
                self.tell_credit(&sub, out);
                return Ok(Some(ok(id, Some(&sub), Value::Null)));
            }
            Op::Ping => return Ok(Some(answer("pong", id, None, Value::Null))),
            Op::Pong => return Ok(Some(String::new())),
        }
        Ok(None)
    }

    pub(super) fn welcome(&self, id: Option<&str>, heartbeat_s: Option<u64>) -> String {
        let connection = if let Phase::In(welcome) = &self.phase { welcome.connection.0 } else { 0 };
        let settings = self.publisher.settings();
        let members = json!({
            "session": format!("s{connection}"),
            "heartbeat": heartbeat_s.unwrap_or(settings.heartbeat_s).clamp(1, 3600),
            "limits": {
                "maxMessage": settings.event_bytes_max, "maxInflight": INFLIGHT_MAX, "maxSubs": SUBSCRIPTIONS_MAX,
            },
            "resumed": false,
        });
        answer("welcome", id, None, members)
    }

    fn renew(&mut self, place: Place, id: Option<&str>, hello: bool, token: Secret) -> Result<(), Problem> {
        if self.renewal.is_some() {
            return Err(Problem::new(409, "busy", "a login is under way"));
        }
        self.renewal = Some(Renewal { place, id: id.map(str::to_owned), hello, token: Some(token) });
        Ok(())
    }

    fn subscribe(
        &mut self,
        subscribe: Subscribe,
        place: Place,
        id: Option<&str>,
        out: &mut Outbound,
    ) -> Result<(), Problem> {
        let Subscribe { sub, source, ack, credit, encoding, filters } = subscribe;
        if self.subs.iter().any(|entry| entry.name == sub) {
            return Err(Problem::new(409, "exists", "this connection has a subscription of that name"));
        }
        if self.subs.len() >= SUBSCRIPTIONS_MAX {
            let max = SUBSCRIPTIONS_MAX as u64;
            return Err(BrokerError::Limit { what: "subscriptions of a connection", max }.into());
        }
        self.next_consumer += 1;
        let consumer = ConsumerId(self.next_consumer);
        let id = id.map(str::to_owned);
        let how = (ack, credit, encoding);
        match source {
            Source::Topic(pattern, from) => {
                let patterns = vec![Name::declared(&pattern)?];
                self.subs.push(Sub::new(sub, consumer, Kind::Topic, how, place).filtered(filters));
                out.subscribe.push((consumer, framegate_broker::Subscribe { patterns, from }));
                // Answered by `subscribed`; kept under the same table, by an id that no request has.
                self.pending.insert(feed_key(consumer), Pending::Consume(place, id, consumer));
            }
            Source::Queue(queue) => {
                let queue = Name::declared(&queue)?;
                self.subs.push(Sub::new(sub, consumer, Kind::Queue(queue.clone()), how, place));
                let consume = consume(consumer, queue, ack, credit);
                self.ask(Request::Consume(consume), Pending::Consume(place, id, consumer), out);
            }
        }
        Ok(())
    }

    fn unsubscribe(&mut self, name: &str, out: &mut Outbound) -> Result<(), Problem> {
        let consumer = self.sub(name)?.consumer;
        let at = self.subs.iter().position(|entry| entry.consumer == consumer);
        let Some(entry) = at.map(|at| self.subs.remove(at)) else { return Ok(()) };
        match entry.kind {
            Kind::Topic => {
                out.unsubscribe.push(consumer);
                if let Some(Pending::Consume(place, id, _)) = self.pending.remove(&feed_key(consumer)) {
                    let gone = Problem::new(409, "unsubscribed", "unsubscribed before it was live");
                    self.answers.put(place, error(id.as_deref(), Some(name), &gone));
                }
            }
            Kind::Queue(_) => {
                // Cancelled first, so that what goes back is not delivered here again.
                for request in [Request::Cancel(consumer), Request::Recover(Some(consumer))] {
                    let id = self.request_id();
                    out.request(id, request);
                }
            }
        }
        Ok(())
    }

    /// Tells the broker how much a queue subscription may hold now.
    fn tell_credit(&mut self, name: &str, out: &mut Outbound) {
        let id = self.request_id();
        let Some(entry) = self.subs.iter().find(|entry| entry.name == name) else { return };
        if let Kind::Queue(_) = entry.kind {
            let credit = match (entry.paused, entry.acks()) {
                (true, _) => Some(0),
                (false, true) => Some(entry.credit),
                (false, false) => auto_prefetch(entry.credit),
            };
            out.request(id, Request::Credit(Credit::Consumer(entry.consumer, credit)));
        }
    }

    fn settle(
        &mut self,
        consumer: ConsumerId,
        positions: Vec<Seq>,
        outcome: Outcome,
        (place, id, sub): (Place, Option<&str>, String),
        out: &mut Outbound,
    ) {
        let settle = Settle { lease: Lease::Positions(consumer, positions), outcome, answer: true };
        self.ask(Request::Settle(settle), Pending::Settle(place, id.map(str::to_owned), sub), out);
    }

    pub(super) fn ask(&mut self, request: Request, pending: Pending, out: &mut Outbound) {
        let id = self.request_id();
        self.pending.insert(id, pending);
        out.request(id, request);
    }

    pub(super) fn request_id(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }

    fn sub(&mut self, name: &str) -> Result<&mut Sub, Problem> {
        let missing = || Problem::new(404, "not_found", "this connection has no subscription of that name");
        self.subs.iter_mut().find(|entry| entry.name == name).ok_or_else(missing)
    }

    /// A subscription whose deliveries are leased.
    fn leased(&mut self, name: &str) -> Result<&mut Sub, Problem> {
        let entry = self.sub(name)?;
        if entry.kind == Kind::Topic {
            return Err(Problem::new(
                400,
                "bad_request",
                "a topic's events are not leased: only ack gives credit back",
            ));
        }
        Ok(entry)
    }

    fn user(&self) -> (Name, Name) {
        match &self.phase {
            Phase::In(welcome) => (welcome.user.clone(), welcome.vhost.clone()),
            _ => (Name::default(), self.vhost.clone()),
        }
    }
}

/// A publish inside a block, which is answered as one.
fn quiet(publish: Publish) -> Request {
    Request::Publish(Publish { answer: Answer::None, ..publish })
}

/// The consumer of a queue subscription.
pub(super) fn consume(consumer: ConsumerId, queue: Name, ack: AckMode, credit: u32) -> Consume {
    let auto_ack = ack == AckMode::Auto;
    Consume {
        consumer,
        queue,
        prefetch: if auto_ack { auto_prefetch(credit) } else { Some(credit) },
        pool: None,
        exclusive: false,
        auto_ack,
        lease_ms: (!auto_ack).then_some(ACK_WAIT.as_millis() as u64),
        tokens: false,
        priority: 0,
    }
}

/// Without acks the connection's window is the limit; no credit means nothing at all.
fn auto_prefetch(credit: u32) -> Option<u32> {
    (credit == 0).then_some(0)
}
