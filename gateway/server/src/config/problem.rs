//! What is wrong with the configuration, as one line: where it was given, key, value, and what is allowed.

use std::fmt;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Env(String),
    /// A command-line flag.
    Flag(&'static str),
    /// Nobody set it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Default => f.write_str("default configuration"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Problem {
    /// The file cannot be read.
    #[error("{}: cannot be read: {detail}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// The system's words.
        detail: String,
    },
    /// The file is not TOML.
    #[error("{}:{line}:{column}: {detail}", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The parser's words.
        detail: String,
    },
    /// A key that does not exist, or a value that it cannot have.
    #[error("{origin}: {key} = {value}: {allowed}")]
    Value {
        /// Where it was given.
        origin: Origin,
        /// Path of the key.
        key: String,
        /// The value, secrets masked.
        value: String,
        /// What is wrong, and what is allowed.
        allowed: String,
    },
}
