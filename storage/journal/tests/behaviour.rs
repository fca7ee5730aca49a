//! What a journal does with files, space, owners and groups, on real and on simulated files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use framegate_storage::conformance::{Reports, Sample, wait_until};
use framegate_storage::{BodyRef, Lsn, Pos, Report, ShardId, ShardStore, StoreError};
use framegate_storage_journal::sim::{Crash, SimFiles};
use framegate_storage_journal::{Faults, Journal, Options, SyncMode};

const SHARD: ShardId = ShardId(0);

fn options(dir: impl Into<PathBuf>) -> Options {
    let mut options = Options::new(dir);
    options.first_segment_bytes = 4 << 10;
    options.segment_bytes = 8 << 10;
    options.block_bytes_max = 256 << 10;
    options.full_retry = Duration::from_millis(1);
    options.idle_mark = None;
    options
}

fn names(dir: &Path, prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("the data directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("utf-8"));
    let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort();
    names
}

fn failure(reports: &Reports) -> StoreError {
    reports.wait("failed", |all| matches!(all.last(), Some(Report::Failed(_)))).expect("fails");
    match reports.all().pop() {
        Some(Report::Failed(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_block_larger_than_a_segment_gets_one_of_its_own() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Journal::open(options(dir.path())).expect("opens");
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink()).expect("claims");
    let mut sample = Sample::new(1, claim.next);
    for len in [100, 200_000, 100, 9000, 100] {
        let records = vec![sample.rng.bytes(len)];
        let block = sample.block_of(records, true);
        sample.append(&store, &claim, block).expect("appends");
    }
    reports.wait_durable(sample.last()).expect("durable");
    let numbers: Vec<u64> = sample.blocks.iter().map(|(pos, _)| pos.0 >> 32).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    sample.check(&store, Pos(0), 0, 1 << 20).expect("identical");
    let copied = store.metrics().bytes_copied.load(Relaxed);
    assert_eq!(copied, 300, "only chunks below 4 KiB are copied");
}

#[test]
fn a_trim_deletes_whole_segments_and_stops_at_the_older_snapshot() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Journal::open(options(dir.path())).expect("opens");
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink()).expect("claims");
    let mut sample = Sample::new(2, claim.next);
    sample.append_many(&store, &claim, 100, 1000, true).expect("appends");
    reports.wait_durable(sample.last()).expect("durable");
    for index in [50, 80] {
        let (pos, block) = &sample.blocks[index];
        store.put_snapshot(&claim, block.first, *pos, &mut std::iter::empty()).expect("puts a snapshot");
    }
    assert_eq!(names(dir.path(), "snap-").len(), 2);
    store.trim(&claim, sample.blocks[90].0).expect("trims");
    let older = sample.blocks[50].0.0 >> 32;
    let last = sample.blocks[99].0.0 >> 32;
    wait_until("segments are deleted", || store.usage(SHARD).segments == last - older + 1).expect("deletes");
    drop(store);
    let store = Journal::open(options(dir.path())).expect("opens");
    let claim = store.claim(SHARD, Box::new(|_| {})).expect("claims");
    assert_eq!(claim.next.0, sample.last().0 + 1);
    let snapshot = store.snapshot(SHARD).expect("reads").expect("two snapshots");
    sample.check(&store, snapshot.replay_from, 80, 4096).expect("identical");
}

#[test]
fn a_released_segment_goes_even_between_live_ones() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Journal::open(options(dir.path())).expect("opens");
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink()).expect("claims");
    let mut sample = Sample::new(3, claim.next);
    sample.append_many(&store, &claim, 100, 1000, true).expect("appends");
    reports.wait_durable(sample.last()).expect("durable");
    drop(store);
    // After a restart the number of blocks in old segments has to be counted.
    let store = Journal::open(options(dir.path())).expect("opens");
    let claim = store.claim(SHARD, Box::new(|_| {})).expect("claims");
    for index in [90, 95] {
        let (pos, block) = &sample.blocks[index];
        store.put_snapshot(&claim, block.first, *pos, &mut std::iter::empty()).expect("puts a snapshot");
    }
    let before = store.usage(SHARD).segments;
    let in_segment = |number| sample.blocks.iter().filter(move |(pos, _)| pos.0 >> 32 == number);
    let dead: Vec<Pos> = in_segment(3).map(|(pos, _)| *pos).collect();
    store.release(&claim, &dead[1..]).expect("releases");
    store.release(&claim, &dead[1..]).expect("releases twice");
    store.release(&claim, &dead[..1]).expect("releases the rest");
    wait_until("a segment is deleted", || store.usage(SHARD).segments == before - 1).expect("deletes");
    let at = |pos: Pos| store.fetch(SHARD, &[BodyRef { block: pos, offset: 0, len: 0 }]).remove(0);
    assert!(matches!(at(dead[0]), Err(StoreError::NotFound { .. })));
    for number in [2, 4] {
        assert!(in_segment(number).all(|(pos, _)| at(*pos).is_ok()));
    }
}

#[test]
fn a_directory_has_one_owner_and_any_number_of_readers() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Journal::open(options(dir.path())).expect("opens");
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink()).expect("claims");
    let mut sample = Sample::new(4, claim.next);
    sample.append_many(&store, &claim, 50, 1000, true).expect("appends");
    reports.wait_durable(sample.last()).expect("durable");
    assert!(matches!(Journal::open(options(dir.path())), Err(StoreError::InUse { .. })));
    let reader = Journal::open_read_only(dir.path()).expect("opens for reading");
    sample.check(&reader, Pos(0), 0, 5000).expect("identical");
    assert!(reader.claim(SHARD, Box::new(|_| {})).is_err());
    drop(reader);
    drop(store);
    Journal::open(options(dir.path())).expect("the lock is free again");
    assert!(Journal::open_read_only(dir.path().join("nothing")).is_err());
}

#[test]
fn a_second_claim_fences_the_first() {
    let files = SimFiles::new();
    let store = Journal::open_with(Arc::new(files), options("/sim")).expect("opens");
    let old_reports = Reports::new();
    let old = store.claim(SHARD, old_reports.sink()).expect("claims");
    let mut sample = Sample::new(5, old.next);
    sample.append_many(&store, &old, 20, 500, true).expect("appends");
    old_reports.wait_durable(sample.last()).expect("durable");
    let reports = Reports::new();
    let new = store.claim(SHARD, reports.sink()).expect("claims");
    assert!(matches!(failure(&old_reports), StoreError::Fenced { current } if current == new.epoch));
    let block = sample.block(10, true);
    assert!(matches!(store.append(&old, block), Err(StoreError::Fenced { current }) if current == new.epoch));
    assert_eq!(new.next, Lsn(sample.last().0 + 1));
    sample.append_many(&store, &new, 20, 500, true).expect("appends");
    reports.wait_durable(sample.last()).expect("durable");
    sample.check(&store, Pos(0), 0, 5000).expect("identical");
}

#[test]
fn what_fails_for_good_is_reported_once_and_named() {
    type Break = fn(&SimFiles);
    let breaks: [(&str, Break); 4] = [
        ("write to", |files| files.faults(|faults| faults.fail_write = true)),
        ("sync", |files| files.faults(|faults| faults.fail_sync = true)),
        ("rename into place", |files| files.faults(|faults| faults.fail_rename = true)),
        ("sync the directory of", |files| files.faults(|faults| faults.fail_sync_dir = true)),
    ];
    for (expected, fail) in breaks {
        let files = SimFiles::new();
        let store = Journal::open_with(Arc::new(files.clone()), options("/sim")).expect("opens");
        let reports = Reports::new();
        let claim = store.claim(SHARD, reports.sink()).expect("claims");
        let mut sample = Sample::new(6, claim.next);
        sample.append_many(&store, &claim, 1, 10, true).expect("appends");
        reports.wait_durable(sample.last()).expect("durable");
        let good = reports.durable();
        if expected.contains("directory") || expected.contains("rename") {
            // These happen when the next segment begins.
            fail(&files);
            while sample.append_many(&store, &claim, 1, 2000, true).is_ok() {}
        } else {
            fail(&files);
            sample.append_many(&store, &claim, 1, 10, true).expect("appends");
        }
        match failure(&reports) {
            StoreError::Fatal { action, path, detail } => {
                assert_eq!(action, expected);
                assert!(path.to_string_lossy().contains("seg-"), "{path:?}");
                assert!(detail.contains("errno 5"), "{detail}");
            }
            other => panic!("{other}"),
        }
        assert!(store.shutdown().is_err());
        let files = files.crash(Crash::Power(1));
        drop(store);
        let store = Journal::open_with(Arc::new(files), options("/sim")).expect("opens");
        assert!(store.claim(SHARD, Box::new(|_| {})).expect("claims").next > good);
    }
}

#[test]
fn a_stop_without_room_says_so() {
    let files = SimFiles::new();
    let store = Journal::open_with(Arc::new(files.clone()), options("/sim")).expect("opens");
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink()).expect("claims");
    files.faults(|faults| (faults.full, faults.full_log) = (true, true));
    let mut sample = Sample::new(7, claim.next);
    sample.append_many(&store, &claim, 1, 100, true).expect("appends");
    reports.wait("full", |all| matches!(all.last(), Some(Report::Full(_)))).expect("full");
    assert!(matches!(store.shutdown(), Err(StoreError::Full { .. })));
    assert!(store.append(&claim, sample.block(10, true)).is_err());
}

#[test]
fn interval_mode_reports_after_the_write_and_syncs_later() {
    let files = SimFiles::new();
    let mut options = options("/sim");
    options.sync = SyncMode::Interval(Duration::from_millis(20));
    let store = Journal::open_with(Arc::new(files.clone()), options.clone()).expect("opens");
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink()).expect("claims");
    let mut sample = Sample::new(8, claim.next);
    sample.append_many(&store, &claim, 10, 100, true).expect("appends");
    reports.wait_durable(sample.last()).expect("written");
    let metrics = store.metrics();
    wait_until("a sync follows by itself", || metrics.syncs.load(Relaxed) >= 1).expect("syncs");
    let files = files.crash(Crash::Power(0));
    drop(store);
    let store = Journal::open_with(Arc::new(files), options).expect("opens");
    assert_eq!(store.claim(SHARD, Box::new(|_| {})).expect("claims").next.0, sample.last().0 + 1);
}

#[test]
fn blocks_that_wait_for_a_sync_become_one_group() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let blocked = dir.path().join("blocked");
    let mut options = options(dir.path().join("data"));
    (options.first_segment_bytes, options.segment_bytes) = (1 << 20, 1 << 20);
    options.faults = Faults { block_sync_while: Some(blocked.clone()), ..Faults::default() };
    let store = Journal::open(options).expect("opens");
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink()).expect("claims");
    let mut sample = Sample::new(9, claim.next);
    sample.append_many(&store, &claim, 1, 100, true).expect("appends");
    reports.wait_durable(sample.last()).expect("durable");
    let metrics = store.metrics();
    let (syncs, writes) = (metrics.syncs.load(Relaxed), metrics.writes.load(Relaxed));
    std::fs::write(&blocked, b"").expect("writes");
    sample.append_many(&store, &claim, 1, 100, true).expect("appends");
    wait_until("the first block is written", || metrics.writes.load(Relaxed) == writes + 1).expect("writes");
    for _ in 0..60 {
        sample.append_many(&store, &claim, 1, 100, true).expect("appends");
    }
    assert_eq!(store.usage(SHARD).blocks_in_flight, 61);
    assert_eq!(reports.all().len(), 1, "nothing is reported while the sync waits");
    std::fs::remove_file(&blocked).expect("removes");
    reports.wait_durable(sample.last()).expect("durable");
    assert_eq!((metrics.syncs.load(Relaxed), metrics.writes.load(Relaxed)), (syncs + 2, writes + 2));
    assert_eq!(metrics.groups[5].load(Relaxed), 1, "one group of 60");
}

#[test]
fn a_snapshot_waits_until_what_it_covers_is_synced() {
    let files = SimFiles::new();
    let store = Journal::open_with(Arc::new(files.clone()), options("/sim")).expect("opens");
    let claim = store.claim(SHARD, Box::new(|_| {})).expect("claims");
    let mut sample = Sample::new(10, claim.next);
    sample.append_many(&store, &claim, 5, 100, false).expect("appends");
    let end = store.next_pos(SHARD, sample.blocks[4].0).expect("the last block");
    let part = Bytes::from_static(b"everything");
    let upto = Lsn(sample.last().0 + 1);
    store.put_snapshot(&claim, upto, end, &mut std::iter::once(part)).expect("puts a snapshot");
    let files = files.crash(Crash::Power(2));
    drop(store);
    let store = Journal::open_with(Arc::new(files), options("/sim")).expect("opens");
    let claim = store.claim(SHARD, Box::new(|_| {})).expect("claims");
    assert_eq!(claim.next, upto);
    let snapshot = store.snapshot(SHARD).expect("reads").expect("a snapshot");
    assert!(store.read(SHARD, snapshot.replay_from, 100).expect("reads").is_empty());
    sample.append_many(&store, &claim, 1, 100, true).expect("appends");
    store.shutdown().expect("stops");
    sample.check(&store, snapshot.replay_from, 5, 100).expect("the log goes on there");
}

#[test]
fn leftovers_of_a_crash_are_removed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for name in ["spare-7.log", "snap-00000000000000000009.fgs.tmp", "seg-00000000000000000001.log.tmp"] {
        std::fs::write(dir.path().join(name), b"half").expect("writes");
    }
    let store = Journal::open(options(dir.path())).expect("opens");
    assert_eq!(names(dir.path(), "s"), [""; 0]);
    store.claim(SHARD, Box::new(|_| {})).expect("claims");
    store.shutdown().expect("stops");
    assert_eq!(names(dir.path(), ""), ["LOCK", "MANIFEST"]);
}

#[test]
fn options_out_of_bounds_are_refused_with_the_value() {
    let mut options = options("/nowhere");
    options.segment_bytes = 100;
    let error = Journal::open_with(Arc::new(SimFiles::new()), options).err().expect("refused");
    assert!(error.to_string().contains("segment_bytes is 100"), "{error}");
}
