//! What all channels of a connection share: who it is, what was negotiated, ids of requests and consumers, publishes that wait
//! for their confirm, settlements that wait to go out together. Knows no channel.
//!
//! A request's id is a counter above its channel: ids grow, and an answer finds its channel without a table.
//!
//! ```text
//! RequestId: counter:48 channel:16
//! ```

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use framegate_adaptor_api::Outbound;
use framegate_broker::{
    BrokerError, ConsumerId, Happening, HeaderTable, Lease, Name, Outcome, Request, RequestId, Said, Seq,
    Settle, Word, feed,
};
use framegate_frame::Limits;

use super::stream_filter::StreamFilter;
use super::tx::InTx;
use crate::codec::{MethodId, Short};
use crate::failure::Failure;
use crate::limits::SETTLED_AT_ONCE_MAX;

/// What a client said that it understands.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Capabilities {
    pub(super) authentication_failure_close: bool,
    pub(super) consumer_cancel_notify: bool,
    pub(super) connection_blocked: bool,
}

/// A consumer.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) channel: u16,
    pub(super) tag: Box<str>,
    pub(super) no_ack: bool,
    /// Its queue tells how often a delivery failed before.
    pub(super) tells_count: bool,
    /// How long its queue lets a delivery stay unsettled, if the queue says so.
    pub(super) ack_timeout: Option<Duration>,
    /// Replies come to it directly.
    pub(super) takes_replies: bool,
    /// Where it begins if its queue is a stream.
    pub(super) from: Option<feed::From>,
    /// What it wants of a stream; None: everything.
    pub(super) filter: Option<StreamFilter>,
    /// Its queue is a stream.
    pub(super) stream: Option<Stream>,
}

/// A subscription that is a consumer.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) prefetch: u32,
    /// Deliveries that were not acked.
    pub(super) held: u32,
    pub(super) nowait: bool,
}

/// Has the deliveries of streams whose consumer has ended: they are settled here and nowhere else.
pub(super) const NOBODY: ConsumerId = ConsumerId(0);

/// Settlements of one kind that go out together.
#[derive(Debug)]
struct Settling {
    channel: u16,
    consumer: ConsumerId,
    outcome: Outcome,
    /// As the client said it; None when it said nothing.
    word: Option<Word>,
    seqs: Vec<Seq>,
}

/// See the top of the file.
pub(super) struct Link {
    pub(super) user: Name,
    pub(super) vhost: Name,
    pub(super) capabilities: Capabilities,
    pub(super) channel_max: u16,
    pub(super) frame_max: usize,
    pub(super) limits: Limits,
    pub(super) headers: HeaderTable,
    pub(super) consumers: HashMap<ConsumerId, Consumer>,
    /// Nothing is read before this is answered.
    pub(super) hold: Option<RequestId>,
    /// Nothing is read before this subscription is live.
    pub(super) hold_for: Option<ConsumerId>,
    /// Publishes in confirm mode that are not confirmed, in order.
    pub(super) unconfirmed: VecDeque<RequestId>,
    /// Bytes of contents that are still arriving.
    pub(super) unfinished: usize,
    pub(super) has_published: bool,
    /// What all transactions hold.
    pub(super) in_tx: InTx,
    settling: Option<Settling>,
    next_request: u64,
    next_consumer: u32,
    last_exchange: Name,
    last_key: Name,
}

impl Link {
    pub(super) fn new(headers: HeaderTable, limits: Limits) -> Self {
        Self {
            user: Name::default(),
            vhost: Name::default(),
            capabilities: Capabilities::default(),
            channel_max: 0,
            frame_max: 0,
            limits,
            headers,
            consumers: HashMap::new(),
            hold: None,
            hold_for: None,
            unconfirmed: VecDeque::new(),
            unfinished: 0,
            has_published: false,
            in_tx: InTx::default(),
            settling: None,
            next_request: 0,
            next_consumer: 0,
            last_exchange: Name::default(),
            last_key: Name::default(),
        }
    }

    /// Sends a request for a channel, behind the settlements that wait.
    pub(super) fn request(&mut self, channel: u16, request: Request, out: &mut Outbound) -> RequestId {
        self.flush(out);
        let id = self.next_id(channel);
        out.request(id, request);
        id
    }

    /// Settles; neighbours of one kind become one request.
    pub(super) fn settle(
        &mut self,
        channel: u16,
        consumer: ConsumerId,
        (outcome, word): (Outcome, Option<Word>),
        seqs: impl IntoIterator<Item = Seq>,
        out: &mut Outbound,
    ) {
        if let Some(stream) = self.consumers.get_mut(&consumer).and_then(|c| c.stream.as_mut()) {
            let count = u32::try_from(seqs.into_iter().count()).unwrap_or(u32::MAX);
            stream.held = stream.held.saturating_sub(count);
            out.resume_feed.push(consumer);
            return;
        }
        if consumer == NOBODY {
            return;
        }
        let fits = |s: &&mut Settling| {
            let same = s.consumer == consumer && s.outcome == outcome && s.word == word;
            same && s.seqs.len() < SETTLED_AT_ONCE_MAX
        };
        if let Some(settling) = self.settling.as_mut().filter(fits) {
            return settling.seqs.extend(seqs);
        }
        self.flush(out);
        let seqs = seqs.into_iter().collect();
        self.settling = Some(Settling { channel, consumer, outcome, word, seqs });
    }

    /// A subscription stands behind a consumer, or did.
    pub(super) fn is_stream(&self, consumer: ConsumerId) -> bool {
        consumer == NOBODY || self.consumers.get(&consumer).is_some_and(|c| c.stream.is_some())
    }

    /// Sends the settlements that wait.
    pub(super) fn flush(&mut self, out: &mut Outbound) {
        if let Some(Settling { channel, consumer, outcome, word, seqs }) = self.settling.take() {
            let id = self.next_id(channel);
            let multiple = seqs.len() > 1;
            let settle = Settle { lease: Lease::Positions(consumer, seqs), outcome, answer: false };
            let request = match word {
                Some(word) => {
                    let said = Said { word, channel: Some(channel.into()), tag: None, multiple };
                    Request::SettleAs(settle, said)
                }
                None => Request::Settle(settle),
            };
            out.request(id, request);
        }
    }

    /// Tells of something that happened on a channel, behind what was settled on it.
    pub(super) fn report(&mut self, channel: u16, what: Happening, out: &mut Outbound) {
        self.flush(out);
        let id = self.next_id(channel);
        out.request(id, Request::Report(what));
    }

    fn next_id(&mut self, channel: u16) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request << 16 | u64::from(channel))
    }

    /// Ids of requests from now on are above this.
    pub(super) fn request_mark(&self) -> u64 {
        self.next_request
    }

    pub(super) fn next_consumer(&mut self) -> ConsumerId {
        // never that of nobody
        self.next_consumer = self.next_consumer.wrapping_add(1).max(1);
        ConsumerId(self.next_consumer)
    }

    /// Name of the exchange of a publish; the one of before costs nothing.
    pub(super) fn exchange(&mut self, short: Short<'_>, method: MethodId) -> Result<Name, Failure> {
        if self.last_exchange.as_bytes() != short.0 {
            self.last_exchange = name(short, method)?;
        }
        Ok(self.last_exchange.clone())
    }

    /// Routing key of a publish; the one of before costs nothing.
    pub(super) fn key(&mut self, short: Short<'_>, method: MethodId) -> Result<Name, Failure> {
        if self.last_key.as_bytes() != short.0 {
            self.last_key = name(short, method)?;
        }
        Ok(self.last_key.clone())
    }

    /// What the broker says, in this protocol's words.
    pub(super) fn failure(&self, error: BrokerError, method: MethodId) -> Failure {
        Failure::of_broker(error, method, &self.vhost)
    }
}

/// Which channel a request was for, and its place in the order of all.
pub(super) fn split_id(id: RequestId) -> (u16, u64) {
    ((id.0 & 0xffff) as u16, id.0 >> 16)
}

/// A name or key.
pub(super) fn name(short: Short<'_>, method: MethodId) -> Result<Name, Failure> {
    let text = std::str::from_utf8(short.0).map_err(|_| Failure::not_text(method))?;
    Name::new(text).map_err(|error| Failure::precondition(method, error.to_string()))
}
