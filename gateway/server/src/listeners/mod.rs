//! Listeners: which there are (`plan`), their sockets (`bind`, `socket`), and the accept loops (`accept`).
//! Everything comes from the registry and the configuration; no protocol is named here.

mod accept;
mod bind;
mod gate;
mod plan;
mod socket;
mod stats;
mod stream;

pub(crate) use accept::{Accepting, accept};
pub(crate) use bind::{Bound, bind, check_reach};
pub(crate) use gate::Gate;
pub(crate) use plan::{HTTP, HttpMount, Planned, PlannedKind, effective, plan};
pub(crate) use socket::{HeldStream, StreamSlot};
pub(crate) use stats::ListenerStats;
pub(crate) use stream::StreamServer;
