//! Questions. They change nothing and need the tag `administrator` or `monitoring`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use framegate_broker::{Query as Ask, Reply, Request};
use serde_json::{Value, json};

use super::filter::Filter;
use super::{Answer, Json, Query, Shared, name, output, unexpected};
use crate::access::{Intent, admit};
use crate::problem::Problem;

type Context = State<Arc<Shared>>;

/// `GET /admin/v1/overview`
pub(super) async fn overview(State(shared): Context, headers: HeaderMap, query: Query) -> Answer {
    let client = admit(&shared.context, &headers, &query, Intent::Look).await?;
    let totals = match client.call(Request::Query(Ask::Stats)).await? {
        Reply::Stats(stats) => output::stats(&stats),
        other => return Err(unexpected(&other)),
    };
    let counters: serde_json::Map<String, Value> = shared
        .context
        .broker
        .metrics()
        .snapshot()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect();
    Ok(Json::ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "generation": shared.context.broker.generation().to_string(),
        "uptime_ms": u64::try_from(shared.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "user": client.principal.name().as_str(),
        "vhost": client.vhost.as_str(),
        "anonymous": shared.context.anonymous,
        "listeners": listener_list(&shared),
        "totals": totals,
        "counters": counters,
    })))
}

/// `GET /admin/v1/listeners`
pub(super) async fn listeners(State(shared): Context, headers: HeaderMap, query: Query) -> Answer {
    admit(&shared.context, &headers, &query, Intent::Look).await?;
    Ok(Json::ok(json!({ "listeners": listener_list(&shared) })))
}

fn listener_list(shared: &Shared) -> Vec<Value> {
    let listeners = shared.context.listeners.get().map_or(&[][..], Vec::as_slice);
    listeners.iter().map(|(name, addr)| json!({ "name": name, "addr": addr })).collect()
}

async fn ask(shared: &Shared, headers: &HeaderMap, query: &Query, what: Ask) -> Result<Reply, Problem> {
    let client = admit(&shared.context, headers, query, Intent::Look).await?;
    Ok(client.call(Request::Query(what)).await?)
}

/// `GET /admin/v1/connections`
pub(super) async fn connections(State(shared): Context, headers: HeaderMap, query: Query) -> Answer {
    match ask(&shared, &headers, &query, Ask::Connections).await? {
        Reply::Connections(all) => {
            Ok(Json::ok(json!({ "connections": all.iter().map(output::connection).collect::<Vec<_>>() })))
        }
        other => Err(unexpected(&other)),
    }
}

/// `GET /admin/v1/events?after=&max=`: kept broker events behind a number, oldest first.
pub(super) async fn events(State(shared): Context, headers: HeaderMap, query: Query) -> Answer {
    let number = |key: &str, default: u64| match query.get(key).map(|text| text.parse()) {
        None => Ok(default),
        Some(Ok(number)) => Ok(number),
        Some(Err(_)) => Err(Problem::bad_request(format!("{key} is no whole number"))),
    };
    let max = u32::try_from(number("max", 1000)?).unwrap_or(u32::MAX);
    let what = Ask::Events { after: number("after", 0)?, max };
    match ask(&shared, &headers, &query, what).await? {
        Reply::Events(all) => {
            Ok(Json::ok(json!({ "events": all.iter().map(output::event).collect::<Vec<_>>() })))
        }
        other => Err(unexpected(&other)),
    }
}

/// `GET /admin/v1/queues?name=&nonempty=&unused=`
pub(super) async fn queues(State(shared): Context, headers: HeaderMap, query: Query) -> Answer {
    let filter = Filter::read(&query, &["name", "nonempty", "unused"])?;
    match ask(&shared, &headers, &query, Ask::Queues).await? {
        Reply::Queues(all) => {
            let queues: Vec<Value> = all.iter().filter(|q| filter.queue(q)).map(output::queue).collect();
            Ok(Json::ok(json!({ "queues": queues })))
        }
        other => Err(unexpected(&other)),
    }
}

/// `GET /admin/v1/queues/{name}`
pub(super) async fn queue(
    State(shared): Context,
    Path(queue): Path<String>,
    headers: HeaderMap,
    query: Query,
) -> Answer {
    match ask(&shared, &headers, &query, Ask::Queue(name(&queue)?)).await? {
        Reply::Queue(queue) => Ok(Json::ok(output::queue(&queue))),
        other => Err(unexpected(&other)),
    }
}

/// `GET /admin/v1/exchanges?name=&kind=`
pub(super) async fn exchanges(State(shared): Context, headers: HeaderMap, query: Query) -> Answer {
    let filter = Filter::read(&query, &["name", "kind"])?;
    match ask(&shared, &headers, &query, Ask::Exchanges).await? {
        Reply::Exchanges(all) => {
            let exchanges: Vec<Value> =
                all.iter().filter(|e| filter.exchange(e)).map(output::exchange).collect();
            Ok(Json::ok(json!({ "exchanges": exchanges })))
        }
        other => Err(unexpected(&other)),
    }
}

/// `GET /admin/v1/bindings?exchange=&queue=`
pub(super) async fn bindings(State(shared): Context, headers: HeaderMap, query: Query) -> Answer {
    let given = |key: &str| query.get(key).map(|text| name(text)).transpose();
    let what = Ask::Bindings { exchange: given("exchange")?, queue: given("queue")? };
    match ask(&shared, &headers, &query, what).await? {
        Reply::Bindings(all) => {
            Ok(Json::ok(json!({ "bindings": all.iter().map(output::binding).collect::<Vec<_>>() })))
        }
        other => Err(unexpected(&other)),
    }
}

/// `GET /admin/v1/topics?name=&nonempty=&unused=`
pub(super) async fn topics(State(shared): Context, headers: HeaderMap, query: Query) -> Answer {
    let filter = Filter::read(&query, &["name", "nonempty", "unused"])?;
    match ask(&shared, &headers, &query, Ask::Topics).await? {
        Reply::Topics(all) => {
            let topics: Vec<Value> = all.iter().filter(|t| filter.topic(t)).map(output::topic).collect();
            Ok(Json::ok(json!({ "topics": topics })))
        }
        other => Err(unexpected(&other)),
    }
}

/// `GET /admin/v1/topics/{name}`
pub(super) async fn topic(
    State(shared): Context,
    Path(topic): Path<String>,
    headers: HeaderMap,
    query: Query,
) -> Answer {
    match ask(&shared, &headers, &query, Ask::Topic(name(&topic)?)).await? {
        Reply::Topic(topic) => Ok(Json::ok(output::topic(&topic))),
        other => Err(unexpected(&other)),
    }
}
