//! Authentication: one table of users and tokens for all protocols. The server implements it; drivers and HTTP
//! handlers ask it.

use std::future::Future;
use std::pin::Pin;

use framegate_broker::Principal;

use crate::session::{Credentials, LoginError};

/// Turns credentials into a principal. May wait; never on the fold.
pub trait Authenticator: Send + Sync + 'static {
    /// Checks credentials in constant time. `anonymous`: whether the listener takes clients without any.
    fn authenticate<'a>(
        &'a self,
        credentials: &'a Credentials,
        anonymous: bool,
    ) -> Pin<Box<dyn Future<Output = Result<Principal, LoginError>> + Send + 'a>>;
}
