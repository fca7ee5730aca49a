//! What becomes due: leases, waits, requeue delays, and the sweeps of topics.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Core;
use crate::ids::{ConnectionId, ConsumerId, QueueId};

/// Something that becomes due. What has been settled meanwhile is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A lease runs out.
    Lease(ConnectionId, ConsumerId, u64),
    /// A pull has waited long enough.
    Wait(u64),
    /// A requeue delay has passed.
    Requeue(QueueId, u64),
    /// Bodies that could not be read are read again.
    Reload(QueueId),
    /// Topics are looked at for events that are no longer kept.
    Sweep,
}

/// Timers by monotonic time in ms.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(u64, Timer)>>,
}

/// A pull whose time is over waits on in steps of so many ms while a body is being read for it.
const LOADING_MS: u64 = 10;
/// Timers that one pass handles.
const DUE_MAX: usize = 1024;

impl Timers {
    /// Adds one.
    pub(super) fn add(&mut self, due_ms: u64, timer: Timer) {
        self.heap.push(Reverse((due_ms, timer)));
    }
}

impl Core {
    /// Monotonic time in ms at which `timer` wants to be called.
    pub(crate) fn next_timer(&self) -> Option<u64> {
        self.timers.heap.peek().map(|t| t.0.0)
    }

    /// Handles what is due, a slice of it.
    pub(crate) fn timer(&mut self, now: super::Now) {
        self.now = super::Now { wall_ms: now.wall_ms.max(self.now.wall_ms), mono_ms: now.mono_ms };
        for _ in 0..DUE_MAX {
            let now_ms = self.now.mono_ms;
            let Some(due) = self.timers.heap.peek_mut().filter(|t| t.0.0 <= now_ms) else { return };
            let Reverse((_, timer)) = std::collections::binary_heap::PeekMut::pop(due);
            match timer {
                Timer::Lease(id, consumer, seq) => self.expire_lease(id, consumer, seq),
                Timer::Wait(waiter) if self.is_loading_for(waiter) => {
                    self.timers.add(self.now.mono_ms + LOADING_MS, timer);
                }
                Timer::Wait(waiter) => self.end_wait(waiter),
                Timer::Reload(queue) => self.reload(queue),
                Timer::Requeue(queue, seq) => self.requeue_due(queue, seq),
                Timer::Sweep => self.sweep_topics(),
            }
        }
    }
}
