//! A snapshot says what the state says, at any moment of a random life, and bodies that are written again elsewhere
//! change nothing that anybody sees.

use framegate_frame::{Frame, Limits as FrameLimits};
use framegate_storage::ShardId;

use super::ROOMS;
use super::commands::{Command, Random};
use super::life::Life;
use crate::fold::load::{load, of_pages};
use crate::fold::survey::Survivor;
use crate::state::Export;

/// Commands of one life.
const LIFE: usize = 900;

/// Everything is written.
fn release(life: &mut Life) {
    life.step(&Command::Release(u64::MAX)).expect("written");
    while life.rig.store.waiting() > 0 {
        life.step(&Command::Release(u64::MAX)).expect("written");
    }
}

/// Writes every third body again, while nobody does anything else.
fn move_some(life: &mut Life, skip: usize) {
    let mut all = Vec::new();
    for frozen in [life.rig.core.durable.freeze(), life.rig.core.volatile.freeze()] {
        frozen.bodies(&mut |what, body| all.push(Survivor { what, body }));
    }
    all.sort_by_key(|s| (s.body.block, s.body.offset));
    life.rig.core.keeper.survivors = all.into_iter().skip(skip).step_by(3).collect();
    life.rig.core.go_on_moving();
    while !life.rig.core.keeper.survivors.is_empty()
        || life.rig.core.keeper.reading
        || life.rig.core.keeper.move_timer
    {
        life.step(&Command::Wait(1)).expect("waited");
        std::thread::yield_now();
    }
}

#[test]
fn a_snapshot_is_the_state_and_what_is_written_again_is_what_it_was() {
    let (mut compared, mut moved) = (0, 0);
    for seed in 700..704 {
        let mut random = Random::new(seed);
        let mut life = Life::new(ROOMS[(seed % 4) as usize]).expect("started");
        for at in 0..LIFE {
            let command = random.command();
            life.step(&command).unwrap_or_else(|why| panic!("seed {seed}, command {at}: {why}"));
            if at % 60 != 59 {
                continue;
            }
            release(&mut life);
            if at % 180 == 179 {
                move_some(&mut life, at % 3);
                release(&mut life);
                let metrics = &life.rig.shared().metrics;
                moved += metrics.survivors.load(std::sync::atomic::Ordering::Relaxed);
            }
            let core = &life.rig.core;
            let log = load(&*life.rig.store, ShardId(0)).expect("folded").state.content_hash();
            assert_eq!(log, core.durable.content_hash(), "seed {seed}, command {at}: the log");
            let frozen = core.durable.freeze();
            frozen.bodies(&mut |what, body| {
                let read = life.rig.store.fetch(ShardId(0), &[body]).remove(0).expect("a body that lives");
                assert!(Frame::parse(read, &FrameLimits::GATEWAY).is_ok(), "{what:?} is no frame");
            });
            if !core.has_work() {
                let state = of_pages(Export::new(frozen, 7)).expect("pages").state;
                assert_eq!(state.content_hash(), core.durable.content_hash(), "seed {seed}, command {at}");
                compared += 1;
            }
        }
    }
    assert!(compared > 30 && moved > 50, "compared {compared}, moved {moved}");
}
