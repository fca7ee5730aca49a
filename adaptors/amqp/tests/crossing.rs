//! The tables of `lib.rs`: what becomes of an AMQP message, what comes back, what is lost on the way to others and from them.

use std::sync::Arc;

use bytes::Bytes;
use framegate_adaptor_api::compliance::{self, Samples};
use framegate_adaptor_api::{Adaptors, Egress, FrameAdaptor, Inbound, WireMessage};
use framegate_amqp as _;
use framegate_broker::{Death, DeathReason, Envelope, HeaderValue, Keys, Name, Origin};
use framegate_frame::{Frame, FrameKind, Limits, names};

const VECTORS: [&str; 2] = [
    include_str!("../../../tests/vectors/amqp/pika-rabbitmq.json"),
    include_str!("../../../tests/vectors/amqp/amqplib-rabbitmq.json"),
];

/// Flags and values of every captured content header.
fn captured() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for text in VECTORS {
        let file: serde_json::Value = serde_json::from_str(text).expect("is there");
        for vector in file["vectors"].as_array().expect("is there") {
            let hex = vector["hex"].as_str().expect("is there");
            let octet = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("is there");
            let frame: Vec<u8> = (0..hex.len()).step_by(2).map(octet).collect();
            if frame[0] == 2 {
                all.push(frame[7 + 12..frame.len() - 1].to_vec());
            }
        }
    }
    all
}

fn short(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len()).expect("is there")], text.as_bytes()].concat()
}

fn table(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let inner: Vec<u8> =
        entries.iter().flat_map(|(key, value)| [short(key), value.to_vec()].concat()).collect();
    [u32::try_from(inner.len()).expect("is there").to_be_bytes().as_slice(), &inner].concat()
}

/// Every property there is.
fn everything() -> Vec<u8> {
    let headers = table(&[
        ("b", &[b'b', 5]),
        ("text", b"S\x00\x00\x00\x01x"),
        ("nested", b"F\x00\x00\x00\x04\x01kt\x01"),
    ]);
    [
        vec![0xFF, 0xFC],
        short("text/plain"),
        short("gzip"),
        headers,
        vec![2, 7],
        short("corr"),
        short("replies"),
        short("60000"),
        short("id-1"),
        1_700_000_000_u64.to_be_bytes().to_vec(),
        short("kind"),
        short("guest"),
        short("app"),
        short("cluster"),
    ]
    .concat()
}

fn amqp() -> Arc<dyn FrameAdaptor> {
    Arc::clone(Adaptors::collect().expect("is there").get("amqp").expect("is there"))
}

fn take(head: &[u8]) -> Inbound {
    let message = WireMessage { head: Bytes::copy_from_slice(head), body: Bytes::from_static(b"body") };
    amqp().to_frame(message).expect("is there")
}

fn give(envelope: &Envelope, frame: &Frame) -> Vec<u8> {
    let adaptors = Adaptors::collect().expect("is there");
    let origin = Origin { vhost: Name::from_static("/"), name: Name::from_static("q"), id: 1, seq: 2 };
    let message = Egress { envelope, frame, origin: &origin, headers: adaptors.headers() };
    amqp().to_wire(message).expect("is there").head.to_vec()
}

fn envelope(inbound: &Inbound) -> Envelope {
    let mut keys = Keys::new();
    keys.push(Name::from_static("q"));
    keys.extend(inbound.keys.iter().cloned());
    Envelope { keys, persistent: inbound.persistent, priority: inbound.priority, ..Envelope::default() }
}

#[test]
fn the_suite_of_all_adaptors_passes_with_captured_messages() {
    let mut heads = captured();
    heads.push(everything());
    heads.push(Vec::new());
    let bodies = [Bytes::new(), Bytes::from_static(b"\x00\xff"), Bytes::from(vec![7; 70_000])];
    let messages = heads.iter().zip(bodies.iter().cycle());
    let messages =
        messages.map(|(head, body)| WireMessage { head: head.clone().into(), body: body.clone() }).collect();
    let samples = Samples { adaptor: "amqp", messages };
    compliance::check_adaptors(&Adaptors::collect().expect("is there"), &[samples]).assert();
}

#[test]
fn property_and_header_bytes_come_back_identical() {
    let mut heads = captured();
    assert!(heads.len() > 30);
    heads.push(everything());
    for head in heads {
        let inbound = take(&head);
        let has_bcc = head.windows(4).any(|w| w == b"\x03BCC");
        if !has_bcc {
            assert_eq!(give(&envelope(&inbound), &inbound.frame), head);
        }
    }
}

#[test]
fn attributes_and_envelope_say_what_others_can_read() {
    let inbound = take(&everything());
    let attribute = |name| inbound.frame.attr(name);
    assert_eq!(attribute(names::DATACONTENTTYPE), Some("text/plain"));
    assert_eq!(attribute(names::ID), Some("id-1"));
    assert_eq!(attribute(names::TYPE), Some("kind"));
    assert_eq!(attribute(names::TIME), Some("2023-11-14T22:13:20Z"));
    assert_eq!(attribute(names::EMCORRELATIONID), Some("corr"));
    assert_eq!(attribute(names::REPLYTO), Some("replies"));
    assert_eq!(inbound.frame.data(), b"body");
    assert_eq!((inbound.persistent, inbound.priority, inbound.ttl_ms), (true, Some(7), Some(60_000)));
    // lost: content-encoding, app-id, cluster-id are nobody's attribute
    assert_eq!(inbound.frame.attr_count(), 7);
    let mut headers = Vec::new();
    let adaptors = Adaptors::collect().expect("is there");
    adaptors.headers().read(&inbound.frame, &mut |name, value| {
        headers.push((name.to_owned(), value.into_owned()));
    });
    let text = |text: &'static str| HeaderValue::Text(text.into());
    let expected = [("b", HeaderValue::Int(5)), ("text", text("x")), ("nested", text("{\"k\":true}"))];
    assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value)));
}

#[test]
fn delivery_mode_2_alone_is_not_stored() {
    for (head, private, back) in [
        (&[0x10, 0, 2][..], false, &[0x10, 0, 2][..]),
        (&[], false, &[0, 0]),
        (&[0, 0], false, &[0, 0]),
        (&[0x10, 0, 1], true, &[0x10, 0, 1]),
    ] {
        let inbound = take(head);
        assert_eq!(inbound.frame.private().is_some(), private);
        assert_eq!(inbound.frame.attr_count(), usize::from(private));
        assert_eq!(give(&envelope(&inbound), &inbound.frame), back);
    }
}

#[test]
fn more_keys_route_and_only_the_hidden_ones_are_taken_out() {
    let list = |key: &str| [b"A\x00\x00\x00\x06S\x00\x00\x00\x01".as_slice(), key.as_bytes()].concat();
    let headers = table(&[("CC", &list("c")), ("BCC", &list("b")), ("x", b"t\x01")]);
    let inbound = take(&[vec![0x20, 0], headers].concat());
    assert_eq!(inbound.keys.iter().map(|key| key.as_str()).collect::<Vec<_>>(), ["c", "b"]);
    let expected = [vec![0x20, 0], table(&[("CC", &list("c")), ("x", b"t\x01")])].concat();
    assert_eq!(give(&envelope(&inbound), &inbound.frame), expected);
}

#[test]
fn a_message_of_another_protocol_is_properties_and_headers() {
    let attributes = [
        (names::ID, "e1"),
        (names::SOURCE, "/s"),
        (names::TYPE, "t"),
        (names::DATACONTENTTYPE, "application/json"),
        (names::TIME, "2023-11-14T22:13:20.5Z"),
        (names::EMCORRELATIONID, "c"),
        ("ext", "v"),
    ];
    let frame = Frame::build(FrameKind::Event, attributes, b"{}", &Limits::GATEWAY).expect("is there");
    let head = give(&Envelope { persistent: true, ..Envelope::default() }, &frame);
    let source = b"S\x00\x00\x00\x02/s";
    let headers = table(&[("cloudEvents:source", source), ("ext", b"S\x00\x00\x00\x01v")]);
    let expected = [
        vec![0b1011_0100, 0b1110_0000],
        short("application/json"),
        headers,
        vec![2],
        short("c"),
        short("e1"),
        1_700_000_000_u64.to_be_bytes().to_vec(),
        short("t"),
    ];
    assert_eq!(head, expected.concat());
}

#[test]
fn deaths_are_headers_in_rabbitmqs_order() {
    let expiring = [vec![0x21, 0], table(&[("k", b"t\x01")]), short("1000")].concat();
    let inbound = take(&expiring);
    let name = Name::from_static;
    let death = |queue, reason, time_ms, ttl_ms| Death {
        queue: name(queue),
        reason,
        exchange: name("x"),
        keys: Keys::from_iter([name("key")]),
        count: 1,
        time_ms,
        ttl_ms,
    };
    let deaths = vec![
        death("second", DeathReason::Rejected, 2000, None),
        death("first", DeathReason::Expired, 1000, Some(1000)),
    ];
    let envelope = Envelope { deaths, ..envelope(&inbound) };
    let head = give(&envelope, &inbound.frame);
    let string = |text: &str| {
        [&b"S"[..], &u32::try_from(text.len()).expect("is there").to_be_bytes(), text.as_bytes()].concat()
    };
    let entry = |reason: &str, queue: &str, time: u8, expiration: Option<&str>| {
        let keys = [&b"A\x00\x00\x00\x08"[..], &string("key")].concat();
        let mut entries: Vec<(&str, Vec<u8>)> = vec![
            ("count", b"l\x00\x00\x00\x00\x00\x00\x00\x01".to_vec()),
            ("reason", string(reason)),
            ("queue", string(queue)),
            ("time", [b"T\x00\x00\x00\x00\x00\x00\x00".as_slice(), &[time]].concat()),
            ("exchange", string("x")),
            ("routing-keys", keys),
        ];
        entries.extend(expiration.map(|text| ("original-expiration", string(text))));
        let borrowed: Vec<(&str, &[u8])> = entries.iter().map(|(k, v)| (*k, v.as_slice())).collect();
        [&b"F"[..], &table(&borrowed)].concat()
    };
    let list = [entry("rejected", "second", 2, None), entry("expired", "first", 1, Some("1000"))].concat();
    let x_death = [&b"A"[..], &u32::try_from(list.len()).expect("is there").to_be_bytes(), &list].concat();
    let headers = table(&[
        ("x-death", &x_death),
        ("x-first-death-reason", &string("expired")),
        ("x-first-death-queue", &string("first")),
        ("x-first-death-exchange", &string("x")),
        ("x-last-death-reason", &string("rejected")),
        ("x-last-death-queue", &string("second")),
        ("x-last-death-exchange", &string("x")),
        ("k", b"t\x01"),
    ]);
    // the expiration is gone
    assert_eq!(head, [vec![0x20, 0], headers].concat());
}
