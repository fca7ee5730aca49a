//! The same log gives the same state: whoever was connected, whenever it was, however it is cut into passes, and however
//! often the broker started over it.

use framegate_storage::{Lsn, Pos};

use super::ROOMS;
use super::commands::{Command, Random};
use super::life::Life;
use crate::fold::replay;
use crate::record::Reader;
use crate::state::{At, State};

/// Commands of one log.
const LIFE: usize = 1500;

/// Folds the log one block at a time.
fn block_by_block(life: &Life) -> u64 {
    let (store, shard) = (&life.rig.store, life.rig.claim.shard);
    let mut state = State::default();
    let mut from = Pos(0);
    while let Some(block) = store.read(shard, from, 1).expect("read").into_iter().next() {
        from = store.next_pos(shard, block.pos).expect("a position");
        let mut reader = Reader::new(&block.records);
        let mut lsn = block.first.0;
        while let Some(record) = reader.next(&state).expect("a record") {
            if let Some(record) = record {
                state.apply(record, At { lsn: Lsn(lsn), block: block.pos.0, logged: true });
            }
            lsn += 1;
        }
    }
    state.content_hash()
}

fn folded(life: &Life) -> u64 {
    replay(&*life.rig.store, &life.rig.claim).expect("replayed").0.content_hash()
}

#[test]
fn one_log_gives_one_state_whoever_is_connected_and_whatever_the_time() {
    for seed in 900..904 {
        let mut random = Random::new(seed);
        let mut life = Life::new(ROOMS[(seed % 4) as usize]).expect("started");
        for at in 0..LIFE {
            let command = random.command();
            life.step(&command).unwrap_or_else(|why| panic!("seed {seed}, command {at}: {why}"));
            if at % 100 == 99 {
                life.step(&Command::Release(u64::MAX)).expect("written");
                while life.rig.store.waiting() > 0 {
                    life.step(&Command::Release(u64::MAX)).expect("written");
                }
                assert_eq!(folded(&life), life.rig.core.durable.content_hash(), "seed {seed}, command {at}");
            }
        }
        life.step(&Command::Cut).expect("restarted");
        let one = folded(&life);
        assert_eq!(folded(&life), one, "seed {seed}: the second time");
        assert_eq!(block_by_block(&life), one, "seed {seed}: in other pieces");
        // others take, settle and wait; none of it is written, so that the log stays as it is
        for other in 1..5 {
            let mut random = Random::new(seed * 100 + other);
            for _ in 0..40 * other {
                let command = random.command();
                let writes =
                    matches!(command, Command::Release(_) | Command::Stop | Command::Kill | Command::Cut);
                if !writes {
                    life.step(&command).unwrap_or_else(|why| panic!("seed {seed}, {command:?}: {why}"));
                }
            }
            life.step(&Command::Kill).expect("restarted");
            assert_eq!(folded(&life), one, "seed {seed}: after {other} more starts");
        }
    }
}
