//! Why the broker refused a request, by cause. Each protocol says it in its own words.

use crate::name::Name;

/// What a request named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A virtual host.
    Vhost,
    /// An exchange.
    Exchange,
    /// A queue.
    Queue,
    /// A topic.
    Topic,
    /// A consumer of the connection.
    Consumer,
    /// A consumer group of a topic.
    Group,
}

impl Kind {
    /// Lower-case noun for messages.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Vhost => "vhost",
            Self::Exchange => "exchange",
            Self::Queue => "queue",
            Self::Topic => "topic",
            Self::Consumer => "consumer",
            Self::Group => "group",
        }
    }
}

/// What a principal may do with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Declare, delete, purge, bind.
    Configure,
    /// Publish.
    Write,
    /// Consume, browse, subscribe.
    Read,
}

impl Access {
    /// Lower-case word for messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Configure => "configure",
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// No such thing.
    #[error("{} '{name}' does not exist in vhost '{vhost}'", kind.noun())]
    NotFound {
        /// What was looked for.
        kind: Kind,
        /// Its name.
        name: Name,
        /// Where.
        vhost: Name,
    },
    /// It exists with other properties.
    #[error("{} '{name}' exists with {argument} '{current}', not '{given}'", kind.noun())]
    Inequivalent {
        /// What was declared.
        kind: Kind,
        /// Its name.
        name: Name,
        /// The property that differs.
        argument: String,
        /// Value in force, as text.
        current: String,
        /// Value asked for, as text.
        given: String,
    },
    /// Exclusive to another connection, or has an exclusive consumer.
    #[error("{} '{name}' is locked: {reason}", kind.noun())]
    Locked {
        /// What.
        kind: Kind,
        /// Its name.
        name: Name,
        /// Why.
        reason: &'static str,
    },
    /// Delete only if unused, but it is used.
    #[error("{} '{name}' is in use", kind.noun())]
    InUse {
        /// What.
        kind: Kind,
        /// Its name.
        name: Name,
    },
    /// Delete only if empty, but it is not.
    #[error("queue '{name}' is not empty ({messages} messages)")]
    NotEmpty {
        /// The queue.
        name: Name,
        /// Messages in it.
        messages: u64,
    },
    /// The name belongs to the broker.
    #[error("{} name '{name}' is reserved", kind.noun())]
    Reserved {
        /// What.
        kind: Kind,
        /// The name.
        name: Name,
    },
    /// The principal may not do that.
    #[error("access to {} '{name}' in vhost '{vhost}' refused for user '{user}': no {} permission", kind.noun(), access.word())]
    Forbidden {
        /// What.
        kind: Kind,
        /// Its name.
        name: Name,
        /// Where.
        vhost: Name,
        /// Who.
        user: Name,
        /// Which permission is missing.
        access: Access,
    },
    /// The connection has a consumer of that id already.
    #[error("consumer exists already")]
    ConsumerExists,
    /// The position or token is not leased (any more), or is another connection's.
    #[error("unknown delivery")]
    UnknownDelivery,
    /// A queue with a length limit takes no more.
    #[error("queue '{name}' is full")]
    QueueFull {
        /// The queue.
        name: Name,
    },
    /// A bound of `Limits` is reached.
    #[error("limit reached: at most {max} {what}")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// The bound.
        max: u64,
    },
    /// The job engine refused.
    #[error(transparent)]
    Job(#[from] crate::request::JobError),
    /// The message is larger than `Limits::message_bytes_max`.
    #[error("message of {bytes} bytes is larger than {max}")]
    TooLarge {
        /// Frame bytes.
        bytes: u64,
        /// Allowed bytes.
        max: u64,
    },
    /// A value that cannot be used.
    #[error("{what} '{value}' {reason}")]
    Invalid {
        /// What it is.
        what: &'static str,
        /// The value, shortened.
        value: String,
        /// Why not.
        reason: &'static str,
    },
    /// Same dedup key, other content.
    #[error("a message with the same id and other content was published before")]
    Conflict,
    /// Known, but this version does not do it.
    #[error("{what} is not supported by this version")]
    NotSupported {
        /// What.
        what: &'static str,
    },
    /// Publishers are held, and this one does not wait; nothing was taken. It clears itself.
    #[error("publishers are held: {hold}")]
    Held {
        /// Why.
        hold: crate::hold::Hold,
    },
    /// The broker is stopping and takes no more publishes.
    #[error("the broker is shutting down")]
    Stopping,
    /// The shard stopped: storage failed. Nothing that was not confirmed is promised.
    #[error("storage has failed, the broker is stopping")]
    StorageFailed,
}
