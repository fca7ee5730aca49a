//! The broker's handle: connections, detached calls, subscriptions, start and stop.

use std::future::Future;
use std::sync::Arc;

use framegate_storage::{Generation, ShardStore, StoreError};
use tokio::sync::watch;

use crate::error::BrokerError;
use crate::feed::{FeedItem, Subscribe};
use crate::headers::HeaderTable;
use crate::ids::{ConnectionId, RequestId};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::name::Name;
use crate::principal::Principal;
use crate::request::{Effect, Reply, Request};

/// What a broker is made of.
pub struct Startup {
    /// Where the log is.
    pub store: Arc<dyn ShardStore>,
    /// Bounds.
    pub limits: Limits,
    /// How headers are read.
    pub headers: HeaderTable,
    /// Vhosts that exist; at least `/`.
    pub vhosts: Vec<Name>,
}

/// Why a broker did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Storage could not be claimed or recovered.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log holds something that this version does not understand.
    #[error("record {lsn} of the log cannot be read: {detail}")]
    Record {
        /// Which record.
        lsn: u64,
        /// What is wrong.
        detail: String,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// The broker. Cheap to clone; all clones are one broker.
#[derive(Clone)]
pub struct Broker {}

impl Broker {
    /// Claims the shard, recovers, builds the topology and starts the fold. Blocks until recovered.
    ///
    /// # Errors
    /// See `StartError`.
    pub fn start(startup: Startup) -> Result<Self, StartError> {
        drop(startup);
        unreachable!()
    }

    /// Opens a connection. `label` is shown to operators (protocol and peer). Never waits.
    ///
    /// # Errors
    /// `Limit` when there are too many, `NotFound` for an unknown vhost, `Forbidden` when the principal has no grant there.
    pub fn connect(
        &self,
        principal: &Principal,
        vhost: &Name,
        label: &str,
    ) -> Result<(Connection, Outbox), BrokerError> {
        let _ = (principal, vhost, label);
        unreachable!()
    }

    /// One request without a connection. Pulled messages are settled by token. Waits for admission and the answer.
    ///
    /// # Errors
    /// What the broker answers.
    pub async fn call(
        &self,
        principal: &Principal,
        vhost: &Name,
        request: Request,
    ) -> Result<Reply, BrokerError> {
        let _ = (principal, vhost, request);
        unreachable!()
    }

    /// Subscribes to topics. Waits until exact topics exist and the subscription is live.
    ///
    /// # Errors
    /// `Forbidden`, `Invalid` names, `Limit`.
    pub async fn subscribe(
        &self,
        principal: &Principal,
        vhost: &Name,
        what: Subscribe,
    ) -> Result<Subscription, BrokerError> {
        let _ = (principal, vhost, what);
        unreachable!()
    }

    /// Names the store; part of every cursor.
    #[must_use]
    pub fn generation(&self) -> Generation {
        unreachable!()
    }

    /// Counters.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        unreachable!()
    }

    /// Turns to the storage error when the shard has failed: listeners close, the process exits with 70.
    #[must_use]
    pub fn failure(&self) -> watch::Receiver<Option<StoreError>> {
        unreachable!()
    }

    /// Refuses publishes from now on; acks, cancels and queries go on.
    pub fn refuse_publishes(&self) {
        unreachable!()
    }

    /// Ends the fold: last block with the clean-shutdown flag, sync, storage shutdown. Waits.
    ///
    /// # Errors
    /// The storage error that kept the stop from being clean.
    pub async fn stop(&self) -> Result<(), StoreError> {
        unreachable!()
    }
}

/// One client's connection. Dropping it sends the disconnect on a path that is never full: its consumers end, what it
/// holds returns to the queues, its exclusive queues are deleted.
pub struct Connection {}

impl Connection {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        unreachable!()
    }

    /// The vhost it is in.
    #[must_use]
    pub fn vhost(&self) -> &Name {
        unreachable!()
    }

    /// The user it acts for.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        unreachable!()
    }

    /// Replaces the principal (renewed credentials).
    pub fn set_principal(&mut self, principal: Principal) {
        drop(principal);
        unreachable!()
    }

    /// Hands over requests, in order. Checks permissions and routes publishes on the calling task. The future resolves
    /// when the fold has room for the next batch: at most 4 batches untaken, publishes within the admission
    /// budget, nothing behind a definition before its snapshot is out. It must be polled to the end before the
    /// next `submit`; meanwhile the session goes on writing. Dropping it drops the requests not yet handed over.
    ///
    /// # Errors
    /// `Stopping` or `StorageFailed` when the fold has ended. Refusals of single requests are effects.
    pub fn submit(
        &self,
        requests: Vec<(RequestId, Request)>,
    ) -> impl Future<Output = Result<(), BrokerError>> + Send + 'static {
        drop(requests);
        async { unreachable!() }
    }

    /// Gives window bytes back after deliveries were written to the peer.
    pub fn written(&self, bytes: usize) {
        let _ = bytes;
        unreachable!()
    }
}

/// The way out of a connection.
pub struct Outbox {}

impl Outbox {
    /// The effects of one pass, in order; None when the broker has stopped. Cancel-safe.
    pub async fn recv(&mut self) -> Option<Vec<Effect>> {
        unreachable!()
    }

    /// Effects that are there now.
    pub fn try_recv(&mut self) -> Option<Vec<Effect>> {
        unreachable!()
    }
}

/// A live or replaying subscription to topics. Dropping it ends it.
pub struct Subscription {}

impl Subscription {
    /// Appends the next items to `into` (at most `max`, at least one) and waits while there is none; false when the
    /// broker has stopped. Cancel-safe: an item is either in `into` or comes again.
    pub async fn next(&mut self, into: &mut Vec<FeedItem>, max: usize) -> bool {
        let _ = (into, max);
        unreachable!()
    }

    /// Like `next` without an async function's future: for bodies and drivers that poll many subscriptions.
    pub fn poll_next(
        &mut self,
        context: &mut std::task::Context<'_>,
        into: &mut Vec<FeedItem>,
        max: usize,
    ) -> std::task::Poll<bool> {
        let _ = (context, into, max);
        unreachable!()
    }

    /// Cursor after which the subscription stands now.
    #[must_use]
    pub fn cursor(&self) -> crate::feed::Cursor {
        unreachable!()
    }

    /// Whether the start that was asked for was found (false: a loss notice comes first).
    #[must_use]
    pub fn resumed_exactly(&self) -> bool {
        unreachable!()
    }
}
