//! Dead letters: reasons, rounds, delivery limits, and messages whose frames have to be read first.

use super::rig::{
    Peer, Rig, consumer, corpses, dead_to, frame, info, message, name, queue, seq, settlement, text,
};
use framegate_frame::{Frame, FrameKind, Limits as FrameLimits};
use framegate_storage_memory::MemoryStore;

use crate::definition::{
    BindTarget, BindingSpec, ExchangeKind, ExchangeSpec, HashOn, HashProperty, HeaderValue, QueueProperties,
};
use crate::fold::Now;
use crate::ids::{ConsumerId, Seq};
use crate::limits::Limits;
use crate::message::DeathReason;
use crate::request::{Define, Outcome, Publish, Query, Reply, Request};

/// Takes one message and returns it, as often as it comes, at most `times`; how often it came.
fn fail(rig: &mut Rig, peer: &mut Peer, times: usize, outcome: Outcome) -> usize {
    rig.send(peer, vec![Request::Consume(consumer(5, "q", Some(1)))]);
    let mut came = 0;
    for _ in 0..times {
        rig.settle();
        let Some(delivery) = peer.deliveries().pop() else { break };
        came += 1;
        assert_eq!(delivery.attempt as usize, came);
        rig.call(peer, Request::Settle(settlement(5, &[seq(&delivery)], outcome))).expect("settled");
    }
    came
}

#[test]
fn a_message_that_fails_once_too_often_dies_of_the_delivery_limit() {
    for outcome in [Outcome::Requeue { delay_ms: 0 }, Outcome::Undeliverable] {
        let mut rig = Rig::new();
        let mut peer = rig.connect();
        rig.call(&mut peer, queue("dead", QueueProperties::default())).expect("declared");
        let properties = QueueProperties { delivery_limit: Some(1), ..dead_to("dead") };
        rig.call(&mut peer, queue("q", properties)).expect("declared");
        rig.put(&mut peer, message("q", "a"));
        assert_eq!(fail(&mut rig, &mut peer, 9, outcome), 2, "one failure is borne");
        let expected = [("a".to_owned(), DeathReason::DeliveryLimit, 1)];
        assert_eq!(corpses(&mut rig, &mut peer, "dead"), expected);
        assert_eq!(rig.hashes().0, rig.hashes().1);
    }
}

#[test]
fn what_several_consumers_give_back_at_once_dies_in_the_order_of_its_queue() {
    for lost in [true, false] {
        let mut rig = Rig::new();
        let (mut peer, mut other) = (rig.connect(), rig.connect());
        rig.call(&mut other, queue("dead", QueueProperties::default())).expect("declared");
        let properties = QueueProperties { delivery_limit: Some(0), ..dead_to("dead") };
        rig.call(&mut other, queue("q", properties)).expect("declared");
        let consumers = [7, 3, 900, 5, 1, 40];
        for id in consumers {
            rig.send(&mut peer, vec![Request::Consume(consumer(id, "q", Some(2)))]);
        }
        rig.settle();
        let bodies: Vec<String> = (10..22).map(|n| n.to_string()).collect();
        for body in &bodies {
            rig.put(&mut other, message("q", body));
        }
        assert_eq!(peer.deliveries().len(), bodies.len());
        if lost {
            rig.disconnect(peer);
        } else {
            rig.call(&mut peer, Request::Recover(None)).expect("recovered");
        }
        let dead = corpses(&mut rig, &mut other, "dead");
        assert_eq!(dead.iter().map(|d| d.0.clone()).collect::<Vec<_>>(), bodies, "connection lost: {lost}");
    }
}

#[test]
fn failures_count_over_lost_connections_delays_and_a_restart() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let properties = QueueProperties { delivery_limit: Some(2), ..QueueProperties::default() };
    rig.call(&mut peer, queue("q", properties)).expect("declared");
    rig.put(&mut peer, message("q", "a"));
    assert_eq!(fail(&mut rig, &mut peer, 1, Outcome::Requeue { delay_ms: 100 }), 1);
    rig.wait(100);
    rig.settle();
    assert_eq!(peer.deliveries()[0].attempt, 2);
    rig.disconnect(peer);
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", Some(1)))]);
    rig.pass();
    assert_eq!(rig.until(&mut peer)[0].attempt, 3, "two were borne");
    rig.disconnect(peer);
    let mut peer = rig.connect();
    let left = info(&mut rig, &mut peer, "q");
    assert_eq!((left.ready, left.unacked), (0, 0), "the third was one too many");
}

#[test]
fn a_queue_without_a_limit_bears_everything() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.put(&mut peer, message("q", "a"));
    assert_eq!(fail(&mut rig, &mut peer, 30, Outcome::Requeue { delay_ms: 0 }), 30);
}

#[test]
fn a_message_that_expires_back_into_its_queue_is_dropped_and_a_rejected_one_comes_back() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", dead_to("q"))).expect("declared");
    rig.put(&mut peer, Publish { ttl_ms: Some(10), ..message("q", "expires") });
    rig.wait(10);
    rig.settle();
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 0);
    rig.put(&mut peer, message("q", "rejected"));
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", Some(1)))]);
    for count in 1..4 {
        rig.settle();
        let got = peer.deliveries();
        assert_eq!(got.iter().map(text).collect::<Vec<_>>(), ["rejected"]);
        let deaths = &got[0].envelope.deaths;
        assert_eq!(
            deaths.iter().map(|d| d.count).collect::<Vec<_>>(),
            if count == 1 { vec![] } else { vec![count - 1] }
        );
        rig.call(&mut peer, Request::Settle(settlement(1, &[seq(&got[0])], Outcome::Reject)))
            .expect("rejected");
    }
}

#[test]
fn a_waiting_room_sends_a_rejected_message_round_as_often_as_it_is_rejected() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", dead_to("room"))).expect("declared");
    let room = QueueProperties { message_ttl_ms: Some(100), ..dead_to("q") };
    rig.call(&mut peer, queue("room", room)).expect("declared");
    rig.put(&mut peer, message("q", "a"));
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", Some(1)))]);
    for round in 0..20_u64 {
        rig.settle();
        let got = peer.deliveries().pop().expect("it is back");
        let counts: Vec<_> = got.envelope.deaths.iter().map(|d| (d.reason, d.count)).collect();
        if round > 0 {
            assert_eq!(counts, [(DeathReason::Expired, round), (DeathReason::Rejected, round)]);
        }
        rig.call(&mut peer, Request::Settle(settlement(1, &[seq(&got)], Outcome::Reject))).expect("rejected");
        rig.wait(99);
        rig.settle();
        assert!(peer.deliveries().is_empty(), "none early");
        rig.wait(1);
    }
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

/// A headers exchange that leads to `dead` by one attribute, and a topic exchange's topic.
fn by_headers(rig: &mut Rig, peer: &mut Peer) {
    let exchange = ExchangeSpec {
        name: name("dlx"),
        kind: ExchangeKind::Headers,
        durable: true,
        auto_delete: false,
        internal: false,
        alternate: None,
    };
    rig.call(peer, Request::Define(Define::Exchange(exchange))).expect("declared");
    rig.call(peer, queue("dead", QueueProperties::default())).expect("declared");
    let binding = BindingSpec {
        exchange: name("dlx"),
        target: BindTarget::Queue(name("dead")),
        key: name(""),
        arguments: vec![(name("color"), HeaderValue::Text("red".into()))],
    };
    rig.call(peer, Request::Define(Define::Bind(binding))).expect("bound");
}

#[test]
fn a_dead_letter_that_is_not_in_memory_is_read_before_its_headers_are_matched() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    by_headers(&mut rig, &mut peer);
    let to_headers =
        QueueProperties { dead_letter_exchange: Some(name("dlx")), ..QueueProperties::default() };
    rig.call(&mut peer, queue("q", to_headers)).expect("declared");
    for color in ["red", "blue", "red"] {
        let attributes = [("color", color)];
        let limits = framegate_frame::Limits::GATEWAY;
        let frame = framegate_frame::Frame::build(
            framegate_frame::FrameKind::Event,
            attributes,
            color.as_bytes(),
            &limits,
        );
        let publish = Publish { ttl_ms: Some(100), frame: frame.expect("frame"), ..message("q", "") };
        rig.put(&mut peer, publish);
    }
    // nothing is in memory after a start
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    rig.wait(100);
    rig.settle();
    let left = info(&mut rig, &mut peer, "q");
    assert_eq!((left.ready, left.unacked), (0, 0));
    let red = ("red".to_owned(), DeathReason::Expired, 1);
    assert_eq!(corpses(&mut rig, &mut peer, "dead"), [red.clone(), red]);
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn a_dead_letter_that_is_not_in_memory_reaches_a_topic() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let to_topic = QueueProperties {
        dead_letter_exchange: Some(name(crate::AMQ_TOPIC)),
        dead_letter_key: Some(name("graves")),
        ..QueueProperties::default()
    };
    rig.call(&mut peer, queue("q", to_topic)).expect("declared");
    rig.put(&mut peer, Publish::to_topic(name("graves"), frame("first")));
    rig.put(&mut peer, Publish { ttl_ms: Some(100), ..message("q", "a") });
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    rig.wait(100);
    rig.settle();
    let Ok(Reply::Topic(topic)) = rig.call(&mut peer, Request::Query(Query::Topic(name("graves")))) else {
        panic!("a topic")
    };
    assert_eq!(topic.next.0, 2);
    assert_eq!(info(&mut rig, &mut peer, "q").ready, 0);
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn what_was_rejected_before_the_limit_is_rejected_and_the_consumer_goes_on() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("dead", QueueProperties::default())).expect("declared");
    let properties = QueueProperties { delivery_limit: Some(0), ..dead_to("dead") };
    rig.call(&mut peer, queue("q", properties)).expect("declared");
    for body in ["a", "b"] {
        rig.put(&mut peer, message("q", body));
    }
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", Some(2)))]);
    rig.settle();
    assert_eq!(peer.texts(), ["a", "b"]);
    rig.call(&mut peer, Request::Settle(settlement(1, &[Seq(1)], Outcome::Reject))).expect("rejected");
    rig.call(&mut peer, Request::Recover(Some(ConsumerId(1)))).expect("recovered");
    let expected =
        [("a".to_owned(), DeathReason::Rejected, 1), ("b".to_owned(), DeathReason::DeliveryLimit, 1)];
    assert_eq!(corpses(&mut rig, &mut peer, "dead"), expected);
}

#[test]
fn a_dead_letter_is_spread_by_its_property_as_a_publish_is() {
    // with its frame in memory, and without
    for cache_bytes_max in [1 << 30, 0] {
        let limits = Limits { cache_bytes_max, ..Limits::default() };
        let mut rig = Rig::start(&MemoryStore::paused(), Now { wall_ms: 1_000_000, mono_ms: 10 }, limits);
        let mut peer = rig.connect();
        let kind = ExchangeKind::ConsistentHash(HashOn::Property(HashProperty::MessageId));
        let spec = ExchangeSpec {
            name: name("spread"),
            kind,
            durable: true,
            auto_delete: false,
            internal: false,
            alternate: None,
        };
        rig.call(&mut peer, Request::Define(Define::Exchange(spec))).expect("declared");
        let targets = ["d0", "d1", "d2", "d3"];
        for to in targets {
            rig.call(&mut peer, queue(to, QueueProperties::default())).expect("declared");
            let target = BindTarget::Queue(name(to));
            let binding =
                BindingSpec { exchange: name("spread"), target, key: name("1"), arguments: Vec::new() };
            rig.call(&mut peer, Request::Define(Define::Bind(binding))).expect("bound");
        }
        let dead = QueueProperties {
            dead_letter_exchange: Some(name("spread")),
            message_ttl_ms: Some(10),
            ..QueueProperties::default()
        };
        rig.call(&mut peer, queue("q", dead)).expect("declared");
        let with_id = |n: u32| {
            let id = format!("id-{n}");
            let frame = Frame::build(FrameKind::Event, [("id", id.as_str())], b"x", &FrameLimits::GATEWAY)
                .expect("frame");
            Publish { frame, ..message("q", "") }
        };
        let mut wanted = [0; 4];
        for n in 0..40 {
            rig.put(&mut peer, Publish { exchange: name("spread"), ..with_id(n) });
        }
        for (at, to) in targets.iter().enumerate() {
            wanted[at] = info(&mut rig, &mut peer, to).ready;
            assert!(wanted[at] > 0, "{to} got nothing");
        }
        for n in 0..40 {
            rig.put(&mut peer, with_id(n));
        }
        rig.wait(10);
        rig.settle();
        for (at, to) in targets.iter().enumerate() {
            assert_eq!(info(&mut rig, &mut peer, to).ready, 2 * wanted[at], "{to}, cache {cache_bytes_max}");
        }
    }
}
