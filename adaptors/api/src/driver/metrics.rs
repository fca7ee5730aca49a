//! Counters of one listener. Written by its connections, printed by the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the connections of one listener did. All but `connections_open` only grow.
#[derive(Debug, Default)]
pub struct DriverMetrics {
    /// Connections open now.
    pub connections_open: AtomicU64,
    /// Connections opened.
    pub connections_total: AtomicU64,
    /// Bytes read; payload bytes for WebSockets.
    pub bytes_in_total: AtomicU64,
    /// Bytes written; payload bytes for WebSockets.
    pub bytes_out_total: AtomicU64,
    /// Reads of a socket that brought something, or WebSocket messages.
    pub reads_total: AtomicU64,
    /// Logins refused.
    pub refused_total: AtomicU64,
    /// Connections closed because the peer took nothing.
    pub slow_closed_total: AtomicU64,
    /// Connections closed because a message or a pong did not come.
    pub stalled_closed_total: AtomicU64,
    /// Sessions that panicked.
    pub panics_total: AtomicU64,
}

impl DriverMetrics {
    pub(super) fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Ordering::Relaxed);
    }

    /// Counts a connection for as long as the guard lives.
    pub(super) fn open(self: &Arc<Self>) -> OpenGuard {
        Self::add(&self.connections_open, 1);
        Self::add(&self.connections_total, 1);
        OpenGuard(Arc::clone(self))
    }
}

pub(super) struct OpenGuard(Arc<DriverMetrics>);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.connections_open.fetch_sub(1, Ordering::Relaxed);
    }
}
