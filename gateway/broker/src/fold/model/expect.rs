//! What a connection must hear, in which order, and not before what is durable.

use super::{Gate, Model};
use crate::error::BrokerError;
use crate::ids::{ConnectionId, ConsumerId, RequestId};
use crate::message::Envelope;
use crate::request::{Effect, Published, Reply};

/// An answer, as far as the contract says what is in it.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::fold) enum Answered {
    Done,
    /// Any refusal.
    Refused,
    /// A refusal for this cause.
    Because(&'static str),
    /// Ready messages and consumers.
    Queue(u64, u32),
    Exchange,
    Topic,
    Group,
    Removed(u64),
    Settled(u64),
    Published(Place),
    Atomic(Vec<Place>),
}

/// Where a publish went.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::fold) struct Place {
    pub(super) queues: u32,
    /// Offset and place in the list of events.
    pub(super) event: Option<(u64, usize)>,
    pub(super) duplicate: bool,
    pub(super) routed: bool,
}

/// Something that a connection must hear.
#[derive(Debug, Clone)]
pub(in crate::fold) enum What {
    /// An answer; from then on messages may be pushed to that consumer.
    Reply(RequestId, Answered, Option<ConsumerId>),
    Confirm(RequestId),
    Refused(RequestId),
    Returned(RequestId, Box<Envelope>, framegate_frame::Frame),
    Cancelled(ConsumerId),
}

/// In its turn.
#[derive(Debug, Clone)]
pub(in crate::fold) struct Expected {
    pub(super) gate: Gate,
    pub(super) pass: usize,
    /// Those of one group come in any order.
    pub(super) group: u64,
    pub(super) what: What,
}

/// The cause of a refusal, in a word.
pub(in crate::fold) fn cause(error: &BrokerError) -> &'static str {
    match error {
        BrokerError::NotFound { .. } => "not found",
        BrokerError::Inequivalent { .. } => "inequivalent",
        BrokerError::Locked { .. } => "locked",
        BrokerError::InUse { .. } => "in use",
        BrokerError::NotEmpty { .. } => "not empty",
        BrokerError::Reserved { .. } => "reserved",
        BrokerError::ConsumerExists => "consumer exists",
        BrokerError::UnknownDelivery => "unknown delivery",
        BrokerError::QueueFull { .. } => "queue full",
        BrokerError::Conflict => "conflict",
        _ => "other",
    }
}

impl Model {
    pub(super) fn expect(&mut self, id: ConnectionId, gate: Gate, what: What) {
        let group = self.uid();
        self.expect_in(id, gate, group, what);
    }

    pub(super) fn expect_in(&mut self, id: ConnectionId, gate: Gate, group: u64, what: What) {
        let pass = self.pass();
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.expected.push_back(Expected { gate, pass, group, what });
        }
    }

    /// An effect that stands in its connection's turn.
    pub(super) fn accept_in_turn(&mut self, id: ConnectionId, effect: &Effect) -> Result<(), String> {
        let connection = self.connections.get(&id).ok_or("a connection that is gone")?;
        let front = connection.expected.front().ok_or("nothing was expected")?;
        let group = front.group;
        let mut why = String::new();
        let run = connection.expected.iter().take_while(|e| e.group == group);
        let found = run.enumerate().find_map(|(at, expected)| match self.fits(expected, effect) {
            Ok(()) => Some((at, expected.clone())),
            Err(reason) => {
                why = reason;
                None
            }
        });
        let (at, expected) = found.ok_or(why)?;
        if self.lo(expected.gate) > self.synced {
            return Err(format!("too early: {:?} is not durable, {} is", expected, self.synced));
        }
        if let What::Confirm(_) = &expected.what {
            return self.confirm(id, effect);
        }
        self.take_positions(&expected.what, effect)?;
        self.count_effect(&expected.what, effect);
        let connection = self.connections.get_mut(&id).ok_or("gone")?;
        connection.expected.remove(at);
        if let What::Reply(_, _, Some(consumer)) = expected.what
            && let Some(consumer) = connection.consumers.get_mut(&consumer)
        {
            consumer.announced = true;
        }
        Ok(())
    }

    /// A watermark covers the publishes in front up to its number.
    fn confirm(&mut self, id: ConnectionId, effect: &Effect) -> Result<(), String> {
        let Effect::Confirmed { upto } = effect else { return Err("no confirm".to_owned()) };
        let connection = self.connections.get(&id).ok_or("gone")?;
        let covered =
            connection.expected.iter().take_while(|e| matches!(e.what, What::Confirm(r) if r <= *upto));
        let covered: Vec<_> = covered.cloned().collect();
        if !matches!(covered.last().map(|e| &e.what), Some(What::Confirm(last)) if last == upto) {
            return Err(format!("{upto} is not the next to be confirmed"));
        }
        if let Some(early) = covered.iter().find(|e| self.lo(e.gate) > self.synced) {
            return Err(format!("too early: {early:?} is not durable, {} is", self.synced));
        }
        self.met(if covered.len() > 1 { "several confirmed at once" } else { "confirmed" });
        let connection = self.connections.get_mut(&id).ok_or("gone")?;
        connection.expected.drain(..covered.len());
        Ok(())
    }

    fn fits(&self, expected: &Expected, effect: &Effect) -> Result<(), String> {
        let fits = match (&expected.what, effect) {
            (What::Reply(wanted, answer, _), Effect::Reply(id, result)) if wanted == id => {
                return answers(answer, result).then_some(()).ok_or(format!("{result:?}, not {answer:?}"));
            }
            (What::Confirm(wanted), Effect::Confirmed { upto }) => wanted <= upto,
            (What::Refused(wanted), Effect::Refused { id, .. }) => wanted == id,
            (What::Returned(wanted, envelope, frame), Effect::Returned { id, envelope: e, frame: f }) => {
                wanted == id && envelope == e && frame.as_bytes() == f.as_bytes()
            }
            (What::Cancelled(wanted), Effect::Cancelled { consumer, .. }) => wanted == consumer,
            _ => false,
        };
        if fits { Ok(()) } else { Err(format!("expected {:?}", expected.what)) }
    }

    /// Positions that an answer tells are those of the events.
    fn take_positions(&mut self, what: &What, effect: &Effect) -> Result<(), String> {
        let told: Vec<(&Place, &Published)> = match (what, effect) {
            (What::Reply(_, Answered::Published(place), _), Effect::Reply(_, Ok(Reply::Published(p)))) => {
                vec![(place, p)]
            }
            (What::Reply(_, Answered::Atomic(places), _), Effect::Reply(_, Ok(Reply::Atomic(all)))) => {
                places.iter().zip(all).collect()
            }
            _ => Vec::new(),
        };
        for (place, published) in told {
            match (place.event, published.cursor) {
                (Some((_, at)), Some(cursor)) => self.learn_cursor(at, cursor)?,
                (None, None) => {}
                (wanted, cursor) => return Err(format!("cursor {cursor:?} of {wanted:?}")),
            }
        }
        Ok(())
    }

    fn count_effect(&mut self, what: &What, effect: &Effect) {
        let name = match (what, effect) {
            (_, Effect::Reply(_, Err(error))) => cause(error),
            (What::Reply(_, answer, _), _) => match answer {
                Answered::Atomic(_) => "atomic done",
                Answered::Published(p) if p.duplicate => "a duplicate",
                Answered::Published(_) => "published",
                Answered::Settled(_) => "settled",
                Answered::Removed(_) => "removed",
                _ => "done",
            },
            (What::Returned(..), _) => "returned",
            (What::Cancelled(_), _) => "cancelled",
            (What::Refused(_), _) => "a publish was refused",
            (What::Confirm(_), _) => "confirmed",
        };
        self.met(name);
    }

    /// Nothing that has become durable is still owed.
    pub(super) fn all_answered(&self) -> Result<(), String> {
        for (id, connection) in &self.connections {
            if let Some(front) = connection.expected.front()
                && self.hi(front.gate) <= self.durable
            {
                return Err(format!("connection {id} did not hear {front:?}, durable is {}", self.durable));
            }
        }
        Ok(())
    }
}

fn answers(wanted: &Answered, result: &Result<Reply, BrokerError>) -> bool {
    let same = |place: &Place, p: &Published| {
        place.queues == p.queues
            && place.event.map(|e| e.0) == p.offset.map(|o| o.0)
            && place.duplicate == p.duplicate
            && place.routed == p.routed
    };
    match (wanted, result) {
        (Answered::Refused, Err(_)) => true,
        (Answered::Because(why), Err(error)) => cause(error) == *why,
        (Answered::Done, Ok(Reply::Done))
        | (Answered::Exchange, Ok(Reply::Exchange(_)))
        | (Answered::Topic, Ok(Reply::Topic(_)))
        | (Answered::Group, Ok(Reply::Group(_))) => true,
        (Answered::Queue(ready, consumers), Ok(Reply::Queue(info))) => {
            info.ready == *ready && info.consumers == *consumers
        }
        (Answered::Removed(wanted), Ok(Reply::Removed { messages })) => wanted == messages,
        (Answered::Settled(wanted), Ok(Reply::Settled { count })) => wanted == count,
        (Answered::Published(place), Ok(Reply::Published(p))) => same(place, p),
        (Answered::Atomic(places), Ok(Reply::Atomic(all))) => {
            places.len() == all.len() && places.iter().zip(all).all(|(place, p)| same(place, p))
        }
        _ => false,
    }
}
