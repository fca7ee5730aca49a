//! The comparer of recorded bunqueue replies is itself tested: a reply that is right in its own ids and times passes, and each of
//! the listed mutations of it fails.

use harness::bunqueue::{Value, map};
use harness::bunqueue_compare::{Comparer, Interval};

const RECORDED_ID: &str = "01a22e9e-2e12-7603-94b4-da29dd4070b4";
const RECORDED_TOKEN: &str = "01a22e9f-9cae-71fc-839b-ef408d99caf7";
const RECORDED_OTHER: &str = "01a22e9f-9cc3-72b2-be4f-1dd4854f0465";
const OWN_ID: &str = "0199aaaa-0001-7000-8000-000000000001";
const OWN_TOKEN: &str = "0199aaaa-0002-7000-8000-000000000002";
const OWN_OTHER: &str = "0199aaaa-0003-7000-8000-000000000003";
const RECORDED_MS: f64 = 1_796_078_448_152.0;
const OWN_MS: f64 = 1_890_000_000_000.0;
const INTERVAL: Interval = Interval { sent_ms: OWN_MS - 5.0, received_ms: OWN_MS + 5.0 };

fn job(id: &str, ms: f64) -> Value {
    map([
        ("id", id.into()),
        ("queue", "q".into()),
        ("name", "task".into()),
        ("data", map([("a", 1.into()), ("bin", Value::Bytes(vec![1, 2])), ("nan", f64::NAN.into())])),
        ("createdAt", ms.into()),
        ("runAt", (ms + 60_000.0).into()),
        ("startedAt", Value::Nil),
        ("attempts", 1.into()),
        ("priority", 5.into()),
        ("lifo", false.into()),
        ("ttl", Value::Nil),
        ("tags", Value::List(vec!["x".into(), "y".into()])),
        ("returnvalue", Value::Absent),
        (
            "timeline",
            Value::List(vec![
                map([("state", "waiting".into()), ("timestamp", ms.into())]),
                map([("state", "active".into()), ("timestamp", (ms + 1.0).into())]),
            ]),
        ),
    ])
}

/// The reply to a PULLB of two jobs, and what only this test puts in it.
fn reply(ids: [&str; 3], ms: f64) -> Value {
    map([
        ("ok", true.into()),
        ("jobs", Value::List(vec![job(ids[0], ms), job("custom", ms)])),
        ("tokens", Value::List(vec![ids[1].into(), ids[2].into()])),
        ("note", format!("Lock token required for job {}", ids[0]).into()),
        ("count", 2.into()),
        ("reqId", "7".into()),
    ])
}

fn recorded() -> Value {
    reply([RECORDED_ID, RECORDED_TOKEN, RECORDED_OTHER], RECORDED_MS)
}

fn own() -> Value {
    let mut own = reply([OWN_ID, OWN_TOKEN, OWN_OTHER], OWN_MS);
    // nothing is said where nothing was recorded
    if let Value::List(jobs) = field(&mut own, &["jobs"]) {
        for job in jobs {
            remove(job, "returnvalue");
        }
    }
    own
}

/// The value under keys, where a number is an index.
fn field<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Value {
    let Some((first, rest)) = path.split_first() else { return value };
    let inner = match value {
        Value::Map(entries) => entries.iter_mut().find(|(key, _)| key == first).map(|(_, value)| value),
        Value::List(values) => values.get_mut(first.parse::<usize>().expect("an index")),
        _ => None,
    };
    field(inner.unwrap_or_else(|| panic!("no {first}")), rest)
}

fn remove(value: &mut Value, name: &str) {
    if let Value::Map(entries) = value {
        entries.retain(|(key, _)| key != name);
    }
}

type Mutation = (&'static str, fn(&mut Value));

fn set(value: &mut Value, path: &[&str], new: impl Into<Value>) {
    *field(value, path) = new.into();
}

const MUTATIONS: [Mutation; 33] = [
    ("success becomes failure", |v| set(v, &["ok"], false)),
    ("a boolean becomes a number", |v| set(v, &["ok"], 1)),
    ("a required field is missing", |v| remove(v, "ok")),
    ("reqId is missing", |v| remove(v, "reqId")),
    ("reqId becomes a number", |v| set(v, &["reqId"], 7)),
    ("reqId is another", |v| set(v, &["reqId"], "8")),
    ("a field more than recorded", |v| v.set("extra", 1.into())),
    ("a field more in a job", |v| field(v, &["jobs", "0"]).set("extra", Value::Nil)),
    ("a count is one off", |v| set(v, &["count"], 3)),
    ("a count becomes text", |v| set(v, &["count"], "2")),
    ("a count is a 64-bit integer", |v| set(v, &["count"], Value::Big(2))),
    ("a job is missing", |v| {
        if let Value::List(jobs) = field(v, &["jobs"]) {
            jobs.truncate(1);
        }
    }),
    ("jobs are in another order", |v| {
        if let Value::List(jobs) = field(v, &["jobs"]) {
            jobs.swap(0, 1);
        }
    }),
    ("one id stands for two", |v| set(v, &["tokens", "1"], OWN_TOKEN)),
    ("a token is the job's id", |v| set(v, &["tokens", "0"], OWN_ID)),
    ("an id is no id", |v| set(v, &["jobs", "0", "id"], "job-1")),
    ("an id of another version", |v| set(v, &["jobs", "0", "id"], "0199aaaa-0001-4000-8000-000000000001")),
    ("an id in a text is another", |v| set(v, &["note"], format!("Lock token required for job {OWN_OTHER}"))),
    ("a text differs by a letter", |v| set(v, &["note"], format!("lock token required for job {OWN_ID}"))),
    ("a given id is another", |v| set(v, &["jobs", "1", "id"], "custom-2")),
    ("a token is null", |v| set(v, &["tokens", "0"], Value::Nil)),
    ("null becomes zero", |v| set(v, &["jobs", "0", "ttl"], 0)),
    ("null is left out", |v| remove(field(v, &["jobs", "0"]), "ttl")),
    ("an attempt more", |v| set(v, &["jobs", "0", "attempts"], 2)),
    ("a state is another", |v| set(v, &["jobs", "0", "timeline", "0", "state"], "prioritized")),
    ("an entry of the timeline is missing", |v| {
        if let Value::List(entries) = field(v, &["jobs", "0", "timeline"]) {
            entries.pop();
        }
    }),
    ("a time before the request", |v| set(v, &["jobs", "0", "createdAt"], OWN_MS - 100.0)),
    ("a time after the reply", |v| set(v, &["jobs", "0", "createdAt"], OWN_MS + 100.0)),
    ("a time with a fraction", |v| set(v, &["jobs", "0", "createdAt"], OWN_MS + 0.5)),
    ("a time as text", |v| set(v, &["jobs", "0", "createdAt"], "1890000000000")),
    ("a delay that is ten seconds short", |v| set(v, &["jobs", "0", "runAt"], OWN_MS + 50_000.0)),
    ("bytes become text", |v| set(v, &["jobs", "0", "data", "bin"], "\u{1}\u{2}")),
    ("NaN becomes null", |v| set(v, &["jobs", "0", "data", "nan"], Value::Nil)),
];

#[test]
fn right_reply_passes_and_each_listed_mutation_fails() {
    let mut fresh = Comparer::default();
    fresh.reply(&recorded(), &own(), INTERVAL).expect("a right reply");
    for (name, mutate) in MUTATIONS {
        let mut wrong = own();
        mutate(&mut wrong);
        let seen = Comparer::default().reply(&recorded(), &wrong, INTERVAL);
        assert!(seen.is_err(), "{name}");
    }
}

#[test]
fn what_was_seen_once_is_fixed_from_then_on() {
    let mut comparer = Comparer::default();
    comparer.reply(&recorded(), &own(), INTERVAL).expect("a right reply");
    comparer.reply(&recorded(), &own(), INTERVAL).expect("the same again");
    let swapped = reply([OWN_ID, OWN_OTHER, OWN_TOKEN], OWN_MS);
    assert!(comparer.clone().reply(&recorded(), &swapped, INTERVAL).is_err(), "tokens changed places");
    let mut moved = own();
    set(&mut moved, &["jobs", "0", "createdAt"], OWN_MS + 1.0);
    assert!(comparer.clone().reply(&recorded(), &moved, INTERVAL).is_err(), "a time changed that had not");
    let request = map([("cmd", "ACK".into()), ("id", RECORDED_ID.into()), ("token", RECORDED_TOKEN.into())]);
    let sent = comparer.request(&request);
    assert_eq!((sent.get("id").text(), sent.get("token").text()), (OWN_ID, OWN_TOKEN));
}
