//! The configuration: file, then environment, then flags, each overriding the one before. One problem, one message.

mod blame;
mod check;
#[cfg(test)]
mod example;
mod identities;
mod layers;
mod problem;
mod sections;

pub(crate) use identities::{AuthSection, PermissionSection};
pub(crate) use layers::{Flags, Origins, load};
pub(crate) use problem::Problem;
pub(crate) use sections::{Backend, Config, HttpSection, ListenerSection, LogFormat, LogLevel, SyncMode};

impl Config {
    /// The effective configuration as TOML, secrets masked.
    ///
    /// # Errors
    /// A number above 2^63, which TOML cannot hold.
    pub(crate) fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }
}
