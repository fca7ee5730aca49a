//! Settlements: ACK, NACK, REJECT, RECOVER. All tags of a command must be outstanding, or nothing is settled.

use std::collections::BTreeMap;

use framegate_adaptor_api::Outbound;
use framegate_broker::{BrokerError, ConsumerId, Lease, Outcome, Reply, Request, Said, Seq, Settle, Word};

use super::Call;
use crate::codec::{put_failure, put_success};
use crate::conversation::{Conversation, Unexpected};
use crate::errors::Failure;
use crate::json::Object;
use crate::pending::Waiting;
use crate::schema::Key;
use crate::unsettled::Tag;

/// Which command settles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Ack,
    Nack,
    Reject,
}

/// A settlement that is not answered yet.
#[derive(Debug)]
pub(crate) struct Settlement {
    verb: Verb,
    /// Settled by requests that were answered before the last one.
    count: u64,
    failure: Option<Failure>,
}

/// What the outcome alone does not say of the command: a NACK that does not requeue, a REJECT that does.
fn said(verb: Verb, outcome: Outcome) -> Option<Said> {
    let word = match (verb, outcome) {
        (Verb::Nack, Outcome::Reject) => Word::Nack,
        (Verb::Reject, Outcome::Requeue { .. }) => Word::Reject,
        _ => return None,
    };
    Some(Said { word, channel: None, tag: None, multiple: false })
}

impl Conversation {
    pub(super) fn settle(&mut self, verb: Verb, call: &mut Call<'_>) -> Result<(), Failure> {
        let payload = call.payload;
        let find = |tag: &str| self.unsettled.find(tag).ok_or_else(|| Failure::unknown_tag(tag));
        let tags: Vec<Tag> = match (payload.text(Key::DeliveryTag), payload.texts(Key::DeliveryTags)) {
            (Some(tag), None) => vec![find(tag)?],
            (None, Some(tags)) => tags.iter().map(|tag| find(tag)).collect::<Result<_, _>>()?,
            (Some(_), Some(_)) => return Err(Failure::field("deliveryTag", "excludes 'deliveryTags'")),
            (None, None) => return Err(payload.missing(Key::DeliveryTag)),
        };
        let outcome = match verb {
            Verb::Ack => Outcome::Ack,
            _ if payload.flag(Key::Requeue) => Outcome::Requeue { delay_ms: 0 },
            _ => Outcome::Reject,
        };
        let mut leases: BTreeMap<ConsumerId, Vec<Seq>> = BTreeMap::new();
        for tag in tags {
            let seqs = leases.entry(tag.consumer).or_default();
            if payload.flag(Key::Multiple) {
                seqs.extend(self.unsettled.take_upto(tag));
            } else {
                // A tag that stands twice in one command is settled once.
                seqs.extend(self.unsettled.take(tag));
            }
        }
        let settles = leases.into_iter().map(|(consumer, seqs)| {
            let lease = Lease::Positions(consumer, seqs);
            let settle = Settle { lease, outcome, answer: true };
            match said(verb, outcome) {
                Some(said) => Request::SettleAs(settle, said),
                None => Request::Settle(settle),
            }
        });
        self.submit_settles(verb, settles.collect(), call);
        Ok(())
    }

    /// One request a consumer; the last one's reply answers the command.
    fn submit_settles(&mut self, verb: Verb, mut settles: Vec<Request>, call: &mut Call<'_>) {
        let Some(last) = settles.pop() else { return };
        let mut parts = Vec::with_capacity(settles.len());
        for settle in settles {
            let part = self.in_progress.untracked();
            call.out.request(part, settle);
            parts.push(part);
        }
        let waiting = Waiting::Settled(Settlement { verb, count: 0, failure: None });
        let whole = self.in_progress.add(call.request_id, waiting);
        call.out.request(whole, last);
        for part in parts {
            self.in_progress.add_part(part, whole);
        }
    }

    pub(super) fn recover(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        self.ask(call, Request::Recover(None), Waiting::Recovered);
        Ok(())
    }

    pub(crate) fn recovered(
        &mut self,
        request_id: &str,
        reply: &Reply,
        out: &mut Outbound,
    ) -> Result<(), Unexpected> {
        let Reply::Settled { count } = reply else { return Err(Unexpected) };
        // Deliveries decided before came before this reply; those decided after it are still to come.
        self.unsettled.clear();
        put_count(request_id, "requeued", *count, out);
        Ok(())
    }
}

impl Settlement {
    /// Counts the reply to one of its requests.
    pub(crate) fn add(&mut self, result: &Result<Reply, BrokerError>) {
        match result {
            Ok(Reply::Settled { count }) => self.count += count,
            Ok(_) => {}
            Err(error) => self.failure = Some(error.clone().into()),
        }
    }

    /// Answers, with the reply to its last request.
    pub(crate) fn finish(mut self, request_id: &str, reply: &Reply, out: &mut Outbound) {
        if let Some(failure) = self.failure.take() {
            return put_failure(Some(request_id), &failure, out);
        }
        if let Reply::Settled { count } = reply {
            self.count += count;
        }
        let name = match self.verb {
            Verb::Ack => "acked",
            Verb::Nack => "nacked",
            Verb::Reject => "rejected",
        };
        put_count(request_id, name, self.count, out);
    }
}

fn put_count(request_id: &str, name: &str, count: u64, out: &mut Outbound) {
    put_success(request_id, out, |buffer| {
        let mut object = Object::begin(buffer);
        object.number(name, count);
        object.end();
    });
}
