//! Identities that cross the broker's face. Newtypes, so that one is never taken for another.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A client's connection to the broker; never reused while the process lives. 0 is the detached
    /// connection, which owns the leases of calls that have no connection (an HTTP long poll).
    ConnectionId(u64)
);
id!(
    /// A consumer, or the holder of pulled messages. Chosen by the session, unique in its connection.
    ConsumerId(u32)
);
id!(
    /// A group of consumers of one connection that share one limit of unsettled messages.
    PoolId(u32)
);
id!(
    /// A request. Chosen by the session, increasing in its connection.
    RequestId(u64)
);
id!(
    /// A queue: shard in the top 8 bits, bit 23 set for volatile queues (exclusive or not durable).
    QueueId(u32)
);
id!(
    /// A topic: shard in the top 8 bits.
    TopicId(u32)
);
id!(
    /// Position of a message in its queue: dense, given at publish, kept for life. Starts at 1, or at 1 above a
    /// multiple of 2^40 when the queue's id was that of another queue before.
    Seq(u64)
);
id!(
    /// Position of an event in its topic: dense. Starts at 0, or at a multiple of 2^40 when the topic's id was that of another topic
    /// before.
    Offset(u64)
);
id!(
    /// A set of topic patterns that somebody subscribes to right now.
    WatchId(u32)
);
id!(
    /// Settles one leased message from any connection. Random, never reused.
    Token(u128)
);
