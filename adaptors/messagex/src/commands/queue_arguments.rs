//! Arguments of queues: the one table of their names, how each is read into the broker's properties and shown again.
//! What the broker cannot do is refused by name; nothing is silently ignored but hints about storage.

use bytes::BytesMut;
use framegate_broker::{Name, Overflow, PriorityMode, QueueProperties};

use super::arguments::{each, text};
use crate::errors::{Code, Failure};
use crate::json::{self, Object};

/// What an argument of a queue does here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueueArgument {
    DeadLetterExchange,
    DeadLetterRoutingKey,
    /// `durable`: deliver only what is on disk.
    Deliver,
    DeliveryLimit,
    Expires,
    /// A hint about storage, without effect here.
    Hint,
    MaxLength,
    MaxLengthBytes,
    MaxPriority,
    MessageTtl,
    Overflow,
    /// `classic` says what a queue is anyway; `quorum` counts deliveries.
    QueueType,
    SingleActiveConsumer,
}

/// Names of this protocol and of AMQP. Every other argument is `NOT_IMPLEMENTED`.
const QUEUE_ARGUMENTS: &[(&str, &str, QueueArgument)] = &[
    ("deadLetterExchange", "x-dead-letter-exchange", QueueArgument::DeadLetterExchange),
    ("deadLetterRoutingKey", "x-dead-letter-routing-key", QueueArgument::DeadLetterRoutingKey),
    ("deliver", "x-deliver", QueueArgument::Deliver),
    ("deliveryLimit", "x-delivery-limit", QueueArgument::DeliveryLimit),
    ("expires", "x-expires", QueueArgument::Expires),
    ("maxLength", "x-max-length", QueueArgument::MaxLength),
    ("maxLengthBytes", "x-max-length-bytes", QueueArgument::MaxLengthBytes),
    ("maxPriority", "x-max-priority", QueueArgument::MaxPriority),
    ("messageTtl", "x-message-ttl", QueueArgument::MessageTtl),
    ("overflow", "x-overflow", QueueArgument::Overflow),
    ("queueMode", "x-queue-mode", QueueArgument::Hint),
    ("queueVersion", "x-queue-version", QueueArgument::Hint),
    ("queueType", "x-queue-type", QueueArgument::QueueType),
    ("singleActiveConsumer", "x-single-active-consumer", QueueArgument::SingleActiveConsumer),
];

/// Name under which the broker keeps the type of a queue that is not classic.
const QUEUE_TYPE: &str = "x-queue-type";
/// Failed deliveries that a quorum queue bears when it does not say.
const QUORUM_DELIVERY_LIMIT: u32 = 20;

/// Flags of a declaration that some arguments do not go with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flags {
    pub(super) durable: bool,
    pub(super) exclusive: bool,
    pub(super) auto_delete: bool,
}

/// Reads the arguments of a queue.
///
/// # Errors
/// `NOT_IMPLEMENTED` or `VALIDATION_ERROR` naming the argument; `PRECONDITION_FAILED` for a dead-letter key without an exchange
/// and for what a quorum queue cannot be.
pub(super) fn queue_properties(object: Option<&str>, flags: Flags) -> Result<QueueProperties, Failure> {
    let mut properties = QueueProperties::default();
    let (mut quorum, mut unlimited) = (false, false);
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
            QueueArgument::Deliver => return Err(wrong(name, "must be \"durable\"")),
            QueueArgument::DeliveryLimit if json::integer(raw) == Some(-1) => unlimited = true,
            QueueArgument::DeliveryLimit => {
                properties.delivery_limit = Some(number(name, raw, 0, u32::MAX.into())? as u32);
            }
            QueueArgument::Expires => properties.expires_ms = Some(number(name, raw, 1, u64::MAX)?),
            QueueArgument::MaxLength => properties.length_max = Some(number(name, raw, 0, u64::MAX)?),
            QueueArgument::MaxLengthBytes => properties.bytes_max = Some(number(name, raw, 0, u64::MAX)?),
            QueueArgument::MaxPriority => {
                properties.priority = PriorityMode::Max(number(name, raw, 1, u8::MAX.into())? as u8);
            }
            QueueArgument::MessageTtl => properties.message_ttl_ms = Some(number(name, raw, 0, u64::MAX)?),
            QueueArgument::Overflow => {
                let words = "must be one of \"drop-head\", \"reject-publish\", \"reject-publish-dlx\"";
                properties.overflow = Overflow::parse(&text(name, raw)?).ok_or_else(|| wrong(name, words))?;
            }
            QueueArgument::QueueType => match text(name, raw)?.as_str() {
                "classic" => quorum = false,
                "quorum" => quorum = true,
                _ => return Err(Failure::argument(name)),
            },
            QueueArgument::SingleActiveConsumer => {
                properties.single_active = match raw.trim() {
                    "true" => true,
                    "false" => false,
                    _ => return Err(wrong(name, "must be true or false")),
                };
            }
            QueueArgument::Hint => {}
        }
        Ok(())
    })?;
    if properties.dead_letter_key.is_some() && properties.dead_letter_exchange.is_none() {
        let message = "Argument 'deadLetterRoutingKey' needs 'deadLetterExchange'";
        return Err(Failure::new(Code::PreconditionFailed, message));
    }
    if quorum {
        check_quorum(&properties, flags)?;
        properties.arguments.push((Name::from_static(QUEUE_TYPE), "quorum".to_owned()));
        let limit = properties.delivery_limit.unwrap_or(QUORUM_DELIVERY_LIMIT);
        properties.delivery_limit = (!unlimited).then_some(limit);
    }
    Ok(properties)
}

fn check_quorum(properties: &QueueProperties, flags: Flags) -> Result<(), Failure> {
    let cannot = if !flags.durable {
        "must be durable"
    } else if flags.exclusive {
        "cannot be exclusive"
    } else if flags.auto_delete {
        "cannot be deleted automatically"
    } else if properties.priority != PriorityMode::None {
        "cannot have 'maxPriority'"
    } else {
        return Ok(());
    };
    Err(Failure::new(Code::PreconditionFailed, format!("A queue of type quorum {cannot}")))
}

/// Writes the arguments of a queue as members.
pub(super) fn put_properties(arguments: &mut Object<'_>, properties: &QueueProperties) {
    if let Some(exchange) = &properties.dead_letter_exchange {
        arguments.text("deadLetterExchange", exchange);
    }
    if let Some(key) = &properties.dead_letter_key {
        arguments.text("deadLetterRoutingKey", key);
    }
    if properties.deliver_durable {
        arguments.text("deliver", "durable");
    }
    let numbers = [
        ("messageTtl", properties.message_ttl_ms),
        ("expires", properties.expires_ms),
        ("maxLength", properties.length_max),
        ("maxLengthBytes", properties.bytes_max),
        ("deliveryLimit", properties.delivery_limit.map(u64::from)),
        (
            "maxPriority",
            if let PriorityMode::Max(max) = properties.priority { Some(max.into()) } else { None },
        ),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            arguments.number(name, value);
        }
    }
    if properties.overflow != Overflow::DropHead {
        arguments.text("overflow", properties.overflow.as_str());
    }
    if properties.single_active {
        arguments.flag("singleActiveConsumer", true);
    }
    for (name, value) in properties.arguments.iter().take(16) {
        let name = if name == QUEUE_TYPE { "queueType" } else { name };
        arguments.text(name, value.get(..80).unwrap_or(value));
    }
}

/// Writes the arguments of a queue as one object.
pub(super) fn put_arguments(buffer: &mut BytesMut, properties: &QueueProperties) {
    let mut arguments = Object::begin(buffer);
    put_properties(&mut arguments, properties);
    arguments.end();
}

fn wrong(name: &str, reason: &str) -> Failure {
    Failure::field(&format!("arguments.{name}"), reason)
}

fn number(name: &str, raw: &str, min: u64, max: u64) -> Result<u64, Failure> {
    let number = json::integer(raw).and_then(|n| u64::try_from(n).ok());
    number.filter(|n| (min..=max).contains(n)).ok_or_else(|| {
        let bound = if max > i64::MAX as u64 { String::new() } else { format!(" to {max}") };
        wrong(name, &format!("must be an integer from {min}{bound}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURABLE: Flags = Flags { durable: true, exclusive: false, auto_delete: false };

    fn read(arguments: &str) -> Result<QueueProperties, Failure> {
        queue_properties(Some(arguments), DURABLE)
    }

    #[test]
    fn every_argument_is_read_by_either_name_and_shown_by_this_protocols() {
        let cases = [
            ("deadLetterExchange", "\"dlx\""),
            ("deliver", "\"durable\""),
            ("messageTtl", "0"),
            ("expires", "1"),
            ("maxLength", "0"),
            ("maxLengthBytes", "9000000000"),
            ("deliveryLimit", "0"),
            ("maxPriority", "255"),
            ("overflow", "\"reject-publish-dlx\""),
            ("singleActiveConsumer", "true"),
        ];
        for (name, value) in cases {
            let (own, amqp, _) = QUEUE_ARGUMENTS.iter().find(|a| a.0 == name).expect(name);
            let properties = read(&format!("{{\"{own}\":{value}}}")).expect(name);
            assert_eq!(properties, read(&format!("{{\"{amqp}\":{value}}}")).expect(name));
            assert_ne!(properties, QueueProperties::default(), "{name}");
            let mut shown = BytesMut::new();
            put_arguments(&mut shown, &properties);
            assert_eq!(shown, format!("{{\"{own}\":{value}}}"));
        }
        let mut shown = BytesMut::new();
        put_arguments(&mut shown, &read("{\"queueType\":\"quorum\"}").expect("quorum"));
        assert_eq!(&shown[..], br#"{"deliveryLimit":20,"queueType":"quorum"}"#);
    }

    #[test]
    fn values_out_of_range_and_of_another_type_are_named() {
        let cases = [
            ("messageTtl", "-1"),
            ("messageTtl", "\"1\""),
            ("expires", "0"),
            ("maxLength", "1.5"),
            ("maxLengthBytes", "null"),
            ("maxPriority", "0"),
            ("maxPriority", "256"),
            ("deliveryLimit", "-2"),
            ("overflow", "\"drop-tail\""),
            ("singleActiveConsumer", "1"),
        ];
        for (name, value) in cases {
            let failure = read(&format!("{{\"{name}\":{value}}}")).expect_err(name);
            assert_eq!(failure.code, Code::ValidationError, "{name} {value}");
            assert!(failure.message.contains(&format!("arguments.{name}")), "{failure:?}");
        }
        for arguments in ["{\"queueType\":\"stream\"}", "{\"maxAge\":\"1h\"}"] {
            assert_eq!(read(arguments).expect_err(arguments).code, Code::NotImplemented);
        }
    }

    #[test]
    fn a_quorum_queue_is_durable_shared_and_without_priorities() {
        let quorum = "{\"queueType\":\"quorum\"}";
        assert_eq!(read(quorum).expect("quorum").delivery_limit, Some(20));
        let unlimited = "{\"queueType\":\"quorum\",\"deliveryLimit\":-1}";
        assert_eq!(read(unlimited).expect("quorum").delivery_limit, None);
        for flags in [
            Flags { durable: false, ..DURABLE },
            Flags { exclusive: true, ..DURABLE },
            Flags { auto_delete: true, ..DURABLE },
        ] {
            let failure = queue_properties(Some(quorum), flags).expect_err("not so");
            assert_eq!(failure.code, Code::PreconditionFailed);
        }
        let priority = read("{\"queueType\":\"quorum\",\"maxPriority\":3}").expect_err("not both");
        assert_eq!(priority.code, Code::PreconditionFailed);
    }
}
