//! The section `eventmesh` of the configuration.

use std::time::Duration;

use serde_json::Value;

use crate::format::Format;
use crate::limits::{IDLE_CLOSE_DEFAULT, WINDOW_DEFAULT, WINDOW_MAX};

/// Longest idle time that can be set: one day.
const IDLE_CLOSE_MS_MAX: u64 = 24 * 3600 * 1000;

/// What the operator can set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Silence after which a connection is closed; zero: never.
    pub(crate) idle_close: Duration,
    /// Unacked pushes of a client that names no window.
    pub(crate) window: u32,
    /// Body format of pushes to clients that have published nothing; None: by the message's origin.
    pub(crate) push_body: Option<Format>,
    /// Answer to RECOMMEND_REQUEST, `host:port`; None: there is no recommendation.
    pub(crate) advertise: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { idle_close: IDLE_CLOSE_DEFAULT, window: WINDOW_DEFAULT, push_body: None, advertise: None }
    }
}

impl Settings {
    /// Reads the section; `Null` is an empty one.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub(crate) fn parse(section: &Value) -> Result<Self, String> {
        let mut settings = Self::default();
        let members = match section {
            Value::Null => return Ok(settings),
            Value::Object(members) => members,
            other => return Err(format!("eventmesh = {other}: must be a section with keys")),
        };
        for (key, value) in members {
            match key.as_str() {
                "idle_close_ms" => {
                    let ms = value.as_u64().filter(|ms| *ms <= IDLE_CLOSE_MS_MAX).ok_or_else(|| {
                        format!("idle_close_ms = {value}: must be 0 (never) to {IDLE_CLOSE_MS_MAX}")
                    })?;
                    settings.idle_close = Duration::from_millis(ms);
                }
                "window" => {
                    let window = value.as_u64().and_then(|window| u32::try_from(window).ok());
                    settings.window = window
                        .filter(|window| (1..=WINDOW_MAX).contains(window))
                        .ok_or_else(|| format!("window = {value}: must be 1 to {WINDOW_MAX}"))?;
                }
                "push_body" => {
                    settings.push_body = Some(match value.as_str() {
                        Some("eventmeshmessage") => Format::Mesh,
                        Some("cloudevents") => Format::CloudEvents,
                        _ => {
                            return Err(format!(
                                "push_body = {value}: must be \"eventmeshmessage\" or \"cloudevents\""
                            ));
                        }
                    });
                }
                "advertise" => {
                    let address = value
                        .as_str()
                        .filter(|text| is_address(text))
                        .ok_or_else(|| format!("advertise = {value}: must be \"host:port\""))?;
                    settings.advertise = Some(address.to_owned());
                }
                _ => {
                    return Err(format!(
                        "{key}: unknown key; eventmesh has idle_close_ms, window, push_body, advertise"
                    ));
                }
            }
        }
        Ok(settings)
    }
}

fn is_address(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_keys_and_bad_values_are_named() {
        assert_eq!(Settings::parse(&Value::Null), Ok(Settings::default()));
        let all = json!({"idle_close_ms": 0, "window": 7, "push_body": "cloudevents", "advertise": "h:1"});
        let all = Settings::parse(&all).unwrap();
        assert_eq!((all.idle_close, all.window), (Duration::ZERO, 7));
        assert_eq!((all.push_body, all.advertise.as_deref()), (Some(Format::CloudEvents), Some("h:1")));
        for (section, word) in [
            (json!({"idle": 1}), "idle: unknown key"),
            (json!({"window": 0}), "window = 0"),
            (json!({"idle_close_ms": -1}), "idle_close_ms = -1"),
            (json!({"push_body": "xml"}), "push_body = \"xml\""),
            (json!({"advertise": "here"}), "advertise = \"here\""),
            (json!([]), "eventmesh = []"),
        ] {
            assert!(Settings::parse(&section).unwrap_err().starts_with(word), "{section}");
        }
    }
}
