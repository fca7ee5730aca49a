//! CloudEvents over HTTP: publishing in three modes, Server-Sent Events, problems and cross-origin rules.

pub(crate) mod about;
mod acks;
pub(crate) mod body;
mod call;
mod clocks;
pub(crate) mod cors;
mod dedup;
pub(crate) mod group;
mod header;
mod poll;
pub(crate) mod problem;
pub(crate) mod publish;
pub(crate) mod query;
pub(crate) mod resume;
mod routes;
pub(crate) mod sse;
mod sse_body;
mod sse_encode;
mod sse_filter;
mod sse_queue;

pub(crate) use routes::{now_ms, router};

/// A media type without parameters.
fn media_type(text: &str) -> &str {
    text.split(';').next().unwrap_or_default().trim()
}
