//! What a user sees who starts it wrongly: exit code 2 and one message with the way out.

use std::net::TcpListener;

use harness::gateway::run;
use harness::{Gateway, Options, http};
use serde_json::json;

/// No listener has its usual port, which something else on the machine may have.
const QUIET: [&str; 8] = [
    "--listen",
    "http=127.0.0.1:0",
    "--listen",
    "amqp=off",
    "--listen",
    "bunqueue=off",
    "--listen",
    "eventmesh=off",
];

#[test]
fn a_taken_port_names_listener_address_and_the_way_out() {
    let dir = tempfile::tempdir().expect("folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("port");
    let address = taken.local_addr().expect("address").to_string();
    let listen = format!("messagex={address}");
    let (code, _, err) = run(&[&QUIET[..], &["--listen", &listen]].concat(), &[], dir.path());
    assert_eq!(code, Some(2), "{err}");
    let expected =
        format!("messagex: {address} is in use; stop the other program, or pass --listen messagex=");
    assert!(err.contains(&expected) && err.contains("--listen messagex=off"), "{err}");
}

#[test]
fn an_unknown_key_a_bad_value_and_a_bad_environment_name_file_key_value_and_what_is_allowed() {
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("c.toml");
    let cases = [
        ("[storage]\nsynk = \"group\"\n", vec!["c.toml", "synk", "sync"]),
        ("[storage]\nsync = \"sometimes\"\n", vec!["c.toml", "sync", "sometimes", "group", "interval"]),
        ("shards = 3\n", vec!["c.toml", "shards", "3", "1"]),
        ("[listeners.nosuch]\naddr = \"127.0.0.1:1\"\n", vec!["c.toml", "nosuch"]),
        ("not toml", vec!["c.toml"]),
    ];
    for (text, words) in cases {
        std::fs::write(&file, text).expect("config");
        let (code, _, err) = run(&["--config", "c.toml", "--check"], &[], dir.path());
        assert_eq!(code, Some(2), "{text}: {err}");
        for word in words {
            assert!(err.contains(word), "{text}: {word} is not in: {err}");
        }
    }
    let (code, _, err) = run(&["--check"], &[("FRAMEGATE_STORAGE__SYNC", "never")], dir.path());
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("FRAMEGATE_STORAGE__SYNC") && err.contains("never"), "{err}");
}

#[test]
fn a_data_directory_in_use_is_refused() {
    let gateway = Gateway::start();
    let dir = tempfile::tempdir().expect("folder");
    let data = gateway.home().join("data");
    let data = data.to_str().expect("path");
    let (code, _, err) = run(
        &[&QUIET[..], &["--data-dir", data, "--listen", "messagex=127.0.0.1:0"]].concat(),
        &[],
        dir.path(),
    );
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains(data) && err.contains("in use"), "{err}");
}

#[test]
fn an_open_address_without_credentials_is_refused() {
    let dir = tempfile::tempdir().expect("folder");
    let (code, _, err) = run(&[&QUIET[..], &["--listen", "messagex=0.0.0.0:0"]].concat(), &[], dir.path());
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("--allow-anonymous") && err.contains("messagex"), "{err}");
}

#[test]
fn a_wrong_command_gets_a_suggestion() {
    let dir = tempfile::tempdir().expect("folder");
    let (code, _, err) = run(&["statsu"], &[], dir.path());
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("status"), "{err}");
}

#[test]
fn check_prints_the_effective_configuration_without_secrets() {
    let dir = tempfile::tempdir().expect("folder");
    let text = "[[auth.users]]\nname = \"ann\"\npassword = \"hunter2\"\ntags = [\"monitoring\"]\n";
    std::fs::write(dir.path().join("c.toml"), text).expect("config");
    let (code, out, err) = run(&["--config", "c.toml", "--check"], &[], dir.path());
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("ann") && !out.contains("hunter2"), "{out}");
}

#[test]
fn pub_sub_status_and_queues_work_against_a_running_server() {
    let gateway = Gateway::start();
    let url = format!("http://{}", gateway.address("http"));
    let dir = tempfile::tempdir().expect("folder");
    let (code, out, err) = run(
        &["pub", "news", r#"{"n":1}"#, "--content-type", "application/json", "--url", &url],
        &[],
        dir.path(),
    );
    assert_eq!(code, Some(0), "{out}{err}");
    let (code, out, err) =
        run(&["sub", "news", "--from", "earliest", "--count", "1", "--url", &url], &[], dir.path());
    assert_eq!(code, Some(0), "{err}");
    let event: serde_json::Value = serde_json::from_str(out.trim()).expect("one JSON line");
    assert_eq!(event["data"], json!({"n": 1}));
    let (code, out, _) = run(&["status", "--url", &url], &[], dir.path());
    assert_eq!(code, Some(0));
    assert!(out.contains("news") || out.contains("topics"), "{out}");
    let (code, out, _) = run(&["queues", "--json", "--url", &url], &[], dir.path());
    assert_eq!(code, Some(0));
    assert!(serde_json::from_str::<serde_json::Value>(&out).is_ok(), "{out}");
    let list = |args: &[&str]| {
        let (code, out, err) = run(&[args, &["--json", "--url", &url]].concat(), &[], dir.path());
        assert_eq!(code, Some(0), "{args:?}: {err}");
        let answer: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        let rows = answer[args[0]].as_array().expect("a list").clone();
        rows.iter().map(|row| row["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    let mut x = harness::messagex::MessageX::connect(&gateway.address("messagex"));
    for queue in ["orders.eu", "orders.us", "mail"] {
        x.declare(queue);
    }
    x.publish("orders.us", &json!(1));
    x.consume("mail", 1);
    assert_eq!(list(&["queues"]), ["mail", "orders.eu", "orders.us"]);
    assert_eq!(list(&["queues", "orders*"]), ["orders.eu", "orders.us"]);
    assert_eq!(list(&["queues", "*.us", "--nonempty"]), ["orders.us"]);
    assert_eq!(list(&["queues", "--unused"]), ["orders.eu", "orders.us"]);
    assert_eq!(list(&["topics", "--nonempty"]), ["news"]);
    assert!(list(&["topics", "none"]).is_empty());
    assert_eq!(list(&["exchanges", "amq.*", "--kind", "headers"]), ["amq.headers", "amq.match"]);
    let (code, out, _) = run(&["exchanges", "amq.m*", "--url", &url], &[], dir.path());
    assert_eq!(code, Some(0));
    assert!(out.lines().count() == 2 && out.contains("amq.match") && out.contains("headers"), "{out}");
    let (code, _, err) = run(&["status", "--url", "http://127.0.0.1:1"], &[], dir.path());
    assert_eq!(code, Some(1));
    assert!(err.contains("127.0.0.1:1"), "{err}");
}

#[test]
fn users_and_tokens_of_the_configuration_decide_who_may_do_what() {
    let config = r#"
[[auth.users]]
name = "ann"
password = "secret"
permissions = [{ vhost = "/", configure = ".*", write = ".*", read = ".*" }]

[[auth.tokens]]
name = "reader"
token = "t0ken"
permissions = [{ vhost = "/", read = "open\\..*" }]
"#;
    let gateway = Gateway::start_with(Options::default().config(config));
    let address = gateway.address("http");
    let get = |query: &str, token: Option<&str>| {
        let value = token.map(|t| format!("Bearer {t}")).unwrap_or_default();
        let headers: Vec<(&str, &str)> = token.iter().map(|_| ("Authorization", value.as_str())).collect();
        let stream = http::open(&address, "GET", &format!("/v1/sse?{query}"), &headers, b"").expect("answer");
        (stream.status, stream.headers)
    };
    let (status, headers) = get("topic=open.a", None);
    assert_eq!(status, 401);
    assert!(headers.iter().any(|(n, v)| n == "www-authenticate" && v.starts_with("Bearer")), "{headers:?}");
    assert_eq!(get("topic=open.a", Some("wrong")).0, 401);
    assert_eq!(get("topic=open.a", Some("t0ken")).0, 200);
    assert_eq!(get("topic=closed", Some("t0ken")).0, 403);

    let mut x = harness::messagex::MessageX::connect(&gateway.address("messagex"));
    assert_eq!(x.fails("QUEUE_LIST", json!({})), "UNAUTHORIZED");
    assert_eq!(x.fails("AUTH", json!({"username": "ann", "password": "no"})), "AUTH_FAILED");
    x.ok("AUTH", json!({"username": "ann", "password": "secret"}));
    x.declare("q");
    let mut x = harness::messagex::MessageX::connect(&gateway.address("messagex"));
    x.ok("AUTH", json!({"token": "t0ken"}));
    assert_eq!(x.fails("QUEUE_DECLARE", json!({"name": "other", "durable": true})), "FORBIDDEN");
}
