//! Events that a WebSocket publishes: the same rules and keys as over HTTP.

use axum::http::HeaderMap;
use bytes::Bytes;
use framegate_broker::Publish;

use crate::event::read_event;
use crate::http::now_ms;
use crate::http::problem::Problem;
use crate::http::publish::{Head, ready, too_large};
use crate::settings::Settings;

/// Turns events into publishes.
pub(crate) struct Publisher {
    settings: Settings,
    headers: HeaderMap,
}

impl Publisher {
    /// A publisher under these settings and the gateway's largest message.
    pub(crate) fn new(mut settings: Settings, message_bytes_max: usize) -> Self {
        settings.event_bytes_max = settings.event_bytes_max.min(message_bytes_max);
        Self { settings, headers: HeaderMap::new() }
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Checks every event. Pointers start with the index unless it is a `single` event. Without `topic` each event's
    /// subject is its topic.
    ///
    /// # Errors
    /// The first event that is not accepted.
    pub(crate) fn read(
        &self,
        topic: Option<&str>,
        events: &[Bytes],
        single: bool,
        vhost: &str,
        user: &str,
    ) -> Result<Vec<Publish>, Problem> {
        if events.len() > self.settings.batch_events_max {
            return Err(too_large(events.len(), self.settings.batch_events_max));
        }
        let (settings, headers) = (&self.settings, &self.headers);
        let head = Head { headers, topic, fallback: None, vhost, user, now_ms: now_ms(), settings };
        let read = |(index, text): (usize, &Bytes)| {
            let prefix = if single { String::new() } else { format!("/{index}") };
            let event = read_event(text).map_err(|error| Problem::from(error.under(&prefix)))?;
            Ok(ready(&head, &event, &prefix)?.publish)
        };
        events.iter().enumerate().map(read).collect()
    }
}
