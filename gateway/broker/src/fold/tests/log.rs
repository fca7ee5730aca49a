//! What the log promises: a clean end, numbers that are not used again, nothing after a failure.

use framegate_storage::{Lsn, ShardId, ShardStore};

use super::rig::{Rig, consumer, message, name, queue, seq};
use crate::definition::QueueProperties;
use crate::fold::{Now, replay};
use crate::request::{Answer, Publish, Request};

#[test]
fn numbers_that_somebody_saw_are_not_used_again_after_a_clean_stop() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    for body in ["a", "b", "c"] {
        rig.put(&mut peer, Publish::new(name(""), name("q"), super::rig::frame(body)));
    }
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", None))]);
    rig.settle();
    assert_eq!(peer.texts(), ["a", "b", "c"]);
    let last = rig.core.finish();
    rig.store.release(usize::MAX);
    rig.pass();
    assert!(rig.core.is_settled(last));
    rig = Rig::on(&rig.store, rig.now);
    assert!(rig.claim.clean);
    let mut peer = rig.connect();
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", None))]);
    rig.put(&mut peer, message("q", "d"));
    let got = peer.deliveries();
    assert_eq!(got.iter().map(|d| seq(d).0).collect::<Vec<_>>(), [4]);
}

#[test]
fn after_the_last_block_nothing_is_appended() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    let auto = crate::request::Consume { auto_ack: true, ..consumer(1, "q", None) };
    rig.call(&mut peer, Request::Consume(auto)).expect("consuming");
    rig.send(&mut peer, vec![Request::Publish(Publish { answer: Answer::Reply, ..message("q", "a") })]);
    rig.core.finish();
    rig.store.release(usize::MAX);
    rig.pass();
    let blocks = rig.store.read(ShardId(0), framegate_storage::Pos(0), usize::MAX).expect("read");
    assert!(blocks.last().is_some_and(|b| b.flags.clean_shutdown));
    assert_eq!(peer.effects().len(), 1, "what was promised has left, and nothing else");
}

#[test]
fn after_a_failure_nothing_leaves_and_nothing_grows() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    let publish = || Request::Publish(Publish { answer: Answer::Reply, ..message("q", "a") });
    rig.send(&mut peer, vec![publish()]);
    rig.pass();
    rig.store.fail_next_sync();
    rig.store.release(1);
    rig.pass();
    rig.send(&mut peer, vec![publish()]);
    rig.settle();
    assert!(peer.effects().is_empty());
    assert_eq!(rig.core.open_bytes(), 0);
    assert!(rig.shared().has_failed());
}

#[test]
fn an_unknown_record_stops_the_start_unless_it_may_be_skipped() {
    for (flags, starts) in [(0x80, true), (0, false)] {
        let store = framegate_storage_memory::MemoryStore::paused();
        let claim = store.claim(ShardId(0), Box::new(drop)).expect("claimed");
        let block = framegate_storage::Block {
            first: Lsn(1),
            count: 1,
            time_ms: 1,
            records: vec![bytes::Bytes::copy_from_slice(&[250, flags, 2, 1, 2])],
            sync: true,
            flags: Default::default(),
        };
        store.append(&claim, block).expect("appended");
        store.release(1);
        assert_eq!(replay(&store, &claim).is_ok(), starts);
        if starts {
            let _ = Rig::on(&store, Now::default());
        }
    }
}
