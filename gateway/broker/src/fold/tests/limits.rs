//! Length and byte limits: what is dropped, what is refused, and what does not count.

use super::rig::{
    Peer, Rig, consumer, corpses, dead_to, info, message, name, pull, queue, seq, settlement, text,
};
use crate::definition::{BindTarget, BindingSpec, Overflow, QueueProperties};
use crate::error::BrokerError;
use crate::ids::Seq;
use crate::message::{DeathReason, Dedup};
use crate::request::{Answer, Define, Effect, Outcome, Publish, Reply, Request};

fn limited(overflow: Overflow, length_max: u64) -> QueueProperties {
    QueueProperties { overflow, length_max: Some(length_max), ..dead_to("dead") }
}

fn rig_with(properties: QueueProperties) -> (Rig, Peer) {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("dead", QueueProperties::default())).expect("declared");
    rig.call(&mut peer, queue("q", properties)).expect("declared");
    (rig, peer)
}

fn max_len(bodies: &[&str]) -> Vec<(String, DeathReason, u64)> {
    bodies.iter().map(|body| ((*body).to_owned(), DeathReason::MaxLen, 1)).collect()
}

fn publish(body: &str) -> Request {
    Request::Publish(message("q", body))
}

#[test]
fn the_oldest_ready_message_leaves_a_queue_that_is_too_long() {
    let (mut rig, mut peer) = rig_with(limited(Overflow::DropHead, 2));
    for body in ["a", "b", "c", "d"] {
        rig.put(&mut peer, message("q", body));
    }
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 2);
    assert_eq!(corpses(&mut rig, &mut peer, "dead"), max_len(&["a", "b"]));
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn leased_messages_do_not_count_until_they_return() {
    let (mut rig, mut peer) = rig_with(limited(Overflow::DropHead, 2));
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", Some(2)))]);
    for body in ["a", "b", "c", "d"] {
        rig.put(&mut peer, message("q", body));
    }
    assert_eq!(peer.texts(), ["a", "b"]);
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 2);
    rig.send(&mut peer, vec![Request::Cancel(crate::ids::ConsumerId(1))]);
    let requeue = settlement(1, &[Seq(1), Seq(2)], Outcome::Requeue { delay_ms: 0 });
    rig.call(&mut peer, Request::Settle(requeue)).expect("requeued");
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 2);
    assert_eq!(corpses(&mut rig, &mut peer, "dead"), max_len(&["a", "b"]), "they are the head again");
}

#[test]
fn what_a_consumer_takes_at_once_is_never_too_many() {
    for overflow in [Overflow::DropHead, Overflow::RejectPublish] {
        let (mut rig, mut peer) = rig_with(limited(overflow, 1));
        rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", None))]);
        rig.settle();
        rig.send(&mut peer, ["a", "b", "c", "d"].map(publish).to_vec());
        rig.settle();
        assert_eq!(peer.texts(), ["a", "b", "c", "d"]);
    }
}

#[test]
fn what_returns_to_a_queue_that_is_too_long_is_with_its_consumer_again_before_the_next_settlement() {
    let (mut rig, mut peer) = rig_with(limited(Overflow::DropHead, 1));
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", None))]);
    rig.settle();
    rig.send(&mut peer, ["a", "b"].map(publish).to_vec());
    rig.settle();
    assert_eq!(peer.texts(), ["a", "b"]);
    let again = settlement(1, &[Seq(1), Seq(2)], Outcome::Requeue { delay_ms: 0 });
    let ack = settlement(1, &[Seq(1)], Outcome::Ack);
    rig.send(&mut peer, vec![Request::Settle(again), Request::Settle(ack)]);
    rig.settle();
    assert_eq!(peer.texts(), ["a", "b"], "none was dropped");
    let left = info(&mut rig, &mut peer, "q");
    assert_eq!((left.ready, left.unacked), (0, 1), "the ack is of what came again");
    assert_eq!(corpses(&mut rig, &mut peer, "dead"), []);
}

#[test]
fn a_queue_of_length_0_gives_to_who_waits_and_keeps_nothing() {
    let (mut rig, mut peer) = rig_with(limited(Overflow::DropHead, 0));
    rig.put(&mut peer, message("q", "a"));
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 0);
    assert_eq!(corpses(&mut rig, &mut peer, "dead"), max_len(&["a"]));
    rig.send(&mut peer, vec![pull(1, "q", 1, 1000, true), publish("b")]);
    assert_eq!(rig.until_fetched(&mut peer).iter().map(text).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_publish_that_a_full_queue_refuses_is_answered_as_its_publisher_asked() {
    let (mut rig, mut peer) = rig_with(limited(Overflow::RejectPublish, 1));
    rig.put(&mut peer, message("q", "a"));
    let ids = rig.send(
        &mut peer,
        vec![
            Request::Publish(Publish { answer: Answer::Watermark, mandatory: true, ..message("q", "b") }),
            Request::Publish(Publish { answer: Answer::Reply, ..message("q", "c") }),
            Request::Publish(Publish { answer: Answer::Watermark, ..message("dead", "safe") }),
            publish("d"),
        ],
    );
    rig.settle();
    let full = |error: &BrokerError| *error == BrokerError::QueueFull { name: name("q") };
    let effects = peer.effects();
    assert!(
        matches!(&effects[..], [
        Effect::Refused { id, error },
        Effect::Reply(reply, Err(other)),
        Effect::Confirmed { upto },
    ] if *id == ids[0] && full(error) && *reply == ids[1] && full(other) && *upto == ids[2]),
        "{effects:?}"
    );
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 1);
    assert_eq!(info(&mut rig, &mut peer, "dead").ready, 1, "refused messages are not dead-lettered");
}

#[test]
fn another_queue_of_the_same_publish_gets_the_message_all_the_same() {
    let (mut rig, mut peer) = rig_with(limited(Overflow::RejectPublish, 1));
    let mut both = Publish { answer: Answer::Reply, ..message("q", "a") };
    both.keys.push(name("dead"));
    assert!(matches!(rig.call(&mut peer, Request::Publish(both.clone())), Ok(Reply::Published(_))));
    let refused = rig.call(&mut peer, Request::Publish(both));
    assert!(matches!(refused, Err(BrokerError::QueueFull { .. })));
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 1);
    assert_eq!(info(&mut rig, &mut peer, "dead").ready, 2);
}

#[test]
fn a_refused_message_is_dead_lettered_when_the_queue_says_so() {
    let (mut rig, mut peer) = rig_with(limited(Overflow::RejectPublishDeadLetter, 1));
    rig.put(&mut peer, message("q", "a"));
    let refused =
        rig.call(&mut peer, Request::Publish(Publish { answer: Answer::Reply, ..message("q", "b") }));
    assert!(matches!(refused, Err(BrokerError::QueueFull { .. })));
    rig.put(&mut peer, message("q", "c"));
    assert_eq!(corpses(&mut rig, &mut peer, "dead"), max_len(&["b", "c"]));
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", None))]);
    rig.settle();
    assert_eq!(peer.texts(), ["a"]);
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn an_atomic_request_that_does_not_fit_is_refused_as_a_whole() {
    let (mut rig, mut peer) = rig_with(limited(Overflow::RejectPublish, 2));
    let three = Request::Atomic(["a", "b", "c"].map(publish).to_vec());
    assert_eq!(rig.call(&mut peer, three).expect_err("full"), BrokerError::QueueFull { name: name("q") });
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 0);
    let two = Request::Atomic(["a", "b"].map(publish).to_vec());
    assert!(matches!(rig.call(&mut peer, two), Ok(Reply::Atomic(_))));
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 2);
}

#[test]
fn bytes_of_the_data_count_and_nothing_around_it() {
    let properties = QueueProperties { bytes_max: Some(100), ..dead_to("dead") };
    let (mut rig, mut peer) = rig_with(properties);
    let body = |mark: char| mark.to_string().repeat(40);
    for mark in ['a', 'b'] {
        rig.put(&mut peer, message("q", &body(mark)));
    }
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 2);
    // and so they do after a restart
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    rig.put(&mut peer, message("q", &"c".repeat(20)));
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 3, "100 of 100");
    rig.put(&mut peer, message("q", "d"));
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 3);
    rig.put(&mut peer, message("q", &"e".repeat(101)));
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 0, "it does not even fit alone");
    let dead = corpses(&mut rig, &mut peer, "dead");
    assert_eq!(dead.iter().map(|d| &d.0[..1]).collect::<Vec<_>>(), ["a", "b", "c", "d", "e"]);
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn bytes_come_and_go_with_leases_delays_purges_and_refusals() {
    let properties = QueueProperties {
        bytes_max: Some(10),
        overflow: Overflow::RejectPublish,
        ..QueueProperties::default()
    };
    let (mut rig, mut peer) = rig_with(properties);
    let fits = |rig: &mut Rig, peer: &mut Peer, bytes: usize| {
        let publish = Publish { answer: Answer::Reply, ..message("q", &"x".repeat(bytes)) };
        rig.call(peer, Request::Publish(publish)).is_ok()
    };
    assert!(fits(&mut rig, &mut peer, 8));
    assert!(!fits(&mut rig, &mut peer, 3));
    rig.send(&mut peer, vec![pull(1, "q", 1, 0, false)]);
    let held = rig.until_fetched(&mut peer);
    assert!(fits(&mut rig, &mut peer, 10), "what is held does not count");
    let ack = settlement(1, &[seq(&held[0])], Outcome::Ack);
    rig.call(&mut peer, Request::Settle(ack)).expect("acked");
    assert!(!fits(&mut rig, &mut peer, 1));
    let purge = Request::Define(crate::request::Define::Purge(name("q")));
    rig.call(&mut peer, purge).expect("purged");
    rig.put(&mut peer, Publish { delay_ms: 50, ..message("q", &"y".repeat(7)) });
    assert!(fits(&mut rig, &mut peer, 5), "what waits for its time does not count");
    rig.wait(50);
    rig.settle();
    assert!(!fits(&mut rig, &mut peer, 1));
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 2);
}

#[test]
fn full_queues_that_dead_letter_into_each_other_come_to_rest() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let to = |key: &str| QueueProperties { length_max: Some(3), ..dead_to(key) };
    for (from, key) in [("q", "b"), ("b", "c"), ("c", "q")] {
        rig.call(&mut peer, queue(from, to(key))).expect("declared");
    }
    for number in 0..50 {
        rig.put(&mut peer, message("q", &number.to_string()));
    }
    for queue in ["q", "b", "c"] {
        assert_eq!(info(&mut rig, &mut peer, queue).ready, 3, "{queue}");
    }
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn a_publish_that_one_of_its_queues_refused_is_no_repetition_when_it_comes_again() {
    let (mut rig, mut peer) = rig_with(limited(Overflow::RejectPublish, 1));
    rig.call(&mut peer, queue("a", QueueProperties::default())).expect("declared");
    for to in ["a", "q"] {
        let target = BindTarget::Queue(name(to));
        let binding =
            BindingSpec { exchange: name("amq.fanout"), target, key: name(""), arguments: Vec::new() };
        rig.call(&mut peer, Request::Define(Define::Bind(binding))).expect("bound");
    }
    rig.put(&mut peer, message("q", "before"));
    let dedup = Some(Dedup { key: [7; 16], content: 7 });
    let publish = Publish { dedup, exchange: name("amq.fanout"), answer: Answer::Reply, ..message("", "x") };
    let refused = rig.call(&mut peer, Request::Publish(publish.clone()));
    assert!(matches!(refused, Err(BrokerError::QueueFull { .. })), "{refused:?}");
    rig.send(&mut peer, vec![pull(1, "q", 1, 0, true)]);
    assert_eq!(rig.until_fetched(&mut peer).len(), 1);
    match rig.call(&mut peer, Request::Publish(publish.clone())) {
        Ok(Reply::Published(p)) => assert_eq!((p.duplicate, p.queues), (false, 2)),
        other => panic!("{other:?}"),
    }
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 1);
    match rig.call(&mut peer, Request::Publish(publish)) {
        Ok(Reply::Published(p)) => assert!(p.duplicate, "all of it is there now"),
        other => panic!("{other:?}"),
    }
    assert_eq!(rig.hashes().0, rig.hashes().1);
}
