//! Subscriptions: start, feed, pause, end.

use tokio::io::AsyncReadExt as _;
use tokio::time::{Duration, timeout};

use super::{FakeSession, Rig};

async fn silent(rig: &mut Rig) {
    let mut byte = [0];
    let read = timeout(Duration::from_secs(1), rig.client.read_exact(&mut byte)).await;
    assert!(read.is_err(), "got {byte:?}");
}

#[tokio::test(start_paused = true)]
async fn items_reach_the_session_until_it_unsubscribes() {
    let mut rig = Rig::start();
    rig.send("sub t\n").await;
    rig.expect("subscribed 1\n").await;
    rig.broker.publish(0, "one");
    rig.broker.publish(0, "two");
    rig.expect("1: one\n1: two\n").await;
    rig.send("unsub 1\necho gone\n").await;
    rig.expect("gone\n").await;
    assert!(!rig.broker.feed_is_live(0));
}

#[tokio::test(start_paused = true)]
async fn paused_subscription_keeps_its_place() {
    let mut rig = Rig::start();
    rig.send("sub t\nsub u\n").await;
    rig.expect("subscribed 1\nsubscribed 2\n").await;
    rig.send("pause\necho paused\n").await;
    rig.expect("paused\n").await;
    for text in ["a", "b", "c"] {
        rig.broker.publish(0, text);
    }
    rig.expect("1: a\n").await;
    silent(&mut rig).await;
    rig.broker.publish(1, "x");
    rig.expect("2: x\n").await;
    rig.send("resume 1\n").await;
    rig.expect("1: b\n1: c\n").await;
}

#[tokio::test(start_paused = true)]
async fn refusals_are_told() {
    let mut rig = Rig::start();
    rig.send("sub secret\n").await;
    rig.expect("secrets is not supported by this version\n").await;
    for _ in 0..100 {
        rig.send("sub t\n").await;
    }
    for id in 2..=101 {
        rig.expect(&format!("subscribed {id}\n")).await;
    }
    rig.send("sub t\n").await;
    rig.expect("limit reached: at most 100 subscriptions of a connection\n").await;
}

#[tokio::test(start_paused = true)]
async fn subscription_ended_while_it_starts_never_feeds() {
    let mut rig = Rig::start();
    rig.send("echo up\n").await;
    rig.expect("up\n").await;
    rig.broker.blocked.send_replace(true);
    rig.send("sub t\nunsub 1\necho x\n").await;
    rig.expect("x\n").await;
    rig.broker.blocked.send_replace(false);
    silent(&mut rig).await;
    assert!(!rig.broker.feed_is_live(0));
}

#[tokio::test(start_paused = true)]
async fn subscriptions_end_with_their_user() {
    let mut rig = Rig::start();
    rig.send("sub t\n").await;
    rig.expect("subscribed 1\n").await;
    rig.send("login alice\n").await;
    rig.expect("welcome alice\n").await;
    assert!(rig.broker.feed_is_live(0), "the same user goes on");
    rig.send("login bob\n").await;
    rig.expect("welcome bob\n").await;
    assert!(!rig.broker.feed_is_live(0));
}

#[tokio::test(start_paused = true)]
async fn slow_reader_bounds_what_is_taken() {
    let mut rig = Rig::new(1024, 1 << 20, FakeSession::default());
    rig.send("sub t\n").await;
    rig.expect("subscribed 1\n").await;
    let text = "y".repeat(100_000);
    for _ in 0..50 {
        rig.broker.publish(0, &text);
    }
    let line = format!("1: {text}\n");
    for _ in 0..50 {
        rig.expect(&line).await;
    }
}
