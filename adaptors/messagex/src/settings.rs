//! The section `messagex` of the configuration. Never holds a default that the protocol page does not give.

use std::time::Duration;

use framegate_adaptor_api::read_section;
use serde_json::Value;

/// Longest idle time that can be set: one day.
const IDLE_CLOSE_MS_MAX: u64 = 24 * 3600 * 1000;

/// What the operator can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Settings {
    /// Silence after which a connection without consumers is closed; zero: never.
    pub(crate) idle_close: Duration,
}

impl Settings {
    /// Reads the section; `Null` is an empty one.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub(crate) fn parse(section: &Value) -> Result<Self, String> {
        let mut settings = Self::default();
        read_section("messagex", &["idle_close_ms"], section, |setting| {
            settings.idle_close = Duration::from_millis(setting.number(0, IDLE_CLOSE_MS_MAX)?);
            Ok(())
        })?;
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_keys_and_bad_values_are_named() {
        assert_eq!(Settings::parse(&Value::Null), Ok(Settings::default()));
        let idle = Settings::parse(&json!({"idle_close_ms": 300_000})).unwrap().idle_close;
        assert_eq!(idle, Duration::from_secs(300));
        for (section, word) in [
            (json!({"idle": 1}), "idle: unknown key"),
            (json!({"idle_close_ms": -1}), "idle_close_ms = -1"),
            (json!([]), "messagex = []"),
        ] {
            assert!(Settings::parse(&section).unwrap_err().starts_with(word), "{section}");
        }
    }
}
