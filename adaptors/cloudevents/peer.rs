//! The matrix's CloudEvents clients: three HTTP modes in, Server-Sent Events and WebSocket out, topics and queues.

use serde_json::json;

use crate::Gateway;
use crate::http;
use crate::peers::{Consumer, Keeps, Peer, Publish, Sample, Subscribe, bound_queue, sample_of, structured};
use crate::sse::Sse;
use crate::websocket::Ws;

/// Its ways in and out.
#[must_use]
pub fn peers() -> Vec<Peer> {
    let peer = |way, publish: Option<Publish>, subscribe: Option<Subscribe>| Peer {
        protocol: "cloudevents",
        way,
        publish,
        subscribe,
        keeps: Keeps::Everything,
    };
    vec![
        peer("binary", Some(binary_publish), None),
        peer("structured", Some(structured_publish), None),
        peer("batched", Some(batched_publish), None),
        peer("sse-topic", None, Some(sse_topic)),
        peer("sse-queue", None, Some(sse_queue)),
        peer("ws-topic", Some(ws_publish), Some(ws_topic)),
        peer("ws-queue", None, Some(ws_queue)),
    ]
}

fn binary_publish(gateway: &Gateway, topic: &str, sample: &Sample) {
    let path = format!("/v1/topics/{topic}/events");
    let headers = [
        ("ce-specversion", "1.0"),
        ("ce-id", &sample.id),
        ("ce-source", "/tests"),
        ("ce-type", &sample.kind),
        ("Content-Type", &sample.content_type),
    ];
    let response = http::request(&gateway.address("http"), "POST", &path, &headers, &sample.data);
    assert_eq!(response.status, 202, "{}", response.text());
}

fn structured_publish(gateway: &Gateway, topic: &str, sample: &Sample) {
    let response = http::publish(&gateway.address("http"), topic, &structured(sample));
    assert_eq!(response.status, 202, "{}", response.text());
}

fn batched_publish(gateway: &Gateway, topic: &str, sample: &Sample) {
    let body = json!([structured(sample)]).to_string();
    let headers = [("Content-Type", "application/cloudevents-batch+json")];
    let path = format!("/v1/topics/{topic}/events");
    let response = http::request(&gateway.address("http"), "POST", &path, &headers, body.as_bytes());
    assert_eq!(response.status, 202, "{}", response.text());
}

struct SseConsumer(Sse);

impl Consumer for SseConsumer {
    fn next(&mut self) -> Sample {
        sample_of(&self.0.next_event().json())
    }
}

fn sse_topic(gateway: &Gateway, topic: &str) -> Box<dyn Consumer> {
    let sse = Sse::open(&gateway.address("http"), &format!("topic={topic}"), &[]);
    assert_eq!(sse.status, 200);
    Box::new(SseConsumer(sse))
}

fn sse_queue(gateway: &Gateway, topic: &str) -> Box<dyn Consumer> {
    let queue = bound_queue(gateway, topic);
    let sse = Sse::open(&gateway.address("http"), &format!("queue={queue}"), &[]);
    assert_eq!(sse.status, 200);
    Box::new(SseConsumer(sse))
}

fn ws_publish(gateway: &Gateway, topic: &str, sample: &Sample) {
    let mut client = Ws::connect(&gateway.address("http"));
    let answer = client.call(json!({"op": "publish", "topic": topic, "event": structured(sample)}));
    assert_eq!(answer["op"], "ok", "{answer}");
}

struct WsConsumer(Ws);

impl Consumer for WsConsumer {
    fn next(&mut self) -> Sample {
        let message = self.0.message();
        assert_eq!(message["op"], "event", "{message}");
        sample_of(&message["event"])
    }
}

fn ws_topic(gateway: &Gateway, topic: &str) -> Box<dyn Consumer> {
    let mut client = Ws::connect(&gateway.address("http"));
    client.subscribe("s", topic);
    Box::new(WsConsumer(client))
}

fn ws_queue(gateway: &Gateway, topic: &str) -> Box<dyn Consumer> {
    let queue = bound_queue(gateway, topic);
    let mut client = Ws::connect(&gateway.address("http"));
    let answer = client.call(json!({"op": "subscribe", "sub": "s", "queue": queue}));
    assert_eq!(answer["op"], "ok", "{answer}");
    Box::new(WsConsumer(client))
}
