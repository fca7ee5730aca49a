//! A web-hook subscription as it is kept: what its owner asked for, and where it stands. Written whole at each change.

use framegate_broker::{GroupSpec, GroupStart, Name, Retry};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::signature::Secret;
use super::spec::{Credential, Spec};
use crate::limits::HOOK_ROTATION;

/// Where a subscription stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(crate) enum Status {
    /// The receiver has not consented yet; it may do so at the callback URL with this token.
    Pending {
        /// Part of the callback URL.
        token: String,
    },
    /// Events are sent.
    Active,
    /// Its owner stopped it; events wait.
    Paused,
    /// The gateway stopped it; events wait.
    Disabled {
        /// Why: `gone`, `failing`.
        reason: String,
        /// Since when, in ms since the Unix epoch.
        at_ms: u64,
    },
    /// It is being deleted.
    Deleting,
}

impl Status {
    fn word(&self) -> &'static str {
        match self {
            Self::Pending { .. } => "pending",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Disabled { .. } => "disabled",
            Self::Deleting => "deleting",
        }
    }
}

/// A secret that was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Previous {
    secret: String,
    /// Signs until then, in ms since the Unix epoch.
    until_ms: u64,
}

/// A subscription.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Its id: letters, digits and hyphens.
    pub(crate) id: String,
    /// Counts changes.
    pub(crate) version: u64,
    /// The user that made it.
    pub(crate) owner: String,
    pub(crate) created_ms: u64,
    pub(crate) status: Status,
    /// Requests a minute that the receiver allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) allowed_rate: Option<u32>,
    /// A secret that still signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<Previous>,
    pub(crate) spec: Spec,
}

impl Record {
    /// The same with another state, as the next version.
    pub(crate) fn with(&self, status: Status) -> Self {
        Self { status, version: self.version + 1, ..self.clone() }
    }

    /// The same with what its owner asks for now, as the next version. A secret that is replaced goes on signing for a day.
    pub(crate) fn changed(&self, mut spec: Spec, now_ms: u64) -> Self {
        let old = self.spec.secret.clone();
        if spec.secret.is_none() {
            spec.secret.clone_from(&old);
        }
        let until_ms = now_ms.saturating_add(HOOK_ROTATION.as_millis() as u64);
        let replaced = old.filter(|old| spec.secret.as_ref() != Some(old));
        let previous = replaced.map(|secret| Previous { secret, until_ms }).or_else(|| self.previous.clone());
        Self { spec, previous, version: self.version + 1, ..self.clone() }
    }

    /// The secrets that sign now, the newest first.
    pub(crate) fn secrets(&self, now_ms: u64) -> Vec<Secret> {
        let previous = self.previous.iter().filter(|p| p.until_ms > now_ms).map(|p| &p.secret);
        let all = self.spec.secret.iter().chain(previous);
        all.filter_map(|text| Secret::parse(text).ok()).collect()
    }

    /// Requests a minute at most: the smaller of what was asked for and what was allowed.
    pub(crate) fn rate(&self) -> Option<u32> {
        [self.spec.rate, self.allowed_rate].into_iter().flatten().min()
    }

    /// The consumer group that remembers what was sent. None: the names cannot be names, which was checked before.
    pub(crate) fn group(&self, start: GroupStart) -> Option<GroupSpec> {
        let dead = self.spec.dead_letter_topic.as_deref().map(Name::topic).transpose().ok()?;
        let topic = Name::topic(&self.spec.config.topic).ok()?;
        Some(GroupSpec {
            start,
            // attempts are counted there and judged here
            retry: Retry { attempts_max: 0, base_ms: 1000, max_ms: 16_000, jitter_percent: 20 },
            dead_letter_topic: dead,
            ..GroupSpec::new(topic, self.group_name()?)
        })
    }

    /// Name of that group.
    pub(crate) fn group_name(&self) -> Option<Name> {
        Name::declared(&format!("webhook-{}", self.id)).ok()
    }

    /// As clients see it: without secrets, but for that of `shown`.
    pub(crate) fn view(&self, now_ms: u64, shown: Option<&Secret>) -> Value {
        let mut view = serde_json::to_value(&self.spec).unwrap_or_default();
        let Some(members) = view.as_object_mut() else { return view };
        members.shift_remove("secret");
        if let Some(credential) = &self.spec.credential {
            let word = match credential {
                Credential::Plain { .. } => "PLAIN",
                Credential::AccessToken { .. } => "ACCESSTOKEN",
            };
            members.insert("sinkcredential".to_owned(), json!({"credentialtype": word}));
        }
        let secrets = self.secrets(now_ms);
        let mut all = serde_json::Map::new();
        all.insert("id".to_owned(), self.id.as_str().into());
        all.insert("status".to_owned(), self.status.word().into());
        if let Status::Disabled { reason, at_ms } = &self.status {
            all.insert("reason".to_owned(), reason.as_str().into());
            all.insert("disabledAt".to_owned(), time_text(*at_ms).into());
        }
        all.insert("owner".to_owned(), self.owner.as_str().into());
        all.insert("created".to_owned(), time_text(self.created_ms).into());
        if let Some(rate) = self.allowed_rate {
            all.insert("allowedRate".to_owned(), rate.into());
        }
        all.insert("secrets".to_owned(), secrets.len().into());
        if let Some(public) = secrets.first().and_then(Secret::public_text) {
            all.insert("publicKey".to_owned(), public.into());
        }
        all.append(members);
        if let Some(secret) = shown {
            all.insert("secret".to_owned(), secret.text().into());
        }
        Value::Object(all)
    }
}

/// RFC 3339.
pub(crate) fn time_text(ms: u64) -> String {
    let stamp = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    stamp.map(|stamp| stamp.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::WebhookSettings;

    const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn record() -> Record {
        let spec = json!({"config": {"topic": "t"}, "sink": "https://a.example/", "secret": OLD,
            "sinkcredential": {"credentialtype": "ACCESSTOKEN", "accesstoken": "hidden"}});
        Record {
            id: "7".to_owned(),
            version: 1,
            owner: "ann".to_owned(),
            created_ms: 0,
            status: Status::Active,
            allowed_rate: Some(30),
            previous: None,
            spec: Spec::read(spec, &WebhookSettings::default()).unwrap(),
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_shown_without_secrets() {
        let record = record();
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
        let shown = record.view(0, None).to_string();
        assert!(!shown.contains("hidden") && !shown.contains("whsec_"), "{shown}");
        assert_eq!(record.view(0, None)["secrets"], 1);
        assert_eq!(record.view(0, Secret::parse(OLD).ok().as_ref())["secret"], OLD);
        assert_eq!(record.rate(), Some(30));
    }

    #[test]
    fn a_replaced_secret_signs_for_a_day_beside_the_new_one() {
        let first = record();
        let new = Secret::generate().unwrap();
        let spec = Spec { secret: Some(new.text()), ..first.spec.clone() };
        let second = first.changed(spec, 1000);
        assert_eq!(second.version, 2);
        let day = HOOK_ROTATION.as_millis() as u64;
        assert_eq!(second.secrets(1000), [new.clone(), Secret::parse(OLD).unwrap()]);
        assert_eq!(second.secrets(1000 + day), [new]);
        // a change that names no secret replaces none
        let third = second.changed(Spec { secret: None, ..second.spec.clone() }, 2000);
        assert_eq!(third.secrets(2000), second.secrets(2000));
    }
}
