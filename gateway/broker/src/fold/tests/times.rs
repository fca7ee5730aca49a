//! What becomes due: expiry, delays, leases, marks, the tick of an idle shard.

use super::rig::{Rig, consumer, dead_to, info, message, name, queue, seq, settlement, text};
use crate::definition::QueueProperties;
use crate::ids::Seq;
use crate::message::DeathReason;
use crate::request::{Consume, Outcome, Publish, Reply, Request};

#[test]
fn a_message_expires_at_the_head_and_is_dead_lettered_with_its_former_ttl() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("dead", QueueProperties::default())).expect("declared");
    rig.call(&mut peer, queue("q", dead_to("dead"))).expect("declared");
    let with_ttl = |body, ttl| Publish { ttl_ms: Some(ttl), ..message("q", body) };
    rig.put(&mut peer, with_ttl("a", 500));
    rig.put(&mut peer, with_ttl("b", 9000));
    rig.put(&mut peer, with_ttl("c", 100));
    rig.wait(499);
    rig.settle();
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 3, "the head has not expired, what is behind it waits");
    rig.wait(1);
    rig.settle();
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 2);
    rig.wait(8500);
    rig.settle();
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 0);
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "dead", None))]);
    rig.settle();
    let got = peer.deliveries();
    let deaths: Vec<_> = got
        .iter()
        .map(|d| {
            (text(d), d.envelope.deaths[0].reason, d.envelope.deaths[0].ttl_ms, d.envelope.expires_at_ms)
        })
        .collect();
    let expired = |body: &str, ttl| (body.to_owned(), DeathReason::Expired, Some(ttl), 0);
    assert_eq!(deaths, [expired("a", 500), expired("b", 9000), expired("c", 100)]);
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn an_expired_message_is_never_delivered_and_expiry_survives_a_restart() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.put(&mut peer, Publish { ttl_ms: Some(100), ..message("q", "a") });
    rig.put(&mut peer, message("q", "b"));
    rig = Rig::on(&rig.store, rig.now);
    rig.wait(100);
    let mut peer = rig.connect();
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", None))]);
    rig.pass();
    assert_eq!(rig.until(&mut peer).iter().map(text).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_delayed_message_is_ready_at_its_time_and_at_its_place() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.put(&mut peer, Publish { delay_ms: 1000, ..message("q", "late") });
    rig.put(&mut peer, message("q", "a"));
    rig.put(&mut peer, message("q", "b"));
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 2);
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", Some(1)))]);
    rig.settle();
    assert_eq!(peer.texts(), ["a"]);
    rig.wait(1000);
    rig.settle();
    rig.send(&mut peer, vec![Request::Settle(settlement(1, &[Seq(2)], Outcome::Ack))]);
    rig.settle();
    let late = peer.deliveries();
    assert_eq!(
        late.iter().map(|d| (text(d), d.redelivered)).collect::<Vec<_>>(),
        [("late".to_owned(), false)]
    );
}

#[test]
fn a_delayed_message_waits_on_after_a_restart_and_a_purge_leaves_it() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.put(&mut peer, message("q", "a"));
    rig.put(&mut peer, Publish { delay_ms: 1000, ..message("q", "late") });
    rig.put(&mut peer, message("q", "b"));
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    let purge = Request::Define(crate::request::Define::Purge(name("q")));
    assert!(matches!(rig.call(&mut peer, purge), Ok(Reply::Removed { messages: 2 })));
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", None))]);
    rig.settle();
    assert!(peer.texts().is_empty());
    rig.wait(1000);
    rig.pass();
    assert_eq!(text(&rig.until(&mut peer)[0]), "late");
}

#[test]
fn a_delay_for_exchanges_that_delay_is_none_elsewhere() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.put(&mut peer, Publish { delay_ms: 60_000, delay_by_exchange: true, ..message("q", "now") });
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", None))]);
    rig.settle();
    assert_eq!(peer.texts(), ["now"]);
}

#[test]
fn a_lease_that_is_extended_runs_out_later_than_the_others() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    for body in ["a", "b", "c"] {
        rig.put(&mut peer, message("q", body));
    }
    let consume = Consume { lease_ms: Some(1000), ..consumer(1, "q", Some(3)) };
    rig.send(&mut peer, vec![Request::Consume(consume)]);
    rig.settle();
    assert_eq!(peer.texts(), ["a", "b", "c"]);
    rig.wait(900);
    let extend = Outcome::Extend { lease_ms: 500 };
    rig.call(&mut peer, Request::Settle(settlement(1, &[Seq(2)], extend))).expect("extended");
    rig.wait(100);
    rig.settle();
    let again = peer.deliveries();
    assert_eq!(again.iter().map(|d| (seq(d).0, d.attempt)).collect::<Vec<_>>(), [(1, 2), (3, 2)]);
    rig.wait(400);
    rig.settle();
    assert_eq!(peer.deliveries().iter().map(|d| seq(d).0).collect::<Vec<_>>(), [2]);
}

#[test]
fn what_was_delivered_before_a_crash_is_marked_redelivered_after_it() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    for body in ["a", "b", "c"] {
        rig.put(&mut peer, message("q", body));
    }
    rig.wait(5000);
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", Some(2)))]);
    rig.settle();
    assert_eq!(peer.texts(), ["a", "b"]);
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", None))]);
    rig.pass();
    let mut got = Vec::new();
    while got.len() < 3 {
        got.extend(rig.until(&mut peer));
    }
    let seen: Vec<_> = got.iter().map(|d| (text(d), d.redelivered)).collect();
    assert_eq!(seen, [("a".into(), true), ("b".into(), true), ("c".into(), false)]);
}

#[test]
fn an_idle_shard_appends_one_tick_and_no_more() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.put(&mut peer, message("q", "a"));
    let blocks = |rig: &Rig| rig.shared().metrics.blocks.load(std::sync::atomic::Ordering::Relaxed);
    let before = blocks(&rig);
    for _ in 0..20 {
        rig.wait(500);
        rig.settle();
    }
    assert_eq!(blocks(&rig), before + 1);
    rig.put(&mut peer, message("q", "b"));
    for _ in 0..20 {
        rig.wait(500);
        rig.settle();
    }
    assert_eq!(blocks(&rig), before + 3);
}

#[test]
fn the_shorter_of_the_messages_and_the_queues_time_to_live_holds() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("dead", QueueProperties::default())).expect("declared");
    let short = QueueProperties { message_ttl_ms: Some(1000), ..dead_to("dead") };
    rig.call(&mut peer, queue("q", short)).expect("declared");
    rig.put(&mut peer, Publish { ttl_ms: Some(400), ..message("q", "own") });
    rig.put(&mut peer, Publish { ttl_ms: Some(9000), ..message("q", "both") });
    rig.put(&mut peer, message("q", "queue's"));
    rig.wait(399);
    rig.settle();
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 3, "none early");
    rig.wait(1);
    rig.settle();
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 2);
    // the log knows the time, whoever replays it
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    rig.wait(599);
    rig.settle();
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 2, "none early");
    rig.wait(1);
    rig.settle();
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 0);
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "dead", None))]);
    rig.pass();
    let mut got = Vec::new();
    while got.len() < 3 {
        got.extend(rig.until(&mut peer));
    }
    let deaths: Vec<_> = got.iter().map(|d| (text(d), d.envelope.deaths[0].ttl_ms)).collect();
    let expected = [("own", Some(400)), ("both", Some(9000)), ("queue's", None)];
    assert_eq!(deaths, expected.map(|(body, ttl)| (body.to_owned(), ttl)), "what the publisher gave");
}

#[test]
fn a_message_without_any_time_is_delivered_at_once_or_not_at_all() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let properties = QueueProperties { message_ttl_ms: Some(0), ..QueueProperties::default() };
    rig.call(&mut peer, queue("q", properties)).expect("declared");
    rig.put(&mut peer, message("q", "nobody"));
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 0);
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", Some(2)))]);
    rig.settle();
    let three = ["a", "b", "no credit"].map(|body| Request::Publish(message("q", body)));
    rig.send(&mut peer, three.to_vec());
    rig.settle();
    assert_eq!(peer.texts(), ["a", "b"]);
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 0);
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn a_delayed_message_lives_from_the_time_when_it_is_ready() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let properties = QueueProperties { message_ttl_ms: Some(100), ..QueueProperties::default() };
    rig.call(&mut peer, queue("q", properties)).expect("declared");
    rig.put(&mut peer, Publish { delay_ms: 1000, ..message("q", "late") });
    rig.wait(1000);
    rig.settle();
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 1);
    rig.wait(100);
    rig.settle();
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 0);
}
