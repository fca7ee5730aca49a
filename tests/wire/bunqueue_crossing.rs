//! Jobs and other protocols: a job is consumed, completed and failed in each one's words, and what they publish to a job queue is
//! a job for a worker.

use harness::bunqueue::{Bunqueue, Value, map};
use harness::messagex::MessageX;
use harness::peers::amqp::{Amqp, args};
use harness::sse::Sse;
use harness::websocket::Ws;
use harness::{Gateway, http, wait_until};
use serde_json::json;

fn client(gateway: &Gateway) -> Bunqueue {
    Bunqueue::connect(&gateway.address("bunqueue"))
}

/// Pushes a job with a name of its own and data that JSON can say.
fn push(client: &mut Bunqueue, queue: &str, id: &str) {
    let data = map([("n", 7.into()), ("text", "\u{e9}".into())]);
    let job = [("queue", queue.into()), ("name", "mail".into()), ("data", data), ("jobId", id.into())];
    client.ok("PUSH", job);
}

fn until(client: &mut Bunqueue, id: &str, state: &str) {
    wait_until(&format!("{id} {state}"), || {
        (client.ok("GetState", [("id", id.into())]).get("state").text() == state).then_some(())
    });
}

/// The data of `push` as it stands on the wire.
fn data() -> Vec<u8> {
    harness::bunqueue::encode(&map([("n", 7.into()), ("text", "\u{e9}".into())]))
}

#[test]
fn amqp_completes_and_fails_jobs_and_gets_their_bytes() {
    let gateway = Gateway::start();
    let mut jobs = client(&gateway);
    push(&mut jobs, "q", "done");
    let mut amqp = Amqp::connect(&gateway.address("amqp"));
    // made by PUSH: the same queue as one that is durable and has no arguments
    amqp.declare("q");
    amqp.consume("q", "c", 0);
    let (tag, _, content) = amqp.delivery();
    assert_eq!(content.body, data(), "byte for byte");
    assert_eq!(content.text(0x8000).as_deref(), Some("application/msgpack"));
    assert_eq!(content.text(0x0020).as_deref(), Some("mail"), "the name is the type");
    until(&mut jobs, "done", "active");
    amqp.ack(tag, false);
    until(&mut jobs, "done", "completed");
    push(&mut jobs, "q", "failed");
    let (tag, ..) = amqp.delivery();
    amqp.send(1, 60, 90, args().longlong(tag).octet(0));
    until(&mut jobs, "failed", "delayed");
    let job = jobs.ok("GetJob", [("id", "failed".into())]);
    assert_eq!(job.get("job").get("attempts").number(), 1.0, "its own retry policy");
}

#[test]
fn messagex_completes_and_fails_jobs() {
    let gateway = Gateway::start();
    let mut jobs = client(&gateway);
    push(&mut jobs, "q", "done");
    let mut x = MessageX::connect(&gateway.address("messagex"));
    x.consume("q", 10);
    let delivery = x.delivery();
    assert_eq!((&delivery["encoding"], &delivery["properties"]["type"]), (&json!("base64"), &json!("mail")));
    x.ack(&delivery);
    until(&mut jobs, "done", "completed");
    push(&mut jobs, "q", "failed");
    let delivery = x.delivery();
    x.ok("REJECT", json!({"deliveryTag": delivery["deliveryTag"]}));
    until(&mut jobs, "failed", "delayed");
}

#[test]
fn browsers_see_jobs_as_json_and_complete_them() {
    let gateway = Gateway::start();
    let mut jobs = client(&gateway);
    push(&mut jobs, "sse", "a");
    push(&mut jobs, "ws", "b");
    let expected = json!({"n": 7, "text": "\u{e9}"});
    let mut sse = Sse::open(&gateway.address("http"), "queue=sse", &[]);
    let event = sse.next_event().json();
    assert_eq!((&event["data"], &event["type"]), (&expected, &json!("mail")));
    until(&mut jobs, "a", "completed");
    let mut ws = Ws::connect(&gateway.address("http"));
    let subscribe = json!({"op": "subscribe", "sub": "s", "queue": "ws", "ack": "explicit", "credit": 2});
    assert_eq!(ws.call(subscribe)["op"], "ok");
    let message = ws.message();
    assert_eq!(message["event"]["data"], expected);
    ws.send(json!({"op": "ack", "sub": "s", "ackIds": [message["ackId"]]}));
    until(&mut jobs, "b", "completed");
}

#[test]
fn what_others_publish_to_a_job_queue_is_a_job_with_retries() {
    let gateway = Gateway::start();
    let mut jobs = client(&gateway);
    push(&mut jobs, "q", "first");
    let pull = |jobs: &mut Bunqueue| {
        let wait = Value::Number(20_000.0);
        jobs.ok("PULL", [("queue", "q".into()), ("owner", "w".into()), ("timeout", wait)])
    };
    let ack = |jobs: &mut Bunqueue, pulled: &Value| {
        let ack = [("id", pulled.get("job").get("id").clone()), ("token", pulled.get("token").clone())];
        jobs.ok("ACK", ack);
    };
    let first = pull(&mut jobs);
    ack(&mut jobs, &first);
    let mut x = MessageX::connect(&gateway.address("messagex"));
    let properties = json!({"type": "from.messagex"});
    let publish =
        json!({"routingKey": "q", "body": {"k": [1, null]}, "persistent": true, "properties": properties});
    x.ok("PUBLISH", publish);
    let pulled = pull(&mut jobs);
    let job = pulled.get("job");
    assert_eq!(job.get("name").text(), "from.messagex");
    assert_eq!(*job.get("data"), map([("k", Value::List(vec![1.into(), Value::Nil]))]));
    let fail =
        [("id", job.get("id").clone()), ("token", pulled.get("token").clone()), ("error", "not yet".into())];
    jobs.ok("FAIL", fail);
    let again = pull(&mut jobs);
    assert_eq!((again.get("job").get("id"), again.get("job").get("attempts").number()), (job.get("id"), 1.0));
    ack(&mut jobs, &again);
    let mut amqp = Amqp::connect(&gateway.address("amqp"));
    amqp.publish(1, "", "q", 0, &args().short(0).0, b"plain");
    let plain = pull(&mut jobs);
    assert_eq!(plain.get("job").get("data").text(), "plain");
    ack(&mut jobs, &plain);
    let status = http::request(&gateway.address("http"), "GET", "/readyz", &[], b"").status;
    assert_eq!(status, 200);
}
