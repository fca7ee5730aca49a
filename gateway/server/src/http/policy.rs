//! Policy of an HTTP listener as layers: time to answer, size of bodies, requests at once, streams at once. Long-lived
//! streams (Server-Sent Events, WebSockets) leave the first three behind once they have answered, and are counted by
//! the last until they end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::error_handling::HandleErrorLayer;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use framegate_adaptor_api::problem;
use http_body_util::Limited;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::ServiceBuilder;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::load_shed::error::Overloaded;

use super::event_stream::is_event_stream;
use crate::config::HttpSection;
use crate::listeners::{ListenerStats, StreamSlot};

/// Puts the policy around every route and fallback that is there.
pub(crate) fn apply(router: Router, section: &HttpSection, stats: &Arc<ListenerStats>) -> Router {
    let bounds = Bounds {
        body_bytes_max: section.body_bytes_max,
        streams_max: section.streams_max,
        streams: Arc::new(Semaphore::new(section.streams_max)),
        stats: Arc::clone(stats),
    };
    let requests_max = section.requests_max;
    let timeout_ms = section.request_timeout_ms;
    let shed = Arc::clone(stats);
    let refuse = move |error: BoxError| {
        let response = refused(&error, requests_max, timeout_ms, &shed);
        async move { response }
    };
    let time_and_load = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(refuse))
        .load_shed()
        .layer(GlobalConcurrencyLimitLayer::new(requests_max))
        .timeout(Duration::from_millis(timeout_ms));
    router.layer(DefaultBodyLimit::disable()).layer(from_fn_with_state(bounds, bound)).layer(time_and_load)
}

fn refused(error: &BoxError, requests_max: usize, timeout_ms: u64, stats: &ListenerStats) -> Response {
    if error.is::<Overloaded>() {
        stats.shed();
        let detail =
            format!("{requests_max} requests are being worked on, which is the limit of this listener");
        return problem(StatusCode::SERVICE_UNAVAILABLE, "overloaded", &detail);
    }
    if error.is::<tower::timeout::error::Elapsed>() {
        let detail = format!("the request was not answered within {timeout_ms} ms");
        return problem(StatusCode::GATEWAY_TIMEOUT, "timeout", &detail);
    }
    tracing::error!("an http layer failed: {error}");
    problem(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the request could not be handled")
}

#[derive(Clone)]
struct Bounds {
    body_bytes_max: usize,
    streams_max: usize,
    streams: Arc<Semaphore>,
    stats: Arc<ListenerStats>,
}

async fn bound(State(bounds): State<Bounds>, request: Request, next: Next) -> Response {
    let announced = content_length(request.headers());
    if announced.is_some_and(|bytes| bytes > bounds.body_bytes_max as u64) {
        return too_large(&bounds);
    }
    let slot = request.extensions().get::<StreamSlot>().cloned();
    let max = bounds.body_bytes_max;
    let response = next.run(request.map(|body| Body::new(Limited::new(body, max)))).await;
    if response.status() == StatusCode::PAYLOAD_TOO_LARGE && is_plain(response.headers()) {
        return too_large(&bounds);
    }
    let upgraded = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if !upgraded && !is_event_stream(response.headers()) {
        return response;
    }
    let Ok(permit) = Arc::clone(&bounds.streams).try_acquire_owned() else {
        bounds.stats.shed();
        let detail = format!("{} streams are open, which is the limit of this listener", bounds.streams_max);
        return problem(StatusCode::SERVICE_UNAVAILABLE, "too_many_streams", &detail);
    };
    match slot {
        Some(slot) if upgraded => {
            *slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(permit);
            response
        }
        _ => response.map(|body| Body::new(CountedBody { body, _permit: permit })),
    }
}

fn too_large(bounds: &Bounds) -> Response {
    let detail = format!("the body is larger than {} bytes", bounds.body_bytes_max);
    problem(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", &detail)
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Made by an extractor, not by a route.
fn is_plain(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_none_or(|value| value.as_bytes().starts_with(b"text/plain"))
}

/// A stream's body, counted until it is dropped.
struct CountedBody {
    body: Body,
    _permit: OwnedSemaphorePermit,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::{get, post};
    use http_body_util::BodyExt as _;
    use tokio::sync::Notify;
    use tower::ServiceExt as _;

    use super::*;

    fn section() -> HttpSection {
        HttpSection {
            request_timeout_ms: 60_000,
            body_bytes_max: 1024,
            requests_max: 1,
            streams_max: 1,
            ..HttpSection::default()
        }
    }

    fn with_policy(router: Router) -> Router {
        apply(router, &section(), &Arc::new(ListenerStats::new("toy")))
    }

    fn request(method: &str, path: &str, body: Body) -> Request {
        Request::builder().method(method).uri(path).body(body).expect("a request")
    }

    async fn code(response: Response) -> (u16, String) {
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        let value: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        (status, value["code"].as_str().unwrap_or_default().to_owned())
    }

    #[tokio::test]
    async fn a_body_above_the_limit_is_refused_announced_or_not() {
        let router =
            with_policy(Router::new().route("/", post(|body: Bytes| async move { body.len().to_string() })));
        let fits =
            router.clone().oneshot(request("POST", "/", Body::from(vec![0; 1024]))).await.expect("answered");
        assert_eq!(fits.status(), StatusCode::OK);
        let mut announced = request("POST", "/", Body::empty());
        announced.headers_mut().insert(header::CONTENT_LENGTH, 1025.into());
        let announced = router.clone().oneshot(announced).await.expect("answered");
        assert_eq!(code(announced).await, (413, "body_too_large".to_owned()));
        let chunked =
            router.oneshot(request("POST", "/", Body::from(vec![0; 1025]))).await.expect("answered");
        assert_eq!(code(chunked).await, (413, "body_too_large".to_owned()));
    }

    #[tokio::test]
    async fn more_requests_than_allowed_are_shed() {
        let (entered, leave) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (e, l) = (Arc::clone(&entered), Arc::clone(&leave));
        let slow = move || {
            let (e, l) = (Arc::clone(&e), Arc::clone(&l));
            async move {
                e.notify_one();
                l.notified().await;
            }
        };
        let router = with_policy(Router::new().route("/", get(slow)).route("/other", get(|| async {})));
        let first = tokio::spawn(router.clone().oneshot(request("GET", "/", Body::empty())));
        entered.notified().await;
        let second = router.clone().oneshot(request("GET", "/other", Body::empty())).await.expect("answered");
        assert_eq!(second.headers()[header::RETRY_AFTER], "1");
        assert_eq!(code(second).await, (503, "overloaded".to_owned()));
        leave.notify_one();
        assert_eq!(first.await.expect("joined").expect("answered").status(), StatusCode::OK);
        let third = router.oneshot(request("GET", "/other", Body::empty())).await.expect("answered");
        assert_eq!(third.status(), StatusCode::OK);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_answer_times_out_and_a_stream_does_not() {
        let endless =
            || async { ([(header::CONTENT_TYPE, "text/event-stream")], Body::new(Limited::new(Forever, 1))) };
        let router =
            Router::new().route("/never", get(std::future::pending::<()>)).route("/stream", get(endless));
        let router = with_policy(router);
        let never = router.clone().oneshot(request("GET", "/never", Body::empty())).await.expect("answered");
        assert_eq!(code(never).await, (504, "timeout".to_owned()));
        let stream =
            router.clone().oneshot(request("GET", "/stream", Body::empty())).await.expect("answered");
        assert_eq!(stream.status(), StatusCode::OK);
        let mut body = stream.into_body();
        let waited = tokio::time::timeout(Duration::from_secs(3600), body.frame()).await;
        assert!(waited.is_err(), "still open after an hour");
        let second =
            router.clone().oneshot(request("GET", "/stream", Body::empty())).await.expect("answered");
        assert_eq!(code(second).await, (503, "too_many_streams".to_owned()));
        drop(body);
        let third = router.oneshot(request("GET", "/stream", Body::empty())).await.expect("answered");
        assert_eq!(third.status(), StatusCode::OK);
    }

    struct Forever;

    impl HttpBody for Forever {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            Poll::Pending
        }
    }
}
