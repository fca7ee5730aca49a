//! Stream listeners: makes a session for each connection and hands both to the driver.

use std::net::SocketAddr;
use std::sync::Arc;

use framegate_adaptor_api::{DriverDeps, HttpContext, Session, SessionContext, drive_stream};
use framegate_broker::Name;

use super::socket::HeldStream;
use super::stats::ListenerStats;
use crate::http::Assembly;

/// Serves the connections of one listener. Cheap to clone.
#[derive(Clone)]
pub(crate) struct StreamServer {
    name: &'static str,
    open: fn(&SessionContext) -> Box<dyn Session>,
    context: HttpContext,
    stats: Arc<ListenerStats>,
}

impl StreamServer {
    /// A server of this protocol's sessions.
    pub(crate) fn new(
        name: &'static str,
        protocol: &'static str,
        open: fn(&SessionContext) -> Box<dyn Session>,
        vhost: Name,
        assembly: &Assembly,
        stats: &Arc<ListenerStats>,
    ) -> Self {
        let settings = assembly.settings.get(protocol).cloned().unwrap_or_default();
        let context = HttpContext { vhost, settings, ..assembly.context.clone() };
        Self { name, open, context, stats: Arc::clone(stats) }
    }

    /// Serves one connection to its end.
    pub(crate) fn serve(self, stream: HeldStream, peer: SocketAddr) -> impl Future<Output = ()> + Send {
        let from = self.context;
        let context = SessionContext {
            peer,
            listener: self.name,
            vhost: from.vhost,
            anonymous: from.anonymous,
            headers: from.adaptors.headers().clone(),
            adaptors: from.adaptors,
            budget: from.budget,
            settings: from.settings,
            message_bytes_max: from.message_bytes_max,
        };
        let session = (self.open)(&context);
        let deps = DriverDeps {
            broker: from.broker,
            authenticator: from.authenticator,
            context,
            stop: from.stopping,
            metrics: Arc::clone(self.stats.driver()),
        };
        drive_stream(stream, session, deps)
    }
}
