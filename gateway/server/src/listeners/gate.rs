//! The gate that every connection of the process passes: a permit before it is accepted, held until it is gone. It
//! knows how many connections are left, and tells when there is none.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::stats::ListenerStats;

/// Cheap to clone; all clones are one gate.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    permits: Arc<Semaphore>,
    alive: Arc<watch::Sender<()>>,
}

impl Gate {
    /// A gate for so many connections. Each of the `loops` that accept holds a permit while it waits, so
    /// that with several there may be one connection more for each but the first.
    pub(crate) fn new(connections_max: usize, loops: usize) -> Self {
        let permits = Semaphore::new(
            connections_max.saturating_add(loops.saturating_sub(1)).min(Semaphore::MAX_PERMITS),
        );
        Self { permits: Arc::new(permits), alive: Arc::new(watch::channel(()).0) }
    }

    /// Whether one more connection has to wait.
    pub(crate) fn is_full(&self) -> bool {
        self.permits.available_permits() == 0
    }

    /// Waits for room for one more connection. Cancel-safe.
    pub(crate) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).acquire_owned().await.ok()
    }

    /// A connection is there.
    pub(crate) fn hold(&self, permit: OwnedSemaphorePermit, stats: &Arc<ListenerStats>) -> Held {
        stats.accepted();
        Held { _permit: permit, _alive: self.alive.subscribe(), stats: Arc::clone(stats) }
    }

    /// Connections now.
    pub(crate) fn connections(&self) -> usize {
        self.alive.receiver_count()
    }

    /// Waits until no connection is left. Cancel-safe.
    pub(crate) async fn empty(&self) {
        self.alive.closed().await;
    }
}

/// One connection's place. Given back on drop.
#[derive(Debug)]
pub(crate) struct Held {
    _permit: OwnedSemaphorePermit,
    _alive: watch::Receiver<()>,
    stats: Arc<ListenerStats>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.stats.closed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_gate_counts_and_is_empty_when_the_last_is_gone() {
        let gate = Gate::new(2, 1);
        let stats = Arc::new(ListenerStats::new("toy"));
        gate.empty().await;
        let first = gate.hold(gate.permit().await.expect("room"), &stats);
        let second = gate.hold(gate.permit().await.expect("room"), &stats);
        assert_eq!(gate.connections(), 2);
        assert!(gate.is_full());
        drop(first);
        assert_eq!(gate.connections(), 1);
        assert_eq!(stats.snapshot()[1].2, 1);
        drop(second);
        gate.empty().await;
        assert_eq!(stats.snapshot()[0].2, 2);
    }
}
