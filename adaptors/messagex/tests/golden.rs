//! The vectors of the protocol page and of its completion: every one decoded as a client's packet, or written again.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod harness;

use framegate_broker::{
    BrokerError, Effect, Envelope, ExchangeInfo, ExchangeKind, Kind, Name, Published, QueueInfo,
    QueueProperties, Reply, Request,
};
use harness::{Peer, delivery};
use serde_json::{Value, json};

const VECTORS: &str = include_str!("../../../tests/vectors/messagex/frames.json");

struct Vector {
    name: String,
    bytes: Vec<u8>,
}

fn vectors() -> Vec<Vector> {
    let file: Value = serde_json::from_str(VECTORS).unwrap();
    let vectors = file["vectors"].as_array().unwrap().iter();
    vectors
        .map(|vector| {
            let hex = vector["hex"].as_str().unwrap().as_bytes();
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
            let name = vector["name"].as_str().unwrap().to_owned();
            Vector { name, bytes: hex.chunks(2).map(byte).collect() }
        })
        .collect()
}

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(&bytes[4..]).unwrap()
}

/// The example's command, with the two forms of the page.
fn declares_orders(peer: &mut Peer, count: usize) {
    let requests = peer.requests();
    assert_eq!(requests.len(), count);
    for (id, request) in requests {
        let Request::Define(framegate_broker::Define::Queue(spec)) = request else { panic!("{request:?}") };
        assert_eq!((spec.name.as_str(), spec.durable), ("orders", true));
        peer.reply(id, Ok(Reply::Queue(orders())));
    }
    for message in peer.received() {
        assert_eq!(message["payload"]["name"], "orders");
    }
}

fn orders() -> QueueInfo {
    QueueInfo {
        name: Name::from_static("orders"),
        durable: true,
        exclusive: false,
        auto_delete: false,
        properties: QueueProperties::default(),
        ready: 0,
        unacked: 0,
        bytes: 0,
        consumers: 0,
    }
}

/// The answer of the broker that makes the response of a `seq.` vector.
fn broker_says(name: &str) -> Option<Result<Reply, BrokerError>> {
    Some(match name {
        "seq.exchange-declare" => Ok(Reply::Exchange(ExchangeInfo {
            name: Name::from_static("shop"),
            kind: ExchangeKind::Topic,
            durable: true,
            auto_delete: false,
            internal: false,
            alternate: None,
        })),
        "seq.queue-bind" | "seq.consume" | "seq.cancel" => Ok(Reply::Done),
        "seq.publish" => Ok(Reply::Published(Published { queues: 1, routed: true, ..Published::default() })),
        "seq.ack" | "seq.nack" => Ok(Reply::Settled { count: 1 }),
        "seq.queue-delete-missing" => Err(BrokerError::NotFound {
            kind: Kind::Queue,
            name: Name::from_static("none"),
            vhost: Name::from_static("/"),
        }),
        _ => return None,
    })
}

/// Runs a command vector and compares the response with its vector; ids and times that a server makes are its own.
fn sequence(name: &str, command: &Value, expected: &Value) {
    let mut peer = if name == "seq.auth" { Peer::open() } else { Peer::logged_in() };
    let mut command = command.clone();
    if matches!(name, "seq.ack" | "seq.nack") {
        let consumer = peer.consumer("ct-0", false);
        command["payload"]["deliveryTag"] = json!(peer.deliver(consumer, 1));
    }
    if name == "seq.cancel" {
        peer.consumer("ct-1", false);
    }
    peer.packet(&command);
    if name == "seq.auth" {
        peer.welcome();
    }
    if let Some(answer) = broker_says(name) {
        let (id, _) = peer.requests().pop().unwrap();
        peer.reply(id, answer);
    }
    let mut response = peer.one();
    for key in ["connectionId", "time"] {
        if !expected["payload"][key].is_null() {
            assert!(!response["payload"][key].is_null());
            response["payload"][key] = expected["payload"][key].clone();
        }
    }
    assert_eq!(&response, expected, "{name}");
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&response), keys(expected), "{name}");
}

/// The publish vector, consumed: the event vector but for the tag.
fn delivered(publish: &Value, expected: &Value) {
    let mut peer = Peer::logged_in();
    peer.packet(publish);
    let (_, Request::Publish(publish)) = peer.request() else { panic!("no publish") };
    peer.received();
    let consumer = peer.consumer("ct-1", false);
    let mut delivery = delivery(consumer, 1, publish.frame);
    delivery.envelope = Envelope { persistent: true, ..delivery.envelope };
    peer.effect(Effect::Delivery(delivery));
    let mut event = peer.one();
    event["payload"]["deliveryTag"] = expected["payload"]["deliveryTag"].clone();
    assert_eq!(&event, expected);
    assert_eq!(event.to_string(), expected.to_string(), "key order is the vector's");
}

#[test]
fn every_vector_is_read_or_written() {
    let vectors = vectors();
    let find = |name: &str| &vectors.iter().find(|vector| vector.name == name).unwrap().bytes;
    let mut passed = 0;
    let mut split = Peer::logged_in();
    for Vector { name, bytes } in &vectors {
        let mut peer = Peer::logged_in();
        match name.as_str() {
            "command.queue-declare.compact" | "command.queue-declare.pretty" => {
                peer.feed(bytes);
                declares_orders(&mut peer, 1);
            }
            "framing.two-in-one-chunk" => {
                peer.feed(bytes);
                declares_orders(&mut peer, 2);
            }
            "framing.split.1" | "framing.split.2" => {
                split.feed(bytes);
                declares_orders(&mut split, 0);
            }
            "framing.split.3" => {
                split.feed(bytes);
                declares_orders(&mut split, 1);
            }
            "framing.zero-length" | "framing.too-large" | "framing.all-ones" => {
                peer.feed(bytes);
                let code = if name == "framing.zero-length" { "FRAME_EMPTY" } else { "FRAME_TOO_LARGE" };
                assert_eq!(peer.failure(), code);
                assert!(peer.ended.is_some());
            }
            "framing.max-length-prefix" => {
                let progress = peer.feed(bytes);
                assert_eq!((progress.consumed, progress.need), (0, 1_048_580));
                assert!(peer.received().is_empty());
            }
            name if name.starts_with("bad.") => {
                peer.feed(bytes);
                let code = match name {
                    "bad.utf8" | "bad.json" => "INVALID_JSON",
                    "bad.version" => "UNSUPPORTED_VERSION",
                    "bad.command" => "UNKNOWN_COMMAND",
                    _ => "INVALID_MESSAGE",
                };
                assert_eq!(peer.failure(), code, "{name}");
                assert!(peer.ended.is_none());
            }
            // What a client reads: written by the session in the vectors of the sequence, compared there as JSON.
            "response.queue-declare.compact" | "response.queue-declare.pretty" => {
                assert_eq!(json_of(bytes), json_of(find("response.queue-declare.compact")));
                let mut command = json_of(find("command.queue-declare.compact"));
                command["requestId"] = json!("request-uuid");
                peer.packet(&command);
                let (id, _) = peer.request();
                peer.reply(id, Ok(Reply::Queue(orders())));
                let mut response = peer.one();
                response["payload"].as_object_mut().unwrap().retain(|key, _| key == "name");
                assert_eq!(response, json_of(bytes));
            }
            "event.message-delivered.compact" | "event.message-delivered.pretty" => {
                let expected = json_of(bytes);
                let consumer = peer.consumer("ct", false);
                peer.effect(Effect::Delivery(delivery(consumer, 1, harness::text_frame("x"))));
                let mut event = peer.one();
                assert!(event["payload"]["deliveryTag"].is_string());
                event["payload"]["deliveryTag"] = json!("delivery-uuid");
                let payload = event["payload"].as_object_mut().unwrap();
                payload.retain(|key, _| key == "queueName" || key == "deliveryTag");
                assert_eq!(event, expected);
            }
            "seq.delivery.event" => delivered(&json_of(find("seq.publish.command")), &json_of(bytes)),
            name => {
                let (sequence_name, _) = name.rsplit_once('.').unwrap();
                let command = json_of(find(&format!("{sequence_name}.command")));
                sequence(sequence_name, &command, &json_of(find(&format!("{sequence_name}.response"))));
            }
        }
        passed += 1;
    }
    println!("{passed} of {} vectors", vectors.len());
    assert_eq!(passed, vectors.len());
}
