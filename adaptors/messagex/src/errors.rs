//! Failure codes of the protocol, and which of the broker's refusals becomes which. Never decides what fails.

use framegate_adaptor_api::{AdaptError, LoginError};
use framegate_broker::{BrokerError, Kind};

/// A code of a failure response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Code {
    InvalidJson,
    InvalidMessage,
    UnsupportedVersion,
    UnknownCommand,
    ValidationError,
    DuplicateRequest,
    FrameEmpty,
    FrameTooLarge,
    MessageTooLarge,
    Unauthorized,
    AuthFailed,
    Forbidden,
    QueueNotFound,
    ExchangeNotFound,
    ConsumerNotFound,
    ConsumerExists,
    QueueInUse,
    QueueNotEmpty,
    ExchangeInUse,
    PreconditionFailed,
    ResourceLocked,
    ResourceReserved,
    InvalidExchangeType,
    UnknownDeliveryTag,
    Unroutable,
    QueueFull,
    RateLimited,
    NotImplemented,
    InternalError,
}

impl Code {
    /// The word on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::InvalidJson => "INVALID_JSON",
            Self::InvalidMessage => "INVALID_MESSAGE",
            Self::UnsupportedVersion => "UNSUPPORTED_VERSION",
            Self::UnknownCommand => "UNKNOWN_COMMAND",
            Self::ValidationError => "VALIDATION_ERROR",
            Self::DuplicateRequest => "DUPLICATE_REQUEST",
            Self::FrameEmpty => "FRAME_EMPTY",
            Self::FrameTooLarge => "FRAME_TOO_LARGE",
            Self::MessageTooLarge => "MESSAGE_TOO_LARGE",
            Self::Unauthorized => "UNAUTHORIZED",
            Self::AuthFailed => "AUTH_FAILED",
            Self::Forbidden => "FORBIDDEN",
            Self::QueueNotFound => "QUEUE_NOT_FOUND",
            Self::ExchangeNotFound => "EXCHANGE_NOT_FOUND",
            Self::ConsumerNotFound => "CONSUMER_NOT_FOUND",
            Self::ConsumerExists => "CONSUMER_EXISTS",
            Self::QueueInUse => "QUEUE_IN_USE",
            Self::QueueNotEmpty => "QUEUE_NOT_EMPTY",
            Self::ExchangeInUse => "EXCHANGE_IN_USE",
            Self::PreconditionFailed => "PRECONDITION_FAILED",
            Self::ResourceLocked => "RESOURCE_LOCKED",
            Self::ResourceReserved => "RESOURCE_RESERVED",
            Self::InvalidExchangeType => "INVALID_EXCHANGE_TYPE",
            Self::UnknownDeliveryTag => "UNKNOWN_DELIVERY_TAG",
            Self::Unroutable => "UNROUTABLE",
            Self::QueueFull => "QUEUE_FULL",
            Self::RateLimited => "RATE_LIMITED",
            Self::NotImplemented => "NOT_IMPLEMENTED",
            Self::InternalError => "INTERNAL_ERROR",
        }
    }
}

/// What a failure response says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.as_str())]
pub(crate) struct Failure {
    /// The code.
    pub(crate) code: Code,
    /// For people, with the value in question.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// A field of a payload that cannot be used.
    pub(crate) fn field(name: &str, reason: impl std::fmt::Display) -> Self {
        Self::new(Code::ValidationError, format!("Field '{name}' {reason}"))
    }

    /// An argument of a declaration that this version does not act on.
    pub(crate) fn argument(name: &str) -> Self {
        Self::new(
            Code::NotImplemented,
            format!("Argument '{}' is not supported by this version", shortened(name)),
        )
    }

    pub(crate) fn unknown_tag(tag: &str) -> Self {
        Self::new(
            Code::UnknownDeliveryTag,
            format!("Delivery tag '{}' is not outstanding on this connection", shortened(tag)),
        )
    }
}

/// At most 80 characters of a peer's text, for a message.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

impl From<BrokerError> for Failure {
    fn from(error: BrokerError) -> Self {
        let code = match &error {
            // The protocol's own words where it has some.
            BrokerError::NotFound { kind: Kind::Queue | Kind::Topic, name, .. } => {
                return Self::new(Code::QueueNotFound, format!("Queue '{name}' does not exist"));
            }
            BrokerError::NotFound { kind: Kind::Exchange, name, .. } => {
                return Self::new(Code::ExchangeNotFound, format!("Exchange '{name}' does not exist"));
            }
            BrokerError::NotFound { kind: Kind::Consumer, .. } => Code::ConsumerNotFound,
            BrokerError::NotFound { kind: Kind::Vhost, .. } | BrokerError::Forbidden { .. } => {
                Code::Forbidden
            }
            BrokerError::Inequivalent { .. } | BrokerError::Conflict => Code::PreconditionFailed,
            BrokerError::Locked { .. } => Code::ResourceLocked,
            BrokerError::InUse { kind: Kind::Exchange, .. } => Code::ExchangeInUse,
            BrokerError::InUse { .. } => Code::QueueInUse,
            BrokerError::NotEmpty { .. } => Code::QueueNotEmpty,
            BrokerError::Reserved { .. } => Code::ResourceReserved,
            BrokerError::ConsumerExists => Code::ConsumerExists,
            BrokerError::UnknownDelivery => Code::UnknownDeliveryTag,
            BrokerError::QueueFull { .. } => Code::QueueFull,
            BrokerError::Limit { .. } => Code::RateLimited,
            BrokerError::TooLarge { .. } => Code::MessageTooLarge,
            BrokerError::Invalid { .. } => Code::ValidationError,
            BrokerError::NotSupported { .. } => Code::NotImplemented,
            // Stopping, StorageFailed, and what later versions of the broker add.
            _ => Code::InternalError,
        };
        Self::new(code, capitalized(&error.to_string()))
    }
}

impl From<LoginError> for Failure {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::Broker(cause @ (BrokerError::NotFound { .. } | BrokerError::Forbidden { .. })) => {
                Self::new(Code::AuthFailed, capitalized(&cause.to_string()))
            }
            LoginError::Broker(cause) => cause.into(),
            other => Self::new(Code::AuthFailed, capitalized(&other.to_string())),
        }
    }
}

impl From<AdaptError> for Failure {
    fn from(error: AdaptError) -> Self {
        match error {
            AdaptError::Invalid { what, reason } => Self::field(&what, reason),
            other => Self::new(Code::MessageTooLarge, capitalized(&other.to_string())),
        }
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use framegate_broker::{Access, Name};

    /// Every variant of the broker's error, and the code that clients see.
    #[test]
    fn every_refusal_of_the_broker_has_its_code() {
        let name = || Name::from_static("x");
        let vhost = || Name::from_static("/");
        let missing = |kind| BrokerError::NotFound { kind, name: name(), vhost: vhost() };
        let in_use = |kind| BrokerError::InUse { kind, name: name() };
        let table = [
            (missing(Kind::Queue), "QUEUE_NOT_FOUND", "Queue 'x' does not exist"),
            (missing(Kind::Topic), "QUEUE_NOT_FOUND", "Queue 'x' does not exist"),
            (missing(Kind::Exchange), "EXCHANGE_NOT_FOUND", "Exchange 'x' does not exist"),
            (missing(Kind::Consumer), "CONSUMER_NOT_FOUND", "Consumer 'x' does not exist in vhost '/'"),
            (missing(Kind::Vhost), "FORBIDDEN", "Vhost 'x' does not exist in vhost '/'"),
            (
                BrokerError::Inequivalent {
                    kind: Kind::Queue,
                    name: name(),
                    argument: "durable".to_owned(),
                    current: "true".to_owned(),
                    given: "false".to_owned(),
                },
                "PRECONDITION_FAILED",
                "Queue 'x' exists with durable 'true', not 'false'",
            ),
            (
                BrokerError::Locked { kind: Kind::Queue, name: name(), reason: "exclusive" },
                "RESOURCE_LOCKED",
                "Queue 'x' is locked: exclusive",
            ),
            (in_use(Kind::Queue), "QUEUE_IN_USE", "Queue 'x' is in use"),
            (in_use(Kind::Exchange), "EXCHANGE_IN_USE", "Exchange 'x' is in use"),
            (
                BrokerError::NotEmpty { name: name(), messages: 3 },
                "QUEUE_NOT_EMPTY",
                "Queue 'x' is not empty (3 messages)",
            ),
            (
                BrokerError::Reserved { kind: Kind::Exchange, name: name() },
                "RESOURCE_RESERVED",
                "Exchange name 'x' is reserved",
            ),
            (
                BrokerError::Forbidden {
                    kind: Kind::Queue,
                    name: name(),
                    vhost: vhost(),
                    user: Name::from_static("u"),
                    access: Access::Read,
                },
                "FORBIDDEN",
                "Access to queue 'x' in vhost '/' refused for user 'u': no read permission",
            ),
            (BrokerError::ConsumerExists, "CONSUMER_EXISTS", "Consumer exists already"),
            (BrokerError::UnknownDelivery, "UNKNOWN_DELIVERY_TAG", "Unknown delivery"),
            (BrokerError::QueueFull { name: name() }, "QUEUE_FULL", "Queue 'x' is full"),
            (
                BrokerError::Limit { what: "queues", max: 9 },
                "RATE_LIMITED",
                "Limit reached: at most 9 queues",
            ),
            (
                BrokerError::TooLarge { bytes: 9, max: 8 },
                "MESSAGE_TOO_LARGE",
                "Message of 9 bytes is larger than 8",
            ),
            (
                BrokerError::Invalid { what: "name", value: "*".to_owned(), reason: "has a wildcard" },
                "VALIDATION_ERROR",
                "Name '*' has a wildcard",
            ),
            (
                BrokerError::Conflict,
                "PRECONDITION_FAILED",
                "A message with the same id and other content was published before",
            ),
            (
                BrokerError::NotSupported { what: "atomic" },
                "NOT_IMPLEMENTED",
                "Atomic is not supported by this version",
            ),
            (BrokerError::Stopping, "INTERNAL_ERROR", "The broker is shutting down"),
            (BrokerError::StorageFailed, "INTERNAL_ERROR", "Storage has failed, the broker is stopping"),
        ];
        for (error, code, message) in table {
            let failure = Failure::from(error);
            assert_eq!((failure.code.as_str(), failure.message.as_str()), (code, message));
        }
    }

    #[test]
    fn a_refused_login_is_auth_failed_unless_the_broker_is_the_cause() {
        let code = |error: LoginError| Failure::from(error).code;
        assert_eq!(code(LoginError::Refused), Code::AuthFailed);
        assert_eq!(code(LoginError::Required), Code::AuthFailed);
        let missing = BrokerError::NotFound {
            kind: Kind::Vhost,
            name: Name::from_static("v"),
            vhost: Name::from_static("/"),
        };
        assert_eq!(code(LoginError::Broker(missing)), Code::AuthFailed);
        assert_eq!(code(LoginError::Broker(BrokerError::Limit { what: "x", max: 1 })), Code::RateLimited);
        assert_eq!(code(LoginError::Broker(BrokerError::Stopping)), Code::InternalError);
    }
}
