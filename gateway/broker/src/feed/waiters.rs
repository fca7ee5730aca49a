//! Tasks that wait for a watch. A slot per subscription; waking costs nothing for those that do not wait.

use std::task::Waker;

/// A subscription's place among the waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(u32);

#[derive(Debug, Default)]
struct Place {
    waker: Option<Waker>,
    /// Stands in `waiting`.
    listed: bool,
}

/// Wakers by slot.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Slots to wake for the next event.
    waiting: Vec<u32>,
}

impl Waiters {
    pub(super) fn join(&mut self) -> Slot {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() as u32 - 1
        });
        Slot(at)
    }

    /// Gives the slot up. It may still be listed: a later owner is then woken once for nothing.
    pub(super) fn leave(&mut self, slot: Slot) {
        self.places[slot.0 as usize].waker = None;
        self.free.push(slot.0);
    }

    /// Wakes `waker` when the watch closes and, if `events`, when the next event comes.
    pub(super) fn wait(&mut self, slot: Slot, waker: &Waker, events: bool) {
        let place = &mut self.places[slot.0 as usize];
        match &mut place.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        if events && !place.listed {
            place.listed = true;
            self.waiting.push(slot.0);
        }
    }

    /// Subscriptions that wait for the next event.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Moves the wakers of all that wait for events to `into`.
    pub(super) fn take_waiting(&mut self, into: &mut Vec<Waker>) {
        for at in self.waiting.drain(..) {
            let place = &mut self.places[at as usize];
            place.listed = false;
            into.extend(place.waker.take());
        }
    }

    /// Moves all wakers to `into`.
    pub(super) fn take_all(&mut self, into: &mut Vec<Waker>) {
        self.take_waiting(into);
        into.extend(self.places.iter_mut().filter_map(|place| place.waker.take()));
    }
}
