//! EventMesh over TCP, by a client written from the protocol's description, in both generations.

use std::time::Duration;

use base64::Engine as _;
use framegate_adaptor_api::{Adaptors, Egress, WireMessage};
use framegate_broker::{Envelope, HeaderTable, Name, Origin};
use framegate_frame::{Frame, FrameKind, Limits};
use harness::eventmesh::{EventMesh, Generation, Package, mesh_message, user_agent};
use harness::messagex::MessageX;
use harness::wait::wait_until;
use harness::{Gateway, Options, http};
use serde_json::{Value, json};

const BOTH: [Generation; 2] = [Generation::A, Generation::B];

fn client(gateway: &Gateway, generation: Generation, purpose: &str, group: &str) -> EventMesh {
    EventMesh::hello(&gateway.address("eventmesh"), generation, purpose, group)
}

fn body(push: &Package) -> &str {
    push.body["body"].as_str().unwrap_or_default()
}

#[test]
fn two_connections_publish_and_take_messages_in_both_generations() {
    let gateway = Gateway::start();
    for (publisher, subscriber) in BOTH.into_iter().flat_map(|a| BOTH.map(|b| (a, b))) {
        let topic = format!("t-{publisher:?}-{subscriber:?}");
        let mut sub = client(&gateway, subscriber, "sub", "g");
        sub.listen(&topic, "CLUSTERING", "ASYNC");
        let mut publisher = client(&gateway, publisher, "pub", "g");
        for n in 0..100 {
            publisher.publish(&mesh_message(&topic, &format!("message {n} \u{4f60}\u{597d}")));
            let heartbeat = sub.call("HEARTBEAT_REQUEST", &Value::Null);
            assert_eq!((heartbeat.command(), heartbeat.code()), ("HEARTBEAT_RESPONSE", 0));
        }
        for n in 0..100 {
            let push = sub.push();
            assert_eq!(push.command(), "ASYNC_MESSAGE_TO_CLIENT");
            assert_eq!(push.header["properties"]["protocoltype"], "eventmeshmessage");
            assert_eq!(body(&push), format!("message {n} \u{4f60}\u{597d}"));
            assert_eq!(push.body["topic"], *topic);
            sub.ack(&push);
        }
        let goodbye = sub.call("CLIENT_GOODBYE_REQUEST", &Value::Null);
        assert_eq!((goodbye.command(), goodbye.code()), ("CLIENT_GOODBYE_RESPONSE", 0));
    }
}

#[test]
fn what_a_killed_member_held_goes_to_another_and_survives_a_killed_server() {
    let gateway = Gateway::start();
    let mut first = client(&gateway, Generation::B, "sub", "g");
    first.listen("orders", "CLUSTERING", "ASYNC");
    let mut publisher = client(&gateway, Generation::B, "pub", "p");
    for n in 0..10 {
        publisher.publish(&mesh_message("orders", &n.to_string()));
    }
    let held: Vec<String> = (0..10).map(|_| body(&first.push()).to_owned()).collect();
    assert_eq!(held, (0..10).map(|n| n.to_string()).collect::<Vec<_>>());
    drop(first);
    let mut second = client(&gateway, Generation::A, "sub", "g");
    second.listen("orders", "CLUSTERING", "ASYNC");
    let mut seen: Vec<String> = Vec::new();
    for n in 0..10 {
        let push = second.push();
        seen.push(body(&push).to_owned());
        if n < 4 {
            second.ack(&push);
        }
    }
    // the answer comes behind the acks
    second.call("HEARTBEAT_REQUEST", &Value::Null);
    seen.sort();
    assert_eq!(seen, held);
    publisher.publish(&mesh_message("orders", "last"));
    let gateway = gateway.kill_and_restart();
    let mut third = client(&gateway, Generation::B, "sub", "g");
    third.listen("orders", "CLUSTERING", "ASYNC");
    let mut left: Vec<String> = Vec::new();
    while !left.iter().any(|body| body == "last") || left.len() < 7 {
        let push = third.push();
        left.push(body(&push).to_owned());
        third.ack(&push);
    }
    left.sort();
    left.dedup();
    for n in [4, 5, 6, 7, 8, 9] {
        assert!(left.contains(&n.to_string()), "{n} is lost: {left:?}");
    }
}

#[test]
fn every_group_gets_a_copy_and_a_broadcast_reaches_every_member() {
    let gateway = Gateway::start();
    let mut clustering: Vec<EventMesh> =
        ["a", "a", "b"].map(|group| client(&gateway, Generation::B, "sub", group)).into();
    for member in &mut clustering {
        member.listen("news", "CLUSTERING", "ASYNC");
    }
    let mut broadcast: Vec<EventMesh> =
        ["a", "a", "c"].map(|group| client(&gateway, Generation::B, "sub", group)).into();
    for member in &mut broadcast {
        member.listen("news", "BROADCASTING", "ASYNC");
    }
    let mut publisher = client(&gateway, Generation::B, "pub", "p");
    for n in 0..20 {
        let reply = publisher.call("BROADCAST_MESSAGE_TO_SERVER", &mesh_message("news", &n.to_string()));
        assert_eq!((reply.command(), reply.code()), ("BROADCAST_MESSAGE_TO_SERVER_ACK", 0));
    }
    let expected: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    for member in &mut broadcast {
        let got: Vec<String> = (0..20)
            .map(|_| {
                let push = member.push();
                assert_eq!(push.command(), "BROADCAST_MESSAGE_TO_CLIENT");
                member.ack(&push);
                body(&push).to_owned()
            })
            .collect();
        assert_eq!(got, expected);
    }
    let only = &mut clustering[2];
    let got: Vec<String> = (0..20).map(|_| body(&only.push()).to_owned()).collect();
    assert_eq!(got, expected);
    let mut both: Vec<u32> = Vec::new();
    for member in &mut clustering[..2] {
        let timeout = Some(Duration::from_millis(300));
        member.call("HEARTBEAT_REQUEST", &Value::Null);
        member.socket().set_read_timeout(timeout).expect("timeout set");
    }
    while both.len() < 20 {
        for member in &mut clustering[..2] {
            while let Ok(push) = member.try_push() {
                both.push(body(&push).parse().expect("a number"));
                member.ack(&push);
            }
        }
    }
    both.sort_unstable();
    assert_eq!(both, (0..20).collect::<Vec<_>>(), "one of the two gets each");
}

#[test]
fn request_is_answered_over_another_connection_and_by_another_protocol() {
    let gateway = Gateway::start();
    for generation in BOTH {
        let topic = format!("rr-{generation:?}");
        let mut responder = client(&gateway, generation, "sub", "workers");
        responder.listen(&topic, "CLUSTERING", "SYNC");
        let mut caller = client(&gateway, generation, "pub", "callers");
        caller.try_send("REQUEST_TO_SERVER", "42", &mesh_message(&topic, "ping")).expect("sent");
        let push = responder.push();
        assert_eq!((push.command(), body(&push)), ("REQUEST_TO_CLIENT", "ping"));
        let mut response = push.body.clone();
        response["body"] = json!("pong");
        responder.try_send("RESPONSE_TO_SERVER", "77", &response).expect("sent");
        responder.ack(&push);
        let reply = caller.answer("42");
        assert_eq!((reply.command(), reply.code(), body(&reply)), ("RESPONSE_TO_CLIENT", 0, "pong"));
    }
    // a MessageX worker takes the call from a queue and answers to `replyTo`
    let mut worker = MessageX::connect(&gateway.address("messagex"));
    worker.declare("calls");
    worker.ok("QUEUE_BIND", json!({"queueName": "calls", "exchangeName": "amq.topic", "routingKey": "rr-x"}));
    worker.consume("calls", 1);
    let mut caller = client(&gateway, Generation::B, "pub", "callers");
    caller.try_send("REQUEST_TO_SERVER", "43", &mesh_message("rr-x", "ping")).expect("sent");
    let delivery = worker.delivery();
    let properties = &delivery["properties"];
    worker.ok(
        "PUBLISH",
        json!({"queueName": properties["replyTo"], "body": "pong from afar",
            "properties": {"correlationId": properties["correlationId"]}}),
    );
    let reply = caller.answer("43");
    assert_eq!((reply.code(), body(&reply)), (0, "pong from afar"));
}

#[test]
fn call_that_nobody_takes_fails_when_its_time_has_passed() {
    let gateway = Gateway::start();
    let mut caller = client(&gateway, Generation::B, "pub", "callers");
    let mut message = mesh_message("nobody", "ping");
    message["properties"]["ttl"] = json!("200");
    let reply = caller.call("REQUEST_TO_SERVER", &message);
    assert_eq!((reply.command(), reply.code()), ("RESPONSE_TO_CLIENT", 1));
}

/// A message that fits no package is a failed attempt of whoever should get it, three times.
#[test]
fn message_that_nobody_can_carry_ends_in_the_dead_letter_topic_and_holds_nothing_up() {
    let gateway = Gateway::start();
    let mut worker = client(&gateway, Generation::B, "sub", "g");
    worker.listen("bad", "CLUSTERING", "ASYNC");
    let mut other = MessageX::connect(&gateway.address("messagex"));
    // six bytes each in JSON, one in the frame
    let large = base64::engine::general_purpose::STANDARD.encode(vec![1_u8; 740_000]);
    other.ok(
        "PUBLISH",
        json!({"exchangeName": "amq.topic", "routingKey": "bad", "body": large, "encoding": "base64",
            "persistent": true, "properties": {"contentType": "text/plain"}}),
    );
    client(&gateway, Generation::B, "pub", "p").publish(&mesh_message("bad", "good"));
    let good = worker.push();
    assert_eq!(
        good.body["subject"].as_str().unwrap_or(body(&good)),
        "good",
        "one bad message holds nothing up"
    );
    worker.ack(&good);
    wait_until("a dead letter", || {
        let topics = http::request(&gateway.address("http"), "GET", "/admin/v1/topics", &[], b"").json();
        topics.to_string().contains("bad_DLQ").then_some(())
    });
}

#[test]
fn credentials_are_checked_where_they_are_needed() {
    let options = Options::default().config(
        "[[auth.users]]\nname = \"ana\"\npassword = \"secret\"\npermissions = [{ vhost = \"*\", configure = \"ok.*\", write = \"ok.*\", read = \"ok.*\" }]\n",
    );
    let gateway = Gateway::start_with(options);
    let address = gateway.address("eventmesh");
    let mut stranger = EventMesh::connect(&address, Generation::B);
    let reply = stranger.call("HELLO_REQUEST", &user_agent("pub", "g", "ana", "wrong"));
    assert_eq!((reply.command(), reply.code()), ("HELLO_RESPONSE", 1), "{reply:?}");
    assert!(stranger.try_read().is_err(), "and it is closed");
    let mut ana = EventMesh::connect(&address, Generation::B);
    assert_eq!(ana.call("HELLO_REQUEST", &user_agent("pub", "g", "ana", "secret")).code(), 0);
    ana.publish(&mesh_message("ok.a", "x"));
    let refused = ana.call("ASYNC_MESSAGE_TO_SERVER", &mesh_message("secret", "x"));
    assert_eq!(refused.code(), 1);
    assert!(refused.desc().contains("'secret'"), "{refused:?}");
    let topics = json!({"topicList": [{"topic": "secret", "mode": "CLUSTERING", "type": "ASYNC"}]});
    let refused = ana.call("SUBSCRIBE_REQUEST", &topics);
    assert_eq!((refused.command(), refused.code()), ("SUBSCRIBE_RESPONSE", 1));
    assert!(refused.desc().contains("'secret'"), "{refused:?}");
}

#[test]
fn stopping_server_says_goodbye() {
    let mut gateway = Gateway::start();
    let mut client = client(&gateway, Generation::A, "sub", "g");
    client.listen("t", "CLUSTERING", "ASYNC");
    gateway.terminate();
    let goodbye = client.push();
    assert_eq!((goodbye.command(), goodbye.code()), ("SERVER_GOODBYE_REQUEST", 0));
    assert!(client.try_read().is_err());
    assert!(gateway.wait().success());
}

fn frame_of(value: &Value) -> Frame {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let attributes = value["attributes"].as_object().expect("attributes");
    let attributes: Vec<(String, String)> = attributes.iter().map(|(n, v)| (n.clone(), text(v))).collect();
    let data = base64_of(&text(&value["data_base64"]));
    let attributes = attributes.iter().map(|(n, v)| (n.as_str(), v.as_str()));
    Frame::build(FrameKind::Event, attributes, &data, &Limits::GATEWAY).expect("a frame")
}

fn base64_of(text: &str) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD.decode(text).expect("base64")
}

/// Every row of the recorded mappings, by the adaptors that are linked in.
#[test]
fn every_recorded_mapping_holds() {
    let file: Value =
        serde_json::from_str(include_str!("../vectors/eventmesh/mappings.json")).expect("vectors");
    let rows = file["mappings"].as_array().expect("rows");
    let adaptors = Adaptors::collect().expect("adaptors");
    for row in rows {
        let name = row["name"].as_str().expect("a name");
        let adaptor = adaptors.get(row["adaptor"].as_str().expect("an adaptor")).expect("registered");
        if row["direction"] == "to_frame" {
            let (input, output) = (&row["input"], &row["output"]);
            let message = match (adaptor.name(), input) {
                ("meshmessage", input) => WireMessage {
                    head: json!({"seq": input["header"]["seq"]}).to_string().into(),
                    body: input["body"].to_string().into(),
                },
                ("a2a", Value::String(json)) => {
                    WireMessage { head: Default::default(), body: json.clone().into() }
                }
                (_, Value::String(json)) => {
                    WireMessage { head: json.clone().into(), body: Default::default() }
                }
                _ => panic!("{name}: {input}"),
            };
            let made = adaptor.to_frame(message);
            if !output["error"].is_null() {
                assert!(made.is_err(), "{name}");
                continue;
            }
            let frame = made.unwrap_or_else(|error| panic!("{name}: {error}")).frame;
            if !output["framegate"].is_null() {
                // reserved names cannot be set, headers win over properties
                let attribute = |name: &str| frame.attr(name).unwrap_or_default();
                assert_eq!(
                    (attribute("id"), attribute("subject"), attribute("k")),
                    ("9", "a", "h"),
                    "{name}"
                );
                continue;
            }
            for (attribute, value) in output["attributes"].as_object().expect("attributes") {
                match value.as_str() {
                    Some("<generated uuid>") => {
                        assert_eq!(frame.attr(attribute).map(str::len), Some(36), "{name}");
                    }
                    value => assert_eq!(frame.attr(attribute), value, "{name}: {attribute}"),
                }
            }
            // beside those recorded: JSON types of extensions, the content type that JSON has when none is given (which is noted
            // there, too), and the second name of the method
            let recorded = output["attributes"].as_object().expect("attributes");
            for (attribute, _) in frame.attrs().filter(|(attribute, _)| !recorded.contains_key(*attribute)) {
                let is_noted = attribute == "datacontenttype" && frame.private().is_some();
                assert!(
                    is_noted || attribute.starts_with('~') || attribute == "ema2amethod",
                    "{name}: {attribute}"
                );
            }
            assert_eq!(frame.data(), base64_of(output["data_base64"].as_str().unwrap_or_default()), "{name}");
        } else {
            let frame = frame_of(&row["input"]);
            let origin =
                Origin { vhost: Name::from_static("/"), name: Name::from_static("t"), id: 1, seq: 1 };
            let (envelope, headers) = (Envelope::default(), HeaderTable::default());
            let message = Egress { envelope: &envelope, frame: &frame, origin: &origin, headers: &headers };
            let wire = adaptor.to_wire(message).unwrap_or_else(|error| panic!("{name}: {error}"));
            let json =
                if wire.head.is_empty() || adaptor.name() != "cloudevents" { &wire.body } else { &wire.head };
            let made: Value = serde_json::from_slice(json).unwrap_or_else(|error| panic!("{name}: {error}"));
            check_egress(name, &made, &row["output"]);
        }
    }
    println!("mappings: {} of {}", rows.len(), rows.len());
    assert_eq!(rows.len(), 25);
}

fn check_egress(name: &str, made: &Value, output: &Value) {
    match name {
        "frame_no_type_non_json_to_ce" => assert!(made["data_base64"].is_string(), "{made}"),
        "frame_without_id_to_ce" => assert!(made["id"].as_str().is_some_and(|id| !id.is_empty()), "{made}"),
        "frame_bad_extension_name_to_ce" => {
            let members = made.as_object().expect("an object");
            assert!(
                members.keys().all(|key| key
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')),
                "{made}"
            );
        }
        "frame_text_to_ce" => {
            // text is written as text: the original's base64 is legal but unreadable
            assert!(made["data"] == "hi" || made["data_base64"] == output["data_base64"], "{made}");
        }
        "frame_binary_to_mesh" => {
            assert_eq!((made["topic"].as_str(), made["body"].as_str()), (Some("a"), Some("//4=")), "{made}");
            assert_eq!(made["properties"], json!({"bodyencoding": "base64"}));
        }
        "a2a_egress" => {
            let expected: Value = serde_json::from_str(output.as_str().expect("JSON")).expect("JSON");
            assert_eq!(*made, expected);
        }
        _ => {
            let mut made = made.clone();
            // the version is always written
            if let Some(members) = made.as_object_mut()
                && output["specversion"].is_null()
            {
                members.remove("specversion");
            }
            assert_eq!(made, *output, "{name}");
        }
    }
}
