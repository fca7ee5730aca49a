//! Web-hook subscriptions over real sockets: consent, delivery in three modes, signatures, retries, dead letters, changes, restarts.

use std::time::Duration;

use harness::http::{Response, request};
use harness::receiver::{Reaction, Receiver};
use harness::sse::Sse;
use harness::{Gateway, Options, wait_until};
use serde_json::{Value, json};

/// Web hooks may be sent to this machine without TLS.
pub(crate) const HERE: &str = r#"
[protocols.cloudevents.webhooks]
origin = "gateway.example"
plain_http = true
allow_addresses = ["127.0.0.0/8"]
timeout_ms = 1000
"#;

pub(crate) fn start() -> Gateway {
    Gateway::start_with(Options::default().config(HERE))
}

pub(crate) fn call(gateway: &Gateway, method: &str, path: &str, body: &Value) -> Response {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let path = format!("/v1/subscriptions{path}");
    request(&gateway.address("http"), method, &path, &[("Content-Type", "application/json")], text.as_bytes())
}

/// Subscribes a receiver to a topic, with more members; gives the answer.
pub(crate) fn subscribe(gateway: &Gateway, receiver: &Receiver, topic: &str, members: &Value) -> Value {
    let mut body = json!({"config": {"topic": topic}, "sink": receiver.url()});
    for (name, value) in members.as_object().expect("members") {
        body[name] = value.clone();
    }
    let answer = call(gateway, "POST", "", &body);
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()
}

pub(crate) fn id_of(subscription: &Value) -> String {
    format!("/{}", subscription["id"].as_str().expect("an id"))
}

pub(crate) fn publish(gateway: &Gateway, topic: &str, id: &str) {
    publish_with(gateway, topic, json!({"id": id}));
}

fn publish_with(gateway: &Gateway, topic: &str, members: Value) {
    let mut event =
        json!({"specversion": "1.0", "id": "1", "source": "/t", "type": "kind", "data": {"n": 1}});
    for (name, value) in members.as_object().expect("members") {
        event[name] = value.clone();
    }
    assert_eq!(harness::http::publish(&gateway.address("http"), topic, &event).status, 202);
}

fn state(gateway: &Gateway, path: &str) -> Value {
    call(gateway, "GET", path, &Value::Null).json()["status"].clone()
}

/// Attempts at once, so that no test waits for a schedule.
pub(crate) fn quick(attempts: u32) -> Value {
    json!({"maxAttempts": attempts, "scheduleMs": [1]})
}

/// The ids in a topic's past, one after the other.
pub(crate) struct Kept(Sse);

impl Kept {
    pub(crate) fn of(gateway: &Gateway, topic: &str) -> Self {
        Self(Sse::open(&gateway.address("http"), &format!("topic={topic}&lastEventId=earliest"), &[]))
    }

    pub(crate) fn next(&mut self) -> String {
        self.0.next_event().json()["id"].as_str().expect("an id").to_owned()
    }
}

#[test]
fn a_receiver_that_consents_gets_signed_events() {
    let gateway = start();
    let receiver = Receiver::start();
    let made = subscribe(&gateway, &receiver, "t", &json!({}));
    assert_eq!((&made["status"], &made["protocol"]), (&json!("active"), &json!("HTTP")));
    assert!(made["secret"].as_str().expect("made").starts_with("whsec_"), "{made}");
    let asked = receiver.asked();
    assert_eq!((asked.len(), asked[0].method.as_str(), asked[0].path.as_str()), (1, "OPTIONS", "/in?k=v"));
    assert_eq!(asked[0].header("webhook-request-origin"), "gateway.example");
    publish(&gateway, "t", "e1");
    let post = receiver.post();
    assert_eq!(post.path, "/in?k=v");
    assert_eq!(post.header("content-type"), "application/cloudevents+json; charset=utf-8");
    assert_eq!(post.header("webhook-request-origin"), "gateway.example");
    assert_eq!(post.header("host"), receiver.address());
    assert_eq!((&post.json()["id"], &post.json()["data"]), (&json!("e1"), &json!({"n": 1})));
    assert!(post.header("webhook-id").starts_with("msg_"));
    assert!(post.header("webhook-timestamp").parse::<u64>().expect("seconds") > 1_600_000_000);
    assert!(post.header("webhook-signature").starts_with("v1,"));
    // shown once, and never again
    let shown = call(&gateway, "GET", &id_of(&made), &Value::Null).json();
    assert_eq!((&shown["secret"], &shown["secrets"]), (&Value::Null, &json!(1)));
    wait_until("the counter", || {
        (gateway.metric("framegate_cloudevents_webhook_delivered_total") == 1.0).then_some(())
    });
}

#[test]
fn without_consent_there_is_no_subscription() {
    let gateway = start();
    for reaction in [
        Reaction::status(200),
        Reaction::with(200, "WebHook-Allowed-Origin: somebody.else"),
        Reaction::with(405, "Allow: POST"),
        Reaction::Close,
        Reaction::Hang,
    ] {
        let receiver = Receiver::with_all(move |_| reaction.clone());
        let body = json!({"config": {"topic": "t"}, "sink": receiver.url()});
        let answer = call(&gateway, "POST", "", &body);
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (422, &json!("handshake_refused")),
            "{}",
            answer.text()
        );
    }
    assert_eq!(call(&gateway, "GET", "", &Value::Null).json(), json!({"subscriptions": []}));
    // the status of an answer that consents says nothing
    let receiver = Receiver::with_all(|_| Reaction::with(405, "WebHook-Allowed-Origin: gateway.example"));
    subscribe(&gateway, &receiver, "t", &json!({}));
}

#[test]
fn a_rate_that_is_asked_for_must_be_answered_and_is_kept_to() {
    let gateway = start();
    let silent = Receiver::with_all(|_| Reaction::with(200, "WebHook-Allowed-Origin: *"));
    let body = json!({"config": {"topic": "t"}, "sink": silent.url(), "rate": 600});
    assert_eq!(call(&gateway, "POST", "", &body).status, 422);
    assert_eq!(silent.asked()[0].header("webhook-request-rate"), "600");
    let allowed = "WebHook-Allowed-Origin: *\r\nWebHook-Allowed-Rate: 240";
    let receiver = Receiver::with_all(move |asked| match asked.method.as_str() {
        "OPTIONS" => Reaction::with(200, allowed),
        _ => Reaction::status(204),
    });
    let made = subscribe(&gateway, &receiver, "t", &json!({"rate": 600}));
    assert_eq!(made["allowedRate"], 240);
    for n in 0..4 {
        publish(&gateway, "t", &n.to_string());
    }
    let times: Vec<_> = (0..4).map(|_| receiver.post().at).collect();
    // 240 a minute: a quarter of a second between two, less what the way there varies
    assert!(times[3] - times[0] >= Duration::from_millis(600), "{:?}", times[3] - times[0]);
}

#[test]
fn a_receiver_may_consent_later_at_the_callback() {
    let config = format!("{HERE}callback_url = \"http://hooks.example\"\n");
    let gateway = Gateway::start_with(Options::default().config(&config));
    let receiver = Receiver::with_all(|_| Reaction::status(200));
    let made = subscribe(&gateway, &receiver, "t", &json!({"rate": 60}));
    assert_eq!(made["status"], "pending");
    let callback = receiver.asked()[0].header("webhook-request-callback").to_owned();
    let path = callback.strip_prefix("http://hooks.example").expect("our URL").to_owned();
    assert!(path.starts_with(&format!("/v1/subscriptions{}/consent/", id_of(&made))), "{path}");
    assert_eq!(call(&gateway, "POST", &format!("{}/pause", id_of(&made)), &Value::Null).status, 409);
    let address = gateway.address("http");
    let wrong = format!("{path}x");
    assert_eq!(request(&address, "GET", &wrong, &[], b"").status, 404);
    publish(&gateway, "t", "early");
    assert_eq!(request(&address, "POST", &path, &[("WebHook-Allowed-Rate", "6000")], b"").status, 204);
    assert_eq!(receiver.post().json()["id"], "early");
    assert_eq!(call(&gateway, "GET", &id_of(&made), &Value::Null).json()["allowedRate"], 6000);
    // a token is good for once
    assert_eq!(request(&address, "GET", &path, &[], b"").status, 404);
}

#[test]
fn events_go_in_binary_mode() {
    let gateway = start();
    let receiver = Receiver::start();
    let settings = json!({"mode": "binary", "protocolsettings": {"headers": {"X-Team": "blue"}, "method": "POST"},
        "sinkcredential": {"credentialtype": "ACCESSTOKEN", "accesstoken": "tok"}});
    let made = subscribe(&gateway, &receiver, "t", &settings);
    assert_eq!(made["sinkcredential"], json!({"credentialtype": "ACCESSTOKEN"}));
    publish_with(&gateway, "t", json!({"datacontenttype": "text/plain", "data": "hi", "subject": "a b%€"}));
    let post = receiver.post();
    assert_eq!((post.header("content-type"), post.body.as_slice()), ("text/plain", &b"hi"[..]));
    assert_eq!((post.header("ce-id"), post.header("ce-subject")), ("1", "a%20b%25%E2%82%AC"));
    assert_eq!((post.header("x-team"), post.header("authorization")), ("blue", "Bearer tok"));
    assert_eq!(receiver.asked()[0].header("authorization"), "Bearer tok");
    let raw = json!({"protocolsettings": {"headerEncoding": "none"}, "sinkcredential": {"credentialtype": "PLAIN",
        "identifier": "u", "secret": "p"}});
    assert_eq!(call(&gateway, "PATCH", &id_of(&made), &raw).status, 200);
    publish_with(&gateway, "t", json!({"id": "2", "subject": "a b"}));
    let post = receiver.post();
    assert_eq!((post.header("ce-subject"), post.header("authorization")), ("a b", "Basic dTpw"));
}

#[test]
fn events_go_in_batches() {
    let gateway = start();
    let receiver = Receiver::start();
    let settings = json!({"mode": "batched", "maxBatch": 3, "maxWaitMs": 60000});
    subscribe(&gateway, &receiver, "t", &settings);
    for n in 0..3 {
        publish(&gateway, "t", &n.to_string());
    }
    let post = receiver.post();
    assert_eq!(post.header("content-type"), "application/cloudevents-batch+json; charset=utf-8");
    let ids: Vec<Value> = post.json().as_array().expect("an array").iter().map(|e| e["id"].clone()).collect();
    assert_eq!(ids, ["0", "1", "2"]);
    // one that is not full goes when it has waited
    let other = Receiver::start();
    subscribe(&gateway, &other, "u", &json!({"mode": "batched", "maxWaitMs": 50}));
    publish(&gateway, "u", "alone");
    assert_eq!(other.post().json()[0]["id"], "alone");
}

#[test]
fn a_batch_that_is_called_bad_is_sent_again_one_by_one() {
    let gateway = start();
    let receiver = Receiver::with(|asked| {
        let bad = String::from_utf8_lossy(&asked.body).contains("bad");
        Reaction::status(if bad { 400 } else { 204 })
    });
    let settings = json!({"mode": "batched", "maxBatch": 3, "maxWaitMs": 60000, "deadLetterTopic": "dead"});
    subscribe(&gateway, &receiver, "t", &settings);
    for id in ["good1", "bad", "good2"] {
        publish(&gateway, "t", id);
    }
    let sizes: Vec<usize> =
        (0..4).map(|_| receiver.post().json().as_array().expect("an array").len()).collect();
    assert_eq!(sizes, [3, 1, 1, 1]);
    assert_eq!(Kept::of(&gateway, "dead").next(), "bad");
    wait_until("both others", || {
        (gateway.metric("framegate_cloudevents_webhook_delivered_total") == 2.0).then_some(())
    });
}

#[test]
fn source_types_and_filters_choose() {
    let gateway = start();
    let receiver = Receiver::start();
    let filters = json!({"source": "/t", "types": ["a", "b"], "filters": [{"prefix": {"id": "yes"}}]});
    subscribe(&gateway, &receiver, "t", &filters);
    for (id, kind, source) in [
        ("yes1", "c", "/t"),
        ("yes2", "a", "/other"),
        ("no", "a", "/t"),
        ("yes3", "a", "/t"),
        ("yes4", "b", "/t"),
    ] {
        publish_with(&gateway, "t", json!({"id": id, "type": kind, "source": source}));
    }
    let mut ids = [receiver.post().json()["id"].clone(), receiver.post().json()["id"].clone()];
    ids.sort_by_key(Value::to_string);
    assert_eq!(ids, ["yes3", "yes4"]);
    assert_eq!(gateway.metric("framegate_cloudevents_webhook_filtered_total"), 3.0);
}

#[test]
fn what_fails_is_tried_again_under_the_same_id_and_then_is_a_dead_letter() {
    let gateway = start();
    let mut left = 2;
    let receiver = Receiver::with(move |asked| {
        if asked.json()["id"] == "flaky" && left > 0 {
            left -= 1;
            return Reaction::status(500);
        }
        Reaction::status(if asked.json()["id"] == "doomed" { 503 } else { 200 })
    });
    let made = subscribe(&gateway, &receiver, "t", &json!({"retry": quick(3), "deadLetterTopic": "dead"}));
    publish(&gateway, "t", "flaky");
    let ids: Vec<String> = (0..3).map(|_| receiver.post().header("webhook-id").to_owned()).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    publish(&gateway, "t", "doomed");
    let mut dead = Kept::of(&gateway, "dead");
    assert_eq!(dead.next(), "doomed");
    let doomed: Vec<_> = (0..3).map(|_| receiver.post()).collect();
    assert!(doomed.iter().all(|post| post.json()["id"] == "doomed"));
    assert!(receiver.try_post().is_none(), "three attempts, and no more");
    let log = call(&gateway, "GET", &format!("{}/deliveries", id_of(&made)), &Value::Null).json();
    let newest = &log["deliveries"][0];
    assert_eq!(
        (&newest["status"], &newest["attempt"], &newest["outcome"]),
        (&json!(503), &json!(3), &json!("retry"))
    );
    assert_eq!(log["deliveries"].as_array().map(Vec::len), Some(6), "{log}");
}

#[test]
fn a_refusal_is_final_unless_the_subscription_says_otherwise() {
    let gateway = start();
    for status in [302, 400, 401, 403, 415, 422] {
        let receiver = Receiver::with(move |_| Reaction::status(status));
        let topic = format!("t{status}");
        subscribe(&gateway, &receiver, &topic, &json!({"retry": quick(5), "deadLetterTopic": "dead"}));
        publish(&gateway, &topic, &status.to_string());
        let _ = receiver.post();
    }
    let mut dead = Kept::of(&gateway, "dead");
    let mut ids: Vec<String> = (0..6).map(|_| dead.next()).collect();
    ids.sort();
    assert_eq!(ids, ["302", "400", "401", "403", "415", "422"]);
    let receiver = Receiver::with(|_| Reaction::status(400));
    let retry = json!({"maxAttempts": 3, "scheduleMs": [1], "clientErrors": "retry"});
    subscribe(&gateway, &receiver, "stubborn", &json!({"retry": retry}));
    publish(&gateway, "stubborn", "x");
    for _ in 0..3 {
        let _ = receiver.post();
    }
}

#[test]
fn an_event_that_is_too_old_is_not_tried_again() {
    let gateway = start();
    let receiver = Receiver::with(|_| Reaction::status(500));
    let retry = json!({"maxAttempts": 100, "scheduleMs": [30], "maxAgeMs": 1});
    subscribe(&gateway, &receiver, "t", &json!({"retry": retry, "deadLetterTopic": "dead"}));
    publish(&gateway, "t", "old");
    assert_eq!(Kept::of(&gateway, "dead").next(), "old");
    assert!(receiver.asked().len() < 10);
}

#[test]
fn a_receiver_that_is_gone_disables_its_subscription_and_nothing_is_lost() {
    let gateway = start();
    let receiver = Receiver::with(|_| Reaction::status(410));
    let made = subscribe(&gateway, &receiver, "t", &json!({}));
    let path = id_of(&made);
    publish(&gateway, "t", "e1");
    let _ = receiver.post();
    wait_until("the end", || (state(&gateway, &path) == "disabled").then_some(()));
    let shown = call(&gateway, "GET", &path, &Value::Null).json();
    assert_eq!(shown["reason"], "gone");
    publish(&gateway, "t", "e2");
    let gateway = gateway.restart();
    assert_eq!(state(&gateway, &path), "disabled");
    receiver.react(|_| Reaction::status(204));
    assert_eq!(call(&gateway, "POST", &format!("{path}/enable"), &Value::Null).json()["status"], "active");
    let mut ids = [receiver.post().json()["id"].clone(), receiver.post().json()["id"].clone()];
    ids.sort_by_key(Value::to_string);
    assert_eq!(ids, ["e1", "e2"]);
}

#[test]
fn a_receiver_that_fails_for_long_is_left() {
    let config = format!("{HERE}disable_after_s = 1\n");
    let gateway = Gateway::start_with(Options::default().config(&config));
    let receiver = Receiver::with(|_| Reaction::status(500));
    // below the breaker's row of failures, so that the second attempt in a second's time is not held back
    let retry = json!({"maxAttempts": 9, "scheduleMs": [1300]});
    let made = subscribe(&gateway, &receiver, "t", &json!({"retry": retry}));
    publish(&gateway, "t", "x");
    wait_until("the end", || (state(&gateway, &id_of(&made)) == "disabled").then_some(()));
    assert_eq!(call(&gateway, "GET", &id_of(&made), &Value::Null).json()["reason"], "failing");
}

#[test]
fn a_receiver_that_asks_for_time_gets_it() {
    let gateway = start();
    let mut first = true;
    let receiver = Receiver::with(move |_| match std::mem::take(&mut first) {
        true => Reaction::with(429, "Retry-After: 1"),
        false => Reaction::status(204),
    });
    subscribe(&gateway, &receiver, "t", &json!({"retry": quick(5)}));
    publish(&gateway, "t", "x");
    let (refused, taken) = (receiver.post(), receiver.post());
    assert!(taken.at - refused.at >= Duration::from_millis(990), "{:?}", taken.at - refused.at);
    assert!(gateway.metric("framegate_cloudevents_webhook_throttled_total") >= 1.0);
}

#[test]
fn subscriptions_and_what_they_have_not_delivered_survive_restarts_and_kills() {
    let mut gateway = start();
    let receiver = Receiver::start();
    let made = subscribe(&gateway, &receiver, "t", &json!({"retry": quick(100)}));
    let path = id_of(&made);
    publish(&gateway, "t", "0");
    let first = receiver.post();
    wait_until("the ack", || {
        (gateway.metric("framegate_cloudevents_webhook_delivered_total") == 1.0).then_some(())
    });
    receiver.react(|_| Reaction::status(500));
    for (n, kill) in [(1, true), (2, false), (3, true)] {
        publish(&gateway, "t", &n.to_string());
        gateway = if kill { gateway.kill_and_restart() } else { gateway.restart() };
        let shown = wait_until("the subscription", || {
            let answer = call(&gateway, "GET", &path, &Value::Null);
            (answer.status == 200).then(|| answer.json())
        });
        assert_eq!((&shown["status"], &shown["config"]["topic"]), (&json!("active"), &json!("t")));
    }
    receiver.react(|_| Reaction::status(204));
    let mut seen = std::collections::BTreeSet::new();
    wait_until("what was not delivered", || {
        while let Some(post) = receiver.try_post() {
            seen.insert(post.json()["id"].as_str().expect("an id").to_owned());
            assert_eq!(post.header("webhook-signature").split(',').next(), Some("v1"));
        }
        (seen.len() == 3 && gateway.metric("framegate_cloudevents_webhook_delivered_total") >= 3.0)
            .then_some(())
    });
    assert!(!seen.contains("0"), "what was delivered is not sent again: {:?}", first.header("webhook-id"));
}

#[test]
fn a_subscription_is_paused_changed_replayed_and_deleted() {
    let gateway = start();
    let receiver = Receiver::start();
    let made = subscribe(&gateway, &receiver, "t", &json!({}));
    let path = id_of(&made);
    assert_eq!(call(&gateway, "POST", &format!("{path}/pause"), &Value::Null).json()["status"], "paused");
    publish(&gateway, "t", "waits");
    // a test goes out all the same, by itself
    let tested = call(&gateway, "POST", &format!("{path}/test"), &Value::Null).json();
    assert_eq!(tested["status"], 204, "{tested}");
    let post = receiver.post();
    assert_eq!(
        (&post.json()["type"], post.header("webhook-id")),
        (&json!("framegate.webhook.test"), tested["id"].as_str().expect("an id"))
    );
    assert_eq!(call(&gateway, "POST", &format!("{path}/enable"), &Value::Null).json()["status"], "active");
    assert_eq!(receiver.post().json()["id"], "waits");
    // PATCH changes a member, PUT all
    let patched = call(&gateway, "PATCH", &path, &json!({"maxInflight": 1, "types": ["kind"]})).json();
    assert_eq!((&patched["maxInflight"], &patched["types"]), (&json!(1), &json!(["kind"])));
    let whole = json!({"config": {"topic": "t"}, "sink": receiver.url(), "mode": "binary"});
    let put = call(&gateway, "PUT", &path, &whole).json();
    assert_eq!((&put["mode"], &put["types"], &put["secrets"]), (&json!("binary"), &Value::Null, &json!(1)));
    for fixed in [json!({"config": {"topic": "u"}}), json!({"deadLetterTopic": "d"})] {
        assert_eq!(call(&gateway, "PATCH", &path, &fixed).status, 400, "{fixed}");
    }
    assert_eq!(call(&gateway, "POST", &format!("{path}/replay?from=earliest"), &Value::Null).status, 202);
    let again = receiver.post();
    assert_eq!((again.header("ce-id"), again.header("content-type")), ("waits", "application/json"));
    assert_eq!(call(&gateway, "POST", &format!("{path}/replay"), &Value::Null).status, 400);
    let listed = call(&gateway, "GET", "?topic=t", &Value::Null).json();
    assert_eq!(listed["subscriptions"][0]["id"], made["id"]);
    assert_eq!(call(&gateway, "GET", "?topic=other", &Value::Null).json()["subscriptions"], json!([]));
    assert_eq!(call(&gateway, "DELETE", &path, &Value::Null).status, 204);
    for (method, at) in [("GET", path.clone()), ("DELETE", path.clone()), ("POST", format!("{path}/enable"))]
    {
        assert_eq!(call(&gateway, method, &at, &Value::Null).status, 404);
    }
    let gateway = gateway.kill_and_restart();
    assert_eq!(call(&gateway, "GET", "", &Value::Null).json()["subscriptions"], json!([]));
    let refused = call(&gateway, "POST", &path, &Value::Null);
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, PUT, PATCH, DELETE, OPTIONS")));
    assert_eq!(call(&gateway, "OPTIONS", "", &Value::Null).header("allow"), Some("GET, POST, OPTIONS"));
}

#[test]
fn a_secret_that_is_replaced_signs_beside_the_new_one() {
    let gateway = start();
    let receiver = Receiver::start();
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let made = subscribe(&gateway, &receiver, "t", &json!({"secret": secret}));
    assert_eq!(made.get("secret"), None, "the owner knows it");
    let key = "whsk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let changed = call(&gateway, "PATCH", &id_of(&made), &json!({"secret": key})).json();
    assert_eq!(changed["secrets"], 2);
    assert!(changed["publicKey"].as_str().expect("a key").starts_with("whpk_"), "{changed}");
    publish(&gateway, "t", "x");
    let post = receiver.post();
    let entries: Vec<&str> = post.header("webhook-signature").split(' ').collect();
    assert!(
        entries.len() == 2 && entries[0].starts_with("v1a,") && entries[1].starts_with("v1,"),
        "{entries:?}"
    );
}

#[test]
fn addresses_that_are_not_public_are_refused_by_default() {
    let gateway = Gateway::start();
    let receiver = Receiver::start();
    let body = |sink: &str| json!({"config": {"topic": "t"}, "sink": sink});
    for sink in [
        "https://127.0.0.1/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[fd00::1]/",
        "https://0.0.0.0/",
        "http://example.org/",
        "https://user:pw@example.org/",
        "ftp://example.org/",
        "nonsense",
    ] {
        let answer = call(&gateway, "POST", "", &body(sink));
        assert_eq!((answer.status, &answer.json()["errors"][0]["pointer"]), (400, &json!("/sink")), "{sink}");
    }
    // a name that leads there is found out when it is looked up
    let port = receiver.address().rsplit(':').next().expect("a port");
    let answer = call(&gateway, "POST", "", &body(&format!("https://localhost:{port}/")));
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("is not allowed: it is loopback"), "{}", answer.text());
    assert!(receiver.asked().is_empty(), "nobody came");
    assert_eq!(gateway.metric("framegate_cloudevents_webhook_refused_addresses_total"), 1.0);
}

const USERS: &str = r#"
[[auth.users]]
name = "ann"
password = "a"
permissions = [{ vhost = "/", configure = "", write = "", read = "t" }]
[[auth.users]]
name = "bob"
password = "b"
permissions = [{ vhost = "/", configure = ".*", write = ".*", read = ".*" }]
[[auth.users]]
name = "root"
password = "r"
tags = ["administrator"]
permissions = [{ vhost = "/", configure = ".*", write = ".*", read = ".*" }]
"#;

#[test]
fn a_subscription_is_its_owners_and_needs_the_right_to_read() {
    let gateway = Gateway::start_with(Options::default().config(HERE).config(USERS));
    let receiver = Receiver::start();
    let as_user = |token: &str, method: &str, path: &str, body: &Value| {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let path = format!("/v1/subscriptions{path}");
        request(&gateway.address("http"), method, &path, &[("Authorization", token)], text.as_bytes())
    };
    let (ann, bob, root) = ("Basic YW5uOmE=", "Basic Ym9iOmI=", "Basic cm9vdDpy");
    let body = |topic: &str| json!({"config": {"topic": topic}, "sink": receiver.url()});
    assert_eq!(call(&gateway, "GET", "", &Value::Null).status, 401);
    assert_eq!(as_user(ann, "POST", "", &body("secret")).status, 403);
    let mut dead = body("t");
    dead["deadLetterTopic"] = json!("dead");
    assert_eq!(as_user(ann, "POST", "", &dead).status, 403);
    let made = as_user(ann, "POST", "", &body("t"));
    assert_eq!((made.status, &made.json()["owner"]), (201, &json!("ann")));
    let path = id_of(&made.json());
    assert_eq!(made.header("location"), Some(format!("/v1/subscriptions{path}").as_str()));
    assert_eq!(as_user(bob, "GET", &path, &Value::Null).status, 404);
    assert_eq!(as_user(bob, "DELETE", &path, &Value::Null).status, 404);
    assert_eq!(as_user(bob, "GET", "", &Value::Null).json()["subscriptions"], json!([]));
    assert_eq!(as_user(root, "GET", "", &Value::Null).json()["subscriptions"][0]["owner"], "ann");
    assert_eq!(as_user(root, "DELETE", &path, &Value::Null).status, 204);
}

#[test]
fn messages_that_others_put_beside_the_subscriptions_are_thrown_away() {
    let gateway = start();
    let receiver = Receiver::start();
    let made = subscribe(&gateway, &receiver, "t", &json!({}));
    let mut mx = harness::messagex::MessageX::connect(&gateway.address("messagex"));
    assert_eq!(mx.fails("CONSUME", json!({"queueName": "framegate.webhooks"})), "RESOURCE_LOCKED");
    let forged = json!({"id": "forged", "version": 1, "owner": "x", "created_ms": 0, "status": {"state": "active"},
        "spec": {"config": {"topic": "t"}, "sink": receiver.url()}});
    mx.ok(
        "PUBLISH",
        json!({"queueName": "framegate.webhooks", "body": forged,
        "properties": {"type": "framegate.webhook.subscription", "userId": "framegate.webhooks"}}),
    );
    // and when the queue is deleted, what is known is written again
    mx.ok("QUEUE_DELETE", json!({"name": "framegate.webhooks"}));
    wait_until("the queue", || {
        mx.call("QUEUE_GET", json!({"name": "framegate.webhooks"}))
            .ok()
            .filter(|queue| queue["unackedCount"] == 1)
    });
    let listed = call(&gateway, "GET", "", &Value::Null).json();
    assert_eq!(listed["subscriptions"].as_array().map(Vec::len), Some(1), "{listed}");
    let gateway = gateway.kill_and_restart();
    publish(&gateway, "t", "after");
    assert_eq!(receiver.post().json()["id"], "after");
    assert_eq!(call(&gateway, "DELETE", &id_of(&made), &Value::Null).status, 204);
}

#[test]
fn there_are_at_most_so_many_subscriptions() {
    let config = format!("{HERE}subscriptions_max = 1\nhandshake_required = false\n");
    let gateway = Gateway::start_with(Options::default().config(&config));
    let receiver = Receiver::with_all(|_| Reaction::status(204));
    // where the operator leaves the choice a receiver need not know the handshake
    subscribe(&gateway, &receiver, "t", &json!({"handshake": false}));
    let body = json!({"config": {"topic": "t"}, "sink": receiver.url(), "handshake": false});
    let answer = call(&gateway, "POST", "", &body);
    assert_eq!((answer.status, &answer.json()["code"]), (429, &json!("limit")));
    publish(&gateway, "t", "x");
    assert_eq!(receiver.post().json()["id"], "x");
}
