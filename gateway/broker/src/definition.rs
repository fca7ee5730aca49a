//! What can be declared: exchanges, queues, topics, bindings.

pub use crate::exchange::{ExchangeKind, HashOn, HashProperty};
use crate::name::Name;
pub use crate::properties::{Overflow, PriorityMode, QueueProperties};

/// A typed value of a binding argument or a message header.
#[derive(Debug, Clone, PartialEq)]
pub enum HeaderValue<'a> {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// Any integer type.
    Int(i64),
    /// Any floating-point type.
    Float(f64),
    /// Text.
    Text(std::borrow::Cow<'a, str>),
    /// Bytes.
    Bytes(std::borrow::Cow<'a, [u8]>),
    /// Seconds since the Unix epoch.
    Time(u64),
}

impl HeaderValue<'_> {
    /// A copy that owns its text and bytes.
    #[must_use]
    pub fn into_owned(self) -> HeaderValue<'static> {
        match self {
            Self::Null => HeaderValue::Null,
            Self::Bool(v) => HeaderValue::Bool(v),
            Self::Int(v) => HeaderValue::Int(v),
            Self::Float(v) => HeaderValue::Float(v),
            Self::Text(v) => HeaderValue::Text(v.into_owned().into()),
            Self::Bytes(v) => HeaderValue::Bytes(v.into_owned().into()),
            Self::Time(v) => HeaderValue::Time(v),
        }
    }
}

/// Named arguments of a binding, in the order given.
pub type Arguments = Vec<(Name, HeaderValue<'static>)>;

/// An exchange to declare.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangeSpec {
    /// Its name.
    pub name: Name,
    /// How it routes.
    pub kind: ExchangeKind,
    /// Survives a restart.
    pub durable: bool,
    /// Deleted when its last binding goes.
    pub auto_delete: bool,
    /// Clients may not publish to it.
    pub internal: bool,
    /// Where unroutable messages go.
    pub alternate: Option<Name>,
}

/// A queue to declare.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueueSpec {
    /// Its name; empty: the broker makes one from `prefix`.
    pub name: Name,
    /// Prefix of a name that the broker makes.
    pub prefix: &'static str,
    /// Survives a restart (unless exclusive).
    pub durable: bool,
    /// Used by the declaring connection only, gone with it.
    pub exclusive: bool,
    /// Deleted when its last consumer leaves.
    pub auto_delete: bool,
    /// Everything else.
    pub properties: QueueProperties,
}

/// A topic to declare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSpec {
    /// Its name.
    pub name: Name,
    /// Retention by age in ms; None: the default of `Limits`.
    pub age_ms_max: Option<u64>,
    /// Retention by frame bytes; None: the default of `Limits`.
    pub bytes_max: Option<u64>,
}

/// What a binding leads to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BindTarget {
    /// A queue.
    Queue(Name),
    /// Another exchange.
    Exchange(Name),
    /// A topic. Who names a queue that is not there, and a topic has the name, gets this.
    Topic(Name),
}

/// A binding to make or to remove.
#[derive(Debug, Clone, PartialEq)]
pub struct BindingSpec {
    /// Exchange it hangs on.
    pub exchange: Name,
    /// Where it leads.
    pub target: BindTarget,
    /// Key or pattern.
    pub key: Name,
    /// Arguments (headers exchange).
    pub arguments: Arguments,
}
