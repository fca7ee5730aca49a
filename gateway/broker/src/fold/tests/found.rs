//! What the model test found, each by itself.

use super::rig::{Peer, Rig, consumer, frame, message, name, queue, seq, settlement};
use crate::definition::{
    BindTarget, BindingSpec, ExchangeKind, ExchangeSpec, HeaderValue, QueueProperties, QueueSpec, TopicSpec,
};
use crate::feed::{FeedItem, From, Subscribe};
use crate::ids::Seq;
use crate::message::Dedup;
use crate::request::{Define, Outcome, Publish, Query, Reply, Request};

fn events(items: &[FeedItem]) -> Vec<String> {
    let text = |item: &FeedItem| match item {
        FeedItem::Event(event) => String::from_utf8_lossy(event.frame.data()).into_owned(),
        FeedItem::Lost { .. } => "lost".to_owned(),
    };
    items.iter().map(text).collect()
}

fn heard(rig: &mut Rig, patterns: &[&str], from: From) -> Vec<String> {
    let patterns = patterns.iter().map(|p| name(p)).collect();
    let mut subscription = rig.subscribe(Subscribe { patterns, from }).expect("subscribed");
    events(&rig.read(&mut subscription))
}

fn event(rig: &mut Rig, peer: &mut Peer, topic: &str, body: &str) {
    rig.put(peer, Publish::to_topic(name(topic), frame(body)));
}

#[test]
fn a_live_subscriber_sees_the_envelope_that_a_replay_shows() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let what = Subscribe { patterns: vec![name("t")], from: From::Latest };
    let mut live = rig.subscribe(what).expect("subscribed");
    rig.settle();
    let publish = Publish { persistent: false, ..Publish::to_topic(name("t"), frame("a")) };
    rig.put(&mut peer, publish);
    let what = Subscribe { patterns: vec![name("t")], from: From::Earliest };
    let mut replay = rig.subscribe(what).expect("subscribed");
    let envelopes = [rig.read(&mut live), rig.read(&mut replay)].map(|items| match &items[..] {
        [FeedItem::Event(event)] => event.envelope.clone(),
        other => panic!("{other:?}"),
    });
    assert_eq!(envelopes[0], envelopes[1]);
    assert!(!envelopes[0].persistent, "what its publisher said, though the topic keeps it");
}

#[test]
fn a_delivery_that_is_named_twice_is_settled_and_counted_once() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.put(&mut peer, message("q", "a"));
    rig.call(&mut peer, Request::Consume(consumer(1, "q", None))).expect("consuming");
    let settle = settlement(1, &[Seq(1), Seq(1)], Outcome::Ack);
    let settled = rig.call(&mut peer, Request::Settle(settle));
    assert!(matches!(settled, Ok(Reply::Settled { count: 1 })), "{settled:?}");
}

#[test]
fn the_last_events_are_the_last_that_can_be_seen() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    event(&mut rig, &mut peer, "t", "a");
    rig.send(&mut peer, vec![Request::Publish(Publish::to_topic(name("t"), frame("b")))]);
    rig.pass();
    assert_eq!(heard(&mut rig, &["t"], From::Last(1)), ["a"], "b is not durable yet");
}

#[test]
fn after_a_power_cut_in_the_life_after_a_clean_stop_no_number_is_given_again() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.core.finish();
    rig.store.release(usize::MAX);
    rig.pass();
    let mut given = Vec::new();
    for _ in 0..2 {
        let (store, now) = (rig.store.clone(), rig.now);
        rig = Rig::start(&store, now, crate::limits::Limits::default());
        let mut peer = rig.connect();
        rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", None))]);
        rig.send(&mut peer, vec![Request::Publish(message("q", "a"))]);
        rig.pass();
        given.extend(peer.deliveries().iter().map(|d| seq(d).0));
        rig.store.cut_unsynced();
    }
    assert!(given.is_empty(), "{given:?}: the start that keeps numbers from coming again is not durable");
}

#[test]
fn ids_of_messages_in_volatile_queues_do_not_come_again_after_a_start() {
    let mut rig = Rig::new();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let mut peer = rig.connect();
        let spec = QueueSpec { name: name("v"), ..QueueSpec::default() };
        rig.call(&mut peer, Request::Define(Define::Queue(spec))).expect("declared");
        rig.put(&mut peer, message("v", "a"));
        rig.send(&mut peer, vec![Request::Consume(consumer(1, "v", None))]);
        rig.settle();
        let origin = peer.deliveries()[0].origin.clone();
        seen.push((origin.id, origin.seq));
        rig = Rig::on(&rig.store, rig.now);
    }
    seen.dedup();
    assert_eq!(seen.len(), 3, "{seen:?}");
}

#[test]
fn nothing_of_a_queue_is_seen_before_the_queue_is_durable() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let consume = Request::Consume(consumer(1, "q", None));
    rig.send(&mut peer, vec![queue("q", QueueProperties::default())]);
    rig.pass();
    rig.send(&mut peer, vec![consume, Request::Publish(message("q", "a"))]);
    rig.pass();
    assert!(peer.effects().is_empty(), "a power cut now, and another queue would get this one's id");
    rig.settle();
    assert_eq!(peer.texts(), ["a"]);
}

#[test]
fn a_delay_that_passes_before_the_message_is_durable_does_not_show_it() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let gated = QueueProperties { deliver_durable: true, ..QueueProperties::default() };
    rig.call(&mut peer, queue("q", gated)).expect("declared");
    rig.call(&mut peer, Request::Consume(consumer(1, "q", None))).expect("consuming");
    rig.send(&mut peer, vec![Request::Publish(Publish { delay_ms: 100, ..message("q", "a") })]);
    rig.pass();
    rig.wait(100);
    rig.pass();
    assert!(peer.deliveries().is_empty());
    rig.settle();
    assert_eq!(peer.texts(), ["a"]);
}

#[test]
fn the_earliest_of_several_topics_is_what_any_of_them_keeps() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let short = TopicSpec { name: name("short"), age_ms_max: Some(1000), bytes_max: None };
    rig.call(&mut peer, Request::Define(Define::Topic(short))).expect("declared");
    event(&mut rig, &mut peer, "long", "a");
    event(&mut rig, &mut peer, "short", "b");
    rig.wait(5000);
    rig.settle();
    event(&mut rig, &mut peer, "long", "c");
    assert_eq!(heard(&mut rig, &["#"], From::Earliest), ["a", "c"], "b is gone, and nothing else");
    assert_eq!(heard(&mut rig, &["#"], From::Time(0)), ["a", "c"]);
    assert_eq!(heard(&mut rig, &["#"], From::Last(2)), ["a", "c"]);
    assert_eq!(heard(&mut rig, &["#"], From::After("no cursor".to_owned())), ["lost", "a", "c"]);
}

#[test]
fn a_part_of_an_atomic_request_cannot_keep_what_an_earlier_part_settles() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.put(&mut peer, message("q", "a"));
    rig.call(&mut peer, Request::Consume(consumer(1, "q", None))).expect("consuming");
    let part = |outcome| Request::Settle(settlement(1, &[Seq(1)], outcome));
    let extend = Outcome::Extend { lease_ms: 5 };
    let refused = rig.call(&mut peer, Request::Atomic(vec![part(Outcome::Ack), part(extend)]));
    assert!(refused.is_err(), "{refused:?}");
    let done = rig.call(&mut peer, Request::Atomic(vec![part(extend), part(Outcome::Ack)]));
    assert!(done.is_ok(), "{done:?}");
}

#[test]
fn a_binding_that_was_removed_by_its_arguments_in_another_order_stays_away_after_a_restart() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    let exchange = ExchangeSpec {
        name: name("h"),
        kind: ExchangeKind::Headers,
        durable: true,
        auto_delete: false,
        internal: false,
        alternate: None,
    };
    rig.call(&mut peer, Request::Define(Define::Exchange(exchange))).expect("declared");
    let arguments = ["a", "b"].map(|n| (name(n), HeaderValue::Bool(true)));
    let mut binding = BindingSpec {
        exchange: name("h"),
        target: BindTarget::Queue(name("q")),
        key: name(""),
        arguments: arguments.to_vec(),
    };
    rig.call(&mut peer, Request::Define(Define::Bind(binding.clone()))).expect("bound");
    binding.arguments.reverse();
    rig.call(&mut peer, Request::Define(Define::Unbind(binding))).expect("unbound");
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    let all = Request::Query(Query::Bindings { exchange: None, queue: None });
    let bindings = rig.call(&mut peer, all);
    assert!(matches!(&bindings, Ok(Reply::Bindings(list)) if list.is_empty()), "{bindings:?}");
}

#[test]
fn what_comes_to_the_head_of_a_full_queue_expires_in_time() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let properties = QueueProperties { length_max: Some(2), ..QueueProperties::default() };
    rig.call(&mut peer, queue("q", properties)).expect("declared");
    rig.put(&mut peer, message("q", "a"));
    rig.put(&mut peer, Publish { ttl_ms: Some(100), ..message("q", "b") });
    rig.put(&mut peer, message("q", "c"));
    rig.wait(100);
    rig.settle();
    assert_eq!(super::rig::info(&mut rig, &mut peer, "q").ready, 1, "a was dropped, b has expired");
}

#[test]
fn a_queue_that_holds_too_many_after_a_restart_drops_its_head() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let properties = QueueProperties { length_max: Some(1), ..QueueProperties::default() };
    rig.call(&mut peer, queue("q", properties)).expect("declared");
    rig.put(&mut peer, message("q", "a"));
    rig.call(&mut peer, Request::Consume(consumer(1, "q", Some(1)))).expect("consuming");
    assert_eq!(peer.texts(), ["a"]);
    rig.put(&mut peer, message("q", "b"));
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    assert_eq!(super::rig::info(&mut rig, &mut peer, "q").ready, 1, "a was held and is ready again");
}

#[test]
fn a_duplicate_in_an_atomic_request_makes_no_topic() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let dedup = Some(Dedup { key: [7; 16], content: 1 });
    let publish =
        |topic: &str| Request::Publish(Publish { dedup, ..Publish::to_topic(name(topic), frame("once")) });
    rig.call(&mut peer, publish("first")).expect("published");
    let Ok(Reply::Atomic(went)) = rig.call(&mut peer, Request::Atomic(vec![publish("second")])) else {
        panic!("refused")
    };
    assert!(went[0].duplicate);
    let Ok(Reply::Topics(topics)) = rig.call(&mut peer, Request::Query(Query::Topics)) else {
        panic!("no topics")
    };
    assert_eq!(topics.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["first"]);
}
