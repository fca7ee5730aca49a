//! Logins, publishes, mistakes, and the plain binding.

use std::time::Duration;

use super::*;

#[test]
fn the_first_operation_decides_who_logs_in() {
    let mut c = Harness::open(false, &WebSocketRequest::default());
    assert!(c.out.login.is_none(), "nobody is known yet");
    c.send(&json!({"op": "hello", "id": "h", "token": "tok"}));
    assert_eq!(c.out.login.as_ref().unwrap().credentials, Credentials::Token(Secret("tok".into())));
    c.log_in("ann");
    let welcome = c.one();
    assert_eq!(
        (&welcome["op"], &welcome["id"], &welcome["session"]),
        (&json!("welcome"), &json!("h"), &json!("s9"))
    );
    assert_eq!(welcome["limits"], json!({"maxMessage": 1_048_576, "maxInflight": 1000, "maxSubs": 100}));
}

#[test]
fn credentials_of_the_upgrade_or_the_query_log_in_at_once() {
    let token = Credentials::Token(Secret("tok".into()));
    let upgrade = WebSocketRequest { credentials: Some(token.clone()), ..WebSocketRequest::default() };
    let query = vec![("access_token".to_owned(), "tok".to_owned())];
    let by_query = WebSocketRequest { query, ..WebSocketRequest::default() };
    for request in [upgrade, by_query] {
        let mut c = Harness::open(false, &request);
        assert_eq!(c.out.login.as_ref().unwrap().credentials, token);
        c.log_in("ann");
        c.send(&json!({"op": "ping", "id": 1}));
        assert_eq!(c.one(), json!({"op": "pong", "id": 1}));
    }
}

#[test]
fn nobody_and_a_wrong_token_are_closed_with_4401() {
    let mut c = Harness::open(false, &WebSocketRequest::default());
    c.send(&json!({"op": "ping", "id": 1}));
    assert_eq!(c.one()["code"], "unauthenticated");
    assert_eq!(c.out.close.as_ref().unwrap().code, 4401);
    let mut c = Harness::open(false, &WebSocketRequest::default());
    c.send(&json!({"op": "hello", "id": 7, "token": "no"}));
    c.session.logged_in(Err(LoginError::Refused), &mut c.out).unwrap();
    let refused = c.one();
    assert_eq!((&refused["id"], &refused["status"]), (&json!(7), &json!(401)));
    assert_eq!(c.out.close.as_ref().unwrap().code, 4401);
}

#[test]
fn a_client_that_never_says_who_it_is_is_closed() {
    let mut c = Harness::open(false, &WebSocketRequest::default());
    let at = c.session.tick(Duration::ZERO, &mut c.out).unwrap();
    assert!(c.out.close.is_none());
    c.session.tick(at, &mut c.out).unwrap();
    assert_eq!(
        (c.one()["code"].clone(), c.out.close.as_ref().unwrap().code),
        (json!("unauthenticated"), 4401)
    );
    let mut c = Harness::open(true, &WebSocketRequest::default());
    assert_eq!(c.session.tick(at, &mut c.out).unwrap(), Duration::MAX, "anonymous clients may wait");
}

#[test]
fn pages_of_other_origins_are_refused() {
    let mut context = context(true);
    context.settings = Arc::new(json!({"cors_origins": ["https://a.example"]}));
    let from =
        |origin: &str| WebSocketRequest { origin: Some(origin.to_owned()), ..WebSocketRequest::default() };
    assert!(open(&context, &from("https://evil.example")).is_err());
    assert!(open(&context, &from("https://a.example")).is_ok());
    assert!(open(&context, &WebSocketRequest::default()).is_ok(), "not from a page");
}

#[test]
fn a_publish_is_answered_when_it_is_stored() {
    let mut c = Harness::ready();
    let event: Value = serde_json::from_str(EVENT).unwrap();
    c.send(&json!({"op": "publish", "id": 3, "topic": "t", "event": event}));
    assert!(c.messages().is_empty(), "not before it is stored");
    let (id, request) = c.request();
    let Request::Publish(publish) = request else { panic!("{request:?}") };
    assert!(publish.create_topic && publish.persistent && publish.dedup.is_some());
    assert_eq!(publish.keys[0], "t");
    let published = Published { offset: Some(Offset(5)), cursor: Some(cursor(9)), ..Published::default() };
    c.effect(Effect::Reply(id, Ok(Reply::Published(published))));
    assert_eq!(c.one(), json!({"op": "ok", "id": 3, "offset": "5", "duplicate": false, "cursor": "5.0:9"}));
    c.send(&json!({"op": "publish", "id": 4, "topic": "t", "events": [event, event]}));
    let (id, request) = c.request();
    assert!(matches!(&request, Request::Atomic(all) if all.len() == 2));
    c.effect(Effect::Reply(id, Err(BrokerError::Conflict)));
    let refused = c.one();
    assert_eq!((&refused["code"], &refused["status"]), (&json!("conflict"), &json!(409)));
}

#[test]
fn mistakes_are_answered_with_a_code_and_the_connection_stays() {
    let mut c = Harness::ready();
    let cases = [
        (json!({"op": "jump", "id": 1}), "unknown_op", 400),
        (json!({"id": 1}), "bad_request", 400),
        (json!({"op": "ping", "id": {}}), "bad_request", 400),
        (json!({"op": "subscribe", "id": 1, "sub": "s"}), "bad_request", 400),
        (json!({"op": "subscribe", "id": 1, "topic": "t"}), "bad_request", 400),
        (json!({"op": "subscribe", "id": 1, "sub": "s", "topic": "t", "queue": "q"}), "bad_request", 400),
        (json!({"op": "subscribe", "id": 1, "sub": "s", "topic": "t", "credit": 1001}), "bad_request", 400),
        (json!({"op": "subscribe", "id": 1, "sub": "s", "topic": "t", "ack": "maybe"}), "bad_request", 400),
        (
            json!({"op": "subscribe", "id": 1, "sub": "s", "topic": "t", "from": {"time": "x"}}),
            "bad_request",
            400,
        ),
        (
            json!({"op": "subscribe", "id": 1, "sub": "s", "topic": "t", "mode": "group"}),
            "not_implemented",
            501,
        ),
        (json!({"op": "subscribe", "id": 1, "sub": "s", "topic": "t", "filters": [{}]}), "bad_request", 400),
        (json!({"op": "unsubscribe", "id": 1, "sub": "none"}), "not_found", 404),
        (json!({"op": "ack", "id": 1, "sub": "none", "ackIds": ["a1"]}), "not_found", 404),
        (json!({"op": "ack", "id": 1, "sub": "none"}), "bad_request", 400),
        (json!({"op": "publish", "id": 1, "topic": "t"}), "bad_request", 400),
        (json!({"op": "publish", "id": 1, "topic": "t", "event": {"id": "x"}}), "invalid_event", 400),
        (
            json!({"op": "publish", "id": 1, "topic": "a.*", "event": serde_json::from_str::<Value>(EVENT).unwrap()}),
            "bad_request",
            400,
        ),
        (json!({"op": "request", "id": 1, "topic": "t"}), "not_implemented", 501),
        (json!({"op": "history", "id": 1, "topic": "t"}), "not_implemented", 501),
        (json!({"op": "presence", "id": 1, "topic": "t"}), "not_implemented", 501),
        (json!(5), "bad_request", 400),
        (json!([[]]), "bad_request", 400),
    ];
    for (op, code, status) in cases {
        c.send(&op);
        let answer = c.one();
        assert_eq!(
            (&answer["op"], &answer["code"], &answer["status"]),
            (&json!("error"), &json!(code), &json!(status)),
            "{op}"
        );
        assert!(c.out.close.is_none() && c.out.requests.is_empty(), "{op}");
    }
    c.send(&json!({"op": "publish", "id": 1, "topic": "t", "events": [serde_json::from_str::<Value>(EVENT).unwrap(), {"id": "x"}]}));
    assert_eq!(c.one()["errors"][0]["pointer"], "/1/specversion");
}

#[test]
fn invalid_json_closes_at_the_third_time() {
    let mut c = Harness::ready();
    for text in ["{", "[1,"] {
        c.send_text(text);
        assert_eq!(c.one()["code"], "invalid_json");
        assert!(c.out.close.is_none());
    }
    c.send_text("no");
    assert_eq!(c.out.close.as_ref().unwrap().code, 4400);
}

#[test]
fn an_array_is_answered_in_order() {
    let mut c = Harness::ready();
    let event: Value = serde_json::from_str(EVENT).unwrap();
    c.send(&json!([{"op": "publish", "id": 1, "topic": "t", "event": event}, {"op": "ping", "id": 2}, {"op": "jump"}]));
    assert!(c.messages().is_empty(), "the ping waits for the publish before it");
    let (id, _) = c.request();
    c.effect(Effect::Reply(id, Ok(Reply::Published(Published::default()))));
    let ids: Vec<_> = c.messages().iter().map(|m| (m["op"].clone(), m["id"].clone())).collect();
    assert_eq!(ids, [(json!("ok"), json!(1)), (json!("pong"), json!(2)), (json!("error"), json!(null))]);
}

#[test]
fn the_plain_binding_carries_events_both_ways() {
    let query =
        vec![("topic".to_owned(), "pure".to_owned()), ("lastEventId".to_owned(), "earliest".to_owned())];
    let request =
        WebSocketRequest { query, subprotocol: Some("cloudevents.json"), ..WebSocketRequest::default() };
    let mut c = Harness::open(true, &request);
    c.log_in("guest");
    let (consumer, what) = c.out.subscribe.remove(0);
    assert_eq!((what.patterns[0].as_str(), what.from), ("pure", Start::Earliest));
    c.send_text(EVENT);
    let (_, request) = c.request();
    let Request::Publish(publish) = request else { panic!("{request:?}") };
    assert_eq!(publish.keys[0], "pure");
    assert!(c.feed(consumer, 1));
    assert_eq!(c.one()["id"], "1");
    c.send_text("{}");
    assert_eq!(c.out.close.as_ref().unwrap().code, 1007);
    let nothing = WebSocketRequest { subprotocol: Some("cloudevents.json"), ..WebSocketRequest::default() };
    assert!(open(&context(true), &nothing).is_err());
}

#[test]
fn random_messages_never_break_a_session() {
    let mut state = 0x1234_5678_9ABC_DEF0_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let seeds = [
        r#"{"op":"subscribe","id":1,"sub":"s","topic":"t","from":{"time":"2026-01-01T00:00:00Z"},"credit":5}"#,
        r#"[{"op":"publish","id":1,"topic":"t","event":{"specversion":"1.0","id":"1","source":"/","type":"t"}}]"#,
        r#"{"op":"ack","id":1,"sub":"s","ackIds":["a1","b","a99999999999999999999"]}"#,
        r#"{"op":"extend","id":"x","sub":"s","ackIds":["a1"],"by":18446744073709551615}"#,
    ];
    for _ in 0..5000 {
        let mut c = Harness::ready();
        for _ in 0..3 {
            let mut bytes = seeds[(next() % 4) as usize].as_bytes().to_vec();
            for _ in 0..(next() % 3) {
                let at = (next() % bytes.len() as u64) as usize;
                bytes[at] = next() as u8;
            }
            c.session.read(&bytes, &mut c.out).unwrap();
        }
        c.messages();
    }
}
