//! The body of a topic stream: polls its subscription when the connection has room, with no task of its own. Encodes
//! nothing that another subscriber has encoded, and keeps at most what one poll took.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use framegate_broker::{FeedItem, HeaderTable, Subscription};
use http_body::{Body, Frame};
use serde_json::json;
use tokio::sync::watch;

use super::clocks::{Clocks, Tick};
use super::sse_encode::{Format, HEARTBEAT, put_control};
use crate::limits::{STREAM_COALESCE_BYTES, STREAM_ITEMS_MAX};
use crate::metrics::{COUNTERS, Counters};

/// Where items come from: a subscription, or a test's list.
pub(crate) trait Feed: Send + 'static {
    /// As `Subscription::poll_next`.
    fn poll_next(&mut self, context: &mut Context<'_>, into: &mut Vec<FeedItem>, max: usize) -> Poll<bool>;
}

impl Feed for Subscription {
    fn poll_next(&mut self, context: &mut Context<'_>, into: &mut Vec<FeedItem>, max: usize) -> Poll<bool> {
        Subscription::poll_next(self, context, into, max)
    }
}

/// How a stream behaves.
pub(crate) struct Options {
    /// First bytes.
    pub(crate) opening: Bytes,
    /// Output format.
    pub(crate) format: Format,
    /// Reads headers of frames of other protocols.
    pub(crate) headers: Arc<HeaderTable>,
    /// Time between heartbeats.
    pub(crate) heartbeat: Option<Duration>,
    /// Time until the stream ends by itself.
    pub(crate) lifetime: Option<Duration>,
    /// Turns true when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
}

/// See the top of the file.
pub(crate) struct SseBody<F> {
    /// None: ended.
    feed: Option<F>,
    ready: VecDeque<Bytes>,
    format: Format,
    headers: Arc<HeaderTable>,
    clocks: Clocks,
}

impl<F: Feed + Unpin> SseBody<F> {
    /// A body over `feed`.
    pub(crate) fn new(feed: F, options: Options) -> Self {
        Self {
            feed: Some(feed),
            ready: VecDeque::from([options.opening]),
            format: options.format,
            headers: options.headers,
            clocks: Clocks::new(options.heartbeat, options.lifetime, options.stopping),
        }
    }

    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(bytes));
            }
            let Some(feed) = &mut self.feed else { return Poll::Ready(None) };
            if self.clocks.stopping() {
                self.end("draining");
                continue;
            }
            // Not kept: memory that was used just now is nearer than what this stream touched an event ago.
            let mut items = Vec::new();
            match feed.poll_next(context, &mut items, STREAM_ITEMS_MAX) {
                Poll::Ready(true) => {
                    let first = self.encode(items);
                    if first.is_some() {
                        return Poll::Ready(first);
                    }
                }
                Poll::Ready(false) => self.end("draining"),
                Poll::Pending => match ready!(self.clocks.poll(context)) {
                    Tick::Stopping => self.end("draining"),
                    Tick::LifetimeOver => self.end("lifetime_over"),
                    Tick::Heartbeat => self.ready.push_back(Bytes::from_static(HEARTBEAT)),
                },
            }
        }
    }

    /// Turns items into buffers: the shared one when there is one event, else copies of at most 64 KiB together. Gives the
    /// first; the others are `ready`.
    fn encode(&mut self, items: Vec<FeedItem>) -> Option<Bytes> {
        let mut joined = BytesMut::new();
        let mut single = None;
        let count = items.len();
        let (mut delivered, mut skipped) = (0, 0);
        for item in items {
            let bytes = match item {
                FeedItem::Event(event) => self.format.encoded(&event, &self.headers),
                FeedItem::Lost { requested, resumed_from } => {
                    lost(requested.as_deref(), &resumed_from.to_string())
                }
            };
            if bytes.is_empty() {
                skipped += 1;
                continue;
            }
            delivered += 1;
            if count == 1 {
                single = Some(bytes);
            } else if joined.len() + bytes.len() <= STREAM_COALESCE_BYTES {
                joined.extend_from_slice(&bytes);
            } else {
                if !joined.is_empty() {
                    self.ready.push_back(joined.split().freeze());
                }
                self.ready.push_back(bytes);
            }
        }
        if !joined.is_empty() {
            self.ready.push_back(joined.freeze());
        }
        Counters::add(&COUNTERS.delivered, delivered);
        if skipped > 0 {
            Counters::add(&COUNTERS.undeliverable, skipped);
        }
        single.or_else(|| self.ready.pop_front())
    }

    fn end(&mut self, code: &str) {
        self.feed = None;
        self.ready.push_back(closing(code));
    }
}

/// The notice that events are gone.
fn lost(requested: Option<&str>, resumed_from: &str) -> Bytes {
    let mut out = Vec::new();
    let body = json!({"lost": true, "requested": requested, "resumedFrom": resumed_from});
    put_control(&mut out, Some(resumed_from), &body);
    out.into()
}

/// The last message of a stream that the server ends.
pub(crate) fn closing(code: &str) -> Bytes {
    let mut out = Vec::new();
    put_control(&mut out, None, &json!({"closing": true, "code": code}));
    out.into()
}

impl<F: Feed + Unpin> Body for SseBody<F> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = ready!(self.get_mut().poll_bytes(context));
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.feed.is_none() && self.ready.is_empty()
    }
}

#[cfg(test)]
#[path = "sse_body_tests.rs"]
mod tests;
