//! Where a subscription starts: the cursor's sources in their order, for streams and WebSockets. Never checks whether a
//! cursor is known; the broker does.

use axum::http::HeaderMap;
use framegate_broker::feed::From;

use super::problem::Problem;
use super::query::Query;
use crate::event::{Place, to_unix_ms};
use crate::limits::{CURSOR_BYTES_MAX, REWIND_MAX};

/// Names of the query parameter that stands in for the header.
const CURSOR_PARAMETERS: [&str; 3] = ["lastEventId", "last-event-id", "last_event_id"];

/// The start that a request asks for: `Last-Event-ID`, then its query forms, then `since` and `rewind`; else latest.
///
/// # Errors
/// 400 for a malformed `since` or `rewind`, or a cursor that is too long.
pub(crate) fn start(headers: Option<&HeaderMap>, query: &Query) -> Result<From, Problem> {
    let header = headers
        .and_then(|headers| headers.get("last-event-id"))
        .map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
        .filter(|value| !value.is_empty());
    let parameter =
        || CURSOR_PARAMETERS.iter().find_map(|name| query.get(name)).filter(|value| !value.is_empty());
    if let Some(cursor) = header.as_deref().or_else(parameter) {
        return of_text(cursor);
    }
    if let Some(since) = query.get("since") {
        return of_time(since)
            .ok_or_else(|| Problem::at(Place::Query("since"), "is not an RFC 3339 timestamp"));
    }
    let rewind = query.number("rewind", 0, REWIND_MAX.into())?;
    Ok(match rewind.and_then(|events| u32::try_from(events).ok()) {
        Some(events) => From::Last(events),
        None => From::Latest,
    })
}

/// A start given as text: a reserved word or a cursor.
///
/// # Errors
/// 400 for a cursor that is too long.
pub(crate) fn of_text(text: &str) -> Result<From, Problem> {
    match text {
        "earliest" => Ok(From::Earliest),
        "latest" => Ok(From::Latest),
        _ if text.len() > CURSOR_BYTES_MAX => {
            let detail = format!("a cursor of {} bytes is longer than {CURSOR_BYTES_MAX}", text.len());
            Err(Problem::new(400, "bad_request", detail))
        }
        _ => Ok(From::After(text.to_owned())),
    }
}

/// A start given as a timestamp; times before 1970 are the earliest.
pub(crate) fn of_time(text: &str) -> Option<From> {
    Some(From::Time(u64::try_from(to_unix_ms(text)?).unwrap_or(0)))
}

/// The word for `X-Framegate-Resume`.
pub(crate) fn word(from: &From, exact: bool) -> &'static str {
    match from {
        From::Earliest => "earliest",
        _ if exact => "exact",
        _ => "gap",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(header: Option<&str>, query: &str) -> Result<From, u16> {
        let headers = header
            .map(|value| [("last-event-id".parse().unwrap(), value.parse().unwrap())].into_iter().collect());
        start(headers.as_ref(), &Query::parse(Some(query))).map_err(|problem| problem.status)
    }

    #[test]
    fn sources_are_read_in_order() {
        let after = |text: &str| Ok(From::After(text.to_owned()));
        assert_eq!(from(Some("h"), "lastEventId=q&since=2020-01-01T00:00:00Z"), after("h"));
        assert_eq!(from(Some(""), "last-event-id=q"), after("q"));
        assert_eq!(from(None, "last_event_id=q&rewind=2"), after("q"));
        assert_eq!(from(None, "lastEventId=a&last_event_id=b"), after("a"));
        assert_eq!(from(None, "since=1970-01-01T00:00:01Z&rewind=2"), Ok(From::Time(1000)));
        assert_eq!(from(None, "since=1960-01-01T00:00:01Z"), Ok(From::Time(0)));
        assert_eq!(from(None, "rewind=2"), Ok(From::Last(2)));
        assert_eq!(from(None, ""), Ok(From::Latest));
        assert_eq!(from(Some("earliest"), ""), Ok(From::Earliest));
        assert_eq!(from(None, "lastEventId=latest"), Ok(From::Latest));
    }

    #[test]
    fn malformed_starts_are_refused() {
        for query in ["since=yesterday", "rewind=x", "rewind=-1", "rewind=10001"] {
            assert_eq!(from(None, query), Err(400), "{query}");
        }
        assert_eq!(from(Some(&"x".repeat(513)), ""), Err(400));
    }
}
