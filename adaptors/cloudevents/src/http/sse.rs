//! `GET /v1/sse`: what a request asks for, and the head of the answer. The bodies are `sse_body` and `sse_queue`.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use framegate_broker::feed::From as Start;
use framegate_broker::{Cursor, Name, Subscribe};
use serde_json::json;
use uuid::Uuid;

use super::problem::Problem;
use super::query::Query;
use super::resume;
use super::sse_encode::{Format, put_control, put_opening};
use crate::event::Place;
use crate::filter::{FilterError, Filters};
use crate::limits::{PAD_BYTES_MAX, PATTERNS_MAX};
use crate::settings::Settings;

/// A client whose stream was refused tries again after so many ms.
const RETRY_REFUSED_MS: u64 = 30_000;

/// What is streamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// Topics, from a place.
    Topics(Vec<Name>, Start),
    /// A queue.
    Queue(Name),
}

/// A request for a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) source: Source,
    pub(crate) filters: Filters,
    pub(crate) format: Format,
    pub(crate) pad: usize,
}

impl Ask {
    /// Reads a request.
    ///
    /// # Errors
    /// 400 with the parameter, 501 for what a later version does.
    pub(crate) fn read(headers: &HeaderMap, query: &Query) -> Result<Self, Problem> {
        if query.get("group").is_some() {
            return Err(Problem::not_implemented("the query parameter group"));
        }
        if query.get("ack").is_some_and(|ack| ack != "auto") {
            return Err(Problem::not_implemented("ack=explicit on a stream"));
        }
        let format = match query.get("event") {
            None => Format::Unnamed,
            Some("type") => Format::Typed,
            Some(_) => return Err(Problem::at(Place::Query("event"), "can only be 'type'")),
        };
        let pad = query.number("pad", 0, PAD_BYTES_MAX as u64)?.unwrap_or(0) as usize;
        let (source, filters) = (source(Some(headers), query)?, filters(query)?);
        if matches!(source, Source::Queue(_)) && !filters.is_empty() {
            return Err(Problem::at(Place::Query("filter"), "is for topics: what a queue holds is consumed"));
        }
        Ok(Self { source, filters, format, pad })
    }

    /// First bytes of the stream. `start`: the cursor of a subscription whose client has none yet; it is told, so that a
    /// client that is cut before its first event comes back to this place.
    pub(crate) fn opening(&self, settings: &Settings, start: Option<Cursor>) -> Bytes {
        let mut out = Vec::new();
        put_opening(&mut out, settings.retry_ms, self.pad);
        if let Some(cursor) = start {
            put_control(&mut out, Some(&cursor.to_string()), &json!({"subscribed": true}));
        }
        out.into()
    }
}

/// The filters that a query names: each `filter` is one, or an array of them, in JSON.
///
/// # Errors
/// 400 with the place in the filter.
fn filters(query: &Query) -> Result<Filters, Problem> {
    let mut all = Vec::new();
    for text in query.all("filter") {
        match serde_json::from_str(text) {
            Ok(serde_json::Value::Array(filters)) => all.extend(filters),
            Ok(filter) => all.push(filter),
            Err(error) => return Err(Problem::at(Place::Query("filter"), &format!("is not JSON: {error}"))),
        }
    }
    let wrong = |error: FilterError| {
        let place = if error.pointer.is_empty() { String::new() } else { format!(" at {}", error.pointer) };
        Problem::at(Place::Query("filter"), &format!("is no filter{place}: it {}", error.detail))
    };
    Filters::parse(&all.into()).map_err(wrong)
}

/// Topics or the queue that a query names, and where to start.
///
/// # Errors
/// 400 with the parameter.
pub(crate) fn source(headers: Option<&HeaderMap>, query: &Query) -> Result<Source, Problem> {
    let topics: Vec<&str> = query.all("topic").collect();
    match (query.get("queue"), topics.is_empty()) {
        (Some(_), false) => Err(Problem::at(Place::Query("queue"), "cannot stand beside topic")),
        (Some(queue), true) => Ok(Source::Queue(Name::declared(queue)?)),
        (None, true) => {
            Err(Problem::at(Place::Query("topic"), "is missing: name a topic, a pattern or a queue"))
        }
        (None, false) if topics.len() > PATTERNS_MAX => {
            Err(Problem::at(Place::Query("topic"), &format!("appears more than {PATTERNS_MAX} times")))
        }
        (None, false) => {
            let patterns = topics.into_iter().map(Name::declared).collect::<Result<_, _>>()?;
            Ok(Source::Topics(patterns, resume::start(headers, query)?))
        }
    }
}

impl Source {
    /// The subscription to topics.
    pub(crate) fn subscribe(patterns: &[Name], from: &Start) -> Subscribe {
        Subscribe { patterns: patterns.to_vec(), from: from.clone() }
    }
}

/// The answer that carries a stream. `resume`: how it goes on, when that is known.
pub(crate) fn response(body: Body, resume: Option<&'static str>) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    let mut set =
        |name: HeaderName, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, "text/event-stream; charset=utf-8");
    set(header::CACHE_CONTROL, "no-store, no-transform");
    set(HeaderName::from_static("x-accel-buffering"), "no");
    if let Some(resume) = resume {
        set(HeaderName::from_static("x-framegate-resume"), resume);
    }
    response
}

/// A refusal as a stream that ends at once, for browsers, which never come back after another status than 200.
pub(crate) fn refused_in_band(problem: &Problem) -> Response<Body> {
    let mut out = Vec::new();
    put_opening(&mut out, RETRY_REFUSED_MS, 0);
    let error = json!({
        "error": problem.code, "status": problem.status, "retryable": problem.retryable(), "detail": problem.detail,
    });
    put_control(&mut out, None, &error);
    let mut response = response(Body::from(out), Some("gap"));
    *response.status_mut() = StatusCode::OK;
    response
}

/// Lifetime of one stream: up to a fifth shorter than configured, at random, so that clients do not all come back at
/// once.
pub(crate) fn lifetime(settings: &Settings, random: Uuid) -> Option<Duration> {
    let full = settings.lifetime_s.checked_mul(1000).filter(|ms| *ms > 0)?;
    let cut = random.as_u64_pair().1 % (full / 5 + 1);
    Some(Duration::from_millis(full - cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(query: &str) -> Result<Ask, Problem> {
        Ask::read(&HeaderMap::new(), &Query::parse(Some(query)))
    }

    #[test]
    fn topics_patterns_and_options_are_read() {
        let ask = ask("topic=a.*&topic=b&rewind=3&event=type&pad=2048").unwrap();
        let patterns = vec![Name::new("a.*").unwrap(), Name::new("b").unwrap()];
        assert_eq!(ask.source, Source::Topics(patterns, Start::Last(3)));
        assert_eq!((ask.format, ask.pad), (Format::Typed, 2048));
        assert_eq!(super::tests::ask("queue=q").unwrap().source, Source::Queue(Name::new("q").unwrap()));
    }

    #[test]
    fn what_cannot_be_streamed_is_refused() {
        let many = vec!["topic=t"; 101].join("&");
        let refused = ["", "topic=", "queue=", "queue=q&topic=t", "topic=t&event=x", "topic=t&pad=x", &many];
        for query in refused {
            assert_eq!(ask(query).unwrap_err().status, 400, "{query}");
        }
        for query in ["topic=t&group=g", "queue=q&ack=explicit"] {
            assert_eq!(ask(query).unwrap_err().status, 501, "{query}");
        }
    }

    #[test]
    fn filters_are_read_from_one_parameter_or_several() {
        let one = ask(r#"topic=t&filter=[{"exact":{"type":"a"}},{"sql":"TRUE"}]"#).unwrap();
        let two = ask(r#"topic=t&filter={"exact":{"type":"a"}}&filter={"sql":"TRUE"}"#).unwrap();
        assert_eq!(one.filters, two.filters);
        assert!(!one.filters.is_empty() && ask("topic=t&filter=[]").unwrap().filters.is_empty());
    }

    #[test]
    fn a_filter_that_cannot_be_used_is_refused_with_its_place() {
        for (query, wanted) in [
            ("topic=t&filter=x", "is not JSON"),
            ("topic=t&filter={}", "at /0: it is not an object with exactly one member"),
            (r#"topic=t&filter={"sql":"ABS("}"#, "at /0/sql: it at byte 4"),
            (r#"queue=q&filter={"sql":"TRUE"}"#, "is for topics"),
        ] {
            let problem = ask(query).unwrap_err();
            assert_eq!(problem.status, 400);
            assert!(problem.detail.contains(wanted), "{query}: {}", problem.detail);
        }
    }

    #[test]
    fn head_keeps_proxies_and_compressors_away() {
        let answer = response(Body::empty(), Some("exact"));
        assert_eq!(answer.headers()["content-type"], "text/event-stream; charset=utf-8");
        assert_eq!(answer.headers()["cache-control"], "no-store, no-transform");
        assert_eq!(answer.headers()["x-accel-buffering"], "no");
        assert_eq!(answer.headers()["x-framegate-resume"], "exact");
        assert!(!answer.headers().contains_key("connection"));
    }

    #[test]
    fn lifetimes_differ_by_at_most_a_fifth() {
        let settings = Settings { lifetime_s: 100, ..Settings::default() };
        for random in [0_u128, 1 << 40, u128::MAX] {
            let lifetime = lifetime(&settings, Uuid::from_u128(random)).unwrap();
            assert!((80..=100).contains(&lifetime.as_secs()), "{lifetime:?}");
        }
        assert_eq!(lifetime(&Settings::default(), Uuid::nil()), None);
    }
}
