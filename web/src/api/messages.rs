//! Messages of a queue as they stand there. Looking takes nothing: nobody's lease, attempt or place changes.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use framegate_broker::{Browse, Browsed, Reply, Request, Seq};
use serde_json::{Map, Value, json};

use super::{Answer, Json, Query, Shared, name, unexpected};
use crate::access::{Intent, admit};
use crate::problem::Problem;

/// Messages shown when the query does not say.
const MESSAGES: u32 = 20;
/// Frame bytes of all messages shown.
const BYTES_MAX: u64 = 1024 * 1024;

/// `GET /admin/v1/queues/{name}/messages?after=&max=`
pub(super) async fn messages(
    State(shared): State<Arc<Shared>>,
    Path(queue): Path<String>,
    headers: HeaderMap,
    query: Query,
) -> Answer {
    let client = admit(&shared.context, &headers, &query, Intent::Look).await?;
    let after = number(&query, "after")?.map(Seq);
    let max = number(&query, "max")?.unwrap_or(MESSAGES.into());
    let max = u32::try_from(max).unwrap_or(u32::MAX);
    let browse = Browse { queue: name(&queue)?, after, max, bytes_max: BYTES_MAX };
    match client.call(Request::Browse(browse)).await? {
        Reply::Browsed { messages, more } => {
            let messages: Vec<Value> = messages.iter().map(message).collect();
            Ok(Json::ok(json!({ "messages": messages, "more": more })))
        }
        other => Err(unexpected(&other)),
    }
}

fn number(query: &Query, key: &str) -> Result<Option<u64>, Problem> {
    let parsed = query.get(key).map(|text| text.parse());
    parsed.transpose().map_err(|_| Problem::bad_request(format!("{key} must be a whole number from 0")))
}

fn message(message: &Browsed) -> Value {
    let (envelope, frame) = (&message.envelope, &message.frame);
    let keys: Vec<&str> = envelope.keys.iter().map(|key| key.as_str()).collect();
    // what only its own protocol understands is not shown
    let attributes: Map<String, Value> = frame
        .attrs()
        .filter(|(name, _)| !name.starts_with('~'))
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect();
    let text = std::str::from_utf8(frame.data()).ok();
    let deaths: Vec<Value> = envelope
        .deaths
        .iter()
        .map(|death| {
            json!({
                "queue": death.queue.as_str(),
                "reason": death.reason.as_str(),
                "count": death.count,
                "time_ms": death.time_ms,
            })
        })
        .collect();
    json!({
        "seq": message.seq.0,
        "held": message.held,
        "redelivered": message.redelivered,
        "attempts": envelope.attempts,
        "exchange": envelope.exchange.as_str(),
        "keys": keys,
        "persistent": envelope.persistent,
        "priority": envelope.priority,
        "time_ms": envelope.time_ms,
        "expires_at_ms": time(envelope.expires_at_ms),
        "deliver_at_ms": time(envelope.deliver_at_ms),
        "deaths": deaths,
        "attributes": attributes,
        "bytes": frame.data().len(),
        "data": text,
        "data_base64": if text.is_none() { Some(STANDARD.encode(frame.data())) } else { None },
    })
}

fn time(ms: u64) -> Option<u64> {
    (ms != 0).then_some(ms)
}
