//! Feeds: live and replayed topic events, outside the fold. A subscriber reads shared events at its own
//! pace; it never acks and never holds anybody up.

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;

use bytes::Bytes;
use framegate_frame::Frame;
use framegate_storage::{Generation, Lsn};
use smallvec::SmallVec;

use crate::error::BrokerError;
use crate::ids::{Offset, TopicId};
use crate::message::{Envelope, Origin};
use crate::name::Name;

/// A place in the log to resume after. Text form: `generation.shard:position,...`, numbers in base 36.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The store it belongs to.
    pub generation: Generation,
    /// Position in shard 0.
    pub position: Lsn,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_base36(f, self.generation.0)?;
        f.write_str(".0:")?;
        write_base36(f, self.position.0)
    }
}

fn write_base36(f: &mut fmt::Formatter<'_>, mut value: u64) -> fmt::Result {
    let mut digits = [0_u8; 13];
    let mut at = digits.len();
    loop {
        at -= 1;
        let digit = (value % 36) as u8;
        digits[at] = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
        value /= 36;
        if value == 0 {
            break;
        }
    }
    f.write_str(std::str::from_utf8(&digits[at..]).map_err(|_| fmt::Error)?)
}

impl FromStr for Cursor {
    type Err = BrokerError;

    fn from_str(text: &str) -> Result<Self, BrokerError> {
        let parse = || {
            let (generation, rest) = text.split_once('.')?;
            let position = rest.strip_prefix("0:")?;
            let number =
                |digits: &str| u64::from_str_radix(digits, 36).ok().filter(|_| !digits.starts_with('+'));
            Some(Self { generation: Generation(number(generation)?), position: Lsn(number(position)?) })
        };
        parse().ok_or_else(|| BrokerError::Invalid {
            what: "cursor",
            value: text.chars().take(80).collect(),
            reason: "is not a cursor of this broker",
        })
    }
}

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
    /// With the last so many events.
    Last(u32),
    /// One topic, at this offset (AMQP streams).
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

/// An event of a feed. Shared by all its subscribers; never changes.
#[derive(Debug)]
pub struct FeedEvent {
    /// Topic it was published to (its routing key).
    pub topic: Name,
    /// Topic that keeps it, with the offset there; None: live only.
    pub kept: Option<(TopicId, Offset)>,
    /// Cursor to resume after it.
    pub cursor: Cursor,
    /// What the broker knows.
    pub envelope: Envelope,
    /// What the publisher said.
    pub frame: Frame,
    /// For attributes that egress adaptors must make.
    pub origin: Origin,
    encodings: Mutex<SmallVec<[(&'static str, Bytes); 2]>>,
}

impl FeedEvent {
    /// A new event without encodings.
    #[must_use]
    pub fn new(
        topic: Name,
        kept: Option<(TopicId, Offset)>,
        cursor: Cursor,
        envelope: Envelope,
        frame: Frame,
        origin: Origin,
    ) -> Self {
        Self { topic, kept, cursor, envelope, frame, origin, encodings: Mutex::default() }
    }

    /// The event in one output format, encoded by whoever asks first. `format` names the format and every
    /// option that changes the bytes.
    pub fn encoded(&self, format: &'static str, encode: impl FnOnce(&Self) -> Bytes) -> Bytes {
        let mut encodings = self.encodings.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, bytes)) = encodings.iter().find(|(name, _)| *name == format) {
            return bytes.clone();
        }
        let bytes = encode(self);
        encodings.push((format, bytes.clone()));
        bytes
    }
}

/// What a subscription yields.
#[derive(Debug, Clone)]
pub enum FeedItem {
    /// An event.
    Event(crate::message::SharedEvent),
    /// Events that were asked for are gone. Comes before the first event after the gap.
    Lost {
        /// The cursor asked for, as given; None when a live subscriber fell below retention.
        requested: Option<String>,
        /// Where the feed goes on.
        resumed_from: Cursor,
    },
}
