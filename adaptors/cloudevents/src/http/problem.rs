//! Refusals as RFC 9457 problem documents. One table of codes for HTTP and WebSocket. Never shows internals.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use framegate_adaptor_api::LoginError;
use framegate_broker::BrokerError;
use serde_json::{Map, Value, json};

use crate::event::{EventError, Fault, Place};

/// A refusal, in the words of this protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// HTTP status.
    pub(crate) status: u16,
    /// Stable code, lower case with underscores.
    pub(crate) code: &'static str,
    /// What is wrong, for people.
    pub(crate) detail: String,
    /// Where in the event.
    pub(crate) faults: Vec<Fault>,
    /// Seconds to wait before another try.
    pub(crate) retry_after_s: Option<u32>,
    /// `WWW-Authenticate`.
    pub(crate) challenge: Option<&'static str>,
}

impl Problem {
    /// A refusal without a place.
    pub(crate) fn new(status: u16, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), faults: Vec::new(), retry_after_s: None, challenge: None }
    }

    /// 400 about one place.
    pub(crate) fn at(place: Place, detail: &str) -> Self {
        Self { code: "bad_request", ..EventError::one(place, detail).into() }
    }

    /// 501 for what a later version does.
    pub(crate) fn not_implemented(what: &str) -> Self {
        Self::new(501, "not_implemented", format!("{what} is not supported by this version"))
    }

    /// Whether the same request may work later: the sender's retry column of the reference.
    pub(crate) fn retryable(&self) -> bool {
        matches!(self.status, 404 | 408 | 409 | 429 | 500 | 502..=504)
    }

    /// The document.
    pub(crate) fn json(&self) -> Value {
        let mut object = Map::new();
        object.insert("type".into(), format!("urn:framegate:error:{}", self.code).into());
        object.insert("title".into(), title(self.status).into());
        object.insert("status".into(), self.status.into());
        object.insert("detail".into(), self.detail.as_str().into());
        object.insert("code".into(), self.code.into());
        object.insert("retryable".into(), self.retryable().into());
        if !self.faults.is_empty() {
            object.insert("errors".into(), self.faults.iter().map(fault_json).collect());
        }
        Value::Object(object)
    }

    /// The answer.
    pub(crate) fn response(&self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.json().to_string()));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        let mut set =
            |name: HeaderName, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
        set(header::CONTENT_TYPE, "application/problem+json");
        if let Some(challenge) = self.challenge {
            set(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// One element of `errors`.
pub(crate) fn fault_json(fault: &Fault) -> Value {
    match &fault.place {
        Place::Pointer(pointer) => json!({"pointer": pointer, "detail": fault.detail}),
        Place::Header(name) => json!({"header": name, "detail": fault.detail}),
        Place::Query(name) => json!({"parameter": name, "detail": fault.detail}),
    }
}

fn title(status: u16) -> &'static str {
    StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Error")
}

impl From<EventError> for Problem {
    fn from(error: EventError) -> Self {
        let detail = error.to_string();
        Self { faults: error.faults, ..Self::new(400, "invalid_event", detail) }
    }
}

impl From<BrokerError> for Problem {
    fn from(error: BrokerError) -> Self {
        let (status, code, retry_after_s) = match &error {
            BrokerError::NotFound { .. } => (404, "not_found", None),
            BrokerError::UnknownDelivery => (404, "unknown_delivery", None),
            BrokerError::Forbidden { .. } => (403, "forbidden", None),
            BrokerError::Reserved { .. } => (403, "reserved", None),
            BrokerError::Conflict => (409, "conflict", None),
            BrokerError::Locked { .. } => (409, "locked", Some(1)),
            BrokerError::InUse { .. } | BrokerError::NotEmpty { .. } => (409, "in_use", None),
            BrokerError::Inequivalent { .. } => (409, "inequivalent", None),
            BrokerError::ConsumerExists => (409, "exists", None),
            BrokerError::QueueFull { .. } => (429, "queue_full", Some(1)),
            BrokerError::Limit { .. } => (429, "limit", Some(5)),
            BrokerError::TooLarge { .. } => (413, "too_large", None),
            BrokerError::Invalid { .. } => (400, "bad_request", None),
            BrokerError::NotSupported { .. } => (501, "not_implemented", None),
            BrokerError::Held { .. } => (503, "held", Some(5)),
            BrokerError::Stopping => (503, "draining", Some(5)),
            BrokerError::StorageFailed => (503, "storage_failed", Some(30)),
            _ => (500, "internal", None),
        };
        let challenge = (status == 403).then_some("Bearer realm=\"framegate\", error=\"insufficient_scope\"");
        Self { retry_after_s, challenge, ..Self::new(status, code, error.to_string()) }
    }
}

impl From<LoginError> for Problem {
    fn from(error: LoginError) -> Self {
        let (code, challenge) = match error {
            LoginError::Broker(error) => return error.into(),
            LoginError::Required => ("unauthenticated", "Bearer realm=\"framegate\""),
            _ => ("unauthenticated", "Bearer realm=\"framegate\", error=\"invalid_token\""),
        };
        Self { challenge: Some(challenge), ..Self::new(401, code, error.to_string()) }
    }
}

impl From<framegate_frame::FrameError> for Problem {
    fn from(error: framegate_frame::FrameError) -> Self {
        let status = if error.is_limit() { 413 } else { 400 };
        Self::new(status, if status == 413 { "too_large" } else { "invalid_event" }, error.to_string())
    }
}

impl From<framegate_adaptor_api::AdaptError> for Problem {
    fn from(error: framegate_adaptor_api::AdaptError) -> Self {
        match error {
            framegate_adaptor_api::AdaptError::Frame(error) => error.into(),
            other => Self::new(400, "invalid_event", other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_has_the_members_of_the_contract() {
        let problem = Problem::from(EventError::one(Place::member("/3", "source"), "is missing"));
        assert_eq!(
            problem.json(),
            json!({
                "type": "urn:framegate:error:invalid_event", "title": "Bad Request", "status": 400,
                "detail": "/3/source is missing", "code": "invalid_event", "retryable": false,
                "errors": [{"pointer": "/3/source", "detail": "is missing"}],
            })
        );
        let response = problem.response();
        assert_eq!(response.status(), 400);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }

    #[test]
    fn refusals_that_pass_say_when_to_come_back() {
        let response = Problem::from(BrokerError::Stopping).response();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["retry-after"]),
            (503, &HeaderValue::from(5))
        );
        let limit = Problem::from(BrokerError::Limit { what: "topics", max: 1 });
        assert_eq!((limit.status, limit.retryable(), limit.retry_after_s), (429, true, Some(5)));
        let conflict = Problem::from(BrokerError::Conflict);
        assert_eq!((conflict.status, conflict.retryable()), (409, true));
        assert!(!Problem::not_implemented("x").retryable(), "a later version is not a later try");
    }

    #[test]
    fn bad_credentials_are_challenged() {
        let response = Problem::from(LoginError::Refused).response();
        assert_eq!(response.status(), 401);
        assert!(response.headers()["www-authenticate"].to_str().unwrap().contains("invalid_token"));
    }
}
