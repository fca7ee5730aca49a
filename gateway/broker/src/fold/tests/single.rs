//! A queue with a single active consumer: order is kept, and another one takes over.

use super::rig::{Peer, Rig, consumer, message, name, queue, seq, settlement};
use crate::definition::QueueProperties;
use crate::error::BrokerError;
use crate::ids::ConsumerId;
use crate::request::{Consume, Credit, Outcome, Request};

fn rig() -> (Rig, Peer) {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let single = QueueProperties { single_active: true, ..QueueProperties::default() };
    rig.call(&mut peer, queue("q", single)).expect("declared");
    (rig, peer)
}

fn put(rig: &mut Rig, bodies: &[&str]) {
    let mut publisher = rig.connect();
    for body in bodies {
        rig.put(&mut publisher, message("q", body));
    }
}

#[test]
fn one_gets_everything_until_it_is_cancelled_then_the_next_one() {
    let (mut rig, mut first) = rig();
    let mut second = rig.connect();
    rig.call(&mut first, Request::Consume(consumer(1, "q", None))).expect("consumes");
    rig.call(&mut second, Request::Consume(consumer(1, "q", None))).expect("consumes");
    put(&mut rig, &["a", "b"]);
    assert_eq!((first.texts(), second.texts()), (vec!["a".into(), "b".into()], vec![]));
    rig.call(&mut first, Request::Cancel(ConsumerId(1))).expect("cancelled");
    put(&mut rig, &["c"]);
    assert_eq!((first.texts(), second.texts()), (vec![], vec!["c".to_owned()]));
    // what the first one holds stays its own until it is settled or gone
    rig.disconnect(first);
    assert_eq!(
        second.deliveries().iter().map(|d| (seq(d).0, d.redelivered)).collect::<Vec<_>>(),
        [(1, true), (2, true)]
    );
}

#[test]
fn a_lost_connection_makes_room_for_the_highest_priority_and_the_oldest_within_it() {
    let (mut rig, mut active) = rig();
    rig.call(&mut active, Request::Consume(consumer(1, "q", None))).expect("consumes");
    rig.call(&mut active, Request::Consume(consumer(2, "q", None))).expect("consumes");
    let mut peers = Vec::new();
    for priority in [0, 7, 7, 3] {
        let mut peer = rig.connect();
        let consume = Consume { priority, ..consumer(1, "q", None) };
        rig.call(&mut peer, Request::Consume(consume)).expect("consumes");
        peers.push(peer);
    }
    put(&mut rig, &["a"]);
    assert_eq!(active.texts(), ["a"]);
    rig.disconnect(active);
    put(&mut rig, &["b"]);
    let got: Vec<Vec<String>> = peers.iter_mut().map(Peer::texts).collect();
    assert_eq!(got, [vec![], vec!["a".to_owned(), "b".into()], vec![], vec![]]);
}

#[test]
fn the_others_get_nothing_while_the_active_one_has_no_credit() {
    let (mut rig, mut first) = rig();
    let mut second = rig.connect();
    rig.call(&mut first, Request::Consume(consumer(1, "q", Some(1)))).expect("consumes");
    rig.call(&mut second, Request::Consume(consumer(1, "q", None))).expect("consumes");
    put(&mut rig, &["a", "b", "c"]);
    let got = first.deliveries();
    assert_eq!((got.len(), second.texts().len()), (1, 0));
    rig.call(&mut second, Request::Credit(Credit::Consumer(ConsumerId(1), Some(9)))).expect("set");
    rig.call(&mut first, Request::Settle(settlement(1, &[seq(&got[0])], Outcome::Ack))).expect("acked");
    assert_eq!((first.texts(), second.texts()), (vec!["b".to_owned()], vec![]));
}

#[test]
fn an_exclusive_consumer_is_refused() {
    let (mut rig, mut peer) = rig();
    let consume = Consume { exclusive: true, ..consumer(1, "q", None) };
    let refused = rig.call(&mut peer, Request::Consume(consume));
    assert!(matches!(refused, Err(BrokerError::Locked { name: n, .. }) if n == name("q")));
    rig.call(&mut peer, Request::Consume(consumer(1, "q", None))).expect("consumes");
}
