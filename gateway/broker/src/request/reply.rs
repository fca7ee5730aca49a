//! What a session hears back: replies with what they describe, and effects. Plain data.

use framegate_frame::Frame;

use crate::definition::{Arguments, BindTarget, ExchangeKind, QueueProperties};
use crate::error::BrokerError;
use crate::event::EventInfo;
use crate::feed::Cursor;
use crate::group::{GroupInfo, History, Presence};
use crate::ids::{ConsumerId, Offset, RequestId, Seq};
use crate::message::{Delivery, Envelope};
use crate::name::Name;

/// An answer to a request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Reply {
    /// Done, nothing to say.
    Done,
    /// A publish is as safe as it can be.
    Published(Published),
    /// Every publish of an atomic request, in order.
    Atomic(Vec<Published>),
    /// A queue as it is now (declared, or asked for).
    Queue(QueueInfo),
    /// A queue was deleted or purged.
    Removed {
        /// Messages that were in it.
        messages: u64,
    },
    /// An exchange as it is now.
    Exchange(ExchangeInfo),
    /// What was pulled; empty when the wait passed.
    Fetched {
        /// In order.
        messages: Vec<Delivery>,
        /// Ready messages left in the queue.
        remaining: u64,
    },
    /// What was browsed, ascending by number. Messages that cannot be read are left out.
    Browsed {
        /// The messages.
        messages: Vec<Browsed>,
        /// There are more behind the last one.
        more: bool,
    },
    /// So many deliveries were settled or requeued.
    Settled {
        /// How many.
        count: u64,
    },
    /// All queues.
    Queues(Vec<QueueInfo>),
    /// All exchanges.
    Exchanges(Vec<ExchangeInfo>),
    /// Bindings.
    Bindings(Vec<BindingInfo>),
    /// All topics.
    Topics(Vec<TopicInfo>),
    /// One topic.
    Topic(TopicInfo),
    /// Kept broker events.
    Events(Vec<EventInfo>),
    /// Groups, by topic and name.
    Groups(Vec<GroupInfo>),
    /// A group as it is now (declared, set to a place, or asked for).
    Group(Box<GroupInfo>),
    /// Who hears of a topic.
    Presence(Presence),
    /// Kept events.
    History(History),
    /// Connections.
    Connections(Vec<ConnectionInfo>),
    /// Totals.
    Stats(Stats),
    /// Of the job engine.
    Job(super::JobReply),
}

/// Where a published message went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Published {
    /// Queues that got a copy.
    pub queues: u32,
    /// Offset in the topic named by its key, if there is one.
    pub offset: Option<Offset>,
    /// Cursor of that event, to resume after it.
    pub cursor: Option<Cursor>,
    /// Published before; `offset` is the first one's.
    pub duplicate: bool,
    /// At least one queue, topic or live subscriber got it.
    pub routed: bool,
}

/// A queue, as seen from outside.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueInfo {
    /// Its name.
    pub name: Name,
    /// Survives a restart.
    pub durable: bool,
    /// One connection's.
    pub exclusive: bool,
    /// Goes with its last consumer.
    pub auto_delete: bool,
    /// Other properties.
    pub properties: QueueProperties,
    /// Ready messages.
    pub ready: u64,
    /// Leased messages.
    pub unacked: u64,
    /// Frame bytes of both.
    pub bytes: u64,
    /// Consumers.
    pub consumers: u32,
}

/// An exchange, as seen from outside.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangeInfo {
    /// Its name.
    pub name: Name,
    /// How it routes.
    pub kind: ExchangeKind,
    /// Survives a restart.
    pub durable: bool,
    /// Goes with its last binding.
    pub auto_delete: bool,
    /// Not for clients.
    pub internal: bool,
    /// Where unroutable messages go.
    pub alternate: Option<Name>,
}

impl ExchangeInfo {
    /// Arguments that declare it again: those of its kind, and `alternate-exchange`.
    #[must_use]
    pub fn arguments(&self) -> Arguments {
        let mut arguments = self.kind.arguments();
        let text = |name: &Name| crate::definition::HeaderValue::Text(name.to_string().into());
        arguments
            .extend(self.alternate.iter().map(|name| (Name::from_static("alternate-exchange"), text(name))));
        arguments
    }
}

/// A binding, as seen from outside.
#[derive(Debug, Clone, PartialEq)]
pub struct BindingInfo {
    /// Exchange.
    pub exchange: Name,
    /// Where it leads.
    pub target: BindTarget,
    /// Key or pattern.
    pub key: Name,
    /// Arguments.
    pub arguments: Arguments,
}

/// A topic, as seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicInfo {
    /// Its name.
    pub name: Name,
    /// First offset that is kept.
    pub first: Offset,
    /// Offset that the next event gets.
    pub next: Offset,
    /// Frame bytes kept.
    pub bytes: u64,
    /// Live subscriptions whose patterns name or match it.
    pub subscribers: u32,
    /// Retention by age, ms.
    pub age_ms_max: u64,
    /// Retention by size, frame bytes.
    pub bytes_max: u64,
}

/// A connection, as seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Its id.
    pub id: crate::ids::ConnectionId,
    /// Protocol and peer, as the driver described them.
    pub label: String,
    /// User.
    pub user: Name,
    /// Vhost.
    pub vhost: Name,
    /// Consumers.
    pub consumers: u32,
    /// Unsettled deliveries.
    pub unacked: u64,
}

/// Totals of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Open connections.
    pub connections: u64,
    /// Consumers.
    pub consumers: u64,
    /// Queues, volatile ones included.
    pub queues: u64,
    /// Exchanges.
    pub exchanges: u64,
    /// Topics.
    pub topics: u64,
    /// Ready messages in queues.
    pub ready: u64,
    /// Leased messages.
    pub unacked: u64,
    /// Live topic subscriptions.
    pub subscriptions: u64,
}

/// What a connection hears, in the order in which it was decided.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "deliveries are the common case and are not boxed one by one")]
pub enum Effect {
    /// Answer to a request.
    Reply(RequestId, Result<Reply, BrokerError>),
    /// Every publish of the connection with `Answer::Watermark` and an id at or below `upto` is safe, save those
    /// refused before.
    Confirmed {
        /// The newest.
        upto: RequestId,
    },
    /// A publish with `Answer::Watermark` was refused.
    Refused {
        /// Which.
        id: RequestId,
        /// Why.
        error: BrokerError,
    },
    /// A mandatory publish reached nobody.
    Returned {
        /// Which.
        id: RequestId,
        /// As it was published.
        envelope: Box<Envelope>,
        /// The message.
        frame: Frame,
    },
    /// A message for a consumer.
    Delivery(Delivery),
    /// A consumer was ended by the broker.
    Cancelled {
        /// Which.
        consumer: ConsumerId,
        /// Why.
        reason: CancelReason,
    },
    /// Publishers are held (true) or may go on (false).
    Blocked(bool),
}

/// Why the broker ended a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelReason {
    /// Its queue was deleted.
    QueueDeleted,
}

/// A message as a browser sees it.
#[derive(Debug, Clone)]
pub struct Browsed {
    /// Its number in the queue.
    pub seq: Seq,
    /// Somebody holds it, or it waits for its time: it is not ready.
    pub held: bool,
    /// Somebody may have seen it before.
    pub redelivered: bool,
    /// What the broker knows.
    pub envelope: Envelope,
    /// What the publisher said.
    pub frame: Frame,
    /// What egress adaptors make missing attributes of.
    pub origin: crate::message::Origin,
}
