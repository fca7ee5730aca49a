//! Commands in progress: which request of the broker answers which command. Never more than the session lets in.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use framegate_broker::{ConsumerId, Name, RequestId};

use crate::commands::{Publication, Settlement};

/// What is to be made of the broker's reply.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// `{name, durable, ..}` of a declared queue.
    QueueDeclared,
    /// All that is known of a queue.
    QueueInfo,
    /// `{name, messageCount}` of a queue that was deleted or purged.
    Removed(Name),
    /// All queues.
    Queues,
    /// `{queueName, exchangeName, routingKey}`.
    Bound { queue: Name, exchange: Name, key: Name },
    /// `{destinationExchange, exchangeName, routingKey}`.
    ExchangeBound { destination: Name, exchange: Name, key: Name },
    /// Bindings.
    Bindings,
    /// `{name, type, ..}` of a declared exchange.
    ExchangeDeclared,
    /// `{name}` of a deleted exchange.
    ExchangeDeleted(Name),
    /// All exchanges.
    Exchanges,
    /// The confirm of a publish.
    Published(Publication),
    /// `{consumerTag, queueName}`, then deliveries.
    Consuming(ConsumerId),
    /// `{consumerTag}`.
    Cancelling(ConsumerId),
    /// A message or null.
    Got { queue: Name, holder: ConsumerId, auto_ack: bool },
    /// How many were settled.
    Settled(Settlement),
    /// How many were requeued.
    Recovered,
    /// Totals.
    Stats,
}

/// A command that is not answered yet.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Goes with the response.
    pub(crate) request_id: Arc<str>,
    pub(crate) waiting: Waiting,
}

/// All commands in progress of a connection.
#[derive(Debug, Default)]
pub(crate) struct InProgress {
    by_request: HashMap<RequestId, Pending>,
    /// Requests whose reply is one part of the answer to another, later one.
    parts: HashMap<RequestId, RequestId>,
    ids: HashSet<Arc<str>>,
    last: u64,
}

impl InProgress {
    /// The command is not answered yet.
    pub(crate) fn contains(&self, request_id: &str) -> bool {
        self.ids.contains(request_id)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_request.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_request.is_empty()
    }

    /// The id of a request whose reply nobody waits for.
    pub(crate) fn untracked(&mut self) -> RequestId {
        self.last += 1;
        RequestId(self.last)
    }

    /// The id of a request that answers a command.
    pub(crate) fn add(&mut self, request_id: &str, waiting: Waiting) -> RequestId {
        let request = self.untracked();
        let request_id: Arc<str> = Arc::from(request_id);
        self.ids.insert(Arc::clone(&request_id));
        self.by_request.insert(request, Pending { request_id, waiting });
        request
    }

    /// The reply to `part` counts for the command that `whole` answers; the broker replies to `whole` later.
    pub(crate) fn add_part(&mut self, part: RequestId, whole: RequestId) {
        self.parts.insert(part, whole);
    }

    /// The command that a reply to a part counts for.
    pub(crate) fn take_part(&mut self, part: RequestId) -> Option<&mut Pending> {
        let whole = self.parts.remove(&part)?;
        self.by_request.get_mut(&whole)
    }

    pub(crate) fn get_mut(&mut self, request: RequestId) -> Option<&mut Pending> {
        self.by_request.get_mut(&request)
    }

    /// Ends a command; its request id may be used again.
    pub(crate) fn take(&mut self, request: RequestId) -> Option<Pending> {
        let pending = self.by_request.remove(&request)?;
        self.ids.remove(&pending.request_id);
        Some(pending)
    }
}
