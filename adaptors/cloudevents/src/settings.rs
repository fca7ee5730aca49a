//! The section `protocols.cloudevents` of the configuration: one struct with defaults, checked at start. Never read
//! again while a request runs.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::webhook::{Block, Guard, Sink};

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
    /// Web hooks that are sent from here.
    pub(crate) webhooks: WebhookSettings,
}

/// The section `protocols.cloudevents.webhooks`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WebhookSettings {
    /// Who we say that we are, a DNS name (`WebHook-Request-Origin`).
    pub(crate) origin: String,
    /// Receivers may be reached without TLS.
    pub(crate) plain_http: bool,
    /// Addresses and blocks that may be connected to although they are not public.
    pub(crate) allow_addresses: Vec<String>,
    /// Every receiver must consent by the OPTIONS handshake; false: a subscription may do without.
    pub(crate) handshake_required: bool,
    /// URL under which receivers reach this server, to consent later; empty: none.
    pub(crate) callback_url: String,
    /// Time for one attempt, from the name lookup to the answer's head, in ms.
    pub(crate) timeout_ms: u64,
    /// Subscriptions of the listener; 0: none can be made.
    pub(crate) subscriptions_max: usize,
    /// A subscription whose attempts have all failed for so long is disabled; 0: never.
    pub(crate) disable_after_s: u64,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            origin: "localhost".to_owned(),
            plain_http: false,
            allow_addresses: Vec::new(),
            handshake_required: true,
            callback_url: String::new(),
            timeout_ms: 15_000,
            subscriptions_max: 1000,
            disable_after_s: 5 * 86_400,
        }
    }
}

impl WebhookSettings {
    /// The guard, of settings that were checked.
    pub(crate) fn guard(&self) -> Guard {
        Guard::new(self.allow_addresses.iter().filter_map(|text| text.parse().ok()).collect())
    }

    fn check(&self) -> Result<(), String> {
        let range = |key: &str, value: u64, from: u64, to: u64| {
            let wrong = || Err(format!("webhooks.{key} = {value}: allowed are {from} to {to}"));
            if (from..=to).contains(&value) { Ok(()) } else { wrong() }
        };
        range("timeout_ms", self.timeout_ms, 100, 120_000)?;
        range("subscriptions_max", self.subscriptions_max as u64, 0, 10_000)?;
        range("disable_after_s", self.disable_after_s, 0, 365 * 86_400)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        if self.origin.is_empty() || !self.origin.bytes().all(is_name) {
            return Err(format!("webhooks.origin = {:?}: must be a DNS name", self.origin));
        }
        for text in &self.allow_addresses {
            text.parse::<Block>().map_err(|error| format!("webhooks.allow_addresses: {error}"))?;
        }
        if !self.callback_url.is_empty() {
            Sink::parse(&self.callback_url, self.plain_http)
                .map_err(|error| format!("webhooks.callback_url = {:?}: {error}", self.callback_url))?;
        }
        Ok(())
    }
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
            webhooks: WebhookSettings::default(),
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
        self.webhooks.check()?;
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
            (json!({"webhooks": {"timeout_ms": 1}}), "webhooks.timeout_ms = 1: allowed are 100 to 120000"),
            (json!({"webhooks": {"origin": "a/b"}}), "webhooks.origin"),
            (json!({"webhooks": {"allow_addresses": ["local"]}}), "webhooks.allow_addresses: \"local\""),
            (json!({"webhooks": {"callback_url": "http://a/"}}), "webhooks.callback_url"),
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
