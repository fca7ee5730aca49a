//! Request and reply: `POST /v1/topics/{topic}/request` publishes an event that says where its reply goes, and waits for it. Whoever
//! takes the event answers, over any protocol, by a message to the queue in `replyto` with the same `emcorrelationid`.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Response, header};
use framegate_adaptor_api::{Client, Egress};
use framegate_broker::{
    Answer, BrokerError, ConsumerId, Delivery, Effect, HeaderTable, Name, Outbox, Publish, Reply, Request,
    RequestId,
};
use framegate_frame::names::{EMCORRELATIONID, REPLYTO};
use tokio::sync::watch;
use tokio::time::timeout;
use uuid::Uuid;

use super::problem::Problem;
use super::publish::Ready;
use crate::event::{EVENT_LIMITS, write_event};
use crate::limits::{CALL_WAIT_DEFAULT, POLL_WAIT_MAX};

/// Names of queues in which replies arrive begin so. An event published to such a "topic" is a reply.
pub(crate) const REPLY_PREFIX: &str = "framegate.reply.";

const REPLIES: ConsumerId = ConsumerId(1);

/// How long a client waits: `Prefer: wait=30`, in seconds.
pub(crate) fn wait(headers: &HeaderMap) -> Duration {
    let preferences = headers.get_all("prefer").iter().filter_map(|header| header.to_str().ok());
    let words = preferences.flat_map(|text| text.split([',', ';']));
    let given = words
        .filter_map(|word| word.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))
        .and_then(|(_, seconds)| seconds.trim().parse().ok());
    given.map_or(CALL_WAIT_DEFAULT, Duration::from_secs).min(POLL_WAIT_MAX)
}

/// Publishes the event and waits for its reply.
///
/// # Errors
/// What the broker answers; 504 when nobody replied in time.
pub(crate) async fn call(
    client: &Client,
    ready: Ready,
    wait: Duration,
    headers: &HeaderTable,
    mut stopping: watch::Receiver<bool>,
) -> Result<Response<Body>, Problem> {
    let (connection, mut outbox) = client.connect("cloudevents request")?;
    let mailbox = Request::Mailbox { consumer: REPLIES, prefix: REPLY_PREFIX };
    connection.submit(vec![(RequestId(1), mailbox)]).await?;
    let reply_to = opened(&mut outbox).await?;
    let given = ready.publish.frame.attr(EMCORRELATIONID).filter(|given| !given.is_empty());
    let correlation = given.map_or_else(|| Uuid::now_v7().to_string(), str::to_owned);
    let addressed = [(EMCORRELATIONID, Some(correlation.as_str())), (REPLYTO, Some(reply_to.as_str()))];
    let frame = ready.publish.frame.with_attributes(&addressed, &EVENT_LIMITS)?;
    // nobody should begin to work on what has been given up
    let ttl_ms = u64::try_from(wait.as_millis()).ok();
    let publish = Publish { frame, answer: Answer::Reply, ttl_ms, ..ready.publish };
    connection.submit(vec![(RequestId(2), Request::Publish(publish))]).await?;
    let replied = tokio::select! {
        replied = timeout(wait, reply(&mut outbox, &correlation)) => replied,
        Ok(_) = stopping.wait_for(|stopping| *stopping) => return Err(BrokerError::Stopping.into()),
    };
    let Ok(delivery) = replied else {
        let detail = format!("nobody replied within {} s", wait.as_secs());
        return Err(Problem { retry_after_s: Some(1), ..Problem::new(504, "timeout", detail) });
    };
    let delivery = delivery?;
    let message =
        Egress { envelope: &delivery.envelope, frame: &delivery.frame, origin: &delivery.origin, headers };
    let mut json = Vec::with_capacity(512 + delivery.frame.data().len());
    write_event(message, &mut json)?;
    let mut answer = Response::new(Body::from(json));
    let content_type = header::HeaderValue::from_static("application/cloudevents+json");
    answer.headers_mut().insert(header::CONTENT_TYPE, content_type);
    Ok(answer)
}

async fn opened(outbox: &mut Outbox) -> Result<Name, BrokerError> {
    loop {
        for effect in outbox.recv().await.ok_or(BrokerError::Stopping)? {
            if let Effect::Reply(RequestId(1), result) = effect {
                return match result? {
                    Reply::Queue(queue) => Ok(queue.name),
                    _ => Err(BrokerError::Stopping),
                };
            }
        }
    }
}

/// The reply to the call; a refused publish ends the wait.
async fn reply(outbox: &mut Outbox, correlation: &str) -> Result<Delivery, BrokerError> {
    loop {
        for effect in outbox.recv().await.ok_or(BrokerError::Stopping)? {
            match effect {
                Effect::Reply(RequestId(2), Err(refusal)) => return Err(refusal),
                Effect::Delivery(delivery) if delivery.frame.attr(EMCORRELATIONID) == Some(correlation) => {
                    return Ok(delivery);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_is_a_preference_with_an_upper_bound() {
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("prefer", header::HeaderValue::from_static(text));
            wait(&headers)
        };
        assert_eq!(of("respond-async, wait=5"), Duration::from_secs(5));
        assert_eq!(of("Wait=100000"), POLL_WAIT_MAX);
        assert_eq!(of("return=minimal"), CALL_WAIT_DEFAULT);
    }
}
