//! Exit codes, and the one message that goes with each. Nothing else in the crate decides about the process's end.

use std::fmt;
use std::process::ExitCode;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All well; at a stop: nothing was cut.
    Done,
    /// A client command failed, or connections were cut at the end of the grace period.
    Failed,
    /// Wrong flag, configuration, address or data directory.
    Usage,
    /// Storage failed: what was not confirmed is not promised.
    Storage,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Storage => 70,
        })
    }
}

/// An end with its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    /// The code.
    pub(crate) exit: Exit,
    /// One line for the operator: what, where, and the way out.
    pub(crate) message: String,
}

impl Ending {
    /// Exit code 2.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self { exit: Exit::Usage, message: message.to_string() }
    }

    /// Exit code 1.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self { exit: Exit::Failed, message: message.to_string() }
    }

    /// Exit code 70.
    pub(crate) fn storage(message: impl fmt::Display) -> Self {
        Self { exit: Exit::Storage, message: message.to_string() }
    }
}
