//! Starts the binary, talks to it with clients that share no code with the server's codecs, kills it.

// linked for its registry: which protocols there are
use framegate as _;

pub mod bunqueue;
pub mod bunqueue_compare;
pub mod eventmesh;
pub mod gateway;
pub mod http;
pub mod messagex;
pub mod peers;
pub mod receiver;
pub mod sse;
pub mod wait;
pub mod websocket;

pub use gateway::{Gateway, Options};
pub use wait::wait_until;
