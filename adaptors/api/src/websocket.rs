//! The HTTP side of a WebSocket mount: checks the upgrade, opens the session, hands the socket to the driver. Never looks into
//! a message.
//!
//! Credentials come from `Authorization`, else from a subprotocol entry `bearer.<token>` (browsers cannot set headers; the
//! entry is never echoed), else from the query parameter `access_token`. A browser's `Origin` must be the host
//! that was asked, or stand in the list `cors_origins` of the plugin's settings (`"*"`: any); other clients send none.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{ConnectInfo, Query};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use axum::routing::any;
use framegate_broker::Name;

use crate::client::{HttpContext, credentials_of};
use crate::driver::{
    DriverDeps, DriverMetrics, WEBSOCKET_READ_BYTES, WEBSOCKET_WRITE_BYTES, drive_websocket,
};
use crate::problem::problem;
use crate::registry::{Mount, OpenWebSocket, Serve, WebSocketRequest};
use crate::session::{Credentials, Secret, SessionContext};

/// Parameters of a query that are kept.
const QUERY_MAX: usize = 64;

struct Endpoint {
    listener: &'static str,
    subprotocols: &'static [&'static str],
    open: OpenWebSocket,
    context: HttpContext,
    metrics: Arc<DriverMetrics>,
}

/// The route of a WebSocket mount; None for a mount of another kind. The peer's address is taken from
/// `ConnectInfo<SocketAddr>` when the server provides it.
#[must_use]
pub fn websocket_router(
    mount: &'static Mount,
    context: &HttpContext,
    metrics: &Arc<DriverMetrics>,
) -> Option<Router> {
    let Serve::WebSocket { path, subprotocols, open } = mount.serve else { return None };
    let endpoint = Arc::new(Endpoint {
        listener: mount.name,
        subprotocols,
        open,
        context: context.clone(),
        metrics: Arc::clone(metrics),
    });
    // Any method: HTTP/2 opens WebSockets by CONNECT.
    let handler = move |uri: Uri,
                        headers: HeaderMap,
                        extensions: Extensions,
                        upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>| {
        let response = endpoint.upgrade(&uri, &headers, &extensions, upgrade);
        std::future::ready(response)
    };
    Some(Router::new().route(path, any(handler)))
}

impl Endpoint {
    fn upgrade(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        extensions: &Extensions,
        upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    ) -> Response {
        let mut upgrade = match upgrade {
            Ok(upgrade) => upgrade,
            Err(rejection) => return refuse_upgrade(headers, rejection),
        };
        if *self.context.stopping.borrow() {
            return problem(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the broker is stopping");
        }
        let origin = headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default().to_owned());
        if !origin.as_deref().is_none_or(|origin| self.takes_origin(origin, uri, headers)) {
            let hint = "this origin may not connect; add it to \"cors_origins\" in the configuration";
            return problem(StatusCode::FORBIDDEN, "origin_refused", hint);
        }
        let offered: Vec<&HeaderValue> = upgrade.requested_protocols().collect();
        let subprotocol = self.subprotocols.iter().copied().find(|s| offered.iter().any(|o| *o == *s));
        let bearer = offered.iter().find_map(|o| o.to_str().ok()?.strip_prefix("bearer."));
        let query = Query::<Vec<(String, String)>>::try_from_uri(uri);
        let mut query = query.map(|Query(query)| query).unwrap_or_default();
        query.truncate(QUERY_MAX);
        let credentials = credentials(headers, bearer, &query);
        let request = WebSocketRequest { query, subprotocol, credentials, origin };
        let context = self.session_context(extensions);
        let session = match (self.open)(&context, &request) {
            Ok(session) => session,
            Err(reason) => return problem(StatusCode::BAD_REQUEST, "bad_request", &reason),
        };
        if let Some(subprotocol) = subprotocol {
            upgrade.set_selected_protocol(HeaderValue::from_static(subprotocol));
        }
        let deps = DriverDeps {
            broker: self.context.broker.clone(),
            authenticator: Arc::clone(&self.context.authenticator),
            context,
            stop: self.context.stopping.clone(),
            metrics: Arc::clone(&self.metrics),
        };
        let message_bytes_max = session.message_bytes_max();
        // The driver gives the socket one message at a time; this bound only stands behind it. Text formats may make a
        // message several times larger than its frame.
        let write_bytes_max = self.context.message_bytes_max.saturating_mul(8) + 2 * WEBSOCKET_WRITE_BYTES;
        upgrade
            .read_buffer_size(WEBSOCKET_READ_BYTES)
            .write_buffer_size(WEBSOCKET_WRITE_BYTES)
            .max_write_buffer_size(write_bytes_max)
            .max_message_size(message_bytes_max)
            .max_frame_size(message_bytes_max)
            .on_failed_upgrade(|error| tracing::debug!(%error, "websocket upgrade failed"))
            .on_upgrade(move |socket| drive_websocket(socket, session, deps))
    }

    fn session_context(&self, extensions: &Extensions) -> SessionContext {
        let peer = extensions.get::<ConnectInfo<SocketAddr>>();
        let context = &self.context;
        SessionContext {
            peer: peer
                .map_or_else(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), |ConnectInfo(peer)| *peer),
            listener: self.listener,
            vhost: Name::clone(&context.vhost),
            anonymous: context.anonymous,
            headers: context.adaptors.headers().clone(),
            adaptors: context.adaptors.clone(),
            budget: context.budget.clone(),
            settings: Arc::clone(&context.settings),
            message_bytes_max: context.message_bytes_max,
        }
    }

    fn takes_origin(&self, origin: &str, uri: &Uri, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| uri.authority().map(|authority| authority.as_str()));
        origin_is_allowed(origin, host, &self.context.settings)
    }
}

/// Same host and port, or listed.
fn origin_is_allowed(origin: &str, host: Option<&str>, settings: &serde_json::Value) -> bool {
    let asked = origin.split_once("://").map(|(_, authority)| authority);
    if asked.zip(host).is_some_and(|(asked, host)| asked.eq_ignore_ascii_case(host)) {
        return true;
    }
    let listed = settings.get("cors_origins").and_then(serde_json::Value::as_array);
    listed.into_iter().flatten().filter_map(serde_json::Value::as_str).any(|entry| {
        entry == "*" || entry.trim_end_matches('/').eq_ignore_ascii_case(origin.trim_end_matches('/'))
    })
}

fn credentials(headers: &HeaderMap, bearer: Option<&str>, query: &[(String, String)]) -> Option<Credentials> {
    if headers.contains_key(header::AUTHORIZATION) {
        return Some(credentials_of(headers, None));
    }
    let token = query.iter().find(|(name, _)| name == "access_token").map(|(_, token)| token.as_str());
    bearer.or(token).map(|token| Credentials::Token(Secret(token.to_owned())))
}

/// RFC 6455 4.4: another version is told ours. What is no upgrade at all is told that one is needed.
fn refuse_upgrade(headers: &HeaderMap, rejection: WebSocketUpgradeRejection) -> Response {
    let version = headers.get(header::SEC_WEBSOCKET_VERSION);
    if version.is_some_and(|version| version == "13") {
        return problem(rejection.status(), "bad_request", &rejection.body_text());
    }
    let detail = "this is a WebSocket endpoint, version 13";
    let mut response = problem(StatusCode::UPGRADE_REQUIRED, "upgrade_required", detail);
    for (name, value) in [(header::SEC_WEBSOCKET_VERSION, "13"), (header::UPGRADE, "websocket")] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_is_the_same_host_or_listed() {
        let listed = serde_json::json!({ "cors_origins": ["https://app.example"] });
        let none = serde_json::Value::Null;
        assert!(origin_is_allowed("http://localhost:8080", Some("localhost:8080"), &none));
        assert!(!origin_is_allowed("http://localhost:8081", Some("localhost:8080"), &none));
        assert!(!origin_is_allowed("null", Some("localhost:8080"), &none));
        assert!(!origin_is_allowed("https://app.example", Some("broker.example"), &none));
        assert!(origin_is_allowed("https://APP.example", Some("broker.example"), &listed));
        assert!(!origin_is_allowed("http://app.example", Some("broker.example"), &listed));
        assert!(origin_is_allowed("null", None, &serde_json::json!({ "cors_origins": ["*"] })));
    }

    #[test]
    fn credentials_come_from_the_header_first_then_the_subprotocol_then_the_query() {
        let token = |text: &str| Some(Credentials::Token(Secret(text.to_owned())));
        let query = vec![("access_token".to_owned(), "from-query".to_owned())];
        let mut headers = HeaderMap::new();
        assert_eq!(credentials(&headers, None, &[]), None);
        assert_eq!(credentials(&headers, None, &query), token("from-query"));
        assert_eq!(credentials(&headers, Some("from-entry"), &query), token("from-entry"));
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer from-header"));
        assert_eq!(credentials(&headers, Some("from-entry"), &query), token("from-header"));
    }
}
