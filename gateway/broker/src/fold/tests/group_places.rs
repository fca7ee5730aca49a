//! Where consumer groups are in their topic: set to a place, what is no longer kept, history.

use super::groups::{declare, event, group, info, join, member, publish, settle, take, texts};
use super::rig::{Peer, Rig, frame, name, seq, text};
use crate::group::{GroupSpec, GroupStart, HistoryQuery, Member};
use crate::ids::{ConsumerId, Offset};
use crate::request::{Consume, Define, Lease, Outcome, Publish, Query, Request, Settle};

#[test]
fn time_to_live_is_looked_at_before_each_attempt() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, GroupSpec { ttl_ms: Some(5000), ..group("g") });
    join(&mut rig, &mut peer, "g", member(1, Some(1)));
    let own = Publish { ttl_ms: Some(100), ..Publish::to_topic(name("orders"), frame("own")) };
    publish(&mut rig, &mut peer, &["a"]);
    rig.call(&mut peer, Request::Publish(own)).expect("published");
    publish(&mut rig, &mut peer, &["c"]);
    assert_eq!(texts(&peer.deliveries()), ["a"]);
    rig.wait(100);
    settle(&mut rig, &mut peer, 1, &[0], Outcome::Requeue { delay_ms: 5000 });
    assert_eq!(texts(&peer.deliveries()), ["c"], "the second has expired by its own time");
    rig.wait(5000);
    settle(&mut rig, &mut peer, 1, &[2], Outcome::Ack);
    rig.settle();
    assert!(peer.deliveries().is_empty(), "the first is too old for another attempt");
    let seen = info(&mut rig, &mut peer, "g");
    assert_eq!((seen.counts.expired, seen.floor, seen.lag), (2, Offset(3), 0));
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn a_group_that_is_set_to_a_place_delivers_from_there_and_old_leases_are_void() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, group("g"));
    join(&mut rig, &mut peer, "g", Consume { tokens: true, ..member(1, Some(2)) });
    let started = rig.now.wall_ms;
    for body in ["a", "b", "c", "d"] {
        publish(&mut rig, &mut peer, &[body]);
        rig.wait(1000);
    }
    let got = peer.deliveries();
    assert_eq!(texts(&got), ["a", "b"]);
    settle(&mut rig, &mut peer, 1, &[0], Outcome::Ack);
    assert_eq!(texts(&peer.deliveries()), ["c"]);
    let seek = |to| Request::Define(Define::SeekGroup { topic: name("orders"), group: name("g"), to });
    rig.call(&mut peer, seek(GroupStart::Earliest)).expect("set");
    let again = peer.deliveries();
    assert_eq!(
        again.iter().map(|d| (text(d), d.redelivered)).collect::<Vec<_>>(),
        [("a".into(), true), ("b".into(), true)]
    );
    let old =
        Settle { lease: Lease::Token(got[1].token.expect("a token")), outcome: Outcome::Ack, answer: true };
    assert!(rig.call(&mut peer, Request::Settle(old)).is_err(), "a lease from before");
    rig.call(&mut peer, seek(GroupStart::Offset(Offset(3)))).expect("set");
    assert_eq!(texts(&peer.deliveries()), ["d"]);
    rig.call(&mut peer, seek(GroupStart::Time(started + 1500))).expect("set");
    assert_eq!(texts(&peer.deliveries()), ["c", "d"]);
    rig.call(&mut peer, seek(GroupStart::Latest)).expect("set");
    assert!(peer.deliveries().is_empty());
    publish(&mut rig, &mut peer, &["e"]);
    assert_eq!(texts(&peer.deliveries()), ["e"]);
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn what_a_topic_no_longer_keeps_is_a_counted_loss_and_the_group_goes_on() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let spec =
        crate::definition::TopicSpec { name: name("orders"), age_ms_max: Some(10_000), bytes_max: None };
    rig.call(&mut peer, Request::Define(Define::Topic(spec))).expect("declared");
    declare(&mut rig, &mut peer, group("g"));
    publish(&mut rig, &mut peer, &["a", "b", "c"]);
    join(&mut rig, &mut peer, "g", member(1, Some(2)));
    assert_eq!(texts(&take(&mut rig, &mut peer, 2)), ["a", "b"]);
    settle(&mut rig, &mut peer, 1, &[1], Outcome::Ack);
    assert_eq!(texts(&take(&mut rig, &mut peer, 1)), ["c"]);
    rig.wait(9000);
    publish(&mut rig, &mut peer, &["d"]);
    rig.wait(2000);
    rig.settle();
    let seen = info(&mut rig, &mut peer, "g");
    assert_eq!((seen.floor, seen.counts.lost, seen.lag, seen.settled_above), (Offset(3), 2, 1, 0));
    settle(&mut rig, &mut peer, 1, &[0, 2], Outcome::Requeue { delay_ms: 0 });
    assert_eq!(texts(&take(&mut rig, &mut peer, 1)), ["d"], "what is gone does not come back");
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn history_gives_a_range_of_kept_events_and_where_to_go_on() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let started = rig.now.wall_ms;
    for n in 0..10 {
        publish(&mut rig, &mut peer, &[&n.to_string()]);
        rig.wait(1000);
    }
    let mut ask = |from, before: Option<u64>, until_ms, max| {
        let query = HistoryQuery { topic: name("orders"), from, before: before.map(Offset), until_ms, max };
        let id = rig.send(&mut peer, vec![Request::Query(Query::History(query))])[0];
        let history = rig.until_history(&mut peer, id);
        let bodies: Vec<String> = history
            .events
            .iter()
            .map(|e| String::from_utf8(e.frame.data().to_vec()).expect("text"))
            .collect();
        (bodies.concat(), history.next.map(|n| n.0))
    };
    assert_eq!(ask(GroupStart::Earliest, None, None, 4), ("0123".into(), Some(4)));
    assert_eq!(ask(GroupStart::Offset(Offset(4)), None, None, 100), ("456789".into(), None));
    assert_eq!(ask(GroupStart::Latest, None, None, 3), ("789".into(), None));
    assert_eq!(ask(GroupStart::Latest, Some(5), None, 2), ("34".into(), None));
    assert_eq!(ask(GroupStart::Time(started + 2500), None, Some(started + 5000), 100), ("345".into(), None));
    assert_eq!(ask(GroupStart::Offset(Offset(99)), None, None, 1), (String::new(), None));
}

#[test]
fn leases_of_a_lost_member_that_are_still_on_their_way_back_end_when_the_group_is_set_to_a_place() {
    let mut rig = Rig::new();
    let (mut peer, mut lost) = (rig.connect(), rig.connect());
    declare(&mut rig, &mut peer, group("g"));
    join(&mut rig, &mut lost, "g", member(1, None));
    for _ in 0..15 {
        rig.send(&mut peer, (0..200).map(|_| event("x")).collect());
        rig.settle();
    }
    assert_eq!(info(&mut rig, &mut peer, "g").unacked, 3000);
    rig.core.take(crate::fold::inbox::Inbox::Disconnect(lost.id), rig.now);
    let to = GroupStart::Offset(Offset(2000));
    let seek = Define::SeekGroup { topic: name("orders"), group: name("g"), to };
    rig.call(&mut peer, Request::Define(seek)).expect("set");
    let seen = info(&mut rig, &mut peer, "g");
    assert_eq!((seen.unacked, seen.lag), (0, 1000));
    join(&mut rig, &mut peer, "g", member(1, None));
    let got = take(&mut rig, &mut peer, 1000);
    rig.settle();
    assert!(peer.deliveries().is_empty(), "each once");
    let offsets: Vec<u64> = got.iter().map(|d| seq(d).0).collect();
    assert_eq!(offsets, (2000..3000).collect::<Vec<_>>());
    assert_eq!(info(&mut rig, &mut peer, "g").unacked, 1000);
}

/// Sets a group back to its first event.
fn seek(rig: &mut Rig, peer: &mut Peer, to: GroupStart) {
    let seek = Define::SeekGroup { topic: name("orders"), group: name("g"), to };
    rig.call(peer, Request::Define(seek)).expect("set");
}

#[test]
fn what_was_seen_before_a_seek_is_marked_so_after_a_restart_and_what_was_not_is_not() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, group("g"));
    join(&mut rig, &mut peer, "g", member(1, Some(2)));
    publish(&mut rig, &mut peer, &["a", "b", "c"]);
    assert_eq!(peer.texts(), ["a", "b"]);
    // over c, which nobody saw, and back
    seek(&mut rig, &mut peer, GroupStart::Latest);
    rig.call(&mut peer, Request::Cancel(ConsumerId(1))).expect("left");
    seek(&mut rig, &mut peer, GroupStart::Earliest);
    rig.core.finish();
    rig.settle();
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    join(&mut rig, &mut peer, "g", member(1, None));
    let again: Vec<_> = take(&mut rig, &mut peer, 3).iter().map(|d| (text(d), d.redelivered)).collect();
    assert_eq!(again, [("a".to_owned(), true), ("b".to_owned(), true), ("c".to_owned(), false)]);
}

#[test]
fn a_group_declared_while_events_are_on_their_way_to_the_disk_gets_them() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.send(&mut peer, vec![event("a")]);
    rig.pass();
    rig.send(&mut peer, vec![Request::Define(Define::Group(group("g")))]);
    rig.send(&mut peer, vec![Request::ConsumeGroup(member(1, None), Member::of(name("g")))]);
    rig.pass();
    rig.store.release(1);
    rig.pass();
    assert!(peer.texts().is_empty(), "the group itself is not durable");
    rig.store.release(usize::MAX);
    assert_eq!(texts(&take(&mut rig, &mut peer, 1)), ["a"]);
}
