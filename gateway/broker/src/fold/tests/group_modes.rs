//! Which member gets an event: sticky and filtered groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use framegate_frame::{Frame, FrameKind, Limits};

use super::groups::{declare, event, group, info, join, member, publish, settle, take, texts};
use super::rig::{Peer, Rig, name, text};
use crate::group::{Distribution, Filter, GroupSpec, KeySource, Member};
use crate::ids::ConsumerId;
use crate::message::{Delivery, Envelope};
use crate::request::{Outcome, Publish, Request};

fn keyed(key: usize) -> Request {
    let key = format!("key-{key}");
    let frame = Frame::build(FrameKind::Event, [("partitionkey", key.as_str())], b"x", &Limits::GATEWAY);
    Request::Publish(Publish::to_topic(name("orders"), frame.expect("a frame")))
}

fn sticky() -> GroupSpec {
    let source = KeySource::Attribute(name("partitionkey"));
    GroupSpec { distribution: Distribution::Sticky(source), ..group("g") }
}

/// Whom each key went to; every key to one member only.
fn owners(deliveries: &[Delivery]) -> BTreeMap<String, ConsumerId> {
    let mut owners = BTreeMap::new();
    for delivery in deliveries {
        let key = delivery.frame.attr("partitionkey").expect("a key").to_owned();
        let owner = *owners.entry(key).or_insert(delivery.consumer);
        assert_eq!(owner, delivery.consumer, "a key has one owner");
    }
    owners
}

#[test]
fn when_one_of_ten_sticky_members_leaves_only_its_keys_move() {
    const KEYS: usize = 500;
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, sticky());
    for consumer in 1..=10 {
        join(&mut rig, &mut peer, "g", member(consumer, None));
    }
    let round = |rig: &mut Rig, peer: &mut Peer| {
        rig.send(peer, (0..KEYS).chain(0..KEYS).map(keyed).collect());
        rig.settle();
        let got = peer.deliveries();
        assert_eq!(got.len(), 2 * KEYS);
        owners(&got)
    };
    let before = round(&mut rig, &mut peer);
    rig.call(&mut peer, Request::Cancel(ConsumerId(4))).expect("cancelled");
    let after = round(&mut rig, &mut peer);
    let its = before.values().filter(|c| **c == ConsumerId(4)).count();
    let moved = before.iter().filter(|(key, owner)| after[*key] != **owner).count();
    assert!(its > 20, "it had {its} keys");
    assert_eq!(moved, its, "its keys and no others");
    // one that joins takes keys from all, and none moves between others
    join(&mut rig, &mut peer, "g", member(11, None));
    let joined = round(&mut rig, &mut peer);
    assert!(after.iter().all(|(key, owner)| joined[key] == *owner || joined[key] == ConsumerId(11)));
}

#[test]
fn a_sticky_member_that_comes_back_under_its_name_gets_its_keys_back() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, sticky());
    let named = |n: u32| Member { name: Some(name(&format!("worker-{}", n % 10))), ..Member::of(name("g")) };
    for n in 1..=3 {
        rig.call(&mut peer, Request::ConsumeGroup(member(n, None), named(n))).expect("joined");
    }
    rig.send(&mut peer, (0..100).map(keyed).collect());
    rig.settle();
    let before = owners(&peer.deliveries());
    let mut other = rig.connect();
    rig.call(&mut peer, Request::Cancel(ConsumerId(2))).expect("cancelled");
    rig.call(&mut other, Request::ConsumeGroup(member(12, None), named(12))).expect("joined");
    rig.send(&mut peer, (0..100).map(keyed).collect());
    rig.settle();
    let after = [owners(&peer.deliveries()), owners(&other.deliveries())];
    let after: BTreeMap<String, ConsumerId> = after.into_iter().flatten().collect();
    assert!(before.iter().all(|(key, owner)| after[key].0 % 10 == owner.0));
}

#[test]
fn a_sticky_member_without_credit_holds_up_its_keys_and_no_others() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, sticky());
    join(&mut rig, &mut peer, "g", member(1, Some(1)));
    join(&mut rig, &mut peer, "g", member(2, None));
    rig.send(&mut peer, (0..40).chain(0..40).map(keyed).collect());
    rig.settle();
    let got = peer.deliveries();
    let slow = got.iter().filter(|d| d.consumer == ConsumerId(1)).count();
    assert_eq!(slow, 1);
    let seen = info(&mut rig, &mut peer, "g");
    let waiting: u64 = seen.members.iter().map(|m| m.assigned).sum();
    assert_eq!(got.len() as u64 + waiting, 80);
    assert!(waiting > 20, "{waiting} wait for their member");
    // when it leaves, the other gets them, in order
    rig.call(&mut peer, Request::Cancel(ConsumerId(1))).expect("cancelled");
    let rest = peer.deliveries();
    assert_eq!(rest.len() as u64, waiting);
    assert!(rest.windows(2).all(|w| w[0].origin.seq < w[1].origin.seq));
}

struct StartsWith(&'static str);

impl Filter for StartsWith {
    fn matches(&self, _: &Envelope, frame: &Frame) -> bool {
        frame.data().starts_with(self.0.as_bytes())
    }
}

fn join_for(rig: &mut Rig, peer: &mut Peer, id: u32, prefix: &'static str) {
    let filter: Arc<dyn Filter> = Arc::new(StartsWith(prefix));
    let member_ = Member { filter: Some(filter), ..Member::of(name("g")) };
    rig.call(peer, Request::ConsumeGroup(member(id, None), member_)).expect("joined");
}

#[test]
fn a_filtered_member_gets_what_matches_and_the_rest_is_skipped_for_good() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, GroupSpec { distribution: Distribution::Filtered, ..group("g") });
    publish(&mut rig, &mut peer, &["a1", "c1"]);
    rig.settle();
    assert_eq!(info(&mut rig, &mut peer, "g").lag, 2, "without members nothing is passed over");
    join_for(&mut rig, &mut peer, 1, "a");
    join_for(&mut rig, &mut peer, 2, "b");
    publish(&mut rig, &mut peer, &["b1", "a2", "x"]);
    rig.settle();
    let got = peer.deliveries();
    let mut pairs: Vec<_> = got.iter().map(|d| (d.consumer.0, text(d))).collect();
    pairs.sort();
    assert_eq!(pairs, [(1, "a1".into()), (1, "a2".into()), (2, "b1".into())]);
    settle(&mut rig, &mut peer, 1, &[0], Outcome::Ack);
    let seen = info(&mut rig, &mut peer, "g");
    assert_eq!((seen.counts.skipped, seen.lag, seen.floor.0), (2, 2, 2));
    assert_eq!(rig.hashes().0, rig.hashes().1);
    // what was skipped stays skipped, whoever joins after a restart
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    join(&mut rig, &mut peer, "g", member(3, None));
    let mut rest = texts(&take(&mut rig, &mut peer, 2));
    rest.sort();
    assert_eq!(rest, ["a2", "b1"]);
}

#[test]
fn events_for_several_filters_go_to_the_member_that_holds_least() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, GroupSpec { distribution: Distribution::Filtered, ..group("g") });
    join_for(&mut rig, &mut peer, 1, "a");
    join_for(&mut rig, &mut peer, 2, "");
    rig.send(&mut peer, (0..10).map(|_| event("b")).chain((0..20).map(|_| event("a"))).collect());
    rig.settle();
    let got = peer.deliveries();
    let of = |consumer| got.iter().filter(|d| d.consumer == ConsumerId(consumer)).count();
    assert_eq!((of(1), of(2)), (15, 15));
}
