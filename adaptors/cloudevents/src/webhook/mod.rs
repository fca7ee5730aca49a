//! Web hooks: subscriptions whose events are posted to their owners' URLs (CloudEvents HTTP web hooks, Standard Webhooks).
//!
//! ```text
//! routes ──► engine ──► the queue framegate.webhooks (store): what subscriptions there are, durable
//!              │
//!              └─ one worker a subscription ──► consumer group of its topic: what was sent, retries, dead letters
//!                     └─ attempt: message, signature ──► sender: guard, connection ──► the receiver
//! ```
//!
//! What an answer means, when the next attempt is and which addresses are allowed is decided in pure files: `verdict`, `guard`,
//! `handshake`, `spec`.

mod attempt;
mod counters;
mod engine;
mod guard;
mod handshake;
mod history;
mod merge;
mod message;
mod record;
mod routes;
mod sender;
mod signature;
mod sink;
mod spec;
mod store;
mod verdict;
mod worker;

pub(crate) use counters::counters;
pub(crate) use guard::{Block, Guard};
pub(crate) use routes::router;
pub(crate) use sink::Sink;
