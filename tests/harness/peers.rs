//! One publisher and one consumer per way in and out, with one face, for the matrix over every protocol. Each
//! protocol brings its own in `adaptors/PROTOCOL/peer.rs`; the build script lists them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::Gateway;
use crate::messagex::MessageX;

/// What must arrive whatever the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Message id.
    pub id: String,
    /// Message type.
    pub kind: String,
    /// Content type.
    pub content_type: String,
    /// Payload bytes (JSON compared as value).
    pub data: Vec<u8>,
}

impl Sample {
    /// A line of text without id and type.
    #[must_use]
    pub fn text(line: &str) -> Self {
        let (id, kind, content_type) = (String::new(), String::new(), "text/plain".to_owned());
        Self { id, kind, content_type, data: line.as_bytes().to_vec() }
    }

    /// It is one line of text.
    #[must_use]
    pub fn is_line(&self) -> bool {
        self.content_type == "text/plain" && !self.data.is_empty() && !self.data.contains(&b'\n')
    }

    /// The payload as JSON, when it is that.
    #[must_use]
    pub fn value(&self) -> Option<Value> {
        self.content_type.contains("json").then(|| serde_json::from_slice(&self.data).ok()).flatten()
    }

    /// Same id, type, content type and payload.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        let payload = match (self.value(), other.value()) {
            (Some(a), Some(b)) => a == b,
            _ => self.data == other.data,
        };
        payload && self.id == other.id && self.kind == other.kind && self.content_type == other.content_type
    }
}

/// Publishes samples to a topic.
pub type Publish = fn(&Gateway, topic: &str, sample: &Sample);

/// Waits for samples.
pub trait Consumer {
    /// The next one.
    fn next(&mut self) -> Sample;
}

/// Subscribes to a topic (or to a queue bound to it, named `to-TOPIC`) and returns when it is live.
pub type Subscribe = fn(&Gateway, topic: &str) -> Box<dyn Consumer>;

/// A way in or out.
pub struct Peer {
    /// Registry name of the protocol.
    pub protocol: &'static str,
    /// What is special about this way.
    pub way: &'static str,
    /// Publishes.
    pub publish: Option<Publish>,
    /// Consumes.
    pub subscribe: Option<Subscribe>,
    /// What survives.
    pub keeps: Keeps,
}

/// What a protocol keeps of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Id, type, content type and payload.
    Everything,
    /// One line of text, without id and type.
    LineOfText,
}

// `pub fn peers() -> Vec<Peer>`: those of every protocol's `peer.rs`
include!(concat!(env!("OUT_DIR"), "/peers.rs"));

/// Declares the queue `to-TOPIC` and binds it to the topic.
pub fn bound_queue(gateway: &Gateway, topic: &str) -> String {
    let queue = format!("to-{topic}");
    let mut client = MessageX::connect(&gateway.address("messagex"));
    client.declare(&queue);
    client.ok("QUEUE_BIND", json!({"queueName": queue, "exchangeName": "amq.topic", "routingKey": topic}));
    queue
}

/// A sample as structured CloudEvent.
#[must_use]
pub fn structured(sample: &Sample) -> Value {
    let mut event = json!({
        "specversion": "1.0", "id": sample.id, "source": "/tests", "type": sample.kind,
        "datacontenttype": sample.content_type,
    });
    match (sample.value(), std::str::from_utf8(&sample.data)) {
        (Some(value), _) => event["data"] = value,
        (None, Ok(text)) => event["data"] = json!(text),
        (None, Err(_)) => event["data_base64"] = json!(STANDARD.encode(&sample.data)),
    }
    event
}

/// A structured CloudEvent as sample.
#[must_use]
pub fn sample_of(event: &Value) -> Sample {
    let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let content_type = text("datacontenttype");
    let data = match (&event["data_base64"], &event["data"]) {
        (Value::String(encoded), _) => STANDARD.decode(encoded).expect("base64"),
        (_, Value::String(text)) if !content_type.contains("json") => text.clone().into_bytes(),
        (_, value) => value.to_string().into_bytes(),
    };
    Sample { id: text("id"), kind: text("type"), content_type, data }
}
