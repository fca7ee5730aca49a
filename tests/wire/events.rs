//! Broker events over real sockets: the whole ordered list of what a client does, the same from every protocol that watches, and
//! nothing built when nobody watches.

use harness::Gateway;
use harness::http;
use harness::messagex::MessageX;
use harness::websocket::Ws;
use serde_json::{Value, json};

const EVENTS: &str = "amq.framegate.event";

fn connect(gateway: &Gateway) -> MessageX {
    MessageX::connect(&gateway.address("messagex"))
}

/// A durable queue for events, and who consumes it.
fn watch(gateway: &Gateway, keys: &[&str]) -> MessageX {
    let mut c = connect(gateway);
    c.declare("events");
    for key in keys {
        c.ok("QUEUE_BIND", json!({"queueName": "events", "exchangeName": EVENTS, "routingKey": key}));
    }
    c
}

/// The next event, checked for what every event has: key, subject and body.
fn next(c: &mut MessageX) -> (String, String, Value) {
    let delivery = c.delivery();
    c.ack(&delivery);
    let key = delivery["routingKey"].as_str().expect("a key").to_owned();
    assert_eq!((&delivery["exchangeName"], &delivery["properties"]["type"]), (&json!(EVENTS), &json!(key)));
    assert!(delivery["properties"]["timestamp"].as_u64().expect("a time") > 1_600_000_000_000, "{delivery}");
    let subject = delivery["headers"]["cloudEvents:subject"].as_str().unwrap_or_default().to_owned();
    (key, subject, delivery["body"].clone())
}

/// Events until one of that key, that one included.
fn until(c: &mut MessageX, last: &str) -> Vec<(String, String, Value)> {
    let mut all = Vec::new();
    loop {
        let event = next(c);
        let is_last = event.0 == last;
        all.push(event);
        if is_last {
            return all;
        }
    }
}

fn keys(events: &[(String, String, Value)]) -> Vec<&str> {
    events.iter().map(|(key, ..)| key.as_str()).collect()
}

#[test]
fn all_that_a_client_does_is_told_in_order_up_to_the_stop() {
    let gateway = Gateway::start();
    let mut watcher = watch(&gateway, &["#"]);
    watcher.consume("events", 100);
    // its own: the binding that made it hear, and its consumer
    assert_eq!(keys(&until(&mut watcher, "consumer.created")), ["binding.created", "consumer.created"]);

    let mut c = connect(&gateway);
    c.ok("EXCHANGE_DECLARE", json!({"name": "shop", "type": "direct", "durable": true}));
    c.declare("orders");
    c.ok("QUEUE_BIND", json!({"queueName": "orders", "exchangeName": "shop", "routingKey": "new"}));
    c.ok("CONSUME", json!({"queueName": "orders", "consumerTag": "worker"}));
    let publish = |id: &str, key: &str| {
        json!({"exchangeName": "shop", "routingKey": key, "body": id, "persistent": true, "mandatory": true,
            "properties": {"messageId": id}})
    };
    let mut tags = Vec::new();
    for id in ["m1", "m2", "m3"] {
        c.ok("PUBLISH", publish(id, "new"));
        tags.push(c.delivery()["deliveryTag"].clone());
    }
    c.ok("ACK", json!({"deliveryTag": tags[0]}));
    c.ok("NACK", json!({"deliveryTag": tags[1], "requeue": false}));
    c.ok("REJECT", json!({"deliveryTag": tags[2], "requeue": true}));
    let again = c.delivery();
    c.ack(&again);
    assert_eq!(c.fails("PUBLISH", publish("m4", "nobody")), "UNROUTABLE");
    c.ok("PUBLISH", json!({"queueName": "orders", "body": "m5"}));
    c.delivery();
    c.ok("QUEUE_PURGE", json!({"name": "orders"}));
    c.ok("QUEUE_UNBIND", json!({"queueName": "orders", "exchangeName": "shop", "routingKey": "new"}));
    c.ok("CANCEL", json!({"consumerTag": "worker"}));
    c.ok("QUEUE_DELETE", json!({"name": "orders"}));
    c.ok("EXCHANGE_DELETE", json!({"name": "shop"}));
    c.ok("DISCONNECT", json!({}));

    let events = until(&mut watcher, "connection.close");
    let mut expected = vec!["connection.open", "exchange.created", "queue.created", "binding.created"];
    expected.push("consumer.created");
    for _ in 0..3 {
        expected.extend(["message.published", "message.routed", "message.delivered"]);
    }
    expected.extend(["message.acked", "message.nacked", "message.rejected", "message.delivered"]);
    expected.extend(["message.acked", "message.published", "message.returned", "message.published"]);
    expected.extend(["message.routed", "message.delivered", "queue.purged", "binding.deleted"]);
    expected.extend(["consumer.cancelled", "queue.deleted", "exchange.deleted", "connection.close"]);
    assert_eq!(keys(&events), expected);

    let of =
        |key: &str| -> Vec<&(String, String, Value)> { events.iter().filter(|(k, ..)| k == key).collect() };
    let connection = of("connection.open")[0].2["connection"].clone();
    let fields = |key: &str, place: usize, expected: Value| {
        let (_, subject, body) = of(key)[place];
        for (name, value) in expected.as_object().expect("an object") {
            let got = if name == "subject" { &json!(subject) } else { &body[name] };
            assert_eq!(got, value, "{name} of {key}: {body}");
        }
    };
    assert!(of("connection.open")[0].2["label"].as_str().expect("a label").starts_with("messagex "));
    fields(
        "exchange.created",
        0,
        json!({"subject": "shop", "exchange": "shop", "type": "direct", "durable": true}),
    );
    fields(
        "queue.created",
        0,
        json!({"subject": "orders", "queue": "orders", "durable": true, "exclusive": false}),
    );
    fields("binding.created", 0, json!({"exchange": "shop", "queue": "orders", "routing_key": "new"}));
    fields("consumer.created", 0, json!({"subject": "orders", "queue": "orders", "connection": connection}));
    fields(
        "message.published",
        0,
        json!({"subject": "m1", "message": "m1", "exchange": "shop", "routing_key": "new"}),
    );
    fields("message.routed", 0, json!({"message": "m1", "queues": ["orders"]}));
    fields(
        "message.delivered",
        0,
        json!({"message": "m1", "queue": "orders", "tag": 1, "redelivered": false}),
    );
    fields("message.delivered", 3, json!({"message": "m3", "tag": 3, "redelivered": true}));
    fields("message.acked", 0, json!({"queue": "orders", "tag": 1, "count": 1, "multiple": false}));
    fields("message.nacked", 0, json!({"queue": "orders", "tag": 2, "requeue": false}));
    fields("message.rejected", 0, json!({"queue": "orders", "tag": 3, "requeue": true}));
    fields(
        "message.returned",
        0,
        json!({"message": "m4", "code": 312, "text": "NO_ROUTE", "routing_key": "nobody"}),
    );
    fields("queue.purged", 0, json!({"queue": "orders", "count": 0}));
    fields("queue.deleted", 0, json!({"queue": "orders", "messages": 1}));
    fields("exchange.deleted", 0, json!({"exchange": "shop"}));
    fields("connection.close", 0, json!({"connection": connection, "reason": "closed by the session"}));

    // the stop is the last that the old process tells, the start the first that the new one does
    let gateway = gateway.restart();
    let mut watcher = connect(&gateway);
    watcher.consume("events", 100);
    let (stopped, started) = (next(&mut watcher), next(&mut watcher));
    assert_eq!((stopped.0.as_str(), started.0.as_str()), ("broker.stopped", "broker.started"));
    let http = started.2["listeners"]["http"].as_str().expect("its address");
    assert_eq!(http, gateway.address("http"));
    assert_eq!(next(&mut watcher).0, "connection.open");
}

#[test]
fn nothing_is_built_when_nobody_is_bound_for_it() {
    let gateway = Gateway::start();
    let mut c = watch(&gateway, &["queue.purged", "broker.*"]);
    c.declare("q");
    for n in 0..10 {
        c.publish("q", &json!(n));
        c.get("q").expect("a message");
    }
    assert!(gateway.metric("framegate_events_total") < 0.5);
    c.ok("QUEUE_PURGE", json!({"name": "q"}));
    assert!((gateway.metric("framegate_events_total") - 1.0).abs() < 0.5);
    let kept = http::request(&gateway.address("http"), "GET", "/admin/v1/events?after=0", &[], b"");
    let kept: Value = serde_json::from_str(&kept.text()).expect("JSON");
    let event = &kept["events"][0];
    assert_eq!((&event["type"], &event["subject"]), (&json!("queue.purged"), &json!("q")), "{kept}");
    assert_eq!(event["data"], json!({"queue": "q", "count": 0}));
}

#[test]
fn a_browser_sees_events_when_their_exchange_is_bound_to_the_topics() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    c.ok(
        "EXCHANGE_BIND",
        json!({"destinationExchange": "amq.topic", "exchangeName": EVENTS, "routingKey": "queue.*"}),
    );
    let mut ws = Ws::connect(&gateway.address("http"));
    ws.subscribe("s", "queue.*");
    c.declare("q");
    let message = ws.message();
    assert_eq!(message["event"]["type"], "queue.created", "{message}");
    assert_eq!(message["event"]["subject"], "q", "{message}");
    let refused = json!({"exchangeName": EVENTS, "routingKey": "queue.created", "body": 1});
    assert_eq!(c.fails("PUBLISH", refused), "RESOURCE_RESERVED");
}
