//! The process-wide budget of messages that are still arriving (design.md 5): 256 MiB for all connections together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Default size of the budget in bytes.
pub const UNFINISHED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Shared by all drivers and sessions of the process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct UnfinishedBudget {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    used: AtomicUsize,
    max: usize,
    room: Notify,
}

impl UnfinishedBudget {
    /// A budget of `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { inner: Arc::new(Inner { used: AtomicUsize::new(0), max, room: Notify::new() }) }
    }

    /// A reservation of nothing, to be grown.
    #[must_use]
    pub fn reservation(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }

    /// Bytes taken now.
    #[must_use]
    pub fn used(&self) -> usize {
        self.inner.used.load(Ordering::Relaxed)
    }

    /// Whether a socket with an unfinished message may be read now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.used() < self.inner.max
    }

    /// Waits until there is room again.
    pub async fn room(&self) {
        loop {
            let notified = self.inner.room.notified();
            if self.has_room() {
                return;
            }
            notified.await;
        }
    }
}

impl Default for UnfinishedBudget {
    fn default() -> Self {
        Self::new(UNFINISHED_BYTES_MAX)
    }
}

/// Bytes that one connection holds of unfinished messages. Given back on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: UnfinishedBudget,
    bytes: usize,
}

impl Reservation {
    /// Sets what is held. May pass the budget by what one read brought; then sockets are no longer read.
    pub fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.budget.inner.used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else if bytes < self.bytes {
            self.budget.inner.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            self.budget.inner.room.notify_waiters();
        }
        self.bytes = bytes;
    }

    /// What is held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.set(0);
    }
}
