//! Cases L5 to L7: bodies by reference, trimming, snapshots.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use bytes::Bytes;

use super::case::{Stop, ensure, wait_until};
use super::factory::{Factory, Fault, Loss};
use super::reports::Reports;
use super::sample::Sample;
use crate::{BodyRef, Lsn, Pos, ShardId, ShardStore, Snapshot, StoreError};

const SHARD: ShardId = ShardId(0);

fn fetch_one(store: &dyn ShardStore, block: Pos, offset: u32, len: u32) -> Result<Bytes, StoreError> {
    let mut found = store.fetch(SHARD, &[BodyRef { block, offset, len }]);
    assert_eq!(found.len(), 1, "one result for one reference");
    found.remove(0)
}

fn expect_missing(store: &dyn ShardStore, block: Pos, offset: u32, len: u32, what: &str) -> Result<(), Stop> {
    match fetch_one(store, block, offset, len) {
        Err(StoreError::NotFound { .. }) => Ok(()),
        other => Err(Stop::Failed(format!("fetch of {what} at {block}+{offset} gives {other:?}"))),
    }
}

fn put(
    store: &dyn ShardStore,
    claim: &crate::Claim,
    sample: &Sample,
    at: usize,
    parts: &[Bytes],
) -> Result<(), StoreError> {
    let (pos, block) = &sample.blocks[at];
    store.put_snapshot(claim, block.first, *pos, &mut parts.iter().cloned())
}

pub(super) fn l5_fetch(factory: &mut dyn Factory) -> Result<(), Stop> {
    let store = factory.create()?;
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink())?;
    let mut sample = Sample::new(15, claim.next);
    for _ in 0..400 {
        let block = sample.block(8000, false);
        let whole: Vec<u8> = block.records.concat();
        let pos = sample.append(&*store, &claim, block)?;
        let found = fetch_one(&*store, pos, 0, whole.len() as u32)?;
        ensure!(found == whole, "fetch right after append differs");
    }
    reports.wait_durable(sample.last())?;
    let mut refs = Vec::new();
    let mut expected = Vec::new();
    for _ in 0..1000 {
        let index = sample.rng.below(400) as usize;
        let whole: Vec<u8> = sample.blocks[index].1.records.concat();
        let start = sample.rng.below(whole.len() as u64 + 1) as usize;
        let end = start + sample.rng.below((whole.len() - start) as u64 + 1) as usize;
        refs.push(BodyRef { block: sample.blocks[index].0, offset: start as u32, len: (end - start) as u32 });
        expected.push(whole[start..end].to_vec());
    }
    for (found, expected) in store.fetch(SHARD, &refs).into_iter().zip(&expected) {
        ensure!(found? == *expected, "fetch of a live body differs");
    }
    let (pos, block) = sample.blocks.iter().find(|(_, block)| block.len() > 100).expect("400 random blocks");
    let len = block.len() as u32;
    expect_missing(&*store, *pos, 0, len + 1, "more than the block")?;
    expect_missing(&*store, *pos, len, 1, "bytes behind the block")?;
    expect_missing(&*store, *pos, u32::MAX, u32::MAX, "an absurd range")?;
    expect_missing(&*store, Pos(pos.0 + 1), 0, 8, "a position inside a block")?;
    let end = store.next_pos(SHARD, sample.blocks[399].0)?;
    for never in [Pos(0), Pos(1), end, Pos(end.0 + 1), Pos(u64::MAX), Pos(u64::MAX << 32)] {
        expect_missing(&*store, never, 0, 8, "a never-written position")?;
    }
    put(&*store, &claim, &sample, 200, &[])?;
    put(&*store, &claim, &sample, 250, &[])?;
    let dead: Vec<Pos> = sample.blocks[..200].iter().map(|(pos, _)| *pos).collect();
    store.release(&claim, &dead)?;
    store.release(&claim, &dead)?;
    store.trim(&claim, sample.blocks[100].0)?;
    for (index, (pos, block)) in sample.blocks.iter().enumerate() {
        let whole: Vec<u8> = block.records.concat();
        match fetch_one(&*store, *pos, 0, whole.len() as u32) {
            Ok(found) => ensure!(index >= 100 && found == whole, "block {index}: trimmed or wrong bytes"),
            Err(StoreError::NotFound { .. }) => ensure!(index < 200, "block {index} is lost"),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub(super) fn l6_trim(factory: &mut dyn Factory) -> Result<(), Stop> {
    let store = factory.create()?;
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink())?;
    let mut sample = Sample::new(16, claim.next);
    sample.append_many(&*store, &claim, 600, 16_000, false)?;
    reports.wait_durable(sample.last())?;
    let before = store.usage(SHARD);
    let cut = sample.blocks[500].0;
    store.trim(&claim, cut)?;
    store.trim(&claim, sample.blocks[30].0)?;
    store.trim(&claim, cut)?;
    for index in [0, 30, 499] {
        let pos = sample.blocks[index].0;
        let found = store.read(SHARD, pos, 1);
        ensure!(
            matches!(found, Err(StoreError::NotFound { .. })),
            "read below the trim gives {found:?} (block {index})"
        );
    }
    sample.check(&*store, Pos(0), 500, 100_000)?;
    sample.check(&*store, cut, 500, 100_000)?;
    wait_until("usage shrinks after a trim", || store.usage(SHARD).log_bytes < before.log_bytes / 2)?;
    sample.append_many(&*store, &claim, 10, 1000, true)?;
    store.shutdown()?;
    drop(store);
    let store = factory.open()?;
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink())?;
    ensure!(claim.next.0 == sample.last().0 + 1, "the log goes on at {}", claim.next);
    sample.check(&*store, cut, 500, 100_000)
}

fn loaded(snapshot: Option<Snapshot>) -> Result<(Lsn, Pos, Vec<Bytes>), Stop> {
    let Some(snapshot) = snapshot else { return Err(Stop::Failed("there is no snapshot".to_owned())) };
    let parts: Result<Vec<Bytes>, StoreError> = snapshot.parts.collect();
    Ok((snapshot.upto, snapshot.replay_from, parts?))
}

fn expect_snapshot(
    store: &Arc<dyn ShardStore>,
    sample: &Sample,
    at: usize,
    parts: &[Bytes],
) -> Result<(), Stop> {
    let (upto, replay_from, found) = loaded(store.snapshot(SHARD)?)?;
    let (_, block) = &sample.blocks[at];
    ensure!(upto == block.first, "the snapshot covers up to {upto}, expected {}", block.first);
    ensure!(found.concat() == parts.concat(), "the snapshot's parts differ");
    sample.check(&**store, replay_from, at, 10_000)
}

pub(super) fn l7_snapshots(factory: &mut dyn Factory) -> Result<(), Stop> {
    let store = factory.create()?;
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink())?;
    ensure!(store.snapshot(SHARD)?.is_none(), "an empty store has a snapshot");
    let mut sample = Sample::new(17, claim.next);
    sample.append_many(&*store, &claim, 60, 3000, true)?;
    let first: Vec<Bytes> = (0..5).map(|index| sample.rng.bytes(index * 10_000)).collect();
    let second: Vec<Bytes> = (0..3).map(|_| sample.rng.bytes(100)).collect();
    put(&*store, &claim, &sample, 20, &first)?;
    reports.wait_durable(sample.last())?;
    expect_snapshot(&store, &sample, 20, &first)?;

    let killed = catch_unwind(AssertUnwindSafe(|| {
        let mut parts = second.iter().enumerate().map(|(index, part)| {
            if index == 2 {
                resume_unwind(Box::new("killed between parts"));
            }
            part.clone()
        });
        let (pos, block) = &sample.blocks[40];
        store.put_snapshot(&claim, block.first, *pos, &mut parts)
    }));
    ensure!(killed.is_err(), "a snapshot whose parts never ended was accepted");
    factory.kill(store, Loss::Power { seed: 7 })?;
    let store = factory.open()?;
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink())?;
    expect_snapshot(&store, &sample, 20, &first)?;
    put(&*store, &claim, &sample, 40, &second)?;
    expect_snapshot(&store, &sample, 40, &second)?;
    factory.kill(store, Loss::Power { seed: 8 })?;
    let store = factory.open()?;
    store.claim(SHARD, Reports::new().sink())?;
    expect_snapshot(&store, &sample, 40, &second)?;
    factory.kill(store, Loss::Power { seed: 9 })?;

    factory.inject(Fault::CorruptSnapshot)?;
    let store = factory.open()?;
    store.claim(SHARD, Reports::new().sink())?;
    expect_snapshot(&store, &sample, 20, &first)
}
