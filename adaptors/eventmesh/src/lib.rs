//! EventMesh: packages of JSON over TCP, and its adaptors.
//!
//! Supported: both ways to count a package's length, decided per connection; every command of the published clients; bodies as
//! MeshMessage or as CloudEvent, chosen for each subscriber; groups (CLUSTERING) and BROADCASTING; request and reply; heartbeats,
//! windows, goodbye both ways. The adaptors `meshmessage` and `a2a`. `docs/eventmesh.md` has the details.
//!
//! What does not survive a crossing:
//!
//! | from | to | lost |
//! |---|---|---|
//! | MeshMessage | MeshMessage | names that properties may not set (`id`, `source`, `type`, `subject`, ...), `null` values; which of `properties` and `headers` a name stood in; the package's other header properties |
//! | MeshMessage | others | nothing else |
//! | others | MeshMessage | `id`, `source`, `type`, `time`, content type and schema; types of headers, which become text; nested headers |
//! | others | MeshMessage | a body that is no text becomes base64, and property `bodyencoding` says so |
//! | others | any | messages that do not fit a package of 4 MiB: settled as undeliverable |
//!
//! `tests/crossing.rs` asserts the table.

mod a2a;
mod agent;
mod command;
mod format;
mod header;
mod limits;
mod mesh;
mod package;
mod plugin;
mod session;
mod settings;
mod text;
mod topics;
