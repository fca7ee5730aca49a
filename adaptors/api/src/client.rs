//! The async face of the broker for HTTP handlers: the same requests, the same admission and windows.

use std::sync::Arc;

use axum::http::HeaderMap;
use framegate_broker::{
    Broker, BrokerError, Connection, Name, Outbox, Principal, Publish, Published, Reply, Request, Subscribe,
    Subscription,
};

use crate::auth::Authenticator;
use crate::budget::UnfinishedBudget;
use crate::registry::Adaptors;
use crate::session::{Credentials, LoginError, Secret};

/// What HTTP routes of a plugin are made with. Cheap to clone.
#[derive(Clone)]
pub struct HttpContext {
    /// The broker.
    pub broker: Broker,
    /// Checks credentials.
    pub authenticator: Arc<dyn Authenticator>,
    /// Adaptors by name.
    pub adaptors: Adaptors,
    /// Process-wide budget of messages that are still arriving.
    pub budget: UnfinishedBudget,
    /// Vhost of the listener.
    pub vhost: Name,
    /// Whether requests without credentials are served.
    pub anonymous: bool,
    /// The plugin's section of the configuration; `Null` when absent.
    pub settings: Arc<serde_json::Value>,
    /// Largest message in frame bytes.
    pub message_bytes_max: usize,
    /// Turns true when the server stops: streams end.
    pub stopping: tokio::sync::watch::Receiver<bool>,
    /// What the listeners are, for status pages: (name, address).
    pub listeners: Arc<std::sync::OnceLock<Vec<(String, String)>>>,
}

impl HttpContext {
    /// Checks the credentials of a request (`Authorization: Bearer` or `Basic`, else query `access_token`) and gives a client
    /// that acts for them.
    ///
    /// # Errors
    /// `Refused` for bad credentials, `Required` when there are none and the listener wants some.
    pub async fn client(&self, headers: &HeaderMap, query_token: Option<&str>) -> Result<Client, LoginError> {
        let credentials = credentials_of(headers, query_token);
        let principal = self.authenticator.authenticate(&credentials, self.anonymous).await?;
        Ok(Client { broker: self.broker.clone(), principal, vhost: self.vhost.clone() })
    }
}

/// Reads the credentials of an HTTP request.
#[must_use]
pub fn credentials_of(headers: &HeaderMap, query_token: Option<&str>) -> Credentials {
    use base64::Engine as _;
    let authorization = headers.get(axum::http::header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let scheme = authorization.and_then(|a| a.split_once(' '));
    match scheme {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
            Credentials::Token(Secret(token.trim().to_owned()))
        }
        Some((scheme, encoded)) if scheme.eq_ignore_ascii_case("basic") => {
            let decoded = base64::engine::general_purpose::STANDARD.decode(encoded.trim()).ok();
            let text = decoded.and_then(|d| String::from_utf8(d).ok()).unwrap_or_default();
            let (user, password) = text.split_once(':').unwrap_or((&text, ""));
            Credentials::Password { user: user.to_owned(), password: Secret(password.to_owned()) }
        }
        Some(_) => Credentials::Token(Secret(String::new())),
        None => match query_token {
            Some(token) => Credentials::Token(Secret(token.to_owned())),
            None => Credentials::Anonymous,
        },
    }
}

/// One principal's access to the broker in one vhost. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    /// The broker.
    pub broker: Broker,
    /// Who.
    pub principal: Principal,
    /// Where.
    pub vhost: Name,
}

impl Client {
    /// One request. Waits for admission and the answer.
    ///
    /// # Errors
    /// What the broker answers.
    pub async fn call(&self, request: Request) -> Result<Reply, BrokerError> {
        self.broker.call(&self.principal, &self.vhost, request).await
    }

    /// Publishes and waits until the message is as safe as it can be.
    ///
    /// # Errors
    /// What the broker answers.
    pub async fn publish(&self, publish: Publish) -> Result<Published, BrokerError> {
        match self
            .call(Request::Publish(Publish { answer: framegate_broker::Answer::Reply, ..publish }))
            .await?
        {
            Reply::Published(published) => Ok(published),
            _ => Ok(Published::default()),
        }
    }

    /// Subscribes to topics.
    ///
    /// # Errors
    /// What the broker answers.
    pub async fn subscribe(&self, what: Subscribe) -> Result<Subscription, BrokerError> {
        self.broker.subscribe(&self.principal, &self.vhost, what).await
    }

    /// A connection of its own, for a stream that consumes a queue.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn connect(&self, label: &str) -> Result<(Connection, Outbox), BrokerError> {
        self.broker.connect(&self.principal, &self.vhost, label)
    }
}
