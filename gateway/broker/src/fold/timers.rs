//! What becomes due: leases, waits, requeue delays, and the sweeps of topics.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Core;
use super::live::IdMap;
use crate::ids::{ConnectionId, ConsumerId, QueueId};
use crate::state::VOLATILE_BIT;

/// Something that becomes due. What has been settled meanwhile is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A lease of a holder runs out.
    Lease(ConnectionId, ConsumerId),
    /// An attempt of a job takes too long: which place, and when it began.
    JobTimeout(QueueId, u64, u64),
    /// A queue may hand out one more.
    Look(QueueId),
    /// Somebody has waited long enough for a job.
    JobWait(u64),
    /// A pull has waited long enough.
    Wait(u64),
    /// A requeue delay has passed.
    Requeue(QueueId, u64),
    /// An early message's time has come for its exchange.
    Parked(QueueId, u64),
    /// Failed events of a group are tried again.
    Retry(QueueId),
    /// Bodies that could not be read are read again.
    Reload(QueueId),
    /// A queue may have been unused for long enough.
    Unused(QueueId),
    /// A message of a queue expires.
    Expire(QueueId),
    /// How far queues have been delivered is noted.
    Mark,
    /// The shard may have become idle.
    Idle,
    /// Topics are looked at for events that are no longer kept.
    Sweep,
    /// A snapshot is due.
    Snapshot,
    /// The next survivors are written again.
    Move,
}

impl Timer {
    /// The volatile queue that it is of.
    fn volatile_queue(self) -> Option<QueueId> {
        match self {
            Self::Requeue(queue, _)
            | Self::Parked(queue, _)
            | Self::Retry(queue)
            | Self::Reload(queue)
            | Self::Unused(queue)
            | Self::Expire(queue)
            | Self::Look(queue)
            | Self::JobTimeout(queue, ..) => Some(queue).filter(|q| q.0 & VOLATILE_BIT != 0),
            Self::Lease(..)
            | Self::JobWait(_)
            | Self::Wait(_)
            | Self::Mark
            | Self::Idle
            | Self::Sweep
            | Self::Snapshot
            | Self::Move => None,
        }
    }
}

/// Timers by monotonic time in ms.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(u64, Timer)>>,
    /// How many of them are of which volatile queue.
    of: IdMap<QueueId, u32>,
}

/// Timers that one pass handles.
const DUE_MAX: usize = 1024;

impl Timers {
    /// Adds one.
    pub(super) fn add(&mut self, due_ms: u64, timer: Timer) {
        if let Some(queue) = timer.volatile_queue() {
            *self.of.entry(queue).or_default() += 1;
        }
        self.heap.push(Reverse((due_ms, timer)));
    }

    /// One has been taken out.
    fn taken(&mut self, timer: Timer) {
        if let Some(queue) = timer.volatile_queue()
            && let Some(count) = self.of.get_mut(&queue)
        {
            *count -= 1;
            if *count == 0 {
                self.of.remove(&queue);
            }
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether there is one of a volatile queue.
    pub(super) fn refer_to(&self, queue: QueueId) -> bool {
        self.of.contains_key(&queue)
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
            self.timers.taken(timer);
            match timer {
                Timer::Lease(id, consumer) => self.expire_leases(id, consumer),
                Timer::JobTimeout(queue, seq, began_ms) => self.job_timeout(queue, seq, began_ms),
                Timer::Look(queue) => self.mark_dirty(queue),
                Timer::JobWait(number) => self.job_wait_over(number),
                Timer::Wait(waiter) => self.wait_over(waiter),
                Timer::Reload(queue) => self.reload(queue),
                Timer::Parked(queue, seq) => self.park_due(queue, seq),
                Timer::Retry(group) => self.retry_due(group),
                Timer::Requeue(queue, seq) => self.requeue_due(queue, seq),
                Timer::Unused(queue) => self.expire_queue(queue),
                Timer::Expire(queue) => self.expire_head(queue),
                Timer::Mark => {
                    self.mark_timer = false;
                    self.mark_delivered();
                }
                Timer::Idle => self.maybe_idle(),
                Timer::Sweep => self.sweep_topics(),
                Timer::Snapshot => self.snapshot_due(),
                Timer::Move => self.move_next(),
            }
        }
    }
}
