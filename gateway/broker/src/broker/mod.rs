//! The broker's handle: connections, detached calls, subscriptions, start and stop. Everything here runs on the
//! caller's task; decisions are the fold's.

mod connection;
mod route;
mod shared;
mod startup;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use framegate_storage::{Generation, ShardStore, StoreError};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

pub use connection::{Connection, Outbox};
#[cfg(test)]
pub(crate) use route::route as route_request;
pub(crate) use shared::Shared;
pub use startup::{StartError, Startup};

use crate::error::{Access, BrokerError, Kind};
use crate::feed::{Subscribe, Subscription};
use crate::fold::inbox::{Inbox, Opened, Window};
use crate::limits::BATCHES_UNTAKEN_MAX;
use crate::metrics::Metrics;
use crate::name::Name;
use crate::principal::Principal;
use crate::request::{Reply, Request};

/// Patterns of one subscription at most.
const PATTERNS_MAX: usize = 100;

/// The broker. Cheap to clone; all clones are one broker.
#[derive(Clone)]
pub struct Broker {
    shared: Arc<Shared>,
    store: Arc<dyn ShardStore>,
    alive: Arc<Alive>,
}

/// Held by every handle: the last one that goes without `stop` ends the fold as a kill would.
pub(crate) struct Alive(Arc<Shared>);

impl Drop for Alive {
    fn drop(&mut self) {
        // after an orderly stop nobody hears it
        self.0.send(Inbox::Abandon);
    }
}

impl Broker {
    /// Claims the shard, recovers, builds the topology and starts the fold. Blocks until recovered.
    ///
    /// # Errors
    /// See `StartError`.
    pub fn start(startup: Startup) -> Result<Self, StartError> {
        startup::start(startup)
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
        self.enter(principal, vhost)?;
        let id = self.shared.open_connection()?;
        let (outbox, receiver) = mpsc::unbounded_channel();
        let window = Arc::new(Window::new(self.shared.limits.window_bytes));
        let opened = Opened {
            id,
            vhost: vhost.clone(),
            user: principal.name().clone(),
            label: label.to_owned(),
            outbox,
            window: Arc::clone(&window),
        };
        self.shared.send(Inbox::Connect(Box::new(opened)));
        let untaken = Arc::new(Semaphore::new(BATCHES_UNTAKEN_MAX));
        let shared = Arc::clone(&self.shared);
        let mut connection = Connection::new(id, vhost.clone(), principal.clone(), shared, window, untaken);
        connection.keep_alive(Arc::clone(&self.alive));
        Ok((connection, Outbox::new(receiver)))
    }

    /// One request without a connection. Pulled messages are settled by token. Waits for admission and the answer.
    ///
    /// # Errors
    /// What the broker answers; `Held` at once for a publish while publishers are held.
    pub async fn call(
        &self,
        principal: &Principal,
        vhost: &Name,
        request: Request,
    ) -> Result<Reply, BrokerError> {
        self.enter(principal, vhost)?;
        let task = route::route(&self.shared, principal, vhost, request);
        let bytes = route::bytes(&task);
        if bytes > 0
            && let Some(hold) = self.shared.gate.closed_for()
        {
            return Err(BrokerError::Held { hold });
        }
        let permit = self.shared.admit(bytes).await?;
        let (reply, answer) = oneshot::channel();
        let call = Inbox::Call { vhost: vhost.clone(), task, permit, reply };
        if !self.shared.hand_over(call, 1, bytes) {
            return Err(self.shared.why_ended());
        }
        answer.await.unwrap_or_else(|_| Err(self.shared.why_ended()))
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
        self.enter(principal, vhost)?;
        if what.patterns.is_empty() || what.patterns.len() > PATTERNS_MAX {
            let value = what.patterns.len().to_string();
            return Err(BrokerError::Invalid { what: "number of topics", value, reason: "is not 1 to 100" });
        }
        for pattern in &what.patterns {
            Name::declared(pattern)?;
            principal.check(Access::Read, Kind::Topic, pattern, vhost)?;
        }
        let (reply, answer) = oneshot::channel();
        if !self.shared.send(Inbox::Subscribe { vhost: vhost.clone(), what, reply }) {
            return Err(self.shared.why_ended());
        }
        let parts = answer.await.unwrap_or_else(|_| Err(self.shared.why_ended()))?;
        Ok(Subscription::new(parts))
    }

    /// Wakes the subscribers of busy topics from the task that runs this: run it once, on the runtime that they live on.
    /// Without it the fold wakes them itself. Never ends.
    pub fn wake_subscribers(&self) -> impl Future<Output = ()> + Send + use<> {
        self.shared.hub.clone().run()
    }

    /// Names the store; part of every cursor.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.shared.generation
    }

    /// Counters.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        let held = self.shared.admission_held();
        self.shared.metrics.admission_bytes.store(held, Ordering::Relaxed);
        &self.shared.metrics
    }

    /// Turns to the storage error when the shard has failed: listeners close, the process exits with 70.
    #[must_use]
    pub fn failure(&self) -> watch::Receiver<Option<StoreError>> {
        self.shared.failure()
    }

    /// All listeners are bound, by name and address: `broker.started` is published. Never waits.
    pub fn announce(&self, listeners: Vec<(String, String)>) {
        self.shared.send(Inbox::Started(listeners));
    }

    /// Refuses publishes from now on; acks, cancels and queries go on.
    pub fn refuse_publishes(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        // those who wait are refused
        self.shared.gate.open_for_good();
    }

    /// Ends the fold: last block with the clean-shutdown flag, sync, storage shutdown. Waits.
    ///
    /// # Errors
    /// The storage error that kept the stop from being clean.
    pub async fn stop(&self) -> Result<(), StoreError> {
        self.refuse_publishes();
        let (reply, done) = oneshot::channel();
        if self.shared.send(Inbox::Stop(reply)) {
            let _ = done.await;
        }
        if let Some(error) = self.shared.failure().borrow().clone() {
            return Err(error);
        }
        self.store.shutdown()
    }

    fn enter(&self, principal: &Principal, vhost: &Name) -> Result<(), BrokerError> {
        if !self.shared.vhosts.contains(vhost) {
            return Err(BrokerError::NotFound {
                kind: Kind::Vhost,
                name: vhost.clone(),
                vhost: vhost.clone(),
            });
        }
        if !principal.may_enter(vhost) {
            let (name, user) = (vhost.clone(), principal.name().clone());
            let vhost = vhost.clone();
            return Err(BrokerError::Forbidden {
                kind: Kind::Vhost,
                name,
                vhost,
                user,
                access: Access::Read,
            });
        }
        Ok(())
    }
}
