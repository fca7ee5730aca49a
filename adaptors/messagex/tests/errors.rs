//! Every failure code of the table, provoked in a session; and that failures do not close the connection.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod harness;

use framegate_broker::{Access, BrokerError, Kind, Name, Reply};
use harness::{Peer, context, frame_of};
use serde_json::{Value, json};

/// What the broker answers to a command, and the code that comes of it.
fn from_broker(command: &str, payload: &Value, error: BrokerError) -> String {
    let mut peer = Peer::logged_in();
    peer.send(command, "r", payload.clone());
    let (id, _) = peer.requests().pop().unwrap();
    peer.reply(id, Err(error));
    let code = peer.failure();
    // The request id is free again, the connection is open.
    peer.send("PING", "r", json!({}));
    assert_eq!(peer.success()["pong"], true);
    code
}

#[test]
fn refusals_of_the_broker() {
    let name = || Name::from_static("x");
    let vhost = || Name::from_static("/");
    let missing = |kind| BrokerError::NotFound { kind, name: name(), vhost: vhost() };
    let queue = json!({"name": "x"});
    let bind = json!({"queueName": "x", "exchangeName": "e"});
    let consume = json!({"queueName": "x"});
    let publish = json!({"exchangeName": "e", "routingKey": "k", "body": 1});
    let inequivalent = BrokerError::Inequivalent {
        kind: Kind::Queue,
        name: name(),
        argument: "durable".to_owned(),
        current: "true".to_owned(),
        given: "false".to_owned(),
    };
    let forbidden = BrokerError::Forbidden {
        kind: Kind::Queue,
        name: name(),
        vhost: vhost(),
        user: name(),
        access: Access::Read,
    };
    let locked = || BrokerError::Locked { kind: Kind::Queue, name: name(), reason: "exclusive" };
    for (command, payload, error, code) in [
        ("QUEUE_DECLARE", &json!({"name": "x", "passive": true}), missing(Kind::Queue), "QUEUE_NOT_FOUND"),
        ("QUEUE_DECLARE", &queue, inequivalent.clone(), "PRECONDITION_FAILED"),
        ("QUEUE_DECLARE", &queue, locked(), "RESOURCE_LOCKED"),
        (
            "QUEUE_DECLARE",
            &json!({"name": "amq.x"}),
            BrokerError::Reserved { kind: Kind::Queue, name: name() },
            "RESOURCE_RESERVED",
        ),
        ("QUEUE_DELETE", &queue, missing(Kind::Queue), "QUEUE_NOT_FOUND"),
        ("QUEUE_DELETE", &queue, BrokerError::InUse { kind: Kind::Queue, name: name() }, "QUEUE_IN_USE"),
        ("QUEUE_DELETE", &queue, BrokerError::NotEmpty { name: name(), messages: 1 }, "QUEUE_NOT_EMPTY"),
        ("QUEUE_PURGE", &queue, missing(Kind::Queue), "QUEUE_NOT_FOUND"),
        ("QUEUE_GET", &queue, missing(Kind::Queue), "QUEUE_NOT_FOUND"),
        ("QUEUE_BIND", &bind, missing(Kind::Exchange), "EXCHANGE_NOT_FOUND"),
        ("QUEUE_UNBIND", &bind, missing(Kind::Queue), "QUEUE_NOT_FOUND"),
        ("EXCHANGE_DECLARE", &json!({"name": "x", "type": "direct"}), inequivalent, "PRECONDITION_FAILED"),
        (
            "EXCHANGE_DECLARE",
            &json!({"name": "amq.x", "type": "direct"}),
            BrokerError::Reserved { kind: Kind::Exchange, name: name() },
            "RESOURCE_RESERVED",
        ),
        ("EXCHANGE_DELETE", &queue, missing(Kind::Exchange), "EXCHANGE_NOT_FOUND"),
        (
            "EXCHANGE_DELETE",
            &queue,
            BrokerError::InUse { kind: Kind::Exchange, name: name() },
            "EXCHANGE_IN_USE",
        ),
        ("PUBLISH", &publish, missing(Kind::Exchange), "EXCHANGE_NOT_FOUND"),
        ("PUBLISH", &publish, BrokerError::TooLarge { bytes: 2, max: 1 }, "MESSAGE_TOO_LARGE"),
        ("PUBLISH", &publish, BrokerError::QueueFull { name: name() }, "QUEUE_FULL"),
        ("PUBLISH", &publish, BrokerError::Stopping, "INTERNAL_ERROR"),
        ("CONSUME", &consume, missing(Kind::Queue), "QUEUE_NOT_FOUND"),
        ("CONSUME", &consume, missing(Kind::Topic), "QUEUE_NOT_FOUND"),
        ("CONSUME", &consume, locked(), "RESOURCE_LOCKED"),
        ("CONSUME", &consume, forbidden, "FORBIDDEN"),
        ("CONSUME", &consume, BrokerError::Limit { what: "consumers", max: 1 }, "RATE_LIMITED"),
        ("GET", &consume, missing(Kind::Queue), "QUEUE_NOT_FOUND"),
        ("GET", &consume, BrokerError::NotSupported { what: "get" }, "NOT_IMPLEMENTED"),
    ] {
        assert_eq!(from_broker(command, payload, error), code, "{command}");
    }
}

#[test]
fn refusals_of_the_session() {
    for (command, payload, code, field) in [
        ("QUEUE_DECLARE", json!({}), "VALIDATION_ERROR", "'name'"),
        ("QUEUE_DECLARE", json!({"name": 1}), "VALIDATION_ERROR", "'name'"),
        ("QUEUE_DECLARE", json!({"name": "q", "durable": "yes"}), "VALIDATION_ERROR", "'durable'"),
        ("QUEUE_DECLARE", json!({"name": "q", "arguments": []}), "VALIDATION_ERROR", "'arguments'"),
        ("QUEUE_DECLARE", json!({"name": "mx.q"}), "RESOURCE_RESERVED", "'mx.q'"),
        (
            "QUEUE_DECLARE",
            json!({"name": "q", "arguments": {"deadLetterRoutingKey": "k"}}),
            "PRECONDITION_FAILED",
            "deadLetterExchange",
        ),
        (
            "QUEUE_DECLARE",
            json!({"name": "q", "arguments": {"deadLetterExchange": 1}}),
            "VALIDATION_ERROR",
            "'arguments.deadLetterExchange'",
        ),
        ("EXCHANGE_DECLARE", json!({"name": "x"}), "VALIDATION_ERROR", "'type'"),
        ("EXCHANGE_DECLARE", json!({"name": "x", "type": "x-delayed"}), "INVALID_EXCHANGE_TYPE", "x-delayed"),
        (
            "EXCHANGE_DECLARE",
            json!({"name": "x", "type": "x-delayed-message"}),
            "VALIDATION_ERROR",
            "X-delayed-type '' is missing",
        ),
        (
            "EXCHANGE_DECLARE",
            json!({"name": "x", "type": "x-delayed-message", "arguments": {"delayedType": "ring"}}),
            "INVALID_EXCHANGE_TYPE",
            "'ring'",
        ),
        ("EXCHANGE_DECLARE", json!({"name": "mx.x", "type": "direct"}), "RESOURCE_RESERVED", "'mx.x'"),
        (
            "EXCHANGE_DECLARE",
            json!({"name": "x", "type": "direct", "arguments": {"x-a": 1}}),
            "NOT_IMPLEMENTED",
            "'x-a'",
        ),
        ("PUBLISH", json!({"routingKey": "k"}), "VALIDATION_ERROR", "'body'"),
        ("PUBLISH", json!({"body": 1}), "VALIDATION_ERROR", "'routingKey'"),
        (
            "PUBLISH",
            json!({"queueName": "q", "exchangeName": "x", "body": 1}),
            "VALIDATION_ERROR",
            "'queueName'",
        ),
        ("PUBLISH", json!({"queueName": "q", "body": 1, "encoding": "base64"}), "VALIDATION_ERROR", "'body'"),
        (
            "PUBLISH",
            json!({"queueName": "q", "body": "*", "encoding": "base64"}),
            "VALIDATION_ERROR",
            "'body'",
        ),
        (
            "PUBLISH",
            json!({"queueName": "q", "body": "a", "encoding": "hex"}),
            "VALIDATION_ERROR",
            "'encoding'",
        ),
        (
            "PUBLISH",
            json!({"queueName": "q", "body": 1, "properties": {"priority": 999}}),
            "VALIDATION_ERROR",
            "'properties.priority'",
        ),
        ("PUBLISH", json!({"queueName": "q", "body": 1, "headers": []}), "VALIDATION_ERROR", "'headers'"),
        ("CANCEL", json!({"consumerTag": "none"}), "CONSUMER_NOT_FOUND", "'none'"),
        ("ACK", json!({}), "VALIDATION_ERROR", "'deliveryTag'"),
        ("ACK", json!({"deliveryTag": "zzz"}), "UNKNOWN_DELIVERY_TAG", "'zzz'"),
        ("NACK", json!({"deliveryTags": ["zzz"]}), "UNKNOWN_DELIVERY_TAG", "'zzz'"),
        ("REJECT", json!({"deliveryTag": "zzz"}), "UNKNOWN_DELIVERY_TAG", "'zzz'"),
        ("QOS", json!({"prefetch": 65536}), "VALIDATION_ERROR", "'prefetch'"),
        ("AUTH", json!({"username": "u", "password": "p"}), "PRECONDITION_FAILED", "logged in"),
        ("NOPE", json!({}), "UNKNOWN_COMMAND", "'NOPE'"),
    ] {
        let mut peer = Peer::logged_in();
        peer.send(command, "r", payload.clone());
        let message = peer.one();
        assert_eq!(message["error"]["code"], code, "{command} {payload}");
        assert_eq!(message["requestId"], "r");
        let text = message["error"]["message"].as_str().unwrap();
        assert!(text.contains(field), "{text}");
        assert!(peer.requests().is_empty());
        assert!(peer.ended.is_none());
    }
}

#[test]
fn arguments_that_the_broker_cannot_do_are_named() {
    for (argument, value) in
        [("queueType", json!("stream")), ("x-max-age", json!("1h")), ("unheardOf", json!(1))]
    {
        let mut peer = Peer::logged_in();
        peer.send("QUEUE_DECLARE", "r", json!({"name": "q", "arguments": {argument: value}}));
        let message = peer.one();
        assert_eq!(message["error"]["code"], "NOT_IMPLEMENTED", "{argument}");
        assert!(message["error"]["message"].as_str().unwrap().contains(&format!("'{argument}'")));
    }
    let mut peer = Peer::logged_in();
    let hints =
        json!({"x-queue-mode": "lazy", "queueVersion": 2, "queueType": "classic", "deliver": "durable"});
    peer.send("QUEUE_DECLARE", "r", json!({"name": "q", "arguments": hints}));
    assert_eq!(peer.requests().len(), 1);
}

#[test]
fn request_id_in_progress_is_refused_and_free_after_its_response() {
    let mut peer = Peer::logged_in();
    peer.send("QUEUE_LIST", "r", json!({}));
    peer.send("PING", "r", json!({}));
    assert_eq!(peer.failure(), "DUPLICATE_REQUEST");
    let (id, _) = peer.request();
    peer.reply(id, Ok(Reply::Queues(vec![])));
    peer.received();
    peer.send("PING", "r", json!({}));
    assert_eq!(peer.success()["pong"], true);
}

#[test]
fn consumer_tag_in_use_is_refused() {
    let mut peer = Peer::logged_in();
    peer.consumer("ct", false);
    peer.send("CONSUME", "r", json!({"queueName": "other", "consumerTag": "ct"}));
    assert_eq!(peer.failure(), "CONSUMER_EXISTS");
    // A refused CONSUME leaves its tag free.
    peer.send("CONSUME", "r", json!({"queueName": "orders", "consumerTag": "new"}));
    let (id, _) = peer.request();
    peer.reply(id, Err(BrokerError::ConsumerExists));
    assert_eq!(peer.failure(), "CONSUMER_EXISTS");
    peer.consumer("new", false);
}

#[test]
fn consumers_of_a_connection_are_bounded() {
    let mut peer = Peer::logged_in();
    for number in 0..1024 {
        peer.consumer(&number.to_string(), false);
    }
    peer.send("CONSUME", "r", json!({"queueName": "orders"}));
    assert_eq!(peer.failure(), "RATE_LIMITED");
}

#[test]
fn tag_is_acked_once_and_a_list_with_an_unknown_tag_settles_nothing() {
    let mut peer = Peer::logged_in();
    let consumer = peer.consumer("ct", false);
    let tag = peer.deliver(consumer, 1);
    peer.send("ACK", "r", json!({"deliveryTags": [tag, "zzz"]}));
    assert_eq!(peer.failure(), "UNKNOWN_DELIVERY_TAG");
    peer.send("ACK", "r", json!({"deliveryTag": tag}));
    let (id, _) = peer.request();
    peer.reply(id, Ok(Reply::Settled { count: 1 }));
    assert_eq!(peer.success()["acked"], 1);
    peer.send("ACK", "r", json!({"deliveryTag": tag}));
    assert_eq!(peer.failure(), "UNKNOWN_DELIVERY_TAG");
}

#[test]
fn delivery_that_the_broker_has_no_more_is_an_unknown_tag() {
    let mut peer = Peer::logged_in();
    let consumer = peer.consumer("ct", false);
    let tag = peer.deliver(consumer, 1);
    peer.send("ACK", "r", json!({"deliveryTag": tag}));
    let (id, _) = peer.request();
    peer.reply(id, Err(BrokerError::UnknownDelivery));
    assert_eq!(peer.failure(), "UNKNOWN_DELIVERY_TAG");
}

#[test]
fn publish_whose_delivery_would_not_fit_is_too_large() {
    let mut peer = Peer::logged_in();
    peer.send("PUBLISH", "r", json!({"queueName": "q", "body": "x".repeat(1_048_576 - 4096 - 200)}));
    assert_eq!(peer.requests().len(), 1);
    peer.send("PUBLISH", "r2", json!({"queueName": "q", "body": "x".repeat(1_048_576 - 4096)}));
    assert_eq!(peer.failure(), "MESSAGE_TOO_LARGE");
}

#[test]
fn ten_payloads_in_a_row_may_be_no_json_and_the_eleventh_closes() {
    let mut peer = Peer::logged_in();
    for _ in 0..3 {
        for _ in 0..10 {
            peer.feed(&frame_of(b"{"));
            assert_eq!(peer.failure(), "INVALID_JSON");
        }
        peer.send("PING", "r", json!({}));
        assert_eq!(peer.success()["pong"], true);
    }
    for _ in 0..10 {
        peer.feed(&frame_of(b"\"\xff\""));
    }
    assert!(peer.ended.is_none());
    peer.received();
    peer.feed(&frame_of(b"{"));
    assert_eq!(peer.failure(), "INVALID_JSON");
    assert!(peer.ended.is_some());
}

#[test]
fn unauthorized_and_auth_failed() {
    let mut peer = Peer::with(&context(false, Value::Null));
    peer.send("QUEUE_LIST", "r", json!({}));
    assert_eq!(peer.failure(), "UNAUTHORIZED");
    peer.send("AUTH", "a", json!({"username": "u", "password": "p"}));
    peer.login(Err(framegate_adaptor_api::LoginError::Refused));
    assert_eq!(peer.failure(), "AUTH_FAILED");
    assert!(peer.ended.is_none());
}
