//! The HTTP routes: credentials, body, broker, answer. What they decide is decided in the pure files beside this one.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::routing::any;
use framegate_adaptor_api::{Client, HttpContext};
use framegate_broker::feed::From as Start;
use framegate_broker::{Answer, HeaderTable, Publish, Published, Reply, Request};
use serde_json::{Value, json};
use uuid::Uuid;

use super::publish::{
    ACCEPT_POST, Asked, Head, Mode, Ready, accepted, batch_refused, partial, prefers, read,
};
use super::query::{Query, TopicPath};
use super::sse::{Ask, Source, lifetime, refused_in_band, response};
use super::sse_body::{Options as BodyOptions, SseBody};
use super::sse_filter::Filtered;
use super::sse_queue::{Options as QueueOptions, QueueStream};
use super::{about, acks, body, call, cors, poll, problem::Problem, resume};
use crate::limits::ACKS_BYTES_MAX;
use crate::settings::Settings;

struct Context {
    http: HttpContext,
    settings: Settings,
    headers: Arc<HeaderTable>,
}

type Shared = State<Arc<Context>>;

/// What the stream's route takes.
const SSE_METHODS: &str = "GET, HEAD, OPTIONS";

/// The routes of this protocol under `/v1`.
pub(crate) fn router(http: &HttpContext) -> Router {
    let mut settings = Settings::of(&http.settings);
    settings.event_bytes_max = settings.event_bytes_max.min(http.message_bytes_max);
    let headers = Arc::new(http.adaptors.headers().clone());
    let webhooks = crate::webhook::router(http, &settings);
    routes().with_state(Arc::new(Context { http: http.clone(), settings, headers })).merge(webhooks)
}

fn routes() -> Router<Arc<Context>> {
    Router::new()
        .route("/v1/events", any(events))
        .route("/v1/topics/{*rest}", any(topics))
        .route("/v1/acks", any(acks))
        .route("/v1/sse", any(sse))
        .route("/v1/{*rest}", any(unknown))
}

async fn events(State(context): Shared, request: HttpRequest) -> Response<Body> {
    asked(&context, request, "POST, OPTIONS", async |client, query, request| {
        publish(&context, &client, &query, request, None).await
    })
    .await
}

async fn topics(State(context): Shared, request: HttpRequest) -> Response<Body> {
    let path = request.uri().path().to_owned();
    match TopicPath::parse(&path) {
        Ok(TopicPath { topic, action: "events" }) => {
            asked(&context, request, "GET, POST, OPTIONS", async |client, query, request| {
                if request.method() == Method::POST {
                    return publish(&context, &client, &query, request, Some(&topic)).await;
                }
                let ask = poll::Ask::read(&query)?;
                let stopping = context.http.stopping.clone();
                poll::poll(client, &topic, ask, &context.headers, stopping).await
            })
            .await
        }
        Ok(TopicPath { topic, action: "request" }) => {
            asked(&context, request, "POST, OPTIONS", async |client, query, request| {
                call_route(&context, &client, &query, request, &topic).await
            })
            .await
        }
        Ok(TopicPath { topic, action: "presence" }) => {
            asked(&context, request, "GET, OPTIONS", async |client, _, _| {
                Ok(json_response(StatusCode::OK, &about::presence(&client, &topic).await?))
            })
            .await
        }
        Ok(TopicPath { topic, action: "history" }) => {
            asked(&context, request, "GET, OPTIONS", async |client, query, _| {
                about::history(&client, about::read(&topic, &query)?, &context.headers).await
            })
            .await
        }
        Ok(_) => no_route(&context, &request),
        Err(problem) => finish(&context, request.headers(), problem.response()),
    }
}

async fn acks(State(context): Shared, request: HttpRequest) -> Response<Body> {
    asked(&context, request, "POST, OPTIONS", async |client, _, request| {
        let (parts, body) = request.into_parts();
        let body = body::read(&parts.headers, body, ACKS_BYTES_MAX, &context.http.budget).await?;
        Ok(json_response(StatusCode::OK, &acks::settle_all(&client, &body).await?))
    })
    .await
}

async fn unknown(State(context): Shared, request: HttpRequest) -> Response<Body> {
    no_route(&context, &request)
}

fn no_route(context: &Context, request: &HttpRequest) -> Response<Body> {
    let refusal = Problem::new(404, "not_found", "no such route");
    finish(context, request.headers(), refusal.response())
}

/// A route with methods of its own: `OPTIONS`, refused methods and credentials are the same for all.
async fn asked(
    context: &Context,
    request: HttpRequest,
    methods: &'static str,
    answer: impl AsyncFnOnce(Client, Query, HttpRequest) -> Result<Response<Body>, Problem>,
) -> Response<Body> {
    let headers = request.headers().clone();
    let query = Query::parse(request.uri().query());
    let answered = match request.method() {
        &Method::OPTIONS => options(methods, &headers, &context.settings),
        method if methods.split(", ").any(|name| name == method.as_str()) => {
            match client(context, &headers, &query).await {
                Ok(client) => answer(client, query, request).await.unwrap_or_else(|p| p.response()),
                Err(problem) => problem.response(),
            }
        }
        _ => not_allowed(methods),
    };
    finish(context, &headers, answered)
}

/// An event that wants an answer.
async fn call_route(
    context: &Context,
    client: &Client,
    query: &Query,
    request: HttpRequest,
    topic: &str,
) -> Result<Response<Body>, Problem> {
    let wait = call::wait(request.headers());
    match read_request(context, client, query, request, Some(topic)).await?.1 {
        Asked::One(ready) => {
            call::call(client, *ready, wait, &context.headers, context.http.stopping.clone()).await
        }
        Asked::Batch(_) => Err(Problem::new(415, "unsupported_format", "a batch has no reply")),
    }
}

async fn sse(State(context): Shared, request: HttpRequest) -> Response<Body> {
    let headers = request.headers().clone();
    let answer = match *request.method() {
        Method::OPTIONS => options(SSE_METHODS, &headers, &context.settings),
        Method::GET => {
            let query = Query::parse(request.uri().query());
            match stream(&context, &headers, &query).await {
                Ok(answer) => answer,
                Err(problem) if query.get("errors") == Some("inband") => refused_in_band(&problem),
                Err(problem) => problem.response(),
            }
        }
        Method::HEAD => head_of_stream(&context, &headers, &Query::parse(request.uri().query()))
            .await
            .unwrap_or_else(|p| p.response()),
        _ => not_allowed(SSE_METHODS),
    };
    finish(&context, &headers, answer)
}

async fn client(context: &Context, headers: &HeaderMap, uri: &Query) -> Result<Client, Problem> {
    cors::check(&context.settings.cors_origins, headers)?;
    Ok(context.http.client(headers, uri.get("access_token")).await?)
}

async fn publish(
    context: &Context,
    client: &Client,
    query: &Query,
    request: HttpRequest,
    topic: Option<&str>,
) -> Result<Response<Body>, Problem> {
    let (headers, asked) = read_request(context, client, query, request, topic).await?;
    let (status, body) = match asked {
        Asked::One(ready) => {
            let is_reply = ready.is_reply();
            let published = client.publish(ready.publish).await?;
            if is_reply && published.queues == 0 && !published.duplicate {
                return Err(Problem::new(404, "not_found", "nobody waits for this reply any more"));
            }
            (StatusCode::ACCEPTED, accepted(&ready.id, &ready.source, &published))
        }
        Asked::Batch(events) if prefers(&headers, "return", "representation") => {
            publish_some(client, events).await?
        }
        Asked::Batch(events) => publish_all(client, events).await?,
    };
    Ok(json_response(status, &body))
}

/// Reads what a request publishes; gives its headers, too.
async fn read_request(
    context: &Context,
    client: &Client,
    query: &Query,
    request: HttpRequest,
    topic: Option<&str>,
) -> Result<(HeaderMap, Asked), Problem> {
    let (parts, body) = request.into_parts();
    let mode = Mode::of(&parts.headers)?;
    let body =
        body::read(&parts.headers, body, mode.bytes_max(&context.settings), &context.http.budget).await?;
    let head = Head {
        headers: &parts.headers,
        topic,
        fallback: query.get("topic"),
        vhost: &client.vhost,
        user: client.principal.name(),
        now_ms: now_ms(),
        settings: &context.settings,
    };
    let asked = read(&head, mode, body)?;
    Ok((parts.headers, asked))
}

/// All events as one block, or none.
async fn publish_all(
    client: &Client,
    events: Vec<Result<Ready, Problem>>,
) -> Result<(StatusCode, Value), Problem> {
    if let Some(problem) = batch_refused(&events) {
        return Err(problem);
    }
    let count = events.len();
    let publishes: Vec<Publish> = events.into_iter().flatten().map(|ready| ready.publish).collect();
    atomic(client, publishes).await?;
    Ok((StatusCode::ACCEPTED, json!({"accepted": count})))
}

/// The good events as one block; when the broker refuses the block, one by one, in order.
async fn publish_some(
    client: &Client,
    events: Vec<Result<Ready, Problem>>,
) -> Result<(StatusCode, Value), Problem> {
    let total = events.len();
    let (mut good, mut rejected) = (Vec::new(), Vec::new());
    for (index, event) in events.into_iter().enumerate() {
        match event {
            Ok(ready) => good.push((index, ready.publish)),
            Err(problem) => rejected.push((index, problem)),
        }
    }
    let mut accepted = good.len();
    if atomic(client, good.iter().map(|(_, publish)| publish.clone()).collect()).await.is_err() {
        accepted = 0;
        for (index, publish) in good {
            match client.publish(publish).await {
                Ok(_) => accepted += 1,
                Err(error) => rejected.push((index, error.into())),
            }
        }
    }
    if accepted == 0 && total > 0 {
        let faults = rejected.iter().flat_map(|(_, problem)| problem.faults.clone()).take(100).collect();
        return Err(Problem {
            faults,
            ..Problem::new(422, "nothing_accepted", "no event of the batch was accepted")
        });
    }
    rejected.sort_by_key(|(index, _)| *index);
    Ok((StatusCode::OK, partial(accepted, &rejected)))
}

async fn atomic(client: &Client, mut publishes: Vec<Publish>) -> Result<Published, Problem> {
    match publishes.len() {
        0 => return Ok(Published::default()),
        1 => return Ok(client.publish(publishes.remove(0)).await?),
        _ => {}
    }
    let requests = publishes
        .into_iter()
        .map(|publish| Request::Publish(Publish { answer: Answer::None, ..publish }))
        .collect();
    match client.call(Request::Atomic(requests)).await? {
        Reply::Published(published) => Ok(published),
        _ => Ok(Published::default()),
    }
}

/// What `GET` would answer, without a subscription: a look must not create a topic or lease a message.
async fn head_of_stream(
    context: &Context,
    headers: &HeaderMap,
    query: &Query,
) -> Result<Response<Body>, Problem> {
    client(context, headers, query).await?;
    Ask::read(headers, query)?;
    Ok(response(Body::empty(), None))
}

async fn stream(context: &Context, headers: &HeaderMap, query: &Query) -> Result<Response<Body>, Problem> {
    let client = client(context, headers, query).await?;
    let ask = Ask::read(headers, query)?;
    let settings = &context.settings;
    let (heartbeat, format) = (settings.heartbeat(), ask.format);
    let lifetime: Option<Duration> = lifetime(settings, Uuid::new_v4());
    let (headers, stopping) = (Arc::clone(&context.headers), context.http.stopping.clone());
    match &ask.source {
        Source::Topics(patterns, from) => {
            let subscription = client.subscribe(Source::subscribe(patterns, from)).await?;
            let word = resume::word(from, subscription.resumed_exactly());
            let start = (!matches!(from, Start::After(_))).then(|| subscription.cursor());
            let opening = ask.opening(settings, start);
            let options = BodyOptions { opening, format, headers, heartbeat, lifetime, stopping };
            let feed = Filtered::new(subscription, ask.filters.clone(), Arc::clone(&context.headers));
            Ok(response(Body::new(SseBody::new(feed, options)), Some(word)))
        }
        Source::Queue(queue) => {
            let line = client.connect(&format!("cloudevents sse queue {queue}"))?;
            let opening = ask.opening(settings, None);
            let options = QueueOptions { opening, format, headers, heartbeat, lifetime, stopping };
            let stream = QueueStream::start(line, queue.clone(), options).await?;
            Ok(response(Body::from_stream(stream.into_stream()), Some("exact")))
        }
    }
}

/// `OPTIONS`: what a route takes, the web-hook handshake, and the CORS preflight; all that are asked for.
fn options(methods: &'static str, request: &HeaderMap, settings: &Settings) -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    let headers = answer.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static(methods));
    if methods.contains("POST") {
        headers.insert("accept-post", HeaderValue::from_static(ACCEPT_POST));
    }
    if let Some(origin) = request.get("webhook-request-origin") {
        let named =
            |allowed: &String| allowed == "*" || allowed.as_bytes().eq_ignore_ascii_case(origin.as_bytes());
        if settings.webhook_origins.iter().any(named) {
            headers.insert("webhook-allowed-origin", origin.clone());
            if request.contains_key("webhook-request-rate") {
                let rate = match settings.webhook_rate {
                    0 => HeaderValue::from_static("*"),
                    rate => rate.into(),
                };
                headers.insert("webhook-allowed-rate", rate);
            }
        }
    }
    if cors::is_preflight(request) {
        cors::preflight(methods, request, headers);
    }
    answer
}

fn not_allowed(methods: &'static str) -> Response<Body> {
    let mut answer = Problem::new(405, "method_not_allowed", format!("allowed are {methods}")).response();
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    answer
}

fn json_response(status: StatusCode, body: &Value) -> Response<Body> {
    let mut answer = Response::new(Body::from(body.to_string()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn finish(context: &Context, request: &HeaderMap, mut answer: Response<Body>) -> Response<Body> {
    cors::decorate(&context.settings.cors_origins, request, answer.headers_mut());
    answer
}

/// Milliseconds since the Unix epoch: the one clock that is read here, for `expirytime`.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(&'static str, &'static str)], settings: &Settings) -> HeaderMap {
        let request = pairs.iter().map(|(n, v)| (n.parse().unwrap(), HeaderValue::from_static(v))).collect();
        options("POST, OPTIONS", &request, settings).headers().clone()
    }

    #[test]
    fn routes_live_beside_the_websocket() {
        let websocket: Router<Arc<Context>> = Router::new().route(crate::ws::PATH, any(|| async {}));
        let _ = routes().merge(websocket); // a clash of paths would panic
    }

    #[test]
    fn options_tells_what_a_publish_route_takes() {
        let answer = asked(&[], &Settings::default());
        assert_eq!(answer["allow"], "POST, OPTIONS");
        assert!(answer["accept-post"].to_str().unwrap().contains("application/cloudevents-batch+json"));
        assert!(!answer.contains_key("webhook-allowed-origin"));
    }

    #[test]
    fn web_hook_senders_on_the_list_are_consented_to() {
        let hook = [("webhook-request-origin", "events.example"), ("webhook-request-rate", "120")];
        let answer = asked(&hook, &Settings::default());
        assert_eq!(
            (&answer["webhook-allowed-origin"], &answer["webhook-allowed-rate"]),
            (&HeaderValue::from_static("events.example"), &HeaderValue::from_static("*"))
        );
        let some = Settings {
            webhook_origins: vec!["Events.Example".to_owned()],
            webhook_rate: 60,
            ..Settings::default()
        };
        assert_eq!(asked(&hook, &some)["webhook-allowed-rate"], "60");
        assert!(!asked(&hook[..1], &some).contains_key("webhook-allowed-rate"), "not asked for");
        let none = Settings { webhook_origins: Vec::new(), ..Settings::default() };
        assert!(!asked(&hook, &none).contains_key("webhook-allowed-origin"));
    }

    #[test]
    fn a_preflight_and_a_handshake_are_answered_together() {
        let both = [
            ("webhook-request-origin", "events.example"),
            ("origin", "https://page.example"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "ce-id"),
        ];
        let answer = asked(&both, &Settings::default());
        assert!(
            answer.contains_key("webhook-allowed-origin")
                && answer.contains_key("access-control-allow-headers")
        );
    }

    #[test]
    fn other_methods_are_told_what_is_allowed() {
        let answer = not_allowed(SSE_METHODS);
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["allow"]),
            (405, &HeaderValue::from_static("GET, HEAD, OPTIONS"))
        );
    }
}
