//! Q4: queues with priorities.

use framegate_broker::{
    Answer, Delivery, Effect, Outcome, PriorityMode, Publish, QueueProperties, Request, RequestId,
};
use framegate_storage::conformance::SampleRng;

use crate::home::Home;
use crate::queues::{counts, deliveries, texts};
use crate::support::{Client, consumer, frame, name, text};

/// Messages of each level of the deep queue; fewer on simulated files, which keep them all in memory twice.
const OF_A_LEVEL: u64 = 100_000;
const OF_A_LEVEL_SIMULATED: u64 = 2000;
const LEVELS: [i32; 3] = [-1_000_000, 0, 1_000_000];
const BATCH: u64 = 500;
/// Above the ids that the client gives.
const FIRST_REQUEST: u64 = 1_000_000;

async fn declare(client: &mut Client, queue: &str) {
    let properties = QueueProperties { priority: PriorityMode::Full, ..QueueProperties::default() };
    client.declare_with(queue, properties).await;
}

fn message(priority: Option<i32>, body: &str, answer: Answer) -> Request {
    let publish = Publish::new(name(""), name("q"), frame(body));
    Request::Publish(Publish { persistent: true, priority, answer, ..publish })
}

/// Q4.
pub(crate) async fn q4_priorities(home: &mut Home) -> String {
    let broker = home.fresh().await;
    let mut c = Client::new(&broker);
    declare(&mut c, "q").await;
    let mut rng = SampleRng(4);
    // (what sorts it, body): the highest first, the oldest within it
    let mut expected = Vec::new();
    for n in 0..200_i64 {
        let priority = match rng.below(6) {
            0 => None,
            1 => Some([-1_000_000, 1_000_000, i32::MIN, i32::MAX][rng.below(4) as usize]),
            _ => Some(rng.below(7) as i32 - 3),
        };
        c.call(message(priority, &n.to_string(), Answer::Reply)).await.expect("published");
        expected.push((-i64::from(priority.unwrap_or(0)), n));
    }
    expected.sort_unstable();
    let first_of: Vec<i64> = expected.iter().map(|(order, _)| -order).collect();
    let expected: Vec<String> = expected.into_iter().map(|(_, n)| n.to_string()).collect();
    c.consume(1, "q", Some(20)).await;
    let held = deliveries(&mut c, 20).await;
    assert_eq!(texts(&held), expected[..20]);
    let back: Vec<&Delivery> = [3, 11, 19].iter().map(|at| &held[*at]).collect();
    c.settle(&back, Outcome::Requeue { delay_ms: 0 }).await.expect("requeued");
    let again = deliveries(&mut c, 3).await;
    assert_eq!(texts(&again), texts(&back.into_iter().cloned().collect::<Vec<_>>()), "the old places");
    // one of the highest that comes last goes before what waits
    c.call(message(Some(i32::MAX), "urgent", Answer::Reply)).await.expect("published");
    c.settle(&[&held[0]], Outcome::Ack).await.expect("acked");
    assert_eq!(text(&c.delivery().await.frame), "urgent");
    c.declare("other").await;
    c.put("other", "makes the ack safe").await;
    drop(c);
    let broker = home.crash().await;
    let mut c = Client::new(&broker);
    c.consume(1, "q", None).await;
    let mut got = texts(&deliveries(&mut c, expected.len()).await);
    let urgent = got.iter().position(|t| t == "urgent").expect("it is kept");
    let highest = first_of.iter().filter(|n| **n == i64::from(i32::MAX)).count() - 1;
    assert_eq!(urgent, highest, "behind those of its priority, before all others");
    got.remove(urgent);
    assert_eq!(got, expected[1..], "after a kill");
    drop(c);
    deep(home).await
}

/// Three levels, interleaved, with as many messages each.
async fn deep(home: &mut Home) -> String {
    let level = if home.backend() == "journal-sim" { OF_A_LEVEL_SIMULATED } else { OF_A_LEVEL };
    let all = level * LEVELS.len() as u64;
    let broker = home.fresh().await;
    let mut c = Client::new(&broker);
    declare(&mut c, "q").await;
    for from in (0..all).step_by(BATCH as usize) {
        let batch = (from..from + BATCH).map(|n| {
            let priority = Some(LEVELS[(n % 3) as usize]);
            (RequestId(FIRST_REQUEST + n), message(priority, &n.to_string(), Answer::Watermark))
        });
        c.connection.submit(batch.collect()).await.expect("taken");
        c.pending();
    }
    while !matches!(c.effect().await, Effect::Confirmed { upto } if upto.0 == FIRST_REQUEST + all - 1) {}
    drop(c);
    let broker = home.restart().await;
    let mut c = Client::new(&broker);
    assert_eq!(counts(&mut c, "q").await, (all, 0));
    let take = framegate_broker::Consume { auto_ack: true, ..consumer(1, "q", None) };
    c.call(Request::Consume(take)).await.expect("consuming");
    for of in (0..3).rev() {
        for at in 0..level {
            let expected = at * 3 + of;
            assert_eq!(text(&c.delivery().await.frame), expected.to_string(), "level {of}, message {at}");
        }
    }
    assert_eq!(counts(&mut c, "q").await, (0, 0));
    format!("3 levels of {level} after a restart; counts per priority are those of what came")
}
