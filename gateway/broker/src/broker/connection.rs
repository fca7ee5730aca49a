//! One client's connection: the way in, and the way out.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc, oneshot};

use super::{Alive, Shared, route};
use crate::error::BrokerError;
use crate::event::Happening;
use crate::fold::inbox::{Batch, Inbox, Window};
use crate::ids::{ConnectionId, RequestId};
use crate::name::Name;
use crate::principal::Principal;
use crate::request::{Effect, Request};

/// One client's connection. Dropping it sends the disconnect on a path that is never full: its consumers end, what it
/// holds returns to the queues, its exclusive queues are deleted.
pub struct Connection {
    id: ConnectionId,
    vhost: Name,
    principal: Principal,
    shared: Arc<Shared>,
    window: Arc<Window>,
    untaken: Arc<Semaphore>,
    /// The broker lives as long as somebody is connected.
    _alive: Option<Arc<Alive>>,
}

impl Connection {
    pub(super) fn new(
        id: ConnectionId,
        vhost: Name,
        principal: Principal,
        shared: Arc<Shared>,
        window: Arc<Window>,
        untaken: Arc<Semaphore>,
    ) -> Self {
        Self { id, vhost, principal, shared, window, untaken, _alive: None }
    }

    pub(super) fn keep_alive(&mut self, alive: Arc<Alive>) {
        self._alive = Some(alive);
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// The vhost it is in.
    #[must_use]
    pub fn vhost(&self) -> &Name {
        &self.vhost
    }

    /// The user it acts for.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Replaces the principal (renewed credentials).
    pub fn set_principal(&mut self, principal: Principal) {
        self.principal = principal;
    }

    /// Hands over requests, in order. Checks permissions and routes publishes on the calling task. The future resolves
    /// when the fold has room for the next batch: at most 4 batches untaken, publishes within the admission
    /// budget and not while publishers are held, nothing behind a definition before its snapshot is out. It must be polled
    /// to the end before the next `submit`; meanwhile the session goes on writing. Dropping it drops the requests not yet handed over.
    ///
    /// # Errors
    /// `Stopping` or `StorageFailed` when the fold has ended. Refusals of single requests are effects.
    pub fn submit(
        &self,
        requests: Vec<(RequestId, Request)>,
    ) -> impl Future<Output = Result<(), BrokerError>> + Send + 'static {
        let (id, vhost, principal) = (self.id, self.vhost.clone(), self.principal.clone());
        let (shared, untaken) = (Arc::clone(&self.shared), Arc::clone(&self.untaken));
        async move {
            if shared.has_failed() {
                return Err(BrokerError::StorageFailed);
            }
            let mut requests = requests.into_iter().peekable();
            while requests.peek().is_some() {
                // up to and including the first definition: what follows is routed by the topology after it
                let mut tasks = Vec::new();
                let mut defines = false;
                let mut bytes = 0;
                while let Some((_, next)) = requests.peek() {
                    // what stands before a publish that is held does not wait for it
                    let held = route::publishes(next) && shared.gate.closed_for().is_some();
                    if held && !tasks.is_empty() {
                        break;
                    }
                    if held {
                        shared.send(Inbox::Waits(id));
                        shared.gate.pass().await;
                    }
                    let Some((request, what)) = requests.next() else { break };
                    defines = matches!(what, Request::Define(_) | Request::Mailbox { .. });
                    let task = route::route(&shared, &principal, &vhost, what);
                    bytes += route::bytes(&task);
                    tasks.push((request, task));
                    if defines {
                        break;
                    }
                }
                if bytes > 0 && shared.gate.closed_for().is_some() {
                    // it was closed meanwhile, or what is brought is no publish
                    shared.send(Inbox::Waits(id));
                    shared.gate.pass().await;
                }
                let permit = shared.admit(bytes).await?;
                let slot = Arc::clone(&untaken).acquire_owned().await.map_err(|_| shared.why_ended())?;
                let (applied, known) = oneshot::channel();
                let wait = defines && requests.peek().is_some();
                let batch =
                    Batch { connection: id, tasks, permit, untaken: slot, applied: wait.then_some(applied) };
                let requests = batch.tasks.len();
                if !shared.hand_over(Inbox::Batch(batch), requests, bytes) {
                    return Err(shared.why_ended());
                }
                if wait {
                    known.await.map_err(|_| shared.why_ended())?;
                }
            }
            Ok(())
        }
    }

    /// Tells of something that happened on the connection, for broker events. Never waits; what was submitted before comes
    /// before it.
    pub fn report(&self, what: Happening) {
        self.shared.send(Inbox::Happened(self.id, what));
    }

    /// Gives window bytes back after deliveries were written to the peer.
    pub fn written(&self, bytes: usize) {
        if self.window.give_back(bytes) {
            self.shared.send(Inbox::Resume(self.id));
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.close_connection();
        self.shared.send(Inbox::Disconnect(self.id));
    }
}

/// The way out of a connection.
pub struct Outbox {
    effects: mpsc::UnboundedReceiver<Vec<Effect>>,
}

impl Outbox {
    pub(super) fn new(effects: mpsc::UnboundedReceiver<Vec<Effect>>) -> Self {
        Self { effects }
    }

    /// The effects of one pass, in order; None when the broker has stopped. Cancel-safe.
    pub async fn recv(&mut self) -> Option<Vec<Effect>> {
        self.effects.recv().await
    }

    /// Effects that are there now.
    pub fn try_recv(&mut self) -> Option<Vec<Effect>> {
        self.effects.try_recv().ok()
    }
}
