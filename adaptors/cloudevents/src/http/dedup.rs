//! Identity of a publish: SHA-256 over length-prefixed parts, cut to 16 bytes for the key and 8 for the content.
//! The core keeps the window; nothing is remembered here.

use framegate_broker::Dedup;
use framegate_frame::names::{ID, SOURCE};
use sha2::{Digest, Sha256};

use crate::event::Event;

/// Attributes that may differ between two sends of one event.
const PER_ATTEMPT: [&str; 2] = ["traceparent", "tracestate"];

/// The key of an event in a topic: same `source` and `id` is the same event.
pub(crate) fn of_event(vhost: &str, topic: &str, event: &Event) -> Dedup {
    let (source, id) = (event.get(SOURCE).unwrap_or_default(), event.get(ID).unwrap_or_default());
    Dedup { key: key(&[vhost, topic, source, id]), content: content(event, true) }
}

/// The key of a plain body that carries an `Idempotency-Key`. What is generated for it does not count as content.
pub(crate) fn of_plain(vhost: &str, topic: &str, idempotency_key: &str, event: &Event) -> Dedup {
    Dedup { key: key(&["idempotency-key", vhost, topic, idempotency_key]), content: content(event, false) }
}

fn key(parts: &[&str]) -> [u8; 16] {
    let mut hash = Sha256::new();
    for part in parts {
        add(&mut hash, part.as_bytes());
    }
    first(&hash.finalize())
}

fn content(event: &Event, with_id: bool) -> u64 {
    let mut pairs: Vec<(&str, &str)> = event
        .attributes
        .iter()
        .map(|attribute| (attribute.name.as_str(), attribute.value.as_str()))
        .filter(|(name, _)| !PER_ATTEMPT.contains(name) && (with_id || *name != ID))
        .collect();
    pairs.sort_unstable();
    let mut hash = Sha256::new();
    for (name, value) in pairs {
        add(&mut hash, name.as_bytes());
        add(&mut hash, value.as_bytes());
    }
    add(&mut hash, event.data.bytes());
    u64::from_be_bytes(first(&hash.finalize()))
}

fn add(hash: &mut Sha256, part: &[u8]) {
    hash.update((part.len() as u64).to_be_bytes());
    hash.update(part);
}

fn first<const N: usize>(hash: &[u8]) -> [u8; N] {
    hash.first_chunk().copied().expect("a SHA-256 hash has 32 bytes")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::event::read_event;

    fn event(more: &str) -> Event {
        let json = format!(r#"{{"specversion":"1.0","id":"1","source":"/a","type":"t"{more}}}"#);
        read_event(&Bytes::from(json)).unwrap()
    }

    #[test]
    fn source_id_and_topic_make_the_key_and_everything_else_the_content() {
        let one = of_event("/", "t", &event(""));
        assert_eq!(one, of_event("/", "t", &event(r#","traceparent":"00-1""#)));
        let other = of_event("/", "t", &event(r#","data":1"#));
        assert_eq!(one.key, other.key);
        assert_ne!(one.content, other.content);
        assert_ne!(one.key, of_event("/", "u", &event("")).key);
        assert_ne!(one.key, of_event("v", "t", &event("")).key);
    }

    #[test]
    fn parts_cannot_be_shifted_into_each_other() {
        assert_ne!(key(&["a", "bc"]), key(&["ab", "c"]));
    }
}
