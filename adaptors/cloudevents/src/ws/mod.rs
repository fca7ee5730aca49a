//! CloudEvents over WebSocket: the grammar `framegate.v1.json`, and the plain binding `cloudevents.json`.

mod answers;
mod binding;
mod op;
mod operate;
mod publish;
mod session;
mod subs;
mod write;

use framegate_adaptor_api::{Credentials, Secret, Session, SessionContext, WebSocketRequest};

use crate::http::cors::{Grant, grant};
use crate::http::query::Query;
use crate::settings::Settings;
use binding::BindingSession;
use session::JsonSession;

/// Path of the endpoint.
pub(crate) const PATH: &str = "/v1/ws";
/// The grammar of operations; also what is spoken when no subprotocol was offered.
const GRAMMAR: &str = "framegate.v1.json";
/// The plain binding.
const BINDING: &str = "cloudevents.json";
/// Preferred first.
pub(crate) const SUBPROTOCOLS: &[&str] = &[GRAMMAR, BINDING];

/// Opens a session for an upgrade request.
///
/// # Errors
/// The page's origin is not allowed, or the query of the plain binding names nothing.
pub(crate) fn open(context: &SessionContext, request: &WebSocketRequest) -> Result<Box<dyn Session>, String> {
    let settings = Settings::of(&context.settings);
    if grant(&settings.cors_origins, request.origin.as_deref(), None) == Grant::Refused {
        return Err("pages of this origin may not connect".to_owned());
    }
    let query = Query(request.query.clone());
    let token = || query.get("access_token").map(|token| Credentials::Token(Secret(token.to_owned())));
    let credentials = request.credentials.clone().or_else(token);
    if request.subprotocol == Some(BINDING) {
        let session = BindingSession::new(context, &query, credentials).map_err(|problem| problem.detail)?;
        return Ok(Box::new(session));
    }
    Ok(Box::new(JsonSession::new(context, credentials)))
}

#[cfg(test)]
mod tests;
