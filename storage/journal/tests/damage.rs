//! Damage at rest: what is refused, what is cut, and that no bytes whatever make recovery panic.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use framegate_storage::conformance::{Reports, Sample, SampleRng, wait_until};
use framegate_storage::{BodyRef, Claim, Lsn, Pos, ShardId, ShardStore, StoreError};
use framegate_storage_journal::sim::{Crash, SimFiles};
use framegate_storage_journal::{Journal, Options, damage};

const SHARD: ShardId = ShardId(0);

fn options() -> Options {
    let mut options = Options::new("/sim");
    options.first_segment_bytes = 4 << 10;
    options.segment_bytes = 8 << 10;
    options.block_bytes_max = 64 << 10;
    options.idle_mark = None;
    options
}

fn open(files: &SimFiles, options: &Options) -> Result<Journal, StoreError> {
    Journal::open_with(Arc::new(files.clone()), options.clone())
}

fn claim(files: &SimFiles, options: &Options) -> Result<(Journal, Claim), StoreError> {
    let store = open(files, options)?;
    let claim = store.claim(SHARD, Box::new(|_| {}))?;
    Ok((store, claim))
}

/// A store of several segments and two snapshots, killed.
fn killed(options: &Options, blocks: usize) -> (SimFiles, Sample) {
    let files = SimFiles::new();
    let store = open(&files, options).expect("opens");
    let reports = Reports::new();
    let owner = store.claim(SHARD, reports.sink()).expect("claims");
    let mut sample = Sample::new(77, owner.next);
    for _ in 0..blocks {
        sample.append_many(&store, &owner, 1, 900, true).expect("appends");
        reports.wait_durable(sample.last()).expect("durable");
    }
    for index in [blocks / 3, blocks / 2] {
        let (pos, block) = &sample.blocks[index];
        let mut parts = (0..4).map(|part| Bytes::from(vec![part; 200]));
        store.put_snapshot(&owner, block.first, *pos, &mut parts).expect("puts a snapshot");
    }
    let files = files.crash(Crash::Process);
    drop(store);
    (files, sample)
}

fn segments(files: &SimFiles) -> Vec<PathBuf> {
    files.paths().into_iter().filter(|path| path.to_string_lossy().contains("seg-")).collect()
}

fn corrupt_at(outcome: Result<(Journal, Claim), StoreError>) -> (PathBuf, u64) {
    match outcome {
        Err(StoreError::Corrupt { file, offset, .. }) => (file, offset),
        Err(other) => panic!("expected corruption, got {other}"),
        Ok((_, claim)) => panic!("expected corruption, got {claim:?}"),
    }
}

#[test]
fn arbitrary_changes_never_panic_and_never_change_what_is_read() {
    let options = options();
    let (files, sample) = killed(&options, 40);
    let mut rng = SampleRng(5);
    let (mut opened, mut refused) = (0, 0);
    for round in 0..3000 {
        let files = files.copy();
        let paths = files.paths();
        for _ in 0..=rng.below(2) {
            let path = &paths[rng.below(paths.len() as u64) as usize];
            let mut bytes = files.bytes(path).expect("listed");
            let at = rng.below(bytes.len() as u64 + 1) as usize;
            match rng.below(5) {
                0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
                1 => bytes.truncate(at),
                2 => bytes[at..].fill(0),
                3 => {
                    let end = bytes.len().min(at + rng.below(600) as usize);
                    bytes[at..end].copy_from_slice(&rng.bytes(end - at));
                }
                _ => bytes.splice(at..at, rng.bytes(20).to_vec()).for_each(drop),
            }
            files.set_bytes(path, bytes);
        }
        let Ok((store, owner)) = claim(&files, &options) else {
            refused += 1;
            continue;
        };
        opened += 1;
        assert!(owner.next <= Lsn(sample.last().0 + 1), "round {round}");
        let expected =
            |pos: Pos| sample.blocks.iter().find(|(other, _)| *other == pos).map(|(_, block)| block);
        for from in [Pos(0), sample.blocks[rng.below(40) as usize].0] {
            for block in store.read(SHARD, from, 20_000).unwrap_or_default() {
                let original = expected(block.pos).unwrap_or_else(|| panic!("round {round}: made-up block"));
                assert_eq!(block.records, original.records.concat(), "round {round}");
            }
        }
        for (pos, block) in &sample.blocks {
            let at = BodyRef { block: *pos, offset: 0, len: block.len() as u32 };
            if let Ok(found) = &store.fetch(SHARD, &[at])[0] {
                assert_eq!(*found, block.records.concat(), "round {round}");
            }
        }
        if let Ok(Some(snapshot)) = store.snapshot(SHARD) {
            assert_eq!(snapshot.parts.filter_map(Result::ok).count(), 4, "round {round}");
        }
    }
    println!("{opened} opened, {refused} refused");
    assert!(opened > 100 && refused > 100, "{opened} opened, {refused} refused");
}

#[test]
fn an_idle_mark_covers_the_last_group() {
    let mut options = options();
    options.idle_mark = Some(Duration::ZERO);
    let files = SimFiles::new();
    let store = open(&files, &options).expect("opens");
    let reports = Reports::new();
    let owner = store.claim(SHARD, reports.sink()).expect("claims");
    let mut sample = Sample::new(1, owner.next);
    sample.append_many(&store, &owner, 1, 500, true).expect("appends");
    reports.wait_durable(sample.last()).expect("durable");
    let metrics = store.metrics();
    wait_until("a mark is written", || metrics.marks.load(std::sync::atomic::Ordering::Relaxed) == 1)
        .expect("idle");
    let files = files.crash(Crash::Process);
    drop(store);
    let path = segments(&files).remove(0);
    let mut bytes = files.bytes(&path).expect("a segment");
    let place = damage::locate(&bytes, sample.blocks[0].0).expect("stored");
    bytes[place.offset + place.len - 1] ^= 1;
    files.set_bytes(&path, bytes);
    assert_eq!(corrupt_at(claim(&files, &options)), (path, place.offset as u64));
}

#[test]
fn an_orderly_stop_covers_the_last_block_too() {
    let options = options();
    let files = SimFiles::new();
    let (store, owner) = claim(&files, &options).expect("claims");
    let mut sample = Sample::new(2, owner.next);
    let mut last = sample.block(500, true);
    last.flags.clean_shutdown = true;
    sample.append(&store, &owner, last).expect("appends");
    store.shutdown().expect("stops");
    drop(store);
    let path = segments(&files).remove(0);
    let mut bytes = files.bytes(&path).expect("a segment");
    let place = damage::locate(&bytes, sample.blocks[0].0).expect("stored");
    bytes[place.offset + 60] ^= 1;
    files.set_bytes(&path, bytes);
    corrupt_at(claim(&files, &options));
}

#[test]
fn a_missing_segment_is_refused() {
    let options = options();
    let (files, _) = killed(&options, 40);
    let all = segments(&files);
    assert!(all.len() >= 4, "{all:?}");
    // Segments below the older snapshot are not scanned; the one before the last is.
    framegate_storage_journal::Files::remove(&files, &all[all.len() - 2]).expect("removes");
    let (file, _) = corrupt_at(claim(&files, &options));
    assert_eq!(&file, all.last().expect("several"));
}

#[test]
fn a_missing_last_segment_is_refused_when_a_snapshot_covers_it() {
    let options = options();
    let (files, sample) = killed(&options, 40);
    let (store, owner) = claim(&files, &options).expect("claims");
    let (pos, block) = sample.blocks.last().expect("40 blocks");
    store.put_snapshot(&owner, block.first, *pos, &mut std::iter::empty()).expect("puts a snapshot");
    drop(store);
    let files = files.crash(Crash::Process);
    for path in segments(&files).iter().rev().take(2) {
        framegate_storage_journal::Files::remove(&files, path).expect("removes");
    }
    corrupt_at(claim(&files, &options));
}

#[test]
fn a_missing_manifest_and_a_damaged_header_are_refused() {
    let options = options();
    let (files, _) = killed(&options, 10);
    let first = segments(&files).remove(0);
    let damaged = files.copy();
    let mut bytes = damaged.bytes(&first).expect("a segment");
    bytes[40] ^= 1;
    damaged.set_bytes(&first, bytes);
    assert_eq!(corrupt_at(claim(&damaged, &options)), (first, 0));
    framegate_storage_journal::Files::remove(&files, Path::new("/sim/MANIFEST")).expect("removes");
    corrupt_at(claim(&files, &options));
}

#[test]
fn without_an_intact_snapshot_a_trimmed_log_is_refused() {
    let options = options();
    let (files, sample) = killed(&options, 40);
    let (store, owner) = claim(&files, &options).expect("claims");
    let before = store.usage(SHARD).segments;
    store.trim(&owner, sample.blocks[13].0).expect("trims");
    wait_until("a segment is deleted", || store.usage(SHARD).segments < before).expect("deletes");
    let files = files.crash(Crash::Process);
    drop(store);
    for path in files.paths().iter().filter(|path| path.extension().is_some_and(|ext| ext == "fgs")) {
        let mut bytes = files.bytes(path).expect("a snapshot");
        let last = bytes.len() - 20;
        bytes[last] ^= 1;
        files.set_bytes(path, bytes);
    }
    let (store, _) = claim(&files, &options).expect("the log itself is intact");
    assert!(matches!(store.snapshot(SHARD), Err(StoreError::Corrupt { .. })));
}
