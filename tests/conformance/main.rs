//! The conformance suite of the whole tree: every listed id on every listed backend, one table, one row each. Owns the
//! run and the comparison with `ids.txt`; the cases are in the modules, those of the log in the storage interface.

#[path = "../../storage/journal/tests/factory/mod.rs"]
mod journal;
#[path = "../../storage/memory/tests/factory/mod.rs"]
mod memory;
#[path = "../../gateway/broker/tests/support/mod.rs"]
mod support;

mod cases;
mod counts;
mod crashes;
mod depth;
mod determinism;
mod gate;
mod groups;
mod home;
mod leases;
mod list;
mod priorities;
mod queues;
mod replica;
mod times;
mod topics;

use framegate_storage::conformance::{Outcome, Row, table};
use home::{Backend, Home};
use journal::{Real, Simulated};
use memory::Memory;

/// Settings that the broker expects of a store: a block may be as large as a pass makes it.
const BLOCK_BYTES_MAX: usize = 160 << 20;

fn homes() -> Vec<Home> {
    let memory = Memory::new(framegate_storage_memory::MemoryOptions::default());
    // a kill takes what is not synced
    let journal = Real::new(true, |options| {
        options.block_bytes_max = BLOCK_BYTES_MAX;
        options.segment_bytes = 64 << 20;
        options.first_segment_bytes = 1 << 20;
    });
    let simulated = Simulated::new("journal-sim", |options| options.block_bytes_max = BLOCK_BYTES_MAX);
    vec![
        Home::new("memory", Backend::Any(Box::new(memory))),
        Home::new("journal", Backend::Any(Box::new(journal))),
        Home::new("journal-sim", Backend::Simulated(Box::new(simulated))),
    ]
}

/// The cases of the log, by the suite of the storage interface.
fn log_rows() -> Vec<(Row, String)> {
    let mut rows = framegate_storage::conformance::run(&mut Memory::small());
    rows.extend(framegate_storage::conformance::run(&mut Simulated::new("journal-sim", |_| {})));
    let mut rows: Vec<_> = rows.into_iter().map(|row| (row, String::new())).collect();
    // the power of real files cannot be cut: what needs that runs with unsynced bytes held back in the process
    let files = framegate_storage::conformance::run(&mut Real::new(false, |_| {}));
    let held = framegate_storage::conformance::run(&mut Real::new(true, |_| {}));
    for (files, held) in files.into_iter().zip(held) {
        let cut = matches!(files.outcome, Outcome::NotApplicable(_));
        let failed = matches!(held.outcome, Outcome::Failed(_));
        let note = if held.outcome == Outcome::Passed { "unsynced bytes held back" } else { "" };
        let (row, note) = if cut || failed { (held, note) } else { (files, "") };
        rows.push((Row { backend: "journal".to_owned(), ..row }, note.to_owned()));
    }
    rows
}

#[test]
fn every_listed_id_passes_on_every_listed_backend() {
    let listed = list::read();
    let log = std::thread::spawn(log_rows);
    let mut core = Vec::new();
    for home in &mut homes() {
        for id in cases::IDS {
            if listed.runs(id, home.backend()) {
                core.push(cases::run(id, home));
            }
        }
    }
    let mut rows = log.join().expect("the cases of the log end");
    rows.extend(core);
    let line = |row: &Row| table(std::slice::from_ref(row)).trim_end().to_owned();
    for (row, note) in &rows {
        println!("{}", format!("{:<30} {note}", line(row)).trim_end());
    }
    for (id, reason) in &listed.later {
        println!("{id:<4} {:<16} later   {reason}", "-");
    }
    let mut wrong: Vec<String> = rows
        .iter()
        .filter(|(row, _)| matches!(row.outcome, Outcome::Failed(_)))
        .map(|(row, _)| line(row))
        .collect();
    wrong.extend(listed.differences(rows.iter().map(|(row, _)| row)));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The suite would notice: on a journal that confirms before the sync, confirmed messages are lost.
#[test]
fn a_journal_that_confirms_before_the_sync_fails() {
    let broken = Simulated::new("broken", |options| {
        options.block_bytes_max = BLOCK_BYTES_MAX;
        options.faults.confirm_before_sync = true;
    });
    let mut home = Home::new("broken", Backend::Simulated(Box::new(broken)));
    // a kill must fall between confirm and sync, so it may take more than one round
    let failed = (0..10).any(|_| matches!(cases::run("F1", &mut home).0.outcome, Outcome::Failed(_)));
    assert!(failed, "no round of kills lost a confirmed message");
}
