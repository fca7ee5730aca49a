//! Server-Sent Events over a socket: framing, headers, resume, heartbeat, lifetimes; fan-out encodes once.

use harness::messagex::MessageX;
use harness::sse::Sse;
use harness::{Gateway, Options, http, wait_until};
use serde_json::{Value, json};

fn publish(gateway: &Gateway, topic: &str, id: &str, data: &Value) {
    let event = json!({"specversion": "1.0", "id": id, "source": "/t", "type": "com.example", "data": data});
    let answer = http::publish(&gateway.address("http"), topic, &event);
    assert_eq!(answer.status, 202, "{}", answer.text());
}

#[test]
fn the_stream_has_the_headers_that_keep_it_streaming() {
    let gateway = Gateway::start();
    let sse = Sse::open(&gateway.address("http"), "topic=t", &[("Origin", "http://page.example")]);
    assert_eq!(sse.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(sse.header("cache-control"), Some("no-store, no-transform"));
    assert_eq!(sse.header("x-accel-buffering"), Some("no"));
    assert_eq!(sse.header("content-encoding"), None);
    assert!(sse.header("x-framegate-resume").is_some());
    assert!(sse.header("access-control-allow-origin").is_some());
    let exposed = sse.header("access-control-expose-headers").expect("exposed").to_lowercase();
    assert!(exposed.contains("x-framegate-resume"));
}

#[test]
fn every_event_has_an_id_and_lines_are_split() {
    let gateway = Gateway::start();
    let mut sse = Sse::open(&gateway.address("http"), "topic=t", &[]);
    let pretty =
        "{\"specversion\":\"1.0\",\"id\":\"p\",\"source\":\"/t\",\"type\":\"t\",\"data\":{\r\n \"a\":\r1\n}}";
    let headers = [("Content-Type", "application/cloudevents+json")];
    let path = "/v1/topics/t/events";
    assert_eq!(
        http::request(&gateway.address("http"), "POST", path, &headers, pretty.as_bytes()).status,
        202
    );
    let event = sse.next_event();
    assert_eq!((event.name.as_str(), &event.json()["data"]), ("message", &json!({"a": 1})));
    assert!(!event.id.is_empty());
    assert_eq!(sse.retry, Some(3000));
}

#[test]
fn a_stream_without_a_cursor_begins_with_one() {
    let gateway = Gateway::start();
    let mut sse = Sse::open(&gateway.address("http"), "topic=t", &[]);
    let start = sse.try_next().expect("open").expect("a control event");
    assert_eq!((start.name.as_str(), &start.json()["subscribed"]), ("framegate", &json!(true)));
    publish(&gateway, "t", "1", &json!("missed"));
    let mut resumed = Sse::open(&gateway.address("http"), "topic=t", &[("Last-Event-ID", &start.id)]);
    assert_eq!(resumed.try_next().expect("open").expect("an event").json()["data"], "missed");
}

#[test]
fn the_event_name_can_be_the_type() {
    let gateway = Gateway::start();
    let mut sse = Sse::open(&gateway.address("http"), "topic=t&event=type", &[]);
    publish(&gateway, "t", "1", &json!(1));
    assert_eq!(sse.next_event().name, "com.example");
}

#[test]
fn every_source_of_a_cursor_is_read_and_every_start_is_known() {
    let gateway = Gateway::start();
    for n in 0..6 {
        publish(&gateway, "t", &n.to_string(), &json!(n));
    }
    let address = gateway.address("http");
    let first = |query: &str, headers: &[(&str, &str)]| Sse::open(&address, query, headers).next_event();
    let cursor = first("topic=t&lastEventId=earliest", &[]).id;
    assert_eq!(first("topic=t", &[("Last-Event-ID", &cursor)]).json()["data"], 1);
    for name in ["lastEventId", "last-event-id", "last_event_id"] {
        assert_eq!(first(&format!("topic=t&{name}={cursor}"), &[]).json()["data"], 1, "{name}");
    }
    let header_wins = first("topic=t&lastEventId=earliest", &[("Last-Event-ID", &cursor)]);
    assert_eq!(header_wins.json()["data"], 1);
    assert_eq!(first("topic=t&rewind=2", &[]).json()["data"], 4);
    assert_eq!(first("topic=t&since=2020-01-01T00:00:00Z", &[]).json()["data"], 0);
    let mut latest = Sse::open(&address, "topic=t&lastEventId=latest", &[]);
    publish(&gateway, "t", "new", &json!("new"));
    assert_eq!(latest.next_event().json()["data"], "new");
}

#[test]
fn an_unknown_cursor_gets_a_notice_then_everything_that_is_kept() {
    let gateway = Gateway::start();
    publish(&gateway, "t", "1", &json!(1));
    for id in ["garbage", "zzz.0:1", "1"] {
        let mut sse = Sse::open(&gateway.address("http"), "topic=t", &[("Last-Event-ID", id)]);
        assert_ne!(sse.header("x-framegate-resume"), Some("exact"));
        let notice = sse.try_next().expect("open").expect("notice");
        assert_eq!(notice.name, "framegate", "{notice:?}");
        let body = notice.json();
        assert_eq!((&body["lost"], &body["requested"]), (&json!(true), &json!(id)));
        assert!(body["resumedFrom"].is_string(), "{body}");
        assert_eq!(sse.next_event().json()["data"], 1);
    }
}

#[test]
fn a_heartbeat_is_a_comment_without_an_event() {
    let options = Options::default().config("[protocols.cloudevents]\nheartbeat_s = 1\n");
    let gateway = Gateway::start_with(options);
    let mut sse = Sse::open(&gateway.address("http"), "topic=t", &[]);
    let publisher = {
        let address = gateway.address("http");
        std::thread::spawn(move || {
            wait_until("a heartbeat's time", || {
                let metrics = http::request(&address, "GET", "/metrics", &[], b"").text();
                metrics
                    .lines()
                    .find(|l| l.starts_with("framegate_uptime_seconds"))
                    .and_then(|l| l.rsplit(' ').next()?.parse::<f64>().ok())
                    .filter(|s| *s > 2.5)
            });
            let event = json!({"specversion": "1.0", "id": "1", "source": "/t", "type": "t", "data": 1});
            assert_eq!(http::publish(&address, "t", &event).status, 202);
        })
    };
    assert_eq!(sse.next_event().json()["data"], 1);
    assert!(sse.comments >= 1, "a comment came first");
    publisher.join().expect("publisher");
}

#[test]
fn bad_subscriptions_are_refused_with_a_reason() {
    let gateway = Gateway::start();
    let get =
        |query: &str| http::request(&gateway.address("http"), "GET", &format!("/v1/sse{query}"), &[], b"");
    assert_eq!(get("").status, 400);
    assert_eq!(get("?topic=").status, 400);
    assert_eq!(get("?topic=t&since=yesterday").status, 400);
    assert_eq!(get("?topic=t&rewind=x").status, 400);
    assert_eq!(get("?queue=none").status, 404);
    let both = get("?queue=none&topic=t");
    assert_eq!(both.status, 400, "{}", both.text());
    let many = (0..101).map(|n| format!("topic=t{n}")).collect::<Vec<_>>().join("&");
    assert_eq!(get(&format!("?{many}")).status, 400);
}

#[test]
fn a_filter_lets_pass_what_matches_and_a_bad_one_is_refused_with_its_place() {
    let gateway = Gateway::start();
    let query = |filter: &str| {
        let escaped: String = filter.bytes().map(|byte| format!("%{byte:02X}")).collect();
        format!("topic=t&filter={escaped}")
    };
    let address = gateway.address("http");
    let mut by_text =
        Sse::open(&address, &query(r#"[{"suffix":{"id":"3"}},{"not":{"exact":{"id":"13"}}}]"#), &[]);
    let mut by_sql = Sse::open(&address, &query(r#"{"sql":"INT(id) > 3 AND id NOT IN ('5')"}"#), &[]);
    for n in [1, 13, 3, 5, 23] {
        publish(&gateway, "t", &n.to_string(), &json!(n));
    }
    let ids = |sse: &mut Sse| [sse.next_event(), sse.next_event()].map(|event| event.json()["data"].clone());
    assert_eq!(ids(&mut by_text), [3, 23]);
    assert_eq!(ids(&mut by_sql), [13, 23]);
    for (filter, wanted) in [
        ("x", "is not JSON"),
        (r#"{"near":{"id":"1"}}"#, "/0/near"),
        (r#"{"exact":{"id":5}}"#, "/0/exact/id"),
        (r#"{"sql":"id ="}"#, "at byte 4"),
        (r#"{"sql":"SOUNDEX(id) = 'a'"}"#, "no function SOUNDEX"),
    ] {
        let answer = http::request(&address, "GET", &format!("/v1/sse?{}", query(filter)), &[], b"");
        assert_eq!(answer.status, 400, "{filter}");
        assert!(answer.text().contains(wanted), "{filter}: {}", answer.text());
    }
}

#[test]
fn a_look_at_a_stream_has_its_head_and_changes_nothing() {
    let gateway = Gateway::start();
    let look =
        |query: &str| http::request(&gateway.address("http"), "HEAD", &format!("/v1/sse?{query}"), &[], b"");
    let answer = look("topic=t");
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(answer.header("cache-control"), Some("no-store, no-transform"));
    let topics = http::request(&gateway.address("http"), "GET", "/admin/v1/topics", &[], b"");
    assert_eq!((topics.status, topics.text().contains("\"t\"")), (200, false), "{}", topics.text());
    assert_eq!((look("").status, look("topic=t&group=g").status), (400, 501));
    let other = http::request(&gateway.address("http"), "PUT", "/v1/sse?topic=t", &[], b"");
    assert_eq!((other.status, other.header("allow")), (405, Some("GET, HEAD, OPTIONS")));
}

#[test]
fn a_queue_can_be_consumed_and_competes() {
    let gateway = Gateway::start();
    let mut c = MessageX::connect(&gateway.address("messagex"));
    c.declare("q");
    let mut sse = Sse::open(&gateway.address("http"), "queue=q", &[]);
    c.publish("q", &json!({"a": 1}));
    let event = sse.next_event().json();
    assert_eq!((&event["data"], &event["type"]), (&json!({"a": 1}), &json!("framegate.message")));
    assert_eq!(event["source"], "///");
    wait_until("the ack", || (c.ok("QUEUE_GET", json!({"name": "q"}))["unackedCount"] == 0).then_some(()));
    assert_eq!(c.ok("QUEUE_GET", json!({"name": "q"}))["messageCount"], 0);
}

#[test]
fn an_event_is_encoded_once_per_format_however_many_subscribe() {
    let gateway = Gateway::start();
    let address = gateway.address("http");
    let mut plain: Vec<Sse> = (0..50).map(|_| Sse::open(&address, "topic=t", &[])).collect();
    let mut typed: Vec<Sse> = (0..50).map(|_| Sse::open(&address, "topic=t&event=type", &[])).collect();
    let before = gateway.metric("framegate_cloudevents_sse_encoded_total");
    for n in 0..20 {
        publish(&gateway, "t", &n.to_string(), &json!(n));
    }
    for sse in plain.iter_mut().chain(&mut typed) {
        for n in 0..20 {
            assert_eq!(sse.next_event().json()["data"], n);
        }
    }
    let encoded = gateway.metric("framegate_cloudevents_sse_encoded_total") - before;
    assert!((encoded - 40.0).abs() < 0.5, "20 events in 2 formats are 40 encodings, not {encoded}");
}
