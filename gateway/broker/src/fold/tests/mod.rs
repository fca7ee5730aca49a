//! The core alone: time is injected, durability is steered by hand, no thread decides anything.

mod answers;
mod browse;
mod dead_letters;
mod delayed;
mod due;
mod events;
mod exchanges;
mod feeds;
mod found;
mod group_modes;
mod groups;
mod holding;
mod ids;
mod job_limits;
mod jobs;
mod jobs_many;
mod keeping;
mod limits;
mod log;
mod priorities;
pub(super) mod rig;
mod seat;
mod single;
pub(super) mod store;
mod times;
mod usage;
mod volatile_ids;
