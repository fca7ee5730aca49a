//! The admin API: routes, and what every handler does first. JSON in, JSON out, problems as RFC 9457.

mod definitions;
mod filter;
mod input;
mod look;
mod messages;
mod output;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use framegate_adaptor_api::HttpContext;
use framegate_broker::{Name, Reply};
use serde_json::{Value, json};

use crate::assets;
use crate::problem::Problem;

/// What handlers share.
pub(crate) struct Shared {
    context: HttpContext,
    started: Instant,
}

type Query = axum::extract::Query<HashMap<String, String>>;
type Answer = Result<Json, Problem>;

/// The console and the admin API as routes, for the `http` listener.
pub fn router(context: &HttpContext) -> Router {
    let shared = Arc::new(Shared { context: context.clone(), started: Instant::now() });
    let api = Router::new()
        .route("/overview", get(look::overview))
        .route("/listeners", get(look::listeners))
        .route("/connections", get(look::connections))
        .route("/events", get(look::events))
        .route("/queues", get(look::queues).post(definitions::declare_queue))
        .route("/queues/{name}", get(look::queue).delete(definitions::delete_queue))
        .route("/queues/{name}/messages", get(messages::messages))
        .route("/queues/{name}/purge", post(definitions::purge_queue))
        .route("/exchanges", get(look::exchanges).post(definitions::declare_exchange))
        .route("/exchanges/{name}", delete(definitions::delete_exchange))
        .route("/bindings", get(look::bindings).post(definitions::bind).delete(definitions::unbind))
        .route("/topics", get(look::topics).post(definitions::declare_topic))
        .route("/topics/{name}", get(look::topic).delete(definitions::delete_topic));
    Router::new().nest("/admin/v1", api).merge(assets::routes()).with_state(shared)
}

/// A JSON answer with its status.
pub(crate) struct Json(StatusCode, Value);

impl Json {
    fn ok(value: Value) -> Self {
        Self(StatusCode::OK, value)
    }

    fn created(value: Value) -> Self {
        Self(StatusCode::CREATED, value)
    }
}

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
        (self.0, headers, self.1.to_string()).into_response()
    }
}

/// A name from a path or body.
fn name(text: &str) -> Result<Name, Problem> {
    Name::declared(text).map_err(Problem::from)
}

/// The broker answered something that does not fit the question; never seen, still not a panic.
fn unexpected(reply: &Reply) -> Problem {
    let detail = format!("unexpected answer of the broker: {reply:?}").chars().take(200).collect();
    Problem { status: StatusCode::INTERNAL_SERVER_ERROR, code: "internal", detail }
}

/// How many messages went with what was removed.
fn removed(reply: &Reply) -> Value {
    match reply {
        Reply::Removed { messages } => json!({ "messages": messages }),
        _ => json!({}),
    }
}
