//! Which function is which id, for the cases that go through the core. A panic is a failed row.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use framegate_storage::conformance::{Outcome, Row};

use crate::home::Home;
use crate::{counts, crashes, depth, determinism, groups, leases, priorities, queues, times, topics};

/// Ids in the order of the table.
pub(crate) const IDS: &[&str] =
    &["Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q9", "Q11", "Q12", "T1", "T2", "T3", "F1", "F7"];

/// A case that waits for something that does not come ends then.
const DEADLINE: Duration = Duration::from_secs(120);

/// Runs one case; the row, and what it says beside.
pub(crate) fn run(id: &'static str, home: &mut Home) -> (Row, String) {
    let backend = home.backend().to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    let runtime = runtime.expect("a runtime");
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let case = async {
                match id {
                    "Q1" => Box::pin(queues::q1_order_and_dead_letters(home)).await,
                    "Q2" => Box::pin(leases::q2_lost_connections(home)).await,
                    "Q3" => Box::pin(leases::q3_prefetch_and_settling(home)).await,
                    "Q4" => Box::pin(priorities::q4_priorities(home)).await,
                    "Q5" => Box::pin(times::q5_delays(home)).await,
                    "Q6" => Box::pin(times::q6_times_to_live_and_limits(home)).await,
                    "Q9" => Box::pin(queues::q9_purge_and_delete(home)).await,
                    "Q11" => Box::pin(counts::q11_counts(home)).await,
                    "Q12" => Box::pin(depth::q12_deep_queue(home)).await,
                    "T1" => Box::pin(topics::t1_offsets_and_retention(home)).await,
                    "T2" => Box::pin(groups::t2_groups(home)).await,
                    "T3" => Box::pin(topics::t3_resume(home)).await,
                    "F1" => Box::pin(crashes::f1_kills(home)).await,
                    "F7" => Box::pin(determinism::f7_same_log_same_state(home)).await,
                    other => panic!("no case has the id {other}"),
                }
            };
            let note = tokio::time::timeout(DEADLINE, Box::pin(case)).await.expect("it ends in time");
            home.end().await;
            note
        })
    }));
    let (outcome, note) = match attempt {
        Ok(note) => (Outcome::Passed, note),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            (Outcome::Failed(format!("panicked: {text}")), String::new())
        }
    };
    (Row { id, backend, outcome }, note)
}
