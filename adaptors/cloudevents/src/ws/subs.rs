//! Subscriptions of one WebSocket: what is outstanding, how much credit is left, what waits for its announcement. Never
//! talks to the broker.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use framegate_adaptor_api::Outbound;
use framegate_broker::{ConsumerId, Name, Seq};
use framegate_frame::Frame;
use serde_json::Value;

use super::answers::Place;
use super::op::{AckMode, Encoding};
use super::write::Lead;
use crate::event::write_data;
use crate::filter::Filters;
use crate::http::problem::Problem;

/// Where a subscription's events come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A feed: nothing is leased, acks only give credit back.
    Topic,
    /// A queue: deliveries are leased.
    Queue(Name),
}

/// A delivery that the client has not acked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Outstanding {
    /// Number of its ack id: position in the queue, or count in the feed.
    ack: u64,
    cursor: String,
}

/// One subscription.
#[derive(Debug)]
pub(crate) struct Sub {
    pub(crate) name: String,
    /// The name as JSON.
    json: String,
    pub(crate) consumer: ConsumerId,
    pub(crate) kind: Kind,
    pub(crate) ack: AckMode,
    pub(crate) credit: u32,
    pub(crate) encoding: Encoding,
    pub(crate) paused: bool,
    /// What a topic's events must pass.
    pub(crate) filters: Filters,
    /// Place of the `ok` that must leave before the first event.
    pub(crate) announced: Place,
    /// The feed was told to wait.
    waits: bool,
    seq: u64,
    outstanding: VecDeque<Outstanding>,
    held: Vec<BytesMut>,
}

impl Sub {
    pub(crate) fn new(
        name: String,
        consumer: ConsumerId,
        kind: Kind,
        (ack, credit, encoding): (AckMode, u32, Encoding),
        announced: Place,
    ) -> Self {
        Self {
            json: Value::from(name.as_str()).to_string(),
            name,
            consumer,
            kind,
            ack,
            credit,
            encoding,
            paused: false,
            filters: Filters::default(),
            announced,
            waits: false,
            seq: 0,
            outstanding: VecDeque::new(),
            held: Vec::new(),
        }
    }

    /// The same with filters.
    pub(crate) fn filtered(self, filters: Filters) -> Self {
        Self { filters, ..self }
    }

    /// Writes one event, or holds it back while the subscription is not announced or a feed is paused.
    pub(crate) fn deliver(&mut self, event: &Message<'_>, announced: bool, out: &mut Outbound) {
        self.seq += 1;
        let ack = (self.ack != AckMode::Auto).then_some(event.position.unwrap_or(self.seq));
        if let Some(ack) = ack {
            self.outstanding.retain(|old| old.ack != ack);
            self.outstanding.push_back(Outstanding { ack, cursor: event.cursor.to_string() });
        }
        let lead = Lead { sub: &self.json, cursor: event.cursor, seq: self.seq, ack, attempt: event.attempt };
        if !announced || (self.paused && self.kind == Kind::Topic) {
            let mut text = BytesMut::new();
            lead.write(&mut text);
            self.put_body(event, &mut text);
            self.held.push(text);
            return;
        }
        lead.write(out.buffer());
        match self.encoding {
            Encoding::Structured => {
                out.put(b",\"event\":");
                out.put_bytes(event.json.clone());
                out.put(b"}");
            }
            Encoding::Data => self.put_body(event, out.buffer()),
        }
        out.end_packet();
    }

    fn put_body(&self, event: &Message<'_>, text: &mut BytesMut) {
        match self.encoding {
            Encoding::Structured => {
                text.extend_from_slice(b",\"event\":");
                text.extend_from_slice(&event.json);
            }
            Encoding::Data => {
                let mut data = Vec::new();
                write_data(event.frame, &mut data);
                text.extend_from_slice(&data);
            }
        }
        text.extend_from_slice(b"}");
    }

    /// Writes what was held back. The feed may go on if it waited.
    pub(crate) fn release(&mut self, out: &mut Outbound) {
        if self.paused && self.kind == Kind::Topic {
            return;
        }
        for text in self.held.drain(..) {
            out.put(&text);
            out.end_packet();
        }
        if self.waits && self.has_credit() {
            self.waits = false;
            out.resume_feed.push(self.consumer);
        }
    }

    /// Whether a feed may bring more now; if not, `release` resumes it later.
    pub(crate) fn wants_more(&mut self, announced: bool) -> bool {
        let wants = announced && !self.paused && self.has_credit();
        self.waits = !wants;
        wants
    }

    fn has_credit(&self) -> bool {
        match self.ack {
            AckMode::Auto => self.credit > 0,
            AckMode::Explicit | AckMode::Cumulative => self.outstanding.len() < self.credit as usize,
        }
    }

    /// Takes the deliveries that ids name out of the outstanding ones.
    ///
    /// # Errors
    /// `unknown_delivery`; nothing is taken then.
    pub(crate) fn take(&mut self, ids: &[String]) -> Result<Vec<Seq>, Problem> {
        let known = self.known(ids)?;
        self.outstanding.retain(|delivery| !known.contains(&Seq(delivery.ack)));
        Ok(known)
    }

    /// The deliveries that ids name.
    ///
    /// # Errors
    /// `unknown_delivery`.
    pub(crate) fn known(&self, ids: &[String]) -> Result<Vec<Seq>, Problem> {
        let find = |id: &String| {
            let ack = id.strip_prefix('a').and_then(|number| number.parse::<u64>().ok());
            let known = ack.filter(|ack| self.outstanding.iter().any(|delivery| delivery.ack == *ack));
            known.map(Seq).ok_or_else(|| unknown(id))
        };
        ids.iter().map(find).collect()
    }

    /// Takes all deliveries up to a cursor.
    ///
    /// # Errors
    /// `unknown_delivery` when no outstanding delivery has that cursor.
    pub(crate) fn take_up_to(&mut self, cursor: &str) -> Result<Vec<Seq>, Problem> {
        let last = self.outstanding.iter().rposition(|delivery| delivery.cursor == cursor);
        let count = last.ok_or_else(|| unknown(cursor))? + 1;
        Ok(self.outstanding.drain(..count).map(|delivery| Seq(delivery.ack)).collect())
    }

    /// The broker has taken all leases back.
    pub(crate) fn forget_leases(&mut self) {
        if matches!(self.kind, Kind::Queue(_)) {
            self.outstanding.clear();
        }
    }

    /// Whether the client acks.
    pub(crate) fn acks(&self) -> bool {
        self.ack != AckMode::Auto
    }
}

fn unknown(id: &str) -> Problem {
    let shown: String = id.chars().take(40).collect();
    Problem::new(
        404,
        "unknown_delivery",
        format!("{shown:?} is not an outstanding delivery of this subscription"),
    )
}

/// An event on its way to one subscription.
pub(crate) struct Message<'a> {
    /// The whole event.
    pub(crate) json: Bytes,
    pub(crate) frame: &'a Frame,
    pub(crate) cursor: &'a dyn std::fmt::Display,
    /// Position in the queue; None for a feed.
    pub(crate) position: Option<u64>,
    pub(crate) attempt: u32,
}
