//! Consumers of a connection, by the client's tag and by the broker's id. Never holds unsettled deliveries.

use std::collections::HashMap;
use std::sync::Arc;

use framegate_broker::{ConsumerId, Delivery, Name};

use crate::unsettled::CONSUMER_MAX;

/// Queues of one connection that GET pulls from.
const HOLDERS_MAX: usize = 1024;

/// Where a consumer stands.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Its CONSUME is not answered; deliveries wait here, as many as the connection's window lets through.
    Starting(Vec<Delivery>),
    /// Deliveries go out.
    Running,
    /// Its CANCEL is not answered.
    Cancelling,
}

/// A consumer.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) tag: Arc<str>,
    pub(crate) queue: Name,
    pub(crate) auto_ack: bool,
    pub(crate) phase: Phase,
}

/// All consumers of a connection.
#[derive(Debug, Default)]
pub(crate) struct Consumers {
    by_id: HashMap<ConsumerId, Consumer>,
    by_tag: HashMap<Arc<str>, ConsumerId>,
    /// Who holds what GET pulled: one for each queue, since a position names a message only within its queue.
    holders: HashMap<Name, ConsumerId>,
    last: u32,
}

impl Consumers {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The consumer of a client's tag.
    pub(crate) fn find(&self, tag: &str) -> Option<ConsumerId> {
        self.by_tag.get(tag).copied()
    }

    pub(crate) fn get(&self, consumer: ConsumerId) -> Option<&Consumer> {
        self.by_id.get(&consumer)
    }

    pub(crate) fn get_mut(&mut self, consumer: ConsumerId) -> Option<&mut Consumer> {
        self.by_id.get_mut(&consumer)
    }

    /// A tag that no consumer of the connection has.
    pub(crate) fn free_tag(&self) -> String {
        let mut number = self.last.saturating_add(1);
        loop {
            let tag = format!("mx.ctag-{number}");
            if !self.by_tag.contains_key(tag.as_str()) {
                return tag;
            }
            number = number.saturating_add(1);
        }
    }

    /// Adds a consumer with a tag that is free; None when the connection has used up its ids.
    pub(crate) fn add(&mut self, tag: &str, queue: Name, auto_ack: bool) -> Option<ConsumerId> {
        if self.last == CONSUMER_MAX {
            return None;
        }
        self.last += 1;
        let id = ConsumerId(self.last);
        let tag: Arc<str> = Arc::from(tag);
        self.by_tag.insert(Arc::clone(&tag), id);
        self.by_id.insert(id, Consumer { tag, queue, auto_ack, phase: Phase::Starting(Vec::new()) });
        Some(id)
    }

    /// Who holds what GET pulls from a queue; None when there are too many queues.
    pub(crate) fn holder(&mut self, queue: &Name) -> Option<ConsumerId> {
        if let Some(holder) = self.holders.get(queue) {
            return Some(*holder);
        }
        if self.holders.len() == HOLDERS_MAX || self.last == CONSUMER_MAX {
            return None;
        }
        self.last += 1;
        self.holders.insert(queue.clone(), ConsumerId(self.last));
        Some(ConsumerId(self.last))
    }

    pub(crate) fn remove(&mut self, consumer: ConsumerId) -> Option<Consumer> {
        let removed = self.by_id.remove(&consumer)?;
        self.by_tag.remove(&removed.tag);
        Some(removed)
    }
}
