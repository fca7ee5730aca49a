//! The JSON format through the frame, byte for byte: every row of the decoding table both ways, and everything that is
//! refused.

use bytes::Bytes;
use framegate_adaptor_api::Egress;
use framegate_broker::{Envelope, HeaderTable, HeaderValue, Name, Origin};
use framegate_frame::{Frame, FrameKind, Limits};

use super::json_write::write_event;
use super::*;

const HEAD: &str = r#""specversion":"1.0","id":"1","source":"/t","type":"t""#;

fn origin() -> Origin {
    Origin { vhost: Name::from_static("/"), name: Name::from_static("q"), id: 7, seq: 42 }
}

fn show_with(frame: &Frame, envelope: &Envelope, headers: &HeaderTable) -> String {
    let mut out = Vec::new();
    write_event(Egress { envelope, frame, origin: &origin(), headers }, &mut out).unwrap();
    serde_json::from_slice::<&serde_json::value::RawValue>(&out).expect("valid JSON");
    String::from_utf8(out).unwrap()
}

fn show(frame: &Frame) -> String {
    show_with(frame, &Envelope::default(), &HeaderTable::default())
}

fn read(more: &str) -> Result<Event, EventError> {
    read_event(&Bytes::from(format!("{{{HEAD}{}{more}}}", if more.is_empty() { "" } else { "," })))
}

fn frame(more: &str) -> Frame {
    to_frame(&read(more).unwrap(), &EVENT_LIMITS).unwrap()
}

fn built(attributes: &[(&str, &str)], data: &[u8]) -> Frame {
    Frame::build(FrameKind::Event, attributes.iter().copied(), data, &Limits::GATEWAY).unwrap()
}

#[test]
fn every_row_of_the_decoding_table_is_byte_exact_both_ways() {
    // (members in, data bytes in the frame, members out when they differ)
    let rows: [(&str, &[u8], Option<&str>); 22] = [
        (
            r#""data":{"b":1,"a":[1e400,123456789012345678901234567890],"a":2}"#,
            br#"{"b":1,"a":[1e400,123456789012345678901234567890],"a":2}"#,
            None,
        ),
        (r#""data":"abc""#, br#""abc""#, None),
        (r#""data":"\u0041\/""#, br#""\u0041\/""#, None),
        (r#""data":5.0"#, b"5.0", None),
        (r#""data":null"#, b"null", None),
        (r#""data": { "a" : 1 } "#, br#"{ "a" : 1 }"#, Some(r#""data":{ "a" : 1 }"#)),
        (r#""datacontenttype":"application/json","data":"abc""#, br#""abc""#, None),
        (r#""datacontenttype":"application/vnd.x+json; v=1","data":[]"#, b"[]", None),
        (r#""datacontenttype":"application/xml","data":"<a/>""#, b"<a/>", None),
        (r#""datacontenttype":"text/plain","data":"a\"b""#, b"a\"b", None),
        (r#""datacontenttype":"text/plain","data":"""#, b"", None),
        (r#""datacontenttype":"image/png","data":"text""#, b"text", None),
        (
            r#""datacontenttype":"text/plain","data_base64":"aGk=""#,
            b"hi",
            Some(r#""datacontenttype":"text/plain","data":"hi""#),
        ),
        (r#""data_base64":"AP8=""#, b"\x00\xff", None),
        (r#""data_base64":"eyJhIjoxfQ==""#, br#"{"a":1}"#, None),
        (r#""data_base64":"""#, b"", None),
        (
            r#""datacontenttype":"application/json","data_base64":"eyJhIjoxfQ==""#,
            br#"{"a":1}"#,
            Some(r#""datacontenttype":"application/json","data":{"a":1}"#),
        ),
        (r#""datacontenttype":"application/json","data_base64":"e30x""#, b"{}1", None),
        (r#""datacontenttype":"application/octet-stream","data_base64":"AP8=""#, b"\x00\xff", None),
        (r#""datacontenttype":"text/plain; charset=latin-1","data_base64":"6Q==""#, b"\xe9", None),
        (r#""datacontenttype":"text/plain""#, b"", None),
        ("", b"", None),
    ];
    for (members, data, expected) in rows {
        let expected = expected.unwrap_or(members);
        let frame = frame(members);
        assert_eq!(frame.data(), data, "{members}");
        let expected = format!("{{{HEAD}{}{expected}}}", if expected.is_empty() { "" } else { "," });
        let shown = show(&frame);
        assert_eq!(shown, expected, "{members}");
        let again = to_frame(&read_event(&Bytes::from(shown)).unwrap(), &EVENT_LIMITS).unwrap();
        assert_eq!(show(&again), expected, "the second crossing of {members}");
    }
}

#[test]
fn extension_types_and_canonical_order_survive() {
    let json = r#"{"zext":"5","number":5,"time":"2026-11-30T22:51:27.1234567891Z","subject":"s","flag":true,"type":"t","source":"/t","id":"1","min":-2147483648,"emttl":"60000","dataschema":"urn:s","specversion":"1.0","off":false,"data":1}"#;
    let frame = to_frame(&read_event(&Bytes::from(json)).unwrap(), &EVENT_LIMITS).unwrap();
    assert_eq!(
        show(&frame),
        r#"{"specversion":"1.0","id":"1","source":"/t","type":"t","dataschema":"urn:s","subject":"s","time":"2026-11-30T22:51:27.1234567891Z","emttl":"60000","zext":"5","number":5,"flag":true,"min":-2147483648,"off":false,"data":1}"#
    );
    let mut seen = Vec::new();
    crate::adaptor::headers(&frame, &mut |name, value| seen.push((name.to_owned(), value.into_owned())));
    assert!(seen.contains(&("number".to_owned(), HeaderValue::Int(5))), "{seen:?}");
    assert!(seen.contains(&("flag".to_owned(), HeaderValue::Bool(true))), "{seen:?}");
    assert!(seen.contains(&("zext".to_owned(), HeaderValue::Text("5".into()))), "{seen:?}");
    assert!(seen.iter().all(|(name, _)| name != "id" && !name.starts_with('~')), "{seen:?}");
}

#[test]
fn an_event_with_nothing_to_remember_has_no_private_attribute() {
    assert_eq!(frame(r#""datacontenttype":"application/json","ext":"x","data":{}"#).private(), None);
    assert_eq!(frame("").private(), None);
    assert_eq!(frame(r#""data":1"#).private(), Some(("cloudevents", "j")));
}

#[test]
fn reserved_attributes_are_removed_and_null_is_absent() {
    let event = read(
        r#""empopck":"x","emmqoffset":"1","emmqpartition":"1","emorigin":"m","subject":null,"ext":null"#,
    );
    assert_eq!(event.unwrap().attributes.len(), 4);
}

#[test]
fn each_violation_is_refused_at_its_pointer() {
    let text = |json: &str| read_event(&Bytes::from(json.to_owned())).unwrap_err().faults[0].place.clone();
    let pointer = |name: &str| Place::Pointer(name.to_owned());
    let whole = [
        (r#"{"id":"1","source":"/t","type":"t"}"#, "/specversion"),
        (r#"{"specversion":"0.3","id":"1","source":"/t","type":"t"}"#, "/specversion"),
        (r#"{"specversion":1.0,"id":"1","source":"/t","type":"t"}"#, "/specversion"),
        (r#"{"specversion":"1.0","source":"/t","type":"t"}"#, "/id"),
        (r#"{"specversion":"1.0","id":"","source":"/t","type":"t"}"#, "/id"),
        (r#"{"specversion":"1.0","id":null,"source":"/t","type":"t"}"#, "/id"),
        (r#"{"specversion":"1.0","id":"1","type":"t"}"#, "/source"),
        (r#"{"specversion":"1.0","id":"1","source":"a b","type":"t"}"#, "/source"),
        (r#"{"specversion":"1.0","id":"1","source":"/t"}"#, "/type"),
        (r#"{"specversion":"1.0","id":"1","\u0069d":"2","source":"/t","type":"t"}"#, "/id"),
        ("{", ""),
        ("[]", ""),
        ("\"x\"", ""),
        ("", ""),
        ("\u{feff}", ""),
    ];
    for (json, expected) in whole {
        assert_eq!(text(json), pointer(expected), "{json}");
    }
    let more = [
        (r#""Upper":"x""#, "/Upper"),
        (r#""a_b":"x""#, "/a_b"),
        (r#""a/b~":"x""#, "/a~1b~0"),
        (r#""":"x""#, "/"),
        (r#""obj":{}"#, "/obj"),
        (r#""list":[]"#, "/list"),
        (r#""big":2147483648"#, "/big"),
        (r#""fraction":1.5"#, "/fraction"),
        (r#""exponent":1e3"#, "/exponent"),
        (r#""control":"a\u0007""#, "/control"),
        (r#""lone":"\ud800""#, "/lone"),
        (r#""nonchar":"\ufffe""#, "/nonchar"),
        (r#""subject":"""#, "/subject"),
        (r#""subject":5"#, "/subject"),
        (r#""time":"yesterday""#, "/time"),
        (r#""dataschema":"relative""#, "/dataschema"),
        (r#""datacontenttype":"json""#, "/datacontenttype"),
        (r#""datacontenttype":"text/plain","data":{}"#, "/data"),
        (r#""datacontenttype":"text/plain","data":null"#, "/data"),
        (r#""data_base64":"***""#, "/data_base64"),
        (r#""data_base64":5"#, "/data_base64"),
        (r#""data":1,"data_base64":"AA==""#, "/data_base64"),
        (r#""data":1,"data":2"#, "/data"),
        (r#""ext":"a","ext":"a""#, "/ext"),
    ];
    for (members, expected) in more {
        assert_eq!(read(members).unwrap_err().faults[0].place, pointer(expected), "{members}");
    }
    let all = read_event(&Bytes::from_static(b"{}")).unwrap_err();
    assert_eq!(all.faults.len(), 4, "every fault is listed: {all}");
}

#[test]
fn a_byte_order_mark_is_taken_and_never_written() {
    let json = format!("\u{feff}{{{HEAD}}}");
    let event = read_event(&Bytes::from(json)).unwrap();
    assert!(show(&to_frame(&event, &EVENT_LIMITS).unwrap()).starts_with('{'));
}

#[test]
fn batches_name_the_event_and_are_bounded() {
    let batch = Bytes::from(format!(r#"[{{{HEAD}}},{{"id":"2"}},5]"#));
    let events = read_batch(&batch, 3).unwrap();
    assert!(events[0].is_ok());
    assert_eq!(events[1].as_ref().unwrap_err().faults[0].place, Place::Pointer("/1/specversion".to_owned()));
    assert_eq!(events[2].as_ref().unwrap_err().faults[0].place, Place::Pointer("/2".to_owned()));
    assert!(matches!(read_batch(&batch, 2), Err(BatchError::TooMany { events: 3, max: 2 })));
    assert!(read_batch(&Bytes::from_static(b"[]"), 2).unwrap().is_empty());
    assert!(matches!(read_batch(&Bytes::from_static(b"{}"), 2), Err(BatchError::Text(_))));
}

#[test]
fn what_an_event_lacks_is_made_the_same_each_time() {
    let envelope = Envelope { exchange: Name::from_static("orders & more"), ..Envelope::default() };
    let frame = built(&[], b"");
    let expected =
        r#"{"specversion":"1.0","id":"7-42","source":"///orders%20%26%20more","type":"framegate.message"}"#;
    for _ in 0..2 {
        assert_eq!(show_with(&frame, &envelope, &HeaderTable::default()), expected);
    }
    let strange =
        built(&[("id", ""), ("source", "a b"), ("type", "a\nb"), ("time", "2026-01-01T00:00Z")], b"");
    assert_eq!(
        show(&strange),
        r#"{"specversion":"1.0","id":"7-42","source":"///","type":"framegate.message","time":"2026-01-01T00:00:00Z"}"#
    );
}

#[test]
fn time_to_live_goes_both_ways() {
    let ttl = |more: &str, now| read(more).unwrap().ttl_ms(now);
    assert_eq!(ttl(r#""emttl":"60000""#, Some(0)), Some(60_000));
    assert_eq!(ttl(r#""emttl":60000"#, None), Some(60_000));
    assert_eq!(ttl(r#""emttl":"soon""#, Some(0)), None);
    assert_eq!(ttl(r#""expirytime":"1970-01-01T00:00:10Z""#, Some(4000)), Some(6000));
    assert_eq!(ttl(r#""expirytime":"1970-01-01T00:00:10Z""#, Some(20_000)), Some(1));
    assert_eq!(ttl(r#""expirytime":"1970-01-01T00:00:10Z""#, None), None);
    let envelope = Envelope { time_ms: 1000, expires_at_ms: 61_000, ..Envelope::default() };
    let shown = show_with(&built(&[("id", "1")], b""), &envelope, &HeaderTable::default());
    assert!(shown.contains(r#""emttl":"60000""#), "{shown}");
    assert!(show(&frame(r#""emttl":5"#)).contains(r#""emttl":5"#));
}

#[test]
fn random_input_is_an_event_or_an_error() {
    // A seeded generator: what fails once fails again.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let seed = format!(
        r#"{{{HEAD},"time":"2026-11-30T22:51:27Z","n":5,"f":true,"datacontenttype":"text/plain","data":"\u20ac\\","x":null}}"#
    );
    let words = [
        r#""data":"#,
        r#""data_base64":"#,
        "{",
        "}",
        "\\u",
        "\u{0}",
        "1e999",
        "\"",
        ",",
        "[",
        "]",
        "é",
        "null",
    ];
    for round in 0..40_000 {
        let mut bytes = seed.clone().into_bytes();
        for _ in 0..=(next() % 4) {
            if bytes.is_empty() {
                break;
            }
            let at = (next() % bytes.len() as u64) as usize;
            match next() % 4 {
                0 => bytes[at] = next() as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes.truncate(at.max(1)),
                _ => {
                    let word = words[(next() % words.len() as u64) as usize];
                    bytes.splice(at..at, word.bytes());
                }
            }
        }
        let bytes = Bytes::from(bytes);
        if let Ok(event) = read_event(&bytes) {
            let shown = show(&to_frame(&event, &EVENT_LIMITS).unwrap());
            assert!(read_event(&Bytes::from(shown)).is_ok(), "round {round}: {bytes:?}");
        }
        let _ = read_batch(&bytes, 10);
    }
}

#[test]
fn any_frame_becomes_a_legal_event() {
    let table = HeaderTable::new([("amqp", foreign as framegate_broker::HeadersFn)]);
    let attributes = [
        ("~amqp", "x"),
        ("replyTo", "somewhere"),
        ("X-Bad-Name", "x"),
        ("UPPER", "u"),
        ("upper", "l"),
        ("multi", "a\nb"),
        ("data", "d"),
        ("empopck", "secret"),
        ("datacontenttype", "nonsense"),
        ("Subject", "no context under another case"),
    ];
    let shown = show_with(&built(&attributes, b"\xff"), &Envelope::default(), &table);
    assert_eq!(
        shown,
        r#"{"specversion":"1.0","id":"7-42","source":"///","type":"framegate.message","replyto":"somewhere","upper":"l","count":3,"big":"3000000000","ok":true,"when":"1970-01-01T00:00:05Z","raw":"/w==","ratio":"1.5","data_base64":"/w=="}"#
    );
    let event = read_event(&Bytes::from(shown)).unwrap();
    assert_eq!(event.get("count"), Some("3"));
}

fn foreign(_: &Frame, visit: &mut dyn FnMut(&str, HeaderValue<'_>)) {
    visit("Count", HeaderValue::Int(3));
    visit("big", HeaderValue::Int(3_000_000_000));
    visit("ok", HeaderValue::Bool(true));
    visit("when", HeaderValue::Time(5));
    visit("raw", HeaderValue::Bytes(b"\xff".as_slice().into()));
    visit("ratio", HeaderValue::Float(1.5));
    visit("nothing", HeaderValue::Null);
    visit("x-death", HeaderValue::Text("illegal name".into()));
    visit("id", HeaderValue::Text("context".into()));
    visit("count", HeaderValue::Int(4));
}

#[test]
fn data_of_other_protocols_is_json_only_when_nothing_is_lost() {
    let data = |attributes: &[(&str, &str)], data: &[u8]| {
        let shown = show(&built(attributes, data));
        shown.split_once("framegate.message\"").unwrap().1.to_owned()
    };
    assert_eq!(data(&[], br#"{"a":1}"#), r#","data":{"a":1}}"#);
    assert_eq!(data(&[], b"hello"), r#","data_base64":"aGVsbG8="}"#);
    assert_eq!(
        data(&[("datacontenttype", "text/plain")], b"hello"),
        r#","datacontenttype":"text/plain","data":"hello"}"#
    );
    let pack = [("datacontenttype", "application/msgpack")];
    assert_eq!(data(&pack, b"\x81\xA1a\x01"), r#","datacontenttype":"application/json","data":{"a":1}}"#);
    assert_eq!(
        data(&pack, b"\xC4\x01x"),
        r#","datacontenttype":"application/msgpack","data_base64":"xAF4"}"#
    );
    let json = [("datacontenttype", "application/json")];
    assert_eq!(data(&json, b"{"), r#","datacontenttype":"application/json","data_base64":"ew=="}"#);
    assert_eq!(data(&json, b" 1\n"), r#","datacontenttype":"application/json","data":1}"#);
}

#[test]
fn pieces_of_streams_are_not_carried() {
    let frame = Frame::build(FrameKind::StreamChunk, [("sid", "x")], b"text", &Limits::GATEWAY).unwrap();
    let (envelope, headers) = (Envelope::default(), HeaderTable::default());
    let message = Egress { envelope: &envelope, frame: &frame, origin: &origin(), headers: &headers };
    assert!(write_event(message, &mut Vec::new()).is_err());
}

#[test]
fn a_required_attribute_of_another_type_is_named_once() {
    let text = r#"{"specversion":"1.0","id":1,"source":"/t","type":"t"}"#;
    let error = read_event(&Bytes::from_static(text.as_bytes())).unwrap_err();
    let said: Vec<_> =
        error.faults.iter().map(|fault| (fault.place.clone(), fault.detail.as_str())).collect();
    assert_eq!(said, [(Place::member("", "id"), "is not a string")]);
}
