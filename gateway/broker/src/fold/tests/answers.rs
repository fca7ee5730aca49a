//! The order of what a connection hears, pulls, atomic requests.

use framegate_storage::{Report, Resource, StoreError};

use super::rig::{Rig, consumer, message, name, pull, queue, seq, settlement, text};
use crate::definition::QueueProperties;
use crate::error::BrokerError;
use crate::ids::{ConsumerId, PoolId, Seq};
use crate::message::Dedup;
use crate::request::{Answer, Consume, Define, Effect, Outcome, Publish, Query, Reply, Request};

fn plain(rig: &mut Rig, peer: &mut super::rig::Peer, queues: &[&str]) {
    for name in queues {
        rig.call(peer, queue(name, QueueProperties::default())).expect("declared");
    }
}

#[test]
fn the_first_delivery_follows_the_answer_that_waits_behind_a_confirm() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    plain(&mut rig, &mut peer, &["q"]);
    let publish = Publish { answer: Answer::Watermark, ..message("q", "a") };
    rig.send(&mut peer, vec![Request::Publish(publish), Request::Consume(consumer(1, "q", None))]);
    rig.pass();
    rig.pass();
    assert!(peer.effects().is_empty(), "nothing is durable yet");
    rig.settle();
    let effects = peer.effects();
    let confirmed = matches!(effects[0], Effect::Confirmed { .. });
    assert!(confirmed && matches!(effects[1], Effect::Reply(_, Ok(Reply::Done))), "{effects:?}");
    assert!(matches!(effects[2], Effect::Delivery(_)), "{effects:?}");
}

#[test]
fn one_confirm_stands_for_all_of_a_block() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    plain(&mut rig, &mut peer, &["q"]);
    let publish = || Request::Publish(Publish { answer: Answer::Watermark, ..message("q", "a") });
    let ids = rig.send(&mut peer, (0..100).map(|_| publish()).collect());
    rig.settle();
    let effects = peer.effects();
    assert!(matches!(effects[..], [Effect::Confirmed { upto }] if upto == ids[99]), "{effects:?}");
}

#[test]
fn one_confirm_stands_for_the_transient_ones_of_a_pass() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    plain(&mut rig, &mut peer, &["q"]);
    let transient =
        || Request::Publish(Publish { answer: Answer::Watermark, persistent: false, ..message("q", "a") });
    let ids = rig.send(&mut peer, (0..50).map(|_| transient()).collect());
    rig.settle();
    let effects = peer.effects();
    assert!(matches!(effects[..], [Effect::Confirmed { upto }] if upto == ids[49]), "{effects:?}");
}

#[test]
fn who_publishes_first_while_there_is_no_room_is_told_as_the_others_were() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    plain(&mut rig, &mut peer, &["q"]);
    rig.core.report(Report::Full(StoreError::Full { what: Resource::Disk }));
    rig.pass();
    assert!(peer.effects().is_empty(), "it has published nothing");
    rig.send(&mut peer, vec![Request::Publish(message("q", "a")), Request::Publish(message("q", "b"))]);
    rig.pass();
    let told = |effects: &[Effect]| effects.iter().filter(|e| matches!(e, Effect::Blocked(true))).count();
    assert_eq!(told(&peer.effects()), 1);
    rig.core.report(Report::Room);
    rig.pass();
    assert!(peer.effects().iter().any(|e| matches!(e, Effect::Blocked(false))));
}

#[test]
fn a_running_consumer_that_joins_a_pool_counts_with_what_it_holds() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    plain(&mut rig, &mut peer, &["q"]);
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", None))]);
    rig.put(&mut peer, message("q", "a"));
    assert_eq!(peer.texts(), ["a"]);
    let pool = crate::ids::PoolId(3);
    let join = Request::Credit(crate::request::Credit::Join(crate::ids::ConsumerId(1), pool));
    rig.send(&mut peer, vec![join, Request::Credit(crate::request::Credit::Pool(pool, Some(2)))]);
    for body in ["b", "c", "d"] {
        rig.put(&mut peer, message("q", body));
    }
    assert_eq!(peer.texts(), ["b"], "one is held already, two is the limit");
}

#[test]
fn two_pulls_of_one_holder_each_get_their_message_in_their_way() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    plain(&mut rig, &mut peer, &["q"]);
    rig.send(&mut peer, vec![pull(7, "q", 1, 60_000, true), pull(7, "q", 1, 60_000, false)]);
    rig.put(&mut peer, message("q", "a"));
    rig.put(&mut peer, message("q", "b"));
    let fetched: Vec<String> = peer
        .effects()
        .into_iter()
        .filter_map(|e| match e {
            Effect::Reply(_, Ok(Reply::Fetched { messages, .. })) => Some(text(&messages[0])),
            _ => None,
        })
        .collect();
    assert_eq!(fetched, ["a", "b"]);
    let Ok(Reply::Queue(info)) = rig.call(&mut peer, Request::Query(Query::Queue(name("q")))) else {
        panic!("a queue")
    };
    assert_eq!((info.ready, info.unacked), (0, 1), "the first was settled as it was delivered");
    rig.call(&mut peer, Request::Settle(settlement(7, &[Seq(2)], Outcome::Ack)))
        .expect("the second is leased");
}

#[test]
fn an_atomic_request_does_all_of_it_or_nothing() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    plain(&mut rig, &mut peer, &["q"]);
    rig.put(&mut peer, message("q", "a"));
    rig.call(&mut peer, pull(1, "q", 1, 0, false)).expect("pulled");
    let ack = |seqs: &[Seq]| Request::Settle(settlement(1, seqs, Outcome::Ack));
    let publish = || Request::Publish(message("q", "b"));
    let before = rig.hashes().1;
    for refused in [
        vec![publish(), ack(&[Seq(1), Seq(9)])],
        vec![publish(), ack(&[Seq(1)]), ack(&[Seq(1)])],
        vec![publish(), pull(2, "q", 1, 0, true)],
    ] {
        assert!(rig.call(&mut peer, Request::Atomic(refused)).is_err());
        assert_eq!(rig.hashes().1, before, "nothing of it was done");
    }
    let nowhere = Publish { mandatory: true, ..message("nobody", "c") };
    let requests = vec![publish(), ack(&[Seq(1)]), Request::Publish(nowhere)];
    let id = rig.send(&mut peer, vec![Request::Atomic(requests)])[0];
    let blocks = rig.store.waiting();
    rig.pass();
    assert_eq!(rig.store.waiting(), blocks + 1, "one block");
    let mut effects = peer.effects();
    assert_eq!(effects.len(), 1, "the answer waits until it is durable: {effects:?}");
    rig.settle();
    effects.extend(peer.effects());
    assert!(matches!(&effects[0], Effect::Returned { id: of, .. } if *of == id), "{effects:?}");
    let Effect::Reply(_, Ok(Reply::Atomic(published))) = &effects[1] else { panic!("{effects:?}") };
    assert_eq!(published.iter().map(|p| p.queues).collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn a_repeated_publish_is_stored_once_and_answered_as_the_first() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let publish = |content, body| {
        let dedup = Some(Dedup { key: [7; 16], content });
        Request::Publish(Publish { dedup, ..Publish::to_topic(name("t"), super::rig::frame(body)) })
    };
    let Ok(Reply::Published(first)) = rig.call(&mut peer, publish(1, "a")) else { panic!("published") };
    for _ in 0..2 {
        let Ok(Reply::Published(again)) = rig.call(&mut peer, publish(1, "a")) else { panic!("published") };
        assert!(again.duplicate);
        assert_eq!((again.offset, again.cursor), (first.offset, first.cursor));
        assert!(matches!(rig.call(&mut peer, publish(2, "b")), Err(BrokerError::Conflict)));
        // the log remembers
        rig = Rig::on(&rig.store, rig.now);
        peer = rig.connect();
    }
    rig.wait(11 * 60 * 1000);
    let Ok(Reply::Published(later)) = rig.call(&mut peer, publish(2, "b")) else { panic!("published") };
    assert!(!later.duplicate && later.offset != first.offset);
}

#[test]
fn a_purge_is_answered_in_its_turn_and_leaves_what_is_leased() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    plain(&mut rig, &mut peer, &["q"]);
    rig.send(&mut peer, (0..5000).map(|n| Request::Publish(message("q", &n.to_string()))).collect());
    rig.settle();
    rig.call(&mut peer, pull(1, "q", 2, 0, false)).expect("pulled");
    let requests = vec![
        Request::Settle(settlement(1, &[Seq(1)], Outcome::Requeue { delay_ms: 0 })),
        Request::Define(Define::Purge(name("q"))),
        Request::Query(Query::Queue(name("q"))),
        Request::Publish(message("q", "after")),
    ];
    rig.send(&mut peer, requests);
    rig.settle();
    let effects = peer.effects();
    assert!(matches!(&effects[1], Effect::Reply(_, Ok(Reply::Removed { messages: 4999 }))), "{effects:?}");
    let Effect::Reply(_, Ok(Reply::Queue(info))) = &effects[2] else { panic!("{effects:?}") };
    assert_eq!((info.ready, info.unacked), (0, 1));
    let (replayed, live) = rig.hashes();
    assert_eq!(replayed, live);
    rig.send(&mut peer, vec![Request::Consume(consumer(2, "q", None))]);
    rig.settle();
    assert_eq!(peer.texts(), ["after"]);
}

#[test]
fn thousands_of_leases_of_a_lost_connection_return_in_order() {
    let mut rig = Rig::new();
    let (mut a, mut b) = (rig.connect(), rig.connect());
    plain(&mut rig, &mut a, &["q"]);
    rig.send(&mut a, (0..3000).map(|n| Request::Publish(message("q", &n.to_string()))).collect());
    rig.send(&mut b, vec![Request::Consume(consumer(1, "q", None))]);
    rig.settle();
    assert_eq!(b.deliveries().len(), 3000);
    rig.disconnect(b);
    let Ok(Reply::Queue(info)) = rig.call(&mut a, Request::Query(Query::Queue(name("q")))) else { panic!() };
    assert_eq!((info.ready, info.unacked), (3000, 0));
    rig.send(&mut a, vec![Request::Consume(consumer(1, "q", None))]);
    rig.settle();
    let got = a.deliveries();
    assert!(got.iter().all(|d| d.redelivered && d.attempt == 2));
    assert!(got.iter().map(|d| seq(d).0).eq(1..=3000));
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn a_pool_goes_on_when_a_queue_takes_its_leases_with_it() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    plain(&mut rig, &mut peer, &["gone", "kept"]);
    let credit = crate::request::Credit::Pool(PoolId(1), Some(1));
    rig.call(&mut peer, Request::Credit(credit)).expect("set");
    for (id, queue) in [(1, "gone"), (2, "kept")] {
        let consume = Consume { pool: Some(PoolId(1)), ..consumer(id, queue, None) };
        rig.call(&mut peer, Request::Consume(consume)).expect("consuming");
    }
    rig.put(&mut peer, message("gone", "a"));
    rig.put(&mut peer, message("kept", "b"));
    assert_eq!(peer.texts(), ["a"], "the pool is used up");
    let delete = Define::DeleteQueue { name: name("gone"), if_unused: false, if_empty: false };
    rig.send(&mut peer, vec![Request::Define(delete)]);
    rig.settle();
    assert_eq!(peer.texts(), ["b"]);
}

#[test]
fn a_volatile_dead_letter_queue_can_be_read_after_the_body_left_the_cache() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let volatile = crate::definition::QueueSpec { name: name("dead"), ..Default::default() };
    rig.call(&mut peer, Request::Define(Define::Queue(volatile))).expect("declared");
    let properties = QueueProperties {
        dead_letter_exchange: Some(name("")),
        dead_letter_key: Some(name("dead")),
        ..QueueProperties::default()
    };
    rig.call(&mut peer, queue("q", properties)).expect("declared");
    rig.put(&mut peer, message("q", "a"));
    rig.call(&mut peer, pull(1, "q", 1, 0, false)).expect("pulled");
    let id = rig.core.durable.queues().next().expect("the durable queue").id;
    rig.core.uncache(id, Seq(1));
    rig.call(&mut peer, Request::Settle(settlement(1, &[Seq(1)], Outcome::Reject))).expect("rejected");
    rig.send(&mut peer, vec![Request::Consume(consumer(2, "dead", None))]);
    rig.pass();
    let d = &rig.until(&mut peer)[0];
    assert_eq!((text(d), d.consumer, d.envelope.deaths.len()), ("a".to_owned(), ConsumerId(2), 1));
}
