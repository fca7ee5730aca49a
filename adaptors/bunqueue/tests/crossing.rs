//! Job data between bunqueue and others, by the adaptor alone: what survives, and the table of what does not.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use bytes::Bytes;
use framegate_adaptor_api::{Adaptors, Egress, Inbound, WireMessage};
use framegate_broker::{Envelope, Name, Origin};
// linked for its registration
use framegate_bunqueue as _;
use framegate_frame::{Frame, FrameKind, Limits};

/// `{name: "task", tags: ["x"], keepLogs: 20}`
const HEAD: &[u8] = b"\x83\xA4name\xA4task\xA4tags\x91\xA1x\xA8keepLogs\x14";

fn inbound(head: &[u8], body: &[u8]) -> Inbound {
    let message = WireMessage { head: Bytes::copy_from_slice(head), body: Bytes::copy_from_slice(body) };
    Adaptors::collect().unwrap().get("bunqueue").unwrap().to_frame(message).unwrap()
}

fn outbound(frame: &Frame) -> WireMessage {
    let adaptors = Adaptors::collect().unwrap();
    let origin = Origin { vhost: Name::from_static("/"), name: Name::from_static("q"), id: 1, seq: 1 };
    let headers = adaptors.headers();
    let egress = Egress { envelope: &Envelope::default(), frame, origin: &origin, headers };
    adaptors.get("bunqueue").unwrap().to_wire(egress).unwrap()
}

fn foreign(content_type: Option<&str>, data: &[u8]) -> Bytes {
    let attributes = content_type.map(|value| ("datacontenttype", value));
    let frame = Frame::build(FrameKind::Event, attributes, data, &Limits::GATEWAY).unwrap();
    outbound(&frame).body
}

#[test]
fn data_comes_back_byte_for_byte_with_what_nobody_acts_on() {
    let values: [&[u8]; 8] = [
        b"\x01",
        b"\xC0",
        b"\xA4text",
        b"\x82\xA1b\xD4\0\0\xA1a\xD6\xFF\x65\x53\xF1\0",
        b"\xCB\x7F\xF8\0\0\0\0\0\0",
        b"\xDF\0\0\0\x01\xDB\0\0\0\x01x\xC4\x02\0\xFF",
        b"\x92\xCA\x3F\x80\0\0\xD0\x01",
        b"\xC7\x03\x05abc",
    ];
    for value in values {
        let inbound = inbound(HEAD, value);
        assert_eq!(inbound.frame.data(), value);
        assert_eq!(inbound.frame.attr("type"), Some("task"));
        assert_eq!(inbound.frame.attr("datacontenttype"), Some("application/msgpack"));
        let back = outbound(&inbound.frame);
        assert_eq!(&back.body[..], value);
        let again = self::inbound(&back.head, &back.body);
        assert_eq!(again.frame.as_bytes(), inbound.frame.as_bytes());
    }
}

#[test]
fn data_that_is_undefined_is_no_data() {
    for body in [&b""[..], b"\xD4\0\0"] {
        let inbound = inbound(b"\x80", body);
        assert_eq!((inbound.frame.data(), inbound.frame.attrs().count()), (&b""[..], 0));
        assert_eq!(outbound(&inbound.frame).body, Bytes::new());
    }
}

#[test]
fn what_is_no_value_is_refused() {
    let adaptors = Adaptors::collect().unwrap();
    for body in [&b"\xC1"[..], b"\x01\x02", b"\x81\xA1a"] {
        let message = WireMessage { head: Bytes::new(), body: Bytes::copy_from_slice(body) };
        assert!(adaptors.get("bunqueue").unwrap().to_frame(message).is_err(), "{body:x?}");
    }
}

/// The rows "others to bunqueue" of the table in `lib.rs`.
#[test]
fn data_of_others_becomes_a_value() {
    assert_eq!(&foreign(Some("application/json"), br#"{"a":1}"#)[..], b"\xDE\0\x01\xA1a\x01");
    assert_eq!(&foreign(Some("application/problem+json; charset=utf-8"), b"[true]")[..], b"\x91\xC3");
    assert_eq!(&foreign(Some("application/json"), b"{broken")[..], b"\xA7{broken");
    assert_eq!(&foreign(Some("text/plain"), b"hi")[..], b"\xA2hi");
    assert_eq!(&foreign(Some("text/plain"), b"\xFF")[..], b"\xC4\x01\xFF");
    assert_eq!(&foreign(None, b"hi")[..], b"\xA2hi");
    assert_eq!(&foreign(None, b"")[..], b"");
    assert_eq!(&foreign(Some("application/octet-stream"), b"hi")[..], b"\xC4\x02hi");
    assert_eq!(&foreign(Some("application/msgpack"), b"\xA2hi")[..], b"\xA2hi");
    assert_eq!(&foreign(Some("application/msgpack"), b"\xC1")[..], b"\xC4\x01\xC1");
    // digits beyond 53 bits are lost, as in JavaScript
    assert_eq!(foreign(Some("application/json"), b"12345678901234567890")[0], 0xCB);
}

#[test]
fn type_of_an_event_is_the_name_of_the_job() {
    let named = |attributes: &[(&str, &str)]| {
        let frame =
            Frame::build(FrameKind::Event, attributes.iter().copied(), b"", &Limits::GATEWAY).unwrap();
        outbound(&frame).head.to_vec()
    };
    assert_eq!(named(&[("type", "order.paid")]), b"\xDE\0\x01\xA4name\xAAorder.paid");
    assert_eq!(named(&[]), b"\xDE\0\x01\xA4name\xA7default");
    let long = "t".repeat(257);
    assert_eq!(named(&[("type", &long), ("x-header", "lost")]), b"\xDE\0\x01\xA4name\xA7default");
}
