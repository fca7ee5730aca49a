//! Kinds of exchanges over MessageX: alternates, exchanges bound to each other, consistent hash, delay, internal, auto-delete.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use harness::Gateway;
use harness::messagex::MessageX;
use serde_json::{Value, json};

fn connect(gateway: &Gateway) -> MessageX {
    MessageX::connect(&gateway.address("messagex"))
}

fn exchange(c: &mut MessageX, name: &str, kind: &str, rest: Value) -> Value {
    let mut payload = json!({"name": name, "type": kind, "durable": true});
    payload.as_object_mut().expect("an object").extend(rest.as_object().expect("an object").clone());
    c.ok("EXCHANGE_DECLARE", payload)
}

fn bind(c: &mut MessageX, queue: &str, exchange: &str, key: &str) {
    c.ok("QUEUE_BIND", json!({"queueName": queue, "exchangeName": exchange, "routingKey": key}));
}

fn publish(c: &mut MessageX, exchange: &str, key: &str, body: &Value) -> Value {
    c.ok("PUBLISH", json!({"exchangeName": exchange, "routingKey": key, "body": body, "persistent": true}))
}

#[test]
fn exchanges_lead_to_exchanges_and_alternates_take_the_rest() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    for spelling in ["alternateExchange", "alternate-exchange", "x-alternate-exchange"] {
        let declared = exchange(&mut c, "front", "direct", json!({"arguments": {spelling: "rest"}}));
        assert_eq!(declared["arguments"], json!({"alternateExchange": "rest"}));
    }
    exchange(&mut c, "rest", "fanout", json!({"internal": true}));
    exchange(&mut c, "all", "fanout", json!({}));
    for queue in ["orders", "lost", "copy"] {
        c.declare(queue);
    }
    bind(&mut c, "orders", "front", "order");
    bind(&mut c, "lost", "rest", "");
    let binding = json!({"destinationExchange": "front", "exchangeName": "all", "routingKey": ""});
    assert_eq!(c.ok("EXCHANGE_BIND", binding.clone()), binding);
    // a circle ends where it began
    c.ok(
        "EXCHANGE_BIND",
        json!({"destinationExchange": "all", "exchangeName": "front", "routingKey": "order"}),
    );
    bind(&mut c, "copy", "all", "");
    let listed = c.ok("BINDING_LIST", json!({"exchangeName": "all"}));
    assert_eq!(listed["bindings"][0]["destinationExchange"], "front", "{listed}");
    assert_eq!(publish(&mut c, "all", "order", &json!(1))["queues"], 2);
    assert_eq!(publish(&mut c, "front", "unknown", &json!(2))["queues"], 1);
    assert_eq!(c.get("orders").expect("routed")["body"], 1);
    assert_eq!(c.get("lost").expect("by the alternate")["body"], 2);
    let inner = json!({"exchangeName": "rest", "routingKey": "", "body": 3});
    assert_eq!(c.fails("PUBLISH", inner), "RESOURCE_RESERVED");
    assert_eq!(c.ok("EXCHANGE_UNBIND", binding.clone()), binding);
    assert_eq!(publish(&mut c, "all", "order", &json!(4))["queues"], 1);
    let missing = json!({"destinationExchange": "none", "exchangeName": "all"});
    assert_eq!(c.fails("EXCHANGE_BIND", missing), "EXCHANGE_NOT_FOUND");
    let other = json!({"name": "front", "type": "direct", "durable": true, "arguments": {"alternateExchange": "all"}});
    let refused = c.call("EXCHANGE_DECLARE", other).expect_err("refused");
    assert_eq!(refused.code, "PRECONDITION_FAILED");
    assert_eq!(refused.message, "Exchange 'front' exists with alternate-exchange 'rest', not 'all'");
}

#[test]
fn a_consistent_hash_keeps_each_key_at_its_queue() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    exchange(&mut c, "by-key", "x-consistent-hash", json!({}));
    for spelling in ["hashHeader", "hash-header"] {
        exchange(&mut c, "by-header", "x-consistent-hash", json!({"arguments": {spelling: "customer"}}));
    }
    for (spelling, word) in [("hashProperty", "messageId"), ("hash-property", "message_id")] {
        exchange(&mut c, "by-id", "x-consistent-hash", json!({"arguments": {spelling: word}}));
    }
    for (queue, weight) in [("a", "1"), ("b", "2"), ("c", "3")] {
        c.declare(queue);
        for exchange in ["by-key", "by-header", "by-id"] {
            bind(&mut c, queue, exchange, weight);
        }
    }
    let odd = json!({"queueName": "a", "exchangeName": "by-key", "routingKey": "heavy"});
    assert_eq!(c.fails("QUEUE_BIND", odd), "VALIDATION_ERROR");
    let place = |c: &mut MessageX, payload: Value| {
        c.ok("PUBLISH", payload);
        let taken = ["a", "b", "c"].into_iter().filter(|queue| c.get(queue).is_some()).collect::<Vec<_>>();
        assert_eq!(taken.len(), 1, "one queue has it");
        taken[0].to_owned()
    };
    let by_key = |c: &mut MessageX| -> BTreeMap<u32, String> {
        let message = |n: u32| json!({"exchangeName": "by-key", "routingKey": n.to_string(), "body": n});
        (0..30).map(|n| (n, place(c, message(n)))).collect()
    };
    let before = by_key(&mut c);
    assert!(before.values().any(|queue| *queue != before[&0]));
    let header = |n: u32| json!({"exchangeName": "by-header", "routingKey": n.to_string(), "body": n, "headers": {"customer": 7}});
    let id = |n: u32| json!({"exchangeName": "by-id", "routingKey": n.to_string(), "body": n, "properties": {"messageId": "m"}});
    let (first, other) = (place(&mut c, header(0)), place(&mut c, id(0)));
    for n in 1..10 {
        assert_eq!(place(&mut c, header(n)), first);
        assert_eq!(place(&mut c, id(n)), other);
    }
    let gateway = gateway.restart();
    let mut c = connect(&gateway);
    assert_eq!(by_key(&mut c), before, "a restart moves no key");
    c.ok("QUEUE_UNBIND", json!({"queueName": "b", "exchangeName": "by-key", "routingKey": "2"}));
    for (n, queue) in by_key(&mut c) {
        assert!(queue == before[&n] || before[&n] == "b", "{n} went from {} to {queue}", before[&n]);
    }
}

#[test]
fn a_delayed_message_is_routed_when_its_time_has_come_also_after_a_restart() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    let missing = json!({"name": "later", "type": "x-delayed-message", "durable": true});
    assert_eq!(c.fails("EXCHANGE_DECLARE", missing), "VALIDATION_ERROR");
    for spelling in ["delayedType", "x-delayed-type"] {
        exchange(&mut c, "later", "x-delayed-message", json!({"arguments": {spelling: "topic"}}));
    }
    c.declare("q");
    let message = |key: &str, delay: u64| json!({"exchangeName": "later", "routingKey": key, "body": key, "delay": delay, "persistent": true, "mandatory": true});
    let begun = Instant::now();
    for (key, delay) in [("k.second", 900), ("k.first", 600)] {
        let held = c.ok("PUBLISH", message(key, delay));
        assert_eq!((&held["routed"], &held["queues"]), (&json!(true), &json!(0)), "{held}");
    }
    // bound only now, and found
    bind(&mut c, "q", "later", "k.*");
    let list = c.ok("QUEUE_LIST", json!({}));
    assert_eq!(list["queues"].as_array().expect("a list").len(), 1, "what is held is in no queue: {list}");
    let gateway = gateway.restart();
    let mut c = connect(&gateway);
    c.consume("q", 10);
    for (key, after) in [("k.first", 600), ("k.second", 900)] {
        let delivery = c.delivery();
        assert_eq!((&delivery["body"], &delivery["exchangeName"]), (&json!(key), &json!("later")));
        assert!(begun.elapsed() >= Duration::from_millis(after), "{key} is early");
        c.ack(&delivery);
    }
    assert_eq!(c.ok("PUBLISH", message("k.now", 0))["queues"], 1);
    assert_eq!(c.fails("PUBLISH", json!({"queueName": "q", "body": 1, "delay": -1})), "VALIDATION_ERROR");
}

#[test]
fn an_auto_delete_exchange_goes_with_its_last_binding() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    exchange(&mut c, "short", "fanout", json!({"autoDelete": true}));
    c.ok("EXCHANGE_DECLARE", json!({"name": "short", "passive": true}));
    c.ok("QUEUE_DECLARE", json!({"name": "mine", "exclusive": true}));
    bind(&mut c, "mine", "short", "");
    c.ok("EXCHANGE_DECLARE", json!({"name": "short", "passive": true}));
    c.ok("QUEUE_DELETE", json!({"name": "mine"}));
    assert_eq!(c.fails("EXCHANGE_DECLARE", json!({"name": "short", "passive": true})), "EXCHANGE_NOT_FOUND");
}
