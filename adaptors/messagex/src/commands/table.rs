//! The commands: names, aliases, payload fields with their types and defaults, as data. The protocol page gives only
//! QUEUE_DECLARE with `name` and `durable`; everything else completes it, and is changed here and nowhere else.

use crate::commands::Op;
use crate::limits::{CREDENTIAL_BYTES_MAX, DELAY_MS_MAX, PAYLOAD_BYTES_MAX};
use crate::schema::{Field, Key, Kind, Need};

/// A command.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) op: Op,
    /// The word on the wire.
    pub(crate) name: &'static str,
    /// Other words for it.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) fields: &'static [Field],
}

/// The command of a word.
pub(crate) fn find(word: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == word || command.aliases.contains(&word))
}

const fn field(key: Key, name: &'static str, kind: Kind, need: Need) -> Field {
    Field { key, name, aliases: &[], kind, need }
}

const fn command(
    op: Op,
    name: &'static str,
    aliases: &'static [&'static str],
    fields: &'static [Field],
) -> Command {
    Command { op, name, aliases, fields }
}

const NO: Need = Need::Or(false);
const YES: Need = Need::Or(true);
const MUST: Need = Need::Required;
const MAY: Need = Need::Optional;

const CREDENTIAL: Kind = Kind::Text(CREDENTIAL_BYTES_MAX);
/// Tags are compared, never stored: any text may come.
const TAG: Kind = Kind::Text(PAYLOAD_BYTES_MAX);

/// Fields of a binding, to make and to remove it.
const BINDING: &[Field] = &[
    field(Key::QueueName, "queueName", Kind::Name, MUST),
    field(Key::ExchangeName, "exchangeName", Kind::NameOrEmpty, MUST),
    field(Key::Routing, "routingKey", Kind::Text(255), MAY),
    field(Key::Arguments, "arguments", Kind::Object, MAY),
];

/// Fields of a binding from one exchange to another.
const EXCHANGE_BINDING: &[Field] = &[
    field(Key::DestinationExchange, "destinationExchange", Kind::Name, MUST),
    field(Key::ExchangeName, "exchangeName", Kind::NameOrEmpty, MUST),
    field(Key::Routing, "routingKey", Kind::Text(255), MAY),
    field(Key::Arguments, "arguments", Kind::Object, MAY),
];

/// All commands; the frequent ones first.
pub(crate) const COMMANDS: &[Command] = &[
    command(
        Op::Publish,
        "PUBLISH",
        &["MESSAGE_PUBLISH"],
        &[
            field(Key::ExchangeName, "exchangeName", Kind::NameOrEmpty, MAY),
            field(Key::Routing, "routingKey", Kind::Text(255), MAY),
            field(Key::QueueName, "queueName", Kind::Name, MAY),
            field(Key::Body, "body", Kind::Any, MUST),
            field(Key::Encoding, "encoding", Kind::Text(255), MAY),
            field(Key::Properties, "properties", Kind::Object, MAY),
            field(Key::Headers, "headers", Kind::Object, MAY),
            field(Key::Mandatory, "mandatory", Kind::Flag, NO),
            field(Key::Persistent, "persistent", Kind::Flag, MAY),
            field(Key::Delay, "delay", Kind::Integer(0, DELAY_MS_MAX), MAY),
        ],
    ),
    command(
        Op::Ack,
        "ACK",
        &["MESSAGE_ACK"],
        &[
            field(Key::DeliveryTag, "deliveryTag", TAG, MAY),
            field(Key::DeliveryTags, "deliveryTags", Kind::Texts, MAY),
            field(Key::Multiple, "multiple", Kind::Flag, NO),
        ],
    ),
    command(
        Op::Nack,
        "NACK",
        &["MESSAGE_NACK"],
        &[
            field(Key::DeliveryTag, "deliveryTag", TAG, MAY),
            field(Key::DeliveryTags, "deliveryTags", Kind::Texts, MAY),
            field(Key::Requeue, "requeue", Kind::Flag, YES),
            field(Key::Multiple, "multiple", Kind::Flag, NO),
        ],
    ),
    command(
        Op::Reject,
        "REJECT",
        &["MESSAGE_REJECT"],
        &[field(Key::DeliveryTag, "deliveryTag", TAG, MUST), field(Key::Requeue, "requeue", Kind::Flag, NO)],
    ),
    command(
        Op::Get,
        "GET",
        &["MESSAGE_GET"],
        &[
            field(Key::QueueName, "queueName", Kind::Name, MUST),
            field(Key::AutoAck, "autoAck", Kind::Flag, NO),
        ],
    ),
    command(Op::Ping, "PING", &[], &[]),
    command(
        Op::Auth,
        "AUTH",
        &["AUTHENTICATE", "CONNECT"],
        &[
            field(Key::Username, "username", CREDENTIAL, MAY),
            field(Key::Password, "password", CREDENTIAL, MAY),
            field(Key::Token, "token", CREDENTIAL, MAY),
            field(Key::ClientId, "clientId", CREDENTIAL, MAY),
            field(Key::Vhost, "vhost", Kind::Name, MAY),
            field(Key::ReturnEvents, "returnEvents", Kind::Flag, NO),
        ],
    ),
    command(
        Op::QueueDeclare,
        "QUEUE_DECLARE",
        &[],
        &[
            field(Key::Name, "name", Kind::NameOrEmpty, MUST),
            field(Key::Durable, "durable", Kind::Flag, NO),
            field(Key::Exclusive, "exclusive", Kind::Flag, NO),
            field(Key::AutoDelete, "autoDelete", Kind::Flag, NO),
            field(Key::Passive, "passive", Kind::Flag, NO),
            field(Key::Arguments, "arguments", Kind::Object, MAY),
        ],
    ),
    command(
        Op::QueueDelete,
        "QUEUE_DELETE",
        &[],
        &[
            field(Key::Name, "name", Kind::Name, MUST),
            field(Key::IfUnused, "ifUnused", Kind::Flag, NO),
            field(Key::IfEmpty, "ifEmpty", Kind::Flag, NO),
        ],
    ),
    command(Op::QueuePurge, "QUEUE_PURGE", &[], &[field(Key::Name, "name", Kind::Name, MUST)]),
    command(Op::QueueList, "QUEUE_LIST", &[], &[]),
    command(Op::QueueGet, "QUEUE_GET", &["QUEUE_INFO"], &[field(Key::Name, "name", Kind::Name, MUST)]),
    command(Op::QueueBind, "QUEUE_BIND", &["BIND"], BINDING),
    command(Op::QueueUnbind, "QUEUE_UNBIND", &["UNBIND"], BINDING),
    command(
        Op::BindingList,
        "BINDING_LIST",
        &[],
        &[
            field(Key::QueueName, "queueName", Kind::Name, MAY),
            field(Key::ExchangeName, "exchangeName", Kind::NameOrEmpty, MAY),
        ],
    ),
    command(
        Op::ExchangeDeclare,
        "EXCHANGE_DECLARE",
        &[],
        &[
            field(Key::Name, "name", Kind::Name, MUST),
            // Required unless passive.
            field(Key::Type, "type", Kind::Text(255), MAY),
            field(Key::Durable, "durable", Kind::Flag, NO),
            field(Key::AutoDelete, "autoDelete", Kind::Flag, NO),
            field(Key::Internal, "internal", Kind::Flag, NO),
            field(Key::Passive, "passive", Kind::Flag, NO),
            field(Key::Arguments, "arguments", Kind::Object, MAY),
        ],
    ),
    command(
        Op::ExchangeDelete,
        "EXCHANGE_DELETE",
        &[],
        &[field(Key::Name, "name", Kind::Name, MUST), field(Key::IfUnused, "ifUnused", Kind::Flag, NO)],
    ),
    command(Op::ExchangeList, "EXCHANGE_LIST", &[], &[]),
    command(Op::ExchangeBind, "EXCHANGE_BIND", &[], EXCHANGE_BINDING),
    command(Op::ExchangeUnbind, "EXCHANGE_UNBIND", &[], EXCHANGE_BINDING),
    command(
        Op::Consume,
        "CONSUME",
        &["SUBSCRIBE", "QUEUE_CONSUME"],
        &[
            field(Key::QueueName, "queueName", Kind::Name, MUST),
            field(Key::ConsumerTag, "consumerTag", Kind::Name, MAY),
            field(Key::AutoAck, "autoAck", Kind::Flag, NO),
            field(Key::Exclusive, "exclusive", Kind::Flag, NO),
            field(Key::Prefetch, "prefetch", Kind::Integer(0, 65_535), MAY),
            field(Key::Priority, "priority", Kind::Integer(i32::MIN as i64, i32::MAX as i64), MAY),
        ],
    ),
    command(
        Op::Cancel,
        "CANCEL",
        &["UNSUBSCRIBE"],
        &[field(Key::ConsumerTag, "consumerTag", Kind::Name, MUST)],
    ),
    command(
        Op::Qos,
        "QOS",
        &["SET_PREFETCH"],
        &[
            field(Key::Prefetch, "prefetch", Kind::Integer(0, 65_535), MUST),
            field(Key::Global, "global", Kind::Flag, NO),
        ],
    ),
    command(Op::Recover, "RECOVER", &[], &[]),
    command(Op::Stats, "STATS", &["STATUS"], &[]),
    command(Op::Disconnect, "DISCONNECT", &["CLOSE"], &[]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::FIELDS_MAX;
    use std::collections::HashSet;

    #[test]
    fn words_and_keys_are_unique_and_fields_fit() {
        let mut words = HashSet::new();
        for command in COMMANDS {
            for word in command.aliases.iter().chain([&command.name]) {
                assert!(words.insert(*word), "{word}");
                assert_eq!(find(word).map(|found| found.op), Some(command.op));
            }
            assert!(command.fields.len() <= FIELDS_MAX, "{}", command.name);
            let mut names = HashSet::new();
            for field in command.fields {
                let all = field.aliases.iter().chain([&field.name]);
                assert!(all.copied().all(|name| names.insert(name)), "{} {}", command.name, field.name);
            }
        }
        assert!(find("queue_declare").is_none());
    }
}
