//! Receivers of web hooks that misbehave: they hang, drip, redirect, never end, reset, talk nonsense. Nothing is lost, and nobody
//! else waits for them.

use std::collections::BTreeSet;

use harness::receiver::{Reaction, Receiver};
use harness::{Gateway, wait_until};
use serde_json::{Value, json};

use crate::webhooks::{Kept, call, id_of, publish, quick, start, subscribe};

const EVENTS: usize = 6;

/// Publishes to both topics: the good receiver has all of its events while the bad one still has none.
fn the_others_do_not_wait(gateway: &Gateway, good: &Receiver) {
    for n in 0..EVENTS {
        publish(gateway, "bad", &n.to_string());
        publish(gateway, "good", &n.to_string());
    }
    let seen: BTreeSet<String> = (0..EVENTS).map(|_| good.post().json()["id"].to_string()).collect();
    assert_eq!(seen.len(), EVENTS);
}

/// Every event reaches the bad receiver once it behaves.
fn nothing_is_lost(bad: &Receiver) {
    while bad.try_post().is_some() {}
    bad.react(|_| Reaction::status(204));
    let mut seen = BTreeSet::new();
    wait_until("every event", || {
        while let Some(post) = bad.try_post() {
            seen.insert(post.json()["id"].to_string());
        }
        (seen.len() == EVENTS).then_some(())
    });
}

/// A receiver that reacts so to every POST delays nobody and loses nothing.
fn survives(reaction: Reaction) {
    let gateway = start();
    let (good, bad) = (Receiver::start(), Receiver::with(move |_| reaction.clone()));
    subscribe(&gateway, &good, "good", &json!({}));
    let made = subscribe(&gateway, &bad, "bad", &json!({"retry": quick(100)}));
    the_others_do_not_wait(&gateway, &good);
    let _ = bad.post();
    wait_until("a failed attempt", || {
        let log = call(&gateway, "GET", &format!("{}/deliveries", id_of(&made)), &Value::Null).json();
        log["deliveries"].as_array()?.iter().any(|attempt| attempt["outcome"] == "retry").then_some(())
    });
    nothing_is_lost(&bad);
}

#[test]
fn a_receiver_that_hangs() {
    survives(Reaction::Hang);
}

#[test]
fn a_receiver_that_answers_byte_by_byte() {
    survives(Reaction::Drip(b"HTTP/1.1 200 OK\r\nX-Long: ".iter().copied().chain([b'x'; 4096]).collect()));
}

#[test]
fn a_receiver_that_closes_or_resets() {
    survives(Reaction::Close);
    survives(Reaction::Reset);
}

#[test]
fn a_receiver_that_speaks_something_else() {
    survives(Reaction::Raw(b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()));
    survives(Reaction::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5".to_vec()));
}

#[test]
fn a_receiver_whose_head_never_ends() {
    survives(Reaction::Raw(
        b"HTTP/1.1 200 OK\r\n".iter().copied().chain(b"a: b\r\n".repeat(100_000)).collect(),
    ));
}

#[test]
fn a_body_that_never_ends_is_not_waited_for() {
    let gateway = start();
    let receiver = Receiver::with(|_| Reaction::Endless(200));
    subscribe(&gateway, &receiver, "t", &json!({"retry": quick(100)}));
    for n in 0..EVENTS {
        publish(&gateway, "t", &n.to_string());
    }
    let seen: BTreeSet<String> = (0..EVENTS).map(|_| receiver.post().json()["id"].to_string()).collect();
    assert_eq!(seen.len(), EVENTS, "a 200 is a 200, whatever comes behind it");
    wait_until("all of them", || {
        (gateway.metric("framegate_cloudevents_webhook_delivered_total") == EVENTS as f64).then_some(())
    });
    assert!(receiver.try_post().is_none(), "none was sent twice");
}

#[test]
fn a_redirect_is_not_followed() {
    let gateway = start();
    let elsewhere = Receiver::start();
    for status in [301, 302, 303, 307, 308] {
        let location = format!("Location: {}", elsewhere.url());
        let receiver = Receiver::with(move |_| Reaction::with(status, &location));
        let topic = format!("t{status}");
        subscribe(&gateway, &receiver, &topic, &json!({"deadLetterTopic": "dead"}));
        publish(&gateway, &topic, &status.to_string());
        let _ = receiver.post();
    }
    let mut dead = Kept::of(&gateway, "dead");
    let seen: BTreeSet<String> = (0..5).map(|_| dead.next()).collect();
    assert_eq!(seen.len(), 5);
    assert!(elsewhere.asked().is_empty(), "nobody went there");
}

#[test]
fn many_receivers_that_hang_hold_up_none_that_does_not() {
    let gateway = start();
    let hanging: Vec<Receiver> = (0..20).map(|_| Receiver::with(|_| Reaction::Hang)).collect();
    for receiver in &hanging {
        subscribe(&gateway, receiver, "t", &json!({"retry": quick(100)}));
    }
    let good = Receiver::start();
    subscribe(&gateway, &good, "t", &json!({}));
    for n in 0..EVENTS {
        publish(&gateway, "t", &n.to_string());
    }
    for receiver in &hanging {
        let _ = receiver.post();
    }
    let seen: BTreeSet<String> = (0..EVENTS).map(|_| good.post().json()["id"].to_string()).collect();
    assert_eq!(seen.len(), EVENTS);
    // an orderly stop does not wait for them
    let _ = gateway.restart();
}

#[test]
fn a_connection_is_used_again_and_one_that_was_closed_is_not() {
    let gateway = start();
    let receiver = Receiver::start();
    subscribe(&gateway, &receiver, "t", &json!({"maxInflight": 1}));
    for n in 0..20 {
        publish(&gateway, "t", &n.to_string());
        assert_eq!(receiver.post().json()["id"], n.to_string());
    }
    // one connection for all of them would be the best; what is asserted is that none of them failed
    assert_eq!(gateway.metric("framegate_cloudevents_webhook_attempts_total"), 20.0);
    let closing = Receiver::with(|_| Reaction::with(204, "Connection: close"));
    subscribe(&gateway, &closing, "u", &json!({"maxInflight": 1}));
    for n in 0..5 {
        publish(&gateway, "u", &n.to_string());
        assert_eq!(closing.post().json()["id"], n.to_string());
    }
    assert_eq!(gateway.metric("framegate_cloudevents_webhook_retried_total"), 0.0);
}
