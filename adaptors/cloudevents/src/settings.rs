//! The section `protocols.cloudevents` of the configuration: one struct with defaults, checked at start. Never read
//! again while a request runs.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

const MIB: usize = 1 << 20;

/// What the operator can set.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// Largest event in bytes as it is on the wire.
    pub(crate) event_bytes_max: usize,
    /// Largest batch in bytes.
    pub(crate) batch_bytes_max: usize,
    /// Events of one batch.
    pub(crate) batch_events_max: usize,
    /// Decode `ce-` headers by the letter of the binding; else malformed escapes are taken as they are.
    pub(crate) strict_headers: bool,
    /// Origins whose pages may call; `*` is everybody, without credentials.
    pub(crate) cors_origins: Vec<String>,
    /// Web-hook senders that may be told to deliver here; `*` is everybody.
    pub(crate) webhook_origins: Vec<String>,
    /// Requests a minute that a web-hook sender is allowed; 0: no limit.
    pub(crate) webhook_rate: u64,
    /// Seconds between heartbeat comments of a stream; 0: none.
    pub(crate) heartbeat_s: u64,
    /// Reconnection time that a stream tells its client, in ms.
    pub(crate) retry_ms: u64,
    /// Longest life of a stream in seconds, shortened by up to a fifth at random; 0: no limit.
    pub(crate) lifetime_s: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            event_bytes_max: MIB,
            batch_bytes_max: 16 * MIB,
            batch_events_max: 1000,
            strict_headers: false,
            cors_origins: vec!["*".to_owned()],
            webhook_origins: vec!["*".to_owned()],
            webhook_rate: 0,
            heartbeat_s: 20,
            retry_ms: 3000,
            lifetime_s: 0,
        }
    }
}

impl Settings {
    /// Reads the section; `Null` is all defaults.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub(crate) fn read(section: &Value) -> Result<Self, String> {
        if section.is_null() {
            return Ok(Self::default());
        }
        let settings: Self = serde_json::from_value(section.clone()).map_err(|error| error.to_string())?;
        settings.check()?;
        Ok(settings)
    }

    /// The settings of a section that was checked at start.
    pub(crate) fn of(section: &Value) -> Self {
        Self::read(section).unwrap_or_default()
    }

    /// Time between heartbeats, if there are any.
    pub(crate) fn heartbeat(&self) -> Option<Duration> {
        (self.heartbeat_s > 0).then(|| Duration::from_secs(self.heartbeat_s))
    }

    fn check(&self) -> Result<(), String> {
        let range = |key: &str, value: u64, from: u64, to: u64| {
            if (from..=to).contains(&value) {
                return Ok(());
            }
            Err(format!("{key} = {value}: allowed are {from} to {to}"))
        };
        range("event_bytes_max", self.event_bytes_max as u64, 65_536, 128 * MIB as u64)?;
        range("batch_bytes_max", self.batch_bytes_max as u64, 65_536, 128 * MIB as u64)?;
        range("batch_events_max", self.batch_events_max as u64, 1, 10_000)?;
        range("heartbeat_s", self.heartbeat_s, 0, 3600)?;
        range("retry_ms", self.retry_ms, 100, 3_600_000)?;
        range("lifetime_s", self.lifetime_s, 0, 7 * 86_400)?;
        for origin in &self.cors_origins {
            check_origin(origin)?;
        }
        for origin in &self.webhook_origins {
            let named =
                origin == "*" || (!origin.is_empty() && origin.bytes().all(|byte| byte.is_ascii_graphic()));
            if !named {
                return Err(format!("webhook_origins = {origin:?}: allowed are '*' and host names"));
            }
        }
        Ok(())
    }
}

/// An origin is scheme, host and maybe a port, as browsers send it: no path, no slash at the end.
fn check_origin(origin: &str) -> Result<(), String> {
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    let plain = |host: &str| {
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_graphic() && !b"/?#@*\\".contains(&b))
    };
    if origin == "*" || host.is_some_and(plain) {
        return Ok(());
    }
    Err(format!(
        "cors_origins = {origin:?}: allowed are '*' and origins such as 'https://app.example.org', without a path"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_absent_section_is_all_defaults() {
        assert_eq!(Settings::read(&Value::Null), Ok(Settings::default()));
        assert_eq!(Settings::read(&json!({})), Ok(Settings::default()));
    }

    #[test]
    fn a_bad_value_is_refused_with_key_value_and_what_is_allowed() {
        let cases = [
            (json!({"heartbeat_s": 9999}), "heartbeat_s = 9999: allowed are 0 to 3600"),
            (json!({"cors_origins": ["https://a.example/"]}), "'https://app.example.org'"),
            (json!({"cors_origins": ["null"]}), "cors_origins = \"null\""),
            (json!({"webhook_origins": [""]}), "webhook_origins"),
            (json!({"event_bytes_max": 1}), "event_bytes_max = 1: allowed are 65536 to"),
            (json!({"heart": 1}), "unknown field `heart`"),
            (json!({"heartbeat_s": "x"}), "invalid type"),
        ];
        for (section, expected) in cases {
            let error = Settings::read(&section).unwrap_err();
            assert!(error.contains(expected), "{section}: {error}");
        }
        assert!(Settings::read(&json!({"cors_origins": ["http://localhost:3000", "*"]})).is_ok());
    }
}
