//! A transaction: publishes and settlements that wait for their commit. Nothing of it is known to the broker before.

use std::collections::HashSet;

use framegate_adaptor_api::Outbound;
use framegate_broker::{Define, Lease, Name, Outcome, Publish, Request, Settle};

use super::channel::{Channel, Mode};
use super::link::Link;
use super::pending::{Local, Waiting};
use crate::codec::{Method, MethodId};
use crate::failure::{Code, Failure};
use crate::limits::{TX_BYTES_MAX, TX_PARTS_MAX};

/// What waits.
#[derive(Debug, Default)]
pub(super) struct Tx {
    parts: Vec<Part>,
    bytes: usize,
    /// Tags that are settled one by one.
    settled: HashSet<u64>,
    /// Tags up to here are settled together.
    settled_upto: u64,
}

/// What the transactions of one connection hold together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InTx {
    parts: usize,
    bytes: usize,
}

#[derive(Debug)]
pub(super) enum Part {
    Publish(Box<Publish>),
    Settle { tag: u64, multiple: bool, outcome: Outcome },
}

impl Tx {
    fn add(&mut self, all: &mut InTx, part: Part, bytes: usize, method: MethodId) -> Result<(), Failure> {
        if all.parts >= TX_PARTS_MAX || all.bytes + bytes > TX_BYTES_MAX {
            let text = format!(
                "the transactions of a connection hold at most {TX_PARTS_MAX} parts and {TX_BYTES_MAX} bytes"
            );
            return Err(Failure::new(Code::ResourceError, method, text));
        }
        all.parts += 1;
        all.bytes += bytes;
        self.bytes += bytes;
        self.parts.push(part);
        Ok(())
    }

    /// Ends: its parts, which count no more.
    pub(super) fn take(&mut self, all: &mut InTx) -> Vec<Part> {
        let Self { parts, bytes, .. } = std::mem::take(self);
        all.parts -= parts.len();
        all.bytes -= bytes;
        parts
    }

    /// A settlement waits; its tag has been checked, and is not one of an earlier settlement.
    pub(super) fn settle(
        &mut self,
        all: &mut InTx,
        (tag, multiple): (u64, bool),
        outcome: Outcome,
        method: MethodId,
    ) -> Result<(), Failure> {
        let together = tag != 0 && tag <= self.settled_upto;
        if together || (!multiple && self.settled.contains(&tag)) {
            return Err(Failure::precondition(method, format!("unknown delivery tag {tag}")));
        }
        self.add(all, Part::Settle { tag, multiple, outcome }, 0, method)?;
        match multiple {
            true => self.settled_upto = self.settled_upto.max(tag),
            false => drop(self.settled.insert(tag)),
        }
        Ok(())
    }
}

impl Channel {
    /// A publish waits for its commit. Whether its exchange is there is asked now.
    pub(super) fn publish_in_tx(
        &mut self,
        link: &mut Link,
        publish: Publish,
        method: MethodId,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        let exchange: Name = publish.exchange.clone();
        let bytes = publish.frame.as_bytes().len();
        if let Mode::Tx(tx) = &mut self.mode {
            tx.add(&mut link.in_tx, Part::Publish(Box::new(publish)), bytes, method)?;
        }
        if !exchange.is_empty() && self.checked_exchange.as_ref() != Some(&exchange) {
            self.checked_exchange = Some(exchange.clone());
            let request = Request::Define(Define::ExchangePassive(exchange));
            self.ask(link, method, Waiting::Plain { ok: None, lenient: false }, request, out);
        }
        Ok(())
    }

    /// A method of the class.
    pub(super) fn tx(
        &mut self,
        link: &mut Link,
        method: Method<'_>,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        let id = method.id();
        if let Method::TxSelect {} = method {
            match self.mode {
                Mode::Confirm { .. } => {
                    return Err(Failure::precondition(id, "cannot switch from confirm to tx mode"));
                }
                Mode::Plain => self.mode = Mode::Tx(Box::default()),
                Mode::Tx(_) => {}
            }
            self.say(Local::Send(Method::TxSelectOk {}), out);
            return Ok(());
        }
        let Mode::Tx(tx) = &mut self.mode else {
            return Err(Failure::precondition(id, "channel is not transactional"));
        };
        let parts = tx.take(&mut link.in_tx);
        if let Method::TxRollback {} = method {
            self.say(Local::Send(Method::TxRollbackOk {}), out);
            return Ok(());
        }
        let requests = self.commit(link, parts, out);
        if requests.is_empty() {
            self.say(Local::Send(Method::TxCommitOk {}), out);
        } else {
            self.ask(link, id, Waiting::Committed, Request::Atomic(requests), out);
        }
        Ok(())
    }

    /// What the broker is asked for as one. Deliveries of a stream are known here only.
    fn commit(&mut self, link: &mut Link, parts: Vec<Part>, out: &mut Outbound) -> Vec<Request> {
        let mut requests = Vec::with_capacity(parts.len());
        for part in parts {
            let (tag, multiple, outcome) = match part {
                Part::Publish(publish) => {
                    requests.push(Request::Publish(*publish));
                    continue;
                }
                Part::Settle { tag, multiple, outcome } => (tag, multiple, outcome),
            };
            let taken = match (tag, multiple) {
                (0, _) => self.unacked.take_all(),
                (tag, true) => self.unacked.take_upto(tag).unwrap_or_default(),
                (tag, false) => {
                    self.unacked.take(tag).map(|(of, seq)| vec![(of, vec![seq])]).unwrap_or_default()
                }
            };
            for (consumer, seqs) in taken {
                if link.is_stream(consumer) {
                    link.settle(self.number, consumer, (outcome, None), seqs, out);
                    continue;
                }
                let lease = Lease::Positions(consumer, seqs);
                requests.push(Request::Settle(Settle { lease, outcome, answer: false }));
            }
        }
        requests
    }
}
