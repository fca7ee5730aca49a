//! AMQP 0-9-1 with RabbitMQ's extensions: what RabbitMQ's clients send and expect. One method table, `codec/methods.rs`, holds
//! every method; `session/` is the connection, its channels and what they wait for; `adaptor.rs` converts messages.
//!
//! Supported: everything of `docs/amqp.md`. Not supported: TLS and so EXTERNAL, `immediate`, `channel.flow` to stop, recover
//! without requeue, prefetch by bytes (each refused as RabbitMQ refuses it), policies, the management API.
//!
//! What becomes of a message:
//!
//! | AMQP | frame and envelope |
//! |---|---|
//! | body | data, byte for byte |
//! | `content-type` | `datacontenttype` |
//! | `message-id` | `id` |
//! | `type` | `type` |
//! | `timestamp` (s) | `time` |
//! | `correlation-id` | `emcorrelationid` |
//! | `reply-to` | `replyto` |
//! | `delivery-mode` 2 | envelope: persistent |
//! | `priority`, `expiration` | envelope: priority, time to live |
//! | `user-id` (must be the login) | envelope: publisher |
//! | headers `CC`, `BCC` | envelope: routing keys; `BCC` is removed |
//! | all flags and values, headers with their letters and order | `~amqp`, left out when it would be empty or only delivery mode 2 |
//!
//! What does not survive a crossing:
//!
//! | from | to | lost |
//! |---|---|---|
//! | AMQP | AMQP | nothing; deaths, `x-delivery-count` and direct replies change headers and properties as RabbitMQ changes them |
//! | AMQP | others | `content-encoding`, `app-id`, `cluster-id`, a `user-id`; tables and arrays in headers become JSON text |
//! | others | AMQP | `specversion`; `source`, `subject` and `dataschema` are headers `cloudEvents:source` and so on; fractions of seconds in `time`; ids, types and keys above 255 bytes become headers |
//! | others | AMQP | messages whose properties do not fit a frame: settled as undeliverable |
//!
//! `tests/crossing.rs` asserts the table.

mod adaptor;
mod arguments;
mod codec;
mod deaths;
mod failure;
mod fuzz;
mod headers;
mod incoming;
mod limits;
mod outgoing;
mod plugin;
mod session;
mod settings;

pub use fuzz::{fuzz_content_header, fuzz_frames, fuzz_method, fuzz_table};
