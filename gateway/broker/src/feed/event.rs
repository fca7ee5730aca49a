//! Events of a feed: shared by all who read them, encoded once per output format.

use std::sync::Mutex;

use bytes::Bytes;
use framegate_frame::Frame;
use smallvec::SmallVec;

use super::cursor::Cursor;
use crate::ids::{Offset, TopicId};
use crate::message::{Envelope, Origin, SharedEvent};
use crate::name::Name;

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

    /// The event in one output format, encoded by whoever asks first; others who ask meanwhile wait for it. `format`
    /// names the format and every option that changes the bytes.
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
    Event(SharedEvent),
    /// Events that were asked for are gone. Comes before the first event after the gap.
    Lost {
        /// The cursor asked for, as given; None when a live subscriber fell below retention.
        requested: Option<String>,
        /// Where the feed goes on.
        resumed_from: Cursor,
    },
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use crate::feed::tests::event;

    use super::*;

    #[test]
    fn each_format_is_encoded_once_whoever_asks() {
        let shared = Arc::new(event(7, true));
        let (encoded, start) = (AtomicU32::new(0), std::sync::Barrier::new(16));
        std::thread::scope(|scope| {
            for thread in 0..16 {
                let format = if thread % 2 == 0 { "sse" } else { "ws" };
                let (shared, encoded, start) = (&shared, &encoded, &start);
                scope.spawn(move || {
                    start.wait();
                    for _ in 0..100 {
                        let bytes = shared.encoded(format, |event| {
                            encoded.fetch_add(1, Ordering::Relaxed);
                            Bytes::from(format!("{format} {}", event.cursor))
                        });
                        assert!(bytes.starts_with(format.as_bytes()));
                    }
                });
            }
        });
        assert_eq!(encoded.load(Ordering::Relaxed), 2);
    }
}
