//! Who is at the other end: the body of HELLO_REQUEST and RECOMMEND_REQUEST (reference `eventmesh.md` 3.4).

use framegate_adaptor_api::{Credentials, Secret};
use serde::Deserialize;

/// What a client says about itself. Everything may be missing until `check`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct UserAgent {
    pub(crate) host: Option<String>,
    pub(crate) pid: Option<i64>,
    pub(crate) version: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) purpose: Option<String>,
    pub(crate) unack: Option<i64>,
}

impl UserAgent {
    /// Reads a body.
    ///
    /// # Errors
    /// What is missing or wrong, in the words of the reply.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, String> {
        let agent: Option<Self> = match body {
            [] => None,
            body => {
                serde_json::from_slice(body).map_err(|error| format!("client info is no JSON: {error}"))?
            }
        };
        let agent = agent.ok_or("client info cannot be null")?;
        if agent.version.is_none() {
            return Err("client version cannot be null".to_owned());
        }
        match agent.purpose.as_deref() {
            Some("pub" | "sub") => {}
            given => {
                let given = given.unwrap_or("null");
                return Err(format!("client purpose '{given}' must be pub or sub"));
            }
        }
        if agent.group().is_empty() {
            return Err("client group cannot be null".to_owned());
        }
        Ok(agent)
    }

    /// Its producer or consumer group.
    pub(crate) fn group(&self) -> &str {
        self.group.as_deref().unwrap_or_default().trim()
    }

    /// The process that its connections belong to.
    pub(crate) fn process(&self) -> String {
        format!("{}|{}|{}", self.group(), self.host.as_deref().unwrap_or_default(), self.pid.unwrap_or(0))
    }

    /// What it logs in with.
    pub(crate) fn credentials(&self) -> Credentials {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        match (given(&self.token), given(&self.username)) {
            (Some(token), _) => Credentials::Token(Secret(token)),
            (None, Some(user)) => {
                Credentials::Password { user, password: Secret(self.password.clone().unwrap_or_default()) }
            }
            (None, None) => Credentials::Anonymous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_in_the_words_of_the_original() {
        let reason = |json: &str| UserAgent::parse(json.as_bytes()).unwrap_err();
        assert_eq!(reason(""), "client info cannot be null");
        assert_eq!(reason("null"), "client info cannot be null");
        assert_eq!(reason(r#"{"purpose":"pub","group":"g"}"#), "client version cannot be null");
        assert_eq!(reason(r#"{"version":"2","purpose":"pub","group":" "}"#), "client group cannot be null");
        assert!(reason(r#"{"version":"2","purpose":"both","group":"g"}"#).contains("'both'"));
        assert!(reason("{").starts_with("client info is no JSON"));
    }

    #[test]
    fn token_comes_before_name_and_password_and_nothing_is_anonymous() {
        let agent = |more: &str| {
            let json = format!(r#"{{"version":"2","purpose":"sub","group":"g"{more}}}"#);
            UserAgent::parse(json.as_bytes()).unwrap().credentials()
        };
        assert_eq!(agent(""), Credentials::Anonymous);
        let named = Credentials::Password { user: "u".to_owned(), password: Secret("p".to_owned()) };
        assert_eq!(agent(r#","username":"u","password":"p""#), named);
        assert_eq!(agent(r#","username":"u","token":"t""#), Credentials::Token(Secret("t".to_owned())));
    }
}
