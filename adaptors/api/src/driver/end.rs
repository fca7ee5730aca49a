//! How far a connection is, and why it ended.

use std::io;

use framegate_broker::{BrokerError, Happening};
use tokio::time::Instant;

use crate::outbound::Close;

/// How far a connection is.
#[derive(Debug)]
pub(super) enum Phase {
    /// Both ways.
    Open,
    /// The peer sends no more; it gets the answers that are due.
    HalfClosed { until: Instant },
    /// The session is done. Its last requests and bytes leave; `until` bounds the requests, the write timeout the bytes.
    Closing { close: Close, until: Option<Instant> },
    /// The broker is left, all is written; waiting for the peer to close its side.
    Leaving { close: Close, until: Instant },
    /// Nothing is left to do.
    Gone,
}

impl Phase {
    pub(super) fn until(&self) -> Option<Instant> {
        match self {
            Self::Open | Self::Gone => None,
            Self::HalfClosed { until } | Self::Leaving { until, .. } => Some(*until),
            Self::Closing { until, .. } => *until,
        }
    }
}

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// The session closed it.
    Session,
    /// The peer closed it.
    Peer,
    /// The socket failed.
    Failed(io::Error),
    /// The peer broke the protocol.
    Misbehaved(String),
    /// A message was not finished in time.
    Unfinished { bytes: usize },
    /// The peer took nothing for too long.
    SlowConsumer { waiting: usize },
    /// The broker takes nothing more.
    Broker(BrokerError),
    /// The session asked the broker before it had logged in.
    RequestBeforeLogin,
}

impl End {
    /// What broker events say of it.
    pub(super) fn happening(&self) -> Happening {
        match self {
            Self::Session => Happening::Closing("closed by the session".to_owned()),
            Self::Peer => Happening::Closing("closed by the peer".to_owned()),
            Self::Broker(error) => Happening::Closing(error.to_string()),
            Self::Failed(error) => Happening::Failed(error.to_string()),
            Self::Misbehaved(reason) => Happening::Failed(reason.clone()),
            Self::Unfinished { .. } => Happening::Failed("its message did not grow for 60 s".to_owned()),
            Self::SlowConsumer { .. } => Happening::Failed("the client read nothing for 30 s".to_owned()),
            Self::RequestBeforeLogin => {
                Happening::Failed("its session used the broker before login".to_owned())
            }
        }
    }

    /// Writes the log line. Peers cannot fill the log at the default level, save by being cut for slowness.
    pub(super) fn log(&self) {
        match self {
            Self::Session => tracing::debug!("connection closed"),
            Self::Peer => tracing::debug!("connection closed by the peer"),
            Self::Failed(error) => tracing::debug!(%error, "connection lost"),
            Self::Misbehaved(reason) => {
                tracing::debug!(reason, "connection closed: the peer broke the protocol");
            }
            Self::Unfinished { bytes } => {
                tracing::debug!(bytes, "connection closed: its message did not grow for 60 s");
            }
            Self::SlowConsumer { waiting } => tracing::warn!(
                waiting_bytes = waiting,
                "connection closed: the client read nothing for 30 s; its messages go back to their queues"
            ),
            Self::Broker(error) => {
                tracing::debug!(%error, "connection closed: the broker takes no more requests");
            }
            Self::RequestBeforeLogin => {
                tracing::error!(
                    "connection closed: its session used the broker before login; report this as a bug"
                );
            }
        }
    }
}
