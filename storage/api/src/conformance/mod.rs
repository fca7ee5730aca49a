//! The suite that every backend passes, at the level of the log (groups L and F).
//!
//! A backend's test implements `Factory`, calls `run` and asserts that `failures` is empty. Cases that go
//! through the core (groups Q and T) are added by the broker with the same `Row`. A case never waits on
//! time alone: it waits for a report, and gives up after a generous deadline.

mod case;
mod durability;
mod factory;
mod faults;
mod ids;
mod log;
mod reports;
mod retention;
mod row;
mod runner;
mod sample;

pub use case::{Case, Stop, wait_until};
pub use factory::{Factory, Fault, Injected, Loss, Unsupported};
pub use ids::IDS;
pub use reports::Reports;
pub use row::{Outcome, Row, failures, table};
pub use runner::run;
pub use sample::{Sample, SampleRng};
