//! MessageX: framed JSON over TCP.
//!
//! Supported: protocol version 1 as on its page (framing, envelopes, QUEUE_DECLARE, MESSAGE_DELIVERED), and the commands, events
//! and codes of `docs/messagex.md`, which complete it; HTTP health and lists on a listener of their own. One table,
//! `commands/table.rs`, holds every name.
//!
//! Not supported: queue arguments that the broker does not act on (refused with `NOT_IMPLEMENTED`), consuming a name that is
//! only a topic (`QUEUE_NOT_FOUND`), bodies that do not fit a packet of 1 MiB.
//!
//! What does not survive a crossing:
//!
//! | from | to | lost |
//! |---|---|---|
//! | MessageX | MessageX | white space in JSON, and the order of `properties` when attributes and envelope say them all |
//! | MessageX | others | `contentEncoding`, `appId`, `userId` that is not the login, unknown properties; arrays and objects in headers become JSON text |
//! | others | MessageX | nested header tables, `specversion`; bytes in headers become base64 text; a body that is text or JSON is marked by nothing but its content type |
//! | others | MessageX | messages whose JSON is larger than a packet: settled as undeliverable |
//!
//! `tests/crossing.rs` asserts the table.

mod adaptor;
mod body;
mod codec;
mod commands;
mod consumers;
mod conversation;
mod delivery;
mod envelope;
mod errors;
mod headers;
mod http;
mod json;
mod limits;
mod outgoing;
mod pending;
mod plugin;
mod properties;
mod schema;
mod session;
mod settings;
mod unsettled;
