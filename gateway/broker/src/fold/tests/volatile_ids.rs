//! Ids of exclusive and transient queues are given again, and nothing that was meant for the one before reaches the next.

use super::rig::{Peer, Rig, consumer, info, message, name, seq, settlement, text};
use crate::broker::route_request;
use crate::definition::QueueSpec;
use crate::error::BrokerError;
use crate::fold::AnswerTo;
use crate::ids::{ConnectionId, RequestId};
use crate::principal::Principal;
use crate::request::{Answer, Define, Outcome, Publish, Request};

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
        let queue = format!("q{round}");
        declare(&mut rig, &mut peer, &queue).expect("declared");
        rig.put(&mut peer, message(&queue, &queue));
        rig.send(&mut peer, vec![Request::Consume(consumer(round, &queue, None))]);
        rig.settle();
        assert_eq!(peer.deliveries().iter().map(text).collect::<Vec<_>>(), [queue.as_str()]);
        delete(&mut rig, &mut peer, &queue);
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
fn an_id_waits_until_the_timers_of_its_queue_have_passed() {
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
    assert!(declare(&mut rig, &mut peer, "new").is_err(), "its timer would be the new one's");
    rig.wait(1000);
    rig.settle();
    declare(&mut rig, &mut peer, "new").expect("declared");
}
