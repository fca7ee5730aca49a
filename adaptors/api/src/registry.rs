//! The registry: what is linked in. Plugins submit descriptors; nobody else names a protocol.

use std::collections::BTreeMap;
use std::sync::Arc;

use framegate_broker::{HeaderTable, HeadersFn};

use crate::adaptor::FrameAdaptor;
use crate::client::HttpContext;
use crate::session::{Session, SessionContext};

/// An adaptor that is linked in.
pub struct AdaptorPlugin {
    /// Registry name, lower case.
    pub name: &'static str,
    /// Makes it. Called once.
    pub build: fn() -> Arc<dyn FrameAdaptor>,
    /// Reads the headers of frames that it made, if it keeps headers in its private attribute.
    pub headers: Option<HeadersFn>,
}

/// A protocol that is linked in: one or more listeners.
pub struct ProtocolPlugin {
    /// Registry name, lower case; also the name of its section in the configuration.
    pub name: &'static str,
    /// What it serves.
    pub mounts: &'static [Mount],
    /// Checks the protocol's section of the configuration (`Null` when absent); the text says key, value and what is
    /// allowed.
    pub check: fn(&serde_json::Value) -> Result<(), String>,
}

/// Something that is served.
pub struct Mount {
    /// Listener name as in the configuration and on the command line.
    pub name: &'static str,
    /// Where, when nothing is configured.
    pub default: DefaultListener,
    /// How.
    pub serve: Serve,
}

/// Where a mount is reached by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultListener {
    /// A listener of its own, on loopback.
    Port(u16),
    /// A listener of its own that is off unless configured.
    Off(u16),
    /// Merged into the HTTP listener of that name.
    Shared(&'static str),
}

/// Opens a session for a WebSocket, or says why not: the text of a 400.
pub type OpenWebSocket = fn(&SessionContext, &WebSocketRequest) -> Result<Box<dyn Session>, String>;

/// What a listener does with a connection.
#[derive(Clone, Copy)]
pub enum Serve {
    /// A byte stream; the driver owns the socket.
    Stream(fn(&SessionContext) -> Box<dyn Session>),
    /// HTTP routes.
    Http(fn(&HttpContext) -> axum::Router),
    /// A WebSocket endpoint under a path; one message is one `read`.
    WebSocket {
        /// Path of the endpoint.
        path: &'static str,
        /// Subprotocols, preferred first; the first that the client offered is answered.
        subprotocols: &'static [&'static str],
        /// Opens a session, or says why not.
        open: OpenWebSocket,
    },
}

/// What a client asked for when it opened a WebSocket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebSocketRequest {
    /// Query parameters, decoded, in order.
    pub query: Vec<(String, String)>,
    /// The subprotocol that was answered, if any.
    pub subprotocol: Option<&'static str>,
    /// Credentials of the upgrade request (`Authorization`, or a `bearer.` subprotocol entry); None: none given.
    pub credentials: Option<crate::session::Credentials>,
    /// `Origin`, if given.
    pub origin: Option<String>,
}

/// Counters that a protocol keeps beside the broker's and the drivers'; they only grow.
pub struct CounterPlugin {
    /// Registry name of the protocol.
    pub name: &'static str,
    /// Every counter with its name, in a fixed order.
    pub read: fn() -> Vec<(&'static str, u64)>,
}

/// Counters of every protocol that keeps some: (protocol, counter, value).
#[must_use]
pub fn counters() -> Vec<(&'static str, &'static str, u64)> {
    let mut all: Vec<_> = inventory::iter::<CounterPlugin>
        .into_iter()
        .flat_map(|plugin| (plugin.read)().into_iter().map(|(name, value)| (plugin.name, name, value)))
        .collect();
    all.sort_unstable();
    all
}

inventory::collect!(CounterPlugin);
inventory::collect!(AdaptorPlugin);
inventory::collect!(ProtocolPlugin);

/// Two plugins that cannot live together, or a reference to one that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RegistryError(pub String);

/// Adaptors by name. Cheap to clone.
#[derive(Clone)]
pub struct Adaptors {
    by_name: Arc<BTreeMap<&'static str, Arc<dyn FrameAdaptor>>>,
    headers: HeaderTable,
}

impl Adaptors {
    /// Every adaptor that is linked in.
    ///
    /// # Errors
    /// Two plugins of one name.
    pub fn collect() -> Result<Self, RegistryError> {
        let mut by_name = BTreeMap::new();
        let mut headers = Vec::new();
        for plugin in inventory::iter::<AdaptorPlugin> {
            if by_name.insert(plugin.name, (plugin.build)()).is_some() {
                return Err(RegistryError(format!("two adaptors are named '{}'", plugin.name)));
            }
            headers.extend(plugin.headers.map(|read| (plugin.name, read)));
        }
        Ok(Self { by_name: Arc::new(by_name), headers: HeaderTable::new(headers) })
    }

    /// These adaptors and no others, without header functions.
    #[cfg(test)]
    pub(crate) fn of(adaptors: impl IntoIterator<Item = Arc<dyn FrameAdaptor>>) -> Self {
        let by_name = adaptors.into_iter().map(|adaptor| (adaptor.name(), adaptor)).collect();
        Self { by_name: Arc::new(by_name), headers: HeaderTable::default() }
    }

    /// An adaptor by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn FrameAdaptor>> {
        self.by_name.get(name)
    }

    /// All, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn FrameAdaptor>> {
        self.by_name.values()
    }

    /// The table of header functions.
    #[must_use]
    pub fn headers(&self) -> &HeaderTable {
        &self.headers
    }
}

/// Every protocol that is linked in, sorted by name.
///
/// # Errors
/// Two plugins of one name, two listeners of one name, or two WebSockets on one path.
pub fn protocols() -> Result<Vec<&'static ProtocolPlugin>, RegistryError> {
    let mut all: Vec<&ProtocolPlugin> = inventory::iter::<ProtocolPlugin>.into_iter().collect();
    all.sort_by_key(|p| p.name);
    let mut seen = BTreeMap::new();
    for plugin in &all {
        let mut claims = vec![format!("protocol '{}'", plugin.name)];
        for mount in plugin.mounts {
            claims.push(format!("listener '{}'", mount.name));
            if let Serve::WebSocket { path, .. } = mount.serve {
                claims.push(format!("path '{path}'"));
            }
        }
        for claim in claims {
            if let Some(other) = seen.insert(claim.clone(), plugin.name) {
                return Err(RegistryError(format!(
                    "{claim} is claimed by '{other}' and by '{}'",
                    plugin.name
                )));
            }
        }
    }
    Ok(all)
}
