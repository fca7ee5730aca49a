//! Ids of volatile queues. They are in no log, so that they may be given again: in turn, and only those that no queue has. What may still refer to a queue that is gone: a timer tells by the queue's life (`timers.rs`), a publish that was
//! routed before it went by the topology's version (`QueueLive::since`), and a body that is being read by its number, which
//! no later queue of that id has.

use super::Core;
use crate::error::BrokerError;
use crate::ids::QueueId;
use crate::limits::VOLATILE_QUEUES_MAX;
use crate::routing::Targets;
use crate::state::VOLATILE_BIT;

/// See the module.
#[derive(Debug)]
pub(super) struct VolatileIds {
    next: u32,
    /// How often all of them were given.
    round: u64,
    /// Numbers there are.
    count: u32,
}

impl Default for VolatileIds {
    fn default() -> Self {
        Self { next: 0, round: 0, count: VOLATILE_QUEUES_MAX }
    }
}

impl Core {
    /// An id for a new volatile queue.
    pub(super) fn volatile_id(&mut self) -> Result<QueueId, BrokerError> {
        for _ in 0..self.volatile_ids.count {
            let id = QueueId(self.volatile_ids.next | VOLATILE_BIT);
            self.volatile_ids.next += 1;
            if self.volatile_ids.next >= self.volatile_ids.count {
                (self.volatile_ids.next, self.volatile_ids.round) = (0, self.volatile_ids.round + 1);
            }
            if !self.live.contains_key(&id) {
                return Ok(id);
            }
        }
        let max = self.volatile_ids.count.into();
        Err(BrokerError::Limit { what: "queues that are exclusive or not durable", max })
    }

    /// How often all numbers were given, modulo 256.
    pub(super) fn volatile_round(&self) -> u64 {
        self.volatile_ids.round % 256
    }

    /// Takes out queues that went since the message was routed, though another may have the id by now.
    pub(super) fn drop_stale(&self, targets: &mut Targets) {
        let version = targets.version;
        targets.queues.retain(|queue| self.live.get(queue).is_some_and(|live| live.since <= version));
        // what is added from now on is added in this moment
        targets.version = u64::MAX;
    }

    /// As if there were only so many numbers.
    #[cfg(test)]
    pub(super) fn have_volatile_ids(&mut self, count: u32) {
        self.volatile_ids.count = count;
    }
}
