//! What reaches the fold: batches, calls, subscriptions, reports of the store, bodies that were read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use bytes::Bytes;
use framegate_storage::{Lsn, Report, StoreError};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::AnswerTo;
use super::keeper::Kept;
use crate::error::BrokerError;
use crate::event::Happening;
use crate::feed::{Page, Parts, Subscribe};
use crate::group::History;
use crate::ids::{ConnectionId, QueueId, RequestId, Seq, WatchId};
use crate::name::Name;
use crate::principal::Principal;
use crate::request::{Browsed, Effect, JobRequest, Publish, Reply, Request};
use crate::routing::Targets;

/// Where answers to a call go.
pub(crate) type ReplyTo = oneshot::Sender<Result<Reply, BrokerError>>;

/// One message to the fold.
pub(crate) enum Inbox {
    /// Requests of a connection.
    Batch(Batch),
    /// A request without a connection.
    Call {
        /// Where.
        vhost: Name,
        /// What.
        task: Task,
        /// Its share of the admission budget.
        permit: Option<OwnedSemaphorePermit>,
        /// Who hears of it.
        reply: ReplyTo,
    },
    /// A protocol reports what happened on a connection.
    Happened(ConnectionId, Happening),
    /// All listeners are bound, by name and address.
    Started(Vec<(String, String)>),
    /// A connection opened.
    Connect(Box<Opened>),
    /// A connection is gone.
    Disconnect(ConnectionId),
    /// A connection's publish waits: publishers are held.
    Waits(ConnectionId),
    /// The disk was looked at.
    Looked {
        /// Bytes free on it, if known.
        free: Option<u64>,
    },
    /// A connection's window has room again.
    Resume(ConnectionId),
    /// What the store says.
    Report(Report),
    /// Bodies that were read back.
    Loaded {
        /// Of which queue.
        queue: QueueId,
        /// Frames as bytes, or why they cannot be had.
        bodies: Vec<(Seq, Result<Bytes, StoreError>)>,
    },
    /// Messages to show, read.
    Browsed {
        /// Who asked.
        to: AnswerTo,
        /// Those that could be read.
        messages: Vec<Browsed>,
        /// There are more.
        more: bool,
        /// The jobs that these are the messages of.
        jobs: Option<Vec<super::jobs::JobHead>>,
    },
    /// Kept events that were asked for, read.
    History {
        /// Who asked.
        to: AnswerTo,
        /// What there is.
        history: History,
    },
    /// A subscription starts.
    Subscribe {
        /// Where.
        vhost: Name,
        /// To what.
        what: Subscribe,
        /// Who hears of it.
        reply: oneshot::Sender<Result<Parts, BrokerError>>,
    },
    /// A snapshot is written, or failed; or bodies that are to be written again were read.
    Kept(Kept),
    /// A subscription ended.
    Unwatch(WatchId),
    /// A subscription reads what is kept.
    Page {
        /// Whose patterns.
        watch: WatchId,
        /// Above which position.
        after: Lsn,
        /// Up to which record its losses are told.
        told: Lsn,
        /// Events at most.
        events_max: usize,
        /// Frame bytes at most.
        bytes_max: usize,
        /// Who hears of it.
        reply: oneshot::Sender<Result<Page, BrokerError>>,
    },
    /// Every handle is gone: the end, at once, as after a kill.
    Abandon,
    /// The end: last block, then the answer.
    Stop(oneshot::Sender<()>),
}

/// Requests of one connection, routed.
pub(crate) struct Batch {
    /// Whose.
    pub(crate) connection: ConnectionId,
    /// In order.
    pub(crate) tasks: Vec<(RequestId, Task)>,
    /// Share of the admission budget of its publishes.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
    /// One of the connection's few untaken batches; given back when the fold takes it.
    pub(crate) untaken: OwnedSemaphorePermit,
    /// Told when the batch was applied and its definitions can be routed by.
    pub(crate) applied: Option<oneshot::Sender<()>>,
}

/// One request, routed where it needs to be.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    /// A publish with its targets.
    Publish(Box<(Publish, Targets)>),
    /// All or nothing.
    Atomic(Vec<Task>),
    /// Refused before the fold; answered in its order.
    Refused(BrokerError),
    /// A publish with watermark that was refused before the fold.
    RefusedPublish(BrokerError),
    /// A request to the job engine, and who asks.
    Job(Box<JobRequest>, Box<Principal>),
    /// Anything else.
    Request(Request),
}

/// A connection as the fold meets it.
pub(crate) struct Opened {
    /// Its id.
    pub(crate) id: ConnectionId,
    /// Where.
    pub(crate) vhost: Name,
    /// User, for operators.
    pub(crate) user: Name,
    /// Protocol and peer, for operators.
    pub(crate) label: String,
    /// Its way out.
    pub(crate) outbox: mpsc::UnboundedSender<Vec<Effect>>,
    /// Bytes that may be on that way.
    pub(crate) window: Arc<Window>,
}

/// How many bytes may still be sent to a connection, shared with its driver.
#[derive(Debug)]
pub(crate) struct Window {
    left: AtomicI64,
    paused: AtomicBool,
}

impl Window {
    /// So many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let left = AtomicI64::new(i64::try_from(bytes).unwrap_or(i64::MAX));
        Self { left, paused: AtomicBool::new(false) }
    }

    /// There is room, or the connection is marked as paused and `give_back` will say so. Mark and look here, change and
    /// look there: only one order for all threads makes sure that one of the two sees the other.
    pub(crate) fn has_room(&self) -> bool {
        if self.left.load(Ordering::SeqCst) > 0 {
            return true;
        }
        self.paused.store(true, Ordering::SeqCst);
        // room that came between the look and the mark is seen here
        self.left.load(Ordering::SeqCst) > 0
    }

    /// Takes bytes; a message larger than the window passes alone.
    pub(crate) fn take(&self, bytes: usize) {
        self.left.fetch_sub(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::AcqRel);
    }

    /// Gives bytes back; true when the fold waits to hear of it.
    pub(crate) fn give_back(&self, bytes: usize) -> bool {
        let left = self.left.fetch_add(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::SeqCst);
        left + i64::try_from(bytes).unwrap_or(i64::MAX) > 0 && self.paused.swap(false, Ordering::SeqCst)
    }
}
