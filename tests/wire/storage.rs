//! What an operator does with a data directory: look into it, save it after damage, stop on a full disk.

use std::fs;
use std::path::{Path, PathBuf};

use harness::gateway::run;
use harness::messagex::MessageX;
use harness::{Gateway, Options, wait_until};
use serde_json::{Value, json};

fn inspect(dir: &Path, home: &Path) -> Value {
    let (code, out, err) = run(&["inspect", "--json", dir.to_str().expect("path")], &[], home);
    assert_eq!(code, Some(0), "{err}");
    serde_json::from_str(&out).expect("JSON")
}

#[test]
fn inspect_shows_a_directory_whether_a_broker_runs_on_it_or_not() {
    let limits = "[limits]\nsnapshot_every_ms = 20\n";
    let mut gateway = Gateway::start_with(Options::default().config(limits));
    let mut x = MessageX::connect(&gateway.address("messagex"));
    x.declare("q");
    for n in 0..20 {
        x.publish("q", &json!(n));
    }
    wait_until("a snapshot", || (gateway.metric("framegate_snapshots_total") >= 1.0).then_some(()));
    assert!(gateway.metric("framegate_snapshot_age_seconds") >= 0.0);
    let data = gateway.home().join("data");
    let home = gateway.home().to_owned();
    for running in [true, false] {
        if !running {
            gateway.kill();
        }
        let found = inspect(&data, &home);
        let queue = found["queues"].as_array().expect("queues").iter().find(|q| q["name"] == "q");
        assert_eq!(queue.expect("the queue")["messages"], 20, "running {running}: {found}");
        assert!(found["snapshot"]["age_seconds"].as_f64().is_some(), "{found}");
        assert!(found["live_bytes"].as_u64().expect("a number") > 0);
        assert!(!found["segments"].as_array().expect("segments").is_empty());
    }
    let (code, text, _) = run(&["inspect", data.to_str().expect("path")], &[], &home);
    assert_eq!(code, Some(0));
    assert!(text.contains("queue      / q 20 messages"), "{text}");
    let (code, _, err) = run(&["inspect", "nowhere"], &[], &home);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("nowhere"), "{err}");
}

/// Flips a bit of a message's body in the log.
fn damage(data: &Path, body: &str) -> PathBuf {
    for entry in fs::read_dir(data).expect("directory") {
        let path = entry.expect("entry").path();
        let mut bytes = fs::read(&path).expect("file");
        let found = bytes.windows(body.len()).position(|window| window == body.as_bytes());
        if let Some(at) = found.filter(|_| path.to_string_lossy().ends_with(".log")) {
            bytes[at] ^= 1;
            fs::write(&path, bytes).expect("written");
            return path;
        }
    }
    panic!("{body} is in no segment");
}

#[test]
fn a_flipped_bit_is_refused_with_the_repair_command_and_the_command_saves_the_rest() {
    let mut gateway = Gateway::start();
    let mut x = MessageX::connect(&gateway.address("messagex"));
    x.declare("q");
    for n in 0..10 {
        x.publish("q", &json!(format!("needle-{n}")));
    }
    gateway.kill();
    let home = gateway.home().to_owned();
    let data = home.join("data");
    let file = damage(&data, "needle-4");
    let args = ["--data-dir", data.to_str().expect("path"), "--listen", "http=127.0.0.1:0"];
    let (code, _, err) = run(&args, &[], &home);
    assert_eq!(code, Some(70), "{err}");
    let command = format!("framegate repair {0} {0}-repaired", data.display());
    for words in [file.to_str().expect("path"), "at byte ", "records from there on are lost", &command] {
        assert!(err.contains(words), "{words} is not in: {err}");
    }
    // exactly what it says
    let said: Vec<&str> = command.split(' ').skip(1).collect();
    let (code, out, err) = run(&said, &[], &home);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("lost: ") && out.contains("1 records from "), "{out}");
    assert!(out.contains(&format!("framegate --data-dir {}-repaired", data.display())), "{out}");
    let (code, _, err) = run(&said, &[], &home);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("not empty"), "{err}");
    fs::rename(&data, home.join("damaged")).expect("moved");
    fs::rename(home.join("data-repaired"), &data).expect("moved");
    let gateway = gateway.kill_and_restart();
    let mut x = MessageX::connect(&gateway.address("messagex"));
    let mut left = Vec::new();
    while let Some(message) = x.get("q") {
        left.push(message["body"].as_str().expect("text").to_owned());
    }
    let expected: Vec<String> = (0..10).filter(|n| *n != 4).map(|n| format!("needle-{n}")).collect();
    assert_eq!(left, expected);
}

#[test]
fn a_stop_on_a_full_disk_ends() {
    let dir = tempfile::tempdir().expect("folder");
    let switch = dir.path().join("full");
    let faults = format!("full-when={}", switch.display());
    let options = Options::default().env("FRAMEGATE_FAULTS", &faults).config("[limits]\nstop_full_ms = 50\n");
    let mut gateway = Gateway::start_with(options);
    let mut x = MessageX::connect(&gateway.address("messagex"));
    x.declare("q");
    x.publish("q", &json!("safe"));
    fs::write(&switch, "").expect("switch");
    let _ = x.try_send("PUBLISH", json!({"routingKey": "q", "body": "never confirmed", "persistent": true}));
    gateway.terminate();
    let status = gateway.wait();
    assert!(!status.success(), "something was not written");
    fs::remove_file(&switch).expect("switch");
    let gateway = gateway.kill_and_restart();
    let mut x = MessageX::connect(&gateway.address("messagex"));
    assert_eq!(x.get("q").expect("kept")["body"], "safe");
}
