//! Cases L8, L9 and F3: what was reported is there after a crash; no room is no failure.

use std::sync::Arc;

use super::case::{Stop, ensure};
use super::factory::{Factory, Fault, Loss};
use super::reports::Reports;
use super::sample::{Sample, read_all};
use crate::{Lsn, Pos, Report, ShardId, ShardStore};

const SHARD: ShardId = ShardId(0);

/// Claims the recovered store and cuts the model to what came back, which must be a prefix with at least
/// `promised`.
fn recovered(
    store: &Arc<dyn ShardStore>,
    sample: &mut Sample,
    promised: Lsn,
    reports: &Reports,
) -> Result<crate::Claim, Stop> {
    let claim = store.claim(SHARD, reports.sink())?;
    let last = Lsn(claim.next.0 - 1);
    ensure!(last >= promised, "recovered up to {last}, but {promised} had been reported");
    ensure!(last <= sample.last(), "recovered up to {last}, but only {} was appended", sample.last());
    let found = read_all(&**store, Pos(0), 100_000)?.len();
    sample.forget_after(found);
    ensure!(sample.last() == last, "blocks end at {}, the claim says {last}", sample.last());
    sample.check(&**store, Pos(0), 0, 100_000)?;
    Ok(claim)
}

pub(super) fn l8_classes(factory: &mut dyn Factory) -> Result<(), Stop> {
    let store = factory.create()?;
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink())?;
    let mut sample = Sample::new(18, claim.next);
    sample.append_many(&*store, &claim, 20, 3000, false)?;
    let written = sample.last();
    reports.wait_durable(written)?;
    sample.append_many(&*store, &claim, 5, 3000, false)?;
    factory.kill(store, Loss::Process)?;
    let store = factory.open()?;
    let reports = Reports::new();
    let claim = recovered(&store, &mut sample, written, &reports)?;
    ensure!(!claim.clean, "a killed store says it was stopped cleanly");

    sample.append_many(&*store, &claim, 20, 3000, true)?;
    let synced = sample.last();
    reports.wait_durable(synced)?;
    sample.append_many(&*store, &claim, 20, 3000, false)?;
    reports.wait_durable(sample.last())?;
    factory.kill(store, Loss::Power { seed: 18 })?;
    let store = factory.open()?;
    recovered(&store, &mut sample, synced, &Reports::new())?;
    Ok(())
}

pub(super) fn f3_unsynced_dropped(factory: &mut dyn Factory) -> Result<(), Stop> {
    let mut store = factory.create()?;
    let mut reports = Reports::new();
    let mut claim = store.claim(SHARD, reports.sink())?;
    let mut sample = Sample::new(23, claim.next);
    for seed in 0..40 {
        let mut synced: Vec<Lsn> = vec![Lsn(claim.next.0 - 1)];
        for _ in 0..sample.rng.below(30) {
            let sync = sample.rng.below(2) == 0;
            let block = sample.block(3000, sync);
            sample.append(&*store, &claim, block)?;
            if sync {
                synced.push(sample.last());
            }
        }
        // Kill in the middle of the work, after a random part of it was reported.
        let at = synced[sample.rng.below(synced.len() as u64) as usize];
        if at >= claim.next {
            reports.wait_durable(at)?;
        }
        let reported = reports.durable();
        let promised = synced.into_iter().filter(|lsn| *lsn <= reported).max().unwrap_or(at).max(at);
        factory.kill(store, Loss::Power { seed })?;
        reports.check_order()?;
        store = factory.open()?;
        reports = Reports::new();
        claim = recovered(&store, &mut sample, promised, &reports).map_err(|stop| match stop {
            Stop::Failed(why) => Stop::Failed(format!("power cut {seed}: {why}")),
            other => other,
        })?;
    }
    Ok(())
}

pub(super) fn l9_no_room(factory: &mut dyn Factory) -> Result<(), Stop> {
    let store = factory.create()?;
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink())?;
    let mut sample = Sample::new(19, claim.next);
    sample.append_many(&*store, &claim, 20, 3000, true)?;
    reports.wait_durable(sample.last())?;
    factory.inject(Fault::NoRoom)?;
    let is_full = |reports: &[Report]| reports.iter().any(|report| matches!(report, Report::Full(_)));
    let written = sample.blocks.len();
    while !is_full(&reports.all()) {
        // Prepared space may take some blocks more.
        ensure!(sample.blocks.len() < written + 10_000, "blocks are taken although there is no room");
        let count = sample.blocks.len();
        sample.append_many(&*store, &claim, 1, 3000, true)?;
        let (_, block) = &sample.blocks[count];
        let last = block.last();
        reports.wait("full or durable", |all| {
            is_full(all) || all.iter().any(|r| matches!(r, Report::Durable { upto } if *upto >= last))
        })?;
    }
    sample.append_many(&*store, &claim, 10, 3000, true)?;
    let reported = reports.durable();
    let visible = read_all(&*store, Pos(0), 100_000)?;
    let end = visible.last().map_or(0, |block| block.first.0 + u64::from(block.count) - 1);
    ensure!(end == reported.0, "blocks up to {end} are visible, {reported} is reported");
    factory.inject(Fault::Room)?;
    reports.wait_durable(sample.last())?;
    reports.check_order()?;
    let rooms = reports.all().iter().filter(|report| matches!(report, Report::Room)).count();
    let fulls = reports.all().iter().filter(|report| matches!(report, Report::Full(_))).count();
    ensure!(rooms == fulls, "{fulls} reports of full, {rooms} of room");
    sample.check(&*store, Pos(0), 0, 100_000)?;

    factory.inject(Fault::NoRoom)?;
    sample.append_many(&*store, &claim, 300, 3000, true)?;
    reports.wait("full or durable", |all| {
        all.iter().filter(|report| matches!(report, Report::Full(_))).count() > fulls
            || all.iter().any(|r| matches!(r, Report::Durable { upto } if *upto >= sample.last()))
    })?;
    let promised = reports.durable();
    factory.kill(store, Loss::Process)?;
    factory.inject(Fault::Room)?;
    let store = factory.open()?;
    let reports = Reports::new();
    let claim = recovered(&store, &mut sample, promised, &reports)?;
    sample.append_many(&*store, &claim, 10, 3000, true)?;
    reports.wait_durable(sample.last())?;
    sample.check(&*store, Pos(0), 0, 100_000)
}
