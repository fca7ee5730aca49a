//! One WebSocket that speaks `framegate.v1.json`: operations in, answers and events out. No I/O and no clock; what a
//! subscription holds is in `subs`, the order of answers in `answers`.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use framegate_adaptor_api::{
    Credentials, Egress, Login, LoginError, Outbound, Progress, Secret, Session, SessionContext,
    SessionError, Subscribed, Welcome,
};
use framegate_broker::{
    BrokerError, ConsumerId, Delivery, Effect, FeedItem, HeaderTable, Lease, Name, Outcome, Position, Reply,
    Request, RequestId, Settle,
};
use serde_json::{Value, json};

use super::answers::{Answers, Place};
use super::op::{Asked, Op, parse};
use super::operate::consume;
use super::publish::Publisher;
use super::subs::{Kind, Message, Sub};
use super::write::{error, event_json, notice, ok, shared_json};
use crate::http::problem::Problem;
use crate::limits::{INFLIGHT_MAX, INVALID_JSON_MAX, LOGIN_WAIT};
use crate::metrics::{COUNTERS, Counters};
use crate::settings::Settings;

/// How long a client should wait before it comes back, in ms.
const RECONNECT_MS: u64 = 5000;

/// Who the session acts for.
#[derive(Debug)]
pub(super) enum Phase {
    /// Nobody yet: the first operation decides.
    Fresh,
    /// A login is under way; these operations wait for it.
    LoggingIn(Vec<Asked>),
    /// Somebody.
    In(Welcome),
    /// Closing.
    Over,
}

/// What an answer of the broker is for.
#[derive(Debug)]
pub(super) enum Pending {
    /// A publish of so many events; None: of one.
    Publish(Place, Option<String>, Option<usize>),
    /// A settlement for a subscription.
    Settle(Place, Option<String>, String),
    /// A consumer that starts, with the place of its `ok`.
    Consume(Place, Option<String>, ConsumerId),
    /// A consumer that starts again on a renewed connection.
    Again(ConsumerId),
}

/// A login again: its place, id, and whether a `welcome` answers it.
#[derive(Debug)]
pub(super) struct Renewal {
    pub(super) place: Place,
    pub(super) id: Option<String>,
    pub(super) hello: bool,
    pub(super) token: Option<Secret>,
}

/// See the top of the file.
pub(crate) struct JsonSession {
    pub(super) headers: HeaderTable,
    pub(super) anonymous: bool,
    pub(super) vhost: Name,
    pub(super) publisher: Publisher,
    pub(super) credentials: Option<Credentials>,
    pub(super) phase: Phase,
    pub(super) answers: Answers,
    pub(super) pending: HashMap<RequestId, Pending>,
    pub(super) renewal: Option<Renewal>,
    pub(super) subs: Vec<Sub>,
    pub(super) next_request: u64,
    pub(super) next_consumer: u32,
    pub(super) invalid: u32,
    pub(super) draining: bool,
}

impl JsonSession {
    pub(crate) fn new(context: &SessionContext, credentials: Option<Credentials>) -> Self {
        Self {
            publisher: Publisher::new(Settings::of(&context.settings), context.message_bytes_max),
            headers: context.headers.clone(),
            anonymous: context.anonymous,
            vhost: context.vhost.clone(),
            credentials,
            phase: Phase::Fresh,
            answers: Answers::default(),
            pending: HashMap::new(),
            renewal: None,
            subs: Vec::new(),
            next_request: 0,
            next_consumer: 0,
            invalid: 0,
            draining: false,
        }
    }

    /// Decides who the session acts for by its first operations.
    fn first(&mut self, asked: Vec<Asked>, out: &mut Outbound) {
        let token = match asked.first().map(|first| &first.op) {
            Some(Ok(Op::Hello { token: Some(token), .. })) => Some(token.clone()),
            _ => None,
        };
        let credentials = token.map(Credentials::Token).or_else(|| self.credentials.take());
        if credentials.is_none() && !self.anonymous {
            self.phase = Phase::Over;
            let id = asked.first().and_then(|first| first.id.as_deref());
            say(&error(id, None, &LoginError::Required.into()), out);
            out.close(4401, "credentials are required");
            return;
        }
        self.phase = Phase::LoggingIn(asked);
        let credentials = credentials.unwrap_or(Credentials::Anonymous);
        out.login = Some(Login { credentials, vhost: None });
    }

    fn run(&mut self, asked: Vec<Asked>, out: &mut Outbound) {
        for Asked { id, op } in asked {
            if self.pending.len() >= INFLIGHT_MAX || self.answers.len() >= 2 * INFLIGHT_MAX {
                let detail = format!("more than {INFLIGHT_MAX} answers are outstanding");
                let place = self.answers.place();
                let problem = Problem { retry_after_s: Some(1), ..Problem::new(429, "too_many", detail) };
                self.answers.put(place, error(id.as_deref(), None, &problem));
                continue;
            }
            let place = self.answers.place();
            let sub = op.as_ref().ok().and_then(sub_of);
            match op.and_then(|op| self.carry_out(op, place, id.as_deref(), out)) {
                Ok(Some(text)) => self.answers.put(place, text),
                Ok(None) => {}
                Err(problem) => self.answers.put(place, error(id.as_deref(), sub.as_deref(), &problem)),
            }
        }
        self.settle_down(out);
    }

    /// Writes what can leave, starts a renewal when nothing else is under way, and ends a drained session.
    fn settle_down(&mut self, out: &mut Outbound) {
        self.answers.flush(out);
        for entry in &mut self.subs {
            if self.answers.has_left(entry.announced) {
                entry.release(out);
            }
        }
        if self.pending.is_empty()
            && let Some(token) = self.renewal.as_mut().and_then(|renewal| renewal.token.take())
        {
            out.login = Some(Login { credentials: Credentials::Token(token), vhost: None });
        }
        if self.draining && self.answers.len() == 0 {
            out.close(1001, "the server is stopping");
        }
    }

    fn replied(&mut self, id: RequestId, result: Result<Reply, BrokerError>, out: &mut Outbound) {
        match self.pending.remove(&id) {
            Some(Pending::Publish(place, id, count)) => {
                let text = match (result, count) {
                    (Err(refusal), _) => error(id.as_deref(), None, &refusal.into()),
                    (Ok(Reply::Published(published)), None) => {
                        let mut members = json!({
                            "offset": published.offset.map(|offset| offset.0.to_string()),
                            "duplicate": published.duplicate,
                        });
                        if let Some(cursor) = published.cursor {
                            members["cursor"] = cursor.to_string().into();
                        }
                        ok(id.as_deref(), None, members)
                    }
                    (Ok(_), count) => ok(id.as_deref(), None, json!({"accepted": count.unwrap_or(1)})),
                };
                self.answers.put(place, text);
            }
            Some(Pending::Settle(place, id, sub)) => {
                let text = match result {
                    Ok(_) => ok(id.as_deref(), Some(&sub), Value::Null),
                    Err(refusal) => error(id.as_deref(), Some(&sub), &refusal.into()),
                };
                self.answers.put(place, text);
            }
            Some(Pending::Consume(place, id, consumer)) => {
                let started = result.map(|_| Value::Null);
                self.started(consumer, place, id.as_deref(), started);
            }
            Some(Pending::Again(consumer)) => {
                if let Err(refusal) = result {
                    self.ended(consumer, &refusal.into(), out);
                }
            }
            None => {}
        }
    }

    /// A subscription is live, or was refused.
    fn started(
        &mut self,
        consumer: ConsumerId,
        place: Place,
        id: Option<&str>,
        started: Result<Value, BrokerError>,
    ) {
        let name = self.subs.iter().find(|entry| entry.consumer == consumer).map(|entry| entry.name.clone());
        let text = match started {
            Ok(members) => ok(id, name.as_deref(), members),
            Err(refusal) => {
                self.subs.retain(|entry| entry.consumer != consumer);
                error(id, name.as_deref(), &refusal.into())
            }
        };
        self.answers.put(place, text);
    }

    /// A subscription was ended from outside.
    fn ended(&mut self, consumer: ConsumerId, problem: &Problem, out: &mut Outbound) {
        if let Some(at) = self.subs.iter().position(|entry| entry.consumer == consumer) {
            let entry = self.subs.remove(at);
            say(&error(None, Some(&entry.name), problem), out);
        }
    }

    fn delivered(&mut self, delivery: &Delivery, out: &mut Outbound) {
        let Position::Queue(seq) = delivery.position else { return };
        let Some(entry) = self.subs.iter_mut().find(|entry| entry.consumer == delivery.consumer) else {
            return; // unsubscribed meanwhile: it goes back with the rest
        };
        let headers = &self.headers;
        let message = Egress {
            envelope: &delivery.envelope,
            frame: &delivery.frame,
            origin: &delivery.origin,
            headers,
        };
        if let Some(json) = event_json(message) {
            let cursor = format!("{}-{}", delivery.origin.id, delivery.origin.seq);
            let announced = self.answers.has_left(entry.announced);
            let message = Message {
                json,
                frame: &delivery.frame,
                cursor: &cursor,
                position: Some(seq.0),
                attempt: delivery.attempt,
            };
            return entry.deliver(&message, announced, out);
        }
        Counters::add(&COUNTERS.undeliverable, 1);
        if entry.acks() {
            let lease = Lease::Positions(delivery.consumer, vec![seq]);
            let id = self.request_id();
            out.request(
                id,
                Request::Settle(Settle { lease, outcome: Outcome::Undeliverable, answer: false }),
            );
        }
    }

    fn relogged(&mut self, renewal: &Renewal, before: &Welcome, out: &mut Outbound) {
        let Phase::In(welcome) = &self.phase else { return };
        if welcome.user != before.user {
            say(
                &error(
                    renewal.id.as_deref(),
                    None,
                    &Problem::new(403, "forbidden", "the token is another user's"),
                ),
                out,
            );
            return out.close(4403, "the token is another user's");
        }
        let text = match renewal.hello {
            true => self.welcome(renewal.id.as_deref(), None),
            false => ok(renewal.id.as_deref(), None, Value::Null),
        };
        self.answers.put(renewal.place, text);
        // The old connection is gone, and the consumers of queues with it.
        let mut again = Vec::new();
        for entry in &mut self.subs {
            entry.forget_leases();
            if let Kind::Queue(queue) = &entry.kind {
                again.push(consume(entry.consumer, queue.clone(), entry.ack, entry.credit));
            }
        }
        for consume in again {
            let consumer = consume.consumer;
            self.ask(Request::Consume(consume), Pending::Again(consumer), out);
        }
        self.settle_down(out);
    }
}

impl Session for JsonSession {
    fn open(&mut self, out: &mut Outbound) {
        if let Some(credentials) = self.credentials.take() {
            self.phase = Phase::LoggingIn(Vec::new());
            out.login = Some(Login { credentials, vhost: None });
        }
    }

    fn read(&mut self, input: &[u8], out: &mut Outbound) -> Result<Progress, SessionError> {
        let progress = Progress { consumed: input.len(), need: 0 };
        if input.is_empty() || self.draining || matches!(self.phase, Phase::Over) {
            return Ok(progress);
        }
        let asked = match parse(input) {
            Ok(asked) => asked,
            Err(problem) => {
                self.invalid += 1;
                say(&error(None, None, &problem), out);
                if self.invalid >= INVALID_JSON_MAX {
                    self.phase = Phase::Over;
                    out.close(4400, "too many messages are not JSON");
                }
                return Ok(progress);
            }
        };
        match &mut self.phase {
            Phase::Fresh => self.first(asked, out),
            Phase::LoggingIn(waiting) => waiting.extend(asked),
            Phase::In(_) => self.run(asked, out),
            Phase::Over => {}
        }
        Ok(progress)
    }

    fn logged_in(
        &mut self,
        result: Result<Welcome, LoginError>,
        out: &mut Outbound,
    ) -> Result<(), SessionError> {
        let welcome = match result {
            Ok(welcome) => welcome,
            Err(refusal) => {
                let renewal = self.renewal.take();
                let waiting = match std::mem::replace(&mut self.phase, Phase::Over) {
                    Phase::LoggingIn(waiting) => waiting,
                    _ => Vec::new(),
                };
                let first = waiting.first().and_then(|asked| asked.id.as_deref());
                let id = renewal.as_ref().and_then(|renewal| renewal.id.as_deref()).or(first);
                let (code, reason) = match &refusal {
                    LoginError::Broker(BrokerError::Stopping) => (1012, "the server is stopping"),
                    LoginError::Broker(BrokerError::Limit { .. }) => (4429, "too many connections"),
                    LoginError::Broker(BrokerError::Forbidden { .. }) => (4403, "forbidden"),
                    LoginError::Broker(_) => (1013, "try later"),
                    _ => (4401, "login refused"),
                };
                say(&error(id, None, &refusal.into()), out);
                out.close(code, reason);
                return Ok(());
            }
        };
        match std::mem::replace(&mut self.phase, Phase::In(welcome)) {
            Phase::LoggingIn(waiting) => {
                let waiting = waiting.into_iter().map(without_token).collect();
                self.run(waiting, out);
            }
            Phase::In(before) => {
                if let Some(renewal) = self.renewal.take() {
                    self.relogged(&renewal, &before, out);
                }
            }
            Phase::Fresh | Phase::Over => {}
        }
        Ok(())
    }

    fn effect(&mut self, effect: Effect, out: &mut Outbound) -> Result<(), SessionError> {
        match effect {
            Effect::Reply(id, result) => self.replied(id, result, out),
            Effect::Delivery(delivery) => {
                self.delivered(&delivery, out);
                return Ok(());
            }
            Effect::Cancelled { consumer, .. } => {
                self.ended(consumer, &Problem::new(410, "gone", "the queue was deleted"), out);
            }
            Effect::Blocked(blocked) => {
                say(&notice(if blocked { "blocked" } else { "unblocked" }, None, Value::Null), out);
            }
            Effect::Confirmed { .. } | Effect::Refused { .. } | Effect::Returned { .. } => {}
        }
        self.settle_down(out);
        Ok(())
    }

    fn subscribed(
        &mut self,
        consumer: ConsumerId,
        result: Result<Subscribed, BrokerError>,
        out: &mut Outbound,
    ) -> Result<(), SessionError> {
        if let Some(Pending::Consume(place, id, _)) = self.pending.remove(&feed_key(consumer)) {
            let started = result.map(
                |subscribed| json!({"cursor": subscribed.cursor.to_string(), "lost": !subscribed.exact}),
            );
            self.started(consumer, place, id.as_deref(), started);
        }
        self.settle_down(out);
        Ok(())
    }

    fn feed(
        &mut self,
        consumer: ConsumerId,
        item: &FeedItem,
        out: &mut Outbound,
    ) -> Result<bool, SessionError> {
        let Some(entry) = self.subs.iter_mut().find(|entry| entry.consumer == consumer) else {
            return Ok(false);
        };
        let announced = self.answers.has_left(entry.announced);
        match item {
            FeedItem::Event(event) if !entry.filters.pass_event(event, &self.headers) => {}
            FeedItem::Event(event) => {
                let json: Bytes = shared_json(event, &self.headers);
                if json.is_empty() {
                    Counters::add(&COUNTERS.undeliverable, 1);
                } else {
                    Counters::add(&COUNTERS.delivered, 1);
                    let message = Message {
                        json,
                        frame: &event.frame,
                        cursor: &event.cursor,
                        position: None,
                        attempt: 1,
                    };
                    entry.deliver(&message, announced, out);
                }
            }
            FeedItem::Lost { requested, resumed_from } => {
                // The client heard `lost: true` when it subscribed; this is for a loss on the way.
                if requested.is_none() {
                    let from = resumed_from.to_string();
                    let members = json!({"lost": true, "requested": null, "resumedFrom": from});
                    say(&notice("lost", Some(&entry.name), members), out);
                }
            }
        }
        Ok(entry.wants_more(announced))
    }

    fn tick(&mut self, now: Duration, out: &mut Outbound) -> Result<Duration, SessionError> {
        if self.anonymous || !matches!(self.phase, Phase::Fresh) {
            return Ok(Duration::MAX);
        }
        if now >= LOGIN_WAIT {
            self.phase = Phase::Over;
            say(&error(None, None, &LoginError::Required.into()), out);
            out.close(4401, "credentials are required");
        }
        Ok(LOGIN_WAIT)
    }

    fn drain(&mut self, out: &mut Outbound) {
        self.draining = true;
        say(&notice("draining", None, json!({"reconnectInMs": RECONNECT_MS})), out);
        self.settle_down(out);
    }

    fn message_bytes_max(&self) -> usize {
        self.publisher.settings().event_bytes_max
    }
}

/// Key of a feed's start among the pending answers: requests never count that far.
pub(super) fn feed_key(consumer: ConsumerId) -> RequestId {
    RequestId(1 << 63 | u64::from(consumer.0))
}

/// The subscription that an operation is about.
fn sub_of(op: &Op) -> Option<String> {
    match op {
        Op::Subscribe(subscribe) => Some(subscribe.sub.clone()),
        Op::Unsubscribe { sub }
        | Op::Ack { sub, .. }
        | Op::Nack { sub, .. }
        | Op::Extend { sub, .. }
        | Op::Credit { sub, .. }
        | Op::Pause { sub }
        | Op::Resume { sub } => Some(sub.clone()),
        _ => None,
    }
}

/// The token of the `hello` that logged in is spent.
fn without_token(asked: Asked) -> Asked {
    match asked.op {
        Ok(Op::Hello { heartbeat_s, .. }) => {
            Asked { id: asked.id, op: Ok(Op::Hello { token: None, heartbeat_s }) }
        }
        _ => asked,
    }
}

fn say(text: &str, out: &mut Outbound) {
    out.put(text.as_bytes());
    out.end_packet();
}
