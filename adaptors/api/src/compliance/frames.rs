//! Frames that no adaptor made: the corners of what a frame may be.

use framegate_frame::{Frame, FrameError, FrameHead, FrameKind, Limits, Private, names};

use super::random::Random;

/// Media types that adaptors treat differently.
const MEDIA_TYPES: [&str; 14] = [
    "application/json",
    "application/json; charset=utf-8",
    "application/problem+json",
    "application/vnd.api+json",
    "application/msgpack",
    "application/octet-stream",
    "application/x-protobuf",
    "text/plain",
    "text/plain; charset=iso-8859-1",
    "text/html",
    "image/png",
    "multipart/mixed; boundary=x",
    "not a media type",
    "",
];

/// Attribute values that a text protocol may stumble over.
const VALUES: [&str; 10] =
    ["", " ", "a b", "\"quoted\\\"", "a\r\nb: c", "\0", "ä€😀", "2147483648", "-1.5e300", "null"];

fn build<'a>(
    private: Option<Private<'a>>,
    attrs: &[(&'a str, &'a str)],
    data: &[u8],
) -> Result<Frame, FrameError> {
    let head = FrameHead::new(FrameKind::Event).private(private);
    let limits = Limits::GATEWAY;
    let mut builder = framegate_frame::FrameBuilder::new(head, attrs.iter().copied(), data.len(), &limits)?;
    builder.push(data)?;
    builder.finish()
}

/// A frame with this private attribute.
pub(super) fn with_private(adaptor: &str, content: &[u8], data: &[u8]) -> Result<Frame, FrameError> {
    build(Some(Private::bytes(adaptor, content)), &[], data)
}

/// Each with a name for messages: no attributes, 1024 attributes, every media type with text, JSON, bytes and nothing, all
/// context and framework attributes with awkward values, private attributes of a stranger.
///
/// # Panics
/// Never, while the frame crate takes what its limits allow.
#[must_use]
pub fn synthetic_frames() -> Vec<(String, Frame)> {
    let mut frames = Vec::new();
    let mut add = |name: String, frame: Result<Frame, FrameError>| {
        frames.push((name, frame.expect("is within the gateway's limits")));
    };
    let every_byte: Vec<u8> = (0..=255).collect();
    let noise = Random::new(1).bytes(70_000);
    let bodies: [(&str, &[u8]); 9] = [
        ("nothing", b""),
        ("text", "grüße".as_bytes()),
        ("an object", br#"{"a":[1,2.5,null,true,"x"]}"#),
        ("a number", b"12345678901234567890123"),
        ("half an object", br#"{"a":"#),
        ("messagepack", &[0x82, 0xa1, b'a', 0x01, 0xa1, b'b', 0xc4, 0x02, 0x00, 0xff]),
        ("every byte", &every_byte),
        ("a lone surrogate", b"\"\\ud800\""),
        ("70 kB of noise", &noise),
    ];
    for (body_name, body) in bodies {
        add(format!("no attributes, {body_name}"), build(None, &[], body));
        for media_type in MEDIA_TYPES {
            let attrs = [(names::DATACONTENTTYPE, media_type)];
            add(format!("'{media_type}' with {body_name}"), build(None, &attrs, body));
        }
    }
    for value in VALUES {
        let attrs: Vec<(&str, &str)> =
            names::CONTEXT.iter().chain(&names::FRAMEWORK).map(|name| (*name, value)).collect();
        add(format!("all attributes {value:?}"), build(None, &attrs, b"x"));
        let attrs = [(value, "an odd name"), ("x-Header", value), ("Ünïcode", value)];
        add(format!("an attribute named {value:?}"), build(None, &attrs, b"x"));
    }
    let event = [
        (names::SPECVERSION, "1.0"),
        (names::ID, "1"),
        (names::SOURCE, "/s"),
        (names::TYPE, "t"),
        (names::DATACONTENTTYPE, "application/json"),
        (names::SUBJECT, "orders"),
        (names::TIME, "2024-01-02T03:04:05.678901234Z"),
        (names::EMTTL, "1000"),
        ("ext", "value"),
    ];
    add("a whole event".to_owned(), build(None, &event, b"{}"));
    let many: Vec<String> = (0..1024).map(|n| format!("attribute{n}")).collect();
    let attrs: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "v")).collect();
    add("1024 attributes".to_owned(), build(None, &attrs, b"x"));
    let long = "v".repeat(1 << 20);
    add("a value of 1 MiB".to_owned(), build(None, &[("long", &long)], b"x"));
    add("a stranger's private attribute".to_owned(), with_private("stranger", &every_byte, b"x"));
    frames
}
