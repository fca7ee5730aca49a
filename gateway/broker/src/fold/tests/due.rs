//! Many messages whose times come in any order: none is early, none is late by more than the look at the clock that finds
//! it, none comes twice, none is missing.

use super::rig::{Peer, Rig, consumer, dead_to, info, message, queue, seq, settlement, text};
use crate::definition::QueueProperties;
use crate::request::{Outcome, Publish, Request};

const MESSAGES: usize = 1500;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Lets some ms go by; the time before.
fn step(rig: &mut Rig, random: &mut Random) -> u64 {
    let before = rig.now.wall_ms;
    rig.wait(1 + random.below(40));
    rig.settle();
    before
}

/// Everything that came, with its number: each after its time, in the first look at the clock after it.
fn arrived(peer: &mut Peer, due: &mut [Option<u64>], before: u64, now: u64) -> Vec<(usize, crate::ids::Seq)> {
    let mut all = Vec::new();
    for delivery in peer.deliveries() {
        let number: usize = text(&delivery).parse().expect("a number");
        let at = due[number].take().expect("it was due once, and is here for the first time");
        assert!(before < at && at <= now, "{number} is due at {at}, seen between {before} and {now}");
        all.push((number, seq(&delivery)));
    }
    all
}

#[test]
fn delays_of_publishes_and_of_retries_are_kept_to_the_millisecond() {
    let (mut rig, mut random) = (Rig::new(), Random(0x9e37_79b9));
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.call(&mut peer, Request::Consume(consumer(1, "q", None))).expect("consumes");
    let mut due: Vec<Option<u64>> = Vec::new();
    for number in 0..MESSAGES {
        let delay_ms = 1 + random.below(2000);
        due.push(Some(rig.now.wall_ms + delay_ms));
        let publish = Publish { delay_ms, ..message("q", &number.to_string()) };
        rig.send(&mut peer, vec![Request::Publish(publish)]);
    }
    rig.settle();
    let (mut again, mut done) = (vec![false; MESSAGES], 0);
    while done < MESSAGES {
        let before = step(&mut rig, &mut random);
        let now = rig.now.wall_ms;
        for (number, seq) in arrived(&mut peer, &mut due, before, now) {
            let outcome = if std::mem::replace(&mut again[number], true) {
                done += 1;
                Outcome::Ack
            } else {
                let delay_ms = 1 + random.below(500);
                due[number] = Some(now + delay_ms);
                Outcome::Requeue { delay_ms }
            };
            rig.send(&mut peer, vec![Request::Settle(settlement(1, &[seq], outcome))]);
        }
        assert!(now < 1_000_000 + 4000, "{} are missing", MESSAGES - done);
    }
    rig.settle();
    assert_eq!(info(&mut rig, &mut peer, "q").ready + info(&mut rig, &mut peer, "q").unacked, 0);
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn messages_of_a_queue_die_when_their_time_is_over() {
    let (mut rig, mut random) = (Rig::new(), Random(0x1234_5677));
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("dead", QueueProperties::default())).expect("declared");
    let properties = QueueProperties { message_ttl_ms: Some(700), ..dead_to("dead") };
    rig.call(&mut peer, queue("q", properties)).expect("declared");
    rig.call(&mut peer, Request::Consume(consumer(1, "dead", None))).expect("consumes");
    let mut due: Vec<Option<u64>> = Vec::new();
    let mut died = 0;
    while died < MESSAGES {
        for _ in 0..random.below(60).min((MESSAGES - due.len()) as u64) {
            rig.send(&mut peer, vec![Request::Publish(message("q", &due.len().to_string()))]);
            due.push(Some(rig.now.wall_ms + 700));
        }
        let before = step(&mut rig, &mut random);
        let now = rig.now.wall_ms;
        died += arrived(&mut peer, &mut due, before, now).len();
        assert!(now < 1_000_000 + 10_000, "{} are missing", MESSAGES - died);
    }
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 0);
    assert_eq!(rig.hashes().0, rig.hashes().1);
}
