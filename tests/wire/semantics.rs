//! What a queue and a topic promise, seen from outside.

use harness::messagex::MessageX;
use harness::sse::Sse;
use harness::{Gateway, http, wait_until};
use serde_json::{Value, json};

fn bodies(client: &mut MessageX, n: usize) -> Vec<(i64, bool, Value)> {
    (0..n)
        .map(|_| {
            let d = client.delivery();
            (d["body"].as_i64().expect("number"), d["redelivered"] == true, d)
        })
        .collect()
}

#[test]
fn requeued_message_keeps_its_place_and_is_marked() {
    let gateway = Gateway::start();
    let mut a = MessageX::connect(&gateway.address("messagex"));
    a.declare("q");
    for n in 1..=5 {
        a.publish("q", &json!(n));
    }
    a.consume("q", 3);
    let first = bodies(&mut a, 3);
    assert_eq!(first.iter().map(|b| b.0).collect::<Vec<_>>(), [1, 2, 3]);
    a.ok("NACK", json!({"deliveryTag": first[1].2["deliveryTag"], "requeue": true}));
    let again = bodies(&mut a, 1);
    assert_eq!((again[0].0, again[0].1), (2, true));
    assert_eq!(again[0].2["deliveryCount"], 2);
}

#[test]
fn a_lost_connection_returns_what_it_held_in_order() {
    let gateway = Gateway::start();
    let mut a = MessageX::connect(&gateway.address("messagex"));
    a.declare("q");
    for n in 1..=6 {
        a.publish("q", &json!(n));
    }
    let mut b = MessageX::connect(&gateway.address("messagex"));
    b.consume("q", 4);
    let held = bodies(&mut b, 4);
    b.ack(&held[1].2);
    let fifth = b.delivery();
    assert_eq!(fifth["body"], 5, "the ack made room for one more");
    drop(b);
    wait_until("the loss to be noticed", || {
        (a.ok("QUEUE_GET", json!({"name": "q"}))["unackedCount"] == 0).then_some(())
    });
    a.consume("q", 10);
    let got = bodies(&mut a, 5);
    let expected = [(1, true), (3, true), (4, true), (5, true), (6, false)];
    assert_eq!(got.iter().map(|g| (g.0, g.1)).collect::<Vec<_>>(), expected);
}

#[test]
fn two_consumers_share_a_queue() {
    let gateway = Gateway::start();
    let mut publisher = MessageX::connect(&gateway.address("messagex"));
    publisher.declare("q");
    let mut a = MessageX::connect(&gateway.address("messagex"));
    let mut b = MessageX::connect(&gateway.address("messagex"));
    a.consume("q", 1);
    b.consume("q", 1);
    for n in 0..10 {
        publisher.publish("q", &json!(n));
    }
    let mut seen = Vec::new();
    for _ in 0..5 {
        for client in [&mut a, &mut b] {
            let d = client.delivery();
            seen.push(d["body"].as_i64().expect("number"));
            client.ack(&d);
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
}

#[test]
fn exchanges_route_by_their_kind() {
    let gateway = Gateway::start();
    let mut c = MessageX::connect(&gateway.address("messagex"));
    for queue in ["d", "f1", "f2", "t", "h"] {
        c.declare(queue);
    }
    for (name, kind) in [("xd", "direct"), ("xf", "fanout"), ("xt", "topic"), ("xh", "headers")] {
        c.ok("EXCHANGE_DECLARE", json!({"name": name, "type": kind, "durable": true}));
    }
    let mut bind = |exchange: &str, queue: &str, key: &str, arguments: Value| {
        c.ok(
            "QUEUE_BIND",
            json!({"queueName": queue, "exchangeName": exchange, "routingKey": key, "arguments": arguments}),
        );
    };
    bind("xd", "d", "k", json!({}));
    bind("xf", "f1", "", json!({}));
    bind("xf", "f2", "", json!({}));
    bind("xt", "t", "a.*.#", json!({}));
    bind("xh", "h", "", json!({"x-match": "all", "n": 1, "s": "x"}));
    let mut publish = |exchange: &str, key: &str, headers: Value| {
        c.ok("PUBLISH", json!({"exchangeName": exchange, "routingKey": key, "body": 1, "headers": headers}))["queues"]
            .as_u64()
            .expect("count")
    };
    assert_eq!(publish("xd", "k", json!({})), 1);
    assert_eq!(publish("xd", "other", json!({})), 0);
    assert_eq!(publish("xf", "anything", json!({})), 2);
    assert_eq!(publish("xt", "a.b", json!({})), 1);
    assert_eq!(publish("xt", "a.b.c.d", json!({})), 1);
    assert_eq!(publish("xt", "a", json!({})), 0);
    assert_eq!(publish("xh", "", json!({"n": 1, "s": "x", "more": true})), 1);
    assert_eq!(publish("xh", "", json!({"n": 2, "s": "x"})), 0);
}

#[test]
fn a_rejected_message_goes_to_the_dead_letter_exchange() {
    let gateway = Gateway::start();
    let mut c = MessageX::connect(&gateway.address("messagex"));
    c.declare("dead");
    let arguments = json!({"deadLetterExchange": "", "deadLetterRoutingKey": "dead"});
    c.ok("QUEUE_DECLARE", json!({"name": "q", "durable": true, "arguments": arguments}));
    c.publish("q", &json!("poison"));
    c.consume("q", 1);
    let d = c.delivery();
    c.ok("REJECT", json!({"deliveryTag": d["deliveryTag"], "requeue": false}));
    let got = wait_until("the dead letter", || c.get("dead"));
    assert_eq!(got["body"], "poison");
}

#[test]
fn a_topic_keeps_events_and_replays_them_from_any_place() {
    let gateway = Gateway::start();
    let http_address = gateway.address("http");
    for n in 0..10 {
        let event =
            json!({"specversion": "1.0", "id": format!("e{n}"), "source": "/t", "type": "t", "data": n});
        let answer = http::publish(&http_address, "kept", &event);
        assert_eq!(answer.status, 202, "{}", answer.text());
        assert_eq!(answer.json()["offset"].to_string().trim_matches('"').parse::<u64>().ok(), Some(n));
    }
    let mut sse = Sse::open(&http_address, "topic=kept&lastEventId=earliest", &[]);
    let mut cursors = Vec::new();
    for n in 0..10 {
        let event = sse.next_event();
        assert_eq!(event.json()["data"], n);
        cursors.push(event.id);
    }
    let mut resumed = Sse::open(&http_address, "topic=kept", &[("Last-Event-ID", &cursors[6])]);
    assert_eq!(resumed.header("x-framegate-resume"), Some("exact"));
    assert_eq!(resumed.next_event().json()["data"], 7);
    let mut last = Sse::open(&http_address, "topic=kept&rewind=2", &[]);
    assert_eq!(last.next_event().json()["data"], 8);
}

#[test]
fn a_wildcard_sees_what_no_topic_keeps_and_replays_what_one_does() {
    let gateway = Gateway::start();
    let address = gateway.address("http");
    let mut live = Sse::open(&address, "topic=orders.%23", &[]);
    let mut c = MessageX::connect(&gateway.address("messagex"));
    let reply = c.ok(
        "PUBLISH",
        json!({"exchangeName": "amq.topic", "routingKey": "orders.eu.1", "body": "live only"}),
    );
    assert_eq!(reply["routed"], true);
    assert_eq!(live.next_event().json()["data"], "live only");
    let event = json!({"specversion": "1.0", "id": "k", "source": "/t", "type": "t", "data": "kept"});
    assert_eq!(http::publish(&address, "orders.us", &event).status, 202);
    assert_eq!(live.next_event().json()["data"], "kept");
    let mut replay = Sse::open(&address, "topic=orders.*&lastEventId=earliest", &[]);
    assert_eq!(replay.next_event().json()["data"], "kept");
}

#[test]
fn an_exact_subscription_creates_its_topic_and_a_broker_publish_does_not() {
    let gateway = Gateway::start();
    let mut c = MessageX::connect(&gateway.address("messagex"));
    let publish = json!({"exchangeName": "amq.topic", "routingKey": "t1", "body": 1});
    assert_eq!(c.ok("PUBLISH", publish.clone())["routed"], false);
    let topics = |gateway: &Gateway| {
        let answer = http::request(&gateway.address("http"), "GET", "/admin/v1/topics", &[], b"").json();
        answer["topics"].as_array().expect("topics").len()
    };
    assert_eq!(topics(&gateway), 0);
    let mut sse = Sse::open(&gateway.address("http"), "topic=t1", &[]);
    assert_eq!(topics(&gateway), 1);
    assert_eq!(c.ok("PUBLISH", publish)["routed"], true);
    assert_eq!(sse.next_event().json()["data"], 1);
}

#[test]
fn publishing_the_same_event_again_stores_it_once() {
    let gateway = Gateway::start();
    let address = gateway.address("http");
    let event =
        |data: i64| json!({"specversion": "1.0", "id": "same", "source": "/t", "type": "t", "data": data});
    let first = http::publish(&address, "dedup", &event(1));
    let again = http::publish(&address, "dedup", &event(1));
    let other = http::publish(&address, "dedup", &event(2));
    assert_eq!((first.status, again.status, other.status), (202, 202, 409), "{}", other.text());
    assert_eq!(first.json()["duplicate"], false);
    assert_eq!(again.json()["duplicate"], true);
    assert_eq!(again.json()["offset"], first.json()["offset"]);
}
