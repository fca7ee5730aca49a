//! Login, time limits, and the settings: what happens before the first command and without any.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod harness;

use std::time::Duration;

use framegate_adaptor_api::{Credentials, LoginError, Secret};
use framegate_broker::Request;
use harness::{Peer, context};
use serde_json::{Value, json};

const ANY: Duration = Duration::from_secs(1);

fn closed() -> Peer {
    Peer::with(&context(false, Value::Null))
}

#[test]
fn auth_and_its_aliases_log_in_and_are_answered() {
    for word in ["AUTH", "AUTHENTICATE", "CONNECT"] {
        let mut peer = closed();
        peer.send(word, "a", json!({"username": "u", "password": "p", "vhost": "other", "clientId": "c"}));
        let login = peer.out.login.clone().unwrap();
        let password = Credentials::Password { user: "u".to_owned(), password: Secret("p".to_owned()) };
        assert_eq!((login.credentials, login.vhost.as_deref()), (password, Some("other")));
        peer.welcome();
        assert_eq!(
            peer.success(),
            json!({"connectionId": "c-7", "serverName": "framegate", "protocolVersion": 1, "maxFrameSize": 1_048_576})
        );
    }
    let mut peer = closed();
    peer.send("AUTH", "a", json!({"token": "t"}));
    assert_eq!(peer.out.login.unwrap().credentials, Credentials::Token(Secret("t".to_owned())));
}

#[test]
fn first_command_of_an_anonymous_client_logs_it_in_and_is_then_done() {
    let mut peer = Peer::open();
    peer.send("QUEUE_LIST", "r", json!({}));
    peer.send("QUEUE_LIST", "r2", json!({}));
    assert!(peer.requests().is_empty());
    assert_eq!(peer.out.login.as_ref().unwrap().credentials, Credentials::Anonymous);
    peer.welcome();
    assert!(peer.received().is_empty());
    assert_eq!(peer.requests().len(), 2);
}

#[test]
fn anonymous_login_that_is_refused_leaves_the_command_unauthorized() {
    let mut peer = Peer::open();
    peer.send("QUEUE_LIST", "r", json!({}));
    peer.login(Err(LoginError::Required));
    assert_eq!(peer.failure(), "UNAUTHORIZED");
    peer.send("AUTH", "a", json!({"username": "u", "password": "p"}));
    peer.welcome();
    assert_eq!(peer.success()["serverName"], "framegate");
}

#[test]
fn only_auth_and_ping_before_the_login() {
    let mut peer = closed();
    peer.send("PING", "p", json!({}));
    assert_eq!(peer.success()["pong"], true);
    peer.send("STATS", "s", json!({}));
    assert_eq!(peer.failure(), "UNAUTHORIZED");
    peer.send("AUTH", "a", json!({}));
    assert_eq!(peer.failure(), "VALIDATION_ERROR");
    peer.send("AUTH", "a", json!({"username": "u"}));
    assert_eq!(peer.failure(), "VALIDATION_ERROR");
    assert!(peer.out.login.is_none());
}

#[test]
fn third_refused_login_closes() {
    let mut peer = closed();
    for attempt in 1..=3 {
        peer.send("AUTH", "a", json!({"username": "u", "password": "x"}));
        peer.login(Err(LoginError::Refused));
        assert_eq!(peer.failure(), "AUTH_FAILED");
        assert_eq!(peer.ended.is_some(), attempt == 3);
    }
}

#[test]
fn commands_behind_auth_wait_for_it() {
    let mut peer = closed();
    peer.send("AUTH", "a", json!({"username": "u", "password": "p"}));
    peer.send("QUEUE_PURGE", "q", json!({"name": "orders"}));
    assert!(peer.requests().is_empty());
    peer.welcome();
    assert!(matches!(peer.request().1, Request::Define(_)));
    assert_eq!(peer.one()["requestId"], "a");
}

#[test]
fn auth_must_come_in_ten_seconds_where_it_is_needed() {
    let mut peer = closed();
    assert_eq!(peer.tick(Duration::from_secs(4)), Some(Duration::from_secs(6)));
    assert_eq!(peer.tick(Duration::from_secs(10)), None);
    assert_eq!(peer.failure(), "UNAUTHORIZED");
    assert!(peer.ended.is_some());
    // Where it is not, a quiet connection stays.
    let mut peer = Peer::open();
    assert!(peer.tick(Duration::from_secs(3600)).is_some());
    assert!(peer.received().is_empty());
}

#[test]
fn idle_connection_without_consumers_is_closed_when_configured() {
    let settings = context(true, json!({"idle_close_ms": 300_000}));
    let mut peer = Peer::with(&settings);
    peer.send("AUTH", "a", json!({"token": "t"}));
    peer.welcome();
    peer.tick(ANY);
    peer.tick(Duration::from_secs(300));
    assert!(peer.out.close.is_none());
    peer.tick(Duration::from_secs(301));
    assert!(peer.out.close.is_some());

    let mut peer = Peer::with(&settings);
    peer.send("AUTH", "a", json!({"token": "t"}));
    peer.welcome();
    peer.consumer("ct", false);
    peer.tick(ANY);
    peer.tick(Duration::from_secs(9000));
    assert!(peer.out.close.is_none());
}

#[test]
fn commands_that_are_never_answered_do_not_hold_a_disconnect_for_ever() {
    let mut peer = Peer::logged_in();
    peer.send("QUEUE_LIST", "r", json!({}));
    peer.send("DISCONNECT", "d", json!({}));
    assert_eq!(peer.tick(ANY), Some(Duration::from_secs(5)));
    assert_eq!(peer.tick(ANY + Duration::from_secs(5)), None);
}

#[test]
fn plugin_names_its_listener_and_checks_its_settings() {
    let plugin = framegate_adaptor_api::protocols().unwrap()[0];
    assert_eq!((plugin.name, plugin.mounts[0].name), ("messagex", "messagex"));
    assert_eq!(plugin.mounts[0].default, framegate_adaptor_api::DefaultListener::Port(5678));
    assert!((plugin.check)(&Value::Null).is_ok());
    assert!((plugin.check)(&json!({"idle": 1})).unwrap_err().contains("idle"));
}
