//! The matrix's bunqueue worker: takes what a queue holds that is bound to the topic. There is no way in: jobs are pushed to
//! queues, never to topics, and `tests/wire/bunqueue_crossing.rs` has them consumed by every protocol.

use crate::Gateway;
use crate::bunqueue::{Bunqueue, Value};
use crate::peers::{Consumer, Keeps, Peer, Sample, bound_queue};

/// Its way out.
#[must_use]
pub fn peers() -> Vec<Peer> {
    vec![Peer {
        protocol: "bunqueue",
        way: "worker",
        publish: None,
        subscribe: Some(worker),
        keeps: Keeps::LineOfText,
    }]
}

struct Worker {
    client: Bunqueue,
    queue: String,
}

impl Consumer for Worker {
    fn next(&mut self) -> Sample {
        let pull = [
            ("queue", self.queue.as_str().into()),
            ("owner", "matrix".into()),
            ("timeout", Value::Number(20_000.0)),
        ];
        let reply = self.client.ok("PULL", pull);
        let job = reply.get("job");
        let ack = [("id", job.get("id").clone()), ("token", reply.get("token").clone())];
        self.client.ok("ACK", ack);
        Sample::text(job.get("data").text())
    }
}

fn worker(gateway: &Gateway, topic: &str) -> Box<dyn Consumer> {
    let queue = bound_queue(gateway, topic);
    Box::new(Worker { client: Bunqueue::connect(&gateway.address("bunqueue")), queue })
}
