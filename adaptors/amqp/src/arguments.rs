//! Arguments of queues, exchanges and consumers: checked as RabbitMQ checks them, and turned into properties. An argument that
//! would change something and is not supported is refused; one that means nothing here is stored nowhere and ignored.
//!
//! | argument | becomes |
//! |---|---|
//! | `x-message-ttl`, `x-expires`, `x-max-length`, `x-max-length-bytes`, `x-overflow` | the property of that name |
//! | `x-dead-letter-exchange`, `x-dead-letter-routing-key` | dead letters |
//! | `x-max-priority`, `x-single-active-consumer`, `x-delivery-limit` | the property of that name |
//! | `x-queue-type` quorum, stream | kept, and compared at a redeclare |
//! | `x-consumer-timeout` | kept, for the sessions that consume |
//! | `x-dead-letter-strategy` | checked |
//! | everything else | ignored |

use std::time::Duration;

use framegate_broker::{Name, Overflow, PriorityMode, QueueProperties};

use crate::codec::{MethodId, Table, Value};
use crate::failure::Failure;

/// Name of the argument that says what kind of queue it is.
pub(crate) const QUEUE_TYPE: &str = "x-queue-type";

/// Name of the argument that says how long a delivery may stay unsettled, in ms.
const CONSUMER_TIMEOUT: &str = "x-consumer-timeout";

/// Kind of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueType {
    Classic,
    Quorum,
    Stream,
}

impl QueueType {
    /// RabbitMQ's internal word, which its texts show.
    fn module(self) -> &'static str {
        match self {
            Self::Classic => "rabbit_classic_queue",
            Self::Quorum => "rabbit_quorum_queue",
            Self::Stream => "rabbit_stream_queue",
        }
    }
}

/// Who declares what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) queue: &'a str,
    pub(crate) vhost: &'a str,
    pub(crate) method: MethodId,
}

impl Subject<'_> {
    fn invalid(&self, argument: &str, reason: impl std::fmt::Display) -> Failure {
        let Self { queue, vhost, method } = self;
        let text = format!("invalid arg '{argument}' for queue '{queue}' in vhost '{vhost}': {reason}");
        Failure::precondition(*method, text)
    }

    fn invalid_property(&self, property: &str) -> Failure {
        let Self { queue, vhost, method } = self;
        Failure::precondition(
            *method,
            format!("invalid property '{property}' for queue '{queue}' in vhost '{vhost}'"),
        )
    }

    fn not_for(&self, argument: &str, kind: QueueType) -> Failure {
        let Self { queue, vhost, method } = self;
        let module = kind.module();
        let text =
            format!("invalid arg '{argument}' for queue '{queue}' in vhost '{vhost}' of queue type {module}");
        Failure::precondition(*method, text)
    }

    /// An integer, if given.
    pub(crate) fn int(&self, table: &Table<'_>, argument: &str) -> Result<Option<i64>, Failure> {
        match table.get(argument) {
            None => Ok(None),
            Some(Value::Int(number, _)) => Ok(Some(number)),
            Some(other) => {
                let reason = format!("\"expected integer, got {}\"", other.type_word());
                Err(self.invalid(argument, reason))
            }
        }
    }

    fn at_least(&self, table: &Table<'_>, argument: &str, min: u64) -> Result<Option<u64>, Failure> {
        let Some(number) = self.int(table, argument)? else { return Ok(None) };
        match u64::try_from(number) {
            Err(_) => Err(self.invalid(argument, format!("{{value_negative,{number}}}"))),
            Ok(number) if number < min => Err(self.invalid(argument, format!("{{value_zero,{number}}}"))),
            Ok(number) => Ok(Some(number)),
        }
    }

    fn text<'t>(&self, table: &Table<'t>, argument: &str) -> Result<Option<&'t str>, Failure> {
        match table.get(argument) {
            None => Ok(None),
            Some(Value::Str(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(self.invalid(argument, "not UTF-8")),
            },
            Some(other) => {
                Err(self.invalid(argument, format!("{{unacceptable_type,{}}}", other.type_word())))
            }
        }
    }

    fn name(&self, table: &Table<'_>, argument: &str) -> Result<Option<Name>, Failure> {
        let text = self.text(table, argument)?;
        text.map(Name::new).transpose().map_err(|error| self.invalid(argument, error))
    }

    fn flag(&self, table: &Table<'_>, argument: &str) -> Result<bool, Failure> {
        match table.get(argument) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => {
                let reason = format!("\"expected boolean, got {}\"", other.type_word());
                Err(self.invalid(argument, reason))
            }
        }
    }

    /// Kind of queue that the arguments ask for.
    pub(crate) fn queue_type(&self, table: &Table<'_>) -> Result<QueueType, Failure> {
        match self.text(table, QUEUE_TYPE)? {
            None | Some("classic") => Ok(QueueType::Classic),
            Some("quorum") => Ok(QueueType::Quorum),
            Some("stream") => Ok(QueueType::Stream),
            Some(other) => Err(self.invalid(QUEUE_TYPE, format!("\"unsupported queue type '{other}'\""))),
        }
    }
}

/// Flags of a declaration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flags {
    pub(crate) durable: bool,
    pub(crate) exclusive: bool,
    pub(crate) auto_delete: bool,
    /// The server makes the name.
    pub(crate) unnamed: bool,
}

/// Properties that the arguments of a queue ask for.
pub(crate) fn queue_properties(
    subject: Subject<'_>,
    flags: Flags,
    table: &Table<'_>,
) -> Result<QueueProperties, Failure> {
    let kind = subject.queue_type(table)?;
    let properties = QueueProperties {
        message_ttl_ms: subject.at_least(table, "x-message-ttl", 0)?,
        expires_ms: subject.at_least(table, "x-expires", 1)?,
        length_max: subject.at_least(table, "x-max-length", 0)?,
        bytes_max: subject.at_least(table, "x-max-length-bytes", 0)?,
        overflow: overflow(subject, table)?,
        dead_letter_exchange: subject.name(table, "x-dead-letter-exchange")?,
        dead_letter_key: subject.name(table, "x-dead-letter-routing-key")?,
        priority: priority(subject, table)?,
        single_active: subject.flag(table, "x-single-active-consumer")?,
        delivery_limit: delivery_limit(subject, table)?.filter(|_| kind == QueueType::Quorum),
        arguments: kept(kind, subject.at_least(table, CONSUMER_TIMEOUT, 0)?),
        ..QueueProperties::default()
    };
    if properties.dead_letter_key.is_some() && properties.dead_letter_exchange.is_none() {
        return Err(subject.invalid("x-dead-letter-routing-key", "routing_key_but_no_dlx_defined"));
    }
    if let Some(word) = subject.text(table, "x-dead-letter-strategy")?
        && !matches!(word, "at-most-once" | "at-least-once")
    {
        return Err(subject.invalid("x-dead-letter-strategy", "invalid_dlx_strategy"));
    }
    if kind != QueueType::Classic {
        replicated(subject, kind, flags, table)?;
    }
    Ok(properties)
}

fn kept(kind: QueueType, consumer_timeout_ms: Option<u64>) -> Vec<(Name, String)> {
    let word = match kind {
        QueueType::Classic => None,
        QueueType::Quorum => Some("quorum"),
        QueueType::Stream => Some("stream"),
    };
    let kind = word.map(|word| (Name::from_static(QUEUE_TYPE), word.to_owned()));
    let timeout = consumer_timeout_ms.map(|ms| (Name::from_static(CONSUMER_TIMEOUT), ms.to_string()));
    kind.into_iter().chain(timeout).collect()
}

/// How long a delivery of the queue may stay unsettled, if the queue says so; zero: for ever.
pub(crate) fn consumer_timeout(properties: &QueueProperties) -> Option<Duration> {
    let (_, ms) = properties.arguments.iter().find(|(name, _)| name == CONSUMER_TIMEOUT)?;
    ms.parse().ok().map(Duration::from_millis)
}

/// Whether a queue was declared with type quorum.
pub(crate) fn is_quorum(properties: &QueueProperties) -> bool {
    properties.arguments.iter().any(|(name, word)| name == QUEUE_TYPE && word == "quorum")
}

/// What quorum and stream queues do not have.
fn replicated(subject: Subject<'_>, kind: QueueType, flags: Flags, table: &Table<'_>) -> Result<(), Failure> {
    if flags.unnamed {
        let text = format!("Cannot declare a server-named queue for type {}", kind.module());
        return Err(Failure::precondition(subject.method, text));
    }
    for (is_wrong, property) in [
        (!flags.durable, "non-durable"),
        (flags.exclusive, "exclusive-owner"),
        (flags.auto_delete, "auto-delete"),
    ] {
        if is_wrong {
            return Err(subject.invalid_property(property));
        }
    }
    let refused: &[&str] = match kind {
        QueueType::Stream => &[
            "x-message-ttl",
            "x-expires",
            "x-dead-letter-exchange",
            "x-dead-letter-routing-key",
            "x-max-priority",
            "x-max-length",
            "x-overflow",
            "x-single-active-consumer",
            "x-delivery-limit",
        ],
        _ => &["x-max-priority"],
    };
    match refused.iter().find(|argument| table.get(argument).is_some()) {
        Some(argument) => Err(subject.not_for(argument, kind)),
        None => Ok(()),
    }
}

fn overflow(subject: Subject<'_>, table: &Table<'_>) -> Result<Overflow, Failure> {
    match table.get("x-overflow") {
        None => Ok(Overflow::default()),
        Some(Value::Str(word)) => {
            let overflow = std::str::from_utf8(word).ok().and_then(Overflow::parse);
            overflow.ok_or_else(|| subject.invalid("x-overflow", "invalid_overflow"))
        }
        Some(_) => Err(subject.invalid("x-overflow", "invalid_overflow")),
    }
}

fn priority(subject: Subject<'_>, table: &Table<'_>) -> Result<PriorityMode, Failure> {
    match subject.at_least(table, "x-max-priority", 0)? {
        None | Some(0) => Ok(PriorityMode::None),
        Some(max) => match u8::try_from(max) {
            Ok(max) => Ok(PriorityMode::Max(max)),
            Err(_) => Err(subject.invalid("x-max-priority", format!("{{max_value_exceeded,{max}}}"))),
        },
    }
}

/// -1 is none.
fn delivery_limit(subject: Subject<'_>, table: &Table<'_>) -> Result<Option<u32>, Failure> {
    let Some(limit) = subject.int(table, "x-delivery-limit")? else { return Ok(None) };
    match u32::try_from(limit) {
        Ok(limit) => Ok(Some(limit)),
        Err(_) if limit == -1 => Ok(None),
        Err(_) => Err(subject.invalid("x-delivery-limit", format!("{{value_negative,{limit}}}"))),
    }
}

/// Where an exchange hands messages that match no binding.
pub(crate) fn alternate_exchange(table: &Table<'_>, method: MethodId) -> Result<Option<Name>, Failure> {
    let invalid =
        |reason: String| Failure::precondition(method, format!("invalid arg 'alternate-exchange': {reason}"));
    match table.get("alternate-exchange") {
        None => Ok(None),
        Some(Value::Str(bytes)) => {
            let text = std::str::from_utf8(bytes).map_err(|_| Failure::not_text(method))?;
            Name::new(text).map(Some).map_err(|error| invalid(error.to_string()))
        }
        Some(other) => Err(invalid(format!("expected longstr, got {}", other.type_word()))),
    }
}
