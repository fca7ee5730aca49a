//! A slow or blocked part holds up only itself.

use std::fs;

use harness::messagex::MessageX;
use harness::sse::Sse;
use harness::{Gateway, Options, http, wait_until};
use serde_json::json;

/// A server whose disk stops syncing while the file exists.
fn with_blockable_disk() -> (Gateway, tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("folder");
    let switch = dir.path().join("blocked");
    let faults = format!("block-sync-while={}", switch.display());
    (Gateway::start_with(Options::default().env("FRAMEGATE_FAULTS", &faults)), dir, switch)
}

#[test]
fn while_the_disk_is_blocked_acks_and_cancels_complete_and_a_dead_consumers_leases_return() {
    let (gateway, _dir, switch) = with_blockable_disk();
    let address = gateway.address("messagex");
    let mut setup = MessageX::connect(&address);
    setup.declare("work");
    setup.declare("flood");
    for n in 0..6 {
        setup.publish("work", &json!(n));
    }
    let mut worker = MessageX::connect(&address);
    let tag = worker.consume("work", 2);
    let mut victim = MessageX::connect(&address);
    victim.consume("work", 2);
    let held = [worker.delivery(), worker.delivery()];
    let _ = (victim.delivery(), victim.delivery());

    fs::write(&switch, "").expect("switch");
    // publishers wait, more of them than the admission budget holds
    let big = "x".repeat(900 * 1024);
    let publishers: Vec<_> = (0..4)
        .map(|_| {
            let (address, big) = (address.clone(), big.clone());
            std::thread::spawn(move || {
                let mut publisher = MessageX::connect(&address);
                let ids: Vec<_> = (0..15)
                    .map_while(|_| {
                        let payload = json!({"routingKey": "flood", "body": big, "persistent": true});
                        publisher.try_send("PUBLISH", payload).ok()
                    })
                    .collect();
                ids.iter().filter(|id| matches!(publisher.try_response(id), Ok(Ok(_)))).count()
            })
        })
        .collect();
    wait_until("the admission budget to be used", || {
        (gateway.metric("framegate_admission_bytes") > 8.0 * 1024.0 * 1024.0).then_some(())
    });

    worker.ok("CANCEL", json!({"consumerTag": tag}));
    worker.ack(&held[0]);
    drop(victim);
    let mut heir = MessageX::connect(&address);
    heir.consume("work", 10);
    let mut got: Vec<i64> = (0..4).map(|_| heir.delivery()["body"].as_i64().expect("number")).collect();
    got.sort_unstable();
    let mut expected: Vec<i64> = (0..6).collect();
    for d in &held {
        expected.retain(|n| Some(*n) != d["body"].as_i64());
    }
    assert_eq!(got, expected);

    fs::remove_file(&switch).expect("switch");
    let confirmed: usize = publishers.into_iter().map(|p| p.join().expect("publisher")).sum();
    assert_eq!(confirmed, 60, "every waiting publish is confirmed once the disk is back");
}

#[test]
fn a_subscriber_that_never_reads_does_not_hold_up_the_others() {
    let gateway = Gateway::start();
    let address = gateway.address("http");
    let _stuck = Sse::open(&address, "topic=t", &[]);
    let mut reader = Sse::open(&address, "topic=t", &[]);
    let data = "y".repeat(64 * 1024);
    for n in 0..300 {
        let event =
            json!({"specversion": "1.0", "id": format!("{n}"), "source": "/t", "type": "t", "data": data});
        assert_eq!(http::publish(&address, "t", &event).status, 202);
        assert_eq!(reader.next_event().json()["id"], format!("{n}"));
    }
}

#[test]
fn a_consumer_that_never_reads_is_paused_by_its_window_and_others_get_the_rest() {
    let gateway = Gateway::start();
    let address = gateway.address("messagex");
    let mut stuck = MessageX::connect(&address);
    stuck.declare("q");
    stuck.consume("q", 0);
    let mut publisher = MessageX::connect(&address);
    let body = json!("z".repeat(64 * 1024));
    for _ in 0..200 {
        publisher.publish("q", &body);
    }
    let info = publisher.ok("QUEUE_GET", json!({"name": "q"}));
    assert!(info["messageCount"].as_u64().expect("count") > 50, "the window holds the rest back: {info}");
    let mut other = MessageX::connect(&address);
    other.consume("q", 1);
    let d = other.delivery();
    other.ack(&d);
    drop(stuck);
    let mut rest = 0;
    while rest < 199 {
        let d = other.delivery();
        other.ack(&d);
        rest += 1;
    }
}
