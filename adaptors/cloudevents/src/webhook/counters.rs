//! Counters of web hooks, for the whole process. Plain atomics that only grow.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start.
pub(crate) struct HookCounters {
    /// Requests that were begun.
    pub(crate) attempts: AtomicU64,
    /// Events that receivers have taken.
    pub(crate) delivered: AtomicU64,
    /// Events that wait for another attempt behind a failed one.
    pub(crate) retried: AtomicU64,
    /// Events that were given up: dead letters.
    pub(crate) rejected: AtomicU64,
    /// Events that no filter of their subscription let through.
    pub(crate) filtered: AtomicU64,
    /// Attempts that no address was allowed for.
    pub(crate) refused_addresses: AtomicU64,
    /// Attempts after which the receiver is left alone for a while.
    pub(crate) throttled: AtomicU64,
    /// Subscriptions that were disabled.
    pub(crate) disabled: AtomicU64,
    /// Handshakes without consent.
    pub(crate) refused_handshakes: AtomicU64,
}

/// The counters of this process.
pub(crate) static COUNTERS: HookCounters = HookCounters {
    attempts: AtomicU64::new(0),
    delivered: AtomicU64::new(0),
    retried: AtomicU64::new(0),
    rejected: AtomicU64::new(0),
    filtered: AtomicU64::new(0),
    refused_addresses: AtomicU64::new(0),
    throttled: AtomicU64::new(0),
    disabled: AtomicU64::new(0),
    refused_handshakes: AtomicU64::new(0),
};

/// Every counter with its name, in a fixed order.
pub(crate) fn counters() -> Vec<(&'static str, u64)> {
    let all = &COUNTERS;
    [
        ("webhook_attempts", &all.attempts),
        ("webhook_delivered", &all.delivered),
        ("webhook_retried", &all.retried),
        ("webhook_rejected", &all.rejected),
        ("webhook_filtered", &all.filtered),
        ("webhook_refused_addresses", &all.refused_addresses),
        ("webhook_throttled", &all.throttled),
        ("webhook_disabled", &all.disabled),
        ("webhook_refused_handshakes", &all.refused_handshakes),
    ]
    .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
    .into()
}
