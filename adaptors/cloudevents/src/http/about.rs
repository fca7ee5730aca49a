//! What is known of a topic: who hears of it right now (`presence`), and the events that it keeps (`history`).

use axum::body::Body;
use axum::http::{HeaderValue, Response};
use framegate_adaptor_api::{Client, Egress};
use framegate_broker::{
    BrokerError, GroupStart, HeaderTable, History, HistoryQuery, MemberInfo, MemberState, Name, Offset,
    Presence, Reply, Request,
};
use serde_json::{Value, json};

use super::group;
use super::poll::batch;
use super::problem::Problem;
use super::query::Query;
use crate::event::{Place, write_event};
use crate::limits::{HISTORY_EVENTS_DEFAULT, HISTORY_EVENTS_MAX};

/// Header with the offset to go on with (`from=offset:N`); missing when there is nothing more.
const NEXT: &str = "framegate-next";

/// Who hears of a topic.
///
/// # Errors
/// What the broker answers.
pub(crate) async fn presence(client: &Client, topic: &str) -> Result<Value, Problem> {
    let query = framegate_broker::Query::Presence(Name::topic(topic)?);
    match client.call(Request::Query(query)).await? {
        Reply::Presence(presence) => Ok(shown(topic, &presence)),
        _ => Err(BrokerError::Stopping.into()),
    }
}

/// Presence as JSON.
pub(crate) fn shown(topic: &str, presence: &Presence) -> Value {
    let member = |member: &MemberInfo| {
        json!({
            "group": member.group.as_str(),
            "name": member.name.as_ref().map(Name::as_str),
            "connection": member.connection.0,
            "client": member.label,
            "user": member.user.as_str(),
            "since": member.since_ms,
            "unacked": member.unacked,
            "assigned": member.assigned,
            "state": match member.state {
                MemberState::Healthy => "healthy",
                MemberState::Slow => "slow",
            },
        })
    };
    let members: Vec<Value> = presence.members.iter().map(member).collect();
    json!({"topic": topic, "subscribers": presence.subscribers, "members": members})
}

/// Which events `history` is asked for.
///
/// # Errors
/// 400 with the parameter.
pub(crate) fn read(topic: &str, query: &Query) -> Result<(HistoryQuery, bool), Problem> {
    let limit = query.number("limit", 1, u64::from(HISTORY_EVENTS_MAX))?;
    let place = |name: &'static str| match query.get(name).map(|text| (text, group::start_of(text))) {
        None => Ok(None),
        Some((_, Some(start))) => Ok(Some(start)),
        Some((text, None)) => {
            let shown: String = text.chars().take(40).collect();
            Err(Problem::at(
                Place::Query(name),
                &format!("{shown:?} is neither latest, earliest, offset:N nor a time"),
            ))
        }
    };
    let from = place("from")?.or(place("since")?).unwrap_or(GroupStart::Earliest);
    let until_ms = match place("until")? {
        None => None,
        Some(GroupStart::Time(ms)) => Some(ms),
        Some(_) => return Err(Problem::at(Place::Query("until"), "is no time")),
    };
    let before = query.number("before", 0, u64::MAX)?.map(Offset);
    let max = limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(HISTORY_EVENTS_DEFAULT);
    let reverse = matches!(query.get("reverse"), Some("" | "true" | "1"));
    Ok((HistoryQuery { topic: Name::topic(topic)?, from, before, until_ms, max }, reverse))
}

/// Events that a topic keeps, oldest first unless `reverse` is asked for.
///
/// # Errors
/// What the broker answers.
pub(crate) async fn history(
    client: &Client,
    (query, reverse): (HistoryQuery, bool),
    headers: &HeaderTable,
) -> Result<Response<Body>, Problem> {
    let reply = client.call(Request::Query(framegate_broker::Query::History(query))).await?;
    let Reply::History(History { events, next }) = reply else { return Err(BrokerError::Stopping.into()) };
    let mut all: Vec<Vec<u8>> = Vec::with_capacity(events.len());
    for event in &events {
        let (envelope, frame, origin) = (&event.envelope, &event.frame, &event.origin);
        let mut json = Vec::with_capacity(512 + frame.data().len());
        if write_event(Egress { envelope, frame, origin, headers }, &mut json).is_ok() {
            all.push(json);
        }
    }
    if reverse {
        all.reverse();
    }
    let mut answer = batch(&all);
    if let Some(next) = next {
        answer.headers_mut().insert(NEXT, HeaderValue::from(next.0));
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_is_asked_for_by_place_time_and_number() {
        let ask = |text: &str| read("t", &Query::parse(Some(text)));
        let (query, reverse) = ask("").unwrap();
        assert_eq!((query.from, query.max, reverse), (GroupStart::Earliest, HISTORY_EVENTS_DEFAULT, false));
        let (query, reverse) = ask("from=offset:7&before=9&limit=3&reverse").unwrap();
        assert_eq!(
            (query.from, query.before, query.max),
            (GroupStart::Offset(Offset(7)), Some(Offset(9)), 3)
        );
        assert!(reverse);
        let (query, _) = ask("since=1970-01-01T00:00:01Z&until=1970-01-01T00:00:02Z").unwrap();
        assert_eq!((query.from, query.until_ms), (GroupStart::Time(1000), Some(2000)));
        for wrong in ["limit=0", "since=now", "until=latest", "from=offset:x", "before=x"] {
            assert_eq!(ask(wrong).unwrap_err().status, 400, "{wrong}");
        }
    }
}
