//! Routing, queues and topics: one state machine over one log.
//!
//! The broker names no protocol, no codec and no socket. It sees frames, envelopes, names and positions.
//! Sessions hand it batches of requests and hear effects, in the order in which they were decided.

mod broker;
mod definition;
mod error;
mod event;
mod exchange;
pub mod feed;
mod fold;
mod group;
mod headers;
mod hold;
mod ids;
mod inspect;
mod job;
pub mod limits;
mod message;
mod metrics;
mod name;
mod principal;
mod properties;
mod record;
mod request;
mod routing;
mod state;

pub use broker::{Broker, Connection, Outbox, StartError, Startup};
pub use definition::{
    Arguments, BindTarget, BindingSpec, ExchangeKind, ExchangeSpec, HashOn, HashProperty, HeaderValue,
    Overflow, PriorityMode, QueueProperties, QueueSpec, TopicSpec,
};
pub use error::{Access, BrokerError, Kind};
pub use event::{AMQ_EVENT, EventInfo, EventKind, Happening, Said, Word};
pub use feed::{Cursor, FeedEvent, FeedItem, Subscribe, Subscription};
pub use group::{
    Distribution, Filter, GroupCounts, GroupInfo, GroupSpec, GroupStart, History, HistoryQuery, KeySource,
    Member, MemberInfo, MemberState, Presence, Retry,
};
pub use headers::{HeaderTable, HeadersFn};
pub use hold::Hold;
pub use ids::{ConnectionId, ConsumerId, Offset, PoolId, QueueId, RequestId, Seq, Token, TopicId, WatchId};
pub use inspect::{Fingerprints, FoundQueue, FoundTopic, Inspection, fingerprint, inspect, lost_records};
pub use limits::Limits;
pub use message::{Death, DeathReason, Dedup, Delivery, Envelope, Keys, Origin, Position, SharedEvent};
pub use metrics::Metrics;
pub use name::Name;
pub use principal::{Grant, Principal};
#[cfg(feature = "measure")]
#[doc(hidden)]
pub use {feed::measure as measure_feed, routing::measure as measure_routing};

pub use job::{
    Job, JobBackoff, JobCare, JobFailure, JobGrowth, JobId, JobLogLine, JobPhase, JobRate, JobReason,
    JobRules, JobState, JobStep, JobTerms, JobUnique,
};
pub use request::{
    Answer, BindingInfo, Browse, Browsed, CancelReason, ConnectionInfo, Consume, Credit, Define, Effect,
    ExchangeInfo, Fetch, Lease, Outcome, Publish, Published, Query, QueueInfo, Reply, Request, Settle, Stats,
    TopicInfo,
};
pub use request::{
    JobAck, JobCareChange, JobChange, JobCounts, JobError, JobEvent, JobEventKind, JobExtend, JobFail,
    JobInfo, JobLimits, JobList, JobPull, JobReply, JobRequest, JobWorker, NewJob,
};

/// The predeclared topic exchange that topic publishes go through.
pub const AMQ_TOPIC: &str = "amq.topic";
