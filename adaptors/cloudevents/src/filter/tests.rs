//! The dialects, and what they see of messages of other protocols.

use framegate_broker::{Envelope, HeaderValue, HeadersFn, Name, Origin};
use framegate_frame::{Frame, FrameKind, Limits};
use serde_json::json;

use super::*;
use crate::event::{read_event, to_frame};

fn filters(json: serde_json::Value) -> Filters {
    Filters::parse(&json).unwrap()
}

fn seen_by(filters: &Filters, frame: &Frame) -> bool {
    let envelope = Envelope { exchange: Name::from_static("amq.topic"), ..Envelope::default() };
    let origin = Origin { vhost: Name::from_static("/"), name: Name::from_static("t"), id: 3, seq: 9 };
    let headers = HeaderTable::new([("other", other_headers as HeadersFn)]);
    filters.pass(&View(Egress { envelope: &envelope, frame, origin: &origin, headers: &headers }))
}

fn other_headers(_: &Frame, each: &mut dyn FnMut(&str, HeaderValue<'_>)) {
    each("Tenant", HeaderValue::Text("blue".into()));
    each("retries", HeaderValue::Int(3));
}

fn event(extra: &serde_json::Value) -> Frame {
    let mut event =
        json!({"specversion": "1.0", "id": "1", "source": "/s", "type": "com.x.y", "data": {"a": 1}});
    event.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    to_frame(&read_event(&event.to_string().into()).unwrap(), &Limits::GATEWAY).unwrap()
}

#[test]
fn text_dialects_want_every_attribute_that_they_list() {
    let frame = event(&json!({"subject": "a/b", "count": 5}));
    for (filter, passes) in [
        (json!({"exact": {"type": "com.x.y", "subject": "a/b"}}), true),
        (json!({"exact": {"type": "com.x.y", "subject": "a/c"}}), false),
        (json!({"exact": {"type": "COM.X.Y"}}), false),
        (json!({"exact": {"count": "5"}}), true),
        (json!({"prefix": {"type": "com.x"}}), true),
        (json!({"prefix": {"missing": "a"}}), false),
        (json!({"suffix": {"type": ".y", "source": "s"}}), true),
        (json!({"suffix": {"type": ".x"}}), false),
    ] {
        assert_eq!(seen_by(&filters(filter.clone()), &frame), passes, "{filter}");
    }
}

#[test]
fn filters_combine() {
    let frame = event(&json!({}));
    let (yes, no) = (json!({"exact": {"id": "1"}}), json!({"exact": {"id": "2"}}));
    for (filter, passes) in [
        (json!({"all": [yes, yes]}), true),
        (json!({"all": [yes, no]}), false),
        (json!({"any": [no, yes]}), true),
        (json!({"any": [no, no]}), false),
        (json!({"not": no}), true),
        (json!({"not": {"any": [no, {"not": yes}]}}), true),
        (json!([yes, no]), false),
        (json!([]), true),
        (json!({"sql": "data = 1 OR TRUE"}), false),
    ] {
        assert_eq!(seen_by(&filters(filter.clone()), &frame), passes, "{filter}");
    }
}

#[test]
fn expressions_see_the_types_that_the_client_gave() {
    let frame = event(&json!({"flag": true, "count": 5, "time": "2026-01-01T00:00:00Z"}));
    for expression in
        ["flag", "count + 1 = 6", "time LIKE '2026-%'", "NOT EXISTS datacontenttype", "specversion = '1.0'"]
    {
        assert!(seen_by(&filters(json!({"sql": expression})), &frame), "{expression}");
    }
}

#[test]
fn messages_of_other_protocols_are_seen_as_subscribers_see_them() {
    let attributes = [("~other", "x"), ("correlationId", "c-1"), ("id", "1")];
    let frame = Frame::build(FrameKind::Event, attributes, b"x", &Limits::GATEWAY).unwrap();
    for expression in [
        "id = '1' AND source = '///amq.topic' AND type = 'framegate.message'",
        "correlationid = 'c-1'",
        "tenant = 'blue'",
        "retries = 3",
        "NOT EXISTS subject",
    ] {
        assert!(seen_by(&filters(json!({"sql": expression})), &frame), "{expression}");
    }
}

#[test]
fn what_is_no_filter_is_refused_with_its_place() {
    let deep = (0..20).fold(json!({"exact": {"id": "1"}}), |inner, _| json!({"not": inner}));
    for (filter, pointer) in [
        (json!("x"), ""),
        (json!([{}]), "/0"),
        (json!([{"exact": {"id": "1"}, "not": {}}]), "/0"),
        (json!([{"exact": {}}]), "/0/exact"),
        (json!([{"exact": {"": "1"}}]), "/0/exact"),
        (json!([{"prefix": {"id": ""}}]), "/0/prefix/id"),
        (json!([{"suffix": {"id": 5}}]), "/0/suffix/id"),
        (json!([{"any": []}]), "/0/any"),
        (json!([{"all": [{"exact": {"id": "1"}}, {"nope": 1}]}]), "/0/all/1/nope"),
        (json!([{"sql": "ABS("}]), "/0/sql"),
        (json!([{"sql": "NOPE(1)"}]), "/0/sql"),
        (json!([{"sql": 5}]), "/0/sql"),
        (deep, "/not/not/not/not/not/not/not/not"),
        (json!(vec![json!({"sql": "TRUE"}); 101]), "/100"),
    ] {
        assert_eq!(Filters::parse(&filter).unwrap_err().pointer, pointer, "{filter}");
    }
}
