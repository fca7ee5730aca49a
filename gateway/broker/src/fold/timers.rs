//! What becomes due: leases, waits, requeue delays, and the sweeps of topics.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap};

use super::Core;
use crate::ids::{ConnectionId, ConsumerId, QueueId};

/// Something that becomes due. What has been settled meanwhile is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A lease of a holder runs out.
    Lease(ConnectionId, ConsumerId),
    /// An attempt of a job takes too long: which place, and when it began.
    JobTimeout(QueueId, u64, u64),
    /// The worker of an attempt may have been silent for too long: which place, and when it began.
    JobSilence(QueueId, u64, u64),
    /// Dead jobs of a queue are looked at.
    DeadJobs(QueueId),
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

/// What timers are of, and what they go with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Owner {
    Queue(QueueId),
    Connection(ConnectionId),
}

impl Timer {
    fn owner(self) -> Option<Owner> {
        match self {
            Self::Requeue(queue, _)
            | Self::Parked(queue, _)
            | Self::Retry(queue)
            | Self::Reload(queue)
            | Self::Unused(queue)
            | Self::Expire(queue)
            | Self::Look(queue)
            | Self::DeadJobs(queue)
            | Self::JobSilence(queue, ..)
            | Self::JobTimeout(queue, ..) => Some(Owner::Queue(queue)),
            Self::Lease(connection, _) => Some(Owner::Connection(connection)),
            Self::JobWait(_)
            | Self::Wait(_)
            | Self::Mark
            | Self::Idle
            | Self::Sweep
            | Self::Snapshot
            | Self::Move => None,
        }
    }
}

/// The timers of one life of an owner.
#[derive(Debug)]
struct Life {
    /// Unlike that of any other.
    number: u64,
    timers: usize,
}

/// Timers by monotonic time in ms. Those of an owner that is gone are passed over, and cleared away when they are half of
/// all: an id that is given again has nothing to do with them.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Time, what is due, and its owner's life.
    heap: BinaryHeap<Reverse<(u64, Timer, u64)>>,
    lives: HashMap<Owner, Life>,
    /// Lives so far.
    count: u64,
    /// Timers of lives that are over.
    stale: usize,
}

/// Timers that one pass handles.
const DUE_MAX: usize = 1024;
/// Stale timers that are worth clearing away.
const STALE_MIN: usize = 64;

impl Timers {
    /// Adds one.
    pub(super) fn add(&mut self, due_ms: u64, timer: Timer) {
        let life = timer.owner().map_or(0, |owner| {
            let life = self.lives.entry(owner).or_insert_with(|| {
                self.count += 1;
                Life { number: self.count, timers: 0 }
            });
            life.timers += 1;
            life.number
        });
        self.heap.push(Reverse((due_ms, timer, life)));
    }

    /// The next one that is due by then.
    fn pop_due(&mut self, now_ms: u64) -> Option<Timer> {
        while let Some(due) = self.heap.peek_mut().filter(|t| t.0.0 <= now_ms) {
            let Reverse((_, timer, number)) = PeekMut::pop(due);
            let Some(owner) = timer.owner() else { return Some(timer) };
            let Some(life) = self.lives.get_mut(&owner).filter(|life| life.number == number) else {
                self.stale -= 1;
                continue;
            };
            life.timers -= 1;
            if life.timers == 0 {
                self.lives.remove(&owner);
            }
            return Some(timer);
        }
        None
    }

    /// A queue is gone.
    pub(super) fn forget(&mut self, queue: QueueId) {
        self.end(Owner::Queue(queue));
    }

    /// A connection is gone.
    pub(super) fn forget_connection(&mut self, connection: ConnectionId) {
        self.end(Owner::Connection(connection));
    }

    fn end(&mut self, owner: Owner) {
        self.stale += self.lives.remove(&owner).map_or(0, |life| life.timers);
        if self.stale >= STALE_MIN && self.stale * 2 >= self.heap.len() {
            let lives = &self.lives;
            let lives_on = |timer: Timer, number: u64| {
                timer.owner().is_none_or(|owner| lives.get(&owner).is_some_and(|life| life.number == number))
            };
            self.heap.retain(|Reverse((_, timer, number))| lives_on(*timer, *number));
            self.stale = 0;
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.heap.len()
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
        let mut waits = Vec::new();
        for _ in 0..DUE_MAX {
            let Some(timer) = self.timers.pop_due(self.now.mono_ms) else { break };
            match timer {
                Timer::Lease(id, consumer) => self.expire_leases(id, consumer),
                Timer::JobTimeout(queue, seq, began_ms) => self.job_timeout(queue, seq, began_ms),
                Timer::JobSilence(queue, seq, began_ms) => self.job_silent(queue, seq, began_ms),
                Timer::DeadJobs(queue) => self.dead_jobs_due(queue),
                Timer::Look(queue) => self.mark_dirty(queue),
                Timer::JobWait(number) => self.job_wait_over(number),
                Timer::Wait(waiter) => waits.push(waiter),
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
        // what became due in the same moment comes before an empty answer
        for waiter in waits {
            self.wait_over(waiter);
        }
    }
}
