//! What a connection is driven with. The server makes it, once per connection.

use std::sync::Arc;

use framegate_broker::Broker;
use tokio::sync::watch;

use super::metrics::DriverMetrics;
use crate::auth::Authenticator;
use crate::session::SessionContext;

/// What `drive_stream` and `drive_websocket` need beside the socket and the session. Cheap to clone.
#[derive(Clone)]
pub struct DriverDeps {
    /// The broker.
    pub broker: Broker,
    /// Checks credentials.
    pub authenticator: Arc<dyn Authenticator>,
    /// What the session was made with: peer, listener, vhost, budget.
    pub context: SessionContext,
    /// Turns true when the server stops: the session is drained. The server ends the task after its grace period.
    pub stop: watch::Receiver<bool>,
    /// Counters of the listener.
    pub metrics: Arc<DriverMetrics>,
}
