//! Where one message goes. Filled by routing, read by the fold.

use smallvec::SmallVec;

use super::seen::Seen;
use crate::ids::{QueueId, TopicId, WatchId};
use crate::name::Name;

/// Queues, topics and live subscriptions that get a message; each at most once. Queues and topics stand in the order in which
/// the bindings that led to them were made, exchange by exchange.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Targets {
    /// Queues that get a copy.
    pub(crate) queues: SmallVec<[QueueId; 4]>,
    /// Topics that keep it.
    pub(crate) topics: SmallVec<[TopicId; 1]>,
    /// Live subscriptions that see it.
    pub(crate) watches: SmallVec<[WatchId; 2]>,
    /// Exchanges that hold it until its time has come, and route it then.
    pub(crate) parked: Vec<Name>,
    /// Version of the topology that said so.
    pub(crate) version: u64,
    /// Look-ups and comparisons that it took.
    pub(crate) comparisons: u64,
}

impl Targets {
    /// Nobody gets it.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.topics.is_empty() && self.watches.is_empty() && self.parked.is_empty()
    }

    /// Ready for the next message; keeps its buffers.
    #[cfg(feature = "measure")]
    pub(crate) fn clear(&mut self) {
        self.queues.clear();
        self.topics.clear();
        self.watches.clear();
        self.parked.clear();
        self.comparisons = 0;
    }

    /// Leaves the first of each queue, topic and watch.
    pub(super) fn dedup(&mut self) {
        if self.queues.len() > 1 {
            let mut seen = Seen::default();
            self.queues.retain(|id| seen.first(id.0 as usize));
        }
        if self.topics.len() > 1 {
            let mut seen = Seen::default();
            self.topics.retain(|id| seen.first(id.0 as usize));
        }
        if self.watches.len() > 1 {
            let mut seen = Seen::default();
            self.watches.retain(|id| seen.first(id.0 as usize));
        }
    }
}
