//! The routes under `/v1/subscriptions`: who may do what, the handshake before a subscription is made, and the answers. Everything
//! durable is the engine's.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::routing::any;
use framegate_adaptor_api::{Client, HttpContext};
use framegate_broker::{Access, Define, GroupStart, Kind, Name, Principal, Request};
use framegate_frame::{Frame, FrameKind, names};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;
use uuid::Uuid;

use super::counters::COUNTERS;
use super::engine::{Command, Hooks, Shown, missing, unavailable};
use super::handshake::{self, Consent};
use super::message::{HeaderEncoding, Message, Mode};
use super::record::{Record, Status};
use super::signature::Secret;
use super::spec::Spec;
use super::{merge, store};
use crate::event::{EVENT_LIMITS, Place};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::{body, cors, group, now_ms};
use crate::limits::{HOOK_BYTES_MAX, HOOK_CHANGE_TIME, HOOK_HANDSHAKE_TIME};
use crate::metrics::Counters;
use crate::settings::Settings;

struct Context {
    hooks: Hooks,
    cors_origins: Vec<String>,
}

type Shared = State<Arc<Context>>;
type Answer = Result<Response<Body>, Problem>;

/// The routes, and the task behind them.
pub(crate) fn router(http: &HttpContext, settings: &Settings) -> Router {
    let hooks = Hooks::start(http, settings.webhooks.clone());
    let context = Context { hooks, cors_origins: settings.cors_origins.clone() };
    Router::new()
        .route("/v1/subscriptions", any(serve))
        .route("/v1/subscriptions/{*rest}", any(serve))
        .with_state(Arc::new(context))
}

async fn serve(State(context): Shared, request: HttpRequest) -> Response<Body> {
    let headers = request.headers().clone();
    let mut answer = route(&context, request).await.unwrap_or_else(|problem| problem.response());
    cors::decorate(&context.cors_origins, &headers, answer.headers_mut());
    answer
}

async fn route(context: &Context, request: HttpRequest) -> Answer {
    let path = request.uri().path().to_owned();
    let rest = path.strip_prefix("/v1/subscriptions").unwrap_or_default().trim_start_matches('/');
    let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
    let methods = match parts.as_slice() {
        [] => "GET, POST, OPTIONS",
        [_] => "GET, PUT, PATCH, DELETE, OPTIONS",
        [_, "deliveries"] => "GET, OPTIONS",
        [_, "test" | "enable" | "pause" | "replay"] => "POST, OPTIONS",
        [_, "consent", _] => "GET, POST, OPTIONS",
        _ => return Err(Problem::new(404, "not_found", "no such route")),
    };
    let method = request.method().clone();
    if method == Method::OPTIONS {
        return Ok(options(methods, request.headers()));
    }
    if !methods.split(", ").any(|name| name == method.as_str()) {
        let mut answer = Problem::new(405, "method_not_allowed", format!("allowed are {methods}")).response();
        answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
        return Ok(answer);
    }
    context.hooks.loaded().await?;
    // whoever knows the token is the receiver
    if let [id, "consent", token] = parts.as_slice() {
        return consented(&context.hooks, id, token, request.headers()).await;
    }
    cors::check(&context.cors_origins, request.headers())?;
    let (head, request_body) = request.into_parts();
    let query = Query::parse(head.uri.query());
    let client = context.hooks.http.client(&head.headers, query.get("access_token")).await?;
    let budget = &context.hooks.http.budget;
    let given = || async { body::read(&head.headers, request_body, HOOK_BYTES_MAX, budget).await };
    match (method.as_str(), parts.as_slice()) {
        ("GET", []) => Ok(list(context, &client, &query)),
        ("POST", []) => create(context, &client, json_of(&given().await?)?).await,
        ("GET", [id]) => Ok(json_response(200, &own(context, &client, id)?.record.view(now_ms(), None))),
        ("PUT", [id]) => change(context, &client, id, Some(json_of(&given().await?)?), None).await,
        ("PATCH", [id]) => change(context, &client, id, None, Some(json_of(&given().await?)?)).await,
        ("DELETE", [id]) => delete(context, &client, id).await,
        (_, [id, "deliveries"]) => {
            Ok(json_response(200, &json!({"deliveries": own(context, &client, id)?.history.json()})))
        }
        (_, [id, "test"]) => test(context, &client, id).await,
        (_, [id, "pause"]) => set(context, &client, id, Status::Paused).await,
        (_, [id, "enable"]) => enable(context, &client, id).await,
        (_, [id, _]) => replay(context, &client, id, &query).await,
        _ => Err(missing()),
    }
}

fn json_of(bytes: &[u8]) -> Result<Value, Problem> {
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::new(400, "bad_request", format!("the body is not JSON: {error}")))
}

fn json_response(status: u16, body: &Value) -> Response<Body> {
    let mut answer = Response::new(Body::from(body.to_string()));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = status;
    answer
}

fn options(methods: &'static str, request: &HeaderMap) -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    if cors::is_preflight(request) {
        cors::preflight(methods, request, answer.headers_mut());
    }
    answer
}

fn may_see(client: &Client, record: &Record) -> bool {
    client.principal.has_tag("administrator") || client.principal.name().as_str() == record.owner
}

/// A subscription that the client may see; others are as if they were not there.
fn own(context: &Context, client: &Client, id: &str) -> Result<Shown, Problem> {
    context.hooks.get(id).filter(|shown| may_see(client, &shown.record)).ok_or_else(missing)
}

fn list(context: &Context, client: &Client, query: &Query) -> Response<Body> {
    let topic = query.get("topic");
    let all = context.hooks.all();
    let wanted = all.iter().filter(|shown| {
        may_see(client, &shown.record) && topic.is_none_or(|topic| shown.record.spec.config.topic == topic)
    });
    let views: Vec<Value> = wanted.map(|shown| shown.record.view(now_ms(), None)).collect();
    json_response(200, &json!({"subscriptions": views}))
}

/// Read the topic, write its dead letters.
fn check_rights(client: &Client, spec: &Spec) -> Result<(), Problem> {
    let topic = Name::topic(&spec.config.topic)?;
    client.principal.check(Access::Read, Kind::Topic, &topic, &client.vhost)?;
    if let Some(dead) = &spec.dead_letter_topic {
        client.principal.check(Access::Write, Kind::Topic, &Name::topic(dead)?, &client.vhost)?;
    }
    Ok(())
}

async fn create(context: &Context, client: &Client, given: Value) -> Answer {
    let hooks = &context.hooks;
    let mut spec = Spec::read(given, &hooks.settings)?;
    check_rights(client, &spec)?;
    let made = match &spec.secret {
        Some(_) => None,
        None => Some(Secret::generate().ok_or_else(|| Problem::new(500, "internal", "no random bytes"))?),
    };
    if let Some(made) = &made {
        spec.secret = Some(made.text());
    }
    let id = Uuid::now_v7().to_string();
    let start = spec.start()?;
    let (status, allowed_rate) = ask(hooks, &id, &spec).await?;
    let record = Record {
        id,
        version: 1,
        owner: client.principal.name().to_string(),
        created_ms: now_ms(),
        status,
        allowed_rate,
        previous: None,
        spec,
    };
    let group =
        record.group(start).ok_or_else(|| Problem::new(400, "bad_request", "the topic cannot be used"))?;
    let (topic, name) = (group.topic.clone(), group.name.clone());
    // before it is kept: from here on no event is missed
    define(hooks, Define::Group(group)).await?;
    if let Err(problem) = put(hooks, record.clone()).await {
        // nobody refers to it
        let _ = define(hooks, Define::DeleteGroup { topic, group: name }).await;
        return Err(problem);
    }
    let mut answer = json_response(201, &record.view(now_ms(), made.as_ref()));
    if let Ok(location) = HeaderValue::try_from(format!("/v1/subscriptions/{}", record.id)) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    Ok(answer)
}

async fn define(hooks: &Hooks, define: Define) -> Result<(), Problem> {
    let keeper: Principal = store::keeper();
    hooks.http.broker.call(&keeper, &hooks.http.vhost, Request::Define(define)).await?;
    Ok(())
}

/// Asks the receiver, unless the subscription does without. Pending: it has not consented, but may do so at the callback.
async fn ask(hooks: &Hooks, id: &str, spec: &Spec) -> Result<(Status, Option<u32>), Problem> {
    if !spec.handshake {
        return Ok((Status::Active, None));
    }
    let token = Uuid::new_v4().simple().to_string();
    let base = hooks.settings.callback_url.trim_end_matches('/');
    let callback = (!base.is_empty()).then(|| format!("{base}/v1/subscriptions/{id}/consent/{token}"));
    let post = hooks.post(spec)?;
    let asked = timeout(HOOK_HANDSHAKE_TIME, post.consent(spec.rate, callback.as_deref())).await;
    let refusal = match asked {
        Ok(Ok(Consent { rate })) => return Ok((Status::Active, rate)),
        Ok(Err(refusal)) => refusal,
        Err(_) => "the receiver did not answer in time".to_owned(),
    };
    if callback.is_some() {
        return Ok((Status::Pending { token }, None));
    }
    Counters::add(&COUNTERS.refused_handshakes, 1);
    Err(Problem::new(422, "handshake_refused", format!("no consent to web hooks: {refusal}")))
}

/// Writes a version and waits until it is on disk.
async fn put(hooks: &Hooks, record: Record) -> Result<(), Problem> {
    command(hooks, |written| Command::Put(Box::new(record), written)).await
}

async fn command(
    hooks: &Hooks,
    make: impl FnOnce(oneshot::Sender<Result<(), Problem>>) -> Command,
) -> Result<(), Problem> {
    let (written, is_written) = oneshot::channel();
    let done = async {
        hooks.commands.send(make(written)).await.map_err(|_| unavailable())?;
        is_written.await.map_err(|_| unavailable())?
    };
    timeout(HOOK_CHANGE_TIME, done).await.unwrap_or_else(|_| Err(unavailable()))
}

/// `PUT` gives all, `PATCH` what is to be other (RFC 7396).
async fn change(
    context: &Context,
    client: &Client,
    id: &str,
    whole: Option<Value>,
    patch: Option<Value>,
) -> Answer {
    let hooks = &context.hooks;
    let record = own(context, client, id)?.record;
    let mut next = whole.unwrap_or_else(|| serde_json::to_value(&record.spec).unwrap_or_default());
    if let Some(patch) = patch {
        // another kind of credential has other members
        if patch.pointer("/sinkcredential/credentialtype").is_some() {
            next["sinkcredential"] = Value::Null;
        }
        merge::patch(&mut next, patch);
    }
    let spec = Spec::read(next, &hooks.settings)?;
    let fixed = |same: bool, pointer: &str| {
        let place = Place::Pointer(pointer.to_owned());
        if same { Ok(()) } else { Err(Problem::at(place, "cannot be changed; make another subscription")) }
    };
    fixed(spec.config == record.spec.config, "/config")?;
    fixed(spec.dead_letter_topic == record.spec.dead_letter_topic, "/deadLetterTopic")?;
    check_rights(client, &spec)?;
    let asks_again = spec.sink != record.spec.sink
        || spec.rate != record.spec.rate
        || spec.handshake != record.spec.handshake;
    let mut changed = record.changed(spec, now_ms());
    if asks_again {
        let (status, rate) = ask(hooks, &record.id, &changed.spec).await?;
        changed.allowed_rate = rate;
        if matches!(status, Status::Pending { .. }) || matches!(record.status, Status::Pending { .. }) {
            changed.status = status;
        }
    }
    let view = changed.view(now_ms(), None);
    put(hooks, changed).await?;
    Ok(json_response(200, &view))
}

async fn set(context: &Context, client: &Client, id: &str, status: Status) -> Answer {
    let record = own(context, client, id)?.record;
    if matches!(record.status, Status::Pending { .. }) {
        return Err(Problem::new(409, "pending", "the receiver has not consented yet"));
    }
    let changed = record.with(status);
    let view = changed.view(now_ms(), None);
    put(&context.hooks, changed).await?;
    Ok(json_response(200, &view))
}

/// Lets it go on. A receiver that had ended it, or never consented, is asked again.
async fn enable(context: &Context, client: &Client, id: &str) -> Answer {
    let record = own(context, client, id)?.record;
    let mut changed = record.with(Status::Active);
    if matches!(record.status, Status::Disabled { .. } | Status::Pending { .. }) {
        (changed.status, changed.allowed_rate) = ask(&context.hooks, id, &record.spec).await?;
    }
    let view = changed.view(now_ms(), None);
    put(&context.hooks, changed).await?;
    Ok(json_response(200, &view))
}

async fn delete(context: &Context, client: &Client, id: &str) -> Answer {
    own(context, client, id)?;
    command(&context.hooks, |written| Command::Delete(id.to_owned(), written)).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// The receiver consents at the callback URL.
async fn consented(hooks: &Hooks, id: &str, token: &str, headers: &HeaderMap) -> Answer {
    let record = hooks.get(id).ok_or_else(missing)?.record;
    let is_token = matches!(&record.status, Status::Pending { token: expected } if expected == token);
    if !is_token {
        return Err(missing());
    }
    let rate = handshake::allowed_rate(headers).map_err(|detail| Problem::new(400, "bad_request", detail))?;
    // without a rate it is the one that was asked for
    let allowed = rate.unwrap_or(record.spec.rate);
    put(hooks, Record { allowed_rate: allowed, ..record.with(Status::Active) }).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// Sends an event that no topic has, at once.
async fn test(context: &Context, client: &Client, id: &str) -> Answer {
    let record = own(context, client, id)?.record;
    let post = context.hooks.post(&record.spec)?;
    let event = Uuid::now_v7().to_string();
    let attributes = [
        (names::SPECVERSION, "1.0"),
        (names::ID, event.as_str()),
        (names::SOURCE, "/v1/subscriptions"),
        (names::TYPE, "framegate.webhook.test"),
        (names::DATACONTENTTYPE, "application/json"),
    ];
    let data = json!({"subscription": record.id}).to_string();
    let frame = Frame::build(FrameKind::Event, attributes, data.as_bytes(), &EVENT_LIMITS)?;
    let topic = Name::topic(&record.spec.config.topic)?;
    let (envelope, table) = (framegate_broker::Envelope::default(), framegate_broker::HeaderTable::default());
    let origin = framegate_broker::Origin { vhost: client.vhost.clone(), name: topic, id: 0, seq: 0 };
    let egress = framegate_adaptor_api::Egress {
        envelope: &envelope,
        frame: &frame,
        origin: &origin,
        headers: &table,
    };
    let mode = if record.spec.mode == Mode::Binary { Mode::Binary } else { Mode::Structured };
    let mut message = Message::one(egress, mode, HeaderEncoding::Percent)?;
    if record.spec.mode == Mode::Batched {
        message = Message::batch(&[message.body], message.id);
    }
    let id = message.id.clone();
    Ok(match post.post(&record, message).await {
        Ok(answer) => json_response(200, &json!({"id": id, "status": answer.status})),
        Err(error) => json_response(200, &json!({"id": id, "error": error.to_string()})),
    })
}

/// Everything from a place on is sent (again).
async fn replay(context: &Context, client: &Client, id: &str, query: &Query) -> Answer {
    let record = own(context, client, id)?.record;
    let from = query.get("from").and_then(group::start_of);
    let to: GroupStart =
        from.ok_or_else(|| Problem::at(Place::Query("from"), "is neither latest, earliest nor a time"))?;
    let topic = Name::topic(&record.spec.config.topic)?;
    let group = record.group_name().ok_or_else(missing)?;
    define(&context.hooks, Define::SeekGroup { topic, group, to }).await?;
    Ok(empty(StatusCode::ACCEPTED))
}
