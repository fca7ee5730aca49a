//! Queues with priorities: the highest first, the oldest first within one, returned ones back at their places.

use super::rig::{Peer, Rig, consumer, message, name, queue, seq, settlement};
use crate::definition::{PriorityMode, QueueProperties};
use crate::ids::Seq;
use crate::request::{Define, Outcome, Publish, Reply, Request};

fn ranked(priority: PriorityMode) -> QueueProperties {
    QueueProperties { priority, ..QueueProperties::default() }
}

fn with(priority: Option<i32>, body: &str) -> Publish {
    Publish { priority, ..message("q", body) }
}

/// A queue with these messages.
fn filled(priority: PriorityMode, messages: &[(Option<i32>, &str)]) -> (Rig, Peer) {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", ranked(priority))).expect("declared");
    for (priority, body) in messages {
        rig.put(&mut peer, with(*priority, body));
    }
    (rig, peer)
}

fn drain(rig: &mut Rig, peer: &mut Peer) -> Vec<String> {
    rig.send(peer, vec![Request::Consume(consumer(9, "q", None))]);
    rig.settle();
    peer.texts()
}

#[test]
fn the_highest_priority_goes_first_and_the_oldest_within_it() {
    let messages = [
        (None, "none"),
        (Some(3), "a3"),
        (Some(9), "a9"),
        (Some(200), "b9"),
        (Some(3), "b3"),
        (Some(-4), "below"),
    ];
    let (mut rig, mut peer) = filled(PriorityMode::Max(9), &messages);
    assert_eq!(drain(&mut rig, &mut peer), ["a9", "b9", "a3", "b3", "none", "below"]);
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn full_priorities_take_all_of_i32() {
    let messages = [(None, "0"), (Some(i32::MIN), "min"), (Some(i32::MAX), "max"), (Some(-1), "-1")];
    let (mut rig, mut peer) = filled(PriorityMode::Full, &messages);
    assert_eq!(drain(&mut rig, &mut peer), ["max", "0", "-1", "min"]);
}

#[test]
fn a_queue_without_priorities_goes_by_age_alone() {
    let (mut rig, mut peer) = filled(PriorityMode::None, &[(Some(1), "a"), (Some(9), "b")]);
    assert_eq!(drain(&mut rig, &mut peer), ["a", "b"]);
}

#[test]
fn a_returned_message_goes_back_to_its_place_within_its_priority() {
    let messages = [(Some(1), "a1"), (Some(5), "a5"), (Some(5), "b5"), (Some(1), "b1")];
    let (mut rig, mut peer) = filled(PriorityMode::Max(9), &messages);
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", Some(3)))]);
    rig.settle();
    let got = peer.deliveries();
    assert_eq!(got.iter().map(|d| seq(d).0).collect::<Vec<_>>(), [2, 3, 1]);
    rig.send(&mut peer, vec![Request::Cancel(crate::ids::ConsumerId(1))]);
    rig.put(&mut peer, with(Some(5), "c5"));
    // in the wrong order, and one of them not at all
    for seq in [Seq(1), Seq(2)] {
        let requeue = settlement(1, &[seq], Outcome::Requeue { delay_ms: 0 });
        rig.call(&mut peer, Request::Settle(requeue)).expect("requeued");
    }
    assert_eq!(drain(&mut rig, &mut peer), ["a5", "c5", "a1", "b1"]);
}

#[test]
fn a_delayed_message_enters_its_priority_when_it_is_due() {
    let (mut rig, mut peer) = filled(PriorityMode::Max(9), &[]);
    rig.put(&mut peer, Publish { delay_ms: 500, ..with(Some(5), "late5") });
    rig.put(&mut peer, with(Some(5), "b5"));
    rig.put(&mut peer, with(Some(1), "a1"));
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", Some(1)))]);
    rig.settle();
    assert_eq!(peer.texts(), ["b5"]);
    rig.wait(500);
    rig.settle();
    rig.call(&mut peer, Request::Settle(settlement(1, &[Seq(2)], Outcome::Ack))).expect("acked");
    assert_eq!(peer.texts(), ["late5"]);
    assert_eq!(drain(&mut rig, &mut peer), ["a1"]);
}

#[test]
fn the_order_is_the_same_after_a_restart_and_a_purge_empties_every_priority() {
    let messages = [(Some(1), "a1"), (Some(5), "a5"), (Some(1), "b1"), (Some(9), "a9")];
    let (mut rig, mut peer) = filled(PriorityMode::Max(9), &messages);
    rig.put(&mut peer, Publish { delay_ms: 500, ..with(Some(7), "late7") });
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", Some(2)))]);
    rig.pass();
    let mut got = Vec::new();
    while got.len() < 2 {
        got.extend(rig.until(&mut peer).iter().map(super::rig::text));
    }
    assert_eq!(got, ["a9", "a5"], "bodies are read in the order of delivery");
    let purge = Request::Define(Define::Purge(name("q")));
    assert!(matches!(rig.call(&mut peer, purge), Ok(Reply::Removed { messages: 2 })));
    assert_eq!(drain(&mut rig, &mut peer), [""; 0]);
    rig.wait(500);
    rig.settle();
    assert_eq!(peer.texts(), ["late7"]);
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn many_messages_of_many_priorities_come_in_the_order_of_a_sorted_list() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", ranked(PriorityMode::Full))).expect("declared");
    let mut random = 0x9e37_79b9_u64;
    let mut expected = Vec::new();
    for number in 0..3000_i32 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let priority = (random % 41) as i32 - 20;
        expected.push((std::cmp::Reverse(priority), number));
        rig.send(&mut peer, vec![Request::Publish(with(Some(priority), &number.to_string()))]);
    }
    expected.sort_unstable();
    rig.settle();
    let expected: Vec<String> = expected.iter().map(|(_, number)| number.to_string()).collect();
    assert_eq!(drain(&mut rig, &mut peer), expected);
}
