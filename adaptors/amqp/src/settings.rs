//! The section `amqp` of the configuration.

use std::time::Duration;

use framegate_adaptor_api::read_section;
use serde_json::Value;

use crate::codec::FRAME_MIN_BYTES;
use crate::limits::{
    ACK_TIMEOUT, ACK_TIMEOUT_MS_MAX, CHANNELS_MAX, FRAME_BYTES_MAX, HEARTBEAT_S, LOGIN_REFUSAL_DELAY,
};

/// What the operator can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Channels of a connection, 1 to 65535.
    pub(crate) channel_max: u16,
    /// Largest frame in bytes.
    pub(crate) frame_max: u32,
    /// Seconds between heartbeats that are proposed; 0: none.
    pub(crate) heartbeat_s: u16,
    /// How long a refused login waits for its answer.
    pub(crate) login_refusal_delay: Duration,
    /// A delivery that is not acked for so long closes its channel; zero: never.
    pub(crate) ack_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            channel_max: CHANNELS_MAX,
            frame_max: FRAME_BYTES_MAX,
            heartbeat_s: HEARTBEAT_S,
            login_refusal_delay: LOGIN_REFUSAL_DELAY,
            ack_timeout: ACK_TIMEOUT,
        }
    }
}

impl Settings {
    /// Reads the section; `Null` is an empty one.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub(crate) fn parse(section: &Value) -> Result<Self, String> {
        let mut settings = Self::default();
        let keys =
            ["channel_max", "frame_bytes_max", "heartbeat_s", "login_refusal_delay_ms", "ack_timeout_ms"];
        read_section("amqp", &keys, section, |setting| {
            match setting.key {
                "channel_max" => settings.channel_max = setting.number(1, 65_535)? as u16,
                "frame_bytes_max" => {
                    settings.frame_max = setting.number(FRAME_MIN_BYTES.into(), 16 * 1024 * 1024)? as u32;
                }
                "heartbeat_s" => settings.heartbeat_s = setting.number(0, 65_535)? as u16,
                "login_refusal_delay_ms" => {
                    settings.login_refusal_delay = Duration::from_millis(setting.number(0, 10_000)?);
                }
                _ => settings.ack_timeout = Duration::from_millis(setting.number(0, ACK_TIMEOUT_MS_MAX)?),
            }
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
        assert_eq!(Settings::parse(&json!({"heartbeat_s": 0})).unwrap().heartbeat_s, 0);
        for (section, word) in [
            (json!({"heartbeat": 1}), "heartbeat: unknown key"),
            (json!({"frame_bytes_max": 100}), "frame_bytes_max = 100: must be 4096"),
            (json!([]), "amqp = []"),
        ] {
            assert!(Settings::parse(&section).unwrap_err().starts_with(word), "{section}");
        }
    }
}
