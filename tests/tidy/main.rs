//! The architecture as tests: import direction, dependency rights, one version of each crate, licences, the list of
//! plugins, file headers and words that must not appear.

// linked for its registry: which protocols there are
use harness as _;

mod crates;
mod sources;
mod workspace;
