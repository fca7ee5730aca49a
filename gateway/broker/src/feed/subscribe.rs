//! What a client asks of a feed: which topics, from where.

use crate::ids::Offset;
use crate::name::Name;

/// Where a subscription starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// With what is published from now on.
    Latest,
    /// With the oldest event that is kept.
    Earliest,
    /// After the event with this cursor, given as text: a cursor that cannot be used (malformed, other generation,
    /// below retention) starts at the earliest with a loss notice.
    After(String),
    /// With the first event at or after this time, in ms since the Unix epoch.
    Time(u64),
    /// With the first event that is not older than this, in ms.
    Ago(u64),
    /// With the last so many events.
    Last(u32),
    /// One topic, at this offset.
    Offset(Offset),
}

/// What to subscribe to.
#[derive(Debug, Clone)]
pub struct Subscribe {
    /// Topic names and patterns (`*`, `#`); exact names are created when missing. 1 to 100.
    pub patterns: Vec<Name>,
    /// Where to start.
    pub from: From,
}
