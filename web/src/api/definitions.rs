//! Changes of definitions and purges. They need the tag `administrator` and the broker's `configure` permission.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use framegate_broker::{Define, Query as Ask, Reply, Request};
use serde_json::json;

use super::input::{BindingBody, ExchangeBody, QueueBody, TopicBody, body};
use super::{Answer, Json, Query, Shared, name, output, removed, unexpected};
use crate::access::{Intent, admit};
use crate::problem::Problem;

type Context = State<Arc<Shared>>;

/// Admits first; only then is what the client wants looked at.
async fn define(
    shared: &Shared,
    headers: &HeaderMap,
    query: &Query,
    what: impl FnOnce() -> Result<Define, Problem>,
) -> Result<Reply, Problem> {
    let client = admit(&shared.context, headers, query, Intent::Change).await?;
    Ok(client.call(Request::Define(what()?)).await?)
}

fn flag(query: &Query, key: &str) -> bool {
    query.get(key).is_some_and(|value| value == "true" || value == "1" || value.is_empty())
}

/// `POST /admin/v1/queues`
pub(super) async fn declare_queue(
    State(shared): Context,
    headers: HeaderMap,
    query: Query,
    bytes: Bytes,
) -> Answer {
    let what = || Ok(Define::Queue(body::<QueueBody>(&bytes)?.spec()?));
    match define(&shared, &headers, &query, what).await? {
        Reply::Queue(queue) => Ok(Json::created(output::queue(&queue))),
        other => Err(unexpected(&other)),
    }
}

/// `DELETE /admin/v1/queues/{name}?if_unused=&if_empty=`
pub(super) async fn delete_queue(
    State(shared): Context,
    Path(queue): Path<String>,
    headers: HeaderMap,
    query: Query,
) -> Answer {
    let (if_unused, if_empty) = (flag(&query, "if_unused"), flag(&query, "if_empty"));
    let what = || Ok(Define::DeleteQueue { name: name(&queue)?, if_unused, if_empty });
    Ok(Json::ok(removed(&define(&shared, &headers, &query, what).await?)))
}

/// `POST /admin/v1/queues/{name}/purge`
pub(super) async fn purge_queue(
    State(shared): Context,
    Path(queue): Path<String>,
    headers: HeaderMap,
    query: Query,
) -> Answer {
    let what = || Ok(Define::Purge(name(&queue)?));
    Ok(Json::ok(removed(&define(&shared, &headers, &query, what).await?)))
}

/// `POST /admin/v1/exchanges`
pub(super) async fn declare_exchange(
    State(shared): Context,
    headers: HeaderMap,
    query: Query,
    bytes: Bytes,
) -> Answer {
    let what = || Ok(Define::Exchange(body::<ExchangeBody>(&bytes)?.spec()?));
    match define(&shared, &headers, &query, what).await? {
        Reply::Exchange(exchange) => Ok(Json::created(output::exchange(&exchange))),
        _ => Ok(Json::created(json!({}))),
    }
}

/// `DELETE /admin/v1/exchanges/{name}?if_unused=`
pub(super) async fn delete_exchange(
    State(shared): Context,
    Path(exchange): Path<String>,
    headers: HeaderMap,
    query: Query,
) -> Answer {
    let if_unused = flag(&query, "if_unused");
    let what = || Ok(Define::DeleteExchange { name: name(&exchange)?, if_unused });
    Ok(Json::ok(removed(&define(&shared, &headers, &query, what).await?)))
}

/// `POST /admin/v1/bindings`
pub(super) async fn bind(State(shared): Context, headers: HeaderMap, query: Query, bytes: Bytes) -> Answer {
    define(&shared, &headers, &query, || Ok(Define::Bind(body::<BindingBody>(&bytes)?.spec()?))).await?;
    Ok(Json::created(json!({})))
}

/// `DELETE /admin/v1/bindings`, the binding as body.
pub(super) async fn unbind(State(shared): Context, headers: HeaderMap, query: Query, bytes: Bytes) -> Answer {
    define(&shared, &headers, &query, || Ok(Define::Unbind(body::<BindingBody>(&bytes)?.spec()?))).await?;
    Ok(Json::ok(json!({})))
}

/// `POST /admin/v1/topics`
pub(super) async fn declare_topic(
    State(shared): Context,
    headers: HeaderMap,
    query: Query,
    bytes: Bytes,
) -> Answer {
    let client = admit(&shared.context, &headers, &query, Intent::Change).await?;
    let spec = body::<TopicBody>(&bytes)?.spec()?;
    let topic = spec.name.clone();
    let declared = client.call(Request::Define(Define::Topic(spec))).await?;
    let reply = match declared {
        Reply::Topic(_) => declared,
        _ => client.call(Request::Query(Ask::Topic(topic))).await?,
    };
    match reply {
        Reply::Topic(topic) => Ok(Json::created(output::topic(&topic))),
        other => Err(unexpected(&other)),
    }
}

/// `DELETE /admin/v1/topics/{name}`
pub(super) async fn delete_topic(
    State(shared): Context,
    Path(topic): Path<String>,
    headers: HeaderMap,
    query: Query,
) -> Answer {
    let what = || Ok(Define::DeleteTopic(name(&topic)?));
    Ok(Json::ok(removed(&define(&shared, &headers, &query, what).await?)))
}
