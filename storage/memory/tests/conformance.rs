//! Runs the conformance suite on the volatile backend, through one handle that outlives its claims.

mod factory;

use factory::Memory;
use framegate_storage::conformance::{IDS, failures, run, table};

#[test]
fn memory_passes_the_suite() {
    let rows = run(&mut Memory::small());
    println!("{}", table(&rows));
    let failed = failures(IDS, "memory", &rows);
    assert!(failed.is_empty(), "{}", table(&failed));
}
