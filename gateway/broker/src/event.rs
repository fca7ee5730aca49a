//! Broker events: their names, what protocols report for them, and what is kept of them for a while. Makes none.

use crate::name::Name;

/// The predeclared exchange that broker events are published to. Clients bind to it, only the broker publishes.
pub const AMQ_EVENT: &str = "amq.framegate.event";

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal),* $(,)?) => {
        /// What happened. The routing key of its event is its name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum EventKind { $($(#[$doc])* $kind),* }

        impl EventKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// Routing key and `type` of its events.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name),* }
            }
        }
    };
}

kinds! {
    /// Listeners are bound.
    BrokerStarted = "broker.started",
    /// The last event before an orderly end.
    BrokerStopped = "broker.stopped",
    /// Something that an operator should know.
    BrokerError = "broker.error",
    /// A client logged in.
    ConnectionOpen = "connection.open",
    /// A connection is gone.
    ConnectionClose = "connection.close",
    /// A connection ended because of an error.
    ConnectionError = "connection.error",
    /// A channel opened, in a protocol that has some.
    ChannelOpen = "channel.open",
    /// A channel closed.
    ChannelClose = "channel.close",
    /// A channel asked for deliveries to stop or to go on.
    ChannelFlow = "channel.flow",
    /// An exchange is there.
    ExchangeCreated = "exchange.created",
    /// An exchange is gone.
    ExchangeDeleted = "exchange.deleted",
    /// A queue is there.
    QueueCreated = "queue.created",
    /// A queue is gone.
    QueueDeleted = "queue.deleted",
    /// A queue was emptied.
    QueuePurged = "queue.purged",
    /// A binding is there.
    BindingCreated = "binding.created",
    /// A binding is gone.
    BindingDeleted = "binding.deleted",
    /// A consumer started.
    ConsumerCreated = "consumer.created",
    /// A consumer ended.
    ConsumerCancelled = "consumer.cancelled",
    /// A client published; not yet routed.
    MessagePublished = "message.published",
    /// A published message stands in queues or a topic.
    MessageRouted = "message.routed",
    /// A consumer got a message.
    MessageDelivered = "message.delivered",
    /// A consumer settled messages.
    MessageAcked = "message.acked",
    /// A consumer gave messages back.
    MessageNacked = "message.nacked",
    /// A consumer rejected messages.
    MessageRejected = "message.rejected",
    /// A mandatory message reached nobody.
    MessageReturned = "message.returned",
    /// A message's time to live passed in a queue.
    MessageExpired = "message.expired",
}

impl EventKind {
    /// Its place in a set of kinds.
    pub(crate) fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// What a protocol reports of a connection: events that only it can know. Never answered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// A channel opened.
    ChannelOpened(u32),
    /// A channel closed.
    ChannelClosed(u32),
    /// A channel asked for deliveries to stop (`active` false) or to go on.
    ChannelFlow {
        /// Which.
        channel: u32,
        /// Deliveries go on.
        active: bool,
    },
    /// The connection is about to end because of an error.
    Failed(String),
    /// Why the connection is about to end; said when it has ended.
    Closing(String),
}

/// How a client said what it wants of a delivery, where its protocol knows more than the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Said {
    /// Which word.
    pub word: Word,
    /// On which channel, in a protocol that has some.
    pub channel: Option<u32>,
    /// The session's own tag, if it is a number.
    pub tag: Option<u64>,
    /// One tag stood for all up to it.
    pub multiple: bool,
}

/// The word of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Done.
    Ack,
    /// Given back, or dead-lettered.
    Nack,
    /// Dead-lettered, or given back.
    Reject,
}

/// An event that was made, kept for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventInfo {
    /// Its number in the vhost since the start, from 1, without gaps.
    pub seq: u64,
    /// What happened.
    pub kind: EventKind,
    /// To what.
    pub subject: Name,
    /// When, in ms since the Unix epoch.
    pub time_ms: u64,
    /// JSON object with the fields of the kind.
    pub body: String,
}
