//! Kinds of exchanges: the words that declare them, the arguments that belong to a kind, and back. Routes nothing.

use crate::definition::{Arguments, HeaderValue};
use crate::error::BrokerError;
use crate::name::Name;

const CONSISTENT_HASH: &str = "x-consistent-hash";
const DELAYED: &str = "x-delayed-message";
const HASH_HEADER: &str = "hash-header";
const HASH_PROPERTY: &str = "hash-property";
const DELAYED_TYPE: &str = "x-delayed-type";

/// How an exchange routes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExchangeKind {
    /// Key equals binding key.
    Direct,
    /// Every binding.
    Fanout,
    /// Binding key is a pattern: `*` one word, `#` any number, words separated by dots.
    Topic,
    /// Binding arguments against message headers, `x-match` = all (default), any, all-with-x, any-with-x.
    Headers,
    /// One binding a message, chosen by a hash of the message; the binding key is its weight, 1 to 1,000,000. What has the
    /// same hash goes to the same binding, whatever the order in which bindings were made; when one goes, only
    /// what it had goes elsewhere.
    ConsistentHash(HashOn),
    /// Holds a message with a delay, and routes it as the inner kind does when its time has come. A message without delay is
    /// routed at once.
    Delayed(Box<ExchangeKind>),
}

/// What a consistent-hash exchange takes the hash of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum HashOn {
    /// The first routing key.
    #[default]
    Key,
    /// The header of that name; messages without it go together.
    Header(Name),
    /// A property; messages without it go together.
    Property(HashProperty),
}

/// A property that a hash can be taken of. What the frame says, not what a protocol makes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HashProperty {
    /// The message's own id.
    MessageId,
    /// What links a reply to its request.
    CorrelationId,
    /// The publisher's time.
    Timestamp,
}

impl HashProperty {
    const ALL: [(Self, &'static str); 3] = [
        (Self::MessageId, "message_id"),
        (Self::CorrelationId, "correlation_id"),
        (Self::Timestamp, "timestamp"),
    ];

    /// The argument's word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(property, _)| *property == self).map_or("", |(_, word)| word)
    }

    /// Reads that word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(property, _)| *property)
    }
}

impl ExchangeKind {
    /// The field's word for it.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
            Self::ConsistentHash(_) => CONSISTENT_HASH,
            Self::Delayed(_) => DELAYED,
        }
    }

    /// Reads the word of a kind that needs no arguments; a consistent hash is one of the routing key then.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "direct" => Self::Direct,
            "fanout" => Self::Fanout,
            "topic" => Self::Topic,
            "headers" => Self::Headers,
            CONSISTENT_HASH => Self::ConsistentHash(HashOn::Key),
            _ => return None,
        })
    }

    /// Reads a word with the arguments of the declaration: `hash-header` or `hash-property` (`message_id`,
    /// `correlation_id`, `timestamp`) of a consistent hash, `x-delayed-type` of a delayed one, which it must have. Arguments
    /// that do not belong to the kind are passed over.
    ///
    /// # Errors
    /// `Invalid` for an unknown word, and for arguments that cannot be used.
    pub fn declared(word: &str, arguments: &Arguments) -> Result<Self, BrokerError> {
        match word {
            CONSISTENT_HASH => Ok(Self::ConsistentHash(hash_on(arguments)?)),
            DELAYED => {
                let inner = text(arguments, DELAYED_TYPE)?
                    .ok_or_else(|| invalid(DELAYED_TYPE, "", "is missing: it names the kind to route by"))?;
                if inner == DELAYED {
                    return Err(invalid(DELAYED_TYPE, inner, "cannot be delayed itself"));
                }
                Self::declared(inner, arguments).map(|kind| Self::Delayed(Box::new(kind)))
            }
            word => Self::parse(word).ok_or_else(|| invalid("exchange type", word, "is unknown")),
        }
    }

    /// The arguments that `declared` reads the same kind of, the inner kind's with them.
    #[must_use]
    pub fn arguments(&self) -> Arguments {
        let argument =
            |name, value: &str| vec![(Name::from_static(name), HeaderValue::Text(value.to_owned().into()))];
        match self {
            Self::ConsistentHash(HashOn::Header(header)) => argument(HASH_HEADER, header),
            Self::ConsistentHash(HashOn::Property(property)) => argument(HASH_PROPERTY, property.as_str()),
            Self::Delayed(inner) => {
                let mut arguments = argument(DELAYED_TYPE, inner.as_str());
                arguments.extend(inner.arguments());
                arguments
            }
            Self::ConsistentHash(HashOn::Key) | Self::Direct | Self::Fanout | Self::Topic | Self::Headers => {
                Arguments::new()
            }
        }
    }

    /// The kind that it routes by: its own, or the one inside a delayed exchange.
    #[must_use]
    pub fn routes_as(&self) -> &Self {
        match self {
            Self::Delayed(inner) => inner.routes_as(),
            kind => kind,
        }
    }

    /// The first argument in which two kinds differ, with its value in each; None when only their words can.
    pub(crate) fn differs(&self, other: &Self) -> Option<(Name, Option<String>, Option<String>)> {
        let (mine, theirs) = (self.arguments(), other.arguments());
        let value = |list: &Arguments, name: &Name| {
            list.iter().find(|(known, _)| known == name).map(|(_, value)| match value {
                HeaderValue::Text(text) => text.to_string(),
                value => format!("{value:?}"),
            })
        };
        let names = mine.iter().chain(&theirs).map(|(name, _)| name);
        names.map(|name| (name.clone(), value(&mine, name), value(&theirs, name))).find(|(_, a, b)| a != b)
    }
}

fn hash_on(arguments: &Arguments) -> Result<HashOn, BrokerError> {
    match (text(arguments, HASH_HEADER)?, text(arguments, HASH_PROPERTY)?) {
        (None, None) => Ok(HashOn::Key),
        (Some(header), None) => Ok(HashOn::Header(Name::declared(header)?)),
        (None, Some(word)) => HashProperty::parse(word)
            .map(HashOn::Property)
            .ok_or_else(|| invalid(HASH_PROPERTY, word, "is none of message_id, correlation_id, timestamp")),
        (Some(_), Some(word)) => Err(invalid(HASH_PROPERTY, word, "cannot be used beside hash-header")),
    }
}

/// A text argument; the first of two of one name counts.
fn text<'a>(arguments: &'a Arguments, wanted: &'static str) -> Result<Option<&'a str>, BrokerError> {
    match arguments.iter().find(|(name, _)| name == wanted) {
        None => Ok(None),
        Some((_, HeaderValue::Text(text))) => Ok(Some(text)),
        Some((_, other)) => Err(invalid(wanted, &format!("{other:?}"), "is not text")),
    }
}

fn invalid(what: &'static str, value: &str, reason: &'static str) -> BrokerError {
    BrokerError::Invalid { what, value: value.chars().take(40).collect(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(list: &[(&'static str, &'static str)]) -> Arguments {
        list.iter()
            .map(|(name, value)| (Name::from_static(name), HeaderValue::Text((*value).into())))
            .collect()
    }

    #[test]
    fn every_kind_is_read_back_from_its_word_and_arguments() {
        let hash = |on| ExchangeKind::ConsistentHash(on);
        let kinds = [
            ExchangeKind::Direct,
            ExchangeKind::Fanout,
            ExchangeKind::Topic,
            ExchangeKind::Headers,
            hash(HashOn::Key),
            hash(HashOn::Header(Name::from_static("h"))),
            hash(HashOn::Property(HashProperty::MessageId)),
            hash(HashOn::Property(HashProperty::CorrelationId)),
            hash(HashOn::Property(HashProperty::Timestamp)),
            ExchangeKind::Delayed(Box::new(ExchangeKind::Topic)),
            ExchangeKind::Delayed(Box::new(hash(HashOn::Header(Name::from_static("h"))))),
        ];
        for kind in kinds {
            assert_eq!(ExchangeKind::declared(kind.as_str(), &kind.arguments()), Ok(kind.clone()));
            assert_eq!(kind.differs(&kind), None);
        }
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let refused = |word: &str, list: &[(&'static str, &'static str)]| {
            ExchangeKind::declared(word, &arguments(list)).expect_err("refused").to_string()
        };
        assert_eq!(refused("ring", &[]), "exchange type 'ring' is unknown");
        assert_eq!(
            refused("x-delayed-message", &[]),
            "x-delayed-type '' is missing: it names the kind to route by"
        );
        let delayed = [("x-delayed-type", "x-delayed-message")];
        assert_eq!(
            refused("x-delayed-message", &delayed),
            "x-delayed-type 'x-delayed-message' cannot be delayed itself"
        );
        assert_eq!(
            refused("x-delayed-message", &[("x-delayed-type", "ring")]),
            "exchange type 'ring' is unknown"
        );
        let odd = [("hash-property", "priority")];
        assert_eq!(
            refused("x-consistent-hash", &odd),
            "hash-property 'priority' is none of message_id, correlation_id, timestamp"
        );
        let both = [("hash-property", "timestamp"), ("hash-header", "h")];
        assert_eq!(
            refused("x-consistent-hash", &both),
            "hash-property 'timestamp' cannot be used beside hash-header"
        );
        let number = vec![(Name::from_static("hash-header"), HeaderValue::Int(1))];
        let said = ExchangeKind::declared("x-consistent-hash", &number).expect_err("refused").to_string();
        assert_eq!(said, "hash-header 'Int(1)' is not text");
        assert_eq!(
            ExchangeKind::declared("direct", &number),
            Ok(ExchangeKind::Direct),
            "it is not the kind's"
        );
    }
}
