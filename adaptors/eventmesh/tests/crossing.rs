//! Messages between MeshMessage and others, by the adaptors alone: what survives, and the table of what does not.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod harness;

use framegate_adaptor_api::compliance::{Samples, check_adaptors};
use framegate_adaptor_api::{AdaptError, Adaptors, Egress, Inbound, WireMessage};
use framegate_broker::{Envelope, HeaderTable, HeaderValue};
use framegate_frame::{Frame, FrameBuilder, FrameHead, FrameKind, Limits, Private};
use harness::{frame, origin};
use serde_json::{Value, json};

fn inbound(head: &Value, body: &Value) -> Result<Inbound, AdaptError> {
    let adaptors = Adaptors::collect().unwrap();
    let message = WireMessage { head: head.to_string().into(), body: body.to_string().into() };
    adaptors.get("meshmessage").unwrap().to_frame(message)
}

fn outbound(frame: &Frame, headers: &HeaderTable) -> Value {
    let adaptors = Adaptors::collect().unwrap();
    let (envelope, origin) = (Envelope::default(), origin("t"));
    let message = Egress { envelope: &envelope, frame, origin: &origin, headers };
    let wire = adaptors.get("meshmessage").unwrap().to_wire(message).unwrap();
    serde_json::from_slice(&wire.body).unwrap()
}

fn plain(frame: &Frame) -> Value {
    outbound(frame, &HeaderTable::default())
}

#[test]
fn message_comes_back_to_its_own_protocol() {
    let message = json!({
        "topic": "orders",
        "properties": {"ttl": "4000", "keys": "k", "emcorrelationid": "c", "empty": ""},
        "headers": {"datacontenttype": "text/plain", "time": "2026-01-01T00:00Z"},
        "body": "caf\u{e9} \"quoted\" \u{1}\u{1F600}",
    });
    let inbound = inbound(&json!({"seq": "9"}), &message).unwrap();
    assert_eq!((inbound.ttl_ms, inbound.persistent), (Some(4000), true));
    assert_eq!(plain(&inbound.frame), message);
}

#[test]
fn names_that_properties_may_not_set_and_nulls_are_dropped_and_headers_become_properties() {
    let message = json!({
        "topic": "t",
        "properties": {"id": "mine", "subject": "b", "source": "x", "type": "y", "specversion": "2", "emorigin": "z",
            "emmqoffset": "1", "empopck": "1", "~amqp": "1", "none": null, "k": "p", "n": 7, "flag": true},
        "headers": {"k": "h", "own": "header"},
        "body": "x",
    });
    let frame = inbound(&json!({"seq": "9"}), &message).unwrap().frame;
    let attributes: Vec<_> = frame.attrs().collect();
    assert_eq!(
        attributes,
        [
            ("specversion", "1.0"),
            ("id", "9"),
            ("source", "/"),
            ("type", "eventmeshmessage"),
            ("subject", "t"),
            ("emorigin", "meshmessage"),
            ("k", "h"),
            ("n", "7"),
            ("flag", "true"),
            ("own", "header"),
        ]
    );
    let back = plain(&frame);
    assert_eq!(back["properties"], json!({"k": "h", "n": "7", "flag": "true", "own": "header"}));
    assert_eq!(back["headers"], json!({}));
}

#[test]
fn other_protocols_lose_context_and_the_types_of_headers() {
    let attributes = [
        ("id", "1"),
        ("source", "/s"),
        ("type", "t"),
        ("datacontenttype", "application/json"),
        ("time", "2026-01-01T00:00:00Z"),
        ("subject", "orders"),
        ("partitionkey", "p"),
    ];
    let expected =
        json!({"topic": "orders", "properties": {"partitionkey": "p"}, "headers": {}, "body": "{\"a\":1}"});
    assert_eq!(plain(&frame(&attributes, b"{\"a\":1}")), expected);

    let head = FrameHead::new(FrameKind::Event).private(Some(Private::bytes("toy", b"")));
    let builder = FrameBuilder::new(head, [("id", "1")], 0, &Limits::GATEWAY).unwrap();
    let table = HeaderTable::new([(
        "toy",
        (|_, visit| {
            visit("count", HeaderValue::Int(7));
            visit("raw", HeaderValue::Bytes(vec![255, 254].into()));
            visit("none", HeaderValue::Null);
            visit("subject", HeaderValue::Text("elsewhere".into()));
        }) as framegate_broker::HeadersFn,
    )]);
    let back = outbound(&builder.finish().unwrap(), &table);
    assert_eq!(back["topic"], "t", "without a subject it is where it was delivered from");
    assert_eq!(back["properties"], json!({"count": "7", "raw": "//4="}));
}

#[test]
fn body_that_is_no_text_is_base64_both_ways() {
    let back = plain(&frame(&[("subject", "t")], &[255, 254]));
    assert_eq!(back["properties"], json!({"bodyencoding": "base64"}));
    assert_eq!(back["body"], "//4=");
    let again = inbound(&json!({}), &back).unwrap().frame;
    assert_eq!((again.data(), again.attr("bodyencoding")), (&[255, 254][..], None));
}

#[test]
fn message_may_be_wrapped_in_a_string_and_its_body_may_be_missing() {
    let message = json!({"topic": "t", "body": null});
    for body in [message.clone(), json!(message.to_string())] {
        let frame = inbound(&json!({}), &body).unwrap().frame;
        assert_eq!((frame.attr("subject"), frame.attr("id"), frame.data()), (Some("t"), None, &b""[..]));
    }
    for body in [json!([]), json!(7), json!("x"), json!({"topic": 7}), json!({"properties": []})] {
        assert!(matches!(inbound(&json!({}), &body), Err(AdaptError::Invalid { .. })), "{body}");
    }
}

#[test]
fn adaptors_comply_on_samples() {
    let mesh = |head: &Value, body: &Value| WireMessage {
        head: head.to_string().into(),
        body: body.to_string().into(),
    };
    let samples = [
        mesh(
            &json!({"seq": "1"}),
            &json!({"topic": "t", "properties": {"a": "b"}, "headers": {}, "body": "x"}),
        ),
        mesh(
            &json!({}),
            &json!({"topic": "t", "headers": {"z": "1", "datacontenttype": "text/plain"}, "body": ""}),
        ),
        mesh(&json!({}), &json!({"topic": "t", "properties": {"bodyencoding": "base64"}, "body": "//4="})),
    ];
    let calls = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"_seq": 3}}),
        json!({"jsonrpc": "2.0", "id": "a", "result": null}),
    ];
    let calls = calls.map(|call| WireMessage { head: Default::default(), body: call.to_string().into() });
    let samples = [
        Samples { adaptor: "meshmessage", messages: samples.to_vec() },
        Samples { adaptor: "a2a", messages: calls.to_vec() },
    ];
    check_adaptors(&Adaptors::collect().unwrap(), &samples).assert();
}
