//! CloudEvents over HTTP: every mode, route, header rule and error of cloudevents-http.md 2, 3 and 5, over a socket.

use std::io::{Read, Write};
use std::net::TcpStream;

use harness::http::{self, Response};
use harness::sse::Sse;
use harness::{Gateway, Options};
use serde_json::{Value, json};

const STRUCTURED: (&str, &str) = ("Content-Type", "application/cloudevents+json");
const BATCH: (&str, &str) = ("Content-Type", "application/cloudevents-batch+json");

fn post(gateway: &Gateway, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
    http::request(&gateway.address("http"), "POST", path, headers, body)
}

fn event(id: &str) -> Value {
    json!({"specversion": "1.0", "id": id, "source": "/t", "type": "t"})
}

/// Publishes a structured event with more members and gives what a subscriber sees.
fn crossing(gateway: &Gateway, sse: &mut Sse, body: &str) -> String {
    let answer = post(gateway, "/v1/topics/c/events", &[STRUCTURED], body.as_bytes());
    assert_eq!(answer.status, 202, "{body}: {}", answer.text());
    sse.next_event().data
}

#[test]
fn the_answer_names_id_source_and_offset() {
    let gateway = Gateway::start();
    let answer = http::publish(&gateway.address("http"), "t", &event("1"));
    assert_eq!(answer.status, 202);
    let body = answer.json();
    assert_eq!(
        (&body["id"], &body["source"], &body["duplicate"]),
        (&json!("1"), &json!("/t"), &json!(false))
    );
    assert!(!body["offset"].is_null(), "{body}");
}

#[test]
fn data_crosses_as_the_bytes_that_came() {
    let gateway = Gateway::start();
    let mut sse = Sse::open(&gateway.address("http"), "topic=c", &[]);
    let with =
        |n: u32, more: &str| format!(r#"{{"specversion":"1.0","id":"{n}","source":"/t","type":"t",{more}}}"#);
    let cases = [
        (
            r#""data":{"n":123456789012345678901234567890,"e":1e400,"a":1,"a":2}"#,
            r#""data":{"n":123456789012345678901234567890,"e":1e400,"a":1,"a":2}"#,
        ),
        (r#""data":"abc""#, r#""data":"abc""#),
        (r#""datacontenttype":"application/xml","data":"<a/>""#, r#""data":"<a/>""#),
        (r#""data":null"#, r#""data":null"#),
        (r#""data_base64":"AP8=""#, r#""data_base64":"AP8=""#),
        (r#""datacontenttype":"application/json","data_base64":"eyJhIjoxfQ==""#, r#""data":{"a":1}"#),
        (r#""number":5,"flag":true,"text":"5""#, r#""number":5"#),
    ];
    for (n, (sent, expected)) in (1..).zip(cases) {
        let got = crossing(&gateway, &mut sse, &with(n, sent));
        assert!(got.contains(expected), "sent {sent}, got {got}");
    }
    let got = crossing(&gateway, &mut sse, &event("none").to_string());
    assert!(!got.contains("\"data"), "no data stays no data: {got}");
}

#[test]
fn binary_mode_decodes_headers_leniently() {
    let gateway = Gateway::start();
    let mut sse = Sse::open(&gateway.address("http"), "topic=c", &[]);
    let send = |id: &str, value: &[u8]| {
        let mut head = format!(
            "POST /v1/topics/c/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\
             ce-specversion: 1.0\r\nCE-ID: {id}\r\nce-source: /t\r\nce-type: t\r\nce-ext: "
        )
        .into_bytes();
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n\r\n{}");
        let mut socket = TcpStream::connect(gateway.address("http")).expect("connects");
        socket.write_all(&head).expect("sent");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("answer");
        answer.split(' ').nth(1).expect("status").to_owned()
    };
    let cases: [(&[u8], &str); 9] = [
        (b"Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro \u{20ac} \u{1f600}"),
        (b"a b", "a b"),
        (b"100%", "100%"),
        (b"%zz", "%zz"),
        (b"%22q%22", "\"q\""),
        (b"\"quoted \\\" text\"", "quoted \" text"),
        ("\u{20ac}".as_bytes(), "\u{20ac}"),
        (b"caf\xe9", "caf\u{e9}"),
        (b"%e2%82%ac", "\u{20ac}"),
    ];
    for (n, (sent, expected)) in cases.iter().enumerate() {
        assert_eq!(send(&format!("h{n}"), sent), "202", "{}", String::from_utf8_lossy(sent));
        assert_eq!(sse.next_event().json()["ext"], *expected, "{}", String::from_utf8_lossy(sent));
    }
    assert_eq!(send("bad", b"%C0%A0"), "400");
}

#[test]
fn an_invalid_event_is_refused_with_a_pointer() {
    let gateway = Gateway::start();
    let cases: Vec<(Value, &str)> = vec![
        (json!({"id": "1", "source": "/t", "type": "t"}), "/specversion"),
        (json!({"specversion": "0.3", "id": "1", "source": "/t", "type": "t"}), "/specversion"),
        (json!({"specversion": "1.0", "source": "/t", "type": "t"}), "/id"),
        (json!({"specversion": "1.0", "id": "", "source": "/t", "type": "t"}), "/id"),
        (json!({"specversion": "1.0", "id": null, "source": "/t", "type": "t"}), "/id"),
        (json!({"specversion": "1.0", "id": "1", "type": "t"}), "/source"),
        (json!({"specversion": "1.0", "id": "1", "source": "/t"}), "/type"),
        (json!({"specversion": "1.0", "id": "1", "source": "/t", "type": "t", "Upper": "x"}), "/Upper"),
        (json!({"specversion": "1.0", "id": "1", "source": "/t", "type": "t", "obj": {}}), "/obj"),
        (json!({"specversion": "1.0", "id": "1", "source": "/t", "type": "t", "time": "yesterday"}), "/time"),
        (json!({"specversion": "1.0", "id": "1", "source": "/t", "type": "t", "subject": ""}), "/subject"),
        (
            json!({"specversion": "1.0", "id": "1", "source": "/t", "type": "t", "dataschema": "relative"}),
            "/dataschema",
        ),
        (
            json!({"specversion": "1.0", "id": "1", "source": "/t", "type": "t", "big": 3_000_000_000_u64}),
            "/big",
        ),
        (
            json!({"specversion": "1.0", "id": "1", "source": "/t", "type": "t", "datacontenttype": "text/plain", "data": {}}),
            "/data",
        ),
        (
            json!({"specversion": "1.0", "id": "1", "source": "/t", "type": "t", "data_base64": "***"}),
            "/data_base64",
        ),
    ];
    for (body, pointer) in cases {
        let answer = post(&gateway, "/v1/topics/t/events", &[STRUCTURED], body.to_string().as_bytes());
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        let problem = answer.json();
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}: {problem}");
        assert!(problem["type"].as_str().expect("type").starts_with("urn:framegate:error:"), "{problem}");
        assert_eq!((&problem["status"], &problem["retryable"]), (&json!(400), &json!(false)));
        for key in ["title", "detail", "code"] {
            assert!(problem[key].is_string(), "{key}: {problem}");
        }
    }
    for body in ["{", "[1]", r#"{"specversion":"1.0","id":"1","id":"2","source":"/t","type":"t"}"#] {
        assert_eq!(
            post(&gateway, "/v1/topics/t/events", &[STRUCTURED], body.as_bytes()).status,
            400,
            "{body}"
        );
    }
    let both = r#"{"specversion":"1.0","id":"1","source":"/t","type":"t","data":1,"data_base64":"AA=="}"#;
    assert_eq!(post(&gateway, "/v1/topics/t/events", &[STRUCTURED], both.as_bytes()).status, 400);
    let some = post(&gateway, "/v1/topics/t/events", &[("ce-id", "1"), ("ce-type", "t")], b"x");
    assert_eq!(some.status, 400);
    assert!(some.text().contains("ce-source"), "{}", some.text());
    let twice = [
        ("ce-specversion", "1.0"),
        ("ce-id", "1"),
        ("ce-source", "/t"),
        ("ce-type", "t"),
        ("ce-x", "1"),
        ("ce-x", "2"),
    ];
    assert_eq!(post(&gateway, "/v1/topics/t/events", &twice, b"x").status, 400);
}

#[test]
fn a_batch_is_all_or_nothing_unless_the_client_prefers_otherwise() {
    let gateway = Gateway::start();
    let path = "/v1/topics/b/events";
    let good = json!([event("1"), event("2"), event("3")]);
    assert_eq!(post(&gateway, path, &[BATCH], good.to_string().as_bytes()).status, 202);
    assert_eq!(post(&gateway, path, &[BATCH], b"[]").status, 202);
    let bad = json!([event("4"), {"specversion": "1.0", "id": "5", "type": "t"}, event("6")]);
    let refused = post(&gateway, path, &[BATCH], bad.to_string().as_bytes());
    assert_eq!((refused.status, &refused.json()["errors"][0]["pointer"]), (400, &json!("/1/source")));
    let partial =
        post(&gateway, path, &[BATCH, ("Prefer", "return=representation")], bad.to_string().as_bytes());
    assert_eq!(partial.status, 200, "{}", partial.text());
    assert_eq!(
        (&partial.json()["accepted"], &partial.json()["rejected"][0]["index"]),
        (&json!(2), &json!(1))
    );
    let none = json!([{"id": "x"}]).to_string();
    let prefer = [BATCH, ("Prefer", "return=representation")];
    assert_eq!(post(&gateway, path, &prefer, none.as_bytes()).status, 422);
    let mut sse = Sse::open(&gateway.address("http"), "topic=b&lastEventId=earliest", &[]);
    let ids: Vec<_> =
        (0..5).map(|_| sse.next_event().json()["id"].as_str().expect("id").to_owned()).collect();
    assert_eq!(ids, ["1", "2", "3", "4", "6"]);
}

#[test]
fn the_topic_comes_from_the_path_the_subject_or_the_query() {
    let gateway = Gateway::start();
    let mut sse = Sse::open(&gateway.address("http"), "topic=a/b&topic=from.subject&topic=from.query", &[]);
    assert_eq!(http::publish(&gateway.address("http"), "a/b", &event("path")).status, 202);
    assert_eq!(sse.next_event().json()["id"], "path");
    assert_eq!(http::publish(&gateway.address("http"), "a%2Fb", &event("escaped")).status, 202);
    assert_eq!(sse.next_event().json()["id"], "escaped");
    let mut subject = event("subject");
    subject["subject"] = json!("from.subject");
    assert_eq!(post(&gateway, "/v1/events", &[STRUCTURED], subject.to_string().as_bytes()).status, 202);
    assert_eq!(sse.next_event().json()["id"], "subject");
    let query =
        post(&gateway, "/v1/events?topic=from.query", &[STRUCTURED], event("query").to_string().as_bytes());
    assert_eq!(query.status, 202);
    assert_eq!(sse.next_event().json()["id"], "query");
    assert_eq!(post(&gateway, "/v1/events", &[STRUCTURED], event("no").to_string().as_bytes()).status, 400);
    let wildcard = post(&gateway, "/v1/topics/a.*/events", &[STRUCTURED], event("no").to_string().as_bytes());
    assert_eq!(wildcard.status, 400, "{}", wildcard.text());
}

#[test]
fn a_plain_body_becomes_an_event() {
    let gateway = Gateway::start();
    let mut sse = Sse::open(&gateway.address("http"), "topic=p", &[]);
    assert_eq!(
        post(&gateway, "/v1/topics/p/events", &[("Content-Type", "text/plain")], b"hello").status,
        202
    );
    let got = sse.next_event().json();
    assert_eq!(
        (&got["type"], &got["data"], &got["datacontenttype"]),
        (&json!("framegate.plain"), &json!("hello"), &json!("text/plain"))
    );
    assert!(got["source"].as_str().expect("source").starts_with("/clients/"), "{got}");
    assert_eq!(got["id"].as_str().expect("id").len(), 36);
}

#[test]
fn reserved_attributes_of_a_client_are_dropped() {
    let gateway = Gateway::start();
    let mut sse = Sse::open(&gateway.address("http"), "topic=r", &[]);
    let mut sent = event("1");
    for name in ["empopck", "emmqoffset", "emmqpartition", "emorigin"] {
        sent[name] = json!("7");
    }
    sent["emttl"] = json!("60000");
    assert_eq!(http::publish(&gateway.address("http"), "r", &sent).status, 202);
    let got = sse.next_event().json();
    assert!(got.get("empopck").is_none() && got.get("emmqoffset").is_none(), "{got}");
    assert_eq!(got["emttl"], "60000");
}

#[test]
fn sizes_formats_and_methods_that_are_not_taken() {
    let gateway = Gateway::start();
    let mut large = event("l");
    large["data"] = json!("x".repeat(1_100_000));
    let answer = http::publish(&gateway.address("http"), "t", &large);
    assert_eq!(answer.status, 413, "{}", answer.text());
    let avro =
        post(&gateway, "/v1/topics/t/events", &[("Content-Type", "application/cloudevents+avro")], b"x");
    assert_eq!(avro.status, 415);
    assert_eq!(http::request(&gateway.address("http"), "PUT", "/v1/topics/t/events", &[], b"").status, 405);
    let missing = http::request(&gateway.address("http"), "GET", "/v1/nothing", &[], b"");
    assert_eq!((missing.status, missing.header("content-type")), (404, Some("application/problem+json")));
}

#[test]
fn options_answers_web_hook_validation_and_cors_preflight() {
    let gateway = Gateway::start();
    let path = "/v1/topics/t/events";
    let hook = http::request(
        &gateway.address("http"),
        "OPTIONS",
        path,
        &[("WebHook-Request-Origin", "events.example")],
        b"",
    );
    assert!(hook.status == 200 || hook.status == 204, "{}", hook.status);
    assert!(hook.header("allow").expect("allow").contains("POST"));
    assert!(hook.header("webhook-allowed-origin").is_some(), "{:?}", hook.headers);
    assert!(hook.header("accept-post").expect("accept-post").contains("application/cloudevents-batch+json"));
    let preflight = [
        ("Origin", "http://page.example"),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "content-type,ce-id,ce-myext,authorization"),
    ];
    let cors = http::request(&gateway.address("http"), "OPTIONS", path, &preflight, b"");
    assert!(cors.header("access-control-allow-origin").is_some(), "{:?}", cors.headers);
    let allowed = cors.header("access-control-allow-headers").expect("headers").to_lowercase();
    for name in ["content-type", "ce-id", "ce-myext", "authorization", "last-event-id"] {
        assert!(allowed.contains(name), "{name}: {allowed}");
    }
    assert_eq!(cors.header("access-control-max-age"), Some("7200"));
}

#[test]
fn credentials_are_checked_before_anything_is_published() {
    let config = "[[auth.tokens]]\nname = \"w\"\ntoken = \"tok\"\npermissions = [{ vhost = \"/\", write = \"open\" }]\n";
    let gateway = Gateway::start_with(Options::default().config(config));
    let body = event("1").to_string();
    let path = "/v1/topics/open/events";
    assert_eq!(post(&gateway, path, &[STRUCTURED], body.as_bytes()).status, 401);
    let bearer = ("Authorization", "Bearer tok");
    assert_eq!(post(&gateway, path, &[STRUCTURED, bearer], body.as_bytes()).status, 202);
    let refused = post(&gateway, "/v1/topics/closed/events", &[STRUCTURED, bearer], body.as_bytes());
    assert_eq!((refused.status, &refused.json()["code"]), (403, &json!("forbidden")));
}

#[test]
fn expect_100_continue_is_answered() {
    let gateway = Gateway::start();
    let mut socket = TcpStream::connect(gateway.address("http")).expect("connects");
    let body = event("1").to_string();
    let head = format!(
        "POST /v1/topics/t/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n\
         Content-Type: application/cloudevents+json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).expect("sent");
    let mut interim = [0; 12];
    socket.read_exact(&mut interim).expect("answer");
    assert_eq!(&interim, b"HTTP/1.1 100");
    socket.write_all(body.as_bytes()).expect("sent");
    let mut rest = String::new();
    socket.read_to_string(&mut rest).expect("answer");
    assert!(rest.contains("HTTP/1.1 202"), "{rest}");
}
