//! Messages between MessageX and others, by the adaptor alone: what survives, and the table of what does not.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod harness;

use bytes::Bytes;
use framegate_adaptor_api::{AdaptError, Adaptors, Egress, Inbound, WireMessage};
use framegate_broker::{Envelope, HeaderTable, HeaderValue, Name};
use framegate_frame::{Frame, FrameBuilder, FrameHead, FrameKind, Limits, Private};
use harness::{frame, origin};
use serde_json::{Value, json};

fn inbound(head: &Value, body: &Value) -> Inbound {
    let adaptors = Adaptors::collect().unwrap();
    let adaptor = adaptors.get("messagex").unwrap();
    let message = WireMessage { head: head.to_string().into(), body: body.to_string().into() };
    adaptor.to_frame(message).unwrap()
}

fn outbound_with(
    frame: &Frame,
    envelope: &Envelope,
    headers: &HeaderTable,
) -> Result<(Value, Value), AdaptError> {
    let adaptors = Adaptors::collect().unwrap();
    let origin = origin(12);
    let wire =
        adaptors.get("messagex").unwrap().to_wire(Egress { envelope, frame, origin: &origin, headers })?;
    Ok((serde_json::from_slice(&wire.head).unwrap(), serde_json::from_slice(&wire.body).unwrap()))
}

fn outbound(frame: &Frame, envelope: &Envelope) -> (Value, Value) {
    outbound_with(frame, envelope, Adaptors::collect().unwrap().headers()).unwrap()
}

fn envelope_of(inbound: &Inbound) -> Envelope {
    Envelope { persistent: inbound.persistent, priority: inbound.priority, ..Envelope::default() }
}

/// MessageX to MessageX: body deep equal, properties and headers as given, with what is missing added.
#[test]
fn everything_comes_back_to_messagex() {
    let bodies = [
        json!("caf\u{e9} \"quoted\" \u{1}\u{7f}\u{1F600}"),
        json!(""),
        json!({"id": 7, "nested": {"a": [1, 2.5, null, true]}}),
        json!([1, 2]),
        json!(12345678901234567890_u64),
        json!(null),
        json!(false),
        json!("{\"a\":1}"),
    ];
    let heads = [
        json!({}),
        json!({"properties": {"contentType": "application/json"}}),
        json!({"properties": {"contentType": "text/html", "messageId": "m"}}),
        json!({"properties": {"messageId": "m", "deliveryMode": 1, "priority": 3, "correlationId": "c", "replyTo": "q",
            "expiration": "60000", "timestamp": 1_704_164_645_123_u64, "type": "t", "userId": "u", "appId": "a",
            "contentEncoding": "gzip", "own": {"x": 1}},
            "headers": {"s": "t", "n": 1.5, "deep": {"a": ["\u{e9}"]}, "none": null}}),
        json!({"headers": {"tenant": "a"}, "persistent": true}),
    ];
    for body in &bodies {
        for head in &heads {
            let inbound = inbound(head, body);
            let (got, got_body) = outbound(&inbound.frame, &envelope_of(&inbound));
            assert_eq!(&got_body, body, "{head}");
            assert!(got.get("encoding").is_none());
            for (name, value) in head["properties"].as_object().into_iter().flatten() {
                assert_eq!(&got["properties"][name], value, "{name} of {head}");
            }
            assert_eq!(got["headers"], head.get("headers").cloned().unwrap_or(json!({})));
            assert!(got["properties"]["messageId"].is_string());
            if head["persistent"] == true {
                assert_eq!(got["properties"]["deliveryMode"], 2);
            }
        }
    }
}

#[test]
fn bytes_come_back_with_their_encoding_even_when_they_are_text() {
    for (text, data) in [("AAH/", &[0, 1, 255][..]), ("aGk=", b"hi"), ("aGk", b"hi"), ("", b"")] {
        let inbound = inbound(&json!({"encoding": "base64"}), &json!(text));
        assert_eq!(inbound.frame.data(), data);
        let (head, body) = outbound(&inbound.frame, &Envelope::default());
        assert_eq!(head["encoding"], "base64");
        assert_eq!(body.as_str().unwrap().trim_end_matches('='), text.trim_end_matches('='));
    }
}

#[test]
fn attributes_say_what_others_need() {
    let head = json!({"properties": {"messageId": "m", "type": "t", "timestamp": 1_704_164_645_000_u64,
        "correlationId": "c", "replyTo": "q", "priority": 7, "deliveryMode": 2}});
    let inbound = inbound(&head, &json!({"a": 1}));
    let attributes: Vec<_> = inbound.frame.attrs().collect();
    assert_eq!(
        attributes,
        [
            ("id", "m"),
            ("type", "t"),
            ("datacontenttype", "application/json"),
            ("time", "2024-01-02T03:04:05Z"),
            ("emcorrelationid", "c"),
            ("replyto", "q"),
        ],
        "no private attribute when attributes and envelope say everything"
    );
    assert_eq!(
        (inbound.persistent, inbound.priority, inbound.frame.data()),
        (true, Some(7), &b"{\"a\":1}"[..])
    );
    let (got, _) = outbound(&inbound.frame, &envelope_of(&inbound));
    for (name, value) in head["properties"].as_object().unwrap() {
        assert_eq!(&got["properties"][name], value, "{name}");
    }
    let plain = |body: &Value| inbound_type(body);
    assert_eq!(plain(&json!("x")).as_deref(), Some("text/plain"));
    assert_eq!(plain(&json!([1])).as_deref(), Some("application/json"));
}

fn inbound_type(body: &Value) -> Option<String> {
    inbound(&json!({}), body).frame.attr("datacontenttype").map(str::to_owned)
}

#[test]
fn white_space_of_a_body_is_not_kept() {
    let adaptors = Adaptors::collect().unwrap();
    let message = WireMessage { head: Bytes::new(), body: Bytes::from_static(b" {\n \"a b\" : [1, 2] }\n") };
    let inbound = adaptors.get("messagex").unwrap().to_frame(message).unwrap();
    assert_eq!(inbound.frame.data(), br#"{"a b":[1,2]}"#);
}

#[test]
fn headers_are_typed_for_routing() {
    let inbound = inbound(
        &json!({"headers": {"t": "x", "i": 5, "f": 0.5, "b": true, "n": null, "o": {"a": [1]}}}),
        &json!(1),
    );
    let mut seen = Vec::new();
    let table = Adaptors::collect().unwrap().headers().clone();
    table.read(&inbound.frame, &mut |name, value| seen.push((name.to_owned(), value.into_owned())));
    let expected = [
        ("t", HeaderValue::Text("x".into())),
        ("i", HeaderValue::Int(5)),
        ("f", HeaderValue::Float(0.5)),
        ("b", HeaderValue::Bool(true)),
        ("n", HeaderValue::Null),
        ("o", HeaderValue::Text(r#"{"a":[1]}"#.into())),
    ];
    assert_eq!(seen, expected.map(|(name, value)| (name.to_owned(), value)));
}

#[test]
fn bodies_of_others_follow_content_type_and_bytes() {
    for (content_type, data, body, encoding) in [
        (Some("application/json"), &b"{ \"a\": 1 }"[..], json!({"a": 1}), None),
        (Some("application/json"), b"{broken", json!("{broken"), None),
        (Some("text/plain"), "caf\u{e9}".as_bytes(), json!("caf\u{e9}"), None),
        (None, b"plain", json!("plain"), None),
        (None, b"\xff\x00", json!("/wA="), Some("base64")),
        (Some("application/msgpack"), b"\x01", json!("AQ=="), Some("base64")),
    ] {
        let attributes: Vec<_> = content_type.map(|given| ("datacontenttype", given)).into_iter().collect();
        let (head, got) = outbound(&frame(&attributes, data), &Envelope::default());
        assert_eq!((got, head["encoding"].as_str()), (body, encoding), "{content_type:?}");
    }
}

/// A frame as the AMQP adaptor would make it, read by a function in its place.
fn foreign_frame() -> (Frame, HeaderTable) {
    fn read(_: &Frame, visit: &mut dyn FnMut(&str, HeaderValue<'_>)) {
        visit("text", HeaderValue::Text("t".into()));
        visit("int", HeaderValue::Int(-3));
        visit("float", HeaderValue::Float(2.0));
        visit("nan", HeaderValue::Float(f64::NAN));
        visit("bytes", HeaderValue::Bytes((&[0, 255][..]).into()));
        visit("time", HeaderValue::Time(5));
        visit("null", HeaderValue::Null);
    }
    let head = FrameHead::new(FrameKind::Event).private(Some(Private::bytes("other", b"\xff")));
    let builder = FrameBuilder::new(head, [("datacontenttype", "text/plain")], 0, &Limits::GATEWAY).unwrap();
    (builder.finish().unwrap(), HeaderTable::new([("other", read as framegate_broker::HeadersFn)]))
}

#[test]
fn messages_of_others_have_ids_properties_and_headers() {
    let event = frame(
        &[
            ("specversion", "1.0"),
            ("id", "e-1"),
            ("source", "/shop"),
            ("type", "order.created"),
            ("datacontenttype", "application/json"),
            ("subject", "orders/7"),
            ("time", "2024-01-02T03:04:05.678Z"),
            ("emttl", "4000"),
            ("emcorrelationid", "c"),
            ("replyto", "q"),
            ("partitionkey", "k"),
        ],
        b"{}",
    );
    let envelope = Envelope {
        persistent: true,
        priority: Some(4),
        publisher: Some(Name::from_static("ann")),
        ..Envelope::default()
    };
    let (head, _) = outbound(&event, &envelope);
    assert_eq!(
        head,
        json!({
            "properties": {"contentType": "application/json", "correlationId": "c", "replyTo": "q", "type": "order.created",
                "messageId": "e-1", "deliveryMode": 2, "priority": 4, "timestamp": 1_704_164_645_678_u64,
                "expiration": 4000, "userId": "ann"},
            "headers": {"cloudEvents:source": "/shop", "cloudEvents:subject": "orders/7", "partitionkey": "k"},
        })
    );
    let (foreign, table) = foreign_frame();
    let (head, _) = outbound_with(&foreign, &Envelope::default(), &table).unwrap();
    assert_eq!(head["properties"]["messageId"], "3-12", "the same at each delivery");
    assert_eq!(
        head["headers"],
        json!({"text": "t", "int": -3, "float": 2.0, "nan": null, "bytes": "AP8=", "time": 5000, "null": null})
    );
}

/// The table in `lib.rs`: what a frame does not say to others, and what this protocol does not say of theirs.
#[test]
fn what_does_not_survive_is_what_the_table_says() {
    let head = json!({"properties": {"contentEncoding": "gzip", "appId": "a", "userId": "u", "own": 1, "messageId": "m"},
        "headers": {"deep": {"a": 1}}});
    let inbound = inbound(&head, &json!("x"));
    let public: Vec<_> = inbound.frame.attrs().filter(|(name, _)| !name.starts_with('~')).collect();
    assert_eq!(public, [("id", "m"), ("datacontenttype", "text/plain")]);
    // Nested headers are text to others.
    let mut deep = None;
    let table = Adaptors::collect().unwrap().headers().clone();
    table.read(&inbound.frame, &mut |_, value| deep = Some(value.into_owned()));
    assert_eq!(deep, Some(HeaderValue::Text(r#"{"a":1}"#.into())));

    // specversion is not shown; bytes in headers are base64 text.
    let (head, _) = outbound(&frame(&[("specversion", "1.0")], b""), &Envelope::default());
    assert_eq!(head["headers"], json!({}));
    let (foreign, table) = foreign_frame();
    let (head, _) = outbound_with(&foreign, &Envelope::default(), &table).unwrap();
    assert!(head["headers"]["bytes"].is_string());

    // Text whose type says JSON, from elsewhere, is a JSON value here.
    let (_, body) =
        outbound(&frame(&[("datacontenttype", "application/json")], b"\"x\""), &Envelope::default());
    assert_eq!(body, json!("x"));

    // Larger than a packet.
    for data in [vec![0xFF; 900 * 1024], vec![b'"'; 600 * 1024], vec![b'a'; 1_048_577]] {
        let table = HeaderTable::default();
        let refused = outbound_with(&frame(&[], &data), &Envelope::default(), &table);
        assert!(matches!(refused, Err(AdaptError::Undeliverable { .. })));
    }
}

#[test]
fn expiration_is_gone_after_death_by_it() {
    let inbound = inbound(&json!({"properties": {"expiration": 10, "appId": "a"}}), &json!(1));
    assert_eq!(inbound.ttl_ms, Some(10));
    let death = framegate_broker::Death {
        queue: Name::from_static("q"),
        reason: framegate_broker::DeathReason::Expired,
        exchange: Name::default(),
        keys: framegate_broker::Keys::new(),
        count: 1,
        time_ms: 1,
        ttl_ms: Some(10),
    };
    let (head, _) = outbound(&inbound.frame, &Envelope { deaths: vec![death], ..Envelope::default() });
    assert!(head["properties"].get("expiration").is_none());
    assert_eq!(head["properties"]["appId"], "a");
}

#[test]
fn bad_messages_are_named() {
    let adaptors = Adaptors::collect().unwrap();
    let adaptor = adaptors.get("messagex").unwrap();
    for (head, body, part) in [
        ("{}", "{", "body"),
        ("[]", "1", "head"),
        (r#"{"headers":1}"#, "1", "headers"),
        (r#"{"properties":{"priority":-1}}"#, "1", "properties.priority"),
        (r#"{"encoding":"base64"}"#, "\"*\"", "body"),
        ("{}", "\"\\ud800\"", "body"),
    ] {
        let message = WireMessage { head: head.to_owned().into(), body: body.to_owned().into() };
        match adaptor.to_frame(message) {
            Err(AdaptError::Invalid { what, .. }) => assert_eq!(what, part, "{head}"),
            other => panic!("{head} {body}: {other:?}"),
        }
    }
    let message = WireMessage { head: Bytes::from_static(b"\xff"), body: Bytes::from_static(b"1") };
    assert!(adaptor.to_frame(message).is_err());
}
