//! Compares a server's replies with recorded ones. What may differ is what must differ: each generated id and token is a symbol,
//! whose value is free once and fixed from then on, both ways; each time lies in the interval in which it can have been taken,
//! and stays what it was while the recorded one does. Everything else is equal, where a field that is `undefined` equals one
//! that is not there.

use std::collections::HashMap;

use crate::bunqueue::Value;

/// Times of the recording; smaller ones were given by a request.
const RECORDED_MS: std::ops::Range<f64> = 1_790_000_000_000.0..1_900_000_000_000.0;
/// Fields that lie ahead.
const AHEAD: [&str; 4] = ["runAt", "nextRun", "nextRetryAt", "expiresAt"];
/// Slack of a time ahead, in ms, beside half of how far it is ahead (retries are jittered by as much).
const AHEAD_SLACK_MS: f64 = 1500.0;
/// Numbers that no two runs share: only that they are numbers, and not negative.
const NOISE: [&str; 8] = [
    "uptime",
    "pushPerSec",
    "pullPerSec",
    "avgLatencyMs",
    "avgProcessingMs",
    "memoryUsageMb",
    "sqliteSizeMb",
    "activeConnections",
];
/// Times that are left, in ms: at most what was recorded and a second more, and not less than by that much.
const LEFT: [&str; 2] = ["rateLimitTtl", "ttl"];
/// Slack of those.
const LEFT_SLACK_MS: f64 = 5000.0;
/// Slack of how long an attempt took.
const DURATION_SLACK_MS: f64 = 50.0;
/// Bytes of an id: `01234567-89ab-7cde-8f01-23456789abcd`.
const ID_BYTES: usize = 36;

/// When a request was sent and its reply read, in ms since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Interval {
    /// Before it was sent.
    pub sent_ms: f64,
    /// After the reply was read.
    pub received_ms: f64,
}

/// What is known from the replies so far.
#[derive(Debug, Default, Clone)]
pub struct Comparer {
    /// Recorded id to the server's.
    there: HashMap<String, String>,
    /// And back.
    back: HashMap<String, String>,
    /// Recorded and own time of a field of an object.
    times: HashMap<String, (f64, f64)>,
    /// When an id was first in a request or reply.
    first_seen: HashMap<String, f64>,
    /// The job that the request named.
    asked: Option<String>,
    /// The latest past time that was recorded.
    recorded_now: f64,
}

impl Comparer {
    /// The recorded request with the server's ids in place of the recorded ones.
    #[must_use]
    pub fn request(&self, recorded: &Value) -> Value {
        match recorded {
            Value::Text(text) => Value::Text(self.translate(text)),
            Value::List(values) => Value::List(values.iter().map(|value| self.request(value)).collect()),
            Value::Map(entries) => Value::Map(
                entries.iter().map(|(key, value)| (self.translate(key), self.request(value))).collect(),
            ),
            other => other.clone(),
        }
    }

    /// Notes the ids of a request that is about to be sent.
    pub fn sending(&mut self, request: &Value, sent_ms: f64) {
        self.note_ids(request, sent_ms);
        self.asked = match request.get("id") {
            Value::Text(id) => Some(id.clone()),
            _ => None,
        };
    }

    /// Compares a reply with the recorded one.
    ///
    /// # Errors
    /// The first difference, with its path.
    pub fn reply(&mut self, recorded: &Value, own: &Value, interval: Interval) -> Result<(), String> {
        self.note_ids(own, interval.sent_ms);
        self.recorded_now = latest(recorded, "", self.recorded_now);
        self.value("reply", "", "", recorded, own, interval)
    }

    fn translate(&self, text: &str) -> String {
        let mut out = String::new();
        for part in parts(text) {
            out.push_str(match part {
                Part::Id(id) => self.there.get(id).map_or(id, String::as_str),
                Part::Text(text) => text,
            });
        }
        out
    }

    fn note_ids(&mut self, value: &Value, at_ms: f64) {
        match value {
            Value::Text(text) if text.len() <= 64 => {
                self.first_seen.entry(text.clone()).or_insert(at_ms);
            }
            Value::List(values) => values.iter().for_each(|value| self.note_ids(value, at_ms)),
            Value::Map(entries) => entries.iter().for_each(|(_, value)| self.note_ids(value, at_ms)),
            _ => {}
        }
    }

    fn value(
        &mut self,
        path: &str,
        name: &str,
        owner: &str,
        recorded: &Value,
        own: &Value,
        interval: Interval,
    ) -> Result<(), String> {
        let differ = || Err(format!("{path}: {own:?} where {recorded:?} was recorded"));
        match (recorded, own) {
            (_, Value::Big(_)) => Err(format!("{path}: a 64-bit integer, which clients cannot read")),
            (Value::Text(a), Value::Text(b)) => self.text(path, a, b),
            (Value::Number(a), Value::Number(b)) => self.number(path, name, owner, *a, *b, interval),
            (Value::List(a), Value::List(b)) => {
                if a.len() != b.len() {
                    return Err(format!("{path}: {} elements where {} were recorded", b.len(), a.len()));
                }
                for (index, (a, b)) in a.iter().zip(b).enumerate() {
                    self.value(
                        &format!("{path}[{index}]"),
                        name,
                        &format!("{owner}[{index}]"),
                        a,
                        b,
                        interval,
                    )?;
                }
                Ok(())
            }
            (Value::Map(a), Value::Map(b)) => {
                let id = ["id", "jobId", "name"].into_iter().find_map(|key| match recorded.get(key) {
                    Value::Text(id) => Some(id.clone()),
                    _ => None,
                });
                let owner = id.unwrap_or_else(|| format!("{owner}.{name}"));
                for (key, a) in a.iter().filter(|(key, value)| *value != Value::Absent && key != "_state") {
                    let own_key = self.key(path, key)?;
                    let b = own.get(&own_key);
                    self.value(&format!("{path}.{key}"), key, &owner, a, b, interval)?;
                }
                let expected =
                    |key: &String| a.iter().any(|(k, v)| *v != Value::Absent && self.translate(k) == *key);
                match b.iter().find(|(key, value)| *value != Value::Absent && !expected(key)) {
                    Some((key, value)) => Err(format!("{path}.{key}: {value:?} where nothing was recorded")),
                    None => Ok(()),
                }
            }
            (a, b) if a == b => Ok(()),
            _ => differ(),
        }
    }

    /// The server's spelling of a recorded key, which may hold an id that was seen before.
    fn key(&self, path: &str, key: &str) -> Result<String, String> {
        for part in parts(key) {
            if let Part::Id(id) = part
                && !self.there.contains_key(id)
            {
                return Err(format!("{path}.{key}: {id} was not seen before"));
            }
        }
        Ok(self.translate(key))
    }

    fn text(&mut self, path: &str, recorded: &str, own: &str) -> Result<(), String> {
        let (a, b) = (parts(recorded), parts(own));
        let differ = || Err(format!("{path}: '{own}' where '{recorded}' was recorded"));
        if a.len() != b.len() {
            return differ();
        }
        for (a, b) in a.into_iter().zip(b) {
            match (a, b) {
                (Part::Text(a), Part::Text(b)) if a == b => {}
                (Part::Id(a), Part::Id(b)) => {
                    let known = (self.there.get(a).map(String::as_str), self.back.get(b).map(String::as_str));
                    match known {
                        (None, None) => {
                            self.there.insert(a.to_owned(), b.to_owned());
                            self.back.insert(b.to_owned(), a.to_owned());
                        }
                        (Some(there), Some(back)) if there == b && back == a => {}
                        (there, back) => {
                            return Err(format!(
                                "{path}: {a} is {there:?} elsewhere, {b} is {back:?}, here they meet"
                            ));
                        }
                    }
                }
                _ => return differ(),
            }
        }
        Ok(())
    }

    fn number(
        &mut self,
        path: &str,
        name: &str,
        owner: &str,
        recorded: f64,
        own: f64,
        interval: Interval,
    ) -> Result<(), String> {
        let differ = |why: &str| Err(format!("{path}: {own} where {recorded} was recorded{why}"));
        if own == recorded && !RECORDED_MS.contains(&recorded) || recorded.is_nan() && own.is_nan() {
            return Ok(());
        }
        if NOISE.contains(&name) {
            return if own >= 0.0 { Ok(()) } else { differ("") };
        }
        if name == "duration" && (own - recorded).abs() <= DURATION_SLACK_MS && own >= 0.0 {
            return Ok(());
        }
        if LEFT.contains(&name) && recorded > LEFT_SLACK_MS && own > 0.0 {
            return if (own - recorded).abs() <= LEFT_SLACK_MS { Ok(()) } else { differ(" as time left") };
        }
        if !RECORDED_MS.contains(&recorded) {
            return differ("");
        }
        if own.fract() != 0.0 {
            return differ(", a time in whole ms");
        }
        let fact = format!("{owner}/{name}");
        if let Some((then, own_then)) = self.times.get(&fact)
            && *then == recorded
            // lines and steps written in one ms there may have been written in two here
            && (*own_then == own || name != "timestamp")
        {
            return if *own_then == own { Ok(()) } else { differ(&format!(", which was {own_then} before")) };
        }
        let id = owner.split(['[', '.']).next().unwrap_or_default();
        let own_id = self.translate(id);
        let asked = self.asked.as_ref().and_then(|id| self.first_seen.get(id));
        let from_ms = self.first_seen.get(&own_id).or(asked).copied().unwrap_or(interval.sent_ms);
        let ahead_ms = if AHEAD.contains(&name) { (recorded - self.recorded_now).max(0.0) } else { 0.0 };
        let (low, high) = if ahead_ms > 0.0 {
            let slack = ahead_ms.min(4000.0) * 0.5 + AHEAD_SLACK_MS;
            (interval.sent_ms + ahead_ms - slack, interval.received_ms + ahead_ms + slack)
        } else {
            (from_ms, interval.received_ms)
        };
        if own < low.floor() || own > high.ceil() {
            return differ(&format!(", outside {low} to {high}"));
        }
        self.times.insert(fact, (recorded, own));
        Ok(())
    }
}

/// The latest time in a value that is not one ahead.
fn latest(value: &Value, name: &str, so_far: f64) -> f64 {
    match value {
        Value::Number(number) if RECORDED_MS.contains(number) && !AHEAD.contains(&name) => {
            so_far.max(*number)
        }
        Value::List(values) => values.iter().fold(so_far, |so_far, value| latest(value, name, so_far)),
        Value::Map(entries) => entries.iter().fold(so_far, |so_far, (key, value)| latest(value, key, so_far)),
        _ => so_far,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Id(&'a str),
    Text(&'a str),
}

/// Text cut at the ids in it.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut from, mut at) = (0, 0);
    while at + ID_BYTES <= text.len() {
        match text.get(at..at + ID_BYTES).filter(|candidate| is_id(candidate)) {
            Some(id) => {
                if from < at {
                    parts.push(Part::Text(&text[from..at]));
                }
                parts.push(Part::Id(id));
                at += ID_BYTES;
                from = at;
            }
            None => at += 1,
        }
    }
    if from < text.len() || parts.is_empty() {
        parts.push(Part::Text(&text[from..]));
    }
    parts
}

/// A UUID of version 7 as text.
fn is_id(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        14 => byte == b'7',
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
    })
}
