//! What a client subscribes to: the body of SUBSCRIBE_REQUEST and UNSUBSCRIBE_REQUEST (reference `eventmesh.md` 3.4).

use framegate_broker::Name;
use serde::Deserialize;

use crate::command::Command;
use crate::limits::SUBSCRIPTIONS_MAX;

/// Who gets a message of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One member of the group.
    Clustering,
    /// Every subscriber.
    Broadcasting,
}

/// One topic of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) topic: Name,
    pub(crate) mode: Mode,
    /// What its messages are pushed as.
    pub(crate) push: Command,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(rename = "topicList")]
    topics: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct Item {
    topic: Option<String>,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default, rename = "type")]
    kind: Option<String>,
}

/// Reads a body; empty when there is none.
///
/// # Errors
/// The value in question, in the words of the reply.
pub(crate) fn parse(body: &[u8]) -> Result<Vec<Wanted>, String> {
    let wire: Option<Wire> = match body {
        [] => None,
        body => serde_json::from_slice(body).map_err(|error| format!("topicList: {error}"))?,
    };
    let items = wire.and_then(|wire| wire.topics).unwrap_or_default();
    if items.len() > SUBSCRIPTIONS_MAX {
        return Err(format!("topicList: {} topics are more than {SUBSCRIPTIONS_MAX}", items.len()));
    }
    items.into_iter().map(wanted).collect()
}

fn wanted(item: Item) -> Result<Wanted, String> {
    let topic = item.topic.unwrap_or_default();
    let topic = Name::topic(&topic).map_err(|error| error.to_string())?;
    let mode = match item.mode.as_deref() {
        Some("CLUSTERING") | None => Mode::Clustering,
        Some("BROADCASTING") => Mode::Broadcasting,
        Some(other) => return Err(format!("mode '{other}' must be CLUSTERING or BROADCASTING")),
    };
    let push = match (mode, item.kind.as_deref()) {
        (_, Some(other)) if other != "ASYNC" && other != "SYNC" => {
            return Err(format!("type '{other}' must be ASYNC or SYNC"));
        }
        (Mode::Broadcasting, _) => Command::BroadcastMessageToClient,
        (Mode::Clustering, Some("SYNC")) => Command::RequestToClient,
        (Mode::Clustering, _) => Command::AsyncMessageToClient,
    };
    Ok(Wanted { topic, mode, push })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_types_say_how_messages_are_pushed() {
        let push = |mode: &str, kind: &str| {
            let json = format!(r#"{{"topicList":[{{"topic":"t","mode":"{mode}","type":"{kind}"}}]}}"#);
            parse(json.as_bytes()).map(|wanted| wanted[0].push)
        };
        assert_eq!(push("CLUSTERING", "ASYNC"), Ok(Command::AsyncMessageToClient));
        assert_eq!(push("CLUSTERING", "SYNC"), Ok(Command::RequestToClient));
        assert_eq!(push("BROADCASTING", "SYNC"), Ok(Command::BroadcastMessageToClient));
        assert!(push("UNRECOGNIZED", "ASYNC").unwrap_err().contains("'UNRECOGNIZED'"));
        assert!(push("CLUSTERING", "MAYBE").unwrap_err().contains("'MAYBE'"));
    }

    #[test]
    fn no_body_is_no_topic_and_a_bad_topic_is_named() {
        assert_eq!(parse(b""), Ok(vec![]));
        assert_eq!(parse(b"null"), Ok(vec![]));
        assert!(parse(br#"{"topicList":[{"topic":"a*"}]}"#).unwrap_err().contains("a*"));
        assert!(parse(br#"{"topicList":[{}]}"#).unwrap_err().contains("is empty"));
        assert!(parse(b"[").unwrap_err().starts_with("topicList"));
    }
}
