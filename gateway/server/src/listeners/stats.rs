//! Counters of one listener. Plain atomics; `/metrics` prints them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use framegate_adaptor_api::DriverMetrics;

/// What happened on one listener since the start.
#[derive(Debug)]
pub(crate) struct ListenerStats {
    name: &'static str,
    accepted: AtomicU64,
    closed: AtomicU64,
    accept_errors: AtomicU64,
    shed: AtomicU64,
    driver: Arc<DriverMetrics>,
}

impl ListenerStats {
    /// Counters of the listener of that name.
    pub(crate) fn new(name: &'static str) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            name,
            accepted: zero(),
            closed: zero(),
            accept_errors: zero(),
            shed: zero(),
            driver: Arc::default(),
        }
    }

    /// The listener.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Counters of its sessions, on sockets and WebSockets.
    pub(crate) fn driver(&self) -> &Arc<DriverMetrics> {
        &self.driver
    }

    /// A connection was accepted.
    pub(crate) fn accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection is gone.
    pub(crate) fn closed(&self) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }

    /// Accepting failed.
    pub(crate) fn accept_error(&self) {
        self.accept_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// A request or stream was refused because there were too many.
    pub(crate) fn shed(&self) {
        self.shed.fetch_add(1, Ordering::Relaxed);
    }

    /// (metric, help, value), in the same order for every listener.
    pub(crate) fn snapshot(&self) -> Vec<(&'static str, &'static str, u64)> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        // Closed first: a connection that ends in between is then counted as open, never as minus one.
        let closed = read(&self.closed);
        let accepted = read(&self.accepted);
        let driver = &self.driver;
        vec![
            ("connections", "Connections accepted", accepted),
            ("connections_open", "Connections open now", accepted.saturating_sub(closed)),
            ("accept_errors", "Failures to accept a connection", read(&self.accept_errors)),
            ("shed", "Requests and streams refused because there were too many", read(&self.shed)),
            ("sessions", "Sessions started", read(&driver.connections_total)),
            ("sessions_open", "Sessions open now", read(&driver.connections_open)),
            ("bytes_in", "Bytes that sessions read", read(&driver.bytes_in_total)),
            ("bytes_out", "Bytes that sessions wrote", read(&driver.bytes_out_total)),
            ("reads", "Reads that brought something", read(&driver.reads_total)),
            ("logins_refused", "Logins refused", read(&driver.refused_total)),
            ("slow_closed", "Sessions closed because the peer took nothing", read(&driver.slow_closed_total)),
            (
                "stalled_closed",
                "Sessions closed because a message did not end",
                read(&driver.stalled_closed_total),
            ),
            ("panics", "Sessions that panicked", read(&driver.panics_total)),
        ]
    }
}
