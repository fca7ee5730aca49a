//! Cases F2, F4 and F6: damage at rest, a failing disk, files of another version.

use super::case::{Stop, ensure};
use super::factory::{Factory, Fault, Injected, Loss};
use super::reports::Reports;
use super::sample::Sample;
use crate::{Pos, Report, ShardId, StoreError};

const SHARD: ShardId = ShardId(0);

/// Three groups and a last block, each reported before the next was appended, then killed.
fn killed_store(factory: &mut dyn Factory, seed: u64) -> Result<Sample, Stop> {
    let store = factory.create()?;
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink())?;
    let mut sample = Sample::new(seed, claim.next);
    for _ in 0..3 {
        sample.append_many(&*store, &claim, 2, 300, true)?;
        reports.wait_durable(sample.last())?;
    }
    let records = vec![sample.rng.bytes(90)];
    let block = sample.block_of(records, true);
    sample.append(&*store, &claim, block)?;
    reports.wait_durable(sample.last())?;
    factory.kill(store, Loss::Process)?;
    Ok(sample)
}

pub(super) fn f2_torn_and_flipped(factory: &mut dyn Factory) -> Result<(), Stop> {
    let mut sample = killed_store(factory, 22)?;
    let last = sample.blocks.len() - 1;
    let (pos, lost) = sample.blocks[last].clone();
    sample.forget_after(last);
    let mut keep = 0;
    while factory.inject(Fault::TearBlock { pos, keep })? == Injected::Done {
        let store = factory.open()?;
        let reports = Reports::new();
        let claim = store.claim(SHARD, reports.sink())?;
        ensure!(claim.next == lost.first, "torn at {keep}: log goes on at {}", claim.next);
        ensure!(!claim.clean, "torn at {keep}: claimed as clean");
        sample.check(&*store, Pos(0), 0, 10_000)?;
        // The log goes on in its place, and the torn bytes are no trouble for the next start.
        let again = store.append(&claim, lost.clone())?;
        reports.wait_durable(lost.last())?;
        store.shutdown()?;
        drop(store);
        let store = factory.open()?;
        store.claim(SHARD, Reports::new().sink())?;
        let found = store.read(SHARD, again, 1)?;
        ensure!(
            found.len() == 1 && found[0].records == lost.records.concat(),
            "torn at {keep}: not repaired"
        );
        keep += 1;
    }
    ensure!(keep as usize > lost.len(), "only {keep} bytes of the last block could be torn");

    for (index, (pos, _)) in sample.blocks.iter().enumerate() {
        let mut byte = 0;
        while factory.inject(Fault::FlipBit { pos: *pos, byte })? == Injected::Done {
            let claimed = factory.open().and_then(|store| store.claim(SHARD, Reports::new().sink()));
            match claimed {
                Err(StoreError::Corrupt { file, offset, .. }) => {
                    ensure!(!file.as_os_str().is_empty() && offset > 0, "no place named: {file:?} {offset}");
                }
                other => {
                    return Err(Stop::Failed(format!("bit flipped in block {index} byte {byte}: {other:?}")));
                }
            }
            byte += 1;
        }
        ensure!(byte > 0, "no byte of block {index} could be flipped");
    }
    Ok(())
}

pub(super) fn f4_failed_sync(factory: &mut dyn Factory) -> Result<(), Stop> {
    let store = factory.create()?;
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink())?;
    let mut sample = Sample::new(24, claim.next);
    sample.append_many(&*store, &claim, 20, 3000, true)?;
    let good = sample.last();
    reports.wait_durable(good)?;
    factory.inject(Fault::FailNextSync)?;
    let mut refused = None;
    for _ in 0..50 {
        let block = sample.block(3000, true);
        match sample.append(&*store, &claim, block.clone()) {
            Ok(_) => {}
            Err(_) => {
                refused = Some(block);
                break;
            }
        }
    }
    reports.wait("failed", |all| matches!(all.last(), Some(Report::Failed(_))))?;
    let block = refused.unwrap_or_else(|| sample.block(10, true));
    let after = store.append(&claim, block);
    ensure!(matches!(after, Err(StoreError::Fatal { .. })), "append after a failed sync gives {after:?}");
    ensure!(store.shutdown().is_err(), "shutdown after a failed sync succeeds");
    reports.check_order()?;
    let failed = reports.all().iter().filter(|report| matches!(report, Report::Failed(_))).count();
    ensure!(failed == 1, "{failed} reports of failure");
    ensure!(reports.durable() == good, "{} was reported, the sync failed after {good}", reports.durable());
    factory.kill(store, Loss::Power { seed: 24 })?;

    let store = factory.open()?;
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink())?;
    ensure!(claim.next > good, "recovered up to {}, {good} had been reported", claim.next);
    let kept = sample.blocks.iter().take_while(|(_, block)| block.first < claim.next).count();
    sample.forget_after(kept);
    sample.check(&*store, Pos(0), 0, 10_000)?;
    sample.append_many(&*store, &claim, 5, 3000, true)?;
    reports.wait_durable(sample.last())
}

pub(super) fn f6_formats(factory: &mut dyn Factory) -> Result<(), Stop> {
    let sample = killed_store(factory, 26)?;
    factory.inject(Fault::NewerFormat)?;
    let claimed = factory.open().and_then(|store| store.claim(SHARD, Reports::new().sink()));
    match claimed {
        Err(StoreError::Version { found, supported, .. }) => {
            ensure!(found > supported, "version {found} refused, {supported} is supported");
        }
        other => return Err(Stop::Failed(format!("a newer format gives {other:?}"))),
    }
    let pos = sample.blocks[2].0;
    factory.inject(Fault::UnknownFlag { pos, may_skip: false })?;
    let claimed = factory.open().and_then(|store| store.claim(SHARD, Reports::new().sink()));
    ensure!(claimed.is_err(), "a flag that must be understood is skipped");
    factory.inject(Fault::UnknownFlag { pos, may_skip: true })?;
    let store = factory.open()?;
    store.claim(SHARD, Reports::new().sink())?;
    sample.check(&*store, Pos(0), 0, 10_000)
}
