//! The HTTP host: one server for every HTTP listener. Routes come from mounts; this side owns connections, policy,
//! health and the shape of errors that no route made.

mod connection;
mod event_stream;
mod health;
mod opening;
mod policy;
mod routes;

pub(crate) use connection::Server;
pub(crate) use health::Health;
pub(crate) use routes::{Assembly, assemble};
