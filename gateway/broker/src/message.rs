//! A message: the envelope that the broker knows, and the frame that it never changes.

use std::sync::Arc;

use framegate_frame::Frame;
use smallvec::SmallVec;

use crate::ids::{ConsumerId, Offset, Seq, Token, TopicId};
use crate::name::Name;

/// Routing keys of a message: the key it was published with first, then CC keys.
pub type Keys = SmallVec<[Name; 1]>;

/// What the broker knows about this copy of a message. Written in the record, never in the frame.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Envelope {
    /// Exchange it was published to; empty for the default exchange.
    pub exchange: Name,
    /// Keys it was routed by; at least one.
    pub keys: Keys,
    /// Survives a restart when its queue does.
    pub persistent: bool,
    /// Higher goes first in a queue with priorities; None: the publisher gave none (taken as 0).
    pub priority: Option<i32>,
    /// Before others of its priority, and the newest of those that are so first. Queues without priorities pass over it.
    pub newest_first: bool,
    /// Not delivered before, in ms since the Unix epoch; 0: at once.
    pub deliver_at_ms: u64,
    /// Expires, in ms since the Unix epoch, by its own time to live or its queue's; 0: never.
    pub expires_at_ms: u64,
    /// Time to live that its publisher gave, in ms.
    pub ttl_ms: Option<u64>,
    /// When the broker took it, in ms since the Unix epoch.
    pub time_ms: u64,
    /// Dedup key of the publisher, if it gave one.
    pub dedup: Option<Dedup>,
    /// Authenticated user that published it, if the protocol passes it on.
    pub publisher: Option<Name>,
    /// Failed deliveries that were recorded.
    pub attempts: u32,
    /// Bytes of the message's data, noted only in queues with a byte limit; 0: not noted.
    pub data_bytes: u32,
    /// Why it was dead-lettered before, newest first; at most `limits::DEATHS_MAX`.
    pub deaths: Vec<Death>,
}

impl Envelope {
    /// The key it was published with.
    #[must_use]
    pub fn key(&self) -> &str {
        self.keys.first().map_or("", Name::as_str)
    }
}

/// Identity of a publish for de-duplication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dedup {
    /// Hash of what makes it the same message (tenant, topic, source, id).
    pub key: [u8; 16],
    /// Hash of its content: same key and other content is a conflict.
    pub content: u64,
}

/// One passage through a dead-letter exchange.
#[derive(Debug, Clone, PartialEq)]
pub struct Death {
    /// Queue it died in.
    pub queue: Name,
    /// Why.
    pub reason: DeathReason,
    /// Exchange it had been published to.
    pub exchange: Name,
    /// Keys it had been published with.
    pub keys: Keys,
    /// How often it died there for that reason.
    pub count: u64,
    /// First time, in ms since the Unix epoch.
    pub time_ms: u64,
    /// Time to live that its publisher had given, in ms, the first time.
    pub ttl_ms: Option<u64>,
}

impl Death {
    /// The first death of a history that lists the newest first: one that happened again stands further in front than it
    /// was.
    #[must_use]
    pub fn first(deaths: &[Self]) -> Option<&Self> {
        deaths.iter().rev().min_by_key(|death| death.time_ms)
    }
}

/// Why a message was dead-lettered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeathReason {
    /// A consumer rejected it.
    Rejected,
    /// Its time to live passed.
    Expired,
    /// The queue was full.
    MaxLen,
    /// It was delivered too often.
    DeliveryLimit,
    /// No consumer's protocol could carry it.
    Undeliverable,
}

impl DeathReason {
    /// The field's word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::MaxLen => "maxlen",
            Self::DeliveryLimit => "delivery_limit",
            Self::Undeliverable => "undeliverable",
        }
    }
}

/// Where a delivered message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Position {
    /// In a queue; settles by this.
    Queue(Seq),
    /// In a topic (broadcast; nothing to settle).
    Topic(TopicId, Offset),
}

/// A message on its way to one consumer.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Whom it is for.
    pub consumer: ConsumerId,
    /// Where it stands.
    pub position: Position,
    /// Settles it from any connection, when the consumer asked for tokens.
    pub token: Option<Token>,
    /// How often it was delivered and failed before, as recorded, plus one.
    pub attempt: u32,
    /// Somebody may have seen it before.
    pub redelivered: bool,
    /// What the broker knows.
    pub envelope: Envelope,
    /// What the publisher said.
    pub frame: Frame,
    /// Stable id text for egress adaptors that need an `id` the frame lacks: `<queue or topic id>-<seq>`.
    pub origin: Origin,
}

/// What egress adaptors make missing attributes of: the same at each redelivery.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Vhost of the queue or topic.
    pub vhost: Name,
    /// Name of the queue or topic it is delivered from.
    pub name: Name,
    /// Numeric id of that queue or topic.
    pub id: u32,
    /// Sequence number or offset there.
    pub seq: u64,
}

impl Delivery {
    /// Bytes that count against the connection's window.
    #[must_use]
    pub fn window_bytes(&self) -> usize {
        self.frame.as_bytes().len() + 128
    }
}

/// A shared, immutable event of a topic feed; encodings are kept beside it, one per output format.
pub type SharedEvent = Arc<crate::feed::FeedEvent>;
