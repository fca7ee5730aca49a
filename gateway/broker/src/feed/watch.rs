//! A watch: the live side of one set of patterns. The fold pushes events and wakes once a pass; any number of
//! subscriptions read at their own pace. Never waits for a reader, never reads the store.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use framegate_storage::Lsn;

use super::hub::Queued;
use super::ring::Ring;
use super::waiters::{Slot, Waiters};
use crate::ids::WatchId;
use crate::message::SharedEvent;

/// Frame bytes that the rings of all watches hold together; above it each keeps a small share. An event in two
/// rings counts twice.
pub(crate) const RINGS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What all rings hold together, in frame bytes.
#[derive(Debug, Default)]
pub(crate) struct RingBudget(AtomicUsize);

/// See the module.
#[derive(Debug)]
pub(crate) struct Watch {
    id: WatchId,
    budget: Arc<RingBudget>,
    state: Mutex<State>,
    queued: Queued,
    /// Buffer of `wake`, kept for its memory.
    woken: Mutex<Vec<Waker>>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) ring: Ring,
    pub(super) waiters: Waiters,
    pub(super) closed: bool,
}

impl Watch {
    /// A watch without events. `floor`: a position such that every kept event above it that matches will be pushed; the
    /// store can be read up to it.
    pub(crate) fn new(id: WatchId, floor: Lsn, budget: &Arc<RingBudget>) -> Arc<Self> {
        let state = State { ring: Ring::new(floor), waiters: Waiters::default(), closed: false };
        Arc::new(Self {
            id,
            budget: Arc::clone(budget),
            state: Mutex::new(state),
            queued: Queued::default(),
            woken: Mutex::default(),
        })
    }

    /// Its id.
    pub(crate) fn id(&self) -> WatchId {
        self.id
    }

    /// Adds events in order of position; wakes nobody. Returns how many.
    pub(crate) fn push(&self, events: impl IntoIterator<Item = SharedEvent>) -> usize {
        let mut state = self.state();
        let mut count = 0;
        for event in events {
            let before = state.ring.bytes();
            let tight = self.budget.bytes() > RINGS_BYTES_MAX;
            state.ring.push(event, tight);
            self.budget.change(before, state.ring.bytes());
            count += 1;
        }
        count
    }

    /// Wakes the subscriptions that wait for events, on the calling thread: some 80 ns each. The fold leaves it to
    /// `Hub::wake`.
    pub(crate) fn wake(&self) {
        self.wake_taken(Waiters::take_waiting);
    }

    /// No more events come: subscriptions read what is left, then end.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.wake_taken(Waiters::take_all);
    }

    /// Moves the wakers of the subscriptions that wait for events to `into`; the caller has to wake them.
    pub(super) fn take_waiting(&self, into: &mut Vec<Waker>) {
        self.state().waiters.take_waiting(into);
    }

    /// Subscriptions that wait for the next event.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiters.waiting()
    }

    pub(super) fn queued(&self) -> &Queued {
        &self.queued
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn join(&self) -> Slot {
        self.state().waiters.join()
    }

    pub(super) fn leave(&self, slot: Slot) {
        self.state().waiters.leave(slot);
    }

    fn wake_taken(&self, take: fn(&mut Waiters, &mut Vec<Waker>)) {
        let spare = || self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut woken = std::mem::take(&mut *spare());
        take(&mut self.state().waiters, &mut woken);
        // No lock is held here: whoever is woken may read at once.
        woken.drain(..).for_each(Waker::wake);
        *spare() = woken;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let bytes = self.state().ring.bytes();
        self.budget.change(bytes, 0);
    }
}

impl RingBudget {
    /// Frame bytes held now.
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn change(&self, before: usize, after: usize) {
        if after >= before {
            self.0.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.0.fetch_sub(before - after, Ordering::Relaxed);
        }
    }
}
