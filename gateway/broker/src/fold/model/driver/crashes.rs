//! The same random lives over a journal with simulated files: the broker writes its snapshots, segments go, bodies are
//! written again, and the process or the power ends at any moment of the journal's threads. What a start finds is judged
//! as always: every message, definition and event, and everything that is heard afterwards. `CRASH_SEED` is the first seed;
//! which write a crash meets is up to the threads, so that a seed repeats the commands only.

use std::sync::atomic::Ordering;

use super::ROOMS;
use super::commands::{Command, Random};
use super::life::Life;
use crate::fold::tests::store::Store;

/// Commands of one life, and of one between crashes.
const LIFE: usize = 1500;
const CRASH: usize = 50;
/// Lives.
const LIVES: u64 = 6;
/// Bytes of log from snapshot to snapshot.
const SNAPSHOT_BYTES: u64 = 1000;

#[test]
fn after_crashes_of_a_journal_with_snapshots_the_core_has_what_the_model_has() {
    let first = std::env::var("CRASH_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(300);
    let (mut snapshots, mut released, mut moved) = (0, 0, 0);
    for seed in first..first + LIVES {
        let mut random = Random::new(seed);
        let room = ROOMS[(seed % ROOMS.len() as u64) as usize];
        let mut life = Life::over(Store::files(), room, SNAPSHOT_BYTES).expect("started");
        for at in 0..LIFE {
            let crash = at % CRASH == CRASH - 1;
            let command = match (at / CRASH) % 4 {
                0 if crash => Command::Kill,
                3 if crash => Command::Stop,
                _ if crash => Command::Cut,
                _ => random.command(),
            };
            if matches!(command, Command::Kill | Command::Cut | Command::Stop) {
                let metrics = &life.rig.shared().metrics;
                snapshots += metrics.snapshots.load(Ordering::Relaxed);
                released += metrics.extents_released.load(Ordering::Relaxed);
                moved += metrics.survivors.load(Ordering::Relaxed);
            }
            life.step(&command).unwrap_or_else(|why| {
                panic!("CRASH_SEED={seed}, command {at} {command:?}: {why}\n{}", life.model.picture())
            });
        }
    }
    println!("snapshots {snapshots}, extents released {released}, bodies written again {moved}");
    assert!(snapshots > 30 && released > 0, "{snapshots} snapshots, {released} extents released");
}
