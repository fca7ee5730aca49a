//! Runs the listed cases on one backend, each in a store of its own; a panic is a failed row.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::case::{Case, Stop};
use super::factory::Factory;
use super::ids::IDS;
use super::row::{Outcome, Row};
use super::{durability, faults, log, retention};

fn case(id: &str) -> Option<Case> {
    Some(match id {
        "L1" => log::l1_read_back,
        "L2" => log::l2_order,
        "L3" => log::l3_size_limits,
        "L4" => log::l4_caller_goes_away,
        "L5" => retention::l5_fetch,
        "L6" => retention::l6_trim,
        "L7" => retention::l7_snapshots,
        "L8" => durability::l8_classes,
        "L9" => durability::l9_no_room,
        "F2" => faults::f2_torn_and_flipped,
        "F3" => durability::f3_unsynced_dropped,
        "F4" => faults::f4_failed_sync,
        "F6" => faults::f6_formats,
        _ => return None,
    })
}

/// One row for each listed id.
pub fn run(factory: &mut dyn Factory) -> Vec<Row> {
    let mut rows = Vec::with_capacity(IDS.len());
    for (id, _) in IDS {
        let outcome = match case(id) {
            Some(case) => attempt(case, factory),
            None => Outcome::Failed("no case has this id".to_owned()),
        };
        rows.push(Row { id, backend: factory.backend(), outcome });
    }
    rows
}

fn attempt(case: Case, factory: &mut dyn Factory) -> Outcome {
    match catch_unwind(AssertUnwindSafe(|| case(factory))) {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(Stop::NotApplicable(reason))) => Outcome::NotApplicable(reason),
        Ok(Err(Stop::Failed(reason))) => Outcome::Failed(reason),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Outcome::Failed(format!("panicked: {text}"))
        }
    }
}
