//! The matrix's MessageX client: publishes to a topic, consumes a queue that is bound to it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::Gateway;
use crate::messagex::MessageX;
use crate::peers::{Consumer, Keeps, Peer, Sample, bound_queue};

/// Its ways in and out.
#[must_use]
pub fn peers() -> Vec<Peer> {
    vec![Peer {
        protocol: "messagex",
        way: "queue",
        publish: Some(messagex_publish),
        subscribe: Some(messagex_subscribe),
        keeps: Keeps::Everything,
    }]
}

fn messagex_publish(gateway: &Gateway, topic: &str, sample: &Sample) {
    let mut client = MessageX::connect(&gateway.address("messagex"));
    let mut payload = json!({
        "exchangeName": "amq.topic", "routingKey": topic, "persistent": true,
        "properties": {"messageId": sample.id, "type": sample.kind, "contentType": sample.content_type},
    });
    match (sample.value(), std::str::from_utf8(&sample.data)) {
        // a string is its own bytes, so a JSON string travels with its quotes
        (Some(Value::String(_)), Ok(text)) => payload["body"] = json!(text),
        (Some(value), _) => payload["body"] = value,
        (None, Ok(text)) => payload["body"] = json!(text),
        (None, Err(_)) => {
            payload["body"] = json!(STANDARD.encode(&sample.data));
            payload["encoding"] = json!("base64");
        }
    }
    let reply = client.ok("PUBLISH", payload);
    assert_eq!(reply["routed"], true, "{reply}");
}

struct MessageXConsumer(MessageX);

impl Consumer for MessageXConsumer {
    fn next(&mut self) -> Sample {
        let delivery = self.0.delivery();
        self.0.ack(&delivery);
        let text = |key: &str| delivery["properties"][key].as_str().unwrap_or_default().to_owned();
        let body = &delivery["body"];
        let data = match (body, delivery["encoding"].as_str()) {
            (Value::String(text), Some("base64")) => STANDARD.decode(text).expect("base64"),
            (Value::String(text), None) if !text_is_json(&delivery) || serde_json::from_str::<Value>(text).is_ok() => {
                text.clone().into_bytes()
            }
            _ => body.to_string().into_bytes(),
        };
        let id = delivery["messageId"].as_str().unwrap_or_default().to_owned();
        Sample { id, kind: text("type"), content_type: text("contentType"), data }
    }
}

fn text_is_json(delivery: &Value) -> bool {
    delivery["properties"]["contentType"].as_str().is_some_and(|t| t.contains("json"))
}

fn messagex_subscribe(gateway: &Gateway, topic: &str) -> Box<dyn Consumer> {
    let queue = bound_queue(gateway, topic);
    let mut client = MessageX::connect(&gateway.address("messagex"));
    client.consume(&queue, 10);
    Box::new(MessageXConsumer(client))
}
