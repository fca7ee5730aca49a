//! Consumer groups of topics as HTTP and WebSocket clients take part in them: named by the client, made when they are missing.

use framegate_adaptor_api::Client;
use framegate_broker::{BrokerError, Define, GroupSpec, GroupStart, Name, Offset, Request};

use crate::event::to_unix_ms;
use crate::limits::ACK_WAIT;

/// The group as a client declares it: whoever is free gets an event.
pub(crate) fn spec(topic: Name, name: Name, start: GroupStart) -> GroupSpec {
    let lease_ms = u64::try_from(ACK_WAIT.as_millis()).ok();
    GroupSpec { start, lease_ms, ..GroupSpec::new(topic, name) }
}

/// A place in a topic as a client says it: `latest`, `earliest`, `offset:N` or a time.
pub(crate) fn start_of(text: &str) -> Option<GroupStart> {
    Some(match (text, text.strip_prefix("offset:")) {
        ("latest", _) => GroupStart::Latest,
        ("earliest", _) => GroupStart::Earliest,
        (_, Some(offset)) => GroupStart::Offset(Offset(offset.parse().ok()?)),
        (time, None) => GroupStart::Time(u64::try_from(to_unix_ms(time)?).unwrap_or(0)),
    })
}

/// Whether a refusal of the definition leaves a group that can be joined: one with rules of its own, or one that others may make.
pub(crate) fn may_exist(refusal: &BrokerError) -> bool {
    matches!(refusal, BrokerError::Inequivalent { .. } | BrokerError::Forbidden { .. })
}

/// Makes the group when it is missing.
///
/// # Errors
/// What the broker answers, unless the group may be there all the same.
pub(crate) async fn ensure(client: &Client, spec: GroupSpec) -> Result<(), BrokerError> {
    match client.call(Request::Define(Define::Group(spec))).await {
        Err(refusal) if !may_exist(&refusal) => Err(refusal),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_a_word_an_offset_or_a_time() {
        assert_eq!(start_of("earliest"), Some(GroupStart::Earliest));
        assert_eq!(start_of("latest"), Some(GroupStart::Latest));
        assert_eq!(start_of("offset:7"), Some(GroupStart::Offset(Offset(7))));
        assert_eq!(start_of("1970-01-01T00:00:01Z"), Some(GroupStart::Time(1000)));
        for wrong in ["", "offset:", "offset:x", "last", "now"] {
            assert_eq!(start_of(wrong), None, "{wrong}");
        }
    }
}
