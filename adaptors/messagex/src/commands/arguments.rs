//! Arguments of declarations and bindings: which names are known, and what the broker makes of them. What it cannot do is refused by
//! name; nothing is silently ignored but hints about storage.

use framegate_broker::{Arguments, HeaderValue, Name, QueueProperties};

use crate::errors::{Code, Failure};
use crate::headers;
use crate::json;

/// What an argument of a queue does here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueueArgument {
    DeadLetterExchange,
    DeadLetterRoutingKey,
    /// `durable`: deliver only what is on disk.
    Deliver,
    /// A hint about storage, without effect here.
    Hint,
    /// `classic` says what a queue is anyway; another type is refused.
    QueueType,
}

/// Names of this protocol and of AMQP. Every other argument is `NOT_IMPLEMENTED`: messageTtl, expires, maxLength,
/// maxLengthBytes, overflow, maxPriority, singleActiveConsumer, deliveryLimit and their x- names.
const QUEUE_ARGUMENTS: &[(&str, &str, QueueArgument)] = &[
    ("deadLetterExchange", "x-dead-letter-exchange", QueueArgument::DeadLetterExchange),
    ("deadLetterRoutingKey", "x-dead-letter-routing-key", QueueArgument::DeadLetterRoutingKey),
    ("deliver", "x-deliver", QueueArgument::Deliver),
    ("queueMode", "x-queue-mode", QueueArgument::Hint),
    ("queueVersion", "x-queue-version", QueueArgument::Hint),
    ("queueType", "x-queue-type", QueueArgument::QueueType),
];

/// Names of an exchange's arguments: this protocol's, that of AMQP, and another one for it.
const EXCHANGE_ARGUMENTS: [(&str, &str, &str); 4] = [
    ("alternateExchange", ALTERNATE, "x-alternate-exchange"),
    ("delayedType", "x-delayed-type", "x-delayed-type"),
    ("hashHeader", "hash-header", "x-hash-header"),
    ("hashProperty", "hash-property", "x-hash-property"),
];
const ALTERNATE: &str = "alternate-exchange";

/// Properties that a hash can be taken of, with the broker's words for them.
const HASH_PROPERTIES: [(&str, &str); 2] = [("messageId", "message_id"), ("correlationId", "correlation_id")];

/// Reads the arguments of a queue.
///
/// # Errors
/// `NOT_IMPLEMENTED` or `VALIDATION_ERROR` naming the argument; `PRECONDITION_FAILED` for a dead-letter key without an exchange.
pub(super) fn queue_properties(object: Option<&str>) -> Result<QueueProperties, Failure> {
    let mut properties = QueueProperties::default();
    each(object, |name, raw| {
        let Some((.., argument)) =
            QUEUE_ARGUMENTS.iter().find(|(own, amqp, _)| *own == name || *amqp == name)
        else {
            return Err(Failure::argument(name));
        };
        match argument {
            QueueArgument::DeadLetterExchange => properties.dead_letter_exchange = Some(text(name, raw)?),
            QueueArgument::DeadLetterRoutingKey => properties.dead_letter_key = Some(text(name, raw)?),
            QueueArgument::Deliver if text(name, raw)? == "durable" => properties.deliver_durable = true,
            QueueArgument::Deliver => {
                return Err(Failure::field(&format!("arguments.{name}"), "must be \"durable\""));
            }
            QueueArgument::QueueType if text(name, raw)? != "classic" => return Err(Failure::argument(name)),
            QueueArgument::QueueType | QueueArgument::Hint => {}
        }
        Ok(())
    })?;
    if properties.dead_letter_key.is_some() && properties.dead_letter_exchange.is_none() {
        let message = "Argument 'deadLetterRoutingKey' needs 'deadLetterExchange'";
        return Err(Failure::new(Code::PreconditionFailed, message));
    }
    Ok(properties)
}

/// Reads the arguments of an exchange: the alternate exchange, if any, and those of its kind.
///
/// # Errors
/// `NOT_IMPLEMENTED` or `VALIDATION_ERROR` naming the argument.
pub(super) fn exchange_arguments(object: Option<&str>) -> Result<(Option<Name>, Arguments), Failure> {
    let mut alternate = None;
    let mut of_kind = Arguments::new();
    each(object, |name, raw| {
        let known =
            EXCHANGE_ARGUMENTS.iter().find(|(own, amqp, other)| [*own, *amqp, *other].contains(&name));
        let (_, argument, _) = known.ok_or_else(|| Failure::argument(name))?;
        let value = text(name, raw)?;
        if *argument == ALTERNATE {
            alternate = Some(value);
        } else {
            let own =
                HASH_PROPERTIES.iter().find(|(own, _)| value == *own).map(|(_, word)| (*word).to_owned());
            let value = HeaderValue::Text(own.unwrap_or_else(|| value.to_string()).into());
            of_kind.push((Name::from_static(argument), value));
        }
        Ok(())
    })?;
    Ok((alternate, of_kind))
}

/// This protocol's name of an exchange's argument.
pub(super) fn exchange_argument_name(argument: &str) -> &str {
    EXCHANGE_ARGUMENTS.iter().find(|(_, amqp, _)| *amqp == argument).map_or(argument, |(own, ..)| own)
}

/// Reads the arguments of a binding, typed as headers are.
///
/// # Errors
/// `VALIDATION_ERROR` for a name that is too long.
pub(super) fn binding_arguments(object: Option<&str>) -> Result<Arguments, Failure> {
    let mut arguments = Arguments::new();
    each(object, |name, raw| {
        let value: HeaderValue<'_> = headers::value(raw);
        arguments.push((Name::new(name)?, value.into_owned()));
        Ok(())
    })?;
    Ok(arguments)
}

fn each(
    object: Option<&str>,
    mut take: impl FnMut(&str, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut result = Ok(());
    json::members(object.unwrap_or("{}"), |name, raw| {
        if result.is_ok() {
            result = take(&name, raw);
        }
    })
    .map_err(|error| Failure::field("arguments", format!("cannot be read: {error}")))?;
    result
}

fn text(name: &str, raw: &str) -> Result<Name, Failure> {
    let text = json::text(raw);
    text.and_then(|text| Name::new(&text).ok())
        .ok_or_else(|| Failure::field(&format!("arguments.{name}"), "must be a string of at most 255 bytes"))
}
