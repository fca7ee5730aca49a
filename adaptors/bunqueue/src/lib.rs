//! bunqueue.

mod adaptor;
mod codec;
mod commands;
mod conversation;
mod fuzz;
mod limits;
mod pending;
mod plugin;
mod reply;
mod session;

#[doc(hidden)]
pub use fuzz::{fuzz_packets, fuzz_value};
