//! When publishers are held, and when they go on.

use std::sync::atomic::Ordering;

use framegate_storage_memory::MemoryStore;

use super::rig::{Peer, Rig, consumer, message, queue, seq, settlement};
use crate::definition::QueueProperties;
use crate::fold::Now;
use crate::fold::inbox::Inbox;
use crate::hold::Hold;
use crate::ids::Seq;
use crate::limits::Limits;
use crate::request::{Effect, Outcome, Request};

fn rig(limits: Limits) -> (Rig, Peer) {
    let mut rig = Rig::start(&MemoryStore::paused(), Now { wall_ms: 1_000_000, mono_ms: 10 }, limits);
    rig.settle();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.put(&mut peer, message("q", "a"));
    peer.effects();
    (rig, peer)
}

fn look(rig: &mut Rig, free: Option<u64>) {
    rig.core.take(Inbox::Looked { free }, rig.now);
    rig.pass();
}

fn told(peer: &mut Peer) -> Vec<bool> {
    let blocked = |effect: &Effect| if let Effect::Blocked(held) = effect { Some(*held) } else { None };
    peer.effects().iter().filter_map(blocked).collect()
}

#[test]
fn little_room_on_the_disk_holds_publishers_until_there_is_a_quarter_more() {
    let (mut rig, mut peer) = rig(Limits { disk_free_min_bytes: 1000, ..Limits::default() });
    look(&mut rig, None);
    look(&mut rig, Some(1000));
    assert_eq!((told(&mut peer), rig.shared().gate.closed_for()), (vec![], None));
    look(&mut rig, Some(999));
    assert_eq!((told(&mut peer), rig.shared().gate.closed_for()), (vec![true], Some(Hold::DiskLow)));
    look(&mut rig, Some(1249));
    assert_eq!(told(&mut peer), [], "it does not swing");
    look(&mut rig, Some(1250));
    assert_eq!((told(&mut peer), rig.shared().gate.closed_for()), (vec![false], None));
    let metrics = &rig.shared().metrics;
    assert_eq!(
        (metrics.holds.load(Ordering::Relaxed), metrics.held_disk_low.load(Ordering::Relaxed)),
        (1, 0)
    );
}

#[test]
fn an_index_at_its_limit_holds_publishers_and_consumers_that_drain_let_them_go_on() {
    let (mut rig, mut peer) = rig(Limits { index_bytes_max: 100_000, ..Limits::default() });
    let mut n = 1;
    while rig.shared().gate.closed_for().is_none() {
        rig.put(&mut peer, message("q", "a"));
        n += 1;
        look(&mut rig, None);
        assert!(n < 10_000, "the index has no limit");
    }
    assert_eq!((told(&mut peer), rig.shared().gate.closed_for()), (vec![true], Some(Hold::IndexMemory)));
    let index = rig.shared().metrics.index_bytes.load(Ordering::Relaxed);
    assert!((100_001..200_000).contains(&index), "{index} bytes for {n} messages");
    let mut worker = rig.connect();
    rig.send(&mut worker, vec![Request::Consume(consumer(1, "q", None))]);
    rig.settle();
    let held: Vec<Seq> = worker.deliveries().iter().map(seq).collect();
    assert_eq!(held.len(), n, "consumers are not held");
    rig.call(&mut worker, Request::Settle(settlement(1, &held, Outcome::Ack))).expect("settled");
    look(&mut rig, None);
    assert_eq!((told(&mut peer), rig.shared().gate.closed_for()), (vec![false], None));
}

#[test]
fn a_log_that_is_behind_holds_publishers_until_half_is_written() {
    let (mut rig, mut peer) = rig(Limits { log_queue_bytes_max: 10_000, ..Limits::default() });
    let body = "x".repeat(4000);
    for _ in 0..3 {
        rig.send(&mut peer, vec![Request::Publish(message("q", &body))]);
        rig.pass();
    }
    assert_eq!((told(&mut peer), rig.shared().gate.closed_for()), (vec![true], Some(Hold::LogQueue)));
    rig.store.release(1);
    rig.pass();
    rig.pass();
    assert_eq!(told(&mut peer), [], "more than half still waits");
    rig.settle();
    assert_eq!((told(&mut peer), rig.shared().gate.closed_for()), (vec![false], None));
    assert_eq!(rig.shared().metrics.log_queue_bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn who_waits_at_the_gate_is_told_once_and_who_does_not_publish_is_not() {
    let (mut rig, mut peer) = rig(Limits { disk_free_min_bytes: 1000, ..Limits::default() });
    let (mut second, mut third) = (rig.connect(), rig.connect());
    look(&mut rig, Some(0));
    for _ in 0..2 {
        rig.core.take(Inbox::Waits(second.id), rig.now);
        rig.pass();
    }
    assert_eq!((told(&mut second), told(&mut third)), (vec![true], vec![]));
    look(&mut rig, Some(5000));
    assert_eq!(
        (told(&mut peer), told(&mut second), told(&mut third)),
        (vec![true, false], vec![false], vec![])
    );
}

#[test]
fn while_the_disk_is_short_snapshots_follow_what_consumers_drain() {
    let (mut rig, mut peer) = rig(Limits { disk_free_min_bytes: 1000, ..Limits::default() });
    look(&mut rig, Some(0));
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", None))]);
    rig.settle();
    let held: Vec<Seq> = peer.deliveries().iter().map(seq).collect();
    rig.call(&mut peer, Request::Settle(settlement(1, &held, Outcome::Ack))).expect("settled");
    look(&mut rig, Some(0));
    rig.wait(5001);
    rig.settle();
    rig.until_kept();
    assert_eq!(rig.shared().metrics.snapshots.load(Ordering::Relaxed), 1);
    rig.wait(1000);
    rig.settle();
    look(&mut rig, Some(0));
    rig.wait(5001);
    rig.settle();
    rig.until_kept();
    assert_eq!(rig.shared().metrics.snapshots.load(Ordering::Relaxed), 1, "nothing was drained since");
}
