//! Counters of this protocol, for the whole process. Plain atomics that only grow.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Events encoded for streams: once per event and output format, however many subscribers.
    pub(crate) sse_encoded: AtomicU64,
    /// Events encoded for WebSockets: once per event, however many subscribers.
    pub(crate) ws_encoded: AtomicU64,
    /// Events handed to subscribers of topics.
    pub(crate) delivered: AtomicU64,
    /// Events that were skipped because CloudEvents cannot carry them.
    pub(crate) undeliverable: AtomicU64,
    /// Attributes left out on the way out because CloudEvents has no legal form for them.
    pub(crate) dropped_attributes: AtomicU64,
    /// `source` or `dataschema` values with characters outside ASCII.
    pub(crate) iri_values: AtomicU64,
    /// `ce-datacontenttype` headers that were ignored.
    pub(crate) ignored_headers: AtomicU64,
}

/// The counters of this process.
pub(crate) static COUNTERS: Counters = Counters {
    sse_encoded: AtomicU64::new(0),
    ws_encoded: AtomicU64::new(0),
    delivered: AtomicU64::new(0),
    undeliverable: AtomicU64::new(0),
    dropped_attributes: AtomicU64::new(0),
    iri_values: AtomicU64::new(0),
    ignored_headers: AtomicU64::new(0),
};

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    /// Every counter with its name, in a fixed order.
    #[must_use]
    pub(crate) fn snapshot(&self) -> [(&'static str, u64); 7] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("sse_encoded", read(&self.sse_encoded)),
            ("ws_encoded", read(&self.ws_encoded)),
            ("delivered", read(&self.delivered)),
            ("undeliverable", read(&self.undeliverable)),
            ("dropped_attributes", read(&self.dropped_attributes)),
            ("iri_values", read(&self.iri_values)),
            ("ignored_headers", read(&self.ignored_headers)),
        ]
    }
}

/// The counters of this protocol in this process.
#[must_use]
pub(crate) fn counters() -> &'static Counters {
    &COUNTERS
}
