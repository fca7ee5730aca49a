//! Where the fold sits between two passes. A pass is run by one thread at a time: by the fold's own, or, when it sits idle and
//! little is to be done, by whoever brings that. What comes by a second thread meanwhile goes to the inbox.
//!
//! Owns who may run a pass and when the fold's thread is woken; it decides nothing. Nobody waits here but the fold's thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, OnceLock, TryLockError};
use std::thread::Thread;
use std::time::Duration;

use tokio::sync::oneshot;

use super::inbox::Inbox;
use super::{Clock, Core};
use crate::limits::{PASS_BYTES_MAX, PASS_REQUESTS_MAX};

/// What one pass needs.
pub(crate) struct Fold {
    pub(super) core: Core,
    pub(super) inbox: Receiver<Inbox>,
    pub(super) clock: Clock,
    /// Taken out of the inbox, and still to be done first.
    ahead: Option<Inbox>,
}

/// What comes behind a pass.
pub(super) enum Then {
    /// There is more to do.
    Again,
    /// Nothing for so long; None: until somebody wakes the thread.
    Idle(Option<Duration>),
    /// The orderly end.
    Stop(oneshot::Sender<()>),
    /// The end as after a kill.
    Abandon,
}

impl Fold {
    pub(super) fn new(core: Core, inbox: Receiver<Inbox>) -> Self {
        Self { core, inbox, clock: Clock::start(), ahead: None }
    }

    fn next(&mut self) -> Option<Inbox> {
        self.ahead.take().or_else(|| self.inbox.try_recv().ok())
    }

    fn is_idle(&mut self) -> bool {
        self.ahead = self.next();
        self.ahead.is_none() && !self.core.has_more()
    }

    /// A pass over what waits, if there is anything to do.
    pub(super) fn pass(&mut self) -> Then {
        let now = self.clock.now();
        let mut message = self.next();
        let is_due = self.core.next_timer().is_some_and(|due| due <= now.mono_ms);
        if message.is_none() && !is_due && !self.core.has_more() {
            let due = self.core.next_timer();
            return Then::Idle(due.map(|due| Duration::from_millis(due.saturating_sub(now.mono_ms))));
        }
        let (mut stop, mut taken) = (None, 0);
        while let Some(some) = message.take() {
            taken += match &some {
                Inbox::Batch(batch) => batch.tasks.len(),
                _ => 1,
            };
            match some {
                Inbox::Stop(reply) => {
                    stop = Some(reply);
                    break;
                }
                Inbox::Abandon => return Then::Abandon,
                some => self.core.take(some, now),
            }
            if taken >= PASS_REQUESTS_MAX || self.core.open_bytes() >= PASS_BYTES_MAX {
                break;
            }
            message = self.next();
        }
        self.core.timer(now);
        self.core.end_pass();
        match stop {
            Some(reply) => Then::Stop(reply),
            None => Then::Again,
        }
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Seat {
    /// None before the start, and once the fold has ended.
    fold: Mutex<Option<Fold>>,
    thread: OnceLock<Thread>,
    /// When the fold's thread wakes by itself, in monotonic ms.
    wakes_at: AtomicU64,
}

impl Seat {
    /// The fold's thread looks whether there is anything to do, now or when it goes to sleep next.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Runs a pass over a message on this thread, if the fold sits idle and `may` says so. Otherwise gives the message back.
    pub(crate) fn run(&self, message: Inbox, may: impl FnOnce(&Core) -> bool) -> Option<Inbox> {
        let mut seat = match self.fold.try_lock() {
            Ok(seat) => seat,
            // the fold's thread sees to the end of a fold that has panicked
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => return Some(message),
        };
        let Some(fold) = seat.as_mut() else { return Some(message) };
        if !fold.is_idle() || !may(&fold.core) {
            return Some(message);
        }
        let panicked = WakeOnPanic(self);
        fold.core.take(message, fold.clock.now());
        fold.core.end_pass();
        drop(panicked);
        let is_early = fold.core.next_timer().is_some_and(|due| due < self.wakes_at.load(Ordering::Acquire));
        let wakes = is_early || !fold.is_idle();
        drop(seat);
        if wakes {
            self.wake();
        }
        None
    }

    /// Sits the fold down. `thread` is the one that sees to it.
    pub(super) fn sit(&self, fold: Fold, thread: Thread) {
        let _ = self.thread.set(thread);
        if let Ok(mut seat) = self.fold.lock() {
            *seat = Some(fold);
        }
    }

    /// A pass on the fold's thread; None when there is no fold any more.
    pub(super) fn pass(&self) -> Option<(Then, Option<Fold>)> {
        let Ok(mut seat) = self.fold.lock() else {
            // half a pass is worse than none: everybody sees the end
            self.fold.clear_poison();
            drop(self.fold.lock().ok().and_then(|mut seat| seat.take()));
            return None;
        };
        let fold = seat.as_mut()?;
        let then = fold.pass();
        let due = fold.core.next_timer().unwrap_or(u64::MAX);
        // unless it goes to sleep it looks again at once
        let wakes_at = if matches!(then, Then::Idle(_)) { due } else { 0 };
        self.wakes_at.store(wakes_at, Ordering::Release);
        let leaves = matches!(then, Then::Stop(_) | Then::Abandon);
        let fold = if leaves { seat.take() } else { None };
        Some((then, fold))
    }
}

struct WakeOnPanic<'a>(&'a Seat);

impl Drop for WakeOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.wake();
        }
    }
}
