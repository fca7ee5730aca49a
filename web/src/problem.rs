//! Refusals in the shape of RFC 9457.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use framegate_adaptor_api::LoginError;
use framegate_broker::BrokerError;
use serde_json::json;

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// HTTP status.
    pub(crate) status: StatusCode,
    /// Stable word for programs.
    pub(crate) code: &'static str,
    /// For people.
    pub(crate) detail: String,
}

impl Problem {
    /// The client's request is not what the route takes.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code: "bad_request", detail: detail.into() }
    }

    /// The client is known, but not allowed.
    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, code: "forbidden", detail: detail.into() }
    }
}

impl From<LoginError> for Problem {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::Broker(error) => error.into(),
            other => {
                Self { status: StatusCode::UNAUTHORIZED, code: "unauthenticated", detail: other.to_string() }
            }
        }
    }
}

impl From<BrokerError> for Problem {
    fn from(error: BrokerError) -> Self {
        let (status, code) = match &error {
            BrokerError::NotFound { .. } => (StatusCode::NOT_FOUND, "not_found"),
            BrokerError::Forbidden { .. } => (StatusCode::FORBIDDEN, "forbidden"),
            BrokerError::Inequivalent { .. } => (StatusCode::CONFLICT, "inequivalent"),
            BrokerError::Locked { .. } => (StatusCode::CONFLICT, "locked"),
            BrokerError::InUse { .. } => (StatusCode::CONFLICT, "in_use"),
            BrokerError::QueueFull { .. } => (StatusCode::CONFLICT, "queue_full"),
            BrokerError::NotEmpty { .. } => (StatusCode::CONFLICT, "not_empty"),
            BrokerError::Invalid { .. } => (StatusCode::BAD_REQUEST, "invalid"),
            BrokerError::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            BrokerError::Limit { .. } => (StatusCode::TOO_MANY_REQUESTS, "limit"),
            BrokerError::NotSupported { .. } => (StatusCode::NOT_IMPLEMENTED, "not_supported"),
            BrokerError::Held { .. } => (StatusCode::SERVICE_UNAVAILABLE, "held"),
            BrokerError::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
            BrokerError::StorageFailed => (StatusCode::SERVICE_UNAVAILABLE, "storage_failed"),
            _ => (StatusCode::CONFLICT, "refused"),
        };
        Self { status, code, detail: error.to_string() }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let retryable = matches!(self.status.as_u16(), 429 | 503);
        let body = json!({
            "type": format!("urn:framegate:error:{}", self.code),
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.detail,
            "code": self.code,
            "retryable": retryable,
        });
        let mut response = (self.status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer, Basic realm=\"framegate\""),
            );
        }
        if retryable {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
