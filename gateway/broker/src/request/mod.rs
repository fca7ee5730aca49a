//! What a session asks of the broker, and (in `reply`) what it hears back. Plain data.

mod jobs;
mod reply;

use framegate_frame::Frame;

pub use jobs::{
    JobAck, JobCareChange, JobChange, JobCounts, JobError, JobEvent, JobEventKind, JobExtend, JobFail,
    JobInfo, JobLimits, JobList, JobPull, JobReply, JobRequest, JobWorker, NewJob,
};
pub use reply::{
    BindingInfo, Browsed, CancelReason, ConnectionInfo, Effect, ExchangeInfo, Published, QueueInfo, Reply,
    Stats, TopicInfo,
};

use crate::definition::{BindingSpec, ExchangeSpec, QueueSpec, TopicSpec};
use crate::event::{Happening, Said};
use crate::group::{GroupSpec, GroupStart, HistoryQuery, Member};
use crate::ids::{ConsumerId, PoolId, Seq, Token};
use crate::message::{Dedup, Keys};
use crate::name::Name;

/// One request. Requests of a batch are decided in order.
#[derive(Debug, Clone)]
pub enum Request {
    /// Publish a message.
    Publish(Publish),
    /// Several publishes and settlements as one block, or nothing.
    Atomic(Vec<Request>),
    /// Pull messages from a queue, waiting if it is empty.
    Fetch(Fetch),
    /// Have messages pushed.
    Consume(Consume),
    /// The same as a member of a topic's group: `queue` names the topic. Deliveries stand at `Position::Queue` with the
    /// topic's offset as number, and are settled by it.
    ConsumeGroup(Consume, Member),
    /// Pull events as a member of a topic's group: `queue` names the topic. It is a member while it waits.
    FetchGroup(Fetch, Member),
    /// A queue for answers to this connection, and its only consumer, settled as delivered. Both end with the consumer. Nothing of
    /// anybody else is touched, so it needs no rights. Answered with `Reply::Queue`: the broker makes the name.
    Mailbox {
        /// Id of the consumer in the connection.
        consumer: ConsumerId,
        /// Prefix of the name.
        prefix: &'static str,
    },
    /// Change how many unsettled messages a consumer or pool may hold.
    Credit(Credit),
    /// Stop a consumer; what it holds stays leased until settled or the connection ends.
    Cancel(ConsumerId),
    /// Settle leased messages.
    Settle(Settle),
    /// Settle leased messages, with what the client said beyond the outcome.
    SettleAs(Settle, Said),
    /// Something happened that only the protocol knows; not answered.
    Report(Happening),
    /// Requeue everything that the connection (or one of its consumers) holds.
    Recover(Option<ConsumerId>),
    /// Look at messages of a queue without taking them.
    Browse(Browse),
    /// Declare, delete, bind, purge.
    Define(Define),
    /// Ask about definitions and counts.
    Query(Query),
    /// Jobs.
    Job(Box<JobRequest>),
}

/// How the publisher hears that its message is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answer {
    /// Not at all.
    #[default]
    None,
    /// By `Effect::Confirmed { upto }`, which covers every earlier publish of the connection too.
    Watermark,
    /// By `Reply::Published` (or an error) under the request's id.
    Reply,
}

/// A message to publish.
#[derive(Debug, Clone)]
pub struct Publish {
    /// Exchange; empty: the default exchange (key = queue name).
    pub exchange: Name,
    /// Routing keys, at least one.
    pub keys: Keys,
    /// Tell the publisher when no queue, topic or subscriber gets it (`Effect::Returned`, before the answer).
    pub mandatory: bool,
    /// A topic publish (design.md 4 rule 1): `exchange` is `amq.topic`, and the topic named by the first key is made
    /// when it is missing.
    pub create_topic: bool,
    /// A queue publish that makes its durable queue when it is missing.
    pub create_queue: bool,
    /// How the publisher hears of it.
    pub answer: Answer,
    /// Survives a restart where its queue does.
    pub persistent: bool,
    /// Priority, if given.
    pub priority: Option<i32>,
    /// Time to live in ms, if given.
    pub ttl_ms: Option<u64>,
    /// Delay in ms.
    pub delay_ms: u64,
    /// The delay is one for exchanges that delay; any other routes the message at once.
    pub delay_by_exchange: bool,
    /// De-duplication, if asked for.
    pub dedup: Option<Dedup>,
    /// User id to pass on, if the protocol does.
    pub publisher: Option<Name>,
    /// The message.
    pub frame: Frame,
}

impl Publish {
    /// A plain message: not persistent, no answer, nothing else set.
    #[must_use]
    pub fn new(exchange: Name, key: Name, frame: Frame) -> Self {
        Self {
            exchange,
            keys: smallvec::smallvec![key],
            mandatory: false,
            create_topic: false,
            create_queue: false,
            answer: Answer::None,
            persistent: false,
            priority: None,
            ttl_ms: None,
            delay_ms: 0,
            delay_by_exchange: false,
            dedup: None,
            publisher: None,
            frame,
        }
    }

    /// A topic publish: persistent, to `amq.topic`, making the topic if needed.
    #[must_use]
    pub fn to_topic(topic: Name, frame: Frame) -> Self {
        Self {
            create_topic: true,
            persistent: true,
            answer: Answer::Reply,
            ..Self::new(Name::from_static(crate::AMQ_TOPIC), topic, frame)
        }
    }
}

/// A pull.
#[derive(Debug, Clone)]
pub struct Fetch {
    /// Who holds what is pulled; need not be a consumer.
    pub consumer: ConsumerId,
    /// The queue.
    pub queue: Name,
    /// At most so many messages, at least 1.
    pub max: u32,
    /// How long to wait for the first, in ms; 0: answer at once.
    pub wait_ms: u64,
    /// Settled as soon as delivered.
    pub auto_ack: bool,
    /// Returned to the queue when not settled by then; None: held until the connection ends.
    pub lease_ms: Option<u64>,
    /// Give each delivery a token.
    pub tokens: bool,
}

/// A look at a queue's messages: nothing is leased, counted or marked as delivered.
#[derive(Debug, Clone)]
pub struct Browse {
    /// The queue.
    pub queue: Name,
    /// Only messages behind this one in the order of their numbers; None: from the first on.
    pub after: Option<Seq>,
    /// At most so many messages, at least 1 and at most `limits::BROWSE_MESSAGES_MAX`.
    pub max: u32,
    /// At most so many frame bytes in all, but one message in any case.
    pub bytes_max: u64,
}

/// A consumer to start.
#[derive(Debug, Clone)]
pub struct Consume {
    /// Its id in the connection.
    pub consumer: ConsumerId,
    /// The queue.
    pub queue: Name,
    /// Unsettled messages it may hold; None: no bound but the connection's window.
    pub prefetch: Option<u32>,
    /// A limit that it shares with other consumers of the connection.
    pub pool: Option<PoolId>,
    /// No other consumer beside it.
    pub exclusive: bool,
    /// Settled as soon as delivered.
    pub auto_ack: bool,
    /// A delivery not settled by then returns to the queue; None: held until the connection ends.
    pub lease_ms: Option<u64>,
    /// Give each delivery a token.
    pub tokens: bool,
    /// Consumers of higher priority are served first.
    pub priority: i32,
}

/// New limit of unsettled messages.
#[derive(Debug, Clone, Copy)]
pub enum Credit {
    /// Of one consumer.
    Consumer(ConsumerId, Option<u32>),
    /// Of a pool.
    Pool(PoolId, Option<u32>),
    /// A running consumer shares the limit of a pool from now on, with what it holds already.
    Join(ConsumerId, PoolId),
}

/// Which deliveries are meant.
#[derive(Debug, Clone)]
pub enum Lease {
    /// Deliveries to a consumer of this connection, by position. All must be leased, or nothing is settled. A position names
    /// the message, not one of its deliveries: when it was returned and has come to the same consumer again, that delivery
    /// is meant. A token names one delivery.
    Positions(ConsumerId, Vec<Seq>),
    /// One delivery, by token, whatever connection got it.
    Token(Token),
}

/// A settlement.
#[derive(Debug, Clone)]
pub struct Settle {
    /// What.
    pub lease: Lease,
    /// How.
    pub outcome: Outcome,
    /// Whether a `Reply::Settled` is wanted; an unknown delivery is answered in any case.
    pub answer: bool,
}

/// What becomes of a leased message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Ack,
    /// Back to its place, marked redelivered, after a delay.
    Requeue {
        /// ms; 0: at once.
        delay_ms: u64,
    },
    /// Dead-lettered, or dropped when the queue has no dead-letter exchange.
    Reject,
    /// This consumer's protocol could not carry it: back to its place, dead-lettered after the third time.
    Undeliverable,
    /// Keep it for longer.
    Extend {
        /// New time from now, in ms.
        lease_ms: u64,
    },
}

/// A change of definitions.
#[derive(Debug, Clone)]
pub enum Define {
    /// Declare an exchange; passive: only check that it exists.
    Exchange(ExchangeSpec),
    /// Check that an exchange exists.
    ExchangePassive(Name),
    /// Delete an exchange.
    DeleteExchange {
        /// Which.
        name: Name,
        /// Only when nothing is bound.
        if_unused: bool,
    },
    /// Declare a queue.
    Queue(QueueSpec),
    /// Check that a queue exists (and is not another connection's).
    QueuePassive(Name),
    /// Delete a queue.
    DeleteQueue {
        /// Which.
        name: Name,
        /// Only without consumers.
        if_unused: bool,
        /// Only without messages.
        if_empty: bool,
    },
    /// Remove all ready messages.
    Purge(Name),
    /// Make a binding (again is no error).
    Bind(BindingSpec),
    /// Remove a binding (missing is no error).
    Unbind(BindingSpec),
    /// Declare a topic.
    Topic(TopicSpec),
    /// Delete a topic and what it keeps.
    DeleteTopic(Name),
    /// Declare a consumer group of a topic.
    Group(GroupSpec),
    /// Delete a group: its members end, what it remembers is gone.
    DeleteGroup {
        /// Of which topic.
        topic: Name,
        /// Which.
        group: Name,
    },
    /// Set a group to a place: everything from there on is delivered (again), nothing before it. Leases are void.
    SeekGroup {
        /// Of which topic.
        topic: Name,
        /// Which.
        group: Name,
        /// Where to.
        to: GroupStart,
    },
}

/// A question. Answers show the connection's vhost.
#[derive(Debug, Clone)]
pub enum Query {
    /// All queues.
    Queues,
    /// One queue.
    Queue(Name),
    /// All exchanges.
    Exchanges,
    /// Bindings, filtered by exchange or queue.
    Bindings {
        /// Only of this exchange.
        exchange: Option<Name>,
        /// Only to this queue.
        queue: Option<Name>,
    },
    /// All topics.
    Topics,
    /// One topic.
    Topic(Name),
    /// Broker events that were made for somebody and are kept, oldest first.
    Events {
        /// Behind this number; 0: all.
        after: u64,
        /// At most so many, and at most `limits::EVENTS_PAGE_MAX`.
        max: u32,
    },
    /// All groups, or those of one topic.
    Groups(Option<Name>),
    /// One group.
    Group {
        /// Of which topic.
        topic: Name,
        /// Which.
        group: Name,
    },
    /// Who hears of a topic's events right now.
    Presence(Name),
    /// Events that a topic keeps.
    History(HistoryQuery),
    /// Connections with their consumers.
    Connections,
    /// Totals.
    Stats,
}
