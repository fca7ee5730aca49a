//! Nothing confirmed is lost, nothing is invented, whatever moment the process is killed at. The ledger is the
//! client's own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use harness::messagex::MessageX;
use harness::sse::Sse;
use harness::{Gateway, Options, http, wait_until};
use serde_json::json;

/// What a client knows: sequence number sent, and whether it was confirmed.
#[derive(Default)]
struct Ledger {
    sent: u64,
    confirmed: u64,
}

/// Publishes numbered messages, pipelined, until the connection breaks. Confirms come in order.
fn publish_until_broken(address: &str, ledger: &Mutex<Ledger>, confirmed: &AtomicU64, stop: &AtomicBool) {
    let mut client = MessageX::connect(address);
    let mut waiting = std::collections::VecDeque::new();
    while !stop.load(Ordering::Relaxed) {
        while waiting.len() < 32 {
            let n = {
                let mut ledger = ledger.lock().expect("ledger");
                ledger.sent += 1;
                ledger.sent
            };
            match client.try_send("PUBLISH", json!({"routingKey": "ledger", "body": n, "persistent": true})) {
                Ok(id) => waiting.push_back((id, n)),
                Err(_) => return,
            }
        }
        let (id, n) = waiting.pop_front().expect("32 wait");
        match client.try_response(&id) {
            Ok(Ok(_)) => {
                let mut ledger = ledger.lock().expect("ledger");
                ledger.confirmed = n;
                confirmed.fetch_add(1, Ordering::Relaxed);
            }
            _ => return,
        }
    }
}

/// Empties the queue and checks it against the ledger; gives the messages seen, or what is wrong.
fn check(gateway: &Gateway, ledger: &Ledger, from: u64) -> Result<u64, String> {
    let mut client = MessageX::connect(&gateway.address("messagex"));
    let mut seen: Vec<u64> = Vec::new();
    while let Some(message) = client.get("ledger") {
        seen.push(message["body"].as_u64().expect("number"));
    }
    if !seen.is_sorted_by(|a, b| a < b) {
        return Err(format!("order: {seen:?}"));
    }
    if let Some(invented) = seen.iter().find(|n| **n > ledger.sent || **n <= from) {
        return Err(format!("message {invented} was never sent since {from} (sent {})", ledger.sent));
    }
    let missing = (from + 1..=ledger.confirmed).find(|n| !seen.contains(n));
    match missing {
        Some(n) => Err(format!("confirmed message {n} is lost (confirmed up to {})", ledger.confirmed)),
        None => Ok(seen.len() as u64),
    }
}

/// `block`: a file that keeps the disk from syncing while it exists; each kill then comes after a confirm that came
/// while it was there.
fn kill_rounds(rounds: u32, options: &Options, block: Option<&Path>) -> Result<u64, String> {
    let mut gateway = Gateway::start_with(options.clone());
    MessageX::connect(&gateway.address("messagex")).declare("ledger");
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let mut total = 0;
    for _ in 0..rounds {
        let from = ledger.lock().expect("ledger").sent;
        ledger.lock().expect("ledger").confirmed = from;
        let confirmed = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let address = gateway.address("messagex");
        let publisher = {
            let (ledger, confirmed, stop) = (Arc::clone(&ledger), Arc::clone(&confirmed), Arc::clone(&stop));
            std::thread::spawn(move || publish_until_broken(&address, &ledger, &confirmed, &stop))
        };
        wait_until("100 confirms", || (confirmed.load(Ordering::Relaxed) >= 100).then_some(()));
        if let Some(block) = block {
            std::fs::write(block, "").expect("switch");
            let before = confirmed.load(Ordering::Relaxed);
            wait_until("one more confirm", || (confirmed.load(Ordering::Relaxed) > before).then_some(()));
        }
        gateway.kill();
        let _ = block.map(std::fs::remove_file);
        stop.store(true, Ordering::Relaxed);
        publisher.join().expect("publisher ends");
        gateway = gateway.kill_and_restart();
        let ledger = ledger.lock().expect("ledger");
        assert!(ledger.sent > ledger.confirmed, "the kill came while a publish was unanswered");
        total += check(&gateway, &ledger, from)?;
    }
    Ok(total)
}

#[test]
fn fifty_kills_lose_no_confirmed_message_and_invent_none() {
    let rounds = std::env::var("KILL_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(50);
    let total = kill_rounds(rounds, &Options::default(), None).expect("no loss");
    println!("kill rounds: {rounds}, messages checked: {total}");
}

#[test]
fn the_kill_test_notices_a_server_that_confirms_before_the_sync() {
    let dir = tempfile::tempdir().expect("folder");
    let block = dir.path().join("blocked");
    let faults = format!("confirm-before-sync,hold-unsynced,block-sync-while={}", block.display());
    let result = kill_rounds(10, &Options::default().env("FRAMEGATE_FAULTS", &faults), Some(&block));
    assert!(result.is_err(), "the control must report a loss");
    println!("control: {}", result.expect_err("a loss"));
}

#[test]
fn an_acked_message_does_not_come_back_and_an_unacked_one_does() {
    let gateway = Gateway::start();
    let mut c = MessageX::connect(&gateway.address("messagex"));
    c.declare("q");
    for n in 0..10 {
        c.publish("q", &json!(n));
    }
    c.consume("q", 10);
    for n in 0..10 {
        let d = c.delivery();
        if n % 2 == 0 {
            c.ack(&d);
        }
    }
    // a later confirmed publish covers the acks before it in the same log
    c.publish("q", &json!(10));
    let gateway = gateway.kill_and_restart();
    let mut c = MessageX::connect(&gateway.address("messagex"));
    let mut left = Vec::new();
    while let Some(m) = c.get("q") {
        left.push((m["body"].as_i64().expect("number"), m["redelivered"] == true));
    }
    assert_eq!(left.iter().map(|l| l.0).collect::<Vec<_>>(), [1, 3, 5, 7, 9, 10]);
}

#[test]
fn transient_messages_and_queues_do_not_survive_and_durable_ones_do() {
    let gateway = Gateway::start();
    let mut c = MessageX::connect(&gateway.address("messagex"));
    c.declare("durable");
    c.ok("QUEUE_DECLARE", json!({"name": "volatile"}));
    c.ok("PUBLISH", json!({"routingKey": "durable", "body": "transient"}));
    c.publish("durable", &json!("persistent"));
    c.publish("volatile", &json!("persistent"));
    let gateway = gateway.kill_and_restart();
    let mut c = MessageX::connect(&gateway.address("messagex"));
    assert_eq!(c.fails("QUEUE_GET", json!({"name": "volatile"})), "QUEUE_NOT_FOUND");
    assert_eq!(c.get("durable").expect("kept")["body"], "persistent");
    assert!(c.get("durable").is_none());
}

#[test]
fn a_restart_resumes_a_cursor_exactly_and_a_new_store_says_that_it_cannot() {
    let gateway = Gateway::start();
    for n in 0..5 {
        let event =
            json!({"specversion": "1.0", "id": format!("e{n}"), "source": "/t", "type": "t", "data": n});
        assert_eq!(http::publish(&gateway.address("http"), "t", &event).status, 202);
    }
    let mut sse = Sse::open(&gateway.address("http"), "topic=t&lastEventId=earliest", &[]);
    let cursor = (0..3).map(|_| sse.next_event().id).last().expect("three");
    let gateway = gateway.kill_and_restart();
    let mut sse = Sse::open(&gateway.address("http"), "topic=t", &[("Last-Event-ID", &cursor)]);
    assert_eq!(sse.header("x-framegate-resume"), Some("exact"));
    let event = sse.try_next().expect("open").expect("event");
    assert_eq!(event.json()["data"], 3, "no loss notice comes first: {event:?}");

    let other = Gateway::start();
    let event = json!({"specversion": "1.0", "id": "n", "source": "/t", "type": "t", "data": "new"});
    assert_eq!(http::publish(&other.address("http"), "t", &event).status, 202);
    let mut sse = Sse::open(&other.address("http"), "topic=t", &[("Last-Event-ID", &cursor)]);
    let notice = sse.try_next().expect("open").expect("event");
    assert_eq!(notice.name, "framegate");
    assert_eq!((&notice.json()["lost"], &notice.json()["requested"]), (&json!(true), &json!(cursor)));
    assert_eq!(sse.next_event().json()["data"], "new");
}

#[test]
fn after_a_cut_of_unsynced_data_no_offset_or_id_that_was_seen_names_another_event() {
    let options = Options::default().env("FRAMEGATE_FAULTS", "hold-unsynced");
    let mut gateway = Gateway::start_with(options);
    let mut seen: BTreeMap<String, (String, u64)> = BTreeMap::new();
    let mut ids = std::collections::BTreeSet::new();
    for round in 0..5_u64 {
        let address = gateway.address("http");
        let mut sse = Sse::open(&address, "topic=t", &[]);
        let publisher = {
            let address = address.clone();
            std::thread::spawn(move || {
                for n in 0..10_000_u64 {
                    let headers = [("Content-Type", "text/plain")];
                    let body = format!("{round}-{n}");
                    if http::try_request(&address, "POST", "/v1/topics/t/events", &headers, body.as_bytes())
                        .is_err()
                    {
                        return;
                    }
                }
            })
        };
        for _ in 0..30 {
            let event = sse.next_event();
            let value = event.json();
            let data = value["data"].as_str().expect("text").to_owned();
            let known = seen.insert(event.id.clone(), (data.clone(), round));
            assert!(known.is_none(), "cursor {} named {known:?} and now {data}", event.id);
            assert!(
                ids.insert(value["id"].as_str().expect("id").to_owned()),
                "generated id repeats: {value}"
            );
        }
        gateway.kill();
        publisher.join().expect("publisher ends");
        gateway = gateway.kill_and_restart();
        let mut replay = Sse::open(&gateway.address("http"), "topic=t&lastEventId=earliest", &[]);
        let mut wanted: BTreeMap<_, _> = seen.iter().filter(|(_, (_, r))| *r == round).collect();
        while !wanted.is_empty() {
            let event = replay.next_event();
            if let Some((data, _)) = wanted.remove(&event.id) {
                assert_eq!(event.json()["data"], *data, "what was seen is still there");
            }
        }
    }
}
