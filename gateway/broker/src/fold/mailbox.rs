//! Mailboxes: a queue that takes answers for one connection, made together with its only consumer. Both end together.

use super::Core;
use super::define::made_name;
use crate::definition::QueueSpec;
use crate::error::BrokerError;
use crate::ids::{ConnectionId, ConsumerId};
use crate::name::Name;
use crate::request::{Consume, Reply};

impl Core {
    /// Makes the queue and starts its consumer, or neither.
    pub(super) fn open_mailbox(
        &mut self,
        id: ConnectionId,
        vhost: &Name,
        consumer: ConsumerId,
        prefix: &'static str,
    ) -> Result<Reply, BrokerError> {
        let name = Name::new(&made_name(prefix))?;
        let spec =
            QueueSpec { name: name.clone(), exclusive: true, auto_delete: true, ..QueueSpec::default() };
        let queue = self.make_queue(id, vhost, spec)?;
        let consume = Consume {
            consumer,
            queue: name,
            prefetch: None,
            pool: None,
            exclusive: false,
            auto_ack: true,
            lease_ms: None,
            tokens: false,
            priority: 0,
        };
        if let Err(error) = self.consume_at(id, vhost, queue, consume) {
            self.drop_queue(queue);
            return Err(error);
        }
        Ok(self.queue_reply(queue))
    }
}
