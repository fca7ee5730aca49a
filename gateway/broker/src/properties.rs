//! Properties of a queue: order, times to live, limits, dead letters. Plain data; the fold acts on it.

use crate::definition::QueueSpec;
use crate::error::BrokerError;
use crate::name::Name;

/// Which messages of a queue go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PriorityMode {
    /// The oldest, whatever their priority says.
    #[default]
    None,
    /// Those of the highest priority, oldest first within one. 0 to n (n is 1 to 255): a message above counts as n, one
    /// below 0 or without a priority as 0.
    Max(u8),
    /// The same over all of i32; a message without a priority counts as 0.
    Full,
}

impl PriorityMode {
    /// The priority that a message has in such a queue.
    #[must_use]
    pub fn rank(self, priority: Option<i32>) -> i32 {
        match self {
            Self::None => 0,
            Self::Max(max) => priority.unwrap_or(0).clamp(0, max.into()),
            Self::Full => priority.unwrap_or(0),
        }
    }
}

/// What a queue does when a message comes in and its length or byte limit is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// The head leaves, dead-lettered as `DeathReason::MaxLen`.
    #[default]
    DropHead,
    /// The new message is refused: `BrokerError::QueueFull`. Other queues that it is routed to get it all the same.
    RejectPublish,
    /// The same, and the refused message is dead-lettered as `DeathReason::MaxLen`.
    RejectPublishDeadLetter,
}

impl Overflow {
    /// The property's word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DropHead => "drop-head",
            Self::RejectPublish => "reject-publish",
            Self::RejectPublishDeadLetter => "reject-publish-dlx",
        }
    }

    /// Reads that word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::DropHead, Self::RejectPublish, Self::RejectPublishDeadLetter]
            .into_iter()
            .find(|o| o.as_str() == word)
    }
}

/// Properties of a queue beyond durable, exclusive and auto-delete. `Default` is a plain FIFO.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueProperties {
    /// Deliver only what is durable.
    pub deliver_durable: bool,
    /// Where rejected, expired and overflowing messages go.
    pub dead_letter_exchange: Option<Name>,
    /// Key they go with; None: their own.
    pub dead_letter_key: Option<Name>,
    /// Which messages go first.
    pub priority: PriorityMode,
    /// Time to live in ms of each message that has no shorter one; 0: expires unless it is delivered at once.
    pub message_ttl_ms: Option<u64>,
    /// The queue is deleted when it was not used for so many ms (at least 1). Consumers, pulls and declarations are uses;
    /// messages that come in are not.
    pub expires_ms: Option<u64>,
    /// Ready messages at most.
    pub length_max: Option<u64>,
    /// Frame bytes of ready messages at most.
    pub bytes_max: Option<u64>,
    /// What happens beyond these two.
    pub overflow: Overflow,
    /// One consumer gets everything; when it ends, the next one in (priority, age).
    pub single_active: bool,
    /// Failed deliveries of a message that are borne; after one more it is dead-lettered as
    /// `DeathReason::DeliveryLimit`.
    pub delivery_limit: Option<u32>,
    /// Arguments as the declaring protocol gave them, as (name, printed value): compared on redeclare and
    /// shown, never acted on by the broker.
    pub arguments: Vec<(Name, String)>,
}

/// A property that two declarations of one queue do not agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) argument: String,
    pub(crate) current: String,
    pub(crate) given: String,
}

impl QueueProperties {
    /// Values that no queue can have.
    ///
    /// # Errors
    /// `Invalid` naming the property.
    pub(crate) fn check(&self) -> Result<(), BrokerError> {
        let invalid = |what, reason| Err(BrokerError::Invalid { what, value: "0".to_owned(), reason });
        if self.expires_ms == Some(0) {
            return invalid("x-expires", "must be at least 1 ms");
        }
        if self.priority == PriorityMode::Max(0) {
            return invalid("x-max-priority", "must be at least 1");
        }
        Ok(())
    }

    fn max_priority(&self) -> Option<u8> {
        match self.priority {
            PriorityMode::Max(max) => Some(max),
            // `Full` has no argument that says it
            PriorityMode::None | PriorityMode::Full => None,
        }
    }

    fn arguments_equal(&self, given: &Self) -> Result<(), Difference> {
        let find = |list: &[(Name, String)], name: &Name| {
            list.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone())
        };
        for (name, _) in self.arguments.iter().chain(&given.arguments) {
            compare(name, find(&self.arguments, name), find(&given.arguments, name))?;
        }
        Ok(())
    }
}

/// Compares what is there with what is declared again; the first property that differs, in a fixed order. "none" stands
/// for a property that one side does not give.
pub(crate) fn compare_specs(current: &QueueSpec, given: &QueueSpec) -> Result<(), Difference> {
    compare("durable", Some(current.durable), Some(given.durable))?;
    compare("exclusive", Some(current.exclusive), Some(given.exclusive))?;
    compare("auto_delete", Some(current.auto_delete), Some(given.auto_delete))?;
    let (now, given) = (&current.properties, &given.properties);
    // a queue made for jobs equals one without arguments: nobody can say what it is
    if now.priority != PriorityMode::Full {
        compare("deliver", Some(now.deliver_durable), Some(given.deliver_durable))?;
    }
    compare(
        "x-dead-letter-exchange",
        now.dead_letter_exchange.as_ref(),
        given.dead_letter_exchange.as_ref(),
    )?;
    compare("x-dead-letter-routing-key", now.dead_letter_key.as_ref(), given.dead_letter_key.as_ref())?;
    compare("x-max-priority", now.max_priority(), given.max_priority())?;
    compare("x-message-ttl", now.message_ttl_ms, given.message_ttl_ms)?;
    compare("x-expires", now.expires_ms, given.expires_ms)?;
    compare("x-max-length", now.length_max, given.length_max)?;
    compare("x-max-length-bytes", now.bytes_max, given.bytes_max)?;
    compare("x-overflow", Some(now.overflow.as_str()), Some(given.overflow.as_str()))?;
    compare("x-single-active-consumer", Some(now.single_active), Some(given.single_active))?;
    compare("x-delivery-limit", now.delivery_limit, given.delivery_limit)?;
    now.arguments_equal(given)
}

fn compare<T: PartialEq + std::fmt::Display>(
    argument: &str,
    current: Option<T>,
    given: Option<T>,
) -> Result<(), Difference> {
    if current == given {
        return Ok(());
    }
    let text = |value: Option<T>| value.map_or("none".to_owned(), |v| v.to_string());
    Err(Difference { argument: argument.to_owned(), current: text(current), given: text(given) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_counts_as_the_nearest_that_the_queue_has() {
        let max = PriorityMode::Max(9);
        assert_eq!([None, Some(-3), Some(4), Some(40)].map(|p| max.rank(p)), [0, 0, 4, 9]);
        assert_eq!([None, Some(i32::MIN), Some(5)].map(|p| PriorityMode::Full.rank(p)), [0, i32::MIN, 5]);
        assert_eq!(PriorityMode::None.rank(Some(7)), 0);
    }

    #[test]
    fn queue_made_for_jobs_equals_one_without_arguments() {
        let plain = QueueSpec { durable: true, ..QueueSpec::default() };
        let mut jobs = plain.clone();
        (jobs.properties.priority, jobs.properties.deliver_durable) = (PriorityMode::Full, true);
        assert_eq!(compare_specs(&jobs, &plain), Ok(()));
        jobs.properties.length_max = Some(5);
        assert!(compare_specs(&jobs, &plain).is_err());
    }

    #[test]
    fn each_property_that_differs_is_named_with_both_values() {
        let base = QueueSpec { durable: true, ..QueueSpec::default() };
        type Change = fn(&mut QueueSpec);
        let changes: [(&str, &str, &str, Change); 11] = [
            ("durable", "true", "false", |s| s.durable = false),
            ("exclusive", "false", "true", |s| s.exclusive = true),
            ("x-max-priority", "none", "9", |s| s.properties.priority = PriorityMode::Max(9)),
            ("x-message-ttl", "none", "1", |s| s.properties.message_ttl_ms = Some(1)),
            ("x-expires", "none", "2", |s| s.properties.expires_ms = Some(2)),
            ("x-max-length", "none", "3", |s| s.properties.length_max = Some(3)),
            ("x-max-length-bytes", "none", "4", |s| s.properties.bytes_max = Some(4)),
            ("x-overflow", "drop-head", "reject-publish", |s| {
                s.properties.overflow = Overflow::RejectPublish;
            }),
            ("x-single-active-consumer", "false", "true", |s| s.properties.single_active = true),
            ("x-delivery-limit", "none", "5", |s| s.properties.delivery_limit = Some(5)),
            ("x-other", "none", "six", |s| {
                s.properties.arguments = vec![(Name::from_static("x-other"), "six".to_owned())];
            }),
        ];
        for (argument, current, given, change) in changes {
            let mut other = base.clone();
            change(&mut other);
            let difference = compare_specs(&base, &other).expect_err(argument);
            assert_eq!(
                (&*difference.argument, &*difference.current, &*difference.given),
                (argument, current, given)
            );
            assert_eq!(compare_specs(&other, &other), Ok(()));
        }
        let mut full = base.clone();
        full.properties.priority = PriorityMode::Full;
        assert_eq!(
            compare_specs(&full, &base),
            Ok(()),
            "no declaration can say it, so none is refused for it"
        );
    }

    #[test]
    fn a_queue_that_expires_at_once_and_a_priority_of_none_are_refused() {
        let expires = QueueProperties { expires_ms: Some(0), ..QueueProperties::default() };
        let priority = QueueProperties { priority: PriorityMode::Max(0), ..QueueProperties::default() };
        for properties in [expires, priority] {
            assert!(matches!(properties.check(), Err(BrokerError::Invalid { .. })));
        }
        assert_eq!(QueueProperties::default().check(), Ok(()));
    }

    #[test]
    fn words_of_overflow_are_read_back() {
        for overflow in [Overflow::DropHead, Overflow::RejectPublish, Overflow::RejectPublishDeadLetter] {
            assert_eq!(Overflow::parse(overflow.as_str()), Some(overflow));
        }
        assert_eq!(Overflow::parse("drop"), None);
    }
}
