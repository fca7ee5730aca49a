//! The section `eventmesh` of the configuration.

use std::time::Duration;

use framegate_adaptor_api::read_section;
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
        let keys = ["idle_close_ms", "window", "push_body", "advertise"];
        read_section("eventmesh", &keys, section, |setting| {
            match setting.key {
                "idle_close_ms" => {
                    settings.idle_close = Duration::from_millis(setting.number(0, IDLE_CLOSE_MS_MAX)?);
                }
                "window" => settings.window = setting.number(1, WINDOW_MAX.into())? as u32,
                "push_body" => {
                    let formats = [("eventmeshmessage", Format::Mesh), ("cloudevents", Format::CloudEvents)];
                    let format = |text: &str| formats.iter().find(|f| f.0 == text).map(|f| f.1);
                    let allowed = "\"eventmeshmessage\" or \"cloudevents\"";
                    settings.push_body = format(setting.text(allowed, |text| format(text).is_some())?);
                }
                _ => settings.advertise = Some(setting.text("\"host:port\"", is_address)?.to_owned()),
            }
            Ok(())
        })?;
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
