//! Bodies that the admin API takes. Unknown members are refused, so that a typing error is no silent default.

use axum::body::Bytes;
use framegate_broker::{
    Arguments, BindTarget, BindingSpec, BrokerError, ExchangeKind, ExchangeSpec, HeaderValue, Name, Overflow,
    PriorityMode, QueueProperties, QueueSpec, TopicSpec,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::name;
use crate::problem::Problem;

/// Reads a JSON body.
pub(super) fn body<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|error| Problem::bad_request(format!("body: {error}")))
}

fn yes() -> bool {
    true
}

/// A queue to declare.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueBody {
    name: String,
    #[serde(default = "yes")]
    durable: bool,
    #[serde(default)]
    auto_delete: bool,
    #[serde(default)]
    deliver_durable: bool,
    dead_letter_exchange: Option<String>,
    dead_letter_key: Option<String>,
    max_priority: Option<u8>,
    message_ttl_ms: Option<u64>,
    expires_ms: Option<u64>,
    length_max: Option<u64>,
    bytes_max: Option<u64>,
    overflow: Option<String>,
    #[serde(default)]
    single_active: bool,
    delivery_limit: Option<u32>,
}

impl QueueBody {
    pub(super) fn spec(self) -> Result<QueueSpec, Problem> {
        let exchange = self.dead_letter_exchange.map(|text| Name::new(&text)).transpose()?;
        let key = self.dead_letter_key.map(|text| Name::new(&text)).transpose()?;
        let overflow = match &self.overflow {
            None => Overflow::DropHead,
            Some(word) => Overflow::parse(word).ok_or_else(|| {
                let words = "drop-head, reject-publish, reject-publish-dlx";
                Problem::bad_request(format!("overflow '{word}' is none of {words}"))
            })?,
        };
        Ok(QueueSpec {
            name: name(&self.name)?,
            durable: self.durable,
            auto_delete: self.auto_delete,
            properties: QueueProperties {
                deliver_durable: self.deliver_durable,
                dead_letter_exchange: exchange,
                dead_letter_key: key,
                priority: self.max_priority.map_or(PriorityMode::None, PriorityMode::Max),
                message_ttl_ms: self.message_ttl_ms,
                expires_ms: self.expires_ms,
                length_max: self.length_max,
                bytes_max: self.bytes_max,
                overflow,
                single_active: self.single_active,
                delivery_limit: self.delivery_limit,
                arguments: Vec::new(),
            },
            ..QueueSpec::default()
        })
    }
}

/// An exchange to declare.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExchangeBody {
    name: String,
    kind: String,
    #[serde(default = "yes")]
    durable: bool,
    #[serde(default)]
    auto_delete: bool,
    #[serde(default)]
    internal: bool,
    alternate: Option<String>,
    /// Of the kind: `hash-header`, `hash-property`, `x-delayed-type`.
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl ExchangeBody {
    pub(super) fn spec(self) -> Result<ExchangeSpec, Problem> {
        let arguments = arguments(self.arguments)?;
        let kind = ExchangeKind::declared(&self.kind, &arguments).map_err(|error| match error {
            BrokerError::Invalid { what: "exchange type", value, .. } => Problem::bad_request(format!(
                "kind '{value}' is none of direct, fanout, topic, headers, x-consistent-hash, x-delayed-message"
            )),
            error => error.into(),
        })?;
        Ok(ExchangeSpec {
            name: name(&self.name)?,
            kind,
            durable: self.durable,
            auto_delete: self.auto_delete,
            internal: self.internal,
            alternate: self.alternate.map(|text| name(&text)).transpose()?,
        })
    }
}

/// A binding to make or to remove: to `queue` or to `to_exchange`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BindingBody {
    exchange: String,
    queue: Option<String>,
    to_exchange: Option<String>,
    #[serde(default)]
    key: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl BindingBody {
    pub(super) fn spec(self) -> Result<BindingSpec, Problem> {
        let target = match (self.queue, self.to_exchange) {
            (Some(queue), None) => BindTarget::Queue(name(&queue)?),
            (None, Some(exchange)) => BindTarget::Exchange(name(&exchange)?),
            _ => return Err(Problem::bad_request("give either queue or to_exchange")),
        };
        let arguments = arguments(self.arguments)?;
        Ok(BindingSpec { exchange: name(&self.exchange)?, target, key: Name::new(&self.key)?, arguments })
    }
}

fn arguments(given: Map<String, Value>) -> Result<Arguments, Problem> {
    given.into_iter().map(|(key, value)| argument(&key, value)).collect()
}

fn argument(key: &str, value: Value) -> Result<(Name, HeaderValue<'static>), Problem> {
    let value = match value {
        Value::Null => HeaderValue::Null,
        Value::Bool(value) => HeaderValue::Bool(value),
        Value::String(value) => HeaderValue::Text(value.into()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(value), _) => HeaderValue::Int(value),
            (None, Some(value)) => HeaderValue::Float(value),
            (None, None) => return Err(Problem::bad_request(format!("arguments.{key} is out of range"))),
        },
        Value::Array(_) | Value::Object(_) => {
            return Err(Problem::bad_request(format!(
                "arguments.{key} must be null, a boolean, a number or text"
            )));
        }
    };
    Ok((name(key)?, value))
}

/// A topic to declare.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TopicBody {
    name: String,
    age_ms_max: Option<u64>,
    bytes_max: Option<u64>,
}

impl TopicBody {
    pub(super) fn spec(self) -> Result<TopicSpec, Problem> {
        let name = Name::topic(&self.name)?;
        Ok(TopicSpec { name, age_ms_max: self.age_ms_max, bytes_max: self.bytes_max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: DeserializeOwned>(text: &'static str) -> Result<T, Problem> {
        body(&Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn a_queue_is_durable_unless_said_otherwise() {
        let spec = read::<QueueBody>(r#"{"name":"q","dead_letter_exchange":""}"#)
            .and_then(QueueBody::spec)
            .expect("a spec");
        assert!(spec.durable && !spec.auto_delete && !spec.exclusive);
        assert_eq!(spec.properties.dead_letter_exchange.as_deref(), Some(""));
        assert_eq!(spec.properties.overflow, Overflow::DropHead);
        let spec =
            read::<QueueBody>(r#"{"name":"q","durable":false}"#).and_then(QueueBody::spec).expect("a spec");
        assert!(!spec.durable);
    }

    #[test]
    fn unknown_members_and_bad_names_are_refused_with_their_name() {
        let said = read::<QueueBody>(r#"{"name":"q","durabel":true}"#).expect_err("refused").detail;
        assert!(said.contains("unknown field `durabel`"), "{said}");
        let said = read::<QueueBody>(r#"{"name":""}"#).and_then(QueueBody::spec).expect_err("refused").detail;
        assert!(said.contains("is empty"), "{said}");
        let said =
            read::<TopicBody>(r#"{"name":"a.*"}"#).and_then(TopicBody::spec).expect_err("refused").detail;
        assert!(said.contains("has a wildcard"), "{said}");
        let said = read::<ExchangeBody>(r#"{"name":"x","kind":"ring"}"#)
            .and_then(ExchangeBody::spec)
            .expect_err("refused");
        assert_eq!(
            said.detail,
            "kind 'ring' is none of direct, fanout, topic, headers, x-consistent-hash, x-delayed-message"
        );
        let delayed = r#"{"name":"x","kind":"x-delayed-message","arguments":{"x-delayed-type":"topic"}}"#;
        let spec = read::<ExchangeBody>(delayed).and_then(ExchangeBody::spec).expect("a spec");
        assert_eq!(spec.kind, ExchangeKind::Delayed(Box::new(ExchangeKind::Topic)));
    }

    #[test]
    fn a_binding_has_one_target_and_typed_arguments() {
        let text = r#"{"exchange":"x","queue":"q","key":"a.#","arguments":{"x-match":"any","n":3,"f":1.5,"b":true,"z":null}}"#;
        let spec = read::<BindingBody>(text).and_then(BindingBody::spec).expect("a spec");
        assert_eq!(spec.target, BindTarget::Queue(Name::from_static("q")));
        let values: Vec<_> = spec.arguments.iter().map(|(_, value)| value.clone()).collect();
        assert_eq!(values[0], HeaderValue::Text("any".into()));
        assert_eq!(
            values[1..],
            [HeaderValue::Int(3), HeaderValue::Float(1.5), HeaderValue::Bool(true), HeaderValue::Null]
        );
        for text in [r#"{"exchange":"x"}"#, r#"{"exchange":"x","queue":"q","to_exchange":"y"}"#] {
            let said = read::<BindingBody>(text).and_then(BindingBody::spec).expect_err("refused");
            assert_eq!(said.detail, "give either queue or to_exchange");
        }
        let nested = r#"{"exchange":"x","queue":"q","arguments":{"a":[1]}}"#;
        assert!(read::<BindingBody>(nested).and_then(BindingBody::spec).is_err());
    }
}
