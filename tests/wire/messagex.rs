//! Every command, alias, event and error code of MessageX over a real socket.

use std::io::{Read, Write};

use harness::messagex::MessageX;
use harness::{Gateway, Options};
use serde_json::{Value, json};

fn connect(gateway: &Gateway) -> MessageX {
    MessageX::connect(&gateway.address("messagex"))
}

#[test]
fn session_commands() {
    let gateway = Gateway::start();
    for name in ["AUTH", "AUTHENTICATE", "CONNECT"] {
        let mut c = connect(&gateway);
        let welcome = c.ok(name, json!({"username": "guest", "password": "guest", "clientId": "t"}));
        assert_eq!((&welcome["protocolVersion"], &welcome["maxFrameSize"]), (&json!(1), &json!(1_048_576)));
        assert!(welcome["connectionId"].is_string() && welcome["serverName"].is_string(), "{welcome}");
    }
    let mut c = connect(&gateway);
    let pong = c.ok("PING", json!({}));
    assert_eq!(pong["pong"], true);
    assert!(pong["time"].as_u64().expect("ms") > 1_600_000_000_000);
    for name in ["STATS", "STATUS"] {
        let stats = c.ok(name, json!({}));
        for key in ["connections", "exchanges", "queues", "consumers", "messages"] {
            assert!(stats[key].is_u64(), "{key}: {stats}");
        }
    }
    for name in ["DISCONNECT", "CLOSE"] {
        let mut c = connect(&gateway);
        assert_eq!(c.ok(name, json!({})), json!({}));
        assert_eq!(c.socket().read(&mut [0; 8]).expect("closed"), 0);
    }
}

#[test]
fn queue_commands() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    let declared = c.ok("QUEUE_DECLARE", json!({"name": "q", "durable": true}));
    let expected = json!({"name": "q", "durable": true, "exclusive": false, "autoDelete": false,
        "messageCount": 0, "consumerCount": 0});
    assert_eq!(declared, expected);
    c.ok("QUEUE_DECLARE", json!({"name": "q", "passive": true}));
    assert_eq!(c.fails("QUEUE_DECLARE", json!({"name": "none", "passive": true})), "QUEUE_NOT_FOUND");
    assert_eq!(c.fails("QUEUE_DECLARE", json!({"name": "q", "durable": false})), "PRECONDITION_FAILED");
    assert_eq!(c.fails("QUEUE_DECLARE", json!({"name": "amq.q", "durable": true})), "RESOURCE_RESERVED");
    let generated = c.ok("QUEUE_DECLARE", json!({"name": "", "exclusive": true}));
    assert!(generated["name"].as_str().expect("name").starts_with("mx.gen-"));
    let mut other = connect(&gateway);
    let passive = json!({"name": generated["name"], "passive": true});
    assert_eq!(other.fails("QUEUE_DECLARE", passive), "RESOURCE_LOCKED");
    c.publish("q", &json!(1));
    for name in ["QUEUE_GET", "QUEUE_INFO"] {
        let info = c.ok(name, json!({"name": "q"}));
        assert_eq!((&info["messageCount"], &info["unackedCount"]), (&json!(1), &json!(0)), "{info}");
    }
    let list = c.ok("QUEUE_LIST", json!({}));
    assert!(list["queues"].as_array().expect("list").iter().any(|q| q["name"] == "q"), "{list}");
    assert_eq!(c.fails("QUEUE_DELETE", json!({"name": "q", "ifEmpty": true})), "QUEUE_NOT_EMPTY");
    assert_eq!(c.ok("QUEUE_PURGE", json!({"name": "q"})), json!({"name": "q", "messageCount": 1}));
    assert_eq!(c.fails("QUEUE_PURGE", json!({"name": "none"})), "QUEUE_NOT_FOUND");
    let tag = c.consume("q", 1);
    assert_eq!(c.fails("QUEUE_DELETE", json!({"name": "q", "ifUnused": true})), "QUEUE_IN_USE");
    c.ok("CANCEL", json!({"consumerTag": tag}));
    assert_eq!(c.ok("QUEUE_DELETE", json!({"name": "q"})), json!({"name": "q", "messageCount": 0}));
    assert_eq!(c.fails("QUEUE_DELETE", json!({"name": "q"})), "QUEUE_NOT_FOUND");
}

/// Declares `dead`, and a queue with these arguments whose dead letters go there.
fn declare_with(c: &mut MessageX, mut arguments: Value) {
    c.declare("dead");
    arguments["deadLetterExchange"] = json!("");
    arguments["deadLetterRoutingKey"] = json!("dead");
    c.ok("QUEUE_DECLARE", json!({"name": "limited", "durable": true, "arguments": arguments}));
    let info = c.ok("QUEUE_GET", json!({"name": "limited"}));
    assert_eq!(info["arguments"], arguments, "they are shown as they were given");
    let plain = json!({"name": "limited", "durable": true});
    assert_eq!(c.fails("QUEUE_DECLARE", plain), "PRECONDITION_FAILED");
}

/// What stands in `dead`, with the reason of its death.
fn corpse(c: &mut MessageX) -> (Value, Value) {
    let message = c.get("dead").expect("dead");
    (message["body"].clone(), message["headers"]["x-death"][0]["reason"].clone())
}

#[test]
fn a_queue_bounds_its_messages_by_length_and_bytes() {
    for (arguments, kept) in [(json!({"maxLength": 2}), 2), (json!({"maxLengthBytes": 3}), 3)] {
        let gateway = Gateway::start();
        let mut c = connect(&gateway);
        declare_with(&mut c, arguments);
        for n in 0..5 {
            c.publish("limited", &json!(n));
        }
        assert_eq!(c.ok("QUEUE_GET", json!({"name": "limited"}))["messageCount"], kept);
        assert_eq!(corpse(&mut c), (json!(0), json!("maxlen")));
    }
}

#[test]
fn a_queue_that_is_full_refuses_a_publish_when_it_says_so() {
    for (overflow, dead) in [("reject-publish", 0), ("reject-publish-dlx", 1)] {
        let gateway = Gateway::start();
        let mut c = connect(&gateway);
        declare_with(&mut c, json!({"maxLength": 1, "overflow": overflow}));
        c.publish("limited", &json!(1));
        assert_eq!(c.fails("PUBLISH", json!({"queueName": "limited", "body": 2})), "QUEUE_FULL");
        assert_eq!(c.ok("QUEUE_GET", json!({"name": "limited"}))["messageCount"], 1);
        assert_eq!(c.ok("QUEUE_GET", json!({"name": "dead"}))["messageCount"], dead, "{overflow}");
    }
}

#[test]
fn messages_expire_by_their_queue_and_unused_queues_go() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    declare_with(&mut c, json!({"messageTtl": 0, "expires": 60000}));
    c.publish("limited", &json!("late"));
    assert_eq!(corpse(&mut c), (json!("late"), json!("expired")));
    c.ok("QUEUE_DECLARE", json!({"name": "short", "durable": true, "arguments": {"expires": 1}}));
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while c.call("QUEUE_GET", json!({"name": "short"})).is_ok() {
        assert!(std::time::Instant::now() < until, "an unused queue stays");
    }
}

#[test]
fn a_queue_with_priorities_gives_the_highest_first() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    declare_with(&mut c, json!({"maxPriority": 9}));
    for priority in [1, 5, 9, 5] {
        c.ok(
            "PUBLISH",
            json!({"queueName": "limited", "body": priority, "properties": {"priority": priority}}),
        );
    }
    let bodies: Vec<Value> = (0..4).map(|_| c.get("limited").expect("a message")["body"].clone()).collect();
    assert_eq!(bodies, [9, 5, 5, 1]);
}

#[test]
fn a_single_active_consumer_gets_everything_until_it_goes() {
    let gateway = Gateway::start();
    let (mut a, mut b) = (connect(&gateway), connect(&gateway));
    declare_with(&mut a, json!({"singleActiveConsumer": true}));
    a.consume("limited", 10);
    b.consume("limited", 10);
    for n in 0..3 {
        b.publish("limited", &json!(n));
        assert_eq!(a.delivery()["body"], n);
    }
    drop(a);
    let again = b.delivery();
    assert_eq!((&again["body"], &again["redelivered"]), (&json!(0), &json!(true)));
}

#[test]
fn a_message_dies_of_the_delivery_limit() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    declare_with(&mut c, json!({"deliveryLimit": 1, "queueType": "quorum"}));
    c.publish("limited", &json!("poison"));
    for count in 1..=2 {
        let message = c.ok("GET", json!({"queueName": "limited"}))["message"].clone();
        assert_eq!(message["deliveryCount"], count);
        c.ok("NACK", json!({"deliveryTag": message["deliveryTag"]}));
    }
    assert!(c.get("limited").is_none());
    assert_eq!(corpse(&mut c), (json!("poison"), json!("delivery_limit")));
    let transient = json!({"name": "t", "arguments": {"queueType": "quorum"}});
    assert_eq!(c.fails("QUEUE_DECLARE", transient), "PRECONDITION_FAILED");
}

#[test]
fn arguments_without_effect_are_taken_and_unknown_ones_are_named() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    let hints = json!({"queueMode": "lazy", "queueVersion": 2, "deliver": "durable"});
    c.ok("QUEUE_DECLARE", json!({"name": "q", "durable": true, "arguments": hints}));
    let declare = json!({"name": "later", "durable": true, "arguments": {"maxAge": "1h"}});
    let failure = c.call("QUEUE_DECLARE", declare).expect_err("not known");
    assert_eq!(failure.code, "NOT_IMPLEMENTED");
    assert!(failure.message.contains("maxAge"), "{failure:?}");
}

#[test]
fn exchange_and_binding_commands() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    let declared = c.ok("EXCHANGE_DECLARE", json!({"name": "x", "type": "topic", "durable": true}));
    assert_eq!(
        declared,
        json!({"name": "x", "type": "topic", "durable": true, "autoDelete": false, "internal": false})
    );
    assert_eq!(c.fails("EXCHANGE_DECLARE", json!({"name": "x", "type": "direct"})), "PRECONDITION_FAILED");
    assert_eq!(c.fails("EXCHANGE_DECLARE", json!({"name": "y", "type": "magic"})), "INVALID_EXCHANGE_TYPE");
    assert_eq!(c.fails("EXCHANGE_DECLARE", json!({"name": "mx.y", "type": "direct"})), "RESOURCE_RESERVED");
    let list = c.ok("EXCHANGE_LIST", json!({}));
    for name in ["x", "amq.direct", "amq.fanout", "amq.topic", "amq.headers"] {
        assert!(
            list["exchanges"].as_array().expect("list").iter().any(|e| e["name"] == name),
            "{name}: {list}"
        );
    }
    c.declare("q");
    let binding = json!({"queueName": "q", "exchangeName": "x", "routingKey": "a.*"});
    for (bind, unbind) in [("QUEUE_BIND", "QUEUE_UNBIND"), ("BIND", "UNBIND")] {
        assert_eq!(c.ok(bind, binding.clone()), binding);
        let listed = c.ok("BINDING_LIST", json!({"queueName": "q", "exchangeName": "x"}));
        let rows = listed["bindings"].as_array().expect("list");
        assert_eq!((rows.len(), &rows[0]["routingKey"]), (1, &json!("a.*")), "{listed}");
        assert_eq!(c.fails("EXCHANGE_DELETE", json!({"name": "x", "ifUnused": true})), "EXCHANGE_IN_USE");
        assert_eq!(c.ok(unbind, binding.clone()), binding);
        c.ok(unbind, binding.clone());
    }
    let missing =
        |queue: &str, exchange: &str| json!({"queueName": queue, "exchangeName": exchange, "routingKey": ""});
    assert_eq!(c.fails("QUEUE_BIND", missing("none", "x")), "QUEUE_NOT_FOUND");
    assert_eq!(c.fails("QUEUE_BIND", missing("q", "none")), "EXCHANGE_NOT_FOUND");
    assert_eq!(c.ok("EXCHANGE_DELETE", json!({"name": "x"})), json!({"name": "x"}));
    assert_eq!(c.fails("EXCHANGE_DELETE", json!({"name": "x"})), "EXCHANGE_NOT_FOUND");
}

#[test]
fn publish_commands() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    c.declare("q");
    for name in ["PUBLISH", "MESSAGE_PUBLISH"] {
        let reply = c.ok(name, json!({"queueName": "q", "body": {"a": 1}, "persistent": true}));
        assert_eq!((&reply["routed"], &reply["queues"]), (&json!(true), &json!(1)), "{reply}");
        assert!(reply["messageId"].as_str().expect("made").len() >= 32);
    }
    let publish = |exchange: &str, mandatory: bool| json!({"exchangeName": exchange, "routingKey": "nobody", "body": 1, "mandatory": mandatory});
    assert_eq!(c.fails("PUBLISH", publish("none", false)), "EXCHANGE_NOT_FOUND");
    assert_eq!(c.fails("PUBLISH", publish("amq.direct", true)), "UNROUTABLE");
    assert_eq!(c.ok("PUBLISH", publish("amq.direct", false))["routed"], false);
    let almost = "x".repeat(1_048_576 - 200);
    assert_eq!(c.fails("PUBLISH", json!({"queueName": "q", "body": almost})), "MESSAGE_TOO_LARGE");
}

#[test]
fn a_returned_message_is_an_event_when_the_client_asked_for_it() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    c.ok("AUTH", json!({"username": "guest", "password": "guest", "returnEvents": true}));
    let publish = json!({"exchangeName": "amq.direct", "routingKey": "k", "body": 1, "mandatory": true});
    assert_eq!(c.fails("PUBLISH", publish), "UNROUTABLE");
    let event = c.event();
    assert_eq!(event["event"], "MESSAGE_RETURNED");
    assert_eq!(
        (&event["payload"]["exchangeName"], &event["payload"]["routingKey"]),
        (&json!("amq.direct"), &json!("k"))
    );
}

#[test]
fn consume_and_settle_commands() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    c.declare("q");
    for n in 0..9 {
        c.publish("q", &json!(n));
    }
    let consume = json!({"queueName": "q", "consumerTag": "t", "prefetch": 9});
    assert_eq!(c.ok("CONSUME", consume.clone()), json!({"consumerTag": "t", "queueName": "q"}));
    assert_eq!(c.fails("SUBSCRIBE", consume.clone()), "CONSUMER_EXISTS");
    assert_eq!(c.fails("QUEUE_CONSUME", json!({"queueName": "none"})), "QUEUE_NOT_FOUND");
    let d: Vec<Value> = (0..9).map(|_| c.delivery()).collect();
    let first = &d[0];
    for key in
        ["queueName", "deliveryTag", "consumerTag", "messageId", "exchangeName", "routingKey", "timestamp"]
    {
        assert!(!first[key].is_null(), "{key}: {first}");
    }
    assert_eq!((&first["redelivered"], &first["deliveryCount"]), (&json!(false), &json!(1)));
    let tag = |n: usize| d[n]["deliveryTag"].clone();
    assert_eq!(c.ok("ACK", json!({"deliveryTag": tag(0)})), json!({"acked": 1}));
    assert_eq!(c.ok("MESSAGE_ACK", json!({"deliveryTags": [tag(1), tag(2)]})), json!({"acked": 2}));
    assert_eq!(c.ok("ACK", json!({"deliveryTag": tag(4), "multiple": true})), json!({"acked": 2}));
    assert_eq!(c.ok("REJECT", json!({"deliveryTag": tag(5)})), json!({"rejected": 1}));
    assert_eq!(c.ok("MESSAGE_REJECT", json!({"deliveryTag": tag(6)})), json!({"rejected": 1}));
    assert_eq!(c.ok("NACK", json!({"deliveryTag": tag(7), "requeue": false})), json!({"nacked": 1}));
    assert_eq!(c.ok("MESSAGE_NACK", json!({"deliveryTag": tag(8)})), json!({"nacked": 1}));
    let again = c.delivery();
    assert_eq!((&again["body"], &again["redelivered"]), (&json!(8), &json!(true)));
    for command in ["ACK", "NACK", "REJECT"] {
        assert_eq!(c.fails(command, json!({"deliveryTag": tag(0)})), "UNKNOWN_DELIVERY_TAG");
    }
    assert_eq!(c.ok("RECOVER", json!({})), json!({"requeued": 1}));
    let last = c.delivery();
    c.ack(&last);
    for name in ["CANCEL", "UNSUBSCRIBE"] {
        c.ok(name, json!({"consumerTag": "t"}));
        assert_eq!(c.fails(name, json!({"consumerTag": "t"})), "CONSUMER_NOT_FOUND");
        c.ok("CONSUME", consume.clone());
    }
    for name in ["GET", "MESSAGE_GET"] {
        assert_eq!(c.ok(name, json!({"queueName": "q"}))["message"], Value::Null);
        assert_eq!(c.fails(name, json!({"queueName": "none"})), "QUEUE_NOT_FOUND");
    }
}

#[test]
fn gets_of_several_queues_are_held_side_by_side() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    for queue in ["a", "b"] {
        c.declare(queue);
        c.publish(queue, &json!(queue));
    }
    let a = c.ok("GET", json!({"queueName": "a"}))["message"].clone();
    let b = c.ok("GET", json!({"queueName": "b"}))["message"].clone();
    assert_eq!((&a["body"], &b["body"]), (&json!("a"), &json!("b")));
    c.ack(&b);
    c.ok("NACK", json!({"deliveryTag": a["deliveryTag"]}));
    assert_eq!(c.get("a").expect("back")["redelivered"], true);
    assert!(c.get("b").is_none());
}

#[test]
fn an_exclusive_consumer_locks_the_queue() {
    let gateway = Gateway::start();
    let (mut a, mut b) = (connect(&gateway), connect(&gateway));
    a.declare("q");
    a.ok("CONSUME", json!({"queueName": "q", "exclusive": true}));
    assert_eq!(b.fails("CONSUME", json!({"queueName": "q"})), "RESOURCE_LOCKED");
}

#[test]
fn prefetch_bounds_what_is_unsettled() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    c.declare("q");
    for n in 0..5 {
        c.publish("q", &json!(n));
    }
    for name in ["QOS", "SET_PREFETCH"] {
        assert_eq!(c.ok(name, json!({"prefetch": 2})), json!({"prefetch": 2}));
    }
    c.ok("CONSUME", json!({"queueName": "q"}));
    let first = c.delivery();
    c.delivery();
    let info = c.ok("QUEUE_GET", json!({"name": "q"}));
    assert_eq!((&info["messageCount"], &info["unackedCount"]), (&json!(3), &json!(2)));
    c.ack(&first);
    assert_eq!(c.delivery()["body"], 2);
}

#[test]
fn a_deleted_queue_cancels_its_consumers() {
    let gateway = Gateway::start();
    let (mut a, mut b) = (connect(&gateway), connect(&gateway));
    a.declare("q");
    let tag = b.consume("q", 1);
    a.ok("QUEUE_DELETE", json!({"name": "q"}));
    let event = b.event();
    assert_eq!(event["event"], "CONSUMER_CANCELLED");
    assert_eq!(event["payload"], json!({"consumerTag": tag, "queueName": "q", "reason": "QUEUE_DELETED"}));
}

#[test]
fn envelope_errors_keep_the_connection() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    let cases = [
        (&b"{"[..], "INVALID_JSON"),
        (b"\xff\xfe", "INVALID_JSON"),
        (b"[]", "INVALID_MESSAGE"),
        (br#"{"version":2}"#, "UNSUPPORTED_VERSION"),
        (br#"{"version":"1"}"#, "UNSUPPORTED_VERSION"),
        (br#"{"version":1,"type":"EVENT","requestId":"x"}"#, "INVALID_MESSAGE"),
        (br#"{"version":1,"type":"COMMAND","command":"PING"}"#, "INVALID_MESSAGE"),
        (br#"{"version":1,"type":"COMMAND","command":"NO","requestId":"x"}"#, "UNKNOWN_COMMAND"),
        (
            br#"{"version":1,"type":"COMMAND","command":"QUEUE_GET","requestId":"x","payload":{"name":7}}"#,
            "VALIDATION_ERROR",
        ),
    ];
    for (payload, code) in cases {
        c.write_frame(payload).expect("sent");
        let answer = c.read_message().expect("answer");
        let expected = if payload == b"[]" { vec!["INVALID_JSON", "INVALID_MESSAGE"] } else { vec![code] };
        let got = answer["error"]["code"].as_str().expect("code");
        assert!(expected.contains(&got), "{} gave {answer}", String::from_utf8_lossy(payload));
        assert!(answer.get("payload").is_none(), "{answer}");
    }
    c.ok("PING", json!({}));
}

#[test]
fn a_request_id_in_progress_may_not_be_used_again() {
    let dir = tempfile::tempdir().expect("folder");
    let switch = dir.path().join("blocked");
    let faults = format!("block-sync-while={}", switch.display());
    let gateway = Gateway::start_with(Options::default().env("FRAMEGATE_FAULTS", &faults));
    let mut c = connect(&gateway);
    c.declare("q");
    std::fs::write(&switch, "").expect("switch");
    let publish = json!({"version": 1, "type": "COMMAND", "command": "PUBLISH", "requestId": "same",
        "payload": {"routingKey": "q", "body": 1, "persistent": true}});
    c.write_frame(publish.to_string().as_bytes()).expect("sent");
    c.write_frame(publish.to_string().as_bytes()).expect("sent");
    let answer = c.read_message().expect("answer");
    assert_eq!(answer["error"]["code"], "DUPLICATE_REQUEST", "{answer}");
    std::fs::remove_file(&switch).expect("switch");
    assert_eq!(c.read_message().expect("answer")["success"], true);
}

#[test]
fn framing_errors_answer_once_and_close() {
    let gateway = Gateway::start();
    let cases =
        [([0, 0, 0, 0], "FRAME_EMPTY"), ([0, 0x10, 0, 1], "FRAME_TOO_LARGE"), ([0xff; 4], "FRAME_TOO_LARGE")];
    for (length, code) in cases {
        let mut c = connect(&gateway);
        c.socket().write_all(&length).expect("sent");
        let answer = c.read_message().expect("answer");
        assert_eq!((&answer["error"]["code"], &answer["requestId"]), (&json!(code), &Value::Null));
        assert_eq!(c.socket().read(&mut [0; 8]).expect("closed"), 0);
    }
}

#[test]
fn a_frame_of_exactly_one_mebibyte_is_taken() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    let head = r#"{"version":1,"type":"COMMAND","command":"PING","requestId":"big","payload":{"pad":""#;
    let payload = format!("{head}{}\"}}}}", "x".repeat(1_048_576 - head.len() - 3));
    assert_eq!(payload.len(), 1_048_576);
    c.write_frame(payload.as_bytes()).expect("sent");
    assert_eq!(c.read_message().expect("answer")["success"], true);
}

#[test]
fn bytes_that_come_one_at_a_time_or_many_frames_at_once_are_the_same() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    let mut stream = Vec::new();
    for n in 0..3 {
        let payload = format!(r#"{{"version":1,"type":"COMMAND","command":"PING","requestId":"{n}"}}"#);
        stream.extend(u32::try_from(payload.len()).expect("short").to_be_bytes());
        stream.extend(payload.as_bytes());
    }
    for byte in &stream {
        c.socket().write_all(&[*byte]).expect("sent");
    }
    c.socket().write_all(&stream).expect("sent");
    for n in (0..3).chain(0..3) {
        assert_eq!(c.read_message().expect("answer")["requestId"], n.to_string());
    }
}

const USERS: &str = r#"
[[auth.users]]
name = "ann"
password = "secret"
permissions = [{ vhost = "/", configure = "^own-.*", write = ".*", read = ".*" }]
"#;

#[test]
fn credentials_are_wanted_when_some_are_configured() {
    let gateway = Gateway::start_with(Options::default().config(USERS));
    let mut c = connect(&gateway);
    c.ok("PING", json!({}));
    assert_eq!(c.fails("QUEUE_LIST", json!({})), "UNAUTHORIZED");
    c.ok("AUTH", json!({"username": "ann", "password": "secret"}));
    assert_eq!(c.fails("QUEUE_DECLARE", json!({"name": "q", "durable": true})), "FORBIDDEN");
    c.declare("own-q");
    let mut c = connect(&gateway);
    for _ in 0..3 {
        assert_eq!(c.fails("AUTH", json!({"username": "ann", "password": "wrong"})), "AUTH_FAILED");
    }
    assert_eq!(c.socket().read(&mut [0; 8]).expect("closed"), 0);
}

#[test]
fn what_another_protocol_published_arrives_as_body_properties_and_headers() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    c.declare("q");
    c.ok("QUEUE_BIND", json!({"queueName": "q", "exchangeName": "amq.topic", "routingKey": "t"}));
    c.consume("q", 1);
    let event = json!({"specversion": "1.0", "id": "e1", "source": "/s", "type": "kind", "myext": "v",
        "datacontenttype": "application/json", "data": {"n": [1, 2.50]}});
    assert_eq!(harness::http::publish(&gateway.address("http"), "t", &event).status, 202);
    let d = c.delivery();
    assert_eq!((&d["messageId"], &d["body"]), (&json!("e1"), &json!({"n": [1, 2.5]})));
    assert_eq!((&d["properties"]["type"], &d["exchangeName"]), (&json!("kind"), &json!("amq.topic")));
    assert_eq!(d["headers"]["myext"], "v", "{d}");
}
