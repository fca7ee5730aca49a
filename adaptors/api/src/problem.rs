//! Errors of HTTP in the shape of RFC 9457 (`application/problem+json`), for whatever answers before a protocol does.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

/// Seconds after which a refused client may try again.
const RETRY_AFTER_SECONDS: &str = "1";

/// A response that says what is wrong. `code` is stable, lower case with underscores; `detail` is for people.
#[must_use]
pub fn problem(status: StatusCode, code: &str, detail: &str) -> Response {
    let retryable = matches!(status.as_u16(), 429 | 503 | 504);
    let body = json!({
        "type": format!("urn:framegate:error:{code}"),
        "title": status.canonical_reason().unwrap_or("Error"),
        "status": status.as_u16(),
        "detail": detail,
        "code": code,
        "retryable": retryable,
    });
    let mut response = (status, body.to_string()).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if retryable {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
    }
    response
}
