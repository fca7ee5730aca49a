//! Every bound of a field at the bound and one past it, with the text of the original.

use bytes::BytesMut;

use super::*;
use crate::codec::{
    Item, MapWriter, Whole, put_bytes, put_float, put_int, put_list_head, put_number, put_text, whole,
};

/// A value of a test's field.
#[derive(Debug, Clone)]
enum Put {
    Number(f64),
    Text(String),
    Bytes(usize),
    Map(Vec<(&'static str, Put)>),
    List(Vec<Put>),
    Big,
}

fn n(number: impl Into<f64>) -> Put {
    Put::Number(number.into())
}

fn t(text: &str) -> Put {
    Put::Text(text.to_owned())
}

fn put(buffer: &mut BytesMut, value: &Put) {
    match value {
        Put::Number(number) => put_number(buffer, *number),
        Put::Text(text) => put_text(buffer, text),
        Put::Bytes(length) => put_bytes(buffer, &vec![1; *length]),
        Put::Map(entries) => {
            let mut map = MapWriter::begin(buffer);
            for (name, value) in entries {
                put(map.name(name), value);
            }
            map.end();
        }
        Put::List(values) => {
            put_list_head(buffer, values.len());
            values.iter().for_each(|value| put(buffer, value));
        }
        Put::Big => buffer.extend_from_slice(&[0xCF, 0, 0, 0, 0, 0, 0, 0, 1]),
    }
}

fn encoded(entries: &[(&'static str, Put)]) -> Vec<u8> {
    let mut buffer = BytesMut::new();
    put(&mut buffer, &Put::Map(entries.to_vec()));
    buffer.to_vec()
}

/// Hands the fields of a map to `read`; the text of the refusal, or nothing.
fn refusal<T>(
    entries: &[(&'static str, Put)],
    read: impl FnOnce(&Fields<'_>) -> Result<T, Refusal>,
) -> Option<String> {
    let bytes = encoded(entries);
    match whole(&bytes) {
        Some(Whole { raw, rest: [] }) => match raw.item() {
            Item::Map(map) => read(&Fields::of(map)).err().map(|refusal| refusal.to_string()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn job(entries: &[(&'static str, Put)]) -> Option<String> {
    refusal(entries, |fields| JobInput::read(fields, "jobId").map(drop))
}

/// At the bound it is taken, one past it is refused in these words.
fn bound(entries: &[(&'static str, Put)], field: &'static str, at: Put, past: Put, text: &str) {
    let with = |value: Put| {
        let mut all = entries.to_vec();
        all.retain(|(name, _)| *name != field);
        all.push((field, value));
        all
    };
    assert_eq!(job(&with(at.clone())), None, "{field} {at:?}");
    assert_eq!(job(&with(past.clone())).as_deref(), Some(text), "{field} {past:?}");
}

#[test]
fn options_are_taken_at_their_bounds_and_refused_one_past_them() {
    let plain = [("name", t("n")), ("data", n(1))];
    let is = |field, at: f64, past: f64, text| bound(&plain, field, n(at), n(past), text);
    is("priority", 1_000_000.0, 1_000_001.0, "priority must be at most 1000000");
    is("priority", -1_000_000.0, -1_000_001.0, "priority must be at least -1000000");
    is("delay", 31_536_000_000.0, 31_536_000_001.0, "delay must be at most 31536000000");
    is("delay", 0.0, -1.0, "delay must be at least 0");
    is("ttl", 31_536_000_000.0, 31_536_000_001.0, "ttl must be at most 31536000000");
    is("ttl", 0.0, -1.0, "ttl must be at least 0");
    is("timeout", 86_400_000.0, 86_400_001.0, "timeout must be at most 86400000");
    is("timeout", 0.0, -1.0, "timeout must be at least 0");
    is("backoff", 86_400_000.0, 86_400_001.0, "backoff must be at most 86400000");
    is("backoff", 0.0, -1.0, "backoff must be at least 0");
    is("maxAttempts", 1000.0, 1001.0, "maxAttempts must be at most 1000");
    is("maxAttempts", 1.0, 0.0, "maxAttempts must be at least 1");
    is("maxAttempts", 2.0, 1.5, "maxAttempts must be an integer");
    is("priority", 1.0, 1.5, "priority must be an integer");
    is("delay", 1.0, f64::NAN, "delay must be a finite number");
    is("delay", 1.0, f64::INFINITY, "delay must be a finite number");
    bound(&plain, "priority", n(5), t("5"), "priority must be a number");
    let backoff = |delay: f64| Put::Map(vec![("type", t("fixed")), ("delay", n(delay))]);
    bound(
        &plain,
        "backoff",
        backoff(86_400_000.0),
        backoff(86_400_001.0),
        "backoff.delay must be at most 86400000",
    );
    let linear = Put::Map(vec![("type", t("linear")), ("delay", n(1))]);
    bound(&plain, "backoff", backoff(1.0), linear, "backoff.type must be 'fixed' or 'exponential'");
    let no_delay = Put::Map(vec![("type", t("exponential"))]);
    bound(&plain, "backoff", backoff(1.0), no_delay, "backoff.delay is required");
}

#[test]
fn groups_are_bounded() {
    let grouped = [("name", t("n")), ("data", n(1)), ("groupId", t("g"))];
    let priority = "group.priority must be between 0 and 2097151";
    bound(&grouped, "priority", n(2_097_151), n(2_097_152), priority);
    bound(&grouped, "priority", n(0), n(-1), priority);
    bound(&grouped, "groupMaxSize", n(1), n(0), "group.maxSize must be a positive safe integer");
    bound(
        &grouped,
        "groupId",
        t(&"g".repeat(256)),
        t(&"g".repeat(257)),
        "groupId must be at most 256 characters",
    );
    bound(&grouped, "groupId", t("g"), t(""), "groupId must be a non-empty string");
    bound(&grouped, "groupId", t("g"), t("a\0b"), "groupId must be a non-empty string");
    bound(&grouped, "groupId", t("g"), n(5), "groupId must be a string");
}

#[test]
fn names_have_1_to_256_characters_as_javascript_counts_them() {
    let text = "Job name must be a non-empty string of at most 256 characters";
    let plain = [("data", n(1))];
    bound(&plain, "name", t(&"n".repeat(256)), t(&"n".repeat(257)), text);
    bound(&plain, "name", t(&"😀".repeat(128)), t(&"😀".repeat(129)), text);
    bound(&plain, "name", t("n"), t(""), text);
    bound(&plain, "name", t("n"), n(5), text);
}

#[test]
fn data_is_measured_as_json_text() {
    let plain = [("name", t("n"))];
    let limit = 10 * 1024 * 1024;
    let text = |units: usize| t(&"x".repeat(units - 2));
    bound(&plain, "data", text(limit), text(limit + 1), "Job data too large (max 10MB)");
    // two units each, with the quotes around them
    let quotes = |count: usize| t(&"\"".repeat(count));
    bound(&plain, "data", quotes(limit / 2 - 1), quotes(limit / 2), "Job data too large (max 10MB)");
    // {"type":"Buffer","data":[1,1,...]}
    let bytes = (limit - 27).div_ceil(2);
    bound(&plain, "data", Put::Bytes(bytes), Put::Bytes(bytes + 1), "Job data too large (max 10MB)");
    let big = Put::Map(vec![("b", Put::Big)]);
    bound(&plain, "data", n(1), big, "Job data must be JSON serializable");
}

#[test]
fn name_in_the_data_is_the_name_when_none_stands_beside_it() {
    let read = |entries: &[(&'static str, Put)]| {
        let bytes = encoded(entries);
        let Item::Map(map) = whole(&bytes).unwrap().raw.item() else { panic!("a map") };
        let job = JobInput::read(&Fields::of(map), "jobId").unwrap();
        (job.name.into_owned(), job.data.into_owned(), job.is_legacy)
    };
    let old = Put::Map(vec![("name", t("old")), ("v", n(1))]);
    assert_eq!(read(&[("data", old.clone())]), ("old".to_owned(), b"\xDE\0\x01\xA1v\x01".to_vec(), true));
    let both = read(&[("name", t("new")), ("data", old)]);
    assert_eq!(
        (both.0.as_str(), both.1, both.2),
        ("new", encoded(&[("name", t("old")), ("v", n(1))]), false)
    );
    assert_eq!(read(&[("data", t("text"))]), ("default".to_owned(), b"\xA4text".to_vec(), false));
    assert_eq!(read(&[]), ("default".to_owned(), Vec::new(), false));
    let back = with_name(whole(b"\xDE\0\x01\xA1v\x01").unwrap().raw, "old").unwrap();
    assert_eq!(back, encoded(&[("name", t("old")), ("v", n(1))]));
}

#[test]
fn queue_names_are_checked() {
    let queue = |name: &str| refusal(&[("queue", t(name))], |fields| checked_queue(fields).map(drop));
    assert_eq!(queue("a.b_c-d:9"), None);
    assert_eq!(queue(&"q".repeat(255)), None);
    // the original takes one more
    assert_eq!(queue(&"q".repeat(256)).as_deref(), Some("Queue name too long (max 255 characters)"));
    assert_eq!(queue(&"q".repeat(257)).as_deref(), Some("Queue name too long (max 256 characters)"));
    assert_eq!(queue("").as_deref(), Some("Queue name is required"));
    assert_eq!(queue("a b").as_deref(), Some("Queue name contains invalid characters"));
    assert_eq!(queue("a/b").as_deref(), Some("Queue name contains invalid characters"));
    let missing = refusal(&[], |fields| checked_queue(fields).map(drop));
    assert_eq!(missing.as_deref(), Some("Queue name is required"));
}

#[test]
fn pulls_are_bounded() {
    let pull = |field: &'static str, value: Put, many: bool| {
        refusal(&[("queue", t("q")), (field, value)], |fields| Pull::read(fields, many).map(drop))
    };
    assert_eq!(pull("timeout", n(60_000), false), None);
    assert_eq!(pull("timeout", n(60_001), false).as_deref(), Some("timeout must be at most 60000"));
    assert_eq!(pull("timeout", n(-1), true).as_deref(), Some("timeout must be at least 0"));
    assert_eq!(pull("count", n(1000), true), None);
    assert_eq!(pull("count", n(1001), true).as_deref(), Some("count must be at most 1000"));
    assert_eq!(pull("count", n(0), true).as_deref(), Some("count must be at least 1"));
    let group = |name: &'static str, value: f64| Put::Map(vec![(name, n(value))]);
    assert_eq!(pull("group", group("concurrency", 1.0), false), None);
    let text = "group.concurrency must be a positive safe integer";
    assert_eq!(pull("group", group("concurrency", 0.0), false).as_deref(), Some(text));
    assert_eq!(pull("group", group("concurrency", 9_007_199_254_740_992.0), false).as_deref(), Some(text));
}

#[test]
fn lists_of_a_batch_are_as_long_as_its_ids() {
    let texts = |count: usize| Put::List((0..count).map(|at| t(&at.to_string())).collect());
    for field in ["tokens", "results", "removeOnCompletes"] {
        let batch = |count| refusal(&[("ids", texts(2)), (field, texts(count))], |f| ack_all(f).map(drop));
        assert_eq!(batch(2), None);
        assert_eq!(batch(1), Some(format!("ACKB {field} length must match ids length")));
        assert_eq!(batch(3), Some(format!("ACKB {field} length must match ids length")));
    }
}

#[test]
fn progress_is_clamped_and_what_is_no_number_is_not_one() {
    let read = |value: Put| {
        let bytes = encoded(&[("progress", value)]);
        let Item::Map(map) = whole(&bytes).unwrap().raw.item() else { panic!("a map") };
        progress(&Fields::of(map))
    };
    assert_eq!(read(n(40)), 40.0);
    assert_eq!(read(n(400)), 100.0);
    assert_eq!(read(n(-1)), 0.0);
    assert!(read(Put::Map(Vec::new())).is_nan());
}

#[test]
fn integers_may_come_as_floats() {
    let mut buffer = BytesMut::new();
    let mut map = MapWriter::begin(&mut buffer);
    put_float(map.name("maxAttempts"), 5.0);
    put_int(map.name("priority"), 3);
    map.end();
    let Item::Map(map) = whole(&buffer).unwrap().raw.item() else { panic!("a map") };
    let job = JobInput::read(&Fields::of(map), "jobId").unwrap();
    assert_eq!((job.max_attempts, job.priority), (5, 3));
}
