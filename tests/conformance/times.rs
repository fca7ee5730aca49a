//! Q5 and Q6: messages that come later, messages that go after a while, queues that hold only so much.

use std::time::{SystemTime, UNIX_EPOCH};

use framegate_broker::{
    Answer, BrokerError, DeathReason, Overflow, Publish, QueueProperties, Reply, Request,
};

use crate::home::Home;
use crate::queues::{counts, deliveries, texts};
use crate::support::{Client, frame, name, text};

const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(now.as_millis()).expect("not that late")
}

fn message(body: &str) -> Publish {
    Publish { persistent: true, answer: Answer::Reply, ..Publish::new(name(""), name("q"), frame(body)) }
}

async fn publish(client: &mut Client, publish: Publish) -> Result<Reply, BrokerError> {
    client.call(Request::Publish(publish)).await
}

/// Q5. The due time of a message is its text.
pub(crate) async fn q5_delays(home: &mut Home) -> String {
    let mut late_ms = 0;
    let broker = home.fresh().await;
    let mut c = Client::new(&broker);
    c.declare("q").await;
    c.consume(1, "q", Some(100)).await;
    let later = |delay_ms| Publish { delay_ms, ..message(&(now_ms() + delay_ms).to_string()) };
    publish(&mut c, later(YEAR_MS)).await.expect("a year is accepted");
    for delay_ms in [240, 20, 0, 120, 60, 20] {
        publish(&mut c, later(delay_ms)).await.expect("published");
    }
    let mut came = Vec::new();
    for _ in 0..6 {
        let due: u64 = text(&c.delivery().await.frame).parse().expect("a time");
        let now = now_ms();
        assert!(now >= due, "early by {} ms", due - now);
        late_ms = late_ms.max(now - due);
        came.push(due);
    }
    assert!(came.is_sorted(), "in the order of their times: {came:?}");
    // those of before a kill come at their time too, and so does what was due meanwhile
    for delay_ms in [1, 150, 90] {
        publish(&mut c, later(delay_ms)).await.expect("published");
    }
    drop(c);
    let broker = home.crash().await;
    let mut c = Client::new(&broker);
    c.consume(1, "q", Some(100)).await;
    let mut left = Vec::new();
    // what was not acked before comes first
    for _ in 0..6 + 3 {
        let due: u64 = text(&c.delivery().await.frame).parse().expect("a time");
        assert!(now_ms() >= due, "early by {} ms after a kill", due - now_ms());
        left.push(due);
    }
    left.sort_unstable();
    left.dedup();
    came.dedup();
    assert!(came.iter().all(|due| left.contains(due)), "nothing is lost: {came:?} {left:?}");
    let all = crate::queues::info(&mut c, "q").await;
    assert_eq!(all.unacked, 9, "the one of a year is still there and not out: {all:?}");
    format!(
        "never early, at most {late_ms} ms late; promote, move to delayed and another priority are of jobs"
    )
}

/// A queue whose dead letters go to `dead`.
async fn declare(client: &mut Client, properties: QueueProperties) {
    client.declare("dead").await;
    let properties = QueueProperties {
        dead_letter_exchange: Some(name("")),
        dead_letter_key: Some(name("dead")),
        ..properties
    };
    client.declare_with("q", properties).await;
}

/// The next dead letters, which must have died for this reason.
async fn dead(client: &mut Client, n: usize, reason: DeathReason) -> Vec<String> {
    let letters = deliveries(client, n).await;
    for letter in &letters {
        let death = &letter.envelope.deaths[0];
        assert_eq!((death.reason, death.queue.to_string()), (reason, "q".to_owned()));
    }
    texts(&letters)
}

fn numbers(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

/// Q6.
pub(crate) async fn q6_times_to_live_and_limits(home: &mut Home) -> String {
    own_times(home).await;
    times_of_a_queue(home).await;
    drop_head(home).await;
    reject(home, Overflow::RejectPublish).await;
    reject(home, Overflow::RejectPublishDeadLetter).await;
    String::new()
}

async fn own_times(home: &mut Home) {
    let broker = home.fresh().await;
    let mut c = Client::new(&broker);
    declare(&mut c, QueueProperties::default()).await;
    publish(&mut c, Publish { ttl_ms: Some(3_600_000), ..message("stays") }).await.expect("published");
    for n in 0..5 {
        publish(&mut c, Publish { ttl_ms: Some(30), ..message(&n.to_string()) }).await.expect("published");
    }
    drop(c);
    let broker = home.crash().await;
    let mut c = Client::new(&broker);
    c.consume(2, "dead", None).await;
    c.consume(1, "q", Some(1)).await;
    let stays = c.delivery().await;
    assert_eq!(text(&stays.frame), "stays", "the head of the queue");
    assert_eq!(dead(&mut c, 5, DeathReason::Expired).await, numbers(0..5), "in the order of the queue");
    assert_eq!(counts(&mut c, "q").await, (0, 1));
}

async fn times_of_a_queue(home: &mut Home) {
    let broker = home.fresh().await;
    let mut c = Client::new(&broker);
    declare(&mut c, QueueProperties { message_ttl_ms: Some(40), ..QueueProperties::default() }).await;
    for n in 0..50 {
        let own = (n % 2 == 0).then_some(3_600_000);
        publish(&mut c, Publish { ttl_ms: own, ..message(&n.to_string()) }).await.expect("published");
    }
    c.consume(1, "dead", None).await;
    assert_eq!(dead(&mut c, 50, DeathReason::Expired).await, numbers(0..50), "the shorter of the two");
    assert_eq!(counts(&mut c, "q").await, (0, 0));
    // letters are heard before they are on disk; what is confirmed behind them says that they are
    let last = Publish::new(name(""), name("dead"), frame("last"));
    let last = Publish { persistent: true, answer: Answer::Reply, ..last };
    publish(&mut c, last).await.expect("published");
    drop(c);
    let broker = home.crash().await;
    let mut c = Client::new(&broker);
    assert_eq!(counts(&mut c, "q").await, (0, 0), "what expired does not come back");
}

async fn drop_head(home: &mut Home) {
    let broker = home.fresh().await;
    let mut c = Client::new(&broker);
    declare(&mut c, QueueProperties { length_max: Some(10), ..QueueProperties::default() }).await;
    for n in 0..25 {
        publish(&mut c, message(&n.to_string())).await.expect("published");
    }
    assert_eq!(counts(&mut c, "q").await, (10, 0));
    c.consume(1, "dead", None).await;
    assert_eq!(dead(&mut c, 15, DeathReason::MaxLen).await, numbers(0..15), "in the order of the queue");
    drop(c);
    let broker = home.crash().await;
    let mut c = Client::new(&broker);
    c.consume(1, "q", None).await;
    assert_eq!(texts(&deliveries(&mut c, 10).await), numbers(15..25), "after a kill");
}

async fn reject(home: &mut Home, overflow: Overflow) {
    let broker = home.fresh().await;
    let mut c = Client::new(&broker);
    declare(&mut c, QueueProperties { length_max: Some(3), overflow, ..QueueProperties::default() }).await;
    for n in 0..5 {
        let answer = publish(&mut c, message(&n.to_string())).await;
        let full = matches!(&answer, Err(BrokerError::QueueFull { name }) if &**name == "q");
        assert_eq!((answer.is_ok(), full), (n < 3, n >= 3), "message {n}: {answer:?}");
    }
    if overflow == Overflow::RejectPublishDeadLetter {
        c.consume(2, "dead", None).await;
        assert_eq!(dead(&mut c, 2, DeathReason::MaxLen).await, numbers(3..5));
    }
    drop(c);
    let broker = home.crash().await;
    let mut c = Client::new(&broker);
    assert_eq!(counts(&mut c, "q").await, (3, 0), "the oldest stay, after a kill too");
    c.consume(1, "q", None).await;
    assert_eq!(texts(&deliveries(&mut c, 3).await), numbers(0..3));
    if overflow == Overflow::RejectPublish {
        assert_eq!(counts(&mut c, "dead").await, (0, 0));
    }
}
