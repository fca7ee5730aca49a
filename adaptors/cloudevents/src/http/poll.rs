//! Long poll: `GET /v1/topics/{topic}/events?group=` waits for events as a member of a group and gives them as a batch. Each is
//! leased under an id of its own, which `POST /v1/acks` settles.

use axum::body::Body;
use axum::http::{Response, header};
use framegate_adaptor_api::{Client, Egress};
use framegate_broker::{
    BrokerError, ConsumerId, Delivery, Fetch, GroupStart, HeaderTable, Lease, Member, Name, Outcome, Reply,
    Request, Settle, Token,
};
use tokio::sync::{oneshot, watch};

use super::group;
use super::problem::Problem;
use super::query::Query;
use crate::event::{Place, write_event};
use crate::limits::{ACK_WAIT, DELAY_MAX, POLL_EVENTS_DEFAULT, POLL_EVENTS_MAX, POLL_WAIT_MAX};
use crate::metrics::{COUNTERS, Counters};

/// Extension attribute that holds the id by which an event is acked.
pub(crate) const ACK_ID: &str = "framegateackid";
/// Extension attribute that counts deliveries of an event, from 1.
const ATTEMPT: &str = "framegateattempt";

/// A poll, as the query says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ask {
    group: Name,
    max: u32,
    wait_ms: u64,
    lease_ms: u64,
    auto_ack: bool,
    start: GroupStart,
}

impl Ask {
    /// Reads a query. `wait` and `lease` are seconds.
    ///
    /// # Errors
    /// 400 with the parameter.
    pub(crate) fn read(query: &Query) -> Result<Self, Problem> {
        let group = query.get("group").ok_or_else(|| Problem::at(Place::Query("group"), "is missing"))?;
        let max = query.number("max", 1, u64::from(POLL_EVENTS_MAX))?;
        let wait_s = query.number("wait", 0, POLL_WAIT_MAX.as_secs())?.unwrap_or(0);
        let lease_s = query.number("lease", 1, DELAY_MAX.as_secs())?.unwrap_or(ACK_WAIT.as_secs());
        let auto_ack = match query.get("ack") {
            None | Some("explicit") => false,
            Some("auto") => true,
            Some(_) => return Err(Problem::at(Place::Query("ack"), "is neither auto nor explicit")),
        };
        let start = match query.get("from") {
            None => Some(GroupStart::Latest),
            Some(text) => group::start_of(text),
        };
        Ok(Self {
            group: Name::declared(group)?,
            max: max.and_then(|max| u32::try_from(max).ok()).unwrap_or(POLL_EVENTS_DEFAULT),
            wait_ms: wait_s * 1000,
            lease_ms: lease_s * 1000,
            auto_ack,
            start: start.ok_or_else(|| {
                Problem::at(Place::Query("from"), "is neither latest, earliest, offset:N nor a time")
            })?,
        })
    }
}

/// Waits for events.
///
/// # Errors
/// What the broker answers.
pub(crate) async fn poll(
    client: Client,
    topic: &str,
    ask: Ask,
    headers: &HeaderTable,
    mut stopping: watch::Receiver<bool>,
) -> Result<Response<Body>, Problem> {
    let topic = Name::topic(topic)?;
    group::ensure(&client, group::spec(topic.clone(), ask.group.clone(), ask.start)).await?;
    let fetch = Fetch {
        consumer: ConsumerId(0),
        queue: topic,
        max: ask.max,
        wait_ms: ask.wait_ms,
        auto_ack: ask.auto_ack,
        lease_ms: (!ask.auto_ack).then_some(ask.lease_ms),
        tokens: true,
    };
    let (sender, mut receiver) = oneshot::channel();
    let request = Request::FetchGroup(fetch, Member::of(ask.group));
    let waiting = client.clone();
    tokio::spawn(async move {
        // a caller that has left leaves what it would have got to others
        if let Err(Ok(Reply::Fetched { messages, .. })) = sender.send(waiting.call(request).await) {
            for token in messages.iter().filter_map(|delivery| delivery.token) {
                let _ = settle(&waiting, token, Outcome::Requeue { delay_ms: 0 }).await;
            }
        }
    });
    let answer = tokio::select! {
        answer = &mut receiver => answer.unwrap_or(Err(BrokerError::Stopping))?,
        Ok(_) = stopping.wait_for(|stopping| *stopping) => return Ok(batch(&[])),
    };
    let Reply::Fetched { messages, .. } = answer else { return Ok(batch(&[])) };
    let mut events = Vec::with_capacity(messages.len());
    for delivery in &messages {
        match event(delivery, headers) {
            Some(json) => events.push(json),
            None => {
                Counters::add(&COUNTERS.undeliverable, 1);
                if let Some(token) = delivery.token {
                    settle(&client, token, Outcome::Undeliverable).await?;
                }
            }
        }
    }
    Ok(batch(&events))
}

/// Settles one delivery by its id.
///
/// # Errors
/// `UnknownDelivery` when it is settled already, or was never given.
pub(crate) async fn settle(client: &Client, token: Token, outcome: Outcome) -> Result<(), BrokerError> {
    let settle = Settle { lease: Lease::Token(token), outcome, answer: true };
    client.call(Request::Settle(settle)).await.map(drop)
}

/// The event with its ack id and attempt.
fn event(delivery: &Delivery, headers: &HeaderTable) -> Option<Vec<u8>> {
    let message =
        Egress { envelope: &delivery.envelope, frame: &delivery.frame, origin: &delivery.origin, headers };
    let mut json = Vec::with_capacity(512 + delivery.frame.data().len());
    write_event(message, &mut json).ok()?;
    if let (Some(token), true) = (delivery.token, json.ends_with(b"}")) {
        json.pop();
        let members = format!(",\"{ACK_ID}\":\"{:032x}\",\"{ATTEMPT}\":{}}}", token.0, delivery.attempt);
        json.extend_from_slice(members.as_bytes());
    }
    Some(json)
}

/// A batch of events as an answer.
pub(crate) fn batch(events: &[Vec<u8>]) -> Response<Body> {
    let mut body = Vec::with_capacity(events.iter().map(|event| event.len() + 1).sum::<usize>() + 2);
    body.push(b'[');
    for (at, event) in events.iter().enumerate() {
        if at > 0 {
            body.push(b',');
        }
        body.extend_from_slice(event);
    }
    body.push(b']');
    let mut answer = Response::new(Body::from(body));
    let content_type = header::HeaderValue::from_static("application/cloudevents-batch+json");
    answer.headers_mut().insert(header::CONTENT_TYPE, content_type);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(text: &str) -> Result<Ask, Problem> {
        Ask::read(&Query::parse(Some(text)))
    }

    #[test]
    fn query_says_group_bounds_and_start() {
        let plain = ask("group=g").unwrap();
        assert_eq!((plain.max, plain.wait_ms, plain.lease_ms), (POLL_EVENTS_DEFAULT, 0, 30_000));
        assert_eq!((plain.auto_ack, plain.start), (false, GroupStart::Latest));
        let all = ask("group=g&max=7&wait=20&lease=60&ack=auto&from=earliest").unwrap();
        assert_eq!((all.max, all.wait_ms, all.lease_ms, all.auto_ack), (7, 20_000, 60_000, true));
        assert_eq!(all.start, GroupStart::Earliest);
        for wrong in [
            "",
            "group=g&max=0",
            "group=g&wait=301",
            "group=g&lease=0",
            "group=g&ack=no",
            "group=g&from=last",
        ] {
            assert_eq!(ask(wrong).unwrap_err().status, 400, "{wrong}");
        }
    }

    #[test]
    fn batch_is_an_array_of_events() {
        assert_eq!(batch(&[]).headers()["content-type"], "application/cloudevents-batch+json");
    }
}
