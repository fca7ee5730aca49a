//! What the broker says, as JSON. The shapes here are the API's.

use framegate_broker::{
    BindTarget, BindingInfo, ConnectionInfo, EventInfo, ExchangeInfo, HeaderValue, Name, PriorityMode,
    QueueInfo, Stats, TopicInfo,
};
use serde_json::{Map, Value, json};

pub(super) fn queue(queue: &QueueInfo) -> Value {
    let properties = &queue.properties;
    let arguments: Map<String, Value> =
        properties.arguments.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
    json!({
        "name": queue.name.as_str(),
        "durable": queue.durable,
        "exclusive": queue.exclusive,
        "auto_delete": queue.auto_delete,
        "deliver": if properties.deliver_durable { "durable" } else { "applied" },
        "dead_letter_exchange": properties.dead_letter_exchange.as_deref(),
        "dead_letter_key": properties.dead_letter_key.as_deref(),
        "max_priority": if let PriorityMode::Max(max) = properties.priority { Some(max) } else { None },
        "message_ttl_ms": properties.message_ttl_ms,
        "expires_ms": properties.expires_ms,
        "length_max": properties.length_max,
        "bytes_max": properties.bytes_max,
        "overflow": properties.overflow.as_str(),
        "single_active": properties.single_active,
        "delivery_limit": properties.delivery_limit,
        "arguments": arguments,
        "ready": queue.ready,
        "unacked": queue.unacked,
        "bytes": queue.bytes,
        "consumers": queue.consumers,
    })
}

pub(super) fn exchange(exchange: &ExchangeInfo) -> Value {
    json!({
        "name": exchange.name.as_str(),
        "kind": exchange.kind.as_str(),
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "alternate": exchange.alternate.as_deref(),
        "arguments": named(&exchange.kind.arguments()),
    })
}

pub(super) fn event(event: &EventInfo) -> Value {
    json!({
        "seq": event.seq,
        "type": event.kind.name(),
        "subject": event.subject.as_str(),
        "time_ms": event.time_ms,
        // The broker writes nothing but JSON objects.
        "data": serde_json::from_str::<Value>(&event.body).unwrap_or_default(),
    })
}

pub(super) fn binding(binding: &BindingInfo) -> Value {
    let (queue, to_exchange) = match &binding.target {
        BindTarget::Queue(name) => (Some(name.as_str()), None),
        BindTarget::Exchange(name) => (None, Some(name.as_str())),
        // under a queue's name, as it was given
        BindTarget::Topic(name) => (Some(name.as_str()), None),
    };
    let arguments = named(&binding.arguments);
    json!({
        "exchange": binding.exchange.as_str(),
        "queue": queue,
        "to_exchange": to_exchange,
        "key": binding.key.as_str(),
        "arguments": arguments,
    })
}

fn named(arguments: &[(Name, HeaderValue<'_>)]) -> Map<String, Value> {
    arguments.iter().map(|(name, value)| (name.to_string(), header(value))).collect()
}

fn header(value: &HeaderValue<'_>) -> Value {
    match value {
        HeaderValue::Null => Value::Null,
        HeaderValue::Bool(value) => json!(value),
        HeaderValue::Int(value) => json!(value),
        HeaderValue::Float(value) => json!(value),
        HeaderValue::Text(value) => json!(value),
        HeaderValue::Bytes(value) => json!(String::from_utf8_lossy(value)),
        HeaderValue::Time(value) => json!(value),
    }
}

pub(super) fn topic(topic: &TopicInfo) -> Value {
    json!({
        "name": topic.name.as_str(),
        "first_offset": topic.first.0,
        "next_offset": topic.next.0,
        "events": topic.next.0.saturating_sub(topic.first.0),
        "bytes": topic.bytes,
        "subscribers": topic.subscribers,
        "age_ms_max": topic.age_ms_max,
        "bytes_max": topic.bytes_max,
    })
}

pub(super) fn connection(connection: &ConnectionInfo) -> Value {
    json!({
        "id": connection.id.0,
        "label": connection.label,
        "user": connection.user.as_str(),
        "vhost": connection.vhost.as_str(),
        "consumers": connection.consumers,
        "unacked": connection.unacked,
    })
}

pub(super) fn stats(stats: &Stats) -> Value {
    json!({
        "connections": stats.connections,
        "consumers": stats.consumers,
        "queues": stats.queues,
        "exchanges": stats.exchanges,
        "topics": stats.topics,
        "ready": stats.ready,
        "unacked": stats.unacked,
        "subscriptions": stats.subscriptions,
    })
}
