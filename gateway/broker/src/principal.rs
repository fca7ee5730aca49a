//! Who a connection acts for, and what it may do. Checked by the broker before routing; adaptors check nothing.

use std::sync::Arc;

use crate::error::{Access, BrokerError, Kind};
use crate::name::Name;

/// An authenticated user.
#[derive(Debug, Clone)]
pub struct Principal {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: Name,
    tags: Vec<Name>,
    grants: Vec<Grant>,
}

/// What patterns see of the default exchange.
const DEFAULT_EXCHANGE: &str = "amq.default";

/// What a user may do in one vhost (`*`: in every vhost). Patterns match the whole name; None allows nothing.
#[derive(Debug, Clone)]
pub struct Grant {
    /// Vhost, or `*`.
    pub vhost: Name,
    /// Declare, delete, bind, purge.
    pub configure: Option<regex_lite::Regex>,
    /// Publish.
    pub write: Option<regex_lite::Regex>,
    /// Consume and subscribe.
    pub read: Option<regex_lite::Regex>,
}

impl Principal {
    /// A user with its grants.
    #[must_use]
    pub fn new(name: Name, tags: Vec<Name>, grants: Vec<Grant>) -> Self {
        Self { inner: Arc::new(Inner { name, tags, grants }) }
    }

    /// May do everything everywhere: the anonymous user of a broker without credentials, and the broker itself.
    #[must_use]
    pub fn unrestricted(name: Name) -> Self {
        let all = || regex_lite::Regex::new("").ok();
        let grant = Grant { vhost: Name::from_static("*"), configure: all(), write: all(), read: all() };
        Self::new(name, vec![Name::from_static("administrator")], vec![grant])
    }

    /// The user's name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.inner.name
    }

    /// Has the tag (`administrator`, `monitoring`, ...).
    #[must_use]
    pub fn has_tag(&self, tag: &str) -> bool {
        self.inner.tags.iter().any(|t| t == tag)
    }

    /// Has any grant in the vhost.
    #[must_use]
    pub fn may_enter(&self, vhost: &str) -> bool {
        self.grant(vhost).is_some()
    }

    /// Checks one access. The default exchange, whose name is empty, is `amq.default` to patterns.
    ///
    /// # Errors
    /// `Forbidden` when no grant of the vhost allows it.
    pub fn check(&self, access: Access, kind: Kind, name: &Name, vhost: &Name) -> Result<(), BrokerError> {
        let allowed = self.grant(vhost).is_some_and(|grant| {
            let pattern = match access {
                Access::Configure => &grant.configure,
                Access::Write => &grant.write,
                Access::Read => &grant.read,
            };
            let shown =
                if kind == Kind::Exchange && name.is_empty() { DEFAULT_EXCHANGE } else { name.as_str() };
            pattern.as_ref().is_some_and(|p| p.as_str().is_empty() || p.is_match(shown))
        });
        if allowed {
            return Ok(());
        }
        Err(BrokerError::Forbidden {
            kind,
            name: name.clone(),
            vhost: vhost.clone(),
            user: self.inner.name.clone(),
            access,
        })
    }

    fn grant(&self, vhost: &str) -> Option<&Grant> {
        self.inner.grants.iter().find(|g| g.vhost == *vhost || g.vhost == "*")
    }
}
