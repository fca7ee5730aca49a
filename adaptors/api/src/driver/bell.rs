//! Rings when a socket may have something to read, for sockets where each look costs, and connections that are mostly woken
//! for their output. Silent means: the last look found nothing, and whoever it left its waker with has not called it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// One connection's bell. It has rung when it is new.
#[derive(Debug)]
pub(super) struct Bell {
    shared: Arc<Shared>,
    /// The bell, as the socket knows it.
    waker: Waker,
}

#[derive(Debug)]
struct Shared {
    rung: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // In this order: a task that registers in between sees the mark.
        self.rung.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl Bell {
    pub(super) fn new() -> Self {
        let shared = Arc::new(Shared { rung: AtomicBool::new(true), task: AtomicWaker::new() });
        Self { waker: Waker::from(Arc::clone(&shared)), shared }
    }

    /// Looks into the socket if the bell has rung; otherwise, or when the look finds nothing, the bell will wake the task.
    pub(super) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        look: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.shared.task.register(cx.waker());
        if !self.shared.rung.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let found = look(&mut Context::from_waker(&self.waker));
        if found.is_ready() {
            // There may be more, and nobody rings for it.
            self.shared.rung.store(true, Ordering::Release);
        }
        found
    }
}
