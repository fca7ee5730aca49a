//! WebSocket over a socket: both subprotocols, every op of the grammar, flow control, close codes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use harness::messagex::MessageX;
use harness::websocket::Ws;
use harness::{Gateway, Options, http};
use serde_json::{Value, json};

fn event(id: &str, data: &Value) -> Value {
    json!({"specversion": "1.0", "id": id, "source": "/t", "type": "t", "data": data})
}

fn ws(gateway: &Gateway) -> Ws {
    Ws::connect(&gateway.address("http"))
}

#[test]
fn hello_is_welcomed_with_limits() {
    let gateway = Gateway::start();
    let mut c = ws(&gateway);
    let welcome = c.call(json!({"op": "hello", "client": "test/1", "heartbeat": 20}));
    assert_eq!(welcome["op"], "welcome");
    for key in ["maxMessage", "maxInflight", "maxSubs"] {
        assert!(welcome["limits"][key].is_u64(), "{welcome}");
    }
    assert!(welcome["session"].is_string() && welcome["heartbeat"].is_u64(), "{welcome}");
}

#[test]
fn publish_subscribe_unsubscribe_and_ping() {
    let gateway = Gateway::start();
    let mut c = ws(&gateway);
    c.subscribe("s", "t.*");
    let answer = c.call(json!({"op": "subscribe", "sub": "s", "topic": "t"}));
    assert_eq!(answer["op"], "error", "same sub twice: {answer}");
    let mut publisher = ws(&gateway);
    let ok = publisher.call(json!({"op": "publish", "topic": "t.1", "event": event("a", &json!(1))}));
    assert_eq!((&ok["op"], &ok["duplicate"]), (&json!("ok"), &json!(false)));
    let got = c.message();
    assert_eq!((&got["op"], &got["sub"], &got["event"]["data"]), (&json!("event"), &json!("s"), &json!(1)));
    assert!(got["cursor"].is_string() && got["seq"].is_u64(), "{got}");
    let events = json!([event("b", &json!(2)), event("c", &json!(3))]);
    assert_eq!(publisher.call(json!({"op": "publish", "topic": "t.1", "events": events}))["op"], "ok");
    assert_eq!(
        (c.message()["event"]["data"].clone(), c.message()["event"]["data"].clone()),
        (json!(2), json!(3))
    );
    assert_eq!(c.call(json!({"op": "unsubscribe", "sub": "s"}))["op"], "ok");
    c.send_text(r#"{"op":"ping"}"#);
    assert_eq!(c.message()["op"], "pong");
    c.send_text(r#"[{"op":"ping"},{"op":"ping"}]"#);
    assert_eq!((c.message()["op"].clone(), c.message()["op"].clone()), (json!("pong"), json!("pong")));
}

#[test]
fn filters_let_pass_what_matches_and_take_no_credit_for_the_rest() {
    let gateway = Gateway::start();
    let mut c = ws(&gateway);
    let filters = json!([{"any": [{"prefix": {"id": "a"}}, {"sql": "EXISTS vip AND vip"}]}]);
    let op = json!({"op": "subscribe", "sub": "s", "topic": "t", "ack": "explicit", "credit": 2, "filters": filters});
    assert_eq!(c.call(op)["op"], "ok");
    let mut publisher = ws(&gateway);
    for (id, vip) in [("b1", false), ("a1", false), ("b2", false), ("b3", true)] {
        let mut event = event(id, &json!(id));
        event["vip"] = json!(vip);
        assert_eq!(publisher.call(json!({"op": "publish", "topic": "t", "event": event}))["op"], "ok");
    }
    assert_eq!(
        (c.message()["event"]["id"].clone(), c.message()["event"]["id"].clone()),
        (json!("a1"), json!("b3"))
    );
    let code = |op: Value| ws(&gateway).call(op)["code"].clone();
    let bad = json!([{"sql": "vip AND"}]);
    assert_eq!(code(json!({"op": "subscribe", "sub": "s", "topic": "t", "filters": bad})), "bad_request");
    let queue = json!({"op": "subscribe", "sub": "s", "queue": "q", "filters": [{"sql": "TRUE"}]});
    assert_eq!(code(queue), "bad_request");
}

#[test]
fn every_start_is_known_and_a_lost_cursor_is_said() {
    let gateway = Gateway::start();
    for n in 0..4 {
        assert_eq!(
            http::publish(&gateway.address("http"), "t", &event(&n.to_string(), &json!(n))).status,
            202
        );
    }
    let mut c = ws(&gateway);
    let mut start = |sub: &str, from: Value| {
        let ok = c.call(json!({"op": "subscribe", "sub": sub, "topic": "t", "from": from}));
        assert_eq!(ok["op"], "ok", "{ok}");
        let first = loop {
            let message = c.message();
            if message["op"] == "event" && message["sub"] == sub {
                break message;
            }
        };
        let id = c.send(json!({"op": "unsubscribe", "sub": sub}));
        while c.message()["id"] != id {}
        (ok, first)
    };
    let (ok, first) = start("a", json!("earliest"));
    assert_eq!((&ok["lost"], &first["event"]["data"]), (&json!(false), &json!(0)));
    let (ok, next) = start("b", first["cursor"].clone());
    assert_eq!((&ok["lost"], &next["event"]["data"]), (&json!(false), &json!(1)));
    let (_, timed) = start("c", json!({"time": "2020-01-01T00:00:00Z"}));
    assert_eq!(timed["event"]["data"], 0);
    let (ok, lost) = start("d", json!("abc.0:1"));
    assert_eq!((&ok["lost"], &lost["event"]["data"]), (&json!(true), &json!(0)));
}

#[test]
fn a_queue_is_consumed_with_credit_and_explicit_acks() {
    let gateway = Gateway::start();
    let mut x = MessageX::connect(&gateway.address("messagex"));
    x.declare("q");
    for n in 0..6 {
        x.publish("q", &json!(n));
    }
    let mut c = ws(&gateway);
    let subscribe = json!({"op": "subscribe", "sub": "s", "queue": "q", "ack": "explicit", "credit": 2});
    assert_eq!(c.call(subscribe)["op"], "ok");
    let (a, b) = (c.message(), c.message());
    assert_eq!((&a["event"]["data"], &b["event"]["data"], &a["attempt"]), (&json!(0), &json!(1), &json!(1)));
    let counts = x.ok("QUEUE_GET", json!({"name": "q"}));
    assert_eq!(
        (&counts["unackedCount"], &counts["messageCount"]),
        (&json!(2), &json!(4)),
        "credit is respected"
    );
    c.send(json!({"op": "ack", "sub": "s", "ackIds": [a["ackId"]]}));
    let mut answers = [c.message(), c.message()];
    answers.sort_by_key(|m| m["op"] == "event");
    assert_eq!((&answers[0]["op"], &answers[1]["event"]["data"]), (&json!("ok"), &json!(2)));
    c.send(json!({"op": "nack", "sub": "s", "ackIds": [b["ackId"]], "reason": "again"}));
    let mut answers = [c.message(), c.message()];
    answers.sort_by_key(|m| m["op"] == "event");
    assert_eq!((&answers[1]["event"]["data"], &answers[1]["attempt"]), (&json!(1), &json!(2)));
    let extend = json!({"op": "extend", "sub": "s", "ackIds": [answers[1]["ackId"]], "by": 30000});
    assert_eq!(c.call(extend)["op"], "ok");
    assert_eq!(c.call(json!({"op": "pause", "sub": "s"}))["op"], "ok");
    assert_eq!(c.call(json!({"op": "credit", "sub": "s", "add": 2}))["op"], "ok");
    assert_eq!(c.call(json!({"op": "ping"}))["op"], "pong", "paused: nothing comes");
    let id = c.send(json!({"op": "resume", "sub": "s"}));
    let mut got = Vec::new();
    while got.len() < 2 {
        let message = c.message();
        if message["op"] == "event" {
            got.push(message["event"]["data"].clone());
        } else {
            assert_eq!(message["id"], id, "{message}");
        }
    }
    assert_eq!(got, [json!(3), json!(4)]);
}

#[test]
fn mistakes_are_answered_and_the_connection_stays() {
    let gateway = Gateway::start();
    let mut c = ws(&gateway);
    let mut code = |op: Value| {
        let answer = c.call(op);
        assert_eq!(answer["op"], "error", "{answer}");
        answer["code"].as_str().expect("code").to_owned()
    };
    assert_eq!(code(json!({"op": "jump"})), "unknown_op");
    assert_eq!(code(json!({"op": "subscribe", "sub": "s", "queue": "none"})), "not_found");
    assert_eq!(code(json!({"op": "subscribe", "sub": "s"})), "bad_request");
    assert_eq!(code(json!({"op": "unsubscribe", "sub": "none"})), "not_found");
    assert_eq!(code(json!({"op": "publish", "topic": "t", "event": {"id": "x"}})), "invalid_event");
    for op in ["request", "history", "presence"] {
        assert_eq!(code(json!({"op": op, "topic": "t"})), "not_implemented");
    }
    c.send_binary(b"x");
    assert!(matches!(c.receive(), Err(1003) | Ok(_)));
}

#[test]
fn invalid_json_three_times_closes() {
    let gateway = Gateway::start();
    let mut c = ws(&gateway);
    for _ in 0..3 {
        c.send_text("{");
    }
    let code = loop {
        match c.receive() {
            Ok(message) => assert_eq!(message["op"], "error", "{message}"),
            Err(code) => break code,
        }
    };
    assert!(code == 4400 || code == 1007, "{code}");
}

#[test]
fn too_large_a_message_closes_with_1009() {
    let gateway = Gateway::start();
    let mut c = ws(&gateway);
    c.send_text(&"x".repeat(1_200_000));
    assert_eq!(c.receive().expect_err("closed"), 1009);
}

#[test]
fn the_pure_binding_publishes_and_consumes_events() {
    let gateway = Gateway::start();
    let mut c =
        Ws::try_connect(&gateway.address("http"), "?topic=pure", "cloudevents.json").expect("connected");
    let sent = event("1", &json!({"a": 1}));
    c.send_text(&sent.to_string());
    let got = c.message();
    assert_eq!(
        (&got["id"], &got["data"], &got["specversion"]),
        (&json!("1"), &json!({"a": 1}), &json!("1.0"))
    );
}

#[test]
fn tokens_come_in_the_subprotocol_list_the_query_or_hello_and_are_not_echoed() {
    let config = "[[auth.tokens]]\nname = \"r\"\ntoken = \"tok\"\npermissions = [{ vhost = \"/\", read = \"open\" }]\n";
    let gateway = Gateway::start_with(Options::default().config(config));
    let address = gateway.address("http");
    let mut by_protocol = Ws::try_connect(&address, "", "framegate.v1.json, bearer.tok").expect("connected");
    by_protocol.subscribe("s", "open");
    let refused = by_protocol.call(json!({"op": "subscribe", "sub": "x", "topic": "closed"}));
    assert_eq!((&refused["code"], &refused["status"]), (&json!("forbidden"), &json!(403)));
    let mut by_query =
        Ws::try_connect(&address, "?access_token=tok", "framegate.v1.json").expect("connected");
    by_query.subscribe("s", "open");
    let mut by_hello = Ws::try_connect(&address, "", "framegate.v1.json").expect("connected");
    assert_eq!(by_hello.call(json!({"op": "hello", "token": "tok"}))["op"], "welcome");
    by_hello.subscribe("s", "open");
    let mut wrong = Ws::try_connect(&address, "", "framegate.v1.json").expect("connected");
    wrong.send(json!({"op": "hello", "token": "no"}));
    let code = loop {
        if let Err(code) = wrong.receive() {
            break code;
        }
    };
    assert_eq!(code, 4401);
}

#[test]
fn refusals_before_the_upgrade_are_problem_documents() {
    let gateway = Gateway::start();
    let address = gateway.address("http");
    let ask = |headers: &str| {
        let mut socket = TcpStream::connect(&address).expect("connected");
        let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nUpgrade: websocket\r\n";
        let request = format!("GET /v1/ws HTTP/1.1\r\nHost: {address}\r\n{key}{headers}\r\n");
        socket.write_all(request.as_bytes()).expect("written");
        let mut lines = BufReader::new(socket);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(lines.read_line(&mut head).expect("read"), 0, "{head}");
        }
        head.make_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        let mut body = vec![0; length.parse().expect("a number")];
        lines.read_exact(&mut body).expect("read");
        (head, serde_json::from_slice::<Value>(&body).expect("JSON"))
    };
    let cases = [
        ("", 426, "upgrade_required"),
        ("Connection: Upgrade\r\nSec-WebSocket-Version: 8\r\n", 426, "upgrade_required"),
        ("Connection: keep-alive\r\nSec-WebSocket-Version: 13\r\n", 400, "bad_request"),
        (
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nOrigin: http://page.example\r\n",
            403,
            "origin_refused",
        ),
    ];
    for (headers, status, code) in cases {
        let (head, body) = ask(headers);
        assert!(head.starts_with(&format!("http/1.1 {status} ")), "{head}");
        assert!(head.contains("content-type: application/problem+json"), "{head}");
        assert_eq!(head.contains("sec-websocket-version: 13"), status == 426, "{head}");
        assert_eq!((&body["code"], &body["status"]), (&json!(code), &json!(status)));
        assert_eq!(body["type"], format!("urn:framegate:error:{code}"));
    }
}
