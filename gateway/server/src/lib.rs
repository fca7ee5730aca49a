//! The framegate server: configuration, listeners, HTTP host, authentication, telemetry, command line.
//!
//! It wires what is linked in and names no protocol. A binary with protocols of its own needs three lines:
//!
//! ```text
//! use my_protocol as _;
//! fn main() -> std::process::ExitCode {
//!     framegate::main()
//! }
//! ```

mod auth;
mod cli;
mod client;
mod config;
mod entry;
mod exit;
mod files;
mod http;
mod listeners;
mod log;
mod metrics;
mod offline;
mod serve;
mod shutdown;
mod storage;

#[cfg(feature = "bundle")]
use framegate_adaptors as _;

pub use entry::main;
