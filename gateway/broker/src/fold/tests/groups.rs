//! Consumer groups: what is settled and what is not survives a restart, each group has its own rule.

use super::rig::{Peer, Rig, frame, name, seq, settlement, text};
use crate::feed::{FeedItem, From, Subscribe};
use crate::group::{Distribution, GroupInfo, GroupSpec, GroupStart, KeySource, Member, MemberState, Retry};
use crate::ids::{ConsumerId, Offset, Seq};
use crate::message::{DeathReason, Delivery};
use crate::request::{Consume, Define, Fetch, Lease, Outcome, Publish, Query, Reply, Request, Settle};

pub(super) fn group(name_: &str) -> GroupSpec {
    GroupSpec {
        start: GroupStart::Earliest,
        retry: Retry::AT_ONCE,
        ..GroupSpec::new(name("orders"), name(name_))
    }
}

pub(super) fn declare(rig: &mut Rig, peer: &mut Peer, spec: GroupSpec) {
    rig.call(peer, Request::Define(Define::Group(spec))).expect("declared");
}

pub(super) fn member(id: u32, prefetch: Option<u32>) -> Consume {
    super::rig::consumer(id, "orders", prefetch)
}

pub(super) fn join(rig: &mut Rig, peer: &mut Peer, group: &str, consume: Consume) {
    let member = Member::of(name(group));
    rig.call(peer, Request::ConsumeGroup(consume, member)).expect("joined");
}

pub(super) fn event(body: &str) -> Request {
    Request::Publish(Publish::to_topic(name("orders"), frame(body)))
}

pub(super) fn publish(rig: &mut Rig, peer: &mut Peer, bodies: &[&str]) {
    for body in bodies {
        rig.call(peer, event(body)).expect("published");
    }
}

pub(super) fn settle(rig: &mut Rig, peer: &mut Peer, consumer: u32, offsets: &[u64], outcome: Outcome) {
    let seqs: Vec<Seq> = offsets.iter().map(|o| Seq(*o)).collect();
    rig.call(peer, Request::Settle(settlement(consumer, &seqs, outcome))).expect("settled");
}

pub(super) fn info(rig: &mut Rig, peer: &mut Peer, group: &str) -> GroupInfo {
    let query = Query::Group { topic: name("orders"), group: name(group) };
    match rig.call(peer, Request::Query(query)) {
        Ok(Reply::Group(info)) => *info,
        other => panic!("{other:?}"),
    }
}

/// So many deliveries; bodies are read back first where they have to be.
pub(super) fn take(rig: &mut Rig, peer: &mut Peer, n: usize) -> Vec<Delivery> {
    rig.pass();
    let mut all = Vec::new();
    while all.len() < n {
        all.extend(rig.until(peer));
    }
    all
}

pub(super) fn texts(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(text).collect()
}

#[test]
fn an_older_unacked_event_behind_newer_acks_survives_a_restart() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, group("g"));
    join(&mut rig, &mut peer, "g", member(1, None));
    publish(&mut rig, &mut peer, &["a", "b", "c", "d"]);
    let got = peer.deliveries();
    assert_eq!(texts(&got), ["a", "b", "c", "d"]);
    assert_eq!(
        got.iter().map(|d| (seq(d).0, d.origin.seq)).collect::<Vec<_>>(),
        [(0, 0), (1, 1), (2, 2), (3, 3)]
    );
    settle(&mut rig, &mut peer, 1, &[0, 2, 3], Outcome::Ack);
    let seen = info(&mut rig, &mut peer, "g");
    assert_eq!((seen.floor, seen.settled_above, seen.gaps, seen.lag, seen.unacked), (Offset(1), 2, 1, 1, 1));
    assert_eq!(rig.hashes().0, rig.hashes().1);

    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    let seen = info(&mut rig, &mut peer, "g");
    assert_eq!((seen.floor, seen.settled_above, seen.lag, seen.unacked), (Offset(1), 2, 1, 0));
    join(&mut rig, &mut peer, "g", member(1, None));
    publish(&mut rig, &mut peer, &["e"]);
    let got = take(&mut rig, &mut peer, 2);
    assert_eq!(texts(&got), ["b", "e"]);
    settle(&mut rig, &mut peer, 1, &[1], Outcome::Ack);
    assert_eq!(info(&mut rig, &mut peer, "g").floor, Offset(4), "the gap is closed");
}

#[test]
fn a_dead_lettered_event_is_not_repeated_after_a_restart() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, GroupSpec { dead_letter_topic: Some(name("dead")), ..group("g") });
    join(&mut rig, &mut peer, "g", member(1, None));
    publish(&mut rig, &mut peer, &["a", "bad", "c"]);
    assert_eq!(peer.deliveries().len(), 3);
    settle(&mut rig, &mut peer, 1, &[1], Outcome::Reject);
    assert_eq!(rig.hashes().0, rig.hashes().1);

    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    join(&mut rig, &mut peer, "g", member(1, None));
    let got = take(&mut rig, &mut peer, 2);
    assert_eq!(texts(&got), ["a", "c"]);
    assert_eq!(info(&mut rig, &mut peer, "g").counts.dead_lettered, 1);
    let dead = GroupSpec { start: GroupStart::Earliest, ..GroupSpec::new(name("dead"), name("g")) };
    declare(&mut rig, &mut peer, dead);
    let consume = super::rig::consumer(2, "dead", None);
    rig.call(&mut peer, Request::ConsumeGroup(consume, Member::of(name("g")))).expect("joined");
    let got = take(&mut rig, &mut peer, 1);
    let death = &got[0].envelope.deaths[0];
    assert_eq!((text(&got[0]).as_str(), death.reason, &*death.queue), ("bad", DeathReason::Rejected, "g"));
    assert_eq!((&*death.keys[0], got[0].envelope.key()), ("orders", "dead"));
}

#[test]
fn two_groups_of_different_modes_on_one_topic_each_get_their_own_rule() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, group("balanced"));
    let key = KeySource::Attribute(name("partitionkey"));
    declare(&mut rig, &mut peer, GroupSpec { distribution: Distribution::Sticky(key), ..group("sticky") });
    for consumer in 1..=3 {
        join(&mut rig, &mut peer, "balanced", member(consumer, None));
        join(&mut rig, &mut peer, "sticky", member(10 + consumer, None));
    }
    for n in 0..60 {
        let attributes = [("partitionkey", format!("k{}", n % 6))];
        let attributes = attributes.iter().map(|(k, v)| (*k, v.as_str()));
        let limits = framegate_frame::Limits::GATEWAY;
        let frame =
            framegate_frame::Frame::build(framegate_frame::FrameKind::Event, attributes, b"x", &limits);
        let publish = Publish::to_topic(name("orders"), frame.expect("a frame"));
        rig.call(&mut peer, Request::Publish(publish)).expect("published");
    }
    let got = peer.deliveries();
    let of = |consumer: u32| got.iter().filter(move |d| d.consumer == ConsumerId(consumer));
    for consumer in 1..=3 {
        assert_eq!(of(consumer).count(), 20, "round robin");
    }
    for key in 0..6 {
        let key = format!("k{key}");
        let takers: std::collections::BTreeSet<_> = (11..=13)
            .filter(|c| of(*c).any(|d| d.frame.attr("partitionkey") == Some(key.as_str())))
            .collect();
        assert_eq!(takers.len(), 1, "all of {key} go to one member");
    }
    assert_eq!((11..=13).map(|c| of(c).count()).sum::<usize>(), 60, "each event once");
}

#[test]
fn nothing_of_a_group_is_seen_before_it_is_durable() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, group("g"));
    join(&mut rig, &mut peer, "g", member(1, None));
    rig.send(&mut peer, vec![event("a")]);
    rig.pass();
    rig.pass();
    assert!(peer.deliveries().is_empty());
    rig.settle();
    assert_eq!(texts(&peer.deliveries()), ["a"]);
}

#[test]
fn a_lease_that_ran_out_and_a_lost_member_give_events_to_others_with_one_more_attempt() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, GroupSpec { lease_ms: Some(1000), ..group("g") });
    let mut first = rig.connect();
    join(&mut rig, &mut first, "g", member(1, None));
    publish(&mut rig, &mut peer, &["a", "b"]);
    assert_eq!(texts(&first.deliveries()), ["a", "b"]);
    settle(&mut rig, &mut first, 1, &[0], Outcome::Extend { lease_ms: 5000 });
    join(&mut rig, &mut peer, "g", member(2, None));
    rig.wait(999);
    rig.settle();
    assert!(peer.deliveries().is_empty(), "the lease that the group gives has not run out");
    rig.wait(1);
    rig.settle();
    let again: Vec<_> = [first.deliveries(), peer.deliveries()].concat();
    assert_eq!(
        again.iter().map(|d| (text(d), d.attempt, d.redelivered)).collect::<Vec<_>>(),
        [("b".into(), 2, true)]
    );
    rig.disconnect(first);
    let again = peer.deliveries();
    assert!(texts(&again).contains(&"a".to_owned()));
    assert!(again.iter().all(|d| d.attempt >= 2));
    assert_eq!(info(&mut rig, &mut peer, "g").members.len(), 1);
}

#[test]
fn a_failed_event_is_tried_again_after_its_backoff_and_dead_lettered_after_the_last_attempt() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let retry = Retry { attempts_max: 3, base_ms: 1000, max_ms: 16_000, jitter_percent: 20 };
    declare(&mut rig, &mut peer, GroupSpec { retry, dead_letter_topic: Some(name("dead")), ..group("g") });
    join(&mut rig, &mut peer, "g", member(1, None));
    publish(&mut rig, &mut peer, &["bad", "good"]);
    assert_eq!(peer.deliveries().len(), 2);
    let nack = |rig: &mut Rig, peer: &mut Peer| settle(rig, peer, 1, &[0], Outcome::Requeue { delay_ms: 0 });
    nack(&mut rig, &mut peer);
    let seen = info(&mut rig, &mut peer, "g");
    assert_eq!((seen.waiting, seen.unacked, seen.lag), (1, 1, 2));
    rig.wait(799);
    rig.settle();
    assert!(peer.deliveries().is_empty(), "not early");
    rig.wait(401);
    rig.settle();
    assert_eq!(peer.deliveries().iter().map(|d| (seq(d).0, d.attempt)).collect::<Vec<_>>(), [(0, 2)]);
    // what waits, waits on after a restart
    nack(&mut rig, &mut peer);
    assert_eq!(rig.hashes().0, rig.hashes().1);
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    join(&mut rig, &mut peer, "g", member(1, None));
    assert_eq!(texts(&take(&mut rig, &mut peer, 1)), ["good"]);
    rig.wait(1599);
    rig.settle();
    assert!(peer.deliveries().is_empty());
    rig.wait(801);
    assert_eq!(
        take(&mut rig, &mut peer, 1).iter().map(|d| (seq(d).0, d.attempt)).collect::<Vec<_>>(),
        [(0, 3)]
    );
    nack(&mut rig, &mut peer);
    rig.wait(60_000);
    rig.settle();
    assert!(peer.deliveries().is_empty(), "three attempts and no more");
    let seen = info(&mut rig, &mut peer, "g");
    assert_eq!((seen.counts.dead_lettered, seen.waiting, seen.floor), (1, 0, Offset(1)));
}

#[test]
fn a_dead_letter_of_a_dead_letter_topic_is_dropped_and_counted() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, GroupSpec { dead_letter_topic: Some(name("dead")), ..group("g") });
    let further = GroupSpec {
        start: GroupStart::Earliest,
        dead_letter_topic: Some(name("dead.dead")),
        ..GroupSpec::new(name("dead"), name("h"))
    };
    declare(&mut rig, &mut peer, further);
    join(&mut rig, &mut peer, "g", member(1, None));
    let second = super::rig::consumer(2, "dead", None);
    rig.call(&mut peer, Request::ConsumeGroup(second, Member::of(name("h")))).expect("joined");
    publish(&mut rig, &mut peer, &["bad"]);
    assert_eq!(peer.deliveries().len(), 1);
    settle(&mut rig, &mut peer, 1, &[0], Outcome::Reject);
    assert_eq!(texts(&peer.deliveries()), ["bad"], "it is in the dead-letter topic");
    settle(&mut rig, &mut peer, 2, &[0], Outcome::Reject);
    let query = Query::Group { topic: name("dead"), group: name("h") };
    let Ok(Reply::Group(seen)) = rig.call(&mut peer, Request::Query(query)) else { panic!("a group") };
    assert_eq!((seen.counts.dropped_nested, seen.counts.dead_lettered, seen.lag), (1, 0, 0));
    assert!(
        rig.call(&mut peer, Request::Query(Query::Topic(name("dead.dead")))).is_err(),
        "nothing went there"
    );
}

#[test]
fn a_dead_letter_whose_body_is_not_in_memory_reaches_live_subscribers_too() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, GroupSpec { dead_letter_topic: Some(name("dead")), ..group("g") });
    join(&mut rig, &mut peer, "g", member(1, None));
    let big = "x".repeat(1 << 20);
    publish(&mut rig, &mut peer, &["bad"]);
    assert_eq!(peer.deliveries().len(), 1);
    let (reply, mut parts) = tokio::sync::oneshot::channel();
    let what = Subscribe { patterns: vec![name("dead")], from: From::Latest };
    rig.core.take(super::super::inbox::Inbox::Subscribe { vhost: name("/"), what, reply }, rig.now);
    let mut live = crate::feed::Subscription::new(parts.try_recv().expect("answered").expect("subscribed"));
    // the cache lets go of what is oldest
    for _ in 0..60 {
        publish(&mut rig, &mut peer, &[&big]);
    }
    rig.send(&mut peer, vec![Request::Settle(settlement(1, &[Seq(0)], Outcome::Reject))]);
    rig.settle();
    assert!(rig.shared().metrics.bodies_loaded.load(std::sync::atomic::Ordering::Relaxed) > 0);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut items = Vec::new();
    assert!(live.poll_next(&mut context, &mut items, 10).is_ready());
    let [FeedItem::Event(event)] = &items[..] else { panic!("one event") };
    assert_eq!(event.frame.data(), b"bad");
    assert_eq!(event.envelope.attempts, 1);
    drop(live);
}

#[test]
fn a_group_pauses_when_too_many_offsets_above_its_floor_are_in_use() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, group("g"));
    let max = crate::limits::GROUP_GAP_MAX;
    for _ in 0..=max / 1000 {
        rig.send(&mut peer, (0..1000).map(|_| event("x")).collect());
    }
    rig.settle();
    peer.effects();
    join(&mut rig, &mut peer, "g", member(1, None));
    let mut got = 0;
    while got < max {
        rig.pass();
        let n = peer.deliveries().len() as u64;
        if n == 0 {
            rig.settle();
        }
        got += n;
    }
    rig.settle();
    assert!(peer.deliveries().is_empty());
    assert!(info(&mut rig, &mut peer, "g").paused);
    settle(&mut rig, &mut peer, 1, &[5], Outcome::Ack);
    rig.settle();
    assert!(peer.deliveries().is_empty(), "the floor has not moved");
    settle(&mut rig, &mut peer, 1, &[0], Outcome::Ack);
    rig.settle();
    assert_eq!(peer.deliveries().len(), 1);
}

#[test]
fn a_pull_takes_what_is_there_and_settles_by_token() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, group("g"));
    let fetch = Fetch {
        consumer: ConsumerId(7),
        queue: name("orders"),
        max: 2,
        wait_ms: 1000,
        auto_ack: false,
        lease_ms: None,
        tokens: true,
    };
    publish(&mut rig, &mut peer, &["a", "b", "c"]);
    let pull = || Request::FetchGroup(fetch.clone(), Member::of(name("g")));
    let Ok(Reply::Fetched { messages, remaining }) = rig.call(&mut peer, pull()) else { panic!("fetched") };
    assert_eq!((texts(&messages), remaining), (vec!["a".into(), "b".into()], 1));
    let ack = Settle {
        lease: Lease::Token(messages[0].token.expect("a token")),
        outcome: Outcome::Ack,
        answer: true,
    };
    rig.call(&mut peer, Request::Settle(ack)).expect("settled");
    assert_eq!(info(&mut rig, &mut peer, "g").floor, Offset(1));
    let Ok(Reply::Fetched { messages, .. }) = rig.call(&mut peer, pull()) else { panic!("fetched") };
    assert_eq!(texts(&messages), ["c"]);
    rig.send(&mut peer, vec![pull()]);
    rig.settle();
    assert_eq!(info(&mut rig, &mut peer, "g").members.len(), 1, "it is a member while it waits");
    rig.wait(1000);
    rig.settle();
    assert!(info(&mut rig, &mut peer, "g").members.is_empty());
}

#[test]
fn a_member_that_holds_all_that_it_may_for_long_is_slow() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, group("g"));
    join(&mut rig, &mut peer, "g", member(1, Some(1)));
    publish(&mut rig, &mut peer, &["a", "b"]);
    rig.wait(10_000);
    assert_eq!(info(&mut rig, &mut peer, "g").members[0].state, MemberState::Healthy);
    rig.wait(1);
    let seen = info(&mut rig, &mut peer, "g");
    assert_eq!((seen.members[0].state, seen.members[0].unacked), (MemberState::Slow, 1));
    settle(&mut rig, &mut peer, 1, &[0], Outcome::Ack);
    assert_eq!(info(&mut rig, &mut peer, "g").members[0].state, MemberState::Healthy);
    let Ok(Reply::Presence(presence)) = rig.call(&mut peer, Request::Query(Query::Presence(name("orders"))))
    else {
        panic!("presence")
    };
    assert_eq!((presence.subscribers, presence.members.len()), (0, 1));
    assert_eq!((presence.members[0].consumer, &*presence.members[0].user), (ConsumerId(1), "test"));
}

#[test]
fn a_deleted_group_or_topic_ends_its_members() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, group("g"));
    declare(&mut rig, &mut peer, group("h"));
    join(&mut rig, &mut peer, "g", member(1, None));
    join(&mut rig, &mut peer, "h", member(2, None));
    publish(&mut rig, &mut peer, &["a"]);
    peer.effects();
    let delete = Define::DeleteGroup { topic: name("orders"), group: name("g") };
    assert!(matches!(rig.call(&mut peer, Request::Define(delete)), Ok(Reply::Removed { messages: 1 })));
    let cancelled = |peer: &mut Peer| {
        peer.effects().iter().filter(|e| matches!(e, crate::request::Effect::Cancelled { .. })).count()
    };
    assert_eq!(cancelled(&mut peer), 1);
    rig.call(&mut peer, Request::Define(Define::DeleteTopic(name("orders")))).expect("deleted");
    assert_eq!(cancelled(&mut peer), 1);
    let Ok(Reply::Groups(groups)) = rig.call(&mut peer, Request::Query(Query::Groups(None))) else {
        panic!("groups")
    };
    assert!(groups.is_empty());
    assert_eq!(rig.hashes().0, rig.hashes().1);
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    assert!(rig.call(&mut peer, Request::Query(Query::Topic(name("orders")))).is_err());
}

#[test]
fn a_topic_is_a_dead_letter_topic_as_long_as_a_group_says_so() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let dead = |topic: &str, name_: &str, dead: &str| GroupSpec {
        start: GroupStart::Earliest,
        retry: Retry::AT_ONCE,
        dead_letter_topic: Some(name(dead)),
        ..GroupSpec::new(name(topic), name(name_))
    };
    declare(&mut rig, &mut peer, dead("orders", "g", "dead"));
    declare(&mut rig, &mut peer, dead("dead", "h", "deader"));
    join(&mut rig, &mut peer, "g", member(1, None));
    publish(&mut rig, &mut peer, &["a", "b"]);
    assert_eq!(take(&mut rig, &mut peer, 2).len(), 2);
    settle(&mut rig, &mut peer, 1, &[0, 1], Outcome::Reject);
    let second = Consume { queue: name("dead"), ..member(2, None) };
    rig.call(&mut peer, Request::ConsumeGroup(second, Member::of(name("h")))).expect("joined");
    assert_eq!(take(&mut rig, &mut peer, 2).len(), 2);
    settle(&mut rig, &mut peer, 2, &[0], Outcome::Reject);
    rig.call(&mut peer, Request::Define(Define::DeleteGroup { topic: name("orders"), group: name("g") }))
        .expect("deleted");
    settle(&mut rig, &mut peer, 2, &[1], Outcome::Reject);
    let query = Query::Group { topic: name("dead"), group: name("h") };
    let Ok(Reply::Group(info)) = rig.call(&mut peer, Request::Query(query)) else { panic!("the group") };
    assert_eq!((info.counts.dropped_nested, info.counts.dead_lettered), (1, 1));
}

#[test]
fn a_member_that_may_hold_more_again_is_not_called_slow() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, group("g"));
    join(&mut rig, &mut peer, "g", member(1, Some(1)));
    publish(&mut rig, &mut peer, &["a", "b"]);
    rig.wait(11_000);
    rig.settle();
    assert_eq!(info(&mut rig, &mut peer, "g").members[0].state, MemberState::Slow);
    rig.call(&mut peer, Request::Credit(crate::request::Credit::Consumer(ConsumerId(1), Some(9))))
        .expect("more");
    assert_eq!(info(&mut rig, &mut peer, "g").members[0].state, MemberState::Healthy);
}

#[test]
fn a_dead_letter_is_kept_by_the_time_at_which_it_came() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let spec = crate::definition::TopicSpec { name: name("dead"), age_ms_max: Some(5000), bytes_max: None };
    rig.call(&mut peer, Request::Define(Define::Topic(spec))).expect("declared");
    declare(&mut rig, &mut peer, GroupSpec { dead_letter_topic: Some(name("dead")), ..group("g") });
    join(&mut rig, &mut peer, "g", member(1, None));
    publish(&mut rig, &mut peer, &["a"]);
    assert_eq!(take(&mut rig, &mut peer, 1).len(), 1);
    rig.wait(60_000);
    settle(&mut rig, &mut peer, 1, &[0], Outcome::Reject);
    for _ in 0..4 {
        rig.wait(1000);
        rig.settle();
    }
    let dead = rig.core.editor.current().topic("/", "dead").expect("there");
    assert_eq!(rig.core.durable.topic(dead).map(|t| t.entries.iter().count()), Some(1));
    rig.wait(2000);
    rig.settle();
    assert_eq!(rig.core.durable.topic(dead).map(|t| t.entries.iter().count()), Some(0));
}

#[test]
fn a_member_that_stops_consuming_while_its_pull_waits_stays_until_the_pull_is_over() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let distribution = Distribution::Sticky(KeySource::RoutingKey);
    declare(&mut rig, &mut peer, GroupSpec { distribution, ..group("g") });
    join(&mut rig, &mut peer, "g", member(1, Some(0)));
    let fetch = Fetch {
        consumer: ConsumerId(1),
        queue: name("orders"),
        max: 1,
        wait_ms: 1000,
        auto_ack: true,
        lease_ms: None,
        tokens: false,
    };
    rig.send(&mut peer, vec![Request::FetchGroup(fetch, Member::of(name("g")))]);
    rig.call(&mut peer, Request::Cancel(ConsumerId(1))).expect("cancelled");
    rig.send(&mut peer, vec![event("a")]);
    assert_eq!(texts(&rig.until_fetched(&mut peer)), ["a"]);
    assert!(info(&mut rig, &mut peer, "g").members.is_empty());
}
