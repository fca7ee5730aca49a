//! Names of vhosts, exchanges, queues, topics and routing keys: short shared text.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::error::BrokerError;
use crate::limits::NAME_BYTES_MAX;

/// Shared text: 0 to 255 bytes of UTF-8. A clone is one reference count. Sessions keep the last name
/// they parsed, so that a publisher that repeats itself allocates nothing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Any text of at most 255 bytes: a routing key, or the default exchange's empty name.
    ///
    /// # Errors
    /// `Invalid` when it is longer.
    pub fn new(text: &str) -> Result<Self, BrokerError> {
        if text.len() > NAME_BYTES_MAX {
            return Err(BrokerError::Invalid {
                what: "name",
                value: text.chars().take(40).collect(),
                reason: "is longer than 255 bytes",
            });
        }
        Ok(Self(Arc::from(text)))
    }

    /// The name of something that is declared: 1 to 255 bytes without control characters.
    ///
    /// # Errors
    /// `Invalid` otherwise.
    pub fn declared(text: &str) -> Result<Self, BrokerError> {
        let invalid = |reason| BrokerError::Invalid {
            what: "name",
            value: text.escape_debug().take(80).collect(),
            reason,
        };
        if text.is_empty() {
            return Err(invalid("is empty"));
        }
        if text.chars().any(char::is_control) {
            return Err(invalid("has control characters"));
        }
        Self::new(text)
    }

    /// The name of a topic: as `declared`, and without `*` and `#`, which are for patterns.
    ///
    /// # Errors
    /// `Invalid` otherwise.
    pub fn topic(text: &str) -> Result<Self, BrokerError> {
        if text.contains(['*', '#']) {
            return Err(BrokerError::Invalid {
                what: "topic",
                value: text.chars().take(80).collect(),
                reason: "has a wildcard",
            });
        }
        Self::declared(text)
    }

    /// A name known at compile time.
    ///
    /// # Panics
    /// Never for text up to 255 bytes.
    #[must_use]
    pub fn from_static(text: &'static str) -> Self {
        debug_assert!(text.len() <= NAME_BYTES_MAX);
        Self(Arc::from(text))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Name {
    fn default() -> Self {
        Self(Arc::from(""))
    }
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
