//! Queues and topics whose definition was lost in a repair: their messages are kept, under names that say so.

use super::{QueueState, State, TopicState, index};
use crate::definition::{QueueSpec, TopicSpec};
use crate::ids::{QueueId, TopicId};
use crate::name::Name;

/// The vhost that exists everywhere.
const VHOST: &str = "/";

pub(super) fn queue_name(id: QueueId) -> Name {
    Name::new(&format!("recovered-queue-{id}")).unwrap_or_default()
}

pub(super) fn topic_name(id: TopicId) -> Name {
    Name::new(&format!("recovered-topic-{id}")).unwrap_or_default()
}

impl State {
    /// Makes the queue of a message, if a part of the log is lost and the queue with it.
    pub(super) fn find_queue(&mut self, id: QueueId) {
        if self.holes && self.queue(id).is_none() {
            let spec = QueueSpec { name: queue_name(id), durable: true, ..QueueSpec::default() };
            let queue = QueueState::new(id, Name::from_static(VHOST), spec);
            self.queues.put(index(id.0), queue);
        }
    }

    /// Makes the topic of an event, if a part of the log is lost and the topic with it.
    pub(super) fn find_topic(&mut self, id: TopicId) {
        if self.holes && self.topic(id).is_none() {
            let spec = TopicSpec { name: topic_name(id), age_ms_max: None, bytes_max: None };
            let topic = TopicState::new(id, Name::from_static(VHOST), spec);
            self.topics.put(index(id.0), topic);
        }
    }
}
