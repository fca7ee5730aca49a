//! An orderly stop says goodbye in each protocol's words and loses nothing; a failed disk ends the process loudly.

use std::fs;

use harness::messagex::MessageX;
use harness::sse::Sse;
use harness::websocket::Ws;
use harness::{Gateway, Options};
use serde_json::json;

#[test]
fn a_stop_says_goodbye_everywhere_keeps_what_was_confirmed_and_exits_with_0() {
    let mut gateway = Gateway::start();
    let mut x = MessageX::connect(&gateway.address("messagex"));
    x.declare("q");
    x.publish("q", &json!("kept"));
    let mut sse = Sse::open(&gateway.address("http"), "topic=t", &[]);
    let mut ws = Ws::connect(&gateway.address("http"));
    ws.subscribe("s", "t");
    gateway.terminate();
    assert_eq!(x.event()["event"], "SERVER_SHUTDOWN");
    assert_eq!(ws.message()["code"], "draining");
    assert_eq!(ws.receive().expect_err("closed"), 1001);
    while let Some(event) = sse.try_next().expect("ends cleanly") {
        assert_eq!(event.name, "framegate");
    }
    assert_eq!(gateway.wait().code(), Some(0), "{}", gateway.log());
    let gateway = gateway.kill_and_restart();
    let mut x = MessageX::connect(&gateway.address("messagex"));
    assert_eq!(x.get("q").expect("kept")["body"], "kept");
}

#[test]
fn a_failed_sync_confirms_nothing_more_names_the_file_and_exits_with_70() {
    let dir = tempfile::tempdir().expect("folder");
    let switch = dir.path().join("failing");
    let faults = format!("fail-sync-when={}", switch.display());
    let mut gateway = Gateway::start_with(Options::default().env("FRAMEGATE_FAULTS", &faults));
    let mut x = MessageX::connect(&gateway.address("messagex"));
    x.declare("q");
    x.publish("q", &json!("before"));
    fs::write(&switch, "").expect("switch");
    let id =
        x.try_send("PUBLISH", json!({"routingKey": "q", "body": "after", "persistent": true})).expect("sent");
    assert!(!matches!(x.try_response(&id), Ok(Ok(_))), "no confirm after a failed sync");
    assert_eq!(gateway.wait().code(), Some(70), "{}", gateway.log());
    assert!(gateway.log().contains("seg-"), "the log names the file: {}", gateway.log());
    fs::remove_file(&switch).expect("switch");
    let gateway = gateway.kill_and_restart_with(Options::default());
    let mut x = MessageX::connect(&gateway.address("messagex"));
    assert_eq!(x.get("q").expect("kept")["body"], "before");
}

#[test]
fn a_full_disk_holds_publishers_and_lets_them_go_on_when_there_is_room() {
    let dir = tempfile::tempdir().expect("folder");
    let switch = dir.path().join("full");
    let faults = format!("full-when={}", switch.display());
    let gateway = Gateway::start_with(Options::default().env("FRAMEGATE_FAULTS", &faults));
    let mut x = MessageX::connect(&gateway.address("messagex"));
    x.ok("AUTH", json!({"username": "guest", "password": "guest", "returnEvents": true}));
    x.declare("q");
    x.publish("q", &json!(1));
    fs::write(&switch, "").expect("switch");
    let id = x.try_send("PUBLISH", json!({"routingKey": "q", "body": 2, "persistent": true})).expect("sent");
    let mut other = MessageX::connect(&gateway.address("messagex"));
    other.consume("q", 10);
    let d = other.delivery();
    other.ack(&d);
    assert_eq!(x.event()["event"], "CONNECTION_BLOCKED");
    fs::remove_file(&switch).expect("switch");
    assert_eq!(x.event()["event"], "CONNECTION_UNBLOCKED");
    assert!(x.try_response(&id).expect("connection stays").is_ok());
    let gateway = gateway.kill_and_restart();
    let mut x = MessageX::connect(&gateway.address("messagex"));
    let mut kept = x.get("q").expect("kept");
    if kept["body"] == 1 {
        // its ack waited for nothing, so it may not have reached the disk
        kept = x.get("q").expect("kept");
    }
    assert_eq!(kept["body"], 2);
}
