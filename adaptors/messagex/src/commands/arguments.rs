//! Arguments of exchanges and bindings: which names are known, and what the broker makes of them. What it cannot do is refused by
//! name.

use framegate_broker::{Arguments, HeaderValue, Name};

use crate::errors::Failure;
use crate::headers;
use crate::json;

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

/// Visits the members of an object until one is refused.
pub(super) fn each(
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

/// A string argument.
pub(super) fn text(name: &str, raw: &str) -> Result<Name, Failure> {
    let text = json::text(raw);
    text.and_then(|text| Name::new(&text).ok())
        .ok_or_else(|| Failure::field(&format!("arguments.{name}"), "must be a string of at most 255 bytes"))
}
