//! The request-sized side of CloudEvents over HTTP: long poll and acks, request and reply, presence and history.

use std::thread;

use harness::http::{self, Response};
use harness::peers::amqp::{Amqp, args};
use harness::{Gateway, wait_until};
use serde_json::{Value, json};

fn call(gateway: &Gateway, method: &str, path: &str, body: &Value) -> Response {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let headers = [("Content-Type", "application/json")];
    http::request(&gateway.address("http"), method, path, &headers, text.as_bytes())
}

fn get(gateway: &Gateway, path: &str) -> Value {
    let answer = call(gateway, "GET", path, &Value::Null);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// A poll of `topic`; gives its events.
fn poll(gateway: &Gateway, topic: &str, query: &str) -> Vec<Value> {
    let path = format!("/v1/topics/{topic}/events?{query}");
    get(gateway, &path).as_array().expect("a batch").clone()
}

fn event(id: &str) -> Value {
    json!({"specversion": "1.0", "id": id, "source": "/t", "type": "kind", "data": {"n": id}})
}

fn publish(gateway: &Gateway, topic: &str, id: &str) {
    assert_eq!(http::publish(&gateway.address("http"), topic, &event(id)).status, 202);
}

fn ids(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["id"].as_str().expect("an id")).collect()
}

fn acks(gateway: &Gateway, body: &Value) -> Response {
    call(gateway, "POST", "/v1/acks", body)
}

#[test]
fn a_poll_gives_events_to_one_of_its_group_until_they_are_acked() {
    let gateway = Gateway::start();
    publish(&gateway, "t", "1");
    publish(&gateway, "t", "2");
    let taken = poll(&gateway, "t", "group=g&from=earliest&max=1");
    assert_eq!((ids(&taken), &taken[0]["framegateattempt"]), (vec!["1"], &json!(1)));
    assert_eq!(taken[0]["data"], json!({"n": "1"}));
    let other = poll(&gateway, "t", "group=g");
    assert_eq!(ids(&other), ["2"]);
    assert_eq!(ids(&poll(&gateway, "t", "group=h&from=earliest")), ["1", "2"], "another group has its own");
    let (first, second) = (&taken[0]["framegateackid"], &other[0]["framegateackid"]);
    let settled = acks(&gateway, &json!({"acks": [first], "nacks": [second]})).json();
    assert_eq!(settled, json!({"settled": 2, "unknown": []}));
    let again = poll(&gateway, "t", "group=g&wait=10");
    assert_eq!((ids(&again), &again[0]["framegateattempt"]), (vec!["2"], &json!(2)));
    // the old id is void
    let stale = acks(&gateway, &json!({"acks": [second]}));
    assert_eq!((stale.status, &stale.json()["code"]), (404, &json!("unknown_delivery")));
    let extended = acks(&gateway, &json!({"extends": [{"id": again[0]["framegateackid"], "by": 60_000}]}));
    assert_eq!(extended.json()["settled"], 1);
    acks(&gateway, &json!({"acks": [again[0]["framegateackid"]]}));
    let gateway = gateway.restart();
    assert_eq!(poll(&gateway, "t", "group=g"), Vec::<Value>::new(), "acks survive");
}

#[test]
fn a_poll_waits_for_an_event_and_one_that_is_acked_at_once_does_not_come_again() {
    let gateway = Gateway::start();
    assert_eq!(poll(&gateway, "t", "group=g&ack=auto"), Vec::<Value>::new());
    let address = gateway.address("http");
    let waiting = thread::spawn(move || {
        http::request(&address, "GET", "/v1/topics/t/events?group=g&ack=auto&wait=60", &[], b"")
    });
    wait_until("the poll", || {
        let presence = get(&gateway, "/v1/topics/t/presence");
        (presence["members"][0]["group"] == "g").then_some(())
    });
    publish(&gateway, "t", "1");
    let answer = waiting.join().expect("answered");
    assert_eq!(answer.header("content-type"), Some("application/cloudevents-batch+json"));
    let events = answer.json();
    assert_eq!((&events[0]["id"], events[0].get("framegateackid")), (&json!("1"), None));
    assert_eq!(poll(&gateway, "t", "group=g&ack=auto"), Vec::<Value>::new());
}

#[test]
fn what_was_asked_wrongly_is_named() {
    let gateway = Gateway::start();
    for (path, word) in [
        ("/v1/topics/t/events", "group"),
        ("/v1/topics/t/events?group=g&max=0", "max"),
        ("/v1/topics/t/events?group=g&max=1001", "max"),
        ("/v1/topics/t/events?group=g&wait=301", "wait"),
        ("/v1/topics/t/events?group=g&lease=0", "lease"),
        ("/v1/topics/t/events?group=g&ack=maybe", "ack"),
        ("/v1/topics/t/events?group=g&from=x", "from"),
        ("/v1/topics/t/history?limit=1001", "limit"),
        ("/v1/topics/t/history?from=x", "from"),
        ("/v1/topics/t/history?until=latest", "until"),
        ("/v1/topics/t/history?before=x", "before"),
    ] {
        let answer = call(&gateway, "GET", path, &Value::Null);
        assert_eq!((answer.status, answer.text().contains(word)), (400, true), "{path}: {}", answer.text());
    }
    for body in [json!({}), json!({"acks": [1]}), json!({"acks": vec!["x"; 1001]}), json!({"ack": []})] {
        assert_eq!(acks(&gateway, &body).status, 400, "{body}");
    }
    let long = json!({"acks": ["x".repeat(300_000)]});
    assert_eq!(acks(&gateway, &long).status, 413);
    for (method, path, allowed) in [
        ("DELETE", "/v1/topics/t/events", "GET, POST, OPTIONS"),
        ("POST", "/v1/topics/t/presence", "GET, OPTIONS"),
        ("POST", "/v1/topics/t/history", "GET, OPTIONS"),
        ("GET", "/v1/topics/t/request", "POST, OPTIONS"),
        ("GET", "/v1/acks", "POST, OPTIONS"),
    ] {
        let answer = call(&gateway, method, path, &Value::Null);
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)), "{method} {path}");
    }
    for (path, allowed) in [
        ("/v1/topics/t/events", "GET, POST, OPTIONS"),
        ("/v1/topics/t/history", "GET, OPTIONS"),
        ("/v1/acks", "POST, OPTIONS"),
    ] {
        let answer = call(&gateway, "OPTIONS", path, &Value::Null);
        assert_eq!((answer.status, answer.header("allow")), (200, Some(allowed)), "{path}");
    }
}

#[test]
fn presence_shows_who_hears_of_a_topic() {
    let gateway = Gateway::start();
    publish(&gateway, "t", "1");
    assert_eq!(
        get(&gateway, "/v1/topics/t/presence"),
        json!({"topic": "t", "subscribers": 0, "members": []})
    );
    let _sse = harness::sse::Sse::open(&gateway.address("http"), "topic=t", &[]);
    wait_until("the subscriber", || {
        (get(&gateway, "/v1/topics/t/presence")["subscribers"] == 1).then_some(())
    });
    let missing = call(&gateway, "GET", "/v1/topics/none/presence", &Value::Null);
    assert_eq!(missing.status, 404, "{}", missing.text());
}

#[test]
fn history_is_read_in_pages_in_either_order() {
    let gateway = Gateway::start();
    for id in ["1", "2", "3", "4", "5"] {
        publish(&gateway, "t", id);
    }
    let page = |query: &str| call(&gateway, "GET", &format!("/v1/topics/t/history?{query}"), &Value::Null);
    let events = |answer: &Response| {
        let events = answer.json();
        events.as_array().expect("a batch").iter().map(|e| e["id"].to_string()).collect::<Vec<_>>()
    };
    let all = page("");
    assert_eq!(events(&all), ["\"1\"", "\"2\"", "\"3\"", "\"4\"", "\"5\""]);
    assert_eq!(all.header("framegate-next"), None);
    let first = page("limit=2");
    assert_eq!(events(&first), ["\"1\"", "\"2\""]);
    let next = first.header("framegate-next").expect("there is more");
    let second = page(&format!("limit=2&from=offset:{next}"));
    assert_eq!(events(&second), ["\"3\"", "\"4\""]);
    assert_eq!(events(&page("limit=3&reverse")), ["\"3\"", "\"2\"", "\"1\""]);
    assert_eq!(events(&page("from=latest&limit=2")), ["\"4\"", "\"5\""]);
    assert_eq!(events(&page("since=1970-01-01T00:00:00Z&until=1970-01-02T00:00:00Z")), Vec::<String>::new());
}

/// Answers one request as an AMQP application does: to `reply_to`, with the `correlation_id` it came with.
fn answer_over_amqp(amqp: &mut Amqp, body: &[u8]) -> (String, String) {
    let (tag, _, content) = amqp.delivery();
    let correlation = content.text(0x0400).expect("a correlation id");
    let reply_to = content.text(0x0200).expect("where the reply goes");
    let properties = args().short(0x0400).text(&correlation).0;
    amqp.publish(1, "", &reply_to, 0, &properties, body);
    amqp.ack(tag, false);
    (correlation, reply_to)
}

#[test]
fn a_request_waits_for_the_reply_of_any_protocol() {
    let gateway = Gateway::start();
    let mut amqp = Amqp::connect(&gateway.address("amqp"));
    amqp.declare("calls");
    amqp.send(1, 50, 20, args().short(0).text("calls").text("amq.topic").text("calls").octet(0).table(&[]));
    amqp.expect(50, 21);
    amqp.consume("calls", "c", 0);
    let address = gateway.address("http");
    let asked = thread::spawn(move || {
        let headers = [("Content-Type", "application/cloudevents+json"), ("Prefer", "wait=60")];
        let body = event("q").to_string();
        http::request(&address, "POST", "/v1/topics/calls/request", &headers, body.as_bytes())
    });
    let (correlation, reply_to) = answer_over_amqp(&mut amqp, b"42");
    let reply = asked.join().expect("answered");
    assert_eq!(reply.status, 200, "{}", reply.text());
    let reply = reply.json();
    assert_eq!(reply["emcorrelationid"], correlation.as_str());
    assert_eq!(reply["data"], 42);
    // nobody waits there any more
    wait_until("the end of the mailbox", || {
        let late = http::publish(&gateway.address("http"), &reply_to, &event("late"));
        (late.status == 404).then_some(())
    });
}

#[test]
fn a_request_is_answered_over_http_and_given_up_in_time() {
    let gateway = Gateway::start();
    let request = |seconds: &str| {
        let (address, wait) = (gateway.address("http"), format!("wait={seconds}"));
        thread::spawn(move || {
            let headers = [("Content-Type", "application/cloudevents+json"), ("Prefer", wait.as_str())];
            let body = event("q").to_string();
            http::request(&address, "POST", "/v1/topics/calls/request", &headers, body.as_bytes())
        })
    };
    let asked = request("60");
    let taken = poll(&gateway, "calls", "group=workers&from=earliest&wait=60");
    let taken = match taken.is_empty() {
        // the topic was made just now
        true => poll(&gateway, "calls", "group=workers&wait=60"),
        false => taken,
    };
    let mut answer = event("a");
    answer["emcorrelationid"] = taken[0]["emcorrelationid"].clone();
    let to = taken[0]["replyto"].as_str().expect("where the reply goes");
    assert_eq!(http::publish(&gateway.address("http"), to, &answer).status, 202);
    let reply = asked.join().expect("answered");
    assert_eq!((reply.status, &reply.json()["id"]), (200, &json!("a")));
    let late = request("0").join().expect("answered");
    assert_eq!((late.status, &late.json()["code"]), (504, &json!("timeout")), "{}", late.text());
    let headers = [("Content-Type", "application/cloudevents-batch+json")];
    let path = "/v1/topics/calls/request";
    let batch = http::request(&gateway.address("http"), "POST", path, &headers, b"[]");
    assert_eq!((batch.status, &batch.json()["code"]), (415, &json!("unsupported_format")));
}
