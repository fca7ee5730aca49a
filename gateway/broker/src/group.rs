//! Consumer groups of a topic: what can be declared, how a member takes part, what is seen from outside.
//!
//! A group is a queue over a topic: its messages are the topic's offsets. It remembers durably up to where everything is
//! settled (the floor), what is settled above it, and how often an event failed. A subscription without a group is a
//! broadcast and is no part of this.

use std::fmt;
use std::sync::Arc;

use framegate_frame::Frame;

use crate::error::{BrokerError, Kind};
use crate::ids::{ConnectionId, ConsumerId, Offset};
use crate::message::{Envelope, SharedEvent};
use crate::name::Name;

/// A group to declare. Declared again with another `start` it is the same group; everything else must be equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSpec {
    /// The topic; made when it is missing.
    pub topic: Name,
    /// Its name, unique for the topic.
    pub name: Name,
    /// Where a new group begins.
    pub start: GroupStart,
    /// Which member gets an event.
    pub distribution: Distribution,
    /// What becomes of an event whose delivery failed.
    pub retry: Retry,
    /// Where events go that were rejected or failed too often; None: they are dropped and counted. What was dead-lettered
    /// into a dead-letter topic is never dead-lettered again from there: it is dropped and counted.
    pub dead_letter_topic: Option<Name>,
    /// Events older than so many ms are passed over and counted, as are those whose own time has passed. Looked at before
    /// each attempt.
    pub ttl_ms: Option<u64>,
    /// Lease of a delivery in ms, for members that name none; None: held until the connection ends.
    pub lease_ms: Option<u64>,
}

impl GroupSpec {
    /// A load-balanced group that begins with the next event, retries by default and drops what fails for good.
    #[must_use]
    pub fn new(topic: Name, name: Name) -> Self {
        Self {
            topic,
            name,
            start: GroupStart::Latest,
            distribution: Distribution::LoadBalance,
            retry: Retry::default(),
            dead_letter_topic: None,
            ttl_ms: None,
            lease_ms: None,
        }
    }

    /// Values that no group can have.
    pub(crate) fn check(&self) -> Result<(), BrokerError> {
        Name::declared(&self.name)?;
        let invalid =
            |what, value: &str, reason| BrokerError::Invalid { what, value: value.to_owned(), reason };
        if let Some(dead) = &self.dead_letter_topic {
            Name::topic(dead)?;
            if *dead == self.topic {
                return Err(invalid("dead-letter topic", dead, "is the group's own topic"));
            }
        }
        if self.retry.jitter_percent > 100 {
            return Err(invalid(
                "jitter",
                &self.retry.jitter_percent.to_string(),
                "is more than 100 percent",
            ));
        }
        if self.lease_ms == Some(0) {
            return Err(invalid("lease", "0", "must be at least 1 ms"));
        }
        Ok(())
    }

    /// Compares what is there with what is declared again; `start` only says where a new group begins.
    pub(crate) fn check_equal(&self, given: &Self) -> Result<(), BrokerError> {
        let text = |spec: &Self| {
            [
                ("distribution", format!("{:?}", spec.distribution)),
                ("retry", format!("{:?}", spec.retry)),
                ("dead-letter topic", format!("{:?}", spec.dead_letter_topic)),
                ("ttl_ms", format!("{:?}", spec.ttl_ms)),
                ("lease_ms", format!("{:?}", spec.lease_ms)),
            ]
        };
        for ((argument, current), (_, given)) in text(self).into_iter().zip(text(given)) {
            if current != given {
                let (name, argument) = (self.name.clone(), argument.to_owned());
                return Err(BrokerError::Inequivalent { kind: Kind::Group, name, argument, current, given });
            }
        }
        Ok(())
    }
}

/// A place in a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupStart {
    /// The first event that is kept.
    Earliest,
    /// Behind the newest event.
    #[default]
    Latest,
    /// This offset, or the nearest that there is.
    Offset(Offset),
    /// The first event at or after this time, in ms since the Unix epoch.
    Time(u64),
}

/// Which member of a group gets an event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Distribution {
    /// Whoever has credit, in turn.
    #[default]
    LoadBalance,
    /// All events of a key go to one member, chosen by rendezvous hashing: when a member leaves only its keys move. Order per
    /// key holds while nobody joins or leaves and nothing is retried. Events without the key go round.
    Sticky(KeySource),
    /// A member takes only what its filter matches; of several whose filters match, the one that holds the least. What
    /// matches no filter is passed over for the whole group. Without members nothing is passed over.
    Filtered,
}

/// What events are kept together by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// The routing key that the event was published with.
    RoutingKey,
    /// An attribute of the frame, `partitionkey` for example.
    Attribute(Name),
    /// A header, as its adaptor reads it.
    Header(Name),
}

/// What becomes of an event whose delivery failed. A lease that ran out and a connection that is gone are failures that
/// are retried at once; a requeue waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Deliveries at most, the first one included; 0: no bound.
    pub attempts_max: u32,
    /// Wait after the first failure in ms; it doubles with each further one.
    pub base_ms: u64,
    /// Longest wait in ms.
    pub max_ms: u64,
    /// Each wait is longer or shorter by up to so many percent, at most 100.
    pub jitter_percent: u8,
}

impl Default for Retry {
    /// Six attempts, 1 to 16 s apart, give or take 20 percent.
    fn default() -> Self {
        Self { attempts_max: 6, base_ms: 1000, max_ms: 16_000, jitter_percent: 20 }
    }
}

impl Retry {
    /// No bound, no wait.
    pub const AT_ONCE: Self = Self { attempts_max: 0, base_ms: 0, max_ms: 0, jitter_percent: 0 };

    /// Wait after a failure, the `attempt`-th (from 1), in ms. `chance` picks the jitter.
    pub(crate) fn wait_ms(&self, attempt: u32, chance: u64) -> u64 {
        let doubled = 1_u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX);
        let wait = u128::from(self.base_ms.saturating_mul(doubled).min(self.max_ms));
        let jitter = u128::from(self.jitter_percent.min(100));
        // 100 - jitter to 100 + jitter percent, in steps of 0.01
        let percent = 10_000 - jitter * 100 + u128::from(chance) % (jitter * 200 + 1);
        u64::try_from(wait * percent / 10_000).unwrap_or(u64::MAX)
    }
}

/// Says which events a member takes. It is asked on the shard's own thread, once for an event and member: it must be quick,
/// must not wait and must always say the same of the same event.
pub trait Filter: Send + Sync {
    /// Whether the member takes it.
    fn matches(&self, envelope: &Envelope, frame: &Frame) -> bool;
}

/// How a consumer takes part in a group.
#[derive(Clone, Default)]
pub struct Member {
    /// The group.
    pub group: Name,
    /// Shown to operators; sticky distribution goes by it, so that a member that comes back under its name gets its keys back.
    /// None: as the connection and the consumer's id say.
    pub name: Option<Name>,
    /// What it takes; None: everything. Only of effect in a filtered group.
    pub filter: Option<Arc<dyn Filter>>,
}

impl Member {
    /// Of that group, without name and filter.
    #[must_use]
    pub fn of(group: Name) -> Self {
        Self { group, name: None, filter: None }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("group", &self.group)
            .field("name", &self.name)
            .field("filter", &self.filter.is_some())
            .finish()
    }
}

/// A group, as seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupInfo {
    /// What was declared.
    pub spec: GroupSpec,
    /// Everything below this offset is settled.
    pub floor: Offset,
    /// Events above the floor that are settled.
    pub settled_above: u64,
    /// Separate runs of them: how many gaps there are below the newest settled event.
    pub gaps: u64,
    /// Events that are not settled.
    pub lag: u64,
    /// Of those, leased.
    pub unacked: u64,
    /// Of those, failed and waiting for their next attempt.
    pub waiting: u64,
    /// So many offsets above the floor are in use that nothing new is delivered before the floor moves.
    pub paused: bool,
    /// What became of events since the group exists, other than being acked.
    pub counts: GroupCounts,
    /// Its members, oldest first.
    pub members: Vec<MemberInfo>,
}

/// What became of events of a group other than being acked. All grow only and survive a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupCounts {
    /// Not kept any more by the topic before they were settled.
    pub lost: u64,
    /// Matched no member's filter.
    pub skipped: u64,
    /// Too old.
    pub expired: u64,
    /// Went to the dead-letter topic.
    pub dead_lettered: u64,
    /// Should have gone to a dead-letter topic, but the group has none.
    pub dropped: u64,
    /// Were dead letters before and failed again.
    pub dropped_nested: u64,
    /// Could not be read back.
    pub damaged: u64,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberInfo {
    /// Name of its group.
    pub group: Name,
    /// Its own name, if it gave one.
    pub name: Option<Name>,
    /// Its connection.
    pub connection: ConnectionId,
    /// Its consumer there.
    pub consumer: ConsumerId,
    /// Protocol and peer of the connection.
    pub label: String,
    /// User of the connection.
    pub user: Name,
    /// Since when, in ms since the Unix epoch.
    pub since_ms: u64,
    /// Unsettled deliveries.
    pub unacked: u64,
    /// Events chosen for it that wait for its credit.
    pub assigned: u64,
    /// How it keeps up.
    pub state: MemberState,
}

/// How a member keeps up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberState {
    /// It settles.
    Healthy,
    /// It has held all that it may hold for longer than `limits::SLOW_MEMBER_MS`.
    Slow,
}

/// Who hears of a topic's events right now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Presence {
    /// Subscriptions without a group whose patterns name or match the topic.
    pub subscribers: u32,
    /// Members of all groups.
    pub members: Vec<MemberInfo>,
}

/// Which kept events of a topic are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryQuery {
    /// The topic.
    pub topic: Name,
    /// The first one; `Latest`: the last `max` ones.
    pub from: GroupStart,
    /// Only those before this offset.
    pub before: Option<Offset>,
    /// Only those at or before this time, in ms since the Unix epoch.
    pub until_ms: Option<u64>,
    /// At most so many; at least 1, never more than `limits::HISTORY_EVENTS_MAX`.
    pub max: u32,
}

/// Kept events of a topic.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// In order of offset. Those that could not be read back are left out.
    pub events: Vec<SharedEvent>,
    /// Offset to go on with; None: there is nothing more that was asked for.
    pub next: Option<Offset>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_stay_within_the_jitter() {
        let retry = Retry::default();
        for (attempt, wait) in [(1, 1000), (2, 2000), (4, 8000), (5, 16_000), (6, 16_000), (200, 16_000)] {
            let seen: Vec<u64> = (0..10_000).map(|chance| retry.wait_ms(attempt, chance)).collect();
            assert_eq!(seen.iter().min(), Some(&(wait * 8 / 10)));
            assert!(seen.iter().max().is_some_and(|m| *m <= wait * 12 / 10 && *m > wait * 11 / 10));
        }
        assert_eq!(Retry::AT_ONCE.wait_ms(9, 77), 0);
    }

    #[test]
    fn a_group_that_dead_letters_into_its_own_topic_is_refused() {
        let name = Name::from_static;
        let spec = GroupSpec::new(name("t"), name("g"));
        assert_eq!(spec.check(), Ok(()));
        let own = GroupSpec { dead_letter_topic: Some(name("t")), ..spec.clone() };
        assert!(matches!(own.check(), Err(BrokerError::Invalid { .. })));
        let other = GroupSpec { start: GroupStart::Earliest, ..spec.clone() };
        assert_eq!(spec.check_equal(&other), Ok(()), "where it began does not matter afterwards");
        let leased = GroupSpec { lease_ms: Some(1), ..spec.clone() };
        assert!(matches!(spec.check_equal(&leased), Err(BrokerError::Inequivalent { .. })));
    }
}
