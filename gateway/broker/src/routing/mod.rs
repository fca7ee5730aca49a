//! Routing: an immutable topology that publishers read without a lock, and the editor that makes the next one.

mod book;
mod direct;
mod editor;
mod entries;
mod fanout;
mod hash;
#[cfg(test)]
mod hash_tests;
mod hashed;
mod headers;
#[cfg(feature = "measure")]
pub mod measure;
#[cfg(test)]
mod model_tests;
mod pattern;
mod route;
mod seen;
mod shared_map;
mod survey;
mod targets;
#[cfg(test)]
mod tests;
mod topic;
mod topology;
mod value;
mod watches;

pub(crate) use editor::{Removed, TopologyEditor};
pub(crate) use route::Parts;
pub(crate) use targets::Targets;
pub(crate) use topology::{Topology, is_predeclared};
