//! The hub: wakes the subscriptions of large watches from a task of the runtime that they live on, so that the fold never spends a
//! pass on handing thousands of tasks over, and each is woken by a thread that may run it next. Never touches an event.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use tokio::sync::Notify;

use super::watch::Watch;

/// Waiting subscriptions up to which a watch is woken by the caller itself: about 5 us.
const DIRECT_MAX: usize = 64;
/// Subscriptions that the hub wakes before the runtime runs what it woke: their queue stays short, and other threads find
/// some to take.
const BATCH: usize = 64;

/// See the module. Cheap to clone; all clones are one hub.
#[derive(Debug, Default, Clone)]
pub(crate) struct Hub(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    /// Each watch at most once: it marks itself.
    watches: Vec<Arc<Watch>>,
    /// Tasks that run the hub; without one the caller does all the waking.
    runners: usize,
}

/// Whether a watch stands in the hub's queue.
#[derive(Debug, Default)]
pub(super) struct Queued(AtomicBool);

impl Hub {
    /// Wakes the subscriptions that wait for events of the watch, now or soon. Once a pass, after the last `push`.
    /// Never waits for them.
    pub(crate) fn wake(&self, watch: &Arc<Watch>) {
        if watch.waiting() > DIRECT_MAX && self.0.takes(watch) {
            self.0.filled.notify_one();
        } else {
            watch.wake();
        }
    }

    /// Runs the hub until it is dropped; then whoever it owed a wake-up has got it.
    pub(crate) async fn run(self) {
        let running = Running::new(&self.0);
        let mut woken = Woken(Vec::new());
        loop {
            running.0.filled.notified().await;
            while let Some(watch) = running.0.next() {
                watch.take_waiting(&mut woken.0);
                drop(watch);
                while woken.wake(BATCH) {
                    yield_now().await;
                }
            }
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a watch, unless nobody would come for it.
    fn takes(&self, watch: &Arc<Watch>) -> bool {
        let mut queue = self.queue();
        if queue.runners > 0 && !watch.queued().0.swap(true, Ordering::AcqRel) {
            queue.watches.push(Arc::clone(watch));
        }
        queue.runners > 0
    }

    fn next(&self) -> Option<Arc<Watch>> {
        let watch = self.queue().watches.pop()?;
        // Unmarked first: an event pushed from here on queues the watch again.
        watch.queued().0.store(false, Ordering::Release);
        Some(watch)
    }
}

/// One task that runs the hub.
struct Running<'a>(&'a Shared);

impl<'a> Running<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.queue().runners += 1;
        Self(shared)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.queue().runners -= 1;
        while let Some(watch) = self.0.next() {
            watch.wake();
        }
    }
}

/// Subscriptions that are due to be woken, and are when this is dropped.
struct Woken(Vec<Waker>);

impl Woken {
    /// Wakes so many; false when none is left.
    fn wake(&mut self, many: usize) -> bool {
        let kept = self.0.len().saturating_sub(many);
        self.0.drain(kept..).for_each(Waker::wake);
        kept > 0
    }
}

impl Drop for Woken {
    fn drop(&mut self) {
        self.wake(usize::MAX);
    }
}

/// Lets what was woken run.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
