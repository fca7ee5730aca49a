//! `/healthz`, `/readyz` and `/metrics`, on every HTTP listener and outside its policy, so that an overloaded server
//! can still be looked at.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use framegate_adaptor_api::problem;
use framegate_storage::StoreError;
use tokio::sync::watch;

use crate::metrics::{CONTENT_TYPE, Metrics};

/// What the probes look at. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Health {
    /// The server stops.
    pub(crate) stopping: watch::Receiver<bool>,
    /// The shard failed.
    pub(crate) failure: watch::Receiver<Option<StoreError>>,
    /// Counters.
    pub(crate) metrics: Arc<Metrics>,
}

/// The probes' routes.
pub(crate) fn routes(health: Health) -> Router {
    Router::new()
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(health)
}

async fn alive(State(health): State<Health>) -> Response {
    if health.failure.borrow().is_some() {
        return problem(StatusCode::SERVICE_UNAVAILABLE, "storage_failed", "storage has failed");
    }
    "ok\n".into_response()
}

async fn ready(State(health): State<Health>) -> Response {
    if health.failure.borrow().is_some() {
        return problem(StatusCode::SERVICE_UNAVAILABLE, "storage_failed", "storage has failed");
    }
    if *health.stopping.borrow() {
        return problem(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the server is shutting down");
    }
    "ready\n".into_response()
}

async fn metrics(State(health): State<Health>) -> Response {
    match health.metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, "internal", &error.to_string()),
    }
}
