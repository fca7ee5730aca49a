//! One WebSocket that speaks `cloudevents.json`, the plain WebSocket binding: every message is one structured event, both
//! ways. The topic or queue stands in the URL; deliveries are settled when they are written, and nothing is answered.

use std::time::Duration;

use framegate_adaptor_api::{
    Credentials, Egress, Login, LoginError, Outbound, Progress, Session, SessionContext, SessionError,
    Welcome,
};
use framegate_broker::{
    Consume, ConsumerId, Effect, FeedItem, HeaderTable, Name, Request, RequestId, Subscribe,
};

use super::publish::Publisher;
use super::write::{event_json, shared_json};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::sse::{Source, source};
use crate::metrics::{COUNTERS, Counters};
use crate::settings::Settings;

const CONSUMER: ConsumerId = ConsumerId(1);

/// See the top of the file.
pub(crate) struct BindingSession {
    headers: HeaderTable,
    publisher: Publisher,
    credentials: Option<Credentials>,
    source: Source,
    /// Where events are published to; None: to the topic that is their subject.
    topic: Option<String>,
    consumes: bool,
    publishes: bool,
    welcome: Option<Welcome>,
    next_request: u64,
}

impl BindingSession {
    /// A session for the topic or queue in a query; `mode` is `both` (default), `publish` or `consume`.
    ///
    /// # Errors
    /// What is missing or wrong in the query.
    pub(crate) fn new(
        context: &SessionContext,
        query: &Query,
        credentials: Option<Credentials>,
    ) -> Result<Self, Problem> {
        let (publishes, consumes) = match query.get("mode") {
            None | Some("both") => (true, true),
            Some("publish") => (true, false),
            Some("consume") => (false, true),
            Some(_) => {
                return Err(Problem::new(400, "bad_request", "mode is neither both, publish nor consume"));
            }
        };
        let source = source(None, query)?;
        let topic = match &source {
            Source::Topics(patterns, _) => {
                patterns.iter().find(|name| Name::topic(name).is_ok()).map(|name| name.as_str().to_owned())
            }
            Source::Queue(_) => None,
        };
        Ok(Self {
            publisher: Publisher::new(Settings::of(&context.settings), context.message_bytes_max),
            headers: context.headers.clone(),
            credentials,
            source,
            topic,
            consumes,
            publishes,
            welcome: None,
            next_request: 0,
        })
    }

    fn ask(&mut self, request: Request, out: &mut Outbound) {
        self.next_request += 1;
        out.request(RequestId(self.next_request), request);
    }
}

impl Session for BindingSession {
    fn open(&mut self, out: &mut Outbound) {
        let credentials = self.credentials.take().unwrap_or(Credentials::Anonymous);
        out.login = Some(Login { credentials, vhost: None });
    }

    fn read(&mut self, input: &[u8], out: &mut Outbound) -> Result<Progress, SessionError> {
        let progress = Progress { consumed: input.len(), need: 0 };
        let Some(welcome) = self.welcome.as_ref().filter(|_| !input.is_empty()) else { return Ok(progress) };
        if !self.publishes {
            out.close(1008, "this connection only consumes");
            return Ok(progress);
        }
        let text = [bytes::Bytes::copy_from_slice(input)];
        match self.publisher.read(self.topic.as_deref(), &text, true, &welcome.vhost, &welcome.user) {
            Ok(publishes) => {
                for publish in publishes {
                    self.ask(Request::Publish(publish), out);
                }
            }
            Err(problem) => {
                out.close(if problem.status == 413 { 1009 } else { 1007 }, short(&problem.detail));
            }
        }
        Ok(progress)
    }

    fn logged_in(
        &mut self,
        result: Result<Welcome, LoginError>,
        out: &mut Outbound,
    ) -> Result<(), SessionError> {
        match result {
            Ok(welcome) => self.welcome = Some(welcome),
            Err(refusal) => {
                out.close(4401, short(&refusal.to_string()));
                return Ok(());
            }
        }
        if !self.consumes {
            return Ok(());
        }
        match self.source.clone() {
            Source::Topics(patterns, from) => out.subscribe.push((CONSUMER, Subscribe { patterns, from })),
            Source::Queue(queue) => {
                let consume = Consume {
                    consumer: CONSUMER,
                    queue,
                    prefetch: None,
                    pool: None,
                    exclusive: false,
                    auto_ack: true,
                    lease_ms: None,
                    tokens: false,
                    priority: 0,
                };
                self.ask(Request::Consume(consume), out);
            }
        }
        Ok(())
    }

    fn effect(&mut self, effect: Effect, out: &mut Outbound) -> Result<(), SessionError> {
        match effect {
            Effect::Reply(_, Err(refusal)) => {
                let problem = Problem::from(refusal);
                let code = match problem.status {
                    403 => 4403,
                    404 => 4404,
                    429 => 4429,
                    503 => 1013,
                    _ => 4400,
                };
                out.close(code, short(&problem.detail));
            }
            Effect::Delivery(delivery) => {
                let headers = &self.headers;
                let message = Egress {
                    envelope: &delivery.envelope,
                    frame: &delivery.frame,
                    origin: &delivery.origin,
                    headers,
                };
                match event_json(message) {
                    Some(json) => {
                        out.put_bytes(json);
                        out.end_packet();
                    }
                    None => Counters::add(&COUNTERS.undeliverable, 1),
                }
            }
            Effect::Cancelled { .. } => out.close(4404, "the queue was deleted"),
            _ => {}
        }
        Ok(())
    }

    fn subscribed(
        &mut self,
        _consumer: ConsumerId,
        result: Result<framegate_adaptor_api::Subscribed, framegate_broker::BrokerError>,
        out: &mut Outbound,
    ) -> Result<(), SessionError> {
        if let Err(refusal) = result {
            let problem = Problem::from(refusal);
            out.close(if problem.status == 403 { 4403 } else { 4400 }, short(&problem.detail));
        }
        Ok(())
    }

    fn feed(
        &mut self,
        _consumer: ConsumerId,
        item: &FeedItem,
        out: &mut Outbound,
    ) -> Result<bool, SessionError> {
        // The binding has no words for a loss.
        if let FeedItem::Event(event) = item {
            let json = shared_json(event, &self.headers);
            if json.is_empty() {
                Counters::add(&COUNTERS.undeliverable, 1);
            } else {
                Counters::add(&COUNTERS.delivered, 1);
                out.put_bytes(json);
                out.end_packet();
            }
        }
        Ok(true)
    }

    fn tick(&mut self, _now: Duration, _out: &mut Outbound) -> Result<Duration, SessionError> {
        Ok(Duration::MAX)
    }

    fn drain(&mut self, out: &mut Outbound) {
        out.close(1001, "the server is stopping");
    }

    fn message_bytes_max(&self) -> usize {
        self.publisher.settings().event_bytes_max
    }
}

/// A close reason has at most 123 bytes.
fn short(reason: &str) -> String {
    let mut end = reason.len().min(123);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason.get(..end).unwrap_or_default().to_owned()
}
