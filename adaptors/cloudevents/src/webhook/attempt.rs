//! One attempt: events become a signed request, the request an answer. Never decides what the answer means.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use framegate_broker::{Delivery, HeaderTable};
use tokio::time::Instant;

use super::handshake::{self, Consent, REQUEST_ORIGIN};
use super::message::{Message, Mode, webhook_id, written};
use super::record::Record;
use super::sender::{Answer, Idle, SendError, Sender};
use super::signature::signatures;
use super::sink::Sink;
use super::verdict;
use super::worker::egress;
use crate::http::now_ms;

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// What came of an attempt.
pub(crate) struct Done {
    /// What was sent.
    pub(crate) deliveries: Vec<Delivery>,
    /// What no request can carry.
    pub(crate) undeliverable: Vec<Delivery>,
    /// `webhook-id`.
    pub(crate) id: String,
    pub(crate) answer: Result<u16, SendError>,
    /// The receiver wants to be left alone so long.
    pub(crate) retry_after: Option<Duration>,
    /// When it began, in ms since the Unix epoch.
    pub(crate) at_ms: u64,
    pub(crate) duration_ms: u64,
}

/// What requests of one subscription have in common.
pub(crate) struct Post {
    sender: Arc<Sender>,
    origin: String,
    sink: Sink,
    /// The owner's headers and credentials.
    headers: HeaderMap,
    idle: Idle,
}

impl Post {
    pub(crate) fn new(sender: Arc<Sender>, origin: String, sink: Sink, headers: HeaderMap) -> Self {
        Self { sender, origin, sink, headers, idle: Idle::default() }
    }

    /// Sends events as the subscription says.
    pub(crate) async fn attempt(
        &self,
        record: &Record,
        deliveries: Vec<Delivery>,
        table: &HeaderTable,
    ) -> Done {
        let (at_ms, began) = (now_ms(), Instant::now());
        let spec = &record.spec;
        let (mut good, mut undeliverable, mut events) = (Vec::new(), Vec::new(), Vec::new());
        let mut message = None;
        for delivery in deliveries {
            let event = egress(&delivery, table);
            let converted = match spec.mode {
                Mode::Batched => written(event).map(|json| events.push(json)),
                mode => Message::one(event, mode, spec.protocol_settings.header_encoding)
                    .map(|converted| message = Some(converted)),
            };
            match converted {
                Ok(()) => good.push(delivery),
                Err(_) => undeliverable.push(delivery),
            }
        }
        if spec.mode == Mode::Batched && !good.is_empty() {
            let id = webhook_id(good.iter().map(|delivery| egress(delivery, table)));
            message = Some(Message::batch(&events, id));
        }
        let mut done = Done {
            deliveries: good,
            undeliverable,
            id: String::new(),
            // nothing that could be sent: nothing that failed
            answer: Ok(204),
            retry_after: None,
            at_ms,
            duration_ms: 0,
        };
        let Some(message) = message else { return done };
        done.id.clone_from(&message.id);
        match self.post(record, message).await {
            Ok(answer) => {
                done.answer = Ok(answer.status);
                done.retry_after = verdict::retry_after(answer.status, &answer.headers, at_ms / 1000);
                answer.finish(&self.idle).await;
            }
            Err(error) => done.answer = Err(error),
        }
        done.duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        done
    }

    /// Signs and sends one message.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) async fn post(&self, record: &Record, message: Message) -> Result<Answer, SendError> {
        let now = now_ms();
        let headers = self.signed(record, &message, now);
        self.sender.send(&self.sink, Method::POST, &headers, message.body, &self.idle).await
    }

    /// All headers of a delivery.
    fn signed(&self, record: &Record, message: &Message, now_ms: u64) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.extend(message.headers.clone());
        let time_s = now_ms / 1000;
        let signed = signatures(&record.secrets(now_ms), &message.id, time_s, &message.body);
        for (name, text) in [
            (REQUEST_ORIGIN, self.origin.as_str()),
            (WEBHOOK_ID, &message.id),
            (WEBHOOK_TIMESTAMP, &time_s.to_string()),
            (WEBHOOK_SIGNATURE, &signed),
        ] {
            if let Ok(value) = HeaderValue::try_from(text) {
                headers.insert(name, value);
            }
        }
        headers
    }

    /// Asks the receiver for its consent.
    ///
    /// # Errors
    /// Why it did not give it.
    pub(crate) async fn consent(&self, rate: Option<u32>, callback: Option<&str>) -> Result<Consent, String> {
        let mut headers = handshake::question(&self.origin, rate, callback);
        if let Some(authorization) = self.headers.get(header::AUTHORIZATION) {
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        let asked =
            self.sender.send(&self.sink, Method::OPTIONS, &headers, bytes::Bytes::new(), &self.idle).await;
        let answer = asked.map_err(|error| error.to_string())?;
        let consent = handshake::consent(&answer.headers, &self.origin, rate).map_err(str::to_owned);
        answer.finish(&self.idle).await;
        consent
    }
}
