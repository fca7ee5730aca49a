//! Refusals as a client sees them: code, text, the method that failed, and what is closed for it. Turns the broker's errors into
//! RabbitMQ's words.

use framegate_broker::{Access, BrokerError, Kind, Name};

use crate::codec::{DecodeError, FrameFault, MethodId};

/// What a refusal closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Channel,
    Connection,
}

/// Reply codes and their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    ConnectionForced,
    AccessRefused,
    NotFound,
    ResourceLocked,
    PreconditionFailed,
    FrameError,
    SyntaxError,
    CommandInvalid,
    ChannelError,
    UnexpectedFrame,
    ResourceError,
    NotAllowed,
    NotImplemented,
    InternalError,
}

impl Code {
    pub(crate) fn number(self) -> u16 {
        match self {
            Self::ConnectionForced => 320,
            Self::AccessRefused => 403,
            Self::NotFound => 404,
            Self::ResourceLocked => 405,
            Self::PreconditionFailed => 406,
            Self::FrameError => 501,
            Self::SyntaxError => 502,
            Self::CommandInvalid => 503,
            Self::ChannelError => 504,
            Self::UnexpectedFrame => 505,
            Self::ResourceError => 506,
            Self::NotAllowed => 530,
            Self::NotImplemented => 540,
            Self::InternalError => 541,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::ConnectionForced => "CONNECTION_FORCED",
            Self::AccessRefused => "ACCESS_REFUSED",
            Self::NotFound => "NOT_FOUND",
            Self::ResourceLocked => "RESOURCE_LOCKED",
            Self::PreconditionFailed => "PRECONDITION_FAILED",
            Self::FrameError => "FRAME_ERROR",
            Self::SyntaxError => "SYNTAX_ERROR",
            Self::CommandInvalid => "COMMAND_INVALID",
            Self::ChannelError => "CHANNEL_ERROR",
            Self::UnexpectedFrame => "UNEXPECTED_FRAME",
            Self::ResourceError => "RESOURCE_ERROR",
            Self::NotAllowed => "NOT_ALLOWED",
            Self::NotImplemented => "NOT_IMPLEMENTED",
            Self::InternalError => "INTERNAL_ERROR",
        }
    }

    /// What RabbitMQ closes for it: 3xx and 4xx a channel, 5xx the connection.
    fn scope(self) -> Scope {
        match self {
            Self::AccessRefused | Self::NotFound | Self::ResourceLocked | Self::PreconditionFailed => {
                Scope::Channel
            }
            _ => Scope::Connection,
        }
    }
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    /// With the code's name in front.
    pub(crate) text: String,
    pub(crate) method: MethodId,
    pub(crate) scope: Scope,
}

impl Failure {
    /// A refusal of the scope that its code has. `text` without the code's name.
    pub(crate) fn new(code: Code, method: MethodId, text: impl AsRef<str>) -> Self {
        let text = format!("{} - {}", code.name(), text.as_ref());
        Self { code, text, method, scope: code.scope() }
    }

    pub(crate) fn precondition(method: MethodId, text: impl AsRef<str>) -> Self {
        Self::new(Code::PreconditionFailed, method, text)
    }

    pub(crate) fn not_implemented(method: MethodId, text: impl AsRef<str>) -> Self {
        Self::new(Code::NotImplemented, method, text)
    }

    pub(crate) fn unexpected(method: MethodId, text: &str) -> Self {
        Self::new(Code::UnexpectedFrame, method, text)
    }

    /// Input that cannot be cut into frames.
    pub(crate) fn of_frame(fault: FrameFault) -> Self {
        Self::new(Code::FrameError, MethodId::NONE, fault.to_string())
    }

    /// A method whose payload cannot be read.
    pub(crate) fn of_payload(error: DecodeError, method: Option<MethodId>) -> Self {
        let id = method.unwrap_or(MethodId::NONE);
        match error {
            DecodeError::UnknownMethod => Self::new(Code::CommandInvalid, id, "unknown method"),
            DecodeError::Table => Self::new(Code::SyntaxError, id, "malformed field table"),
            DecodeError::Truncated | DecodeError::Trailing(_) => {
                Self::new(Code::FrameError, id, "cannot decode <<>>")
            }
        }
    }

    /// A name that is no text.
    pub(crate) fn not_text(method: MethodId) -> Self {
        Self::precondition(method, "a name is not UTF-8")
    }

    /// What the broker says, for a request that this method made.
    pub(crate) fn of_broker(error: BrokerError, method: MethodId, vhost: &Name) -> Self {
        let of = |kind: Kind, name: &Name| format!("{} '{name}' in vhost '{vhost}'", kind.noun());
        match error {
            BrokerError::NotFound { kind: Kind::Vhost, name, .. } => {
                Self::new(Code::NotAllowed, method, format!("vhost {name} not found"))
            }
            BrokerError::NotFound { kind, name, .. } => {
                Self::new(Code::NotFound, method, format!("no {}", of(kind, &name)))
            }
            BrokerError::Inequivalent { argument, .. } if argument == "exclusive" => {
                Self::precondition(method, "inequivalent arg 'exclusive'")
            }
            BrokerError::Inequivalent { kind, name, argument, current, given } => {
                let difference = difference(&argument, &current, &given);
                let text = format!("inequivalent arg '{argument}' for {}: {difference}", of(kind, &name));
                Self::precondition(method, text)
            }
            BrokerError::Locked { kind, name, reason } if reason.contains("another connection") => {
                Self::locked(method, &of(kind, &name))
            }
            BrokerError::Locked { kind, name, .. } => {
                Self::new(Code::AccessRefused, method, format!("{} in exclusive use", of(kind, &name)))
            }
            BrokerError::InUse { kind, name } => {
                Self::precondition(method, format!("{} in use", of(kind, &name)))
            }
            BrokerError::NotEmpty { name, .. } => {
                Self::precondition(method, format!("{} not empty", of(Kind::Queue, &name)))
            }
            BrokerError::Reserved { kind, name } => Self::reserved(kind, &name, method, vhost),
            BrokerError::Forbidden { kind: Kind::Vhost, name, user, .. } => {
                let text = format!("access to vhost '{name}' refused for user '{user}'");
                Self::new(Code::NotAllowed, method, text)
            }
            BrokerError::Forbidden { kind, name, vhost, user, access } => {
                let name =
                    if name.is_empty() && kind == Kind::Exchange { "amq.default" } else { name.as_str() };
                let what = access_word(access);
                let noun = kind.noun();
                let text =
                    format!("{what} access to {noun} '{name}' in vhost '{vhost}' refused for user '{user}'");
                Self::new(Code::AccessRefused, method, text)
            }
            BrokerError::Invalid { what: "x-match", value, .. } => {
                let allowed = "expected all, any, all-with-x, or any-with-x";
                Self::precondition(method, format!("Invalid x-match field value <<\"{value}\">>; {allowed}"))
            }
            BrokerError::Invalid { what: "exchange type", value, .. } => {
                Self::precondition(method, format!("unknown exchange type '{value}'"))
            }
            BrokerError::Invalid { what: "binding key", value, .. } => {
                Self::precondition(method, format!("The binding key must be an integer: <<\"{value}\">>"))
            }
            BrokerError::Limit { what, max } if what.contains("consumers") => {
                Self::new(Code::NotAllowed, method, format!("reached maximum ({max}) of {what}"))
            }
            BrokerError::TooLarge { bytes, max } => Self::precondition(
                method,
                format!("message size {bytes} is larger than configured max size {max}"),
            ),
            BrokerError::NotSupported { what } => Self::not_implemented(method, what),
            BrokerError::Stopping => Self::forced(),
            BrokerError::StorageFailed => Self::new(Code::InternalError, method, "storage has failed"),
            error => Self::precondition(method, error.to_string()),
        }
    }

    /// The queue belongs to another connection.
    pub(crate) fn locked(method: MethodId, what: &str) -> Self {
        let text = format!(
            "cannot obtain exclusive access to locked {what}. It could be originally declared on another connection \
             or the exclusive property value does not match that of the original declaration."
        );
        Self::new(Code::ResourceLocked, method, text)
    }

    /// The server stops.
    pub(crate) fn forced() -> Self {
        let text = "broker forced connection closure with reason 'shutdown'";
        Self::new(Code::ConnectionForced, MethodId::NONE, text)
    }

    fn reserved(kind: Kind, name: &Name, method: MethodId, vhost: &Name) -> Self {
        let text = match (method.class, method.method) {
            (60, 40) => format!("cannot publish to internal exchange '{name}' in vhost '{vhost}'"),
            _ if name.is_empty() => "operation not permitted on the default exchange".to_owned(),
            (40, 20) => format!("deletion of system exchange '{name}' in vhost '{vhost}' not allowed"),
            _ => format!("{} name '{name}' contains reserved prefix 'amq.*'", kind.noun()),
        };
        Self::new(Code::AccessRefused, method, text)
    }
}

fn access_word(access: Access) -> &'static str {
    access.word()
}

/// How two values of a property differ. Arguments say "none" for no value; the others always have one.
fn difference(argument: &str, current: &str, given: &str) -> String {
    let is_argument = argument.starts_with("x-") || argument == "alternate-exchange";
    let of_type = |value: &str| format!("the value '{value}' of type '{}'", type_of(argument, value));
    match (current, given) {
        (current, "none") if is_argument => format!("received none but current is {}", of_type(current)),
        ("none", given) if is_argument => format!("received {} but current is none", of_type(given)),
        _ => format!("received '{given}' but current is '{current}'"),
    }
}

/// The type that clients give an argument of this name.
fn type_of(argument: &str, value: &str) -> &'static str {
    match argument {
        "x-single-active-consumer" => "bool",
        _ if value.parse::<i32>().is_ok() => "signedint",
        _ if value.parse::<i64>().is_ok() => "long",
        _ => "longstr",
    }
}
