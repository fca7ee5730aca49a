//! Random scripts on simulated files, crashed at a random change, compared with a model after each restart.
//!
//! The model is the list of appended blocks. After a crash the log must be a prefix of it that holds at
//! least what was promised: everything up to the newest synced block that was reported (power cut), or
//! everything reported (process kill). Seeds are printed with each failure; `CRASH_SEEDS` sets how many run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use framegate_storage::conformance::{Reports, Sample, SampleRng, Stop};
use framegate_storage::{Claim, Lsn, Pos, ShardId, ShardStore, StoreError};
use framegate_storage_journal::sim::{Crash, SimFiles};
use framegate_storage_journal::{Journal, Options};

const SHARD: ShardId = ShardId(0);

struct Script {
    files: SimFiles,
    rng: SampleRng,
    sample: Sample,
    /// Promised if the next crash is a power cut: a process kill leaves unsynced bytes behind, which
    /// recovery makes durable, but not before it has come to its end.
    synced: Lsn,
    /// Index of the first block that was not trimmed.
    trimmed: usize,
    /// LSNs that a snapshot was put for: certainly, and perhaps.
    snapshots: Vec<Lsn>,
    perhaps: Option<Lsn>,
    options: Options,
}

fn failed(why: String) -> Stop {
    Stop::Failed(why)
}

impl Script {
    fn new(seed: u64) -> Self {
        let mut rng = SampleRng(seed);
        let mut options = Options::new("/sim");
        options.first_segment_bytes = 4 << 10;
        options.segment_bytes = (4 << 10) << rng.below(4);
        options.block_bytes_max = 64 << 10;
        options.idle_mark = (rng.below(2) == 0).then_some(Duration::ZERO);
        options.full_retry = Duration::from_millis(1);
        let sample = Sample::new(seed, Lsn(1));
        Self {
            files: SimFiles::new(),
            rng,
            sample,
            synced: Lsn(0),
            trimmed: 0,
            snapshots: Vec::new(),
            perhaps: None,
            options,
        }
    }

    fn open(&self) -> Result<Journal, StoreError> {
        Journal::open_with(Arc::new(self.files.clone()), self.options.clone())
    }

    /// One life: claim, check what was recovered, work, then crash or stop. Returns the least LSN that the
    /// next life must find.
    fn life(&mut self, promised: Lsn) -> Result<Lsn, Stop> {
        let crash_after = self.rng.below(120);
        let crashing = self.rng.below(5) != 0;
        if crashing {
            self.files.faults(|faults| faults.crash_after = Some(crash_after + 1));
        }
        if self.rng.below(3) == 0 {
            let most = 1 + self.rng.below(3000) as usize;
            self.files.faults(|faults| faults.write_bytes_max = Some(most));
        }
        let crash = if self.rng.below(4) == 0 { Crash::Process } else { Crash::Power(self.rng.bits()) };
        let reports = Reports::new();
        let store = match self.open() {
            Ok(store) => store,
            Err(error @ StoreError::Corrupt { .. }) => return Err(error.into()),
            Err(_) if crashing => return self.crash(None, crash, promised),
            Err(error) => return Err(error.into()),
        };
        let claim = match store.claim(SHARD, reports.sink()) {
            Ok(claim) => claim,
            Err(error @ StoreError::Corrupt { .. }) => return Err(error.into()),
            Err(_) if crashing => return self.crash(Some(store), crash, promised),
            Err(error) => return Err(error.into()),
        };
        self.synced = Lsn(claim.next.0 - 1);
        match self.check(&store, &claim, promised) {
            // The crash may come while it reads.
            Err(_) if crashing && store.read(SHARD, Pos(0), 1).is_err() => {
                return self.crash(Some(store), crash, promised);
            }
            outcome => outcome?,
        }
        let mut synced = vec![Lsn(claim.next.0 - 1)];
        let stopped = self.work(&store, &claim, &reports, &mut synced);
        if crashing {
            let durable = reports.durable();
            self.synced = synced.into_iter().filter(|lsn| *lsn <= durable).max().unwrap_or(self.synced);
            reports.check_order()?;
            return self.crash(Some(store), crash, durable.max(self.synced));
        }
        stopped?;
        let mut last = self.sample.block(50, true);
        last.flags.clean_shutdown = true;
        self.sample.append(&store, &claim, last)?;
        store.shutdown()?;
        reports.check_order()?;
        drop(store);
        self.synced = self.sample.last();
        Ok(self.synced)
    }

    /// A few random requests; ends early when one is refused.
    fn work(
        &mut self,
        store: &Journal,
        claim: &Claim,
        reports: &Reports,
        synced: &mut Vec<Lsn>,
    ) -> Result<(), Stop> {
        for _ in 0..self.rng.below(60) {
            match self.rng.below(20) {
                0..12 => {
                    let sync = self.rng.below(2) == 0;
                    let most = if self.rng.below(10) == 0 { 30_000 } else { 600 };
                    let block = self.sample.block(most, sync);
                    self.sample.append(store, claim, block)?;
                    if sync {
                        synced.push(self.sample.last());
                    }
                }
                12..17 if self.sample.last() >= claim.next => reports.wait_durable(self.sample.last())?,
                12..17 => {}
                17 | 18 => self.snapshot(store, claim)?,
                _ => {
                    // Below the older snapshot, as the contract says.
                    if let [.., older, _] = self.snapshots[..] {
                        let index = self.sample.blocks.iter().position(|(_, block)| block.first == older);
                        if let Some(index) = index.filter(|index| *index > self.trimmed) {
                            let dead: Vec<Pos> =
                                self.sample.blocks[self.trimmed..index].iter().map(|(pos, _)| *pos).collect();
                            store.release(claim, &dead)?;
                            store.trim(claim, self.sample.blocks[index].0)?;
                            self.trimmed = index;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn snapshot(&mut self, store: &Journal, claim: &Claim) -> Result<(), Stop> {
        let from = self.trimmed as u64;
        let blocks = self.sample.blocks.len() as u64;
        if blocks <= from + 1 {
            return Ok(());
        }
        let index = (from + 1 + self.rng.below(blocks - from - 1)) as usize;
        let (pos, block) = self.sample.blocks[index].clone();
        if self.snapshots.last().is_some_and(|last| *last >= block.first) {
            return Ok(());
        }
        self.perhaps = Some(block.first);
        let parts: Vec<Bytes> = (0..3).map(|part| snapshot_part(block.first, part)).collect();
        store.put_snapshot(claim, block.first, pos, &mut parts.into_iter())?;
        self.perhaps = None;
        self.snapshots.push(block.first);
        Ok(())
    }

    fn crash(&mut self, store: Option<Journal>, crash: Crash, written: Lsn) -> Result<Lsn, Stop> {
        self.files = self.files.crash(crash);
        drop(store);
        Ok(if crash == Crash::Process { written } else { self.synced })
    }

    /// Compares what was recovered with the model and cuts the model to it.
    fn check(&mut self, store: &Journal, claim: &Claim, promised: Lsn) -> Result<(), Stop> {
        let last = Lsn(claim.next.0 - 1);
        if last < promised || last > self.sample.last() {
            return Err(failed(format!(
                "recovered up to {last}, promised {promised}, appended {}",
                self.sample.last()
            )));
        }
        let kept = self.sample.blocks.iter().take_while(|(_, block)| block.first <= last).count();
        let snapshot = store.snapshot(SHARD)?;
        if let Some(perhaps) = self.perhaps.take()
            && snapshot.as_ref().is_some_and(|snapshot| snapshot.upto == perhaps)
        {
            self.snapshots.push(perhaps);
        }
        let expected = self.snapshots.last().copied();
        if snapshot.as_ref().map(|snapshot| snapshot.upto) != expected {
            let found = snapshot.map(|snapshot| snapshot.upto);
            return Err(failed(format!("snapshot {found:?}, expected {expected:?}")));
        }
        let mut from = self.trimmed;
        let mut start = Pos(0);
        if let Some(snapshot) = snapshot {
            for (index, part) in snapshot.parts.enumerate() {
                if part? != snapshot_part(snapshot.upto, index) {
                    return Err(failed("a snapshot part differs".to_owned()));
                }
            }
            from = self.sample.blocks.iter().take_while(|(_, block)| block.first < snapshot.upto).count();
            start = snapshot.replay_from;
        } else if from > 0 {
            return Err(failed("trimmed without a snapshot".to_owned()));
        }
        self.sample.forget_after(kept);
        self.sample.check(store, start, from, 5000)
    }
}

fn snapshot_part(upto: Lsn, part: usize) -> Bytes {
    SampleRng(upto.0).bytes(100 + part * 700)
}

#[test]
fn random_scripts_crash_anywhere_and_lose_nothing_that_was_promised() {
    let seeds = std::env::var("CRASH_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    for seed in 0..seeds {
        let mut script = Script::new(seed);
        let mut promised = Lsn(0);
        for life in 0..8 {
            promised = script.life(promised).unwrap_or_else(|stop| {
                panic!("seed {seed}, life {life}: {stop:?}\n{:?}", script.files.paths())
            });
        }
    }
}

#[test]
fn thousands_of_blocks_come_back_after_a_power_cut() {
    let files = SimFiles::new();
    let mut options = Options::new(Path::new("/sim"));
    options.segment_bytes = 1 << 20;
    options.first_segment_bytes = 256 << 10;
    let store = Journal::open_with(Arc::new(files.clone()), options.clone()).expect("opens");
    let reports = Reports::new();
    let claim = store.claim(SHARD, reports.sink()).expect("claims");
    let mut sample = Sample::new(1, claim.next);
    sample.append_many(&store, &claim, 20_000, 400, true).expect("appends");
    reports.wait_durable(sample.last()).expect("durable");
    let files = files.crash(Crash::Power(3));
    drop(store);
    let store = Journal::open_with(Arc::new(files), options).expect("opens");
    let claim = store.claim(SHARD, Box::new(|_| {})).expect("claims");
    assert_eq!(claim.next, Lsn(sample.last().0 + 1));
    sample.check(&store, Pos(0), 0, 1 << 20).expect("identical");
}
