//! Who calls the report: one group at a time, never from inside `append`.
//!
//! Owns the report of the live claim and the thread that settles blocks when the store is not paused.
//! Lock order: report first, then state; the state is never locked while a report runs.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use framegate_storage::{Report, ReportFn};

use crate::state::State;

/// Blocks that become durable at once when the store is not paused.
const GROUP_BLOCKS_MAX: usize = 64;

pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    pub(crate) report: Mutex<Option<ReportFn>>,
    /// Wakes the settling thread: appends, room, the end.
    pub(crate) wake: Condvar,
    /// Wakes who waits for blocks to be written: a settled group, the end of the claim.
    pub(crate) settled: Condvar,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Settles up to `blocks` blocks as one group and reports it on this thread. Returns how many.
    pub(crate) fn settle(&self, blocks: usize) -> usize {
        let mut report = lock(&self.report);
        let (count, reports) = lock(&self.state).settle(blocks);
        for event in reports {
            tell(&mut report, event);
        }
        self.settled.notify_all();
        count
    }
}

pub(crate) fn tell(report: &mut Option<ReportFn>, event: Report) {
    if let Some(report) = report.as_mut() {
        report(event);
    }
}

/// The settling thread; stopped and joined when dropped.
pub(crate) struct Reporter {
    shared: Arc<Shared>,
    stop: Arc<Mutex<bool>>,
    thread: Option<JoinHandle<()>>,
}

impl Reporter {
    pub(crate) fn start(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let stop = Arc::new(Mutex::new(false));
        let (for_thread, stop_seen) = (Arc::clone(shared), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("memory-store".to_owned())
            .spawn(move || run(&for_thread, &stop_seen))?;
        Ok(Self { shared: Arc::clone(shared), stop, thread: Some(thread) })
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        {
            let _state = lock(&self.shared.state);
            *lock(&self.stop) = true;
        }
        self.shared.wake.notify_all();
        let Some(thread) = self.thread.take() else { return };
        // The last handle may be dropped by a report, that is on this very thread.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, stop: &Mutex<bool>) {
    loop {
        {
            let mut state = lock(&shared.state);
            loop {
                if *lock(stop) {
                    return;
                }
                let blocked = state.failed.is_some() || (state.full && state.full_reported);
                if state.waiting() > 0 && !blocked {
                    break;
                }
                state.idle = true;
                state = shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle = false;
            }
        }
        shared.settle(GROUP_BLOCKS_MAX);
    }
}
