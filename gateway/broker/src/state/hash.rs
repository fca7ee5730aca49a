//! A hash of everything that a log determines, whatever the layout in memory: the determinism tests compare it.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::State;

impl State {
    /// Equal for equal durable content. Messages and routes that are not in the log do not count.
    pub(crate) fn content_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for queue in self.queues() {
            (queue.id, &queue.vhost, &queue.spec.name, queue.next_logged).hash(&mut hasher);
            for (seq, slot) in queue.slots.iter().filter(|(_, s)| !s.is_transient()) {
                (seq, slot.len, slot.attempts, slot.block, slot.offset).hash(&mut hasher);
                format!("{:?}", queue.envelope(crate::ids::Seq(seq))).hash(&mut hasher);
            }
        }
        for topic in self.topics() {
            (topic.id, &topic.vhost, &topic.spec.name, topic.entries.next(), topic.bytes).hash(&mut hasher);
            for (offset, entry) in topic.entries.iter() {
                (offset, entry.lsn, entry.len, entry.block, entry.offset).hash(&mut hasher);
            }
        }
        for ((vhost, name), spec) in &self.exchanges {
            (vhost, name, format!("{spec:?}")).hash(&mut hasher);
        }
        for (vhost, binding) in &self.bindings {
            (vhost, format!("{binding:?}")).hash(&mut hasher);
        }
        let mut dedups: Vec<_> = self.dedups.iter().map(|(k, v)| (k, v.content, v.lsn.0, v.offset)).collect();
        dedups.sort_unstable();
        dedups.hash(&mut hasher);
        hasher.finish()
    }
}
