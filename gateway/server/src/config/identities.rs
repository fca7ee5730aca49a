//! `[auth]` as structs: users, tokens, permissions, and secrets that are never printed.

use std::path::PathBuf;

use serde::{Deserialize, Serialize, Serializer};

/// `[auth]`: users and tokens of all protocols.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AuthSection {
    /// Clients without credentials are let in, with all rights, on every listener.
    pub(crate) allow_anonymous: bool,
    /// `[[auth.users]]`
    pub(crate) users: Vec<UserSection>,
    /// `[[auth.tokens]]`
    pub(crate) tokens: Vec<TokenSection>,
}

/// `[[auth.users]]`: a name with a password.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct UserSection {
    /// User name.
    pub(crate) name: String,
    /// Password.
    #[serde(skip_serializing_if = "SecretText::is_empty")]
    pub(crate) password: SecretText,
    /// File that holds the password (first line).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) password_file: Option<PathBuf>,
    /// Tags.
    pub(crate) tags: Vec<String>,
    /// What it may do.
    pub(crate) permissions: Vec<PermissionSection>,
}

/// `[[auth.tokens]]`: a bearer token.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TokenSection {
    /// User name that it acts for.
    pub(crate) name: String,
    /// The token.
    #[serde(skip_serializing_if = "SecretText::is_empty")]
    pub(crate) token: SecretText,
    /// File that holds the token (first line).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    /// Tags.
    pub(crate) tags: Vec<String>,
    /// What it may do.
    pub(crate) permissions: Vec<PermissionSection>,
}

/// What a user may do in one vhost. Patterns are regular expressions of the whole name; empty allows nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PermissionSection {
    /// Vhost, or `*`.
    pub(crate) vhost: String,
    /// Declare, delete, bind, purge.
    pub(crate) configure: String,
    /// Publish.
    pub(crate) write: String,
    /// Consume and subscribe.
    pub(crate) read: String,
}

impl Default for PermissionSection {
    fn default() -> Self {
        Self { vhost: "*".to_owned(), configure: String::new(), write: String::new(), read: String::new() }
    }
}

/// Text that is printed as `***`.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub(crate) struct SecretText(pub(crate) String);

impl SecretText {
    /// Nothing is configured.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}
