//! How connections end, and what time does to them.

use std::sync::atomic::Ordering;

use framegate_broker::{Effect, Reply, RequestId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Duration, Instant};

use super::fake_broker::delivery;
use super::{FakeSession, Rig};

#[tokio::test(start_paused = true)]
async fn stop_drains_the_session() {
    let mut rig = Rig::start();
    rig.send("echo up\n").await;
    rig.expect("up\n").await;
    rig.stop.send_replace(true);
    rig.expect_end("draining\n").await;
}

#[tokio::test(start_paused = true)]
async fn half_closed_peer_gets_its_answers() {
    let mut rig = Rig::start();
    rig.send("echo a\nask\nask\n").await;
    rig.client.shutdown().await.unwrap();
    assert_eq!(rig.broker.batch().await, [1, 2]);
    rig.broker.say(vec![Effect::Reply(RequestId(1), Ok(Reply::Done))]);
    rig.broker.say(vec![Effect::Reply(RequestId(2), Ok(Reply::Done))]);
    let started = Instant::now();
    rig.expect_end("a\nreply 1\nreply 2\n").await;
    assert!(started.elapsed() < Duration::from_secs(1), "nothing is waited for once all is answered");
}

#[tokio::test(start_paused = true)]
async fn half_closed_peer_without_questions_is_left_at_once() {
    let mut rig = Rig::start();
    rig.send("echo a\n").await;
    rig.client.shutdown().await.unwrap();
    let started = Instant::now();
    rig.expect_end("a\n").await;
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn half_closed_peer_is_not_waited_for_forever() {
    let mut rig = Rig::start();
    rig.send("ask\n").await;
    rig.client.shutdown().await.unwrap();
    let started = Instant::now();
    rig.expect_end("").await;
    assert_eq!(started.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn requests_before_the_end_are_handed_over() {
    let mut rig = Rig::start();
    rig.send("echo up\n").await;
    rig.expect("up\n").await;
    rig.broker.blocked.send_replace(true);
    rig.send("ask\nquit\n").await;
    rig.expect("bye\n").await;
    assert!(!rig.broker.has_batch());
    rig.broker.blocked.send_replace(false);
    let broker = rig.broker.clone();
    rig.expect_end("").await;
    assert_eq!(broker.batch().await, [1]);
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_session_returns_its_leases() {
    let mut rig = Rig::start();
    rig.send("echo up\n").await;
    rig.expect("up\n").await;
    rig.send("panic\n").await;
    let metrics = rig.metrics.clone();
    rig.expect_end("").await;
    assert_eq!(metrics.panics_total.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn session_error_ends_behind_its_goodbye() {
    let mut rig = Rig::start();
    rig.send("echo up\nnonsense\necho never\n").await;
    rig.expect_end("up\nwhat?\n").await;
}

#[tokio::test(start_paused = true)]
async fn stopped_broker_drains_the_session() {
    let mut rig = Rig::start();
    rig.send("echo up\n").await;
    rig.expect("up\n").await;
    rig.broker.stop();
    rig.expect_end("draining\n").await;
}

#[tokio::test(start_paused = true)]
async fn reader_that_takes_nothing_is_closed() {
    let mut rig = Rig::new(256, 1 << 20, FakeSession::default());
    rig.send("echo up\n").await;
    rig.expect("up\n").await;
    let started = Instant::now();
    rig.broker.say(vec![delivery(&"x".repeat(1000))]);
    (&mut rig.task).await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 30);
    assert_eq!(rig.broker.lines_open(), 0);
    assert_eq!(rig.metrics.slow_closed_total.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_from_the_broker_while_output_waits() {
    let mut rig = Rig::new(256, 1 << 20, FakeSession::default());
    rig.send("echo up\n").await;
    rig.expect("up\n").await;
    rig.broker.say(vec![delivery(&"x".repeat(1000))]);
    rig.expect("x").await;
    rig.broker.say(vec![delivery("second")]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.broker.written(), 0);
    let mut rest = vec![0; 999 + 1 + 7];
    rig.client.read_exact(&mut rest).await.unwrap();
    assert!(rest.ends_with(b"\nsecond\n"));
}

#[tokio::test(start_paused = true)]
async fn ticks_come_when_the_session_asked_for_them() {
    let session = FakeSession::ticking(Duration::from_secs(7));
    let mut rig = Rig::new(4096, 1 << 20, session);
    rig.expect("tick 0\n").await;
    // A login asks again, because it may have changed the session's timing.
    rig.expect("tick 0\n").await;
    rig.expect("tick 7000\ntick 14000\n").await;
}

#[tokio::test(start_paused = true)]
async fn silent_connection_stays_open() {
    let mut rig = Rig::start();
    rig.send("echo up\n").await;
    rig.expect("up\n").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    rig.send("echo still\n").await;
    rig.expect("still\n").await;
}

#[tokio::test(start_paused = true)]
async fn aborted_task_returns_its_leases() {
    let mut rig = Rig::start();
    rig.send("echo up\n").await;
    rig.expect("up\n").await;
    rig.task.abort();
    assert!((&mut rig.task).await.unwrap_err().is_cancelled());
    assert_eq!(rig.broker.lines_open(), 0);
}

#[tokio::test(start_paused = true)]
async fn unread_input_is_swallowed_before_the_end() {
    let mut rig = Rig::new(64, 1 << 20, FakeSession::default());
    rig.send("quit\n").await;
    rig.client.write_all(&[b'z'; 10_000]).await.unwrap();
    rig.client.shutdown().await.unwrap();
    rig.expect_end("bye\n").await;
}

#[test]
fn idle_connection_is_small() {
    use crate::driver::{connection::Connection, port::BrokerPort, stream::StreamWire};
    let bytes = size_of::<Connection<BrokerPort, StreamWire<tokio::net::TcpStream>>>();
    assert!(bytes <= 1536, "{bytes}");
}
