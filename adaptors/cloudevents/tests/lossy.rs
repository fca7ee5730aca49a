//! The table of what does not survive a crossing, row by row, through the public adaptor.

use bytes::Bytes;
use framegate_adaptor_api::{AdaptError, Egress, FrameAdaptor, WireMessage};
use framegate_broker::{Envelope, HeaderTable, Name, Origin};
use framegate_cloudevents::CloudEventsAdaptor;
use framegate_frame::{Frame, FrameKind, Limits};

const HEAD: &str = r#""specversion":"1.0","id":"1","source":"/t","type":"t""#;

fn out(frame: &Frame) -> Result<String, AdaptError> {
    let (envelope, headers) = (Envelope::default(), HeaderTable::default());
    let origin = Origin { vhost: Name::from_static("/"), name: Name::from_static("q"), id: 1, seq: 2 };
    let wire = CloudEventsAdaptor.to_wire(Egress {
        envelope: &envelope,
        frame,
        origin: &origin,
        headers: &headers,
    })?;
    assert!(wire.body.is_empty());
    Ok(String::from_utf8(wire.head.to_vec()).expect("JSON is UTF-8"))
}

fn through(json: &str, body: &'static [u8]) -> String {
    let wire = WireMessage { head: Bytes::from(json.to_owned()), body: Bytes::from_static(body) };
    out(&CloudEventsAdaptor.to_frame(wire).expect("legal event").frame).expect("carried")
}

fn foreign(attributes: &[(&str, &str)], data: &[u8]) -> Result<String, AdaptError> {
    out(&Frame::build(FrameKind::Event, attributes.iter().copied(), data, &Limits::GATEWAY)
        .expect("within limits"))
}

#[test]
fn envelope_text_becomes_compact_and_canonical() {
    let shown =
        through(r#" { "type" : "\u0074", "id":"1", "source":"\/t", "specversion":"1.0", "n":5 } "#, b"");
    assert_eq!(shown, format!(r#"{{{HEAD},"n":5}}"#));
}

#[test]
fn text_loses_its_escapes_and_json_keeps_them() {
    let text = format!(r#"{{{HEAD},"datacontenttype":"text/plain","data":"\u0041"}}"#);
    assert!(through(&text, b"").ends_with(r#""data":"A"}"#));
    let json = format!(r#"{{{HEAD},"data":"\u0041"}}"#);
    assert_eq!(through(&json, b""), json);
}

#[test]
fn base64_of_readable_data_becomes_data() {
    let json = format!(r#"{{{HEAD},"datacontenttype":"application/json","data_base64":"WzFd"}}"#);
    assert!(through(&json, b"").ends_with(r#""data":[1]}"#));
}

#[test]
fn a_body_beside_the_head_is_its_data() {
    let head = format!(r#"{{{HEAD},"datacontenttype":"application/json"}}"#);
    assert!(through(&head, b"[1]").ends_with(r#""data":[1]}"#));
    let both =
        WireMessage { head: Bytes::from(format!(r#"{{{HEAD},"data":1}}"#)), body: Bytes::from_static(b"x") };
    assert!(matches!(CloudEventsAdaptor.to_frame(both), Err(AdaptError::Invalid { .. })));
}

#[test]
fn steering_attributes_are_removed() {
    let json = format!(
        r#"{{{HEAD},"empopck":"k","emmqoffset":"1","emmqpartition":"1","emorigin":"m","emttl":"5"}}"#
    );
    let inbound = CloudEventsAdaptor.to_frame(WireMessage { head: json.into(), body: Bytes::new() }).unwrap();
    assert_eq!((inbound.ttl_ms, inbound.persistent), (Some(5), true));
    assert_eq!(out(&inbound.frame).unwrap(), format!(r#"{{{HEAD},"emttl":"5"}}"#));
}

#[test]
fn foreign_names_and_values_are_made_legal_or_dropped() {
    let shown = foreign(&[("id", "1"), ("replyTo", "r"), ("x-y", "dropped"), ("ext", "a\tb")], b"").unwrap();
    assert!(
        shown.contains(r#""replyto":"r""#) && !shown.contains("dropped") && !shown.contains("ext"),
        "{shown}"
    );
}

#[test]
fn messagepack_becomes_json_only_when_it_is_plain() {
    let pack = [("datacontenttype", "application/msgpack")];
    assert!(
        foreign(&pack, b"\x93\x01\xC0\xA1a")
            .unwrap()
            .ends_with(r#""datacontenttype":"application/json","data":[1,null,"a"]}"#)
    );
    assert!(
        foreign(&pack, b"\xC4\x01a")
            .unwrap()
            .ends_with(r#""datacontenttype":"application/msgpack","data_base64":"xAFh"}"#)
    );
}

#[test]
fn pieces_of_streams_are_not_carried() {
    let piece = Frame::build(FrameKind::StreamChunk, [("sid", "s")], b"x", &Limits::GATEWAY).unwrap();
    assert!(matches!(out(&piece), Err(AdaptError::Undeliverable { .. })));
}
