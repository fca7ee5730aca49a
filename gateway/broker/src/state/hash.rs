//! A hash of everything that a log determines, whatever the layout in memory: the determinism tests compare it.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::State;

impl State {
    /// Equal for equal durable content. Messages and routes that are not in the log do not count.
    pub(crate) fn content_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for queue in self.queues() {
            (queue.id, &queue.vhost, queue.next_logged, queue.delivered).hash(&mut hasher);
            format!("{:?}", queue.spec).hash(&mut hasher);
            for (seq, slot) in queue.slots.iter().filter(|(_, s)| !s.is_transient()) {
                (seq, slot.len, slot.attempts, slot.block, slot.offset).hash(&mut hasher);
                format!("{:?}", queue.envelope(crate::ids::Seq(seq))).hash(&mut hasher);
            }
        }
        for topic in self.topics() {
            (topic.id, &topic.vhost, topic.entries.next(), topic.bytes, topic.gone_to.0).hash(&mut hasher);
            format!("{:?}", topic.spec).hash(&mut hasher);
            for (offset, entry) in topic.entries.iter() {
                (offset, entry.lsn, entry.len, entry.block, entry.offset).hash(&mut hasher);
                format!("{:?}", topic.envelope(crate::ids::Offset(offset))).hash(&mut hasher);
            }
        }
        for group in self.groups() {
            (group.id, group.topic, &group.vhost, group.seen, group.floor(), group.settled())
                .hash(&mut hasher);
            group.failed().for_each(|failed| failed.hash(&mut hasher));
            // where it began stands in its floor
            let spec =
                crate::group::GroupSpec { start: crate::group::GroupStart::Latest, ..group.spec.clone() };
            format!("{spec:?} {:?}", group.counts).hash(&mut hasher);
        }
        for ((vhost, name), spec) in &self.exchanges {
            (vhost, name, format!("{spec:?}")).hash(&mut hasher);
        }
        for (vhost, binding) in &self.bindings {
            (vhost, format!("{binding:?}")).hash(&mut hasher);
        }
        for (_, d) in self.dedups.freeze().iter() {
            (d.key, d.known.content, d.known.lsn.0, d.known.offset, d.time_ms).hash(&mut hasher);
        }
        self.jobs.hash_content(&mut hasher);
        (self.queues.given(), self.topics.given()).hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use framegate_storage::Lsn;

    use super::*;
    use crate::definition::QueueSpec;
    use crate::ids::{QueueId, Seq};
    use crate::message::{Dedup, Envelope};
    use crate::name::Name;
    use crate::record::{Body, Record, SeqSet};
    use crate::state::At;

    fn queue_with(messages: &[(u64, bool)]) -> State {
        let mut state = State::default();
        let (id, vhost) = (QueueId(0), Name::from_static("/"));
        let spec = QueueSpec { name: Name::from_static("q"), durable: true, ..QueueSpec::default() };
        let at = |lsn, logged| At { lsn: Lsn(lsn), block: 7, logged };
        state.apply(Record::DefineQueue { id, vhost, spec: Box::new(spec) }, at(1, true));
        for (seq, logged) in messages {
            let dedup = Some(Dedup { key: [*seq as u8; 16], content: *seq });
            let envelope =
                Envelope { keys: smallvec::smallvec![Name::from_static("q")], dedup, ..Envelope::default() };
            let body = Body::Here { offset: 3, len: 5 };
            state.apply(Record::Enqueue { queue: id, seq: Seq(*seq), envelope, body }, at(*seq, *logged));
        }
        state
    }

    #[test]
    fn equal_content_has_an_equal_hash_and_other_content_another() {
        let state = queue_with(&[(1, true), (2, true)]);
        assert_eq!(state.content_hash(), queue_with(&[(1, true), (2, true)]).content_hash());
        assert_ne!(state.content_hash(), queue_with(&[(1, true)]).content_hash());
        let mut acked = queue_with(&[(1, true), (2, true)]);
        let ack = Record::Ack { queue: QueueId(0), seqs: SeqSet::one(Seq(1)) };
        acked.apply(ack, At { lsn: Lsn(9), block: 8, logged: true });
        assert_ne!(state.content_hash(), acked.content_hash());
    }

    #[test]
    fn what_is_not_in_the_log_does_not_count() {
        let state = queue_with(&[(1, true), (2, true)]);
        assert_eq!(state.content_hash(), queue_with(&[(1, true), (2, true), (3, false)]).content_hash());
    }
}
