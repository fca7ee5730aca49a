//! A transaction: publishes and settlements that wait for their commit. Nothing of it is known to the broker before.

use framegate_adaptor_api::{Outbound, Unacked};
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
}

#[derive(Debug)]
enum Part {
    Publish(Box<Publish>),
    Settle { tag: u64, multiple: bool, outcome: Outcome },
}

impl Tx {
    fn add(&mut self, part: Part, bytes: usize, method: MethodId) -> Result<(), Failure> {
        if self.parts.len() >= TX_PARTS_MAX || self.bytes + bytes > TX_BYTES_MAX {
            let text = format!("a transaction holds at most {TX_PARTS_MAX} parts and {TX_BYTES_MAX} bytes");
            return Err(Failure::new(Code::ResourceError, method, text));
        }
        self.bytes += bytes;
        self.parts.push(part);
        Ok(())
    }

    /// A settlement waits; its tag has been checked, and is not one of an earlier settlement.
    pub(super) fn settle(
        &mut self,
        tag: u64,
        multiple: bool,
        outcome: Outcome,
        method: MethodId,
    ) -> Result<(), Failure> {
        let covered = |part: &Part| match part {
            Part::Settle { tag: other, multiple: true, .. } => tag != 0 && tag <= *other,
            Part::Settle { tag: other, multiple: false, .. } => !multiple && tag == *other,
            Part::Publish(_) => false,
        };
        if self.parts.iter().any(covered) {
            return Err(Failure::precondition(method, format!("unknown delivery tag {tag}")));
        }
        self.add(Part::Settle { tag, multiple, outcome }, 0, method)
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
            tx.add(Part::Publish(Box::new(publish)), bytes, method)?;
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
        let Tx { parts, .. } = std::mem::take(&mut **tx);
        if let Method::TxRollback {} = method {
            self.say(Local::Send(Method::TxRollbackOk {}), out);
            return Ok(());
        }
        let requests = commit(&mut self.unacked, parts);
        if requests.is_empty() {
            self.say(Local::Send(Method::TxCommitOk {}), out);
        } else {
            self.ask(link, id, Waiting::Committed, Request::Atomic(requests), out);
        }
        Ok(())
    }
}

fn commit(unacked: &mut Unacked, parts: Vec<Part>) -> Vec<Request> {
    let mut requests = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Publish(publish) => requests.push(Request::Publish(*publish)),
            Part::Settle { tag, multiple, outcome } => {
                let taken = match (tag, multiple) {
                    (0, _) => unacked.take_all(),
                    (tag, true) => unacked.take_upto(tag).unwrap_or_default(),
                    (tag, false) => unacked
                        .take(tag)
                        .map(|(consumer, seq)| vec![(consumer, vec![seq])])
                        .unwrap_or_default(),
                };
                for (consumer, seqs) in taken {
                    let lease = Lease::Positions(consumer, seqs);
                    requests.push(Request::Settle(Settle { lease, outcome, answer: false }));
                }
            }
        }
    }
    requests
}
