//! Acks, nacks, rejects, recover: delivery tags to leases.

use framegate_adaptor_api::Outbound;
use framegate_broker::{Outcome, Word};

use super::channel::{Channel, Mode};
use super::link::Link;
use super::pending::Local;
use crate::codec::{Method, MethodId};
use crate::failure::Failure;

const REQUEUE: Outcome = Outcome::Requeue { delay_ms: 0 };

impl Channel {
    /// A method that settles.
    pub(super) fn settle(
        &mut self,
        link: &mut Link,
        method: Method<'_>,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        let id = method.id();
        let outcome = |requeue| if requeue { REQUEUE } else { Outcome::Reject };
        match method {
            Method::BasicAck { delivery_tag, multiple } => {
                self.settle_tag(link, (delivery_tag, multiple), (Outcome::Ack, Word::Ack), id, out)
            }
            Method::BasicNack { delivery_tag, multiple, requeue } => {
                self.settle_tag(link, (delivery_tag, multiple), (outcome(requeue), Word::Nack), id, out)
            }
            Method::BasicReject { delivery_tag, requeue } => {
                self.settle_tag(link, (delivery_tag, false), (outcome(requeue), Word::Reject), id, out)
            }
            Method::BasicRecover { requeue: false } | Method::BasicRecoverAsync { requeue: false } => {
                Err(Failure::not_implemented(id, "requeue=false"))
            }
            Method::BasicRecover { .. } => {
                self.requeue_all(link, out);
                self.say(Local::Send(Method::BasicRecoverOk {}), out);
                Ok(())
            }
            Method::BasicRecoverAsync { .. } => {
                self.requeue_all(link, out);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn requeue_all(&mut self, link: &mut Link, out: &mut Outbound) {
        for (consumer, seqs) in self.unacked.take_all() {
            link.settle(self.number, consumer, (REQUEUE, None), seqs, out);
        }
    }

    fn settle_tag(
        &mut self,
        link: &mut Link,
        (tag, multiple): (u64, bool),
        (outcome, word): (Outcome, Word),
        method: MethodId,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        let unknown = |_| Failure::precondition(method, format!("unknown delivery tag {tag}"));
        if let Mode::Tx(tx) = &mut self.mode {
            match (tag, multiple) {
                (0, true) => {}
                (tag, true) if tag <= self.unacked.last_tag() && !self.unacked.is_empty() => {}
                (tag, _) => drop(self.unacked.get(tag).map_err(unknown)?),
            }
            return tx.settle(&mut link.in_tx, (tag, multiple), outcome, method);
        }
        if !multiple {
            let (consumer, seq) = self.unacked.take(tag).map_err(unknown)?;
            link.settle(self.number, consumer, (outcome, Some(word)), [seq], out);
            return Ok(());
        }
        let taken =
            if tag == 0 { self.unacked.take_all() } else { self.unacked.take_upto(tag).map_err(unknown)? };
        for (consumer, seqs) in taken {
            link.settle(self.number, consumer, (outcome, Some(word)), seqs, out);
        }
        Ok(())
    }
}
