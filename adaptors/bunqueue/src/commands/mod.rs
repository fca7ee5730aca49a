//! The commands: their names in one table, and what their fields mean. Never asks the broker.

mod consume;
mod fields;
mod options;
mod queue_name;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use consume::{Done, Failed, Held, Pull, ack, ack_all, held_all, lock_ms, progress};
pub(crate) use fields::{Fields, Range, Refusal, units};
pub(crate) use options::{BackoffKind, JobInput, checked_data, with_name};
pub(crate) use queue_name::{any_queue, checked_queue};
pub(crate) use table::{Command, Op, command};
