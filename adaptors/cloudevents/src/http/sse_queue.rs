//! A stream that consumes a queue, competing with its other consumers. A message is acked when the connection has taken
//! the bytes of the pass it came in and asks for more; until then it is leased to this stream.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use framegate_adaptor_api::Egress;
use framegate_broker::{
    BrokerError, Connection, Consume, ConsumerId, Delivery, Effect, HeaderTable, Lease, Name, Outbox,
    Outcome, Position, Request, RequestId, Seq, Settle,
};
use futures_util::stream::{Stream, unfold};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::sse_body::closing;
use super::sse_encode::{Format, HEARTBEAT};
use crate::limits::STREAM_PREFETCH;
use crate::metrics::{COUNTERS, Counters};

const CONSUMER: ConsumerId = ConsumerId(1);

/// A queue stream before its first byte.
pub(crate) struct QueueStream {
    connection: Connection,
    outbox: Outbox,
    requests: u64,
    /// Effects that came while the consumer started.
    early: Vec<Effect>,
    carried: Vec<Seq>,
    window_bytes: usize,
    pub(crate) opening: Option<Bytes>,
    pub(crate) format: Format,
    pub(crate) headers: Arc<HeaderTable>,
    pub(crate) heartbeat: Option<Duration>,
    pub(crate) ends_at: Option<Instant>,
    pub(crate) stopping: watch::Receiver<bool>,
    next_heartbeat: Instant,
    ended: bool,
}

/// What a stream is made of beside its queue.
pub(crate) struct Options {
    pub(crate) opening: Bytes,
    pub(crate) format: Format,
    pub(crate) headers: Arc<HeaderTable>,
    pub(crate) heartbeat: Option<Duration>,
    pub(crate) lifetime: Option<Duration>,
    pub(crate) stopping: watch::Receiver<bool>,
}

impl QueueStream {
    /// Starts consuming. Waits for the broker's answer.
    ///
    /// # Errors
    /// What the broker answers.
    pub(crate) async fn start(
        (connection, mut outbox): (Connection, Outbox),
        queue: Name,
        options: Options,
    ) -> Result<Self, BrokerError> {
        let consume = Consume {
            consumer: CONSUMER,
            queue,
            prefetch: Some(STREAM_PREFETCH),
            pool: None,
            exclusive: false,
            auto_ack: false,
            lease_ms: None,
            tokens: false,
            priority: 0,
        };
        connection.submit(vec![(RequestId(1), Request::Consume(consume))]).await?;
        let mut early = Vec::new();
        'answered: loop {
            for effect in outbox.recv().await.ok_or(BrokerError::Stopping)? {
                match effect {
                    Effect::Reply(RequestId(1), result) => {
                        result?;
                        early.push(None);
                    }
                    other => early.push(Some(other)),
                }
            }
            if early.iter().any(Option::is_none) {
                break 'answered;
            }
        }
        let now = Instant::now();
        Ok(Self {
            connection,
            outbox,
            requests: 1,
            early: early.into_iter().flatten().collect(),
            carried: Vec::new(),
            window_bytes: 0,
            opening: Some(options.opening),
            format: options.format,
            headers: options.headers,
            heartbeat: options.heartbeat,
            ends_at: options.lifetime.map(|lifetime| now + lifetime),
            stopping: options.stopping,
            next_heartbeat: now + options.heartbeat.unwrap_or_default(),
            ended: false,
        })
    }

    /// The bytes, one buffer a pass.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        unfold(self, |mut stream| async move {
            let bytes = stream.next().await?;
            Some((Ok(bytes), stream))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        if let Some(opening) = self.opening.take() {
            return Some(opening);
        }
        if self.ended || self.settle().await.is_err() {
            return None;
        }
        loop {
            let effects = if self.early.is_empty() {
                match self.wait().await {
                    Woken::Effects(effects) => effects,
                    Woken::Heartbeat => return Some(Bytes::from_static(HEARTBEAT)),
                    Woken::End(code) => {
                        self.ended = true;
                        return Some(closing(code));
                    }
                }
            } else {
                std::mem::take(&mut self.early)
            };
            let bytes = self.encode(effects).await?;
            if !bytes.is_empty() {
                return Some(bytes.into());
            }
            if self.ended {
                return Some(closing("gone"));
            }
        }
    }

    async fn wait(&mut self) -> Woken {
        let mut stopping = self.stopping.clone();
        let (heartbeat, heartbeat_at) = (self.heartbeat, self.next_heartbeat);
        let ends_at = self.ends_at;
        tokio::select! {
            effects = self.outbox.recv() => effects.map_or(Woken::End("draining"), Woken::Effects),
            Ok(_) = stopping.wait_for(|stopping| *stopping) => Woken::End("draining"),
            () = sleep_until(ends_at.unwrap_or(heartbeat_at)), if ends_at.is_some() => Woken::End("lifetime_over"),
            () = sleep_until(heartbeat_at), if heartbeat.is_some() => {
                self.next_heartbeat = Instant::now() + heartbeat.unwrap_or_default();
                Woken::Heartbeat
            }
        }
    }

    /// Acks what the connection has taken.
    async fn settle(&mut self) -> Result<(), BrokerError> {
        if self.window_bytes > 0 {
            self.connection.written(std::mem::take(&mut self.window_bytes));
        }
        if self.carried.is_empty() {
            return Ok(());
        }
        let positions = std::mem::take(&mut self.carried);
        self.submit(positions, Outcome::Ack).await
    }

    async fn submit(&mut self, positions: Vec<Seq>, outcome: Outcome) -> Result<(), BrokerError> {
        self.requests += 1;
        let settle = Settle { lease: Lease::Positions(CONSUMER, positions), outcome, answer: false };
        self.connection.submit(vec![(RequestId(self.requests), Request::Settle(settle))]).await
    }

    async fn encode(&mut self, effects: Vec<Effect>) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut undeliverable = Vec::new();
        for effect in effects {
            match effect {
                Effect::Delivery(delivery) => {
                    self.window_bytes += delivery.window_bytes();
                    let Position::Queue(seq) = delivery.position else { continue };
                    match encode_delivery(self.format, &delivery, &self.headers) {
                        Some(bytes) => {
                            out.extend_from_slice(&bytes);
                            self.carried.push(seq);
                        }
                        None => undeliverable.push(seq),
                    }
                }
                Effect::Cancelled { .. } => {
                    self.ended = true;
                    if !out.is_empty() {
                        out.extend_from_slice(&closing("gone"));
                    }
                }
                _ => {}
            }
        }
        if !undeliverable.is_empty() {
            Counters::add(&COUNTERS.undeliverable, undeliverable.len() as u64);
            self.submit(undeliverable, Outcome::Undeliverable).await.ok()?;
        }
        Some(out)
    }
}

enum Woken {
    Effects(Vec<Effect>),
    Heartbeat,
    End(&'static str),
}

/// Bytes of a delivery; its id is stable but no cursor, for a queue does not replay.
fn encode_delivery(format: Format, delivery: &Delivery, headers: &HeaderTable) -> Option<Bytes> {
    let message =
        Egress { envelope: &delivery.envelope, frame: &delivery.frame, origin: &delivery.origin, headers };
    format.encode(message, &format!("{}-{}", delivery.origin.id, delivery.origin.seq))
}
