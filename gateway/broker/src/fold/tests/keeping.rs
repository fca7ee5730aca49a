//! What is kept and for how long: snapshots, timers, and bodies that are written again in the moment in which they are
//! wanted.

use framegate_storage::ShardId;
use framegate_storage_memory::MemoryStore;
use std::sync::atomic::Ordering;

use super::rig::{Peer, Rig, consumer, frame, message, name, pull, queue, seq, settlement, text};
use crate::definition::{ExchangeKind, ExchangeSpec, QueueProperties, TopicSpec};
use crate::feed::{FeedItem, From, Subscribe};
use crate::fold::Now;
use crate::fold::survey::Survivor;
use crate::group::{GroupStart, HistoryQuery};
use crate::ids::{Offset, QueueId, Seq, TopicId};
use crate::limits::Limits;
use crate::request::{Define, Outcome, Publish, Query, Reply, Request};
use crate::state::Placed;

fn start(limits: Limits) -> Rig {
    let mut rig = Rig::start(&MemoryStore::paused(), Now { wall_ms: 1_000_000, mono_ms: 10 }, limits);
    rig.settle();
    rig
}

/// A core that keeps no frame which it can read again.
fn forgetful() -> (Rig, Peer) {
    let mut rig = start(Limits { cache_bytes_max: 0, ..Limits::default() });
    let peer = rig.connect();
    (rig, peer)
}

/// Writes the body of a message again, in the open block.
fn write_again(rig: &mut Rig, queue: QueueId, seq: u64) {
    let slot = rig.core.durable.queue(queue).and_then(|q| q.slots.get(seq)).expect("it is there");
    let body = slot.body().expect("it is in the log");
    let bytes = rig.store.fetch(ShardId(0), &[body]).remove(0);
    rig.core.move_bodies(vec![(Survivor { what: Placed::Queue(queue, Seq(seq)), body }, bytes)]);
}

/// Writes the body of an event again, in the open block.
fn write_event_again(rig: &mut Rig, offset: u64) {
    let topic = rig.core.durable.topics().next().expect("there is one");
    let what = Placed::Topic(topic.id, Offset(offset));
    let body = topic.entries.get(offset).expect("it is there").body();
    let bytes = rig.store.fetch(ShardId(0), &[body]).remove(0);
    rig.core.move_bodies(vec![(Survivor { what, body }, bytes)]);
}

#[test]
fn a_replay_misses_no_event_that_is_being_written_again() {
    for moved in 0..3_usize {
        let (mut rig, mut peer) = forgetful();
        for body in ["a", "b", "c"] {
            rig.put(&mut peer, Publish::to_topic(name("t"), frame(body)));
        }
        let what = Subscribe { patterns: vec![name("t")], from: From::Earliest };
        let mut subscription = rig.subscribe(what).expect("subscribed");
        write_event_again(&mut rig, moved as u64);
        let waker = std::task::Waker::noop();
        let mut items = Vec::new();
        // the page is asked for while the body stands in the open block
        let asked = subscription.poll_next(&mut std::task::Context::from_waker(waker), &mut items, 10);
        assert!(asked.is_pending() && items.is_empty());
        rig.take_inbox();
        rig.pass();
        items.extend(rig.read(&mut subscription));
        let bodies: Vec<String> = items
            .iter()
            .map(|item| match item {
                FeedItem::Event(event) => String::from_utf8_lossy(event.frame.data()).into_owned(),
                FeedItem::Lost { .. } => "lost".to_owned(),
            })
            .collect();
        assert_eq!(bodies, ["a", "b", "c"], "{moved} was written again");
    }
}

#[test]
fn a_history_ends_before_an_event_that_is_being_written_again_and_waits_for_the_first_one() {
    let (mut rig, mut peer) = forgetful();
    for body in ["a", "b", "c"] {
        rig.put(&mut peer, Publish::to_topic(name("t"), frame(body)));
    }
    for (moved, expected) in [(0, ("abc", None)), (1, ("a", Some(1))), (2, ("ab", Some(2)))] {
        write_event_again(&mut rig, moved);
        let from = GroupStart::Earliest;
        let query = HistoryQuery { topic: name("t"), from, before: None, until_ms: None, max: 10 };
        let id = rig.send(&mut peer, vec![Request::Query(Query::History(query))])[0];
        let history = rig.until_history(&mut peer, id);
        let bodies: String = history.events.iter().map(|e| String::from_utf8_lossy(e.frame.data())).collect();
        assert_eq!((bodies.as_str(), history.next.map(|n| n.0)), expected, "{moved} was written again");
        rig.settle();
    }
    let topic = rig.core.durable.topic(TopicId(0)).expect("it is there");
    assert_eq!(topic.entries.iter().count(), 3);
}

#[test]
fn a_shard_in_which_nothing_changes_writes_no_snapshots() {
    let mut rig = start(Limits { snapshot_every_ms: 1000, ..Limits::default() });
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.core.follow();
    for _ in 0..50 {
        rig.wait(500);
        rig.settle();
        rig.until_kept();
    }
    let snapshots = |rig: &Rig| rig.shared().metrics.snapshots.load(Ordering::Relaxed);
    let before = snapshots(&rig);
    assert!((1..=4).contains(&before), "{before} snapshots of one declaration");
    for n in 0..50 {
        rig.put(&mut peer, message("q", &n.to_string()));
        rig.wait(500);
        rig.settle();
        rig.until_kept();
    }
    let made = snapshots(&rig) - before;
    assert!((20..=27).contains(&made), "{made} in 25 intervals with changes");
}

#[test]
fn a_queue_whose_head_changes_has_one_timer_for_it() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    // each head expires earlier than the one before it, and one stays
    for round in 0..20_u64 {
        for n in 0..10 {
            let ttl_ms = Some(10_000 - 1000 * n);
            rig.put(&mut peer, Publish { ttl_ms, ..message("q", "x") });
        }
        for _ in 0..10 {
            rig.call(&mut peer, pull(1, "q", 1, 0, true)).expect("pulled");
        }
        let last = Publish { ttl_ms: Some(100_000), ..message("q", "last") };
        rig.put(&mut peer, last);
        for _ in 0..22 {
            rig.wait(500);
            rig.settle();
        }
        if round > 0 {
            rig.call(&mut peer, pull(1, "q", 1, 0, true)).expect("pulled");
        }
    }
    assert!(rig.core.timers.len() < 30, "{} timers", rig.core.timers.len());
}

#[test]
fn a_message_that_somebody_else_could_take_is_forgotten_as_undeliverable() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.put(&mut peer, message("q", "a"));
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", None))]);
    rig.settle();
    for outcome in [Outcome::Undeliverable, Outcome::Ack] {
        let delivery = peer.deliveries().remove(0);
        rig.call(&mut peer, Request::Settle(settlement(1, &[seq(&delivery)], outcome))).expect("settled");
    }
    assert!(rig.core.live.values().all(|live| live.undeliverable.is_empty()));
}

#[test]
fn an_early_message_that_is_written_again_when_it_is_due_is_routed() {
    let (mut rig, mut peer) = forgetful();
    let spec = ExchangeSpec {
        name: name("later"),
        kind: ExchangeKind::Delayed(Box::new(ExchangeKind::Fanout)),
        durable: true,
        auto_delete: false,
        internal: false,
        alternate: None,
    };
    rig.call(&mut peer, Request::Define(Define::Exchange(spec))).expect("declared");
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    let target = crate::definition::BindTarget::Queue(name("q"));
    let binding = crate::definition::BindingSpec {
        exchange: name("later"),
        target,
        key: name("k"),
        arguments: Vec::new(),
    };
    rig.call(&mut peer, Request::Define(Define::Bind(binding))).expect("bound");
    let publish = |body: &str, ttl_ms| Publish {
        persistent: true,
        delay_ms: 1000,
        ttl_ms,
        ..Publish::new(name("later"), name("k"), frame(body))
    };
    rig.put(&mut peer, publish("a", Some(u64::MAX)));
    let park = *rig.core.parks.keys().next().expect("there is one");
    rig.wait(1000);
    write_again(&mut rig, park, 1);
    rig.send(&mut peer, vec![pull(1, "q", 1, 5000, true)]);
    rig.settle();
    let got: Vec<String> = rig.until_fetched(&mut peer).iter().map(text).collect();
    assert_eq!(got, ["a"], "and the longest time to live is no short one");
}

#[test]
fn a_head_that_is_written_again_when_a_consumer_comes_is_delivered() {
    let (mut rig, mut peer) = forgetful();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.put(&mut peer, message("q", "a"));
    write_again(&mut rig, QueueId(0), 1);
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", None))]);
    rig.settle();
    assert_eq!(peer.texts(), ["a"]);
}

#[test]
fn a_topic_gives_back_more_than_a_slice_a_second() {
    let mut rig = start(Limits { topic_age_ms_max: 1000, ..Limits::default() });
    let mut peer = rig.connect();
    let spec = TopicSpec { name: name("t"), age_ms_max: None, bytes_max: None };
    rig.call(&mut peer, Request::Define(Define::Topic(spec))).expect("declared");
    for _ in 0..50 {
        let publish = || Request::Publish(Publish::to_topic(name("t"), frame("x")));
        rig.send(&mut peer, (0..100).map(|_| publish()).collect());
        rig.settle();
    }
    rig.wait(1500);
    for _ in 0..20 {
        rig.wait(20);
        rig.settle();
    }
    let topic = rig.core.durable.topics().next().expect("there is one");
    assert_eq!(topic.entries.first(), topic.entries.next());
    assert!(matches!(rig.call(&mut peer, Request::Query(Query::Topics)), Ok(Reply::Topics(_))));
}
