//! Bytes as they may come: one at a time, split anywhere, cut off, too long, changed at random.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod harness;

use framegate_broker::{Published, Reply, RequestId};
use harness::{Peer, delivery, frame_of, text_frame};
use serde_json::{Value, json};

fn conversation() -> Vec<u8> {
    let command = |command: &str, id: &str, payload: Value| {
        let message =
            json!({"version": 1, "type": "COMMAND", "command": command, "requestId": id, "payload": payload});
        frame_of(message.to_string().as_bytes())
    };
    [
        command("QUEUE_DECLARE", "r1", json!({"name": "orders", "durable": true})),
        command(
            "PUBLISH",
            "r2",
            json!({"queueName": "orders", "body": {"text": "caf\u{e9}"}, "headers": {"a": [1]}}),
        ),
        command("PING", "r3", json!({})),
        command("ACK", "r4", json!({"deliveryTag": "zzz"})),
        command("NOPE", "r5", json!({})),
        frame_of(b"{"),
    ]
    .concat()
}

/// What a session did with its input; message ids and times are its own.
fn outcome(peer: &mut Peer) -> (usize, Vec<Value>) {
    let mut messages = peer.received();
    for message in &mut messages {
        if !message["payload"]["time"].is_null() {
            message["payload"]["time"] = json!(0);
        }
    }
    (peer.requests().len(), messages)
}

#[test]
fn every_split_gives_the_same_as_one_chunk() {
    let bytes = conversation();
    let mut whole = Peer::logged_in();
    whole.feed(&bytes);
    let expected = outcome(&mut whole);
    assert_eq!((expected.0, expected.1.len()), (2, 4));
    for split in 0..=bytes.len() {
        let mut peer = Peer::logged_in();
        peer.feed(&bytes[..split]);
        peer.feed(&bytes[split..]);
        assert_eq!(outcome(&mut peer), expected, "split at {split}");
    }
    let mut peer = Peer::logged_in();
    for byte in bytes.chunks(1) {
        peer.feed(byte);
    }
    assert_eq!(outcome(&mut peer), expected);
}

#[test]
fn truncated_input_does_nothing_and_says_what_it_needs() {
    let bytes = frame_of(br#"{"version":1,"type":"COMMAND","command":"STATS","requestId":"r"}"#);
    for length in 0..bytes.len() {
        let mut peer = Peer::logged_in();
        let progress = peer.feed(&bytes[..length]);
        assert_eq!(progress.consumed, 0);
        assert_eq!(progress.need, if length < 4 { 4 } else { bytes.len() });
        assert_eq!(outcome(&mut peer), (0, vec![]), "cut at {length}");
    }
}

#[test]
fn payload_of_exactly_one_mebibyte_is_taken_and_one_byte_more_is_not() {
    let padded = |total: usize| {
        let head = r#"{"version":1,"type":"COMMAND","command":"PING","requestId":"r","pad":""#;
        frame_of(format!("{head}{}\"}}", "x".repeat(total - head.len() - 2)).as_bytes())
    };
    let mut peer = Peer::logged_in();
    peer.feed(&padded(1_048_576));
    assert_eq!(peer.success()["pong"], true);
    peer.feed(&padded(1_048_577)[..4]);
    assert_eq!(peer.failure(), "FRAME_TOO_LARGE");
    assert!(peer.ended.is_some());
}

#[test]
fn response_id_of_a_framing_error_is_null() {
    for (bytes, code) in [([0; 4], "FRAME_EMPTY"), ([0xFF; 4], "FRAME_TOO_LARGE")] {
        let mut peer = Peer::logged_in();
        peer.feed(&bytes);
        let message = peer.one();
        assert_eq!((&message["requestId"], &message["error"]["code"]), (&Value::Null, &json!(code)));
    }
}

/// A small generator, so that a failure can be repeated by its seed.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

/// 20,000 conversations, each with up to eight bytes changed, removed or doubled, or with words of the protocol put elsewhere. Every
/// request that comes of it is answered, and every consumer gets a message.
#[test]
fn no_change_of_bytes_panics() {
    let seeds = [
        conversation(),
        [
            frame_of(br#"{"version":1,"type":"COMMAND","command":"CONSUME","requestId":"c","payload":{"queueName":"orders","consumerTag":"ct","prefetch":1}}"#),
            frame_of(br#"{"version":1,"type":"COMMAND","command":"PUBLISH","requestId":"p","payload":{"routingKey":"k","body":"AAEC","encoding":"base64","properties":{"messageId":"m","expiration":"10","timestamp":5,"type":"t"},"headers":{"x":{"y":[null,1.5]}}}}"#),
            frame_of(br#"{"version":1,"type":"COMMAND","command":"NACK","requestId":"n","payload":{"deliveryTags":["a","b"],"requeue":false,"multiple":true}}"#),
            frame_of(br#"{"version":1,"type":"COMMAND","command":"QUEUE_DECLARE","requestId":"q","payload":{"name":"","arguments":{"deadLetterExchange":"","queueVersion":2}}}"#),
        ]
        .concat(),
    ];
    let words: [&[u8]; 8] = [b"\"", b"\\", b"null", b"{}", b"[[[[", b"\\ud800", b"1e999", b"\xff\xfe"];
    let mut random = Random(0x5EED_0FF4_A3C1);
    let mut requests_seen = 0;
    for _ in 0..20_000 {
        let mut bytes = seeds[random.next(seeds.len())].clone();
        for _ in 0..=random.next(8) {
            let at = random.next(bytes.len());
            match random.next(5) {
                0 => bytes[at] ^= 1 << random.next(8),
                1 => bytes[at] = random.next(256) as u8,
                2 => drop(bytes.remove(at)),
                3 => bytes.insert(at, bytes[at]),
                _ => {
                    let word = words[random.next(words.len())];
                    let end = (at + word.len()).min(bytes.len());
                    bytes[at..end].copy_from_slice(&word[..end - at]);
                }
            }
        }
        let mut peer = Peer::logged_in();
        let split = random.next(bytes.len());
        peer.feed(&bytes[..split]);
        peer.feed(&bytes[split..]);
        for (id, request) in peer.requests() {
            requests_seen += 1;
            answer(&mut peer, id, &request);
        }
        peer.received();
    }
    assert!(requests_seen > 15_000, "{requests_seen}");
}

fn answer(peer: &mut Peer, id: RequestId, request: &framegate_broker::Request) {
    match request {
        framegate_broker::Request::Publish(publish) => {
            let message = delivery(framegate_broker::ConsumerId(1), 1, publish.frame.clone());
            peer.effect(framegate_broker::Effect::Delivery(message));
            peer.reply(id, Ok(Reply::Published(Published::default())));
        }
        framegate_broker::Request::Consume(consume) => {
            peer.effect(framegate_broker::Effect::Delivery(delivery(consume.consumer, 1, text_frame("x"))));
            peer.reply(id, Ok(Reply::Done));
        }
        _ => peer.reply(id, Ok(Reply::Settled { count: 1 })),
    }
}
