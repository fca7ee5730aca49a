//! Properties and headers of AMQP messages at other protocols, and theirs at AMQP: the table of `docs/amqp.md`, over sockets.

use harness::messagex::MessageX;
use harness::peers::amqp::{Amqp, Args, Field, args};
use harness::peers::bound_queue;
use harness::sse::Sse;
use harness::{Gateway, http, wait_until};
use serde_json::{Value, json};

const SECONDS: u64 = 1_700_000_000;
const TIME: &str = "2023-11-14T22:13:20Z";

/// Every property but `expiration` and `user-id`, and headers of several types.
fn everything() -> Args {
    let nested = Field::Table(vec![("k", Field::Bool(true))]);
    let headers = [
        ("text", Field::Text("x")),
        ("tiny", Field::Tiny(-5)),
        ("flag", Field::Bool(true)),
        ("long", Field::Long(1 << 40)),
        ("list", Field::List(&["a", "b"])),
        ("table", nested),
    ];
    args()
        .short(0xFEEC)
        .text("text/plain")
        .text("gzip")
        .table(&headers)
        .octet(2)
        .octet(7)
        .text("corr")
        .text("replies")
        .text("id-1")
        .longlong(SECONDS)
        .text("kind")
        .text("app")
        .text("cluster")
}

/// A queue of AMQP's that is bound to the topic.
fn amqp_queue(gateway: &Gateway, topic: &str) -> (Amqp, String) {
    let queue = bound_queue(gateway, topic);
    (Amqp::connect(&gateway.address("amqp")), queue)
}

/// Flags and values of the next message.
fn properties(client: &mut Amqp, queue: &str) -> Vec<u8> {
    wait_until("the message", || client.get(queue)).1.properties
}

#[test]
fn amqp_properties_and_headers_are_what_the_table_says_elsewhere() {
    let gateway = Gateway::start();
    let mut messagex = MessageX::connect(&gateway.address("messagex"));
    let queue = bound_queue(&gateway, "out");
    let mut sse = Sse::open(&gateway.address("http"), "topic=out", &[]);
    let (mut amqp, own) = amqp_queue(&gateway, "out");
    assert_eq!(own, queue);
    let sent = everything().0;
    for _ in 0..2 {
        amqp.publish(1, "amq.topic", "out", 0, &sent, b"body");
    }

    assert_eq!(properties(&mut amqp, &queue), sent, "AMQP to AMQP: identical");

    let got = wait_until("the message", || messagex.get(&queue));
    assert_eq!((&got["body"], &got["messageId"]), (&json!("body"), &json!("id-1")));
    let expected = json!({
        "messageId": "id-1", "type": "kind", "contentType": "text/plain", "timestamp": SECONDS * 1000,
        "correlationId": "corr", "replyTo": "replies", "priority": 7, "deliveryMode": 2,
    });
    for (name, value) in expected.as_object().expect("an object") {
        let there = if name == "messageId" { &got["messageId"] } else { &got["properties"][name] };
        assert_eq!(there, value, "{name}: {got}");
    }
    let headers = json!({"text": "x", "tiny": -5, "flag": true, "long": 1_i64 << 40,
        "list": "[\"a\",\"b\"]", "table": "{\"k\":true}"});
    for (name, value) in headers.as_object().expect("an object") {
        assert_eq!(&got["headers"][name], value, "{name}: {got}");
    }
    for lost in ["contentEncoding", "appId", "clusterId"] {
        assert_eq!(got["properties"][lost], Value::Null, "{lost} is lost: {got}");
    }

    let event = sse.next_event().json();
    let expected = json!({
        "id": "id-1", "type": "kind", "datacontenttype": "text/plain", "time": TIME,
        "emcorrelationid": "corr", "replyto": "replies", "data": "body",
        "text": "x", "tiny": -5, "flag": true, "list": "[\"a\",\"b\"]", "table": "{\"k\":true}",
    });
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&event[name], value, "{name}: {event}");
    }
}

#[test]
fn what_others_publish_has_the_properties_and_headers_of_the_table() {
    let gateway = Gateway::start();
    let (mut amqp, queue) = amqp_queue(&gateway, "in");
    let mut messagex = MessageX::connect(&gateway.address("messagex"));
    messagex.ok(
        "PUBLISH",
        json!({
            "exchangeName": "amq.topic", "routingKey": "in", "body": "x", "persistent": true,
            "properties": {"messageId": "m-1", "type": "kind", "contentType": "text/plain",
                "timestamp": SECONDS * 1000, "correlationId": "corr", "replyTo": "replies", "priority": 3},
            "headers": {"text": "x", "number": 5, "flag": true},
        }),
    );
    let got = properties(&mut amqp, &queue);
    let flags = u16::from_be_bytes([got[0], got[1]]);
    assert_eq!(flags, 0xBEE0, "content type, headers, mode, priority, correlation, reply, id, time, type");
    let behind =
        args().octet(2).octet(3).text("corr").text("replies").text("m-1").longlong(SECONDS).text("kind");
    assert!(got[2..].starts_with(&args().text("text/plain").0), "{got:?}");
    assert!(got.ends_with(&behind.0), "{got:?}");
    for (name, letter) in [("text", Field::Text("x")), ("number", Field::Int(5)), ("flag", Field::Bool(true))]
    {
        let entry = args().table(&[(name, letter)]).0;
        assert!(got.windows(entry.len() - 4).any(|w| *w == entry[4..]), "{name}: {got:?}");
    }

    let event = json!({"specversion": "1.0", "id": "e-1", "source": "/shop", "subject": "s", "type": "kind",
        "time": TIME, "datacontenttype": "text/plain", "data": "x", "emcorrelationid": "corr", "extension": "v"});
    let response = http::publish(&gateway.address("http"), "in", &event);
    assert_eq!(response.status, 202, "{}", response.text());
    let headers = [
        ("cloudEvents:source", Field::Text("/shop")),
        ("cloudEvents:subject", Field::Text("s")),
        ("extension", Field::Text("v")),
    ];
    let expected = args().short(0xB4E0).text("text/plain").table(&headers).octet(2).text("corr").text("e-1");
    let expected = expected.longlong(SECONDS).text("kind").0;
    assert_eq!(properties(&mut amqp, &queue), expected);
}
