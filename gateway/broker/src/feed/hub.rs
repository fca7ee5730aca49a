//! The hub: wakes the subscriptions of large watches from a thread of its own, so that the fold never spends a
//! pass on handing thousands of tasks to a runtime. Owns that thread; never touches an event.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::watch::Watch;

/// Waiting subscriptions up to which a watch is woken by the caller itself: about 5 us.
const DIRECT_MAX: usize = 64;

/// See the module. Dropping it wakes what is queued and ends the thread.
#[derive(Debug)]
pub(crate) struct Hub {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    /// Each watch at most once: it marks itself.
    watches: Vec<Arc<Watch>>,
    stopped: bool,
}

/// Whether a watch stands in the hub's queue.
#[derive(Debug, Default)]
pub(super) struct Queued(AtomicBool);

impl Hub {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(crate) fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("feed-hub".to_owned()).spawn(move || of_thread.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Wakes the subscriptions that wait for events of the watch, now or soon. Once a pass, after the last `push`.
    /// Never waits for them.
    pub(crate) fn wake(&self, watch: &Arc<Watch>) {
        if watch.waiting() <= DIRECT_MAX {
            watch.wake();
        } else if !watch.queued().0.swap(true, Ordering::AcqRel) {
            self.shared.queue().watches.push(Arc::clone(watch));
            self.shared.filled.notify_one();
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.shared.queue().stopped = true;
        self.shared.filled.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic in a waker has been reported by its thread.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut batch = Vec::new();
        loop {
            let mut queue = self.queue();
            while queue.watches.is_empty() {
                if queue.stopped {
                    return;
                }
                queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            std::mem::swap(&mut queue.watches, &mut batch);
            drop(queue);
            for watch in batch.drain(..) {
                // Unmarked first: an event pushed from here on queues the watch again.
                watch.queued().0.store(false, Ordering::Release);
                watch.wake();
            }
        }
    }
}
