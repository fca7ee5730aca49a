//! A session: one connection's protocol state, without I/O. Bytes and effects in, bytes and requests out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use framegate_broker::{BrokerError, ConnectionId, ConsumerId, Effect, FeedItem, HeaderTable, Name};

use crate::budget::UnfinishedBudget;
use crate::outbound::Outbound;
use crate::registry::Adaptors;

/// Largest message of a WebSocket client in bytes, unless the session says otherwise.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// What a session's WebSocket messages are, both ways. A message of the other kind closes the connection with 1003.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MessageFormat {
    /// UTF-8 text.
    #[default]
    Text,
    /// Bytes.
    Binary,
}

/// What a `read` made of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Bytes that are done with; the rest comes again, with more behind it.
    pub consumed: usize,
    /// Bytes beyond `consumed` that must be there before another `read` can do anything; 0 or 1: any.
    pub need: usize,
}

/// Ends the connection. The session has put its protocol's own goodbye into the outbound before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SessionError {
    /// For the log line: what the peer did, with the value.
    pub reason: String,
}

impl SessionError {
    /// An error with its reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// Who wants in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Name and password.
    Password {
        /// User name.
        user: String,
        /// Password, never logged.
        password: Secret,
    },
    /// A bearer token.
    Token(Secret),
    /// Common name of a verified client certificate.
    Certificate(String),
    /// Nobody in particular; allowed where the listener is open.
    Anonymous,
}

/// Text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

/// A login: the driver authenticates it and opens the broker connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Who.
    pub credentials: Credentials,
    /// Which vhost; None: the listener's.
    pub vhost: Option<String>,
}

/// Why a login was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// Unknown user, wrong password or token.
    #[error("login refused")]
    Refused,
    /// Anonymous clients are not allowed here.
    #[error("credentials are required")]
    Required,
    /// Logged in, but the broker does not let it in (vhost, limits, stopping).
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

/// A login that worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// Id of the broker connection.
    pub connection: ConnectionId,
    /// The user.
    pub user: Name,
    /// The vhost it is in.
    pub vhost: Name,
}

/// What a session knows from the start.
#[derive(Clone)]
pub struct SessionContext {
    /// The other side.
    pub peer: SocketAddr,
    /// Name of the listener.
    pub listener: &'static str,
    /// Vhost of the listener.
    pub vhost: Name,
    /// Whether anonymous logins are accepted on this listener.
    pub anonymous: bool,
    /// Reads headers of frames of any protocol.
    pub headers: HeaderTable,
    /// Adaptors by name.
    pub adaptors: Adaptors,
    /// Process-wide budget of messages that are still arriving.
    pub budget: UnfinishedBudget,
    /// The plugin's section of the configuration; `Null` when absent.
    pub settings: Arc<serde_json::Value>,
    /// Largest message in frame bytes.
    pub message_bytes_max: usize,
}

/// One connection of a stream protocol, or of a WebSocket (one message is one `read`).
pub trait Session: Send {
    /// Called once, before anything else; most sessions log in anonymously here or wait for credentials.
    fn open(&mut self, out: &mut Outbound);

    /// Input from the peer, all that has arrived. Called again with the unconsumed rest and what follows; also without
    /// anything new, after a login, an effect or a subscription was answered, so that a session may stop in the
    /// middle and wait for one. What a WebSocket session does not consume of a message is dropped.
    ///
    /// # Errors
    /// Ends the connection after what is in `out` was written.
    fn read(&mut self, input: &[u8], out: &mut Outbound) -> Result<Progress, SessionError>;

    /// The result of a login that the session asked for. Nothing is read meanwhile.
    ///
    /// # Errors
    /// As `read`.
    fn logged_in(
        &mut self,
        result: Result<Welcome, LoginError>,
        out: &mut Outbound,
    ) -> Result<(), SessionError>;

    /// Something the broker says, in order.
    ///
    /// # Errors
    /// As `read`.
    fn effect(&mut self, effect: Effect, out: &mut Outbound) -> Result<(), SessionError>;

    /// A subscription that the session asked for is live, or was refused.
    ///
    /// # Errors
    /// As `read`.
    fn subscribed(
        &mut self,
        consumer: ConsumerId,
        result: Result<Subscribed, BrokerError>,
        out: &mut Outbound,
    ) -> Result<(), SessionError> {
        let _ = (consumer, result, out);
        Ok(())
    }

    /// An item of a subscription. Return false to have no more until `Outbound::resume_feed`.
    ///
    /// # Errors
    /// As `read`.
    fn feed(
        &mut self,
        consumer: ConsumerId,
        item: &FeedItem,
        out: &mut Outbound,
    ) -> Result<bool, SessionError> {
        let _ = (consumer, item, out);
        Ok(true)
    }

    /// The peer is not being read, because of us: its silence says nothing. Called right before a `tick` while that is so.
    fn unread(&mut self) {}

    /// Time has passed: heartbeats and timeouts. `now` is monotonic, since the connection began. Returns how long to wait
    /// before the next call (`Duration::MAX`: no call is needed); the driver keeps at least 10 ms between two
    /// calls. Called first after `open`, and at once after each `logged_in` and after `drain`, whatever was
    /// returned before.
    ///
    /// # Errors
    /// As `read`.
    fn tick(&mut self, now: Duration, out: &mut Outbound) -> Result<Duration, SessionError>;

    /// The server is stopping: say goodbye in the protocol's own words and close when done.
    fn drain(&mut self, out: &mut Outbound);

    /// Whether WebSocket messages are text or binary. Asked once.
    fn message_format(&self) -> MessageFormat {
        MessageFormat::Text
    }

    /// Largest WebSocket message that a client may send, in bytes; a larger one closes with 1009. Asked once.
    fn message_bytes_max(&self) -> usize {
        MESSAGE_BYTES_MAX
    }

    /// Bytes of unfinished messages that the session holds itself (a body that arrives in pieces). The driver charges them to
    /// the budget and times them as it does the bytes that it keeps.
    fn unfinished_bytes(&self) -> usize {
        0
    }
}

/// A live subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscribed {
    /// Where it stands.
    pub cursor: framegate_broker::Cursor,
    /// Whether the start asked for was found.
    pub exact: bool,
}
