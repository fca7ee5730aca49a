//! Queues that come and go with their use: expires, auto-delete, exclusive.

use super::rig::{Peer, Rig, consumer, corpses, dead_to, message, name, pull, queue};
use crate::definition::{BindTarget, BindingSpec, QueueProperties, QueueSpec};
use crate::error::BrokerError;
use crate::ids::ConsumerId;
use crate::request::{Define, Query, Reply, Request};

fn rig() -> (Rig, Peer) {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, expiring()).expect("declared");
    (rig, peer)
}

fn expiring() -> Request {
    queue("q", QueueProperties { expires_ms: Some(1000), ..QueueProperties::default() })
}

fn is_there(rig: &mut Rig, peer: &mut Peer) -> bool {
    rig.settle();
    rig.call(peer, Request::Query(Query::Queue(name("q")))).is_ok()
}

#[test]
fn a_queue_that_nobody_uses_is_deleted_in_time_and_a_publish_is_no_use() {
    let (mut rig, mut peer) = rig();
    rig.wait(600);
    rig.put(&mut peer, message("q", "a"));
    rig.wait(399);
    assert!(is_there(&mut rig, &mut peer), "none early");
    rig.wait(1);
    assert!(!is_there(&mut rig, &mut peer));
    assert_eq!(rig.hashes().0, rig.hashes().1);
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    assert!(!is_there(&mut rig, &mut peer), "the log knows of it");
}

#[test]
fn declaring_again_and_pulling_are_uses() {
    let passive = || Request::Define(Define::QueuePassive(name("q")));
    let uses: [fn() -> Request; 3] = [expiring, passive, || pull(7, "q", 1, 0, true)];
    for used in uses {
        let (mut rig, mut peer) = rig();
        for _ in 0..5 {
            rig.wait(900);
            assert!(is_there(&mut rig, &mut peer));
            rig.call(&mut peer, used()).expect("used");
        }
        rig.wait(1000);
        assert!(!is_there(&mut rig, &mut peer));
    }
}

#[test]
fn a_pull_that_is_refused_is_a_use() {
    let (mut rig, mut peer) = rig();
    rig.call(&mut peer, queue("other", QueueProperties::default())).expect("declared");
    rig.call(&mut peer, Request::Consume(consumer(7, "other", None))).expect("consumes");
    rig.wait(900);
    let refused = rig.call(&mut peer, pull(7, "q", 1, 0, true));
    assert!(matches!(refused, Err(BrokerError::ConsumerExists)), "{refused:?}");
    rig.wait(999);
    assert!(is_there(&mut rig, &mut peer));
    rig.wait(1);
    assert!(!is_there(&mut rig, &mut peer));
}

#[test]
fn a_queue_with_a_consumer_or_a_pull_that_waits_is_used() {
    let (mut rig, mut peer) = rig();
    rig.call(&mut peer, Request::Consume(consumer(1, "q", None))).expect("consumes");
    rig.wait(5000);
    assert!(is_there(&mut rig, &mut peer));
    rig.call(&mut peer, Request::Cancel(ConsumerId(1))).expect("cancelled");
    rig.wait(999);
    assert!(is_there(&mut rig, &mut peer));
    rig.send(&mut peer, vec![pull(2, "q", 1, 5000, true)]);
    rig.wait(4000);
    assert!(is_there(&mut rig, &mut peer));
    rig.wait(1000);
    assert!(is_there(&mut rig, &mut peer), "the wait ended just now");
    rig.wait(1000);
    assert!(!is_there(&mut rig, &mut peer));
}

#[test]
fn the_time_begins_anew_with_a_start() {
    let (mut rig, _) = rig();
    rig.wait(900);
    rig.settle();
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    rig.wait(999);
    assert!(is_there(&mut rig, &mut peer));
    rig.wait(1);
    assert!(!is_there(&mut rig, &mut peer));
}

fn declare(durable: bool, exclusive: bool, auto_delete: bool) -> Request {
    let spec = QueueSpec { name: name("q"), durable, exclusive, auto_delete, ..QueueSpec::default() };
    Request::Define(Define::Queue(spec))
}

#[test]
fn an_auto_delete_queue_goes_with_its_last_consumer_and_never_before_the_first() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, declare(true, false, true)).expect("declared");
    rig.call(&mut peer, pull(7, "q", 1, 0, true)).expect("a pull is no consumer");
    // neither does a start count as the end of a consumer
    rig = Rig::on(&rig.store, rig.now);
    let (mut peer, mut other) = (rig.connect(), rig.connect());
    assert!(is_there(&mut rig, &mut peer));
    for p in [&mut peer, &mut other] {
        rig.call(p, Request::Consume(consumer(1, "q", None))).expect("consumes");
    }
    rig.call(&mut peer, Request::Cancel(ConsumerId(1))).expect("cancelled");
    assert!(is_there(&mut rig, &mut peer));
    rig.disconnect(other);
    assert!(!is_there(&mut rig, &mut peer));
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn an_auto_delete_queue_goes_with_what_its_lost_consumers_held_whichever_of_them_held_it() {
    for holds in 1..=6 {
        let mut rig = Rig::new();
        let (mut peer, mut other) = (rig.connect(), rig.connect());
        rig.call(&mut other, queue("dead", QueueProperties::default())).expect("declared");
        // what returned to it would die of it
        let properties = QueueProperties { delivery_limit: Some(0), ..dead_to("dead") };
        let spec = QueueSpec {
            name: name("q"),
            durable: true,
            auto_delete: true,
            properties,
            ..QueueSpec::default()
        };
        rig.call(&mut other, Request::Define(Define::Queue(spec))).expect("declared");
        for id in 1..=6 {
            let limit = Some(u32::from(id == holds));
            rig.call(&mut peer, Request::Consume(consumer(id, "q", limit))).expect("consumes");
        }
        rig.put(&mut other, message("q", "a"));
        assert_eq!(peer.texts(), ["a"]);
        rig.disconnect(peer);
        assert!(!is_there(&mut rig, &mut other));
        assert_eq!(corpses(&mut rig, &mut other, "dead"), []);
    }
}

#[test]
fn a_durable_exclusive_queue_goes_with_its_connection_and_with_the_process() {
    let mut rig = Rig::new();
    let (mut peer, mut other) = (rig.connect(), rig.connect());
    rig.call(&mut peer, declare(true, true, false)).expect("declared");
    rig.put(&mut other, message("q", "publishing is open to all"));
    let before = rig.hashes();
    rig.disconnect(peer);
    assert!(!is_there(&mut rig, &mut other));
    assert_eq!(rig.hashes().0, before.0, "the log never knew of it");
    rig.call(&mut other, declare(true, true, false)).expect("declared by the next one");
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    assert!(!is_there(&mut rig, &mut peer));
}

#[test]
fn nobody_else_may_touch_an_exclusive_queue() {
    let mut rig = Rig::new();
    let (mut peer, mut other) = (rig.connect(), rig.connect());
    rig.call(&mut peer, declare(false, true, false)).expect("declared");
    let binding = || BindingSpec {
        exchange: name("amq.direct"),
        target: BindTarget::Queue(name("q")),
        key: name("k"),
        arguments: Vec::new(),
    };
    let delete = Define::DeleteQueue { name: name("q"), if_unused: false, if_empty: false };
    let all = [
        declare(false, true, false),
        declare(false, false, false),
        Request::Define(Define::QueuePassive(name("q"))),
        Request::Define(Define::Purge(name("q"))),
        Request::Define(Define::Bind(binding())),
        Request::Define(Define::Unbind(binding())),
        Request::Define(delete),
        Request::Consume(consumer(1, "q", None)),
        pull(2, "q", 1, 0, true),
    ];
    for request in all {
        let refused = rig.call(&mut other, request.clone());
        assert!(matches!(refused, Err(BrokerError::Locked { .. })), "{request:?}: {refused:?}");
    }
    let open = rig.call(&mut peer, declare(false, false, false));
    assert!(matches!(open, Err(BrokerError::Inequivalent { argument, .. }) if argument == "exclusive"));
}

#[test]
fn a_name_that_the_broker_makes_has_the_prefix_asked_for_and_is_new() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let mut made = || {
        let spec = QueueSpec { prefix: "amq.gen-", ..QueueSpec::default() };
        match rig.call(&mut peer, Request::Define(Define::Queue(spec))) {
            Ok(Reply::Queue(info)) => info.name.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let names = [made(), made()];
    assert!(names.iter().all(|n| n.starts_with("amq.gen-") && n.len() > 20), "{names:?}");
    assert_ne!(names[0], names[1]);
}
