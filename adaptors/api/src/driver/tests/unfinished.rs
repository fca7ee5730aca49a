//! Messages that are still arriving: the budget, the 60 seconds, and that they are not parsed again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::AsyncWriteExt as _;
use tokio::time::{Duration, Instant, timeout};

use super::{FakeSession, Rig, context};
use crate::driver::connection::Connection;
use crate::driver::drive;
use crate::driver::stream::StreamWire;
use crate::{Outbound, Progress, Session, SessionError, UnfinishedBudget, Welcome};

#[tokio::test(start_paused = true)]
async fn unfinished_message_is_charged_beyond_4_kib() {
    let mut rig = Rig::start();
    rig.send("big 200000\n").await;
    rig.client.write_all(&vec![b'b'; 100_000]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(rig.budget.used(), 100_000 + "big 200000\n".len() - 4096);
    rig.client.write_all(&vec![b'b'; 100_000]).await.unwrap();
    rig.expect("200000\n").await;
    assert_eq!(rig.budget.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn exhausted_budget_stops_unfinished_messages_only() {
    let mut rig = Rig::new(1024, 10_000, FakeSession::default());
    rig.send("echo up\n").await;
    rig.expect("up\n").await;
    let mut other = rig.budget.reservation();
    other.set(10_000);
    rig.send("echo whole\n").await;
    rig.expect("whole\n").await;
    rig.send("big 5000\n").await;
    let body = vec![b'b'; 5000];
    let mut at = 0;
    let sent = timeout(Duration::from_secs(5), async {
        while at < body.len() {
            at += rig.client.write(&body[at..]).await.unwrap();
        }
    });
    assert!(sent.await.is_err(), "the socket was read");
    other.set(0);
    rig.client.write_all(&body[at..]).await.unwrap();
    rig.expect("5000\n").await;
}

#[tokio::test(start_paused = true)]
async fn message_that_does_not_grow_ends_its_connection() {
    let mut rig = Rig::start();
    rig.send("echo up\nbig 100\nabc").await;
    rig.expect("up\n").await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    rig.send("d").await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    let started = Instant::now();
    let metrics = Arc::clone(&rig.metrics);
    rig.expect_end("").await;
    assert_eq!(started.elapsed().as_secs(), 10);
    assert_eq!(metrics.stalled_closed_total.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_broker_does_not_count_as_standing_still() {
    let mut rig = Rig::start();
    rig.send("echo up\n").await;
    rig.expect("up\n").await;
    rig.broker.blocked.send_replace(true);
    rig.send("ask\nbig 3\n1").await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    rig.broker.blocked.send_replace(false);
    tokio::time::sleep(Duration::from_secs(50)).await;
    rig.send("23").await;
    rig.expect("3\n").await;
}

#[tokio::test(start_paused = true)]
async fn session_that_waits_for_an_answer_may_leave_input() {
    let mut rig = Rig::new(1000, 1 << 20, FakeSession::default());
    rig.send("ask\nwait\necho later\n").await;
    assert_eq!(rig.broker.batch().await, [1]);
    let filler = "echo 1\n".repeat(20_000);
    let sent = timeout(Duration::from_secs(300), rig.client.write_all(filler.as_bytes())).await;
    assert!(sent.is_err(), "the socket is not read without bound");
    let reply = framegate_broker::Reply::Done;
    rig.broker.say(vec![framegate_broker::Effect::Reply(framegate_broker::RequestId(1), Ok(reply))]);
    rig.expect("reply 1\nlater\n1\n").await;
}

/// Wants one message of a mebibyte, and counts how often it is asked.
struct Counting {
    reads: Arc<AtomicUsize>,
}

impl Session for Counting {
    fn open(&mut self, _: &mut Outbound) {}

    fn read(&mut self, input: &[u8], out: &mut Outbound) -> Result<Progress, SessionError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if input.len() < 1 << 20 {
            return Ok(Progress { consumed: 0, need: 1 << 20 });
        }
        out.close(1000, "done");
        Ok(Progress { consumed: 1 << 20, need: 0 })
    }

    fn logged_in(
        &mut self,
        _: Result<Welcome, crate::LoginError>,
        _: &mut Outbound,
    ) -> Result<(), SessionError> {
        Ok(())
    }

    fn effect(&mut self, _: framegate_broker::Effect, _: &mut Outbound) -> Result<(), SessionError> {
        Ok(())
    }

    fn tick(&mut self, _: Duration, _: &mut Outbound) -> Result<Duration, SessionError> {
        Ok(Duration::MAX)
    }

    fn drain(&mut self, _: &mut Outbound) {}
}

#[tokio::test(start_paused = true)]
async fn large_message_is_parsed_twice_however_it_arrives() {
    let (mut client, server) = tokio::io::duplex(1000);
    let budget = UnfinishedBudget::default();
    let (_stop, stopped) = tokio::sync::watch::channel(false);
    let reads = Arc::<AtomicUsize>::default();
    let session = Box::new(Counting { reads: Arc::clone(&reads) });
    let broker = super::FakeBroker::default();
    let metrics = Arc::default();
    let wire = StreamWire::new(server);
    let connection = Connection::new(session, wire, broker, &context(&budget), stopped, metrics);
    let task = tokio::spawn(async move { drive(Box::new(connection), &Default::default()).await });
    client.write_all(&vec![7; 1 << 20]).await.unwrap();
    drop(client);
    task.await.unwrap();
    assert_eq!(reads.load(Ordering::Relaxed), 2);
}
