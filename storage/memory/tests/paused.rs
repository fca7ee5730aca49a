//! Durability by hand, as the broker's model tests use it.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use framegate_storage::{Block, BlockFlags, Claim, Lsn, Pos, Report, ShardId, ShardStore, StoreError};
use framegate_storage_memory::MemoryStore;

const SHARD: ShardId = ShardId(0);

fn claim(store: &MemoryStore) -> (Claim, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&heard);
    let report = move |report: Report| {
        let text = match report {
            Report::Durable { upto } => format!("durable {upto}"),
            Report::Full(_) => "full".to_owned(),
            Report::Room => "room".to_owned(),
            Report::Failed(StoreError::Fenced { current }) => format!("fenced by {current}"),
            Report::Failed(_) => "failed".to_owned(),
        };
        sink.lock().expect("no report panics").push(text);
    };
    (store.claim(SHARD, Box::new(report)).expect("a memory store can always be claimed"), heard)
}

fn append(store: &MemoryStore, claim: &Claim, first: u64, sync: bool) -> Result<Pos, StoreError> {
    let records = vec![Bytes::from(vec![first as u8; 10])];
    let flags = BlockFlags::default();
    store.append(claim, Block { first: Lsn(first), count: 1, time_ms: 0, records, sync, flags })
}

fn heard(reports: &Mutex<Vec<String>>) -> Vec<String> {
    std::mem::take(&mut *reports.lock().expect("no report panics"))
}

fn blocks(store: &MemoryStore) -> usize {
    store.read(SHARD, Pos(0), usize::MAX).expect("memory can be read").len()
}

#[test]
fn nothing_is_reported_before_it_is_released() {
    let store = MemoryStore::paused();
    let (owner, reports) = claim(&store);
    for first in 1..=5 {
        append(&store, &owner, first, true).expect("appends");
    }
    assert!(heard(&reports).is_empty());
    assert_eq!((store.waiting(), blocks(&store)), (5, 0));
    assert_eq!(store.release(2), 2);
    assert_eq!(heard(&reports), ["durable 2"]);
    assert_eq!(store.release(100), 3);
    assert_eq!(store.release(1), 0);
    assert_eq!(heard(&reports), ["durable 5"]);
    assert_eq!(blocks(&store), 5);
}

#[test]
fn a_power_cut_takes_what_no_sync_followed() {
    let store = MemoryStore::paused();
    let (owner, reports) = claim(&store);
    let before = append(&store, &owner, 1, true).expect("appends");
    append(&store, &owner, 2, false).expect("appends");
    assert_eq!((store.release(1), store.release(1)), (1, 1));
    append(&store, &owner, 3, true).expect("appends");
    assert_eq!(heard(&reports), ["durable 1", "durable 2"]);
    store.cut_unsynced();
    assert!(append(&store, &owner, 4, true).is_err());
    let (owner, _) = claim(&store);
    assert_eq!(owner.next, Lsn(2));
    assert!(heard(&reports).is_empty(), "a dead owner hears nothing");
    let again = append(&store, &owner, 2, true).expect("appends");
    assert!(again > before);
    store.release(1);
    store.cut_unwritten();
    assert_eq!(claim(&store).0.next, Lsn(3));
}

#[test]
fn a_failed_sync_ends_the_claim() {
    let store = MemoryStore::paused();
    let (owner, reports) = claim(&store);
    append(&store, &owner, 1, false).expect("appends");
    store.fail_next_sync();
    assert_eq!(store.release(1), 1);
    append(&store, &owner, 2, true).expect("appends");
    assert_eq!(store.release(1), 0);
    assert_eq!(heard(&reports), ["durable 1", "failed"]);
    assert!(matches!(append(&store, &owner, 3, true), Err(StoreError::Fatal { .. })));
}

#[test]
fn full_is_told_once_and_room_before_the_next_watermark() {
    let store = MemoryStore::paused();
    let (owner, reports) = claim(&store);
    store.set_full(true);
    append(&store, &owner, 1, true).expect("appends");
    assert_eq!((store.release(1), store.release(1)), (0, 0));
    store.set_full(false);
    assert_eq!(store.release(1), 1);
    assert_eq!(heard(&reports), ["full", "room", "durable 1"]);
}

#[test]
fn a_second_claim_fences_the_first_and_drops_its_unwritten_blocks() {
    let store = MemoryStore::paused();
    let (old, reports) = claim(&store);
    append(&store, &old, 1, true).expect("appends");
    store.release(1);
    append(&store, &old, 2, true).expect("appends");
    let (new, _) = claim(&store);
    assert_eq!(heard(&reports), ["durable 1", "fenced by 2"]);
    assert!(
        matches!(append(&store, &old, 3, true), Err(StoreError::Fenced { current }) if current == new.epoch)
    );
    assert_eq!(new.next, Lsn(2));
    append(&store, &new, 2, true).expect("appends");
    assert_eq!((store.release(9), blocks(&store)), (1, 2));
}
