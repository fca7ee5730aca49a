//! Single active consumer: who of a queue's consumers gets everything, and who comes after it.

use super::Core;
use crate::ids::{ConnectionId, ConsumerId, QueueId};

/// A consumer of some connection.
type Whom = (ConnectionId, ConsumerId);

/// See the module. Kept for queues that have the property only.
#[derive(Debug, Default)]
pub(crate) struct Single {
    active: Option<Whom>,
    /// In the order in which they came, with their priorities.
    waiting: Vec<(i32, Whom)>,
}

impl Single {
    /// A consumer came: it is active when nobody is. A higher priority does not push out who is active.
    pub(super) fn join(&mut self, priority: i32, whom: Whom) {
        if self.active.is_none() {
            self.active = Some(whom);
        } else {
            self.waiting.push((priority, whom));
        }
    }

    /// A consumer left. Gives who is active instead of it: the highest priority, the oldest within it.
    pub(super) fn leave(&mut self, whom: Whom) -> Option<Whom> {
        self.waiting.retain(|(_, w)| *w != whom);
        if self.active != Some(whom) {
            return None;
        }
        let highest = self.waiting.iter().map(|(priority, _)| *priority).max();
        let next = self.waiting.iter().position(|(priority, _)| Some(*priority) == highest);
        self.active = next.map(|at| self.waiting.remove(at).1);
        self.active
    }

    /// Whether a consumer is the active one.
    pub(super) fn is_active(&self, whom: Whom) -> bool {
        self.active == Some(whom)
    }
}

impl Core {
    /// Messages of the queue may be pushed to that consumer.
    pub(super) fn may_push(&self, queue: QueueId, id: ConnectionId, consumer: ConsumerId) -> bool {
        let single = self.live.get(&queue).and_then(|l| l.single.as_ref());
        single.is_none_or(|single| single.is_active((id, consumer)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whom(n: u32) -> Whom {
        (ConnectionId(1), ConsumerId(n))
    }

    #[test]
    fn the_next_one_is_the_oldest_of_the_highest_priority() {
        let mut single = Single::default();
        for (n, priority) in [(1, 0), (2, 0), (3, 5), (4, 5), (5, 9)] {
            single.join(priority, whom(n));
            assert!(single.is_active(whom(1)), "whoever is active stays so");
        }
        assert_eq!(single.leave(whom(5)), None, "it only waited");
        assert_eq!(single.leave(whom(1)), Some(whom(3)));
        assert_eq!(single.leave(whom(3)), Some(whom(4)));
        assert_eq!(single.leave(whom(4)), Some(whom(2)));
        assert_eq!(single.leave(whom(2)), None);
        single.join(0, whom(6));
        assert!(single.is_active(whom(6)));
    }
}
