//! A disk with little room, a full one and a failing one: publishers are held in their protocol's own words, consumers go
//! on draining, it clears itself, and nothing that was confirmed is lost.

use std::fs;
use std::path::PathBuf;

use harness::messagex::MessageX;
use harness::peers::amqp::{Amqp, args};
use harness::websocket::Ws;
use harness::{Gateway, Options, http, wait_until};
use serde_json::{Value, json};

/// A server with a fault that is on while the file exists.
fn with_fault(fault: &str, config: &str) -> (Gateway, tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("folder");
    let switch = dir.path().join("switch");
    let faults = format!("{fault}={}", switch.display());
    let options = Options::default().env("FRAMEGATE_FAULTS", &faults).config(config);
    (Gateway::start_with(options), dir, switch)
}

fn messagex(gateway: &Gateway) -> MessageX {
    let mut client = MessageX::connect(&gateway.address("messagex"));
    client.ok("AUTH", json!({"username": "guest", "password": "guest", "returnEvents": true}));
    client
}

fn event(n: u64) -> Value {
    json!({"specversion": "1.0", "id": format!("e{n}"), "source": "/t", "type": "t", "data": n})
}

fn until_held(gateway: &Gateway, held: f64) {
    wait_until("the hold", || (gateway.metric("framegate_held_disk_low") == held).then_some(()));
}

fn amqp_publish(client: &mut Amqp, body: &[u8]) {
    // persistent
    client.publish(1, "", "q", 0, &[0x10, 0, 2], body);
}

/// A client of AMQP in confirm mode.
fn confirming(gateway: &Gateway) -> Amqp {
    let mut client = Amqp::connect(&gateway.address("amqp"));
    client.send(1, 85, 10, args().octet(0));
    client.expect(85, 11);
    client
}

#[test]
fn little_room_holds_publishers_in_their_own_words_and_consumers_go_on() {
    let (gateway, _dir, switch) = with_fault("low-when", "[limits]\nlook_every_ms = 10\n");
    let (mut x, mut amqp) = (messagex(&gateway), confirming(&gateway));
    let mut ws = Ws::connect(&gateway.address("http"));
    x.declare("q");
    for n in 0..4 {
        x.publish("q", &json!(n));
    }
    amqp_publish(&mut amqp, b"4");
    amqp.expect(60, 80);
    fs::write(&switch, "").expect("switch");
    assert_eq!(x.event()["event"], "CONNECTION_BLOCKED");
    assert!(amqp.expect(10, 60).text_at(0).starts_with("low on "), "connection.blocked says why");
    until_held(&gateway, 1.0);
    // who publishes now waits, and is told if it had not published before
    let waiting =
        x.try_send("PUBLISH", json!({"routingKey": "q", "body": "held", "persistent": true})).expect("sent");
    amqp_publish(&mut amqp, b"held too");
    ws.send(json!({"op": "publish", "topic": "t", "event": event(1)}));
    assert_eq!(ws.message()["code"], "blocked");
    let refused = http::publish(&gateway.address("http"), "t", &event(2));
    assert_eq!((refused.status, refused.json()["code"].as_str()), (503, Some("held")), "{}", refused.text());
    assert!(refused.header("retry-after").is_some() && refused.json()["retryable"] == true);
    let mut first = confirming(&gateway);
    amqp_publish(&mut first, b"its first");
    first.expect(10, 60);
    // everything else goes on
    let mut worker = messagex(&gateway);
    worker.declare("another");
    worker.consume("q", 10);
    for n in 0..5 {
        let delivery = worker.delivery();
        assert_eq!(delivery["body"].to_string().trim_matches('"'), n.to_string());
        worker.ack(&delivery);
    }
    assert!(gateway.log().contains("free disk space, let consumers drain queues"), "{}", gateway.log());
    fs::remove_file(&switch).expect("switch");
    assert_eq!(x.event()["event"], "CONNECTION_UNBLOCKED");
    assert!(x.try_response(&waiting).expect("the connection stays").is_ok());
    for client in [&mut amqp, &mut first] {
        client.expect(10, 61);
        client.expect(60, 80);
    }
    assert_eq!(ws.message()["code"], "unblocked");
    assert_eq!(http::publish(&gateway.address("http"), "t", &event(2)).status, 202);
    until_held(&gateway, 0.0);
    assert_eq!(gateway.metric("framegate_holds_total"), 1.0);
    let mut came: Vec<String> =
        (0..3).map(|_| worker.delivery()["body"].to_string().trim_matches('"').to_owned()).collect();
    came.sort();
    assert_eq!(came, ["held", "held too", "its first"], "what waited was taken once");
}

/// The store may take 12 MiB, and 38 MiB go through it.
#[test]
fn a_disk_that_fills_is_ridden_out_and_what_consumers_drain_makes_room() {
    const MESSAGES: u64 = 600;
    const QUOTA: u64 = 12 << 20;
    let config = "[limits]\nlook_every_ms = 20\ndisk_free_min_bytes = 4194304\nadmission_bytes_max = 524288\n\
                  snapshot_every_ms = 200\n[storage]\nsegment_bytes = 1048576\n";
    let options = Options::default().env("FRAMEGATE_FAULTS", &format!("quota={QUOTA}")).config(config);
    let gateway = Gateway::start_with(options);
    let mut setup = messagex(&gateway);
    setup.declare("q");
    let address = gateway.address("messagex");
    let publisher = std::thread::spawn(move || {
        let mut client = MessageX::connect(&address);
        let filling = "x".repeat(64 * 1024);
        for n in 0..MESSAGES {
            client.publish("q", &json!(format!("{n} {filling}")));
        }
    });
    until_held(&gateway, 1.0);
    let mut amqp = confirming(&gateway);
    amqp_publish(&mut amqp, b"held");
    amqp.expect(10, 60);
    let mut worker = messagex(&gateway);
    worker.consume("q", 20);
    let (mut next, mut of_amqp) = (0, false);
    while next < MESSAGES || !of_amqp {
        let delivery = worker.delivery();
        let body = delivery["body"].as_str().expect("text");
        if body == "held" {
            of_amqp = true;
        } else {
            assert!(body.starts_with(&format!("{next} ")), "{}: {next} was next", &body[..10]);
            next += 1;
        }
        worker.ack(&delivery);
    }
    publisher.join().expect("all were confirmed");
    // it may have been held again meanwhile
    while amqp.method().id != (60, 80) {}
    until_held(&gateway, 0.0);
    assert!(gateway.metric("framegate_storage_disk_bytes") <= QUOTA as f64);
    assert_eq!(gateway.metric("framegate_held_disk_full"), 0.0);
}

#[test]
fn a_failed_write_confirms_nothing_more_names_the_file_exits_with_70_and_recovers() {
    let (mut gateway, _dir, switch) = with_fault("fail-write-when", "");
    let mut x = messagex(&gateway);
    x.declare("q");
    x.publish("q", &json!("before"));
    let mut waiting: Vec<MessageX> = (0..8).map(|_| messagex(&gateway)).collect();
    fs::write(&switch, "").expect("switch");
    let payload = json!({"routingKey": "q", "body": "after", "persistent": true});
    let ids: Vec<_> = waiting.iter_mut().map(|c| c.try_send("PUBLISH", payload.clone())).collect();
    for (client, id) in waiting.iter_mut().zip(ids) {
        // the first of them may have ended it
        let Ok(id) = id else { continue };
        assert!(!matches!(client.try_response(&id), Ok(Ok(_))), "no confirm after a failed write");
    }
    assert_eq!(gateway.wait().code(), Some(70), "{}", gateway.log());
    let log = gateway.log();
    for words in ["seg-", "errno 5", "check the disk"] {
        assert!(log.contains(words), "{words} is not in: {log}");
    }
    fs::remove_file(&switch).expect("switch");
    let gateway = gateway.kill_and_restart_with(Options::default());
    let mut x = messagex(&gateway);
    assert_eq!(x.get("q").expect("kept")["body"], "before");
}

#[test]
fn a_stop_while_publishers_are_held_refuses_them_and_loses_nothing() {
    let (mut gateway, _dir, switch) = with_fault("low-when", "[limits]\nlook_every_ms = 10\n");
    let mut x = messagex(&gateway);
    x.declare("q");
    x.publish("q", &json!("kept"));
    fs::write(&switch, "").expect("switch");
    until_held(&gateway, 1.0);
    let id =
        x.try_send("PUBLISH", json!({"routingKey": "q", "body": "held", "persistent": true})).expect("sent");
    gateway.terminate();
    assert!(!matches!(x.try_response(&id), Ok(Ok(_))), "it was not taken");
    assert_eq!(gateway.wait().code(), Some(0), "{}", gateway.log());
    fs::remove_file(&switch).expect("switch");
    let gateway = gateway.kill_and_restart();
    let mut x = messagex(&gateway);
    assert_eq!(x.get("q").expect("kept")["body"], "kept");
    assert!(x.get("q").is_none(), "what was held was never taken");
}
