//! Ids of durable queues, topics and groups are given again when all were given, and nothing of an earlier life is taken for
//! something of a later one: not in memory, not in the log, not after a snapshot.

use std::collections::BTreeSet;

use super::groups::{declare, event, group, join, member};
use super::rig::{Peer, Rig, consumer, info, message, name, queue, seq, text};
use crate::definition::QueueProperties;
use crate::error::BrokerError;
use crate::fold::load::of_pages;
use crate::ids::Offset;
use crate::request::{Answer, Define, Publish, Reply, Request};
use crate::state::{Export, have_ids};

fn delete(rig: &mut Rig, peer: &mut Peer, queue: &str) {
    let delete = Define::DeleteQueue { name: name(queue), if_unused: false, if_empty: false };
    rig.call(peer, Request::Define(delete)).expect("deleted");
}

/// What a snapshot says is what the log says.
fn check(rig: &Rig) {
    assert_eq!(rig.hashes().0, rig.hashes().1);
    let state = of_pages(Export::new(rig.core.durable.freeze(), 7)).expect("pages").state;
    assert_eq!(state.content_hash(), rig.core.durable.content_hash());
}

#[test]
fn queues_may_be_declared_for_ever_and_no_number_is_seen_twice() {
    let _few = have_ids(4);
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let mut seen = BTreeSet::new();
    rig.call(&mut peer, queue("stays", QueueProperties::default())).expect("declared");
    for round in 0..30_u32 {
        let q = format!("q{round}");
        rig.call(&mut peer, queue(&q, QueueProperties::default())).expect("declared");
        assert_eq!(info(&mut rig, &mut peer, &q).ready, 0, "it is new");
        rig.put(&mut peer, message("stays", &q));
        for persistent in [true, false, true] {
            rig.put(&mut peer, Publish { persistent, ..message(&q, &q) });
        }
        rig.send(&mut peer, vec![Request::Consume(consumer(round, &q, Some(2)))]);
        rig.settle();
        for delivery in peer.deliveries() {
            assert_eq!(text(&delivery), q);
            assert!(
                seen.insert((delivery.origin.id, seq(&delivery))),
                "{} was seen before",
                delivery.origin.seq
            );
        }
        check(&rig);
        if round % 5 == 3 {
            rig = Rig::on(&rig.store, rig.now);
            peer = rig.connect();
        }
        delete(&mut rig, &mut peer, &q);
    }
    assert_eq!(info(&mut rig, &mut peer, "stays").ready, 30);
    for n in 0..3 {
        rig.call(&mut peer, queue(&n.to_string(), QueueProperties::default())).expect("declared");
    }
    let error = rig.call(&mut peer, queue("more", QueueProperties::default())).expect_err("all are used");
    assert!(matches!(error, BrokerError::Limit { .. }), "{error}");
    assert!(seen.len() > 50);
}

#[test]
fn topics_and_groups_come_and_go_for_ever_and_no_offset_is_seen_twice() {
    let _few = have_ids(3);
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let mut seen = BTreeSet::new();
    for round in 0..20_u32 {
        declare(&mut rig, &mut peer, group("g"));
        join(&mut rig, &mut peer, "g", member(round, Some(1)));
        for body in ["a", "b"] {
            let Request::Publish(publish) = event(body) else { unreachable!("an event") };
            match rig.call(&mut peer, Request::Publish(Publish { answer: Answer::Reply, ..publish })) {
                Ok(Reply::Published(p)) => {
                    let Offset(offset) = p.offset.expect("kept");
                    let id = rig.core.editor.current().topic("/", "orders").expect("there");
                    assert!(seen.insert((id.0, offset)), "{offset} was seen before");
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(peer.texts(), ["a"], "round {round}");
        check(&rig);
        if round % 3 == 1 {
            rig = Rig::on(&rig.store, rig.now);
            peer = rig.connect();
        }
        rig.call(&mut peer, Request::Define(Define::DeleteTopic(name("orders")))).expect("deleted");
    }
}

#[test]
fn a_publish_that_was_routed_to_a_durable_queue_that_went_does_not_reach_the_next_one_of_its_id() {
    let _few = have_ids(1);
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("old", QueueProperties::default())).expect("declared");
    let user = crate::principal::Principal::unrestricted(name("test"));
    let publish = Publish { answer: Answer::Reply, ..message("old", "for the old one") };
    let late = crate::broker::route_request(rig.shared(), &user, &name("/"), Request::Publish(publish));
    delete(&mut rig, &mut peer, "old");
    rig.call(&mut peer, queue("new", QueueProperties::default())).expect("declared");
    let to = crate::fold::AnswerTo::Request(peer.id, crate::ids::RequestId(1000));
    rig.core.task(to, peer.id, &name("/"), late);
    rig.settle();
    assert_eq!(info(&mut rig, &mut peer, "new").ready, 0);
}
