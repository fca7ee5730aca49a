//! Deliveries that stay unsettled for too long: for each consumer the oldest one, and since when it is known to be that. Time comes
//! with each look; between looks nothing is kept of a delivery.

use std::collections::HashMap;
use std::time::Duration;

use framegate_adaptor_api::Unacked;
use framegate_broker::ConsumerId;

/// Of one channel: who held something at the last look.
#[derive(Debug, Default)]
pub(super) struct AckTimeouts(HashMap<ConsumerId, Oldest>);

/// The oldest delivery that a consumer holds.
#[derive(Debug, Clone, Copy)]
struct Oldest {
    tag: u64,
    /// The look that saw it first as that.
    since: Duration,
    /// What its queue says; zero: never.
    own: Option<Duration>,
}

impl AckTimeouts {
    /// Looks; gives the timeout that a delivery has passed. `own`: what the queue of a consumer says, zero being never; of a
    /// consumer that has ended the last look knows it. `usual`: where a queue says nothing.
    pub(super) fn passed(
        &mut self,
        unacked: &Unacked,
        now: Duration,
        usual: Duration,
        own: impl Fn(ConsumerId) -> Option<Duration>,
    ) -> Option<Duration> {
        let mut held: HashMap<ConsumerId, Oldest> = HashMap::new();
        for (tag, consumer) in unacked.holders() {
            held.entry(consumer).or_insert(Oldest { tag, since: now, own: None });
        }
        for (consumer, oldest) in &mut held {
            let before = self.0.get(consumer);
            oldest.own = own(*consumer).or(before.and_then(|before| before.own));
            if let Some(before) = before.filter(|before| before.tag == oldest.tag) {
                oldest.since = before.since;
            }
        }
        self.0 = held;
        let late = self.0.values().filter_map(|oldest| {
            let timeout = oldest.own.unwrap_or(usual);
            (!timeout.is_zero() && now.saturating_sub(oldest.since) >= timeout).then_some(timeout)
        });
        late.min()
    }
}

#[cfg(test)]
mod tests {
    use framegate_broker::Seq;

    use super::*;

    const A: ConsumerId = ConsumerId(1);
    const B: ConsumerId = ConsumerId(2);

    #[test]
    fn each_queue_has_its_own_patience_and_a_settled_delivery_begins_anew() {
        let at = Duration::from_secs;
        let own = |consumer| (consumer == A).then_some(at(100));
        let (mut timeouts, mut unacked) = (AckTimeouts::default(), Unacked::new());
        let first = unacked.push(A, Seq(1));
        unacked.push(B, Seq(2));
        assert_eq!(timeouts.passed(&unacked, at(10), at(1000), own), None);
        assert_eq!(timeouts.passed(&unacked, at(70), at(1000), own), None);
        unacked.push(A, Seq(3));
        unacked.take(first).unwrap();
        assert_eq!(timeouts.passed(&unacked, at(130), at(1000), own), None, "another one is the oldest");
        let gone = |_| None;
        assert_eq!(timeouts.passed(&unacked, at(230), at(1000), gone), Some(at(100)));
        unacked.take(3).unwrap();
        assert_eq!(timeouts.passed(&unacked, at(1000), at(1000), own), None);
        assert_eq!(timeouts.passed(&unacked, at(1010), at(1000), own), Some(at(1000)));
        assert_eq!(timeouts.passed(&unacked, at(9000), Duration::ZERO, own), None, "zero is never");
    }
}
