//! The matrix's EventMesh clients over TCP: one that speaks CloudEvents, one that speaks MeshMessage.

use serde_json::{Value, json};

use crate::Gateway;
use crate::eventmesh::{EventMesh, Generation, mesh_message};
use crate::peers::{Consumer, Keeps, Peer, Sample, sample_of, structured};

/// Their ways in and out.
#[must_use]
pub fn peers() -> Vec<Peer> {
    vec![
        Peer {
            protocol: "eventmesh",
            way: "tcp with CloudEvents",
            publish: Some(cloudevents_publish),
            subscribe: Some(cloudevents_subscribe),
            keeps: Keeps::Everything,
        },
        Peer {
            protocol: "eventmesh",
            way: "tcp with MeshMessage",
            publish: Some(mesh_publish),
            subscribe: Some(mesh_subscribe),
            keeps: Keeps::LineOfText,
        },
    ]
}

fn client(gateway: &Gateway, purpose: &str) -> EventMesh {
    EventMesh::hello(&gateway.address("eventmesh"), Generation::B, purpose, "matrix")
}

fn event(topic: &str, sample: &Sample) -> Value {
    let mut event = structured(sample);
    event["subject"] = json!(topic);
    event
}

fn cloudevents_publish(gateway: &Gateway, topic: &str, sample: &Sample) {
    client(gateway, "pub").with_cloudevents().publish(&event(topic, sample));
}

fn mesh_publish(gateway: &Gateway, topic: &str, sample: &Sample) {
    let line = std::str::from_utf8(&sample.data).expect("a line of text");
    client(gateway, "pub").publish(&mesh_message(topic, line));
}

struct Subscriber {
    client: EventMesh,
    read: fn(&Value) -> Sample,
}

impl Consumer for Subscriber {
    fn next(&mut self) -> Sample {
        let push = self.client.push();
        assert_eq!(push.command(), "ASYNC_MESSAGE_TO_CLIENT", "{push:?}");
        self.client.ack(&push);
        (self.read)(&push.body)
    }
}

/// A client is pushed to in the format in which it has published.
fn subscribe(mut client: EventMesh, topic: &str, hint: &Value, read: fn(&Value) -> Sample) -> Box<dyn Consumer> {
    client.publish(hint);
    client.listen(topic, "CLUSTERING", "ASYNC");
    Box::new(Subscriber { client, read })
}

fn cloudevents_subscribe(gateway: &Gateway, topic: &str) -> Box<dyn Consumer> {
    let hint = json!({"specversion": "1.0", "id": "1", "source": "/", "type": "hint", "subject": "matrix.hint"});
    subscribe(client(gateway, "sub").with_cloudevents(), topic, &hint, sample_of)
}

fn mesh_subscribe(gateway: &Gateway, topic: &str) -> Box<dyn Consumer> {
    let read = |body: &Value| Sample::text(body["body"].as_str().unwrap_or_default());
    subscribe(client(gateway, "sub"), topic, &mesh_message("matrix.hint", ""), read)
}
