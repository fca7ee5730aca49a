//! Pushes: messages on their way to the client, and its acks, which name nothing but the sequence of the push (reference
//! `eventmesh.md` 3.5 to 3.7).

use std::collections::BTreeMap;

use bytes::Bytes;
use framegate_adaptor_api::{Egress, Outbound};
use framegate_broker::{ConsumerId, Delivery, FeedItem, Lease, Outcome, Position, Request, Seq, Settle};

use super::conversation::Conversation;
use crate::command::Command;
use crate::format::Format;
use crate::header::{Header, SUCCESS, put_push};
use crate::limits::WINDOW_MAX;
use crate::package::{TooLarge, put_package};

/// Pushes without ack that are remembered: more than any window, since one that was not acked in time is pushed again under
/// another number.
const PUSHES_MAX: usize = 2 * WINDOW_MAX as usize;

/// Pushes that wait for their ack.
#[derive(Debug, Default)]
pub(super) struct Pushes {
    last: u64,
    open: BTreeMap<u64, (ConsumerId, Seq)>,
}

impl Pushes {
    /// The sequence of the next push: twelve digits, so that it is never one of the ten digits that clients choose.
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn open(&mut self, number: u64, consumer: ConsumerId, seq: Seq) {
        if self.open.len() >= PUSHES_MAX {
            self.open.pop_first();
        }
        self.open.insert(number, (consumer, seq));
    }

    fn close(&mut self, seq: &str) -> Option<(ConsumerId, Seq)> {
        self.open.remove(&seq.parse().ok()?)
    }
}

impl Conversation {
    /// Pushes a message to one member of the group: this one.
    pub(super) fn push(&mut self, delivery: &Delivery, out: &mut Outbound) {
        let Position::Queue(seq) = delivery.position else { return };
        let consumer = delivery.consumer;
        let Some(command) = self.subscriptions.get(consumer).map(|subscription| subscription.push) else {
            // Unsubscribed while it was on the way.
            return self.settle(consumer, seq, Outcome::Requeue { delay_ms: 0 }, out);
        };
        let message = Egress {
            envelope: &delivery.envelope,
            frame: &delivery.frame,
            origin: &delivery.origin,
            headers: &self.headers,
        };
        let format = self.format(&delivery.frame);
        let body = format.write(&self.adaptors, message);
        let number = self.pushes.next();
        match body.map(|body| self.put(command, number, format, &body, out)) {
            Ok(Ok(())) => {
                self.pushes.open(number, consumer, seq);
                if command == Command::RequestToClient {
                    self.calls.pushed(&delivery.frame, &delivery.origin.name);
                }
            }
            _ => self.settle(consumer, seq, Outcome::Undeliverable, out),
        }
    }

    /// Pushes a message of a broadcast; whether more may come.
    pub(super) fn feed(&mut self, consumer: ConsumerId, item: &FeedItem, out: &mut Outbound) -> bool {
        let Some(subscription) = self.subscriptions.get(consumer) else { return false };
        let command = subscription.push;
        if let FeedItem::Event(event) = item {
            let format = self.format(&event.frame);
            let (adaptors, headers) = (&self.adaptors, &self.headers);
            let body = event.encoded(format.shared(), |event| {
                let (envelope, frame, origin) = (&event.envelope, &event.frame, &event.origin);
                format.write(adaptors, Egress { envelope, frame, origin, headers }).unwrap_or_default()
            });
            let number = self.pushes.next();
            // What cannot be written is passed over: nobody holds a broadcast.
            if !body.is_empty() {
                let _ = self.put(command, number, format, &body, out);
            }
        }
        true
    }

    /// Writes a push.
    pub(super) fn put(
        &self,
        command: Command,
        number: u64,
        format: Format,
        body: &Bytes,
        out: &mut Outbound,
    ) -> Result<(), TooLarge> {
        self.put_message(command, &format!("{number:012}"), format, body, out)
    }

    /// Writes a message with a sequence.
    pub(super) fn put_message(
        &self,
        command: Command,
        seq: &str,
        format: Format,
        body: &Bytes,
        out: &mut Outbound,
    ) -> Result<(), TooLarge> {
        put_package(
            out.buffer(),
            self.generation,
            |buffer| put_push(buffer, command, seq, format.as_str()),
            |buffer| {
                buffer.extend_from_slice(body);
                true
            },
        )?;
        out.end_packet();
        Ok(())
    }

    /// The client has taken a push; or has not, when it says another code than 0.
    pub(super) fn acked(&mut self, header: &Header<'_>, out: &mut Outbound) {
        let Some((consumer, seq)) = self.pushes.close(&header.seq) else { return };
        let outcome = if header.code == SUCCESS.0 { Outcome::Ack } else { Outcome::Requeue { delay_ms: 0 } };
        self.settle(consumer, seq, outcome, out);
    }

    fn settle(&mut self, consumer: ConsumerId, seq: Seq, outcome: Outcome, out: &mut Outbound) {
        let lease = Lease::Positions(consumer, vec![seq]);
        self.ask(Request::Settle(Settle { lease, outcome, answer: false }), out);
    }
}
