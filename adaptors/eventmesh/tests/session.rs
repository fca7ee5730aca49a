//! A connection from hello to goodbye: what each command does and what it is answered.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod harness;

use std::time::Duration;

use framegate_adaptor_api::{Credentials, LoginError};
use framegate_broker::{
    BrokerError, Credit, Define, Effect, Kind, Lease, Name, Outcome, Published, Reply, Request, RequestId,
    Seq, Settle,
};
use harness::{Generation, Peer, agent, delivery, frame};
use serde_json::{Value, json};

fn topics(topic: &str, mode: &str, kind: &str) -> Value {
    json!({"topicList": [{"topic": topic, "mode": mode, "type": kind}]})
}

fn status(package: &(Value, Value)) -> (String, i64, String) {
    let text = |key: &str| package.0[key].as_str().unwrap_or_default().to_owned();
    (text("cmd"), package.0["code"].as_i64().unwrap(), text("seq"))
}

fn ok(command: &str, seq: &str) -> (String, i64, String) {
    (command.to_owned(), 0, seq.to_owned())
}

fn failed(command: &str, seq: &str) -> (String, i64, String) {
    (command.to_owned(), 1, seq.to_owned())
}

/// Subscribes and listens; the broker says yes.
fn listening(generation: Generation, kind: &str) -> Peer {
    let mut peer = Peer::greeted(generation);
    peer.send("SUBSCRIBE_REQUEST", "2", topics("t", "CLUSTERING", kind));
    for (id, _) in peer.requests() {
        peer.script.effect(Effect::Reply(id, Ok(Reply::Done)));
    }
    assert_eq!(status(&peer.one()), ok("SUBSCRIBE_RESPONSE", "2"));
    peer.send("LISTEN_REQUEST", "3", Value::Null);
    assert_eq!(status(&peer.one()), ok("LISTEN_RESPONSE", "3"));
    let (_, Request::Credit(Credit::Consumer(_, Some(64)))) = peer.request() else { panic!("no credit") };
    peer
}

fn mesh(topic: &str, body: &str) -> Value {
    json!({"topic": topic, "properties": {"ttl": "4000"}, "headers": {}, "body": body})
}

#[test]
fn both_generations_are_understood_and_answered_in_kind() {
    for generation in [Generation::A, Generation::B] {
        let mut peer = Peer::greeted(generation);
        peer.send("HEARTBEAT_REQUEST", "9", Value::Null);
        assert_eq!(status(&peer.one()), ok("HEARTBEAT_RESPONSE", "9"));
    }
}

#[test]
fn everything_but_hello_recommend_and_heartbeats_needs_a_session() {
    let mut peer = Peer::open(Value::Null);
    peer.send("HEARTBEAT_REQUEST", "1", Value::Null);
    assert_eq!(status(&peer.one()), ok("HEARTBEAT_RESPONSE", "1"));
    for (command, answer) in [
        ("SUBSCRIBE_REQUEST", "SUBSCRIBE_RESPONSE"),
        ("LISTEN_REQUEST", "LISTEN_RESPONSE"),
        ("UNSUBSCRIBE_REQUEST", "UNSUBSCRIBE_RESPONSE"),
        ("REQUEST_TO_SERVER", "RESPONSE_TO_CLIENT"),
        ("ASYNC_MESSAGE_TO_SERVER", "ASYNC_MESSAGE_TO_SERVER_ACK"),
        ("BROADCAST_MESSAGE_TO_SERVER", "BROADCAST_MESSAGE_TO_SERVER_ACK"),
    ] {
        peer.send(command, "2", Value::Null);
        let package = peer.one();
        assert_eq!(status(&package), failed(answer, "2"));
        assert_eq!(package.0["desc"], "no session is found");
    }
    peer.send("RESPONSE_TO_SERVER", "3", Value::Null);
    assert!(peer.received().is_empty());
    assert!(peer.requests().is_empty());
}

#[test]
fn hello_that_says_too_little_is_answered_and_closed() {
    let mut peer = Peer::open(Value::Null);
    peer.send("HELLO_REQUEST", "1", agent("pub", ""));
    let package = peer.one();
    assert_eq!(status(&package), failed("HELLO_RESPONSE", "1"));
    assert_eq!(package.0["desc"], "client group cannot be null");
    assert!(peer.script.closed.is_some());
}

#[test]
fn name_and_password_count_only_where_not_everybody_is_let_in() {
    let refuse = |login: &framegate_adaptor_api::Login| match login.credentials {
        Credentials::Anonymous => Ok(framegate_adaptor_api::Welcome {
            connection: framegate_broker::ConnectionId(1),
            user: Name::from_static("anonymous"),
            vhost: Name::from_static("/"),
        }),
        _ => Err(LoginError::Refused),
    };
    let mut peer = Peer::with(Value::Null, Generation::B, |script| script.admitting(refuse));
    peer.send("HELLO_REQUEST", "1", agent("pub", "g"));
    assert_eq!(status(&peer.one()), ok("HELLO_RESPONSE", "1"));
    assert_eq!(peer.script.logins.len(), 2);

    let mut peer =
        Peer::with(Value::Null, Generation::B, |script| script.admitting(|_| Err(LoginError::Required)));
    peer.send("HELLO_REQUEST", "1", agent("pub", "g"));
    assert_eq!(status(&peer.one()), failed("HELLO_RESPONSE", "1"));
    assert!(peer.script.failed.is_some());
}

#[test]
fn recommendation_is_what_is_configured() {
    let mut peer = Peer::open(json!({"advertise": "10.0.0.1:10000"}));
    peer.send("RECOMMEND_REQUEST", "1", agent("pub", "g"));
    let package = peer.one();
    assert_eq!(status(&package), ok("RECOMMEND_RESPONSE", "1"));
    assert_eq!(package.1, "10.0.0.1:10000");
    let mut peer = Peer::open(Value::Null);
    peer.send("RECOMMEND_REQUEST", "1", agent("pub", "g"));
    assert_eq!(status(&peer.one()), failed("RECOMMEND_RESPONSE", "1"));
}

#[test]
fn publish_is_acked_when_the_broker_has_it_and_refused_with_its_reason() {
    let mut peer = Peer::greeted(Generation::B);
    peer.send("ASYNC_MESSAGE_TO_SERVER", "10", mesh("t", "hello"));
    assert!(peer.received().is_empty(), "not before it is stored");
    let (id, Request::Publish(publish)) = peer.request() else { panic!("no publish") };
    assert_eq!((publish.exchange.as_str(), publish.keys[0].as_str()), ("amq.topic", "t"));
    assert_eq!((publish.create_topic, publish.persistent, publish.ttl_ms), (true, true, Some(4000)));
    assert_eq!(publish.frame.data(), b"hello");
    peer.script.effect(Effect::Reply(id, Ok(Reply::Published(Published::default()))));
    assert_eq!(status(&peer.one()), ok("ASYNC_MESSAGE_TO_SERVER_ACK", "10"));

    peer.send("BROADCAST_MESSAGE_TO_SERVER", "11", mesh("t", "x"));
    let (id, _) = peer.request();
    let error = BrokerError::NotFound {
        kind: Kind::Exchange,
        name: Name::from_static("amq.topic"),
        vhost: Name::from_static("/"),
    };
    peer.script.effect(Effect::Reply(id, Err(error.clone())));
    let package = peer.one();
    assert_eq!(status(&package), failed("BROADCAST_MESSAGE_TO_SERVER_ACK", "11"));
    assert_eq!(package.0["desc"], error.to_string());
}

#[test]
fn publish_that_makes_no_sense_is_refused_with_the_value() {
    let mut peer = Peer::greeted(Generation::B);
    let cases = [
        (json!({}), json!([]), "body"),
        (json!({}), mesh("a.*", "x"), "a.*"),
        (json!({"protocoltype": "openmessage"}), mesh("t", "x"), "'openmessage'"),
        (json!({}), json!({"topic": "t", "properties": {"bodyencoding": "base64"}, "body": "%"}), "base64"),
        (json!({}), json!({"topic": "t", "properties": {"big": "v".repeat(4097)}, "body": ""}), "4097"),
    ];
    for (properties, body, word) in cases {
        peer.send_as("ASYNC_MESSAGE_TO_SERVER", "1", properties, body);
        let package = peer.one();
        assert_eq!(status(&package), failed("ASYNC_MESSAGE_TO_SERVER_ACK", "1"));
        assert!(package.0["desc"].as_str().unwrap().contains(word), "{}", package.0["desc"]);
    }
    let many: serde_json::Map<String, Value> = (0..65).map(|n| (format!("p{n}"), json!("v"))).collect();
    peer.send("ASYNC_MESSAGE_TO_SERVER", "1", json!({"topic": "t", "properties": many, "body": ""}));
    assert_eq!(status(&peer.one()), failed("ASYNC_MESSAGE_TO_SERVER_ACK", "1"));
    assert!(peer.requests().is_empty());
}

#[test]
fn clustering_joins_the_group_of_the_topic_and_listen_lets_messages_flow() {
    let mut peer = Peer::greeted(Generation::B);
    peer.send("SUBSCRIBE_REQUEST", "2", topics("t", "CLUSTERING", "ASYNC"));
    let requests = peer.requests();
    let [(define, Request::Define(Define::Group(spec))), (consume, Request::ConsumeGroup(consumer, member))] =
        &requests[..]
    else {
        panic!("{requests:?}")
    };
    assert_eq!((spec.topic.as_str(), spec.name.as_str(), member.group.as_str()), ("t", "g", "g"));
    assert_eq!(spec.dead_letter_topic.as_deref(), Some("t_DLQ"));
    assert_eq!((spec.lease_ms, consumer.prefetch), (Some(30_000), Some(0)));
    let other_rules = BrokerError::Inequivalent {
        kind: Kind::Group,
        name: Name::from_static("g"),
        argument: "retry".to_owned(),
        current: "a".to_owned(),
        given: "b".to_owned(),
    };
    peer.script.effect(Effect::Reply(*define, Err(other_rules)));
    assert!(peer.received().is_empty(), "the group is there, with rules of its own");
    peer.script.effect(Effect::Reply(*consume, Ok(Reply::Done)));
    assert_eq!(status(&peer.one()), ok("SUBSCRIBE_RESPONSE", "2"));
    peer.send("LISTEN_REQUEST", "3", Value::Null);
    peer.send("LISTEN_REQUEST", "4", Value::Null);
    let answers: Vec<_> = peer.received().iter().map(status).collect();
    assert_eq!(answers, [ok("LISTEN_RESPONSE", "3"), ok("LISTEN_RESPONSE", "4")]);
    assert_eq!(peer.requests().len(), 1, "credit is given once");
    peer.send("SUBSCRIBE_REQUEST", "5", topics("t", "CLUSTERING", "SYNC"));
    assert_eq!(status(&peer.one()), ok("SUBSCRIBE_RESPONSE", "5"));
    assert!(peer.requests().is_empty(), "it is subscribed already");
}

#[test]
fn subscription_that_the_broker_refuses_is_refused() {
    let mut peer = Peer::greeted(Generation::B);
    peer.send(
        "SUBSCRIBE_REQUEST",
        "2",
        json!({"topicList": [{"topic": "t", "mode": "CLUSTERING", "type": "ASYNC"}, {"topic": "b", "mode": "BROADCASTING", "type": "ASYNC"}]}),
    );
    let error = BrokerError::NotFound {
        kind: Kind::Topic,
        name: Name::from_static("b"),
        vhost: Name::from_static("/"),
    };
    for (id, _) in peer.requests() {
        peer.script.effect(Effect::Reply(id, Ok(Reply::Done)));
    }
    assert!(peer.received().is_empty());
    let consumer = peer.script.subscriptions[0].0;
    peer.script.subscribed(consumer, Err(error.clone()));
    let package = peer.one();
    assert_eq!(status(&package), failed("SUBSCRIBE_RESPONSE", "2"));
    assert_eq!(package.0["desc"], error.to_string());
}

#[test]
fn push_is_acked_by_its_sequence_whatever_the_body_of_the_ack() {
    for generation in [Generation::A, Generation::B] {
        let mut peer = listening(generation, "ASYNC");
        let attributes = [("id", "7"), ("emorigin", "meshmessage"), ("subject", "t"), ("k", "v")];
        peer.script.effect(Effect::Delivery(delivery(1, 5, "t", frame(&attributes, b"hi"))));
        let (header, body) = peer.one();
        assert_eq!(header["cmd"], "ASYNC_MESSAGE_TO_CLIENT");
        assert_eq!(header["properties"]["protocoltype"], "eventmeshmessage");
        assert_eq!(body, json!({"topic": "t", "properties": {"k": "v"}, "headers": {}, "body": "hi"}));
        let seq = header["seq"].as_str().unwrap().to_owned();
        peer.send("ASYNC_MESSAGE_TO_CLIENT_ACK", &seq, json!(body.to_string()));
        let (_, Request::Settle(Settle { lease: Lease::Positions(_, seqs), outcome, .. })) = peer.request()
        else {
            panic!("no settlement")
        };
        assert_eq!((seqs, outcome), (vec![Seq(5)], Outcome::Ack));
        peer.send("ASYNC_MESSAGE_TO_CLIENT_ACK", &seq, Value::Null);
        peer.send("ASYNC_MESSAGE_TO_CLIENT_ACK", "nonsense", Value::Null);
        assert!(peer.requests().is_empty(), "a second ack says nothing");
    }
}

#[test]
fn push_that_fits_no_package_is_given_back_as_undeliverable() {
    let mut peer = listening(Generation::B, "ASYNC");
    let attributes = [("emorigin", "meshmessage"), ("subject", "t")];
    let large = vec![b'x'; 4 * 1024 * 1024];
    peer.script.effect(Effect::Delivery(delivery(1, 5, "t", frame(&attributes, &large))));
    assert!(peer.received().is_empty());
    let (_, Request::Settle(settle)) = peer.request() else { panic!("no settlement") };
    assert_eq!(settle.outcome, Outcome::Undeliverable);
}

#[test]
fn unsubscribe_ends_the_topics_named_or_all() {
    let mut peer = listening(Generation::B, "ASYNC");
    peer.send("UNSUBSCRIBE_REQUEST", "5", topics("other", "CLUSTERING", "ASYNC"));
    assert_eq!(status(&peer.one()), ok("UNSUBSCRIBE_RESPONSE", "5"));
    assert!(peer.requests().is_empty());
    peer.send("UNSUBSCRIBE_REQUEST", "6", Value::Null);
    assert_eq!(status(&peer.one()), ok("UNSUBSCRIBE_RESPONSE", "6"));
    assert!(matches!(peer.request().1, Request::Cancel(_)));
    peer.script.effect(Effect::Delivery(delivery(1, 5, "t", frame(&[], b""))));
    let (_, Request::Settle(settle)) = peer.request() else { panic!("no settlement") };
    assert_eq!(settle.outcome, Outcome::Requeue { delay_ms: 0 }, "it was on the way");
}

/// The caller's requests: the reply queue, its consumer and the event.
fn call(peer: &mut Peer) -> (RequestId, String, String) {
    peer.send("REQUEST_TO_SERVER", "20", mesh("t", "ping"));
    let requests = peer.requests();
    let [(_, Request::Define(Define::Queue(queue))), (_, Request::Consume(_)), (id, Request::Publish(event))] =
        &requests[..]
    else {
        panic!("{requests:?}")
    };
    let attribute = |name: &str| event.frame.attr(name).unwrap().to_owned();
    assert_eq!(attribute("replyto"), queue.name.as_str());
    assert_eq!((queue.exclusive, event.ttl_ms), (true, Some(4000)));
    (*id, attribute("emcorrelationid"), attribute("replyto"))
}

#[test]
fn call_reaches_a_responder_and_its_response_comes_back() {
    let mut caller = Peer::greeted(Generation::B);
    let (id, correlation, reply_to) = call(&mut caller);
    caller.script.effect(Effect::Reply(id, Ok(Reply::Published(Published::default()))));
    assert!(caller.received().is_empty());

    let mut responder = listening(Generation::A, "SYNC");
    let attributes = [
        ("emorigin", "meshmessage"),
        ("subject", "t"),
        ("emcorrelationid", &*correlation),
        ("replyto", &*reply_to),
    ];
    responder.script.effect(Effect::Delivery(delivery(1, 1, "t", frame(&attributes, b"ping"))));
    let (header, body) = responder.one();
    assert_eq!(header["cmd"], "REQUEST_TO_CLIENT");
    assert_eq!(body["properties"]["emcorrelationid"], *correlation);
    // as the SDK does: a new sequence, topic and properties copied
    responder.send(
        "RESPONSE_TO_SERVER",
        "77",
        json!({"topic": "t", "properties": body["properties"], "headers": {}, "body": "pong"}),
    );
    let (_, Request::Publish(reply)) = responder.request() else { panic!("no reply") };
    assert_eq!((reply.exchange.as_str(), reply.keys[0].as_str()), ("", &*reply_to));
    assert_eq!(reply.frame.attr("emcorrelationid"), Some(&*correlation));
    responder.send("RESPONSE_TO_SERVER", "78", mesh("t", "again"));
    assert!(responder.requests().is_empty(), "a call is answered once");

    caller.script.effect(Effect::Delivery(delivery(0, 1, "q", reply.frame)));
    let (header, body) = caller.one();
    assert_eq!((header["cmd"].as_str(), header["seq"].as_str()), (Some("RESPONSE_TO_CLIENT"), Some("20")));
    assert_eq!(body["body"], "pong");
    caller.send("RESPONSE_TO_CLIENT_ACK", "20", Value::Null);
    assert!(caller.received().is_empty());
}

#[test]
fn response_without_correlation_answers_the_oldest_call_of_its_topic() {
    let mut responder = listening(Generation::B, "SYNC");
    for correlation in ["c1", "c2"] {
        let attributes = [("subject", "t"), ("emcorrelationid", correlation), ("replyto", "q")];
        responder.script.effect(Effect::Delivery(delivery(1, 1, "t", frame(&attributes, b"ping"))));
    }
    responder.received();
    for correlation in ["c1", "c2"] {
        responder.send("RESPONSE_TO_SERVER", "77", mesh("t", "pong"));
        let (_, Request::Publish(reply)) = responder.request() else { panic!("no reply") };
        assert_eq!(reply.frame.attr("emcorrelationid"), Some(correlation));
    }
}

#[test]
fn call_that_nobody_answers_fails_when_its_time_has_passed() {
    let mut caller = Peer::greeted(Generation::B);
    let (id, ..) = call(&mut caller);
    caller.script.effect(Effect::Reply(id, Ok(Reply::Published(Published::default()))));
    caller.script.tick(Duration::from_secs(1));
    caller.script.tick(Duration::from_millis(4999));
    assert!(caller.received().is_empty());
    caller.script.tick(Duration::from_secs(5));
    assert_eq!(status(&caller.one()), failed("RESPONSE_TO_CLIENT", "20"));
}

#[test]
fn goodbye_is_answered_and_what_was_held_goes_to_others() {
    let mut peer = listening(Generation::B, "ASYNC");
    peer.send("CLIENT_GOODBYE_REQUEST", "30", Value::Null);
    assert_eq!(status(&peer.one()), ok("CLIENT_GOODBYE_RESPONSE", "30"));
    let requests = peer.requests();
    assert!(matches!(requests[0].1, Request::Cancel(_)) && matches!(requests[1].1, Request::Recover(None)));
    assert!(peer.script.closed.is_none(), "the client closes first");
    peer.script.tick(Duration::from_secs(1));
    peer.script.tick(Duration::from_secs(31));
    assert!(peer.script.closed.is_some());
}

#[test]
fn stopping_server_says_goodbye_with_a_sequence_and_waits_for_what_is_in_progress() {
    let mut peer = Peer::greeted(Generation::B);
    peer.send("ASYNC_MESSAGE_TO_SERVER", "10", mesh("t", "hello"));
    let (id, _) = peer.request();
    peer.script.drain();
    let (header, _) = peer.one();
    assert_eq!((header["cmd"].as_str(), header["code"].as_i64()), (Some("SERVER_GOODBYE_REQUEST"), Some(0)));
    assert!(header["seq"].is_string());
    assert!(peer.script.closed.is_none());
    peer.script.effect(Effect::Reply(id, Ok(Reply::Published(Published::default()))));
    assert_eq!(status(&peer.one()), ok("ASYNC_MESSAGE_TO_SERVER_ACK", "10"));
    assert!(peer.script.closed.is_some());
}

#[test]
fn silent_clients_are_closed_and_heartbeats_keep_a_connection() {
    let mut peer = Peer::greeted(Generation::B);
    peer.script.tick(Duration::from_secs(1));
    peer.script.tick(Duration::from_secs(100));
    peer.send("HEARTBEAT_REQUEST", "1", Value::Null);
    peer.script.tick(Duration::from_secs(119));
    peer.script.tick(Duration::from_secs(230));
    assert!(peer.script.closed.is_none());
    peer.received();
    peer.script.tick(Duration::from_secs(240));
    assert_eq!(peer.one().0["cmd"], "SERVER_GOODBYE_REQUEST");
    assert!(peer.script.closed.is_some());

    let mut peer = Peer::open(Value::Null);
    peer.script.tick(Duration::from_secs(30));
    assert!(peer.script.failed.is_some());
}

#[test]
fn conversation_is_the_same_however_its_bytes_are_split() {
    let conversation: Vec<u8> = [
        ("HELLO_REQUEST", "1", agent("sub", "g")),
        ("SUBSCRIBE_REQUEST", "2", topics("t", "CLUSTERING", "ASYNC")),
        ("LISTEN_REQUEST", "3", Value::Null),
        ("ASYNC_MESSAGE_TO_SERVER", "4", mesh("t", "caf\u{e9}")),
        ("HEARTBEAT_REQUEST", "5", Value::Null),
    ]
    .iter()
    .flat_map(|(command, seq, body)| {
        let header = json!({"cmd": command, "code": 0, "seq": seq, "properties": {}});
        harness::package(Generation::A, &header, body)
    })
    .collect();
    let outcome = |peer: &mut Peer| (peer.received(), format!("{:?}", peer.requests()));
    let mut whole = Peer::with(Value::Null, Generation::A, |script| script);
    whole.script.feed(&conversation);
    let expected = outcome(&mut whole);
    assert_eq!(expected.0.len(), 3);
    for split in 0..=conversation.len() {
        let mut peer = Peer::with(Value::Null, Generation::A, |script| script);
        peer.script.feed(&conversation[..split]);
        peer.script.feed(&conversation[split..]);
        assert_eq!(outcome(&mut peer), expected, "split at {split}");
    }
    let mut peer = Peer::with(Value::Null, Generation::A, |script| script);
    peer.script.feed_in_pieces(&conversation, 1);
    assert_eq!(outcome(&mut peer), expected);
}

#[test]
fn bytes_that_are_no_package_end_the_connection_with_a_reason() {
    for input in [
        b"GET / HTTP/1.1\r\n\r\nxxxxxxx".to_vec(),
        harness::package(Generation::B, &json!({"cmd": "X"}), &Value::Null),
    ] {
        let mut peer = Peer::open(Value::Null);
        peer.script.feed(&input);
        assert!(peer.script.failed.is_some());
        assert_eq!(peer.one().0["cmd"], "SERVER_GOODBYE_REQUEST");
    }
}
