//! The routes against a real broker over volatile storage.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use axum::response::Response;
use framegate_adaptor_api::{
    Adaptors, Authenticator, Credentials, HttpContext, LoginError, UnfinishedBudget,
};
use framegate_broker::{Broker, Grant, Limits, Name, Principal, Startup};
use framegate_storage_memory::MemoryStore;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt as _;

use super::router;

/// The token is the user's name and its only tag.
struct TokenIsTag;

impl Authenticator for TokenIsTag {
    fn authenticate<'a>(
        &'a self,
        credentials: &'a Credentials,
        anonymous: bool,
    ) -> Pin<Box<dyn Future<Output = Result<Principal, LoginError>> + Send + 'a>> {
        let name = |text: &str| Name::new(text).expect("a short name");
        let answer = match credentials {
            Credentials::Anonymous if anonymous => Ok(Principal::unrestricted(name("anonymous"))),
            Credentials::Anonymous => Err(LoginError::Required),
            Credentials::Token(token) if token.0 == "administrator" => {
                Ok(Principal::unrestricted(name("root")))
            }
            Credentials::Token(token) if !token.0.is_empty() => {
                Ok(Principal::new(name(&token.0), vec![name(&token.0)], vec![grant()]))
            }
            _ => Err(LoginError::Refused),
        };
        Box::pin(std::future::ready(answer))
    }
}

/// Enters every vhost, may do nothing there.
fn grant() -> Grant {
    Grant { vhost: Name::from_static("*"), configure: None, write: None, read: None }
}

fn routes(anonymous: bool) -> Router {
    let adaptors = Adaptors::collect().expect("no two adaptors of one name");
    let broker = Broker::start(Startup {
        store: Arc::new(MemoryStore::new()),
        limits: Limits::default(),
        headers: adaptors.headers().clone(),
        vhosts: vec![Name::from_static("/"), Name::from_static("other")],
    })
    .expect("a broker");
    let listeners = Arc::new(OnceLock::new());
    listeners.set(vec![("http".to_owned(), "127.0.0.1:8080".to_owned())]).expect("set once");
    router(&HttpContext {
        broker,
        authenticator: Arc::new(TokenIsTag),
        adaptors,
        budget: UnfinishedBudget::default(),
        vhost: Name::from_static("/"),
        anonymous,
        settings: Arc::default(),
        message_bytes_max: 1 << 20,
        stopping: watch::channel(false).1,
        listeners,
    })
}

async fn send(routes: &Router, method: &str, path: &str, token: &str, body: Option<Value>) -> Response {
    let mut request = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:8080");
    if !token.is_empty() {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let body = body.map_or_else(Body::empty, |value| Body::from(value.to_string()));
    routes.clone().oneshot(request.body(body).expect("a request")).await.expect("answered")
}

async fn read(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn call(routes: &Router, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    read(send(routes, method, path, "", body).await).await
}

#[tokio::test]
async fn the_console_is_served_with_its_policy() {
    let response = send(&routes(false), "GET", "/", "", None).await;
    assert_eq!(response.status(), StatusCode::OK);
    let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().expect("text");
    assert!(policy.starts_with("default-src 'self';"), "{policy}");
}

#[tokio::test]
async fn credentials_and_tags_are_asked_for() {
    let routes = routes(false);
    let nobody = send(&routes, "GET", "/admin/v1/overview", "", None).await;
    assert_eq!(nobody.status(), StatusCode::UNAUTHORIZED);
    assert!(nobody.headers().contains_key(header::WWW_AUTHENTICATE));
    let queue = || Some(json!({ "name": "q" }));
    let status = async |method: &str, path: &str, token: &str| {
        let body = if method == "POST" { queue() } else { None };
        send(&routes, method, path, token, body).await.status().as_u16()
    };
    assert_eq!(status("GET", "/admin/v1/queues", "management").await, 403);
    assert_eq!(status("GET", "/admin/v1/queues", "monitoring").await, 200);
    assert_eq!(status("POST", "/admin/v1/queues", "monitoring").await, 403);
    assert_eq!(status("POST", "/admin/v1/queues", "administrator").await, 201);
    assert_eq!(status("GET", "/admin/v1/queues?access_token=monitoring", "").await, 200);
}

#[tokio::test]
async fn a_queue_is_made_bound_purged_and_deleted() {
    let routes = routes(true);
    let (status, queue) = call(&routes, "POST", "/admin/v1/queues", Some(json!({ "name": "a/b" }))).await;
    assert_eq!((status, &queue["name"], &queue["durable"]), (201, &json!("a/b"), &json!(true)));
    let binding = json!({ "exchange": "amq.topic", "queue": "a/b", "key": "x.#" });
    assert_eq!(call(&routes, "POST", "/admin/v1/bindings", Some(binding.clone())).await.0, 201);
    let (_, listed) = call(&routes, "GET", "/admin/v1/bindings?queue=a%2Fb", None).await;
    let keys: Vec<&Value> =
        listed["bindings"].as_array().expect("a list").iter().map(|b| &b["key"]).collect();
    assert!(keys.contains(&&json!("x.#")), "{listed}");
    assert_eq!(call(&routes, "DELETE", "/admin/v1/bindings", Some(binding)).await.0, 200);
    let (status, removed) = call(&routes, "POST", "/admin/v1/queues/a%2Fb/purge", None).await;
    assert_eq!((status, &removed["messages"]), (200, &json!(0)));
    assert_eq!(call(&routes, "DELETE", "/admin/v1/queues/a%2Fb?if_empty=true", None).await.0, 200);
    let (status, problem) = call(&routes, "GET", "/admin/v1/queues/a%2Fb", None).await;
    assert_eq!((status, &problem["code"]), (404, &json!("not_found")));
}

#[tokio::test]
async fn topics_and_exchanges_are_made_and_deleted() {
    let routes = routes(true);
    let (status, topic) =
        call(&routes, "POST", "/admin/v1/topics", Some(json!({ "name": "t", "bytes_max": 4096 }))).await;
    assert_eq!((status, &topic["name"], &topic["bytes_max"]), (201, &json!("t"), &json!(4096)));
    let (status, problem) = call(&routes, "POST", "/admin/v1/topics", Some(json!({ "name": "t.*" }))).await;
    assert_eq!((status, &problem["code"]), (400, &json!("invalid")));
    let (_, topics) = call(&routes, "GET", "/admin/v1/topics", None).await;
    assert_eq!(topics["topics"].as_array().map(Vec::len), Some(1));
    assert_eq!(call(&routes, "DELETE", "/admin/v1/topics/t", None).await.0, 200);
    assert_eq!(call(&routes, "GET", "/admin/v1/topics/t", None).await.0, 404);
    let exchange = json!({ "name": "e", "kind": "fanout" });
    assert_eq!(call(&routes, "POST", "/admin/v1/exchanges", Some(exchange)).await.0, 201);
    let (status, problem) =
        call(&routes, "POST", "/admin/v1/exchanges", Some(json!({ "name": "e", "kind": "direct" }))).await;
    assert_eq!((status, &problem["code"]), (409, &json!("inequivalent")));
    assert_eq!(call(&routes, "DELETE", "/admin/v1/exchanges/e", None).await.0, 200);
}

#[tokio::test]
async fn the_overview_has_listeners_and_totals_and_vhosts_are_apart() {
    let routes = routes(true);
    assert_eq!(
        call(&routes, "POST", "/admin/v1/queues?vhost=other", Some(json!({ "name": "q" }))).await.0,
        201
    );
    let (status, overview) = call(&routes, "GET", "/admin/v1/overview", None).await;
    assert_eq!(status, 200);
    assert_eq!(overview["listeners"], json!([{ "name": "http", "addr": "127.0.0.1:8080" }]));
    assert!(overview["totals"]["connections"].is_u64() && overview["counters"]["published"].is_u64());
    let (_, here) = call(&routes, "GET", "/admin/v1/queues", None).await;
    let (_, other) = call(&routes, "GET", "/admin/v1/queues?vhost=other", None).await;
    assert_eq!(
        (here["queues"].as_array().map(Vec::len), other["queues"].as_array().map(Vec::len)),
        (Some(0), Some(1))
    );
    assert_eq!(call(&routes, "GET", "/admin/v1/queues?vhost=nowhere", None).await.0, 404);
}

#[tokio::test]
async fn what_is_no_json_is_refused_before_anything_is_done() {
    let request = Request::post("/admin/v1/queues").body(Body::from("{")).expect("a request");
    let (status, problem) = read(routes(true).oneshot(request).await.expect("answered")).await;
    assert_eq!((status, &problem["code"]), (400, &json!("bad_request")));
}

#[tokio::test]
async fn properties_of_a_queue_are_taken_and_shown_and_its_messages_can_be_looked_at() {
    let routes = routes(true);
    let body = json!({ "name": "q", "max_priority": 9, "message_ttl_ms": 60000, "expires_ms": 60000,
        "length_max": 10, "bytes_max": 1000, "overflow": "reject-publish", "single_active": true, "delivery_limit": 3 });
    let (status, shown) = call(&routes, "POST", "/admin/v1/queues", Some(body.clone())).await;
    assert_eq!(status, 201, "{shown}");
    for (name, value) in body.as_object().expect("an object") {
        assert_eq!(&shown[name], value, "{name}");
    }
    let other = json!({ "name": "q", "overflow": "spill" });
    let (status, problem) = call(&routes, "POST", "/admin/v1/queues", Some(other)).await;
    assert!(
        status == 400 && problem["detail"].as_str().expect("text").contains("reject-publish-dlx"),
        "{problem}"
    );
    let (status, problem) = call(&routes, "POST", "/admin/v1/queues", Some(json!({ "name": "q" }))).await;
    assert_eq!((status, &problem["code"]), (409, &json!("inequivalent")));
    let empty = call(&routes, "GET", "/admin/v1/queues/q/messages", None).await;
    assert_eq!(empty, (200, json!({ "messages": [], "more": false })));
    let (status, problem) = call(&routes, "GET", "/admin/v1/queues/q/messages?max=all", None).await;
    assert!(status == 400 && problem["detail"].as_str().expect("text").contains("max"), "{problem}");
    assert_eq!(call(&routes, "GET", "/admin/v1/queues/none/messages", None).await.0, 404);
}
