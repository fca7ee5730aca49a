//! Ids of exclusive and transient queues are given again, and nothing that was meant for the one before reaches the next.

use super::rig::{Peer, Rig, consumer, info, message, name, queue, seq, settlement, text};
use crate::broker::route_request;
use crate::definition::{QueueProperties, QueueSpec};
use crate::error::BrokerError;
use crate::fold::AnswerTo;
use crate::ids::{ConnectionId, RequestId};
use crate::principal::Principal;
use crate::request::{Answer, Consume, Define, Outcome, Publish, Request};

fn declare(rig: &mut Rig, peer: &mut Peer, queue: &str) -> Result<(), BrokerError> {
    let spec = QueueSpec { name: name(queue), exclusive: true, ..QueueSpec::default() };
    rig.call(peer, Request::Define(Define::Queue(spec))).map(drop)
}

fn delete(rig: &mut Rig, peer: &mut Peer, queue: &str) {
    let delete = Define::DeleteQueue { name: name(queue), if_unused: false, if_empty: false };
    rig.call(peer, Request::Define(delete)).expect("deleted");
}

#[test]
fn ids_never_run_out_while_queues_come_and_go() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.core.have_volatile_ids(8);
    for round in 0..100 {
        let name = format!("q{round}");
        declare(&mut rig, &mut peer, &name).expect("declared");
        rig.put(&mut peer, message(&name, &name));
        rig.send(&mut peer, vec![Request::Consume(consumer(round, &name, None))]);
        rig.settle();
        assert_eq!(peer.deliveries().iter().map(text).collect::<Vec<_>>(), [name.as_str()]);
        delete(&mut rig, &mut peer, &name);
    }
    for queue in 0..8 {
        declare(&mut rig, &mut peer, &format!("k{queue}")).expect("declared");
    }
    let error = declare(&mut rig, &mut peer, "one too many").expect_err("refused");
    assert!(matches!(error, BrokerError::Limit { max: 8, .. }));
}

#[test]
fn a_publish_that_was_routed_to_a_queue_that_went_does_not_reach_the_next_one_of_its_id() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.core.have_volatile_ids(1);
    declare(&mut rig, &mut peer, "old").expect("declared");
    let (user, vhost) = (Principal::unrestricted(name("test")), name("/"));
    let publish = Publish { answer: Answer::Reply, ..message("old", "for the old one") };
    let late = route_request(rig.shared(), &user, &vhost, Request::Publish(publish));
    delete(&mut rig, &mut peer, "old");
    declare(&mut rig, &mut peer, "new").expect("declared");
    let to = AnswerTo::Request(ConnectionId(peer.id.0), RequestId(1000));
    rig.core.task(to, peer.id, &vhost, late);
    rig.settle();
    assert_eq!(info(&mut rig, &mut peer, "new").ready, 0);
    rig.put(&mut peer, message("new", "for the new one"));
    assert_eq!(info(&mut rig, &mut peer, "new").ready, 1);
}

#[test]
fn an_id_is_free_at_once_and_the_timers_of_its_queue_are_not_those_of_the_next() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.core.have_volatile_ids(1);
    declare(&mut rig, &mut peer, "old").expect("declared");
    rig.put(&mut peer, message("old", "a"));
    rig.call(&mut peer, Request::Consume(consumer(1, "old", None))).expect("consuming");
    let held = seq(&peer.deliveries()[0]);
    let later = settlement(1, &[held], Outcome::Requeue { delay_ms: 1000 });
    rig.call(&mut peer, Request::Settle(later)).expect("settled");
    delete(&mut rig, &mut peer, "old");
    declare(&mut rig, &mut peer, "new").expect("declared");
    rig.put(&mut peer, message("new", "b"));
    rig.call(&mut peer, Request::Consume(consumer(2, "new", None))).expect("consuming");
    assert_eq!(peer.texts(), ["b"]);
    rig.wait(1000);
    rig.settle();
    assert_eq!(info(&mut rig, &mut peer, "new").unacked, 1, "the timer of the old one gave nothing back");
}

#[test]
fn timers_of_queues_and_connections_that_are_gone_do_not_stay_until_they_are_due() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let before = rig.core.timers.len();
    for round in 0..50 {
        rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
        for _ in 0..100 {
            rig.send(
                &mut peer,
                vec![Request::Publish(Publish { delay_ms: 1 << 40, ..message("q", "late") })],
            );
        }
        rig.settle();
        delete(&mut rig, &mut peer, "q");
        let mut other = rig.connect();
        rig.call(&mut other, queue("held", QueueProperties::default())).expect("declared");
        rig.put(&mut other, message("held", "x"));
        rig.send(
            &mut other,
            vec![Request::Consume(Consume { lease_ms: Some(1 << 40), ..consumer(round, "held", None) })],
        );
        rig.settle();
        rig.disconnect(other);
    }
    let left = rig.core.timers.len() - before;
    assert!(left < 300, "{left} timers are left of 5050");
    rig.wait(1 << 40);
    rig.settle();
    assert!(rig.core.timers.len() < before + 10);
}

#[test]
fn an_id_comes_again_though_its_queue_went_while_its_bodies_were_to_be_read_again() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.core.have_volatile_ids(1);
    declare(&mut rig, &mut peer, "old").expect("declared");
    let id = rig.core.editor.current().queue("/", "old").expect("there");
    rig.core.live.get_mut(&id).expect("live").loading = true;
    delete(&mut rig, &mut peer, "old");
    declare(&mut rig, &mut peer, "new").expect("nothing is being read that could come back");
}
