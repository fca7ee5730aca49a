//! bunqueue: jobs for its producers and workers, MessagePack over TCP.
//!
//! Supported: the commands of `commands/table.rs`, which is the one list of them; `docs/bunqueue.md` says what each does, where
//! this server is better than the original, and what is not served yet.
//!
//! What does not survive a crossing:
//!
//! | from | to | lost |
//! |---|---|---|
//! | bunqueue | bunqueue | nothing; a `name` that came in the data stands beside it |
//! | bunqueue | others | that data is `undefined` (it is empty), the name "default"; MessagePack that JSON cannot say (bytes, dates, NaN) stays MessagePack, `tags`, `keepLogs`, `sizeLimit` and `debounce*` are not shown |
//! | others | bunqueue | every attribute and header but `type`, which is the job's name when it has at most 256 characters; the content type; digits of JSON numbers beyond 53 bits, names that come twice; whether text was JSON that could not be read |
//!
//! `tests/crossing.rs` asserts the table.

mod adaptor;
mod codec;
mod commands;
mod conversation;
mod fuzz;
mod job;
mod limits;
mod pending;
mod plugin;
mod reply;
mod session;

#[doc(hidden)]
pub use fuzz::{fuzz_packets, fuzz_value};
