//! What a protocol author reads: adaptors, sessions, mounts, the registry and the drivers.

mod adaptor;
mod auth;
mod budget;
mod client;
mod outbound;
mod registry;
mod session;

pub use adaptor::{AdaptError, Egress, FrameAdaptor, Inbound, WireMessage};
pub use auth::Authenticator;
pub use budget::{Reservation, UNFINISHED_BYTES_MAX, UnfinishedBudget};
pub use client::{Client, HttpContext, credentials_of};
pub use inventory;
pub use outbound::{Chunk, Close, Outbound};
pub use registry::{
    AdaptorPlugin, Adaptors, DefaultListener, Mount, ProtocolPlugin, RegistryError, Serve, WebSocketRequest,
    protocols,
};
pub use session::{
    Credentials, Login, LoginError, Progress, Secret, Session, SessionContext, SessionError, Subscribed,
    Welcome,
};
