//! Runs the conformance suite on the journal: simulated files, simulated files with marks, real files.

mod factory;

use std::time::Duration;

use factory::{Real, Simulated};
use framegate_storage::conformance::{Factory, IDS, failures, run, table};

fn passes(factory: &mut dyn Factory) {
    let rows = run(factory);
    println!("{}", table(&rows));
    let failed = failures(IDS, &factory.backend(), &rows);
    assert!(failed.is_empty(), "{}", table(&failed));
}

#[test]
fn the_journal_passes_on_simulated_files() {
    passes(&mut Simulated::new("journal-sim", |_| {}));
}

#[test]
fn the_journal_passes_with_short_writes_and_eager_marks() {
    let mut factory = Simulated::new("journal-short", |options| {
        options.first_segment_bytes = 4 << 10;
        options.segment_bytes = 8 << 10;
        options.idle_mark = Some(Duration::ZERO);
    });
    factory.write_bytes_max = Some(700);
    passes(&mut factory);
}

/// The suite would notice: a journal that confirms before the sync does not pass.
#[test]
fn a_journal_that_confirms_before_the_sync_fails_the_suite() {
    let mut factory = Simulated::new("broken", |options| options.faults.confirm_before_sync = true);
    let rows = run(&mut factory);
    let failed = failures(IDS, "broken", &rows);
    assert!(failed.iter().any(|row| row.id == "F3" || row.id == "F4"), "{}", table(&rows));
}

#[test]
fn the_journal_passes_on_real_files() {
    passes(&mut Real::new(false, |_| {}));
}

#[test]
fn the_journal_passes_on_real_files_that_lose_what_is_not_synced() {
    passes(&mut Real::new(true, |_| {}));
}
