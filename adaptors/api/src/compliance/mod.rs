//! The suite that every adaptor and every session passes, whatever its protocol (feature `compliance`). It runs on what is
//! registered and on the samples that the caller has; it names no protocol. Nothing here is random from run to run.
//!
//! ```text
//! let report = compliance::check_adaptors(&Adaptors::collect()?, &samples);
//! report.assert();
//! ```
//!
//! `run` does all of it without samples.
//!
//! | what | checked |
//! |---|---|
//! | private attribute | bytes 0 to 255 come back identical, for each adaptor's name |
//! | `to_frame` | total: samples, their mutations, noise; what it makes parses, has at most its own private attribute, first, and no reserved name but its own origin |
//! | `to_wire` | total: frames of every adaptor and synthetic ones give a message or `Undeliverable`, the same each time |
//! | round trip | `to_frame`, `to_wire`, `to_frame` give the same frame |
//! | headers | readers are total on all those frames |
//! | sessions | the same output however the input is split; no panic on noise, at ticks, at drain; nothing before a login |

mod adaptors;
mod frames;
mod mutation;
mod random;
mod report;
mod sessions;

#[cfg(test)]
mod tests;

use crate::registry::{Adaptors, protocols};

pub use adaptors::{Samples, check_adaptors};
pub use frames::synthetic_frames;
pub use random::Random;
pub use report::Report;
pub use sessions::{Transcripts, check_sessions};

/// Runs the whole suite on everything that is linked in, without samples.
///
/// # Panics
/// When something is wrong, with the violations.
#[must_use]
pub fn run() -> Report {
    let adaptors = Adaptors::collect();
    let protocols = protocols();
    let (Ok(adaptors), Ok(protocols)) = (&adaptors, &protocols) else {
        panic!("the registry is in disorder: {:?} {:?}", adaptors.err(), protocols.err());
    };
    let report = check_adaptors(adaptors, &[]).and(check_sessions(protocols, &[]));
    report.assert();
    report
}
