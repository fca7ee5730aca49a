//! What a client asks for when it makes or changes a web-hook subscription: JSON, read whole and checked. Knows no state.

use std::collections::BTreeMap;

use axum::http::{HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use framegate_broker::{GroupStart, Name};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::message::{HeaderEncoding, Mode};
use super::signature::Secret;
use super::sink::Sink;
use super::verdict::SCHEDULE_MS;
use crate::event::Place;
use crate::filter::Filters;
use crate::http::group::start_of;
use crate::http::problem::Problem;
use crate::limits::{
    HOOK_ATTEMPTS_MAX, HOOK_BATCH_MAX, HOOK_BATCH_WAIT_MAX, HOOK_HEADER_BYTES_MAX, HOOK_HEADERS_MAX,
    HOOK_INFLIGHT_DEFAULT, HOOK_INFLIGHT_MAX, HOOK_TYPES_MAX, HOOK_WAIT_MAX,
};
use crate::settings::WebhookSettings;

/// A subscription as its owner describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    /// Only events of this `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<String>,
    /// Only events of these types; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) types: Vec<String>,
    pub(crate) config: Config,
    /// Filters that must all be true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) filters: Vec<Value>,
    /// The receiver's URL.
    pub(crate) sink: String,
    /// `HTTP`.
    #[serde(default = "http")]
    pub(crate) protocol: String,
    #[serde(default, rename = "protocolsettings", skip_serializing_if = "ProtocolSettings::is_default")]
    pub(crate) protocol_settings: ProtocolSettings,
    #[serde(default, rename = "sinkcredential", skip_serializing_if = "Option::is_none")]
    pub(crate) credential: Option<Credential>,
    #[serde(default)]
    pub(crate) mode: Mode,
    /// Events of one batch at most.
    #[serde(default = "batch", rename = "maxBatch")]
    pub(crate) batch_max: u32,
    /// How long a batch waits to be full.
    #[serde(default, rename = "maxWaitMs")]
    pub(crate) batch_wait_ms: u64,
    /// Requests under way at once.
    #[serde(default = "inflight", rename = "maxInflight")]
    pub(crate) inflight_max: u32,
    #[serde(default)]
    pub(crate) retry: Retry,
    #[serde(default, rename = "deadLetterTopic", skip_serializing_if = "Option::is_none")]
    pub(crate) dead_letter_topic: Option<String>,
    /// Signs; made when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
    /// Requests a minute that the receiver is asked to consent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<u32>,
    /// Whether the receiver is asked for its consent. Only where the operator leaves the choice.
    #[serde(default = "yes")]
    pub(crate) handshake: bool,
}

/// Which topic, and from where on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) topic: String,
    /// `latest`, `earliest` or a time.
    #[serde(default = "latest")]
    pub(crate) from: String,
}

/// How requests look.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProtocolSettings {
    pub(crate) headers: BTreeMap<String, String>,
    /// `POST`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) method: Option<String>,
    #[serde(rename = "headerEncoding")]
    pub(crate) header_encoding: HeaderEncoding,
}

impl ProtocolSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What the receiver wants to see.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "credentialtype", deny_unknown_fields)]
pub(crate) enum Credential {
    /// Basic authentication.
    #[serde(rename = "PLAIN")]
    Plain { identifier: String, secret: String },
    /// A bearer token.
    #[serde(rename = "ACCESSTOKEN")]
    AccessToken { accesstoken: String },
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(credential)")
    }
}

/// When what failed is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Retry {
    /// Attempts at most, the first one included.
    #[serde(rename = "maxAttempts")]
    pub(crate) attempts_max: u32,
    /// Waits between them, in ms; the last one repeats.
    #[serde(rename = "scheduleMs")]
    pub(crate) schedule_ms: Vec<u64>,
    /// No attempt for events that are older.
    #[serde(rename = "maxAgeMs", skip_serializing_if = "Option::is_none")]
    pub(crate) age_ms_max: Option<u64>,
    /// What becomes of events that the receiver calls bad (most statuses from 300 to 499).
    #[serde(rename = "clientErrors")]
    pub(crate) client_errors: ClientErrors,
}

/// See `Retry::client_errors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ClientErrors {
    /// They are dead letters at once.
    #[default]
    Reject,
    /// They are tried again.
    Retry,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts_max: SCHEDULE_MS.len() as u32 + 1,
            schedule_ms: SCHEDULE_MS.to_vec(),
            age_ms_max: None,
            client_errors: ClientErrors::Reject,
        }
    }
}

fn http() -> String {
    "HTTP".to_owned()
}

fn latest() -> String {
    "latest".to_owned()
}

const fn batch() -> u32 {
    100
}

const fn inflight() -> u32 {
    HOOK_INFLIGHT_DEFAULT
}

const fn yes() -> bool {
    true
}

/// Headers that are ours or the connection's.
fn is_taken(name: &str) -> bool {
    const TAKEN: [&str; 12] = [
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    TAKEN.contains(&name) || ["ce-", "webhook-"].iter().any(|prefix| name.starts_with(prefix))
}

fn at(member: &str, detail: &str) -> Problem {
    Problem::at(Place::Pointer(format!("/{member}")), detail)
}

impl Spec {
    /// Reads JSON and checks every member.
    ///
    /// # Errors
    /// 400 with the place.
    pub(crate) fn read(json: Value, settings: &WebhookSettings) -> Result<Self, Problem> {
        let spec: Self = serde_json::from_value(json)
            .map_err(|error| Problem::new(400, "bad_request", format!("the subscription {error}")))?;
        spec.check(settings)?;
        Ok(spec)
    }

    fn check(&self, settings: &WebhookSettings) -> Result<(), Problem> {
        Name::topic(&self.config.topic).map_err(|error| at("config/topic", &error.to_string()))?;
        self.start()?;
        let sink = self.sink(settings)?;
        if let Some(address) = sink.address() {
            settings.guard().check(address).map_err(|error| at("sink", &error.to_string()))?;
        }
        if let Some(topic) = &self.dead_letter_topic {
            Name::topic(topic).map_err(|error| at("deadLetterTopic", &error.to_string()))?;
            if *topic == self.config.topic {
                return Err(at("deadLetterTopic", "is the subscription's own topic"));
            }
        }
        if self.protocol != "HTTP" {
            return Err(at("protocol", "is not HTTP"));
        }
        if self.protocol_settings.method.as_deref().is_some_and(|method| method != "POST") {
            return Err(at("protocolsettings/method", "is not POST"));
        }
        self.headers()?;
        self.authorization()?;
        self.filters()?;
        if let Some(secret) = &self.secret {
            Secret::parse(secret).map_err(|detail| at("secret", detail))?;
        }
        if !self.handshake && settings.handshake_required {
            return Err(at("handshake", "is required here (webhooks.handshake_required)"));
        }
        self.check_numbers()
    }

    fn check_numbers(&self) -> Result<(), Problem> {
        let range = |member: &str, value: u64, from: u64, to: u64| {
            let detail = || at(member, &format!("is {value}; allowed are {from} to {to}"));
            if (from..=to).contains(&value) { Ok(()) } else { Err(detail()) }
        };
        let wait = HOOK_WAIT_MAX.as_millis() as u64;
        range("maxBatch", self.batch_max.into(), 1, HOOK_BATCH_MAX.into())?;
        range("maxWaitMs", self.batch_wait_ms, 0, HOOK_BATCH_WAIT_MAX.as_millis() as u64)?;
        range("maxInflight", self.inflight_max.into(), 1, HOOK_INFLIGHT_MAX.into())?;
        range("rate", self.rate.unwrap_or(1).into(), 1, 1_000_000)?;
        range("retry/maxAttempts", self.retry.attempts_max.into(), 1, HOOK_ATTEMPTS_MAX.into())?;
        range("retry/maxAgeMs", self.retry.age_ms_max.unwrap_or(1), 1, 10 * wait)?;
        range("retry/scheduleMs", self.retry.schedule_ms.len() as u64, 1, HOOK_ATTEMPTS_MAX.into())?;
        for ms in &self.retry.schedule_ms {
            range("retry/scheduleMs", *ms, 1, wait)?;
        }
        Ok(())
    }

    /// The receiver.
    ///
    /// # Errors
    /// 400 with what is wrong with the URL.
    pub(crate) fn sink(&self, settings: &WebhookSettings) -> Result<Sink, Problem> {
        Sink::parse(&self.sink, settings.plain_http).map_err(|detail| at("sink", detail))
    }

    /// Where the subscription begins.
    ///
    /// # Errors
    /// 400 for what is neither a word nor a time.
    pub(crate) fn start(&self) -> Result<GroupStart, Problem> {
        start_of(&self.config.from).ok_or_else(|| at("config/from", "is neither latest, earliest nor a time"))
    }

    /// Headers that are added to each request.
    ///
    /// # Errors
    /// 400 for a name or value that cannot be sent, or that is not the owner's to set.
    pub(crate) fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, Problem> {
        let given = &self.protocol_settings.headers;
        let wrong = |name: &str, detail| at(&format!("protocolsettings/headers/{name}"), detail);
        if given.len() > HOOK_HEADERS_MAX {
            return Err(at("protocolsettings/headers", "has more than 32 members"));
        }
        given
            .iter()
            .map(|(name, value)| {
                let header =
                    HeaderName::try_from(name.as_str()).map_err(|_| wrong(name, "is no header name"))?;
                if is_taken(header.as_str()) {
                    return Err(wrong(name, "cannot be set here"));
                }
                let value = HeaderValue::try_from(value.as_str())
                    .ok()
                    .filter(|value| value.len() <= HOOK_HEADER_BYTES_MAX)
                    .ok_or_else(|| wrong(name, "is no header value of at most 4096 bytes"))?;
                Ok((header, value))
            })
            .collect()
    }

    /// The header `Authorization`.
    ///
    /// # Errors
    /// 400 for credentials that cannot stand in a header.
    pub(crate) fn authorization(&self) -> Result<Option<HeaderValue>, Problem> {
        let Some(credential) = &self.credential else { return Ok(None) };
        let text = match credential {
            Credential::Plain { identifier, .. } if identifier.contains(':') => {
                return Err(at("sinkcredential/identifier", "has a colon"));
            }
            Credential::Plain { identifier, secret } => {
                format!("Basic {}", STANDARD.encode(format!("{identifier}:{secret}")))
            }
            Credential::AccessToken { accesstoken } => format!("Bearer {accesstoken}"),
        };
        let value = HeaderValue::try_from(text).ok().filter(|value| value.len() <= HOOK_HEADER_BYTES_MAX);
        let mut value = value.ok_or_else(|| at("sinkcredential", "cannot stand in a header"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// All that an event must pass: `source`, `types` and `filters`.
    ///
    /// # Errors
    /// 400 with the place of the first that cannot be used.
    pub(crate) fn filters(&self) -> Result<Filters, Problem> {
        let mut all = Vec::new();
        if self.types.len() > HOOK_TYPES_MAX {
            return Err(at("types", "has more than 50 members"));
        }
        if self.types.iter().any(String::is_empty) || self.source.as_ref().is_some_and(String::is_empty) {
            return Err(at("types", "or source is empty"));
        }
        // filters of this page first: their places are the client's
        Filters::parse(&Value::Array(self.filters.clone()))
            .map_err(|error| at(&format!("filters{}", error.pointer), &error.detail))?;
        if let Some(source) = &self.source {
            all.push(json!({"exact": {"source": source}}));
        }
        if !self.types.is_empty() {
            let types = self.types.iter().map(|text| json!({"exact": {"type": text}}));
            all.push(json!({"any": types.collect::<Vec<_>>()}));
        }
        all.extend(self.filters.iter().cloned());
        let filters = Filters::parse(&Value::Array(all)).map_err(|error| at("filters", &error.detail))?;
        Ok(filters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> WebhookSettings {
        WebhookSettings::default()
    }

    fn base() -> Value {
        json!({"config": {"topic": "orders"}, "sink": "https://hooks.example/in"})
    }

    fn read(members: &Value) -> Result<Spec, Problem> {
        let mut whole = base();
        for (name, value) in members.as_object().unwrap() {
            whole[name] = value.clone();
        }
        Spec::read(whole, &settings())
    }

    #[test]
    fn the_least_that_is_needed_gets_the_defaults() {
        let spec = read(&json!({})).unwrap();
        assert_eq!((spec.mode, spec.inflight_max, spec.handshake), (Mode::Structured, 4, true));
        assert_eq!((spec.retry.attempts_max, spec.start().unwrap()), (10, GroupStart::Latest));
        assert!(spec.filters().unwrap().is_empty());
        // what is written is read back
        assert_eq!(Spec::read(serde_json::to_value(&spec).unwrap(), &settings()).unwrap(), spec);
    }

    #[test]
    fn every_member_is_read() {
        let spec = read(&json!({
            "source": "/s", "types": ["a", "b"], "filters": [{"exact": {"subject": "x"}}], "protocol": "HTTP",
            "config": {"topic": "t", "from": "2026-01-01T00:00:00Z"},
            "protocolsettings": {"headers": {"X-Team": "7"}, "method": "POST", "headerEncoding": "none"},
            "sinkcredential": {"credentialtype": "PLAIN", "identifier": "u", "secret": "p"},
            "mode": "batched", "maxBatch": 5, "maxWaitMs": 100, "maxInflight": 1, "deadLetterTopic": "dead",
            "retry": {"maxAttempts": 3, "scheduleMs": [1, 2], "maxAgeMs": 1000, "clientErrors": "retry"},
            "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "rate": 60, "handshake": true,
        }))
        .unwrap();
        assert_eq!(spec.authorization().unwrap().unwrap(), "Basic dTpw");
        assert_eq!(spec.headers().unwrap()[0].0, "x-team");
        assert_eq!(spec.start().unwrap(), GroupStart::Time(1_767_225_600_000));
        assert!(!spec.filters().unwrap().is_empty());
        assert_eq!(Spec::read(serde_json::to_value(&spec).unwrap(), &settings()).unwrap(), spec);
        let token = json!({"sinkcredential": {"credentialtype": "ACCESSTOKEN", "accesstoken": "abc"}});
        assert_eq!(read(&token).unwrap().authorization().unwrap().unwrap(), "Bearer abc");
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_its_place() {
        for (members, place) in [
            (json!({"config": {"topic": "a.*"}}), "/config/topic"),
            (json!({"config": {"topic": "t", "from": "yesterday"}}), "/config/from"),
            (json!({"sink": "http://a.example/"}), "/sink"),
            (json!({"sink": "https://127.0.0.1/"}), "/sink"),
            (json!({"sink": "https://[::ffff:10.0.0.1]/"}), "/sink"),
            (json!({"deadLetterTopic": "orders"}), "/deadLetterTopic"),
            (json!({"protocol": "MQTT"}), "/protocol"),
            (json!({"protocolsettings": {"method": "PUT"}}), "/protocolsettings/method"),
            (json!({"protocolsettings": {"headers": {"Host": "x"}}}), "/protocolsettings/headers/Host"),
            (
                json!({"protocolsettings": {"headers": {"webhook-id": "x"}}}),
                "/protocolsettings/headers/webhook-id",
            ),
            (json!({"protocolsettings": {"headers": {"a": "x\r\ny"}}}), "/protocolsettings/headers/a"),
            (
                json!({"sinkcredential": {"credentialtype": "ACCESSTOKEN", "accesstoken": "a\nb"}}),
                "/sinkcredential",
            ),
            (json!({"filters": [{"sql": "("}]}), "/filters/0/sql"),
            (json!({"secret": "whsec_AAAA"}), "/secret"),
            (json!({"handshake": false}), "/handshake"),
            (json!({"maxBatch": 0}), "/maxBatch"),
            (json!({"maxInflight": 17}), "/maxInflight"),
            (json!({"maxWaitMs": 60_001}), "/maxWaitMs"),
            (json!({"rate": 0}), "/rate"),
            (json!({"retry": {"maxAttempts": 0}}), "/retry/maxAttempts"),
            (json!({"retry": {"scheduleMs": []}}), "/retry/scheduleMs"),
            (json!({"retry": {"scheduleMs": [0]}}), "/retry/scheduleMs"),
            (json!({"types": [""]}), "/types"),
        ] {
            let problem = read(&members).unwrap_err();
            assert_eq!((problem.status, problem.faults.len()), (400, 1), "{members}");
            assert_eq!(problem.faults[0].place, Place::Pointer(place.to_owned()), "{members}");
        }
        for members in [json!({"mode": "x"}), json!({"color": 1}), json!({"config": {}}), json!({"sink": 1})]
        {
            assert_eq!(read(&members).unwrap_err().status, 400, "{members}");
        }
    }
}
