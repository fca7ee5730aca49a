//! Cases L1 to L4: what is appended is what is read.

use std::sync::Arc;

use bytes::Bytes;

use super::case::{Stop, ensure};
use super::factory::Factory;
use super::reports::Reports;
use super::sample::Sample;
use crate::{Pos, ShardId, StoreError};

const SHARD: ShardId = ShardId(0);

pub(super) fn l1_read_back(factory: &mut dyn Factory) -> Result<(), Stop> {
    let store = factory.create()?;
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink())?;
    ensure!(claim.next.0 == 1 && claim.clean, "an empty log is claimed as {claim:?}");
    let mut sample = Sample::new(11, claim.next);
    for index in 0..300 {
        let sync = index % 3 == 0;
        let block = sample.block(20_000, sync);
        sample.append(&*store, &claim, block)?;
    }
    let mut last = sample.block(100, true);
    last.flags.clean_shutdown = true;
    sample.append(&*store, &claim, last)?;
    reports.wait_durable(sample.last())?;
    for bytes_max in [0, 1, 4096, 100_000, usize::MAX] {
        sample.check(&*store, Pos(0), 0, bytes_max)?;
    }
    sample.check(&*store, sample.blocks[150].0, 150, 50_000)?;
    store.shutdown()?;
    ensure!(store.append(&claim, sample.block(10, true)).is_err(), "append after shutdown succeeds");
    drop(store);

    let store = factory.open()?;
    sample.check(&*store, Pos(0), 0, 100_000)?;
    let again = store.claim(SHARD, Reports::new().sink())?;
    ensure!(again.epoch > claim.epoch, "epoch {} after {}", again.epoch, claim.epoch);
    ensure!(again.generation == claim.generation, "the generation changed");
    ensure!(again.clean, "the clean-shutdown flag was lost");
    ensure!(
        again.next.0 == sample.last().0 + 1,
        "log goes on at {}, expected after {}",
        again.next,
        sample.last()
    );
    sample.check(&*store, Pos(0), 0, 100_000)?;
    Ok(())
}

pub(super) fn l2_order(factory: &mut dyn Factory) -> Result<(), Stop> {
    let store = factory.create()?;
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink())?;
    let mut sample = Sample::new(12, claim.next);
    for index in 0..10_000 {
        let block = sample.block(200, index % 7 == 0);
        sample.append(&*store, &claim, block)?;
    }
    reports.wait_durable(sample.last())?;
    reports.check_order()?;
    let mut gap = sample.block(10, false);
    gap.first.0 += 1;
    ensure!(store.append(&claim, gap).is_err(), "a block that leaves a gap is accepted");
    sample.check(&*store, Pos(0), 0, 65_536)
}

pub(super) fn l3_size_limits(factory: &mut dyn Factory) -> Result<(), Stop> {
    let store = factory.create()?;
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink())?;
    let mut sample = Sample::new(13, claim.next);
    let max = store.caps().block_bytes_max;
    let large = sample.rng.bytes(max);
    for chunks in [
        vec![],
        vec![large.clone()],
        vec![Bytes::new()],
        vec![large.slice(..max / 2), large.slice(max / 2..)],
    ] {
        let block = sample.block_of(chunks, true);
        sample.append(&*store, &claim, block)?;
    }
    let mut too_large = sample.block_of(vec![large, Bytes::from_static(b"x")], true);
    match store.append(&claim, too_large.clone()) {
        Err(StoreError::TooLarge { len, max: allowed }) => {
            ensure!(len == max + 1 && allowed == max, "too large says {len} of {allowed}");
        }
        other => return Err(Stop::Failed(format!("one byte too many gives {other:?}"))),
    }
    too_large.records = vec![Bytes::from_static(b"after a refusal the log goes on")];
    sample.append(&*store, &claim, too_large)?;
    reports.wait_durable(sample.last())?;
    sample.check(&*store, Pos(0), 0, 1)?;
    store.shutdown()?;
    drop(store);
    let store = factory.open()?;
    sample.check(&*store, Pos(0), 0, usize::MAX)
}

pub(super) fn l4_caller_goes_away(factory: &mut dyn Factory) -> Result<(), Stop> {
    let store = factory.create()?;
    let claim = store.claim(SHARD, Box::new(|_| {}))?;
    let mut sample = Sample::new(14, claim.next);
    let worker = Arc::clone(&store);
    let caller =
        std::thread::spawn(move || sample.append_many(&*worker, &claim, 200, 5000, false).map(|()| sample));
    for _ in 0..50 {
        drop(store.read(SHARD, Pos(0), 10_000)?);
    }
    let sample = caller.join().map_err(|_| Stop::Failed("the appending thread panicked".to_owned()))??;
    store.shutdown()?;
    sample.check(&*store, Pos(0), 0, 1000)?;
    drop(store);
    let store = factory.open()?;
    drop(store.read(SHARD, Pos(0), usize::MAX)?);
    sample.check(&*store, Pos(0), 0, 10_000)
}
