//! Dead letters: why a message leaves its queue against its will, its history, and where it goes then.

use std::cell::Cell;

use framegate_frame::Frame;
use framegate_storage::{BodyRef, Pos};

use super::Core;
use crate::definition::Overflow;
use crate::ids::{QueueId, Seq};
use crate::limits::{DEATHS_MAX, LETTERS_MAX};
use crate::message::{Death, DeathReason, Envelope};
use crate::metrics::Metrics;
use crate::name::Name;
use crate::record::{Body, SeqSet};
use crate::routing::{Parts, Targets};
use crate::state::{OPEN_BLOCK, VOLATILE_BIT, is_group};

/// A message on its way to a dead-letter exchange.
#[derive(Debug)]
pub(super) struct Letter {
    vhost: Name,
    envelope: Envelope,
    frame: Option<Frame>,
    body: Option<Body>,
    len: u32,
}

/// Where it goes can only be said, or done, with its frame in memory.
struct NeedsFrame;

impl Core {
    /// Moves messages that are no longer ready to the queue's dead-letter exchange, or drops them when it has none. They
    /// leave the queue in the same block as the copies come in. Those whose frame has to be read first follow later.
    pub(super) fn dead_letter(&mut self, queue: QueueId, seqs: &SeqSet, reason: DeathReason) {
        if is_group(queue) {
            return self.kill(queue, seqs, reason);
        }
        let Some(state) = self.state(queue).queue(queue) else { return };
        if state.spec.properties.dead_letter_exchange.is_none() {
            return self.remove(queue, seqs);
        }
        let mut gone = SeqSet::default();
        for seq in seqs.iter() {
            let sent = self.letter(queue, seq, reason).map(|letter| self.send_letter(letter));
            match sent {
                Some(Err(NeedsFrame)) => {
                    self.hold_dying(queue, seq, reason);
                    continue;
                }
                Some(Ok(())) => Metrics::add(&self.shared.metrics.dead_lettered, 1),
                None => {}
            }
            gone.push(seq);
        }
        if !gone.is_empty() {
            self.remove(queue, &gone);
        }
    }

    /// A message of a queue as a dead letter.
    fn letter(&self, queue: QueueId, seq: Seq, reason: DeathReason) -> Option<Letter> {
        let state = self.state(queue).queue(queue)?;
        let (envelope, slot) = (state.envelope(seq)?, state.slots.get(seq.0)?);
        let frame = self.live.get(&queue).and_then(|l| l.frames.get(&seq.0).cloned());
        let body = slot.body().map(Body::At).or((slot.block == OPEN_BLOCK).then_some(Body::At(BodyRef {
            block: Pos(slot.block),
            offset: slot.offset,
            len: slot.len,
        })));
        let len = slot.len;
        self.buried(queue, envelope, reason).map(|(vhost, envelope)| Letter {
            vhost,
            envelope,
            frame,
            body,
            len,
        })
    }

    /// The envelope of a message that dies in a queue, on its way to the queue's dead-letter exchange, if it has one.
    fn buried(
        &self,
        queue: QueueId,
        mut envelope: Envelope,
        reason: DeathReason,
    ) -> Option<(Name, Envelope)> {
        let state = self.state(queue).queue(queue)?;
        let properties = &state.spec.properties;
        let exchange = properties.dead_letter_exchange.clone()?;
        bury(&mut envelope, &state.spec.name, reason, self.now.wall_ms);
        envelope.exchange = exchange;
        if let Some(key) = &properties.dead_letter_key {
            envelope.keys = smallvec::smallvec![key.clone()];
        }
        Some((state.vhost.clone(), envelope))
    }

    /// A message that a full queue refused is a dead letter too. It is sent when the publish is done.
    pub(super) fn refuse_into_letter(&mut self, queue: QueueId, envelope: &Envelope, frame: Option<&Frame>) {
        let Some(frame) = frame.filter(|_| self.letters.len() < LETTERS_MAX) else { return };
        if let Some((vhost, envelope)) = self.buried(queue, envelope.clone(), DeathReason::MaxLen) {
            let len = u32::try_from(frame.as_bytes().len()).unwrap_or(u32::MAX);
            self.letters.push_back(Letter { vhost, envelope, frame: Some(frame.clone()), body: None, len });
        }
    }

    /// Sends the next of the refused messages; false when there is none.
    pub(super) fn next_letter(&mut self) -> bool {
        let Some(letter) = self.letters.pop_front() else { return false };
        // one that needs its frame has it
        let _ = self.send_letter(letter);
        Metrics::add(&self.shared.metrics.dead_lettered, 1);
        true
    }

    /// Routes a dead letter and gives it to whatever it reaches.
    fn send_letter(&mut self, letter: Letter) -> Result<(), NeedsFrame> {
        let Letter { vhost, envelope, frame, body, len } = letter;
        let mut targets = Targets::default();
        let (headers, asked) = (self.shared.headers.clone(), Cell::new(false));
        let read = |visit: &mut dyn FnMut(&str, crate::definition::HeaderValue<'_>)| {
            asked.set(true);
            if let Some(frame) = &frame {
                headers.read(frame, visit);
            }
        };
        let property = |property| {
            asked.set(true);
            frame.as_ref().and_then(|frame| crate::headers::property(frame, property))
        };
        let parts = Parts { keys: &envelope.keys, headers: &read, property: &property, delayed: false };
        if self.editor.current().route_parts(&vhost, &envelope.exchange, &parts, &mut targets).is_err() {
            return Ok(());
        }
        targets.queues.retain(|queue| {
            let name = self.state(*queue).queue(*queue).map(|q| &q.spec.name);
            name.is_some_and(|name| !goes_round(name, &envelope.deaths))
        });
        if let Some(frame) = frame {
            self.place(&vhost, envelope, &frame, body, &targets);
            return Ok(());
        }
        let weighed = |queue: &QueueId| {
            let properties = self.state(*queue).queue(*queue).map(|q| &q.spec.properties);
            properties.is_some_and(|p| {
                // a full queue may send it on
                p.bytes_max.is_some() || p.overflow == Overflow::RejectPublishDeadLetter
            })
        };
        // what the log does not know refers to no open block
        let moving = matches!(body, Some(Body::At(at)) if at.block.0 == OPEN_BLOCK);
        let unlogged = |queue: &QueueId| queue.0 & VOLATILE_BIT != 0 || !envelope.persistent;
        if asked.get()
            || (moving && targets.queues.iter().any(unlogged))
            || !targets.topics.is_empty()
            || !targets.watches.is_empty()
            || targets.queues.iter().any(weighed)
        {
            return Err(NeedsFrame);
        }
        // queues read it where it stands
        let mut body = body;
        for queue in targets.queues {
            if self.refuses_unread(queue) {
                continue;
            }
            let (_, _, stands) = self.enqueue(queue, envelope.clone(), None, body, len);
            body = stands;
        }
        Ok(())
    }

    /// A message that dies as soon as its frame has been read. Until then it is neither ready nor gone.
    fn hold_dying(&mut self, queue: QueueId, seq: Seq, reason: DeathReason) {
        let Some(live) = self.live.get_mut(&queue) else { return };
        if live.dying.insert(seq.0, reason).is_none() {
            live.held += 1;
        }
        self.load(queue);
    }

    /// Frames of a queue have been read: messages that waited for theirs die now.
    pub(super) fn bury_dying(&mut self, queue: QueueId) {
        let Some(live) = self.live.get_mut(&queue).filter(|l| !l.dying.is_empty()) else { return };
        let mut read = Vec::new();
        live.dying.retain(|seq, reason| {
            let there = live.frames.contains_key(seq);
            if there {
                read.push((Seq(*seq), *reason));
            }
            !there
        });
        live.held -= read.len() as u64;
        for (seq, reason) in read {
            self.dead_letter(queue, &SeqSet::one(seq), reason);
        }
    }
}

/// A message that would come back to a queue in which it died, and that nobody rejected since, would go round and round
/// without anybody touching it. `deaths` are the newest first. One with as many deaths as are kept, none of them a
/// rejection, does so as far as anybody can tell.
fn goes_round(queue: &Name, deaths: &[Death]) -> bool {
    let rejected = |d: &Death| d.reason == DeathReason::Rejected;
    match deaths.iter().position(|d| d.queue == *queue) {
        Some(last) => !deaths[..=last].iter().any(rejected),
        None => deaths.len() >= DEATHS_MAX && !deaths.iter().any(rejected),
    }
}

/// Writes a death into the history: the newest first, one entry for each queue and reason.
pub(super) fn bury(envelope: &mut Envelope, queue: &Name, reason: DeathReason, now_ms: u64) {
    let known = envelope.deaths.iter().position(|d| d.queue == *queue && d.reason == reason);
    let mut death = match known {
        Some(at) => envelope.deaths.remove(at),
        None => Death {
            queue: queue.clone(),
            reason,
            exchange: envelope.exchange.clone(),
            keys: envelope.keys.clone(),
            count: 0,
            time_ms: now_ms,
            ttl_ms: envelope.ttl_ms,
        },
    };
    death.count += 1;
    envelope.deaths.insert(0, death);
    envelope.deaths.truncate(DEATHS_MAX);
    envelope.expires_at_ms = 0;
    envelope.ttl_ms = None;
    envelope.deliver_at_ms = 0;
    envelope.attempts = 0;
    // it is no publish: it must not be remembered as one
    envelope.dedup = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deaths(of: &[(&'static str, DeathReason)]) -> Vec<Death> {
        let mut envelope = Envelope::default();
        for (queue, reason) in of {
            bury(&mut envelope, &Name::from_static(queue), *reason, 1);
        }
        envelope.deaths
    }

    #[test]
    fn only_a_rejection_since_it_died_there_lets_a_message_come_back() {
        use DeathReason::{DeliveryLimit, Expired, MaxLen, Rejected, Undeliverable};
        let a = Name::from_static("a");
        for reason in [Expired, MaxLen, DeliveryLimit, Undeliverable] {
            assert!(goes_round(&a, &deaths(&[("a", reason)])), "{reason:?}");
            assert!(goes_round(&a, &deaths(&[("a", Expired), ("b", reason)])));
            assert!(goes_round(&a, &deaths(&[("b", Rejected), ("a", reason)])), "rejected before, not since");
            assert!(!goes_round(&a, &deaths(&[("a", reason), ("b", Rejected)])));
            assert!(!goes_round(&a, &deaths(&[("b", reason)])), "it never died there");
        }
        assert!(!goes_round(&a, &deaths(&[("a", Rejected)])));
    }

    #[test]
    fn a_history_that_is_full_of_automatic_deaths_ends_the_journey() {
        let names: Vec<&'static str> = ["q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q9"].to_vec();
        let mut all: Vec<_> = names.iter().map(|n| (*n, DeathReason::Expired)).collect();
        all.extend(names.iter().map(|n| (*n, DeathReason::MaxLen)));
        let history = deaths(&all);
        assert_eq!(history.len(), DEATHS_MAX);
        assert!(goes_round(&Name::from_static("new"), &history));
    }

    #[test]
    fn dying_again_of_the_same_counts_up_and_moves_to_the_front() {
        use DeathReason::{Expired, Rejected};
        let history = deaths(&[("a", Expired), ("b", Rejected), ("a", Expired)]);
        let seen: Vec<_> = history.iter().map(|d| (d.queue.to_string(), d.reason, d.count)).collect();
        assert_eq!(seen, [("a".to_owned(), Expired, 2), ("b".to_owned(), Rejected, 1)]);
    }
}
