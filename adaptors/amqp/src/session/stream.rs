//! Stream queues: topics under a queue's name. Consuming takes nothing away, so a consumer is a subscription; an ack gives back
//! room in its prefetch, whatever its outcome.

use framegate_adaptor_api::{Egress, Outbound, Subscribed};
use framegate_broker::{
    BrokerError, ConsumerId, Define, FeedEvent, Kind, Name, Offset, Query, Reply, Request, Seq, Subscribe,
    TopicSpec, feed,
};

use super::channel::Channel;
use super::consume::fits;
use super::link::{Link, Stream};
use super::pending::{Pending, Waiting};
use crate::codec::{Method, MethodId, Short, Table, Value, put_content};
use crate::failure::{Code, Failure};
use crate::outgoing::{Extra, put_properties};

/// A consumer whose queue may be a stream.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) consumer: ConsumerId,
    pub(super) nowait: bool,
    pub(super) name: Name,
}

impl Channel {
    /// Asks behind an answer and before what else is to be said.
    fn ask_first(
        &mut self,
        link: &mut Link,
        method: MethodId,
        waiting: Waiting,
        request: Request,
        out: &mut Outbound,
    ) {
        let id = link.request(self.number, request, out);
        self.pending.push_front(Pending::Broker { id, method, waiting });
    }

    /// `queue.declare` of a stream.
    pub(super) fn declare_stream(
        &mut self,
        link: &mut Link,
        name: Name,
        nowait: bool,
        arguments: &Table<'_>,
        method: MethodId,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        let spec = TopicSpec {
            name: name.clone(),
            age_ms_max: max_age(arguments)
                .map_err(|text| invalid(&name, link, "x-max-age", &text, method))?,
            bytes_max: match arguments.get("x-max-length-bytes") {
                Some(Value::Int(bytes, _)) => u64::try_from(bytes).ok(),
                _ => None,
            },
        };
        let request = Request::Define(Define::Topic(spec));
        self.ask(link, method, Waiting::StreamLooked { nowait, name }, request, out);
        Ok(())
    }

    /// No queue has the name of a passive declaration: a topic may.
    pub(super) fn look_for_stream(
        &mut self,
        link: &mut Link,
        method: MethodId,
        nowait: bool,
        name: Name,
        out: &mut Outbound,
    ) {
        let request = Request::Query(Query::Topic(name.clone()));
        self.ask_first(link, method, Waiting::StreamLooked { nowait, name }, request, out);
    }

    /// A stream was declared or looked at.
    pub(super) fn stream_looked(
        &mut self,
        link: &Link,
        method: MethodId,
        nowait: bool,
        name: &Name,
        result: Result<Reply, BrokerError>,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        let topic = match result {
            Ok(Reply::Topic(topic)) => topic,
            Ok(_) => return Err(Failure::new(Code::InternalError, method, "unexpected answer")),
            Err(error) => return Err(link.failure(as_queue(error, name), method)),
        };
        if !nowait {
            let count = topic.next.0.saturating_sub(topic.first.0);
            let ok = Method::QueueDeclareOk {
                queue: Short::text(name),
                message_count: u32::try_from(count).unwrap_or(u32::MAX),
                consumer_count: topic.subscribers,
            };
            self.put(&ok, out);
        }
        Ok(())
    }

    /// No queue has the name that was pulled from or purged. If a topic has it, the refusal is another one.
    pub(super) fn refuse_stream(
        &mut self,
        link: &mut Link,
        method: MethodId,
        what: &'static str,
        error: BrokerError,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        match error {
            BrokerError::NotFound { kind: Kind::Queue, name, .. } => {
                let request = Request::Query(Query::Topic(name.clone()));
                self.ask_first(link, method, Waiting::Refusing { what, name }, request, out);
                Ok(())
            }
            error => Err(link.failure(error, method)),
        }
    }

    /// Whether it is a stream is known: either way it is refused.
    pub(super) fn stream_refused(
        &self,
        link: &Link,
        method: MethodId,
        what: &str,
        name: &Name,
        result: Result<Reply, BrokerError>,
    ) -> Failure {
        match result {
            Ok(_) => {
                let text =
                    format!("{what} not supported by stream queues queue '{name}' in vhost '{}'", link.vhost);
                Failure::not_implemented(method, text)
            }
            Err(error) => link.failure(as_queue(error, name), method),
        }
    }

    /// `queue.delete` found no queue: a topic may have the name.
    pub(super) fn delete_stream(
        &mut self,
        link: &mut Link,
        method: MethodId,
        nowait: bool,
        name: Name,
        out: &mut Outbound,
    ) {
        let ok = (!nowait).then_some(Method::QueueDeleteOk { message_count: 0 });
        let request = Request::Define(Define::DeleteTopic(name));
        self.ask_first(link, method, Waiting::Plain { ok, lenient: true }, request, out);
    }

    /// No queue has the name that a consumer wants: a topic may.
    pub(super) fn consume_stream(
        &mut self,
        link: &mut Link,
        method: MethodId,
        consumer: ConsumerId,
        nowait: bool,
        name: Name,
        out: &mut Outbound,
    ) {
        let request = Request::Query(Query::Topic(name.clone()));
        self.ask_first(link, method, Waiting::StreamFound { consumer, nowait, name }, request, out);
    }

    /// There is a topic of that name, or there is none.
    pub(super) fn stream_found(
        &mut self,
        link: &mut Link,
        method: MethodId,
        wanted: Wanted,
        result: Result<Reply, BrokerError>,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        let Wanted { consumer, nowait, name } = wanted;
        let vhost = link.vhost.clone();
        let refuse = |channel: &mut Self, link: &mut Link, failure| {
            channel.forget_consumer(link, consumer);
            Err(failure)
        };
        if let Err(error) = result {
            let failure = link.failure(as_queue(error, &name), method);
            return refuse(self, link, failure);
        }
        let Some(entry) = link.consumers.get_mut(&consumer) else { return Ok(()) };
        if entry.no_ack {
            let text = format!(
                "automatic acknowledgement not supported by stream queues queue '{name}' in vhost '{vhost}'"
            );
            return refuse(self, link, Failure::not_implemented(method, text));
        }
        if self.prefetch == 0 {
            let text = format!("consumer prefetch count is not set for 'queue '{name}' in vhost '{vhost}''");
            return refuse(self, link, Failure::precondition(method, text));
        }
        entry.stream = Some(Stream { prefetch: self.prefetch.into(), held: 0, nowait });
        let from = entry.from.take().unwrap_or(feed::From::Latest);
        out.subscribe.push((consumer, Subscribe { patterns: vec![name], from }));
        link.hold_for = Some(consumer);
        Ok(())
    }

    /// A subscription is live.
    pub(super) fn subscribed(
        &mut self,
        link: &mut Link,
        consumer: ConsumerId,
        result: Result<Subscribed, BrokerError>,
        out: &mut Outbound,
    ) {
        const CONSUME: MethodId = MethodId::new(60, 20);
        match result {
            Ok(_) => {
                let entry = link.consumers.get(&consumer);
                if let Some(entry) = entry.filter(|c| c.stream.as_ref().is_some_and(|s| !s.nowait)) {
                    self.put(&Method::BasicConsumeOk { consumer_tag: Short::text(&entry.tag) }, out);
                }
            }
            Err(error) => {
                self.forget_consumer(link, consumer);
                let failure = link.failure(error, CONSUME);
                self.fail(link, failure, out);
            }
        }
    }

    /// An event of a stream. Whether there is room for more.
    pub(super) fn deliver_event(
        &mut self,
        link: &mut Link,
        consumer: ConsumerId,
        event: &FeedEvent,
        out: &mut Outbound,
    ) -> bool {
        let offset = event.kept.map(|(_, offset)| offset);
        let extra = Extra { delivery_count: None, stream_offset: offset.map(|offset| offset.0) };
        let message = Egress {
            envelope: &event.envelope,
            frame: &event.frame,
            origin: &event.origin,
            headers: &link.headers,
        };
        let Some(entry) = link.consumers.get_mut(&consumer) else { return false };
        let Some(stream) = entry.stream.as_mut() else { return false };
        if entry.filter.as_ref().is_some_and(|filter| !filter.wants(&message)) {
            return true;
        }
        // What cannot be carried is passed over in a broadcast.
        if !fits(message, extra, link.frame_max) {
            return true;
        }
        stream.held += 1;
        let has_room = stream.held < stream.prefetch;
        let delivery_tag = self.unacked.push(consumer, Seq(offset.unwrap_or(Offset(0)).0));
        let deliver = Method::BasicDeliver {
            consumer_tag: Short::text(&entry.tag),
            delivery_tag,
            redelivered: false,
            exchange: Short::text(&event.envelope.exchange),
            routing_key: Short::text(event.envelope.key()),
        };
        self.put(&deliver, out);
        let body = event.frame.data_bytes();
        put_content(out, self.number, link.frame_max, &body, |out| put_properties(message, extra, out));
        has_room
    }
}

/// Errors about a topic are about a queue here.
fn as_queue(error: BrokerError, name: &Name) -> BrokerError {
    match error {
        BrokerError::NotFound { vhost, .. } => {
            BrokerError::NotFound { kind: Kind::Queue, name: name.clone(), vhost }
        }
        BrokerError::Inequivalent { argument, current, given, .. } => {
            let argument = match argument.as_str() {
                "age_ms_max" => "x-max-age".to_owned(),
                "bytes_max" => "x-max-length-bytes".to_owned(),
                _ => argument,
            };
            BrokerError::Inequivalent { kind: Kind::Queue, name: name.clone(), argument, current, given }
        }
        error => error,
    }
}

/// Where a consumer of a stream begins, by `x-stream-offset`.
///
/// ```text
/// "first" the oldest   "last" the newest that is there   "next" (default) what comes   integer offset   timestamp
/// "1h" what is not older: a number and one of Y M D h m s
/// ```
pub(super) fn start_of(arguments: &Table<'_>, method: MethodId) -> Result<Option<feed::From>, Failure> {
    Ok(Some(match arguments.get("x-stream-offset") {
        None => return Ok(None),
        Some(Value::Str(b"first")) => feed::From::Earliest,
        Some(Value::Str(b"last")) => feed::From::Last(1),
        Some(Value::Str(b"next")) => feed::From::Latest,
        Some(Value::Int(offset, _)) if offset >= 0 => feed::From::Offset(Offset(offset.unsigned_abs())),
        Some(Value::Time(seconds)) => feed::From::Time(seconds.saturating_mul(1000)),
        Some(Value::Str(span)) if let Some(ms) = std::str::from_utf8(span).ok().and_then(span_ms) => {
            feed::From::Ago(ms)
        }
        Some(_) => {
            let text = "x-stream-offset is none of first, last, next, an offset, a timestamp, a time span";
            return Err(Failure::not_implemented(method, text));
        }
    }))
}

/// `x-max-age`: a number and one of Y M D h m s.
fn max_age(arguments: &Table<'_>) -> Result<Option<u64>, String> {
    let text = match arguments.get("x-max-age") {
        None => return Ok(None),
        Some(Value::Str(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(other) => return Err(format!("\"expected longstr, got {}\"", other.type_word())),
    };
    span_ms(&text).map(Some).ok_or_else(|| "invalid_max_age".to_owned())
}

/// A number and one of Y M D h m s, in ms.
fn span_ms(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds: u64 = match unit {
        "Y" => 365 * 86_400,
        "M" => 30 * 86_400,
        "D" => 86_400,
        "h" => 3600,
        "m" => 60,
        "s" => 1,
        _ => return None,
    };
    Some(number.parse::<u64>().ok()?.saturating_mul(seconds).saturating_mul(1000))
}

fn invalid(queue: &Name, link: &Link, argument: &str, reason: &str, method: MethodId) -> Failure {
    let text = format!("invalid arg '{argument}' for queue '{queue}' in vhost '{}': {reason}", link.vhost);
    Failure::precondition(method, text)
}
