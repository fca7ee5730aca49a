//! What a protocol author reads: adaptors, sessions, mounts, the registry and the drivers.
//!
//! A protocol is a crate that submits descriptors and writes two things:
//!
//! - a [`FrameAdaptor`]: its message to the internal frame and back. Pure and total, no I/O, no clock.
//! - a [`Session`]: one connection's state. Bytes or messages in; bytes, requests, logins and subscriptions out, collected
//!   in an [`Outbound`]. No I/O either, so that it is tested by feeding it bytes (`testing`, `compliance`).
//!
//! Everything else is here: [`drive_stream`] and [`drive_websocket`] own sockets, limits, batching, backpressure, time and
//! the end; [`websocket_router`] the upgrade; [`HttpContext`] and [`Client`] what HTTP routes need, [`problem`] the shape of their errors. Pieces that several
//! protocols share: [`next_packet`] (length-prefixed packets), [`Unacked`] and [`UnackedUuids`] (delivery tags), [`read_section`] (settings).
//!
//! [`protocols`] and [`Adaptors::collect`] give what is linked in. Nothing in this crate names a protocol.

mod adaptor;
mod auth;
mod budget;
mod client;
#[cfg(any(test, feature = "compliance"))]
pub mod compliance;
mod driver;
mod framing;
mod outbound;
mod problem;
mod registry;
mod section;
mod session;
#[cfg(any(test, feature = "compliance"))]
pub mod testing;
mod unacked;
mod websocket;

pub use adaptor::{AdaptError, Egress, FrameAdaptor, Inbound, WireMessage};
pub use auth::Authenticator;
pub use budget::{Reservation, UNFINISHED_BYTES_MAX, UnfinishedBudget};
pub use client::{Client, HttpContext, credentials_of};
pub use driver::{DriverDeps, DriverMetrics, drive_stream, drive_websocket};
pub use framing::{FramingError, PREFIX_BYTES, Packet, next_packet, put_packet};
pub use inventory;
pub use outbound::{Chunk, Close, Outbound};
pub use problem::problem;
pub use registry::{
    AdaptorPlugin, Adaptors, CounterPlugin, DefaultListener, Mount, OpenWebSocket, ProtocolPlugin,
    RegistryError, Serve, WebSocketRequest, counters, protocols,
};
pub use section::{Setting, read_section};
pub use session::{
    Credentials, Login, LoginError, MESSAGE_BYTES_MAX, MessageFormat, Progress, Secret, Session,
    SessionContext, SessionError, Subscribed, Welcome,
};
pub use unacked::{ConsumerSeqs, Unacked, UnackedError, UnackedUuids};
pub use websocket::websocket_router;
