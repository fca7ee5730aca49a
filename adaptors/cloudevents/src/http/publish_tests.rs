//! Requests to publishes without a broker: modes, topics, plain bodies, batches, identities.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use framegate_broker::{Offset, Published};
use serde_json::json;

use super::*;

fn map(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers
            .append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn asked(
    headers: &[(&str, &str)],
    topic: Option<&str>,
    fallback: Option<&str>,
    body: &str,
) -> Result<Asked, Problem> {
    let settings = Settings::default();
    let headers = map(headers);
    let head = Head {
        headers: &headers,
        topic,
        fallback,
        vhost: "/",
        user: "ann b",
        now_ms: 1000,
        settings: &settings,
    };
    read(&head, Mode::of(&headers)?, Bytes::from(body.to_owned()))
}

fn one(headers: &[(&str, &str)], body: &str) -> Ready {
    match asked(headers, Some("t"), None, body).unwrap() {
        Asked::One(ready) => *ready,
        other @ Asked::Batch(_) => panic!("{other:?}"),
    }
}

const CE: [(&str, &str); 4] =
    [("ce-specversion", "1.0"), ("CE-ID", "1"), ("ce-source", "/t"), ("ce-type", "t")];
const STRUCTURED: &str =
    r#"{"specversion":"1.0","id":"1","source":"/t","type":"t","subject":"from.subject"}"#;

#[test]
fn the_content_type_names_the_mode() {
    let mode = |value: &str| Mode::of(&map(&[("content-type", value)])).map_err(|problem| problem.status);
    assert_eq!(Mode::of(&HeaderMap::new()), Ok(Mode::Binary));
    assert_eq!(mode("application/json"), Ok(Mode::Binary));
    assert_eq!(mode("Application/CloudEvents+JSON; charset=utf-8"), Ok(Mode::Structured));
    assert_eq!(mode("application/cloudevents"), Ok(Mode::Structured));
    assert_eq!(mode("application/cloudevents-batch+json"), Ok(Mode::Batched));
    for unknown in
        ["application/cloudevents+avro", "application/cloudevents-batch+protobuf", "application/cloudeventsx"]
    {
        assert_eq!(mode(unknown), Err(415), "{unknown}");
    }
}

#[test]
fn three_modes_make_the_same_publish() {
    let mut headers = CE.to_vec();
    headers.push(("content-type", "application/json"));
    let binary = one(&headers, r#"{"a":1}"#);
    let json = r#"{"specversion":"1.0","id":"1","source":"/t","type":"t","datacontenttype":"application/json","data":{"a":1}}"#;
    let structured = one(&[("content-type", "application/cloudevents+json")], json);
    assert_eq!(binary.publish.frame, structured.publish.frame);
    assert_eq!(binary.publish.dedup, structured.publish.dedup);
    let batch = asked(
        &[("content-type", "application/cloudevents-batch+json")],
        Some("t"),
        None,
        &format!("[{json}]"),
    );
    let Ok(Asked::Batch(events)) = batch else { panic!("{batch:?}") };
    assert_eq!(events[0].as_ref().unwrap().publish.frame, binary.publish.frame);
    assert!(binary.publish.persistent && binary.publish.create_topic);
    assert_eq!((binary.publish.exchange.as_str(), binary.publish.keys[0].as_str()), ("amq.topic", "t"));
}

#[test]
fn incomplete_binary_events_name_their_headers() {
    let problem = asked(&[("ce-id", "1"), ("ce-type", "t")], Some("t"), None, "x").unwrap_err();
    let places: Vec<_> = problem.faults.iter().map(|fault| fault.place.clone()).collect();
    assert_eq!(places, [Place::Header("ce-specversion".into()), Place::Header("ce-source".into())]);
    let mut twice = CE.to_vec();
    twice.extend([("ce-x", "1"), ("ce-x", "2")]);
    assert_eq!(asked(&twice, Some("t"), None, "").unwrap_err().faults[0].place, Place::Header("ce-x".into()));
    let mut bad = CE.to_vec();
    bad.push(("ce-under_score", "1"));
    assert_eq!(asked(&bad, Some("t"), None, "").unwrap_err().status, 400);
    let mut ignored = CE.to_vec();
    ignored.push(("ce-datacontenttype", "text/plain"));
    assert_eq!(one(&ignored, "").publish.frame.attr("datacontenttype"), None);
}

#[test]
fn the_topic_comes_from_the_path_the_subject_or_the_query() {
    let structured = [("content-type", "application/cloudevents+json")];
    let key = |topic, fallback, body: &str| match asked(&structured, topic, fallback, body) {
        Ok(Asked::One(ready)) => Ok(ready.publish.keys[0].as_str().to_owned()),
        other => Err(other.unwrap_err().status),
    };
    assert_eq!(key(Some("path"), Some("query"), STRUCTURED).as_deref(), Ok("path"));
    assert_eq!(key(None, Some("query"), STRUCTURED).as_deref(), Ok("from.subject"));
    let no_subject = STRUCTURED.replace(r#","subject":"from.subject""#, "");
    assert_eq!(key(None, Some("query"), &no_subject).as_deref(), Ok("query"));
    assert_eq!(key(None, None, &no_subject), Err(400));
    assert_eq!(key(Some("a.*"), None, STRUCTURED), Err(400));
}

#[test]
fn a_plain_body_becomes_an_event_of_its_client() {
    let ready = one(&[("content-type", "text/plain")], "hello");
    assert_eq!((ready.source.as_str(), ready.id.len()), ("/clients/ann%20b", 36));
    let frame = &ready.publish.frame;
    assert_eq!(
        (frame.attr("type"), frame.attr("datacontenttype"), frame.data()),
        (Some("framegate.plain"), Some("text/plain"), b"hello".as_slice())
    );
    assert_eq!(ready.publish.dedup, None);
    assert_ne!(one(&[], "x").id, one(&[], "x").id);
}

#[test]
fn an_idempotency_key_identifies_a_plain_body() {
    let send = |body: &str| one(&[("idempotency-key", "k")], body);
    let (a, b, other) = (send("x"), send("x"), send("y"));
    assert_eq!((a.publish.dedup, &a.id), (b.publish.dedup, &b.id));
    let (a, other) = (a.publish.dedup.unwrap(), other.publish.dedup.unwrap());
    assert_eq!(a.key, other.key);
    assert_ne!(a.content, other.content);
}

#[test]
fn clients_can_do_without_deduplication() {
    let mut headers = CE.to_vec();
    assert!(one(&headers, "").publish.dedup.is_some());
    headers.push(("prefer", "return=minimal, dedupe=none"));
    assert_eq!(one(&headers, "").publish.dedup, None);
}

#[test]
fn expiry_becomes_a_time_to_live() {
    let mut headers = CE.to_vec();
    headers.push(("ce-expirytime", "1970-01-01T00:00:03Z"));
    assert_eq!(one(&headers, "").publish.ttl_ms, Some(2000));
}

#[test]
fn a_refused_batch_lists_every_bad_event() {
    let body = format!(r#"[{STRUCTURED},{{"id":"x"}},{STRUCTURED},{{}}]"#);
    let batch = asked(&[("content-type", "application/cloudevents-batch+json")], Some("t"), None, &body);
    let Ok(Asked::Batch(events)) = batch else { panic!("{batch:?}") };
    let problem = batch_refused(&events).unwrap();
    assert_eq!(problem.status, 400);
    assert!(problem.detail.starts_with("2 of 4 events"), "{}", problem.detail);
    assert_eq!(problem.json()["errors"][0]["pointer"], "/1/specversion");
    assert!(problem.json()["errors"].as_array().unwrap().iter().any(|error| error["pointer"] == "/3/id"));
    let rejected = vec![(1, events[1].as_ref().unwrap_err().clone())];
    let body = partial(2, &rejected);
    assert_eq!(
        (&body["accepted"], &body["rejected"][0]["index"], &body["rejected"][0]["status"]),
        (&json!(2), &json!(1), &json!(400))
    );
}

#[test]
fn the_answer_names_the_event_and_its_place() {
    let published = Published { offset: Some(Offset(7)), duplicate: true, ..Published::default() };
    assert_eq!(
        accepted("1", "/t", &published),
        json!({"id": "1", "source": "/t", "offset": 7, "duplicate": true})
    );
}

#[test]
fn preferences_are_read_by_name() {
    let headers = map(&[("prefer", "respond-async, Return=\"representation\"; x=y"), ("prefer", "wait=5")]);
    assert!(prefers(&headers, "return", "representation"));
    assert!(!prefers(&headers, "return", "minimal") && !prefers(&headers, "dedupe", "none"));
}

#[test]
fn random_headers_are_an_event_or_an_error() {
    let mut state = 0xDEAD_BEEF_CAFE_F00D_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let mut headers = map(&CE);
        let value: Vec<u8> = (0..next() % 12)
            .map(|_| match next() % 4 {
                0 => b'%',
                1 => b'"',
                2 => b"\\ 0aF9"[(next() % 6) as usize],
                _ => (next() as u8).max(0x20),
            })
            .filter(|byte| *byte != 0x7F)
            .collect();
        headers.insert("ce-ext", HeaderValue::from_bytes(&value).unwrap());
        let strict = next() % 2 == 0;
        let settings = Settings { strict_headers: strict, ..Settings::default() };
        let head = Head {
            headers: &headers,
            topic: Some("t"),
            fallback: None,
            vhost: "/",
            user: "u",
            now_ms: 0,
            settings: &settings,
        };
        let _ = read(&head, Mode::Binary, Bytes::new());
    }
}
