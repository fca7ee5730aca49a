//! The session without a broker: packets at every split, malformed input, logins, the end.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::time::Duration;

use framegate_adaptor_api::testing::{SessionScript, session_context};
use framegate_adaptor_api::{Credentials, LoginError, Secret, Serve, protocols};
// linked for its registration
use framegate_bunqueue as _;
use serde_json::Value;

const HANDSHAKE: &str = include_str!("../../../tests/vectors/bunqueue/01-handshake.json");

fn script(anonymous: bool) -> SessionScript {
    let mut context = session_context("bunqueue", Value::Null).unwrap();
    context.anonymous = anonymous;
    let plugin = protocols().unwrap().into_iter().find(|plugin| plugin.name == "bunqueue").unwrap();
    let Serve::Stream(open) = plugin.mounts[0].serve else { panic!("a stream") };
    let mut script = SessionScript::new(open(&context)).admitting(move |login| match &login.credentials {
        Credentials::Token(Secret(token)) if token == "secret-two" => welcome("one"),
        Credentials::Anonymous if anonymous => welcome("anonymous"),
        _ => Err(LoginError::Refused),
    });
    script.open();
    script
}

fn welcome(user: &str) -> Result<framegate_adaptor_api::Welcome, LoginError> {
    Ok(framegate_adaptor_api::Welcome {
        connection: framegate_broker::ConnectionId(1),
        user: framegate_broker::Name::new(user)?,
        vhost: framegate_broker::Name::from_static("/"),
    })
}

/// Recorded packets by name: what was sent.
fn recorded(name: &str) -> Vec<u8> {
    let file: Value = serde_json::from_str(HANDSHAKE).unwrap();
    let entry = file.as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap();
    let hex = entry["request_hex"].as_str().unwrap();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn has(output: &[u8], text: &str) -> bool {
    output.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn stream_split_anywhere_is_answered_the_same() {
    let names = [
        "hello_v3",
        "hello_without_reqId",
        "unknown_command",
        "missing_cmd",
        "non_map_top_level_int",
        "invalid_msgpack_c1",
        "zero_length_frame",
        "trailing_bytes",
        "hello_minimal_no_capabilities",
    ];
    let stream: Vec<u8> = names.iter().flat_map(|name| recorded(name)).collect();
    let mut whole = script(true);
    whole.feed(&stream);
    let expected = whole.take_output();
    assert!(has(&expected, "pipelining") && has(&expected, "Unknown command: NoSuchThing"));
    assert!(has(&expected, "Invalid command format"));
    assert!(whole.rest().is_empty() && !whole.has_ended(), "malformed packets end nothing");
    for at in 0..stream.len() {
        let mut split = script(true);
        split.feed(&stream[..at]);
        split.feed(&stream[at..]);
        assert_eq!(split.take_output(), expected, "split at {at}");
    }
    let mut bytes = script(true);
    bytes.feed_in_pieces(&stream, 1);
    assert_eq!(bytes.take_output(), expected);
}

#[test]
fn length_above_the_bound_is_answered_and_ends_the_connection() {
    let mut script = script(true);
    script.feed(&recorded("oversize_frame")[..4]);
    assert!(has(&script.output, "Frame too large: 67108865 bytes exceeds maximum 67108864"));
    assert!(script.failed.is_some());
    let mut most = self::script(true);
    most.feed(&67_108_864_u32.to_be_bytes());
    assert!(!most.has_ended() && most.output.is_empty());
}

#[test]
fn nothing_but_auth_is_served_before_it_where_a_token_is_needed() {
    let mut script = script(false);
    for name in
        ["authserver_hello_before_auth", "authserver_ping_before_auth", "authserver_subscribe_before_auth"]
    {
        script.feed(&recorded(name));
        assert!(has(&script.take_output(), "Not authenticated"), "{name}");
    }
    script.feed(&recorded("authserver_bad_token"));
    assert!(has(&script.take_output(), "Invalid token"));
    script.feed(&recorded("authserver_ok"));
    assert!(!has(&script.take_output(), "error"));
    script.feed(&recorded("authserver_bad_token_after_ok"));
    assert!(has(&script.take_output(), "Invalid token"));
    script.feed(&recorded("authserver_ping_after"));
    assert!(has(&script.take_output(), "pong"), "a bad token revokes nothing");
    assert!(!script.asked_before_login);
}

#[test]
fn token_that_nobody_needs_lets_in() {
    let mut first = script(true);
    first.feed(&recorded("auth_when_no_tokens_configured"));
    assert!(!has(&first.take_output(), "error"));
    assert_eq!(first.logins.len(), 2, "the token, then nobody");
    let mut second = script(true);
    second.feed(&recorded("ping"));
    second.feed(&recorded("auth_when_no_tokens_configured"));
    assert!(!has(&second.take_output(), "error"));
    assert_eq!(second.logins.len(), 1);
}

#[test]
fn guessing_tokens_ends_the_connection() {
    let mut script = script(false);
    for _ in 0..9 {
        script.feed(&recorded("authserver_bad_token"));
        assert!(!script.has_ended());
    }
    script.feed(&recorded("authserver_bad_token"));
    assert!(script.failed.is_some());
}

#[test]
fn who_never_logs_in_is_let_go_and_a_quiet_client_is_not() {
    let mut strict = script(false);
    assert_eq!(strict.tick(Duration::ZERO), Some(Duration::from_secs(60)));
    assert_eq!(strict.tick(Duration::from_secs(60)), None);
    let mut open = script(true);
    open.feed(&recorded("ping"));
    assert!(open.tick(Duration::from_secs(86_400)).is_some());
}

#[test]
fn idle_connection_closes_when_the_server_stops() {
    let mut script = script(true);
    script.feed(&recorded("ping"));
    script.drain();
    assert_eq!(script.closed.as_ref().map(|close| close.code), Some(1001));
}
