//! Requests in, effects out: batches, backpressure, the window, logins.

use framegate_broker::{Effect, Query, Reply, Request, RequestId, Stats};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Duration, Instant, timeout};

use super::fake_broker::delivery;
use super::{FakeSession, Rig};
use crate::session::{Progress, Session as _};

fn reply(id: u64) -> Effect {
    Effect::Reply(RequestId(id), Ok(Reply::Stats(Stats::default())))
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_read_are_one_batch() {
    let mut rig = Rig::start();
    rig.send("echo up\nask\nask\necho x\nask\n").await;
    rig.expect("up\nx\n").await;
    assert_eq!(rig.broker.batch().await, [1, 2, 3]);
    rig.broker.say(vec![reply(1), reply(2), reply(3)]);
    rig.expect("reply 1\nreply 2\nreply 3\n").await;
}

#[tokio::test(start_paused = true)]
async fn blocked_batch_stops_reading_but_not_deliveries() {
    let mut rig = Rig::new(64, 1 << 20, FakeSession::default());
    rig.send("echo up\n").await;
    rig.expect("up\n").await;
    rig.broker.blocked.send_replace(true);
    rig.send("ask\n").await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    // The pipe holds 64 bytes; a server that reads would take these.
    let line = "echo 123456789\n".repeat(10);
    let sent = timeout(Duration::from_secs(5), rig.client.write_all(line.as_bytes())).await;
    assert!(sent.is_err(), "the socket was read");
    rig.broker.say(vec![delivery("pushed")]);
    rig.expect("pushed\n").await;
    assert!(!rig.broker.has_batch());
    rig.broker.blocked.send_replace(false);
    rig.expect("123456789\n").await;
    assert_eq!(rig.broker.batch().await, [1]);
}

#[tokio::test(start_paused = true)]
async fn peer_that_takes_no_answers_is_not_read_for_more_questions() {
    let mut rig = Rig::new(64, 1 << 20, FakeSession::default());
    rig.send("echo up\n").await;
    rig.expect("up\n").await;
    // output that does not fit the pipe, and is little otherwise
    rig.send("flood 1\n").await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    for id in 1..=20 {
        rig.broker.say(vec![reply(id)]);
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    rig.send("ask\n").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!rig.broker.has_batch(), "what is answered already waits");
    rig.expect(&"x".repeat(1024)).await;
    let answers: String = (1..=20).map(|id| format!("reply {id}\n")).collect();
    rig.expect(&answers).await;
    assert_eq!(rig.broker.batch().await, [1]);
}

#[tokio::test(start_paused = true)]
async fn session_hears_that_its_silent_peer_is_not_read() {
    let mut rig = Rig::new(64, 1 << 20, FakeSession::ticking(Duration::from_secs(5)));
    rig.expect("tick 0\n").await;
    rig.expect("tick 0\n").await;
    rig.expect("tick 5000\n").await;
    rig.broker.blocked.send_replace(true);
    rig.send("ask\n").await;
    rig.expect("tick 10000 unread\ntick 15000 unread\n").await;
    rig.broker.blocked.send_replace(false);
    assert_eq!(rig.broker.batch().await, [1]);
    rig.expect("tick 20000\n").await;
}

#[tokio::test(start_paused = true)]
async fn window_comes_back_when_deliveries_are_written() {
    let mut rig = Rig::new(256, 1 << 20, FakeSession::default());
    rig.send("echo up\n").await;
    rig.expect("up\n").await;
    let body = "d".repeat(1000);
    let effects = vec![delivery(&body), delivery("small")];
    let window: usize =
        effects.iter().map(|e| if let Effect::Delivery(d) = e { d.window_bytes() } else { 0 }).sum();
    rig.broker.say(effects);
    rig.expect(&body[..500]).await;
    assert_eq!(rig.broker.written(), 0, "half of it waits");
    rig.expect(&body[500..]).await;
    rig.expect("\nsmall\n").await;
    rig.send("echo done\n").await;
    rig.expect("done\n").await;
    assert_eq!(rig.broker.written(), window);
    let Effect::Delivery(pulled) = delivery("pulled") else { panic!("is a delivery") };
    let window = window + pulled.window_bytes();
    let fetched = Reply::Fetched { messages: vec![pulled], remaining: 0 };
    rig.broker.say(vec![Effect::Reply(RequestId(9), Ok(fetched))]);
    rig.expect("reply 9\n").await;
    rig.send("echo done\n").await;
    rig.expect("done\n").await;
    assert_eq!(rig.broker.written(), window, "pulled messages take part in the window");
}

#[tokio::test(start_paused = true)]
async fn output_is_the_same_at_every_split() {
    let input = "echo a\nbig 5\n12345echo b\nask\necho c\nquit\n";
    for split in 1..input.len() {
        let mut rig = Rig::start();
        rig.send(&input[..split]).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        rig.send(&input[split..]).await;
        let broker = rig.broker.clone();
        rig.expect_end("a\n5\nb\nc\nbye\n").await;
        assert_eq!(broker.batch().await, [1], "split at {split}");
    }
}

#[tokio::test(start_paused = true)]
async fn byte_at_a_time_gives_the_same_output() {
    let mut rig = Rig::start();
    for byte in "echo a\nbig 3\n123ask\nquit\n".chars() {
        rig.send(&byte.to_string()).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    rig.expect_end("a\n3\nbye\n").await;
}

#[tokio::test(start_paused = true)]
async fn input_behind_a_login_waits_for_it() {
    let mut rig = Rig::new(4096, 1 << 20, FakeSession::logged_out());
    rig.broker.blocked.send_replace(true);
    rig.send("login alice\necho after\nask\n").await;
    let mut byte = [0];
    let early = timeout(Duration::from_secs(1), rig.client.read_exact(&mut byte)).await;
    assert!(early.is_err(), "answered before the login");
    rig.broker.blocked.send_replace(false);
    rig.expect("after\n").await;
    assert_eq!(rig.broker.batch().await, [1]);
}

#[tokio::test(start_paused = true)]
async fn second_login_replaces_the_connection() {
    let mut rig = Rig::start();
    rig.send("ask\nlogin bob\necho after\n").await;
    rig.expect("welcome bob\nafter\n").await;
    assert_eq!(
        rig.broker.log(),
        ["connect alice / lines 127.0.0.1:1234", "disconnect 1", "connect bob / lines 127.0.0.1:1234"]
    );
    assert_eq!(rig.broker.batch().await, [1], "requests before the login went first");
    rig.broker.say(vec![delivery("to bob")]);
    rig.expect("to bob\n").await;
}

#[tokio::test(start_paused = true)]
async fn refused_login_is_told_and_keeps_the_old_one() {
    let mut rig = Rig::start();
    rig.send("login mallory\necho after\nask\n").await;
    rig.expect("login refused\nafter\n").await;
    assert_eq!(rig.broker.batch().await, [1]);
    assert_eq!(rig.broker.lines_open(), 1);
    assert_eq!(rig.metrics.refused_total.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn request_before_login_closes() {
    let mut rig = Rig::new(4096, 1 << 20, FakeSession::logged_out());
    rig.send("echo a\nask\n").await;
    rig.expect_end("a\n").await;
}

#[tokio::test(start_paused = true)]
async fn large_output_reaches_a_slow_but_living_reader() {
    let mut rig = Rig::new(1000, 1 << 20, FakeSession::default());
    rig.send("flood 100\nquit\n").await;
    let started = Instant::now();
    let mut got = Vec::new();
    let mut piece = [0; 4000];
    loop {
        tokio::time::sleep(Duration::from_secs(20)).await;
        let bytes = rig.client.read(&mut piece).await.unwrap();
        if bytes == 0 {
            break;
        }
        got.extend_from_slice(&piece[..bytes]);
    }
    assert_eq!(got.len(), 100 * 1024 + 4);
    assert!(started.elapsed() > Duration::from_secs(30));
}

#[test]
fn fake_session_needs_whole_packets() {
    let mut out = crate::Outbound::default();
    let progress = FakeSession::default().read(b"echo a\nbig 5\n12", &mut out).unwrap();
    assert_eq!(progress, Progress { consumed: 7, need: 11 });
    out.request(RequestId(1), Request::Query(Query::Stats));
    assert_eq!(out.requests.len(), 1);
}
