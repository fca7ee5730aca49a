//! Q2 and Q3: who holds what, how much of it, and what becomes of it when the holder goes.

use framegate_broker::{
    BrokerError, Consume, ConsumerId, Credit, Lease, Outcome, PoolId, Query, Reply, Request, Seq, Settle,
};

use crate::home::Home;
use crate::queues::{counts, deliveries, texts};
use crate::support::{Client, consumer, name, seq, text};

/// Everything decided so far has arrived: a reply stands behind it.
async fn nothing_waits(client: &mut Client, why: &str) {
    client.call(Request::Query(Query::Stats)).await.expect("stats");
    assert_eq!(client.pending(), 0, "{why}");
}

/// Q2.
pub(crate) async fn q2_lost_connections(home: &mut Home) -> String {
    let broker = home.fresh().await;
    let mut a = Client::new(&broker);
    a.declare("q").await;
    let (mut b, mut c) = (Client::new(&broker), Client::new(&broker));
    b.consume(1, "q", Some(5)).await;
    b.consume(2, "q", Some(5)).await;
    c.consume(1, "q", Some(10)).await;
    for n in 0..30 {
        a.put("q", &format!("{n:02}")).await;
    }
    let of_b = deliveries(&mut b, 10).await;
    let of_c = deliveries(&mut c, 10).await;
    assert_eq!(counts(&mut a, "q").await, (10, 20));
    let first = |d: &&framegate_broker::Delivery| d.consumer == ConsumerId(1);
    let acked = of_b.iter().find(first).expect("a delivery of the first consumer");
    b.settle(&[acked], Outcome::Ack).await.expect("acked");
    let more = b.delivery().await;
    drop(b);
    let mut lost: Vec<String> = texts(&of_b).into_iter().filter(|t| *t != text(&acked.frame)).collect();
    lost.push(text(&more.frame));
    lost.sort();
    let returned = lost.len() as u64;
    while counts(&mut a, "q").await != (9 + returned, 10) {}
    // the other connection keeps what it holds and gets what returned first, in order
    c.settle(&of_c.iter().collect::<Vec<_>>(), Outcome::Ack).await.expect("acked");
    let got = deliveries(&mut c, 10).await;
    assert_eq!(texts(&got), lost, "all of the lost connection, in order");
    assert!(got.iter().all(|d| d.redelivered && d.attempt == 2), "marked");
    c.settle(&got.iter().collect::<Vec<_>>(), Outcome::Ack).await.expect("acked");
    let fresh = deliveries(&mut c, 9).await;
    assert!(fresh.iter().all(|d| !d.redelivered), "never seen before");
    drop(c);
    drop(a);
    let broker = home.crash().await;
    let mut a = Client::new(&broker);
    a.consume(1, "q", None).await;
    let (ready, unacked) = counts(&mut a, "q").await;
    let again = deliveries(&mut a, (ready + unacked) as usize).await;
    assert!(texts(&again).is_sorted(), "in order after a kill: {:?}", texts(&again));
    assert!(texts(&again).ends_with(&texts(&fresh)), "none of the unacked is lost");
    String::new()
}

/// Q3.
pub(crate) async fn q3_prefetch_and_settling(home: &mut Home) -> String {
    let broker = home.fresh().await;
    let mut c = Client::new(&broker);
    c.declare("q").await;
    for n in 0..40 {
        c.put("q", &n.to_string()).await;
    }
    prefetch(&mut c).await;
    pools(&mut c).await;
    settling(&mut c, &mut Client::new(&broker)).await;
    String::new()
}

async fn prefetch(c: &mut Client) {
    c.consume(1, "q", Some(4)).await;
    let held = deliveries(c, 4).await;
    nothing_waits(c, "the prefetch is used up").await;
    c.settle(&[&held[0], &held[1]], Outcome::Ack).await.expect("acked");
    let more = deliveries(c, 2).await;
    nothing_waits(c, "two for two").await;
    c.call(Request::Credit(Credit::Consumer(ConsumerId(1), Some(6)))).await.expect("set");
    let wider = deliveries(c, 2).await;
    nothing_waits(c, "two more").await;
    c.call(Request::Credit(Credit::Consumer(ConsumerId(1), Some(1)))).await.expect("set");
    c.settle(&[&held[2], &held[3], &more[0], &more[1], &wider[0]], Outcome::Ack).await.expect("acked");
    nothing_waits(c, "one is held, one is allowed").await;
    c.call(Request::Cancel(ConsumerId(1))).await.expect("cancelled");
    c.settle(&[&wider[1]], Outcome::Ack).await.expect("a cancelled consumer settles what it holds");
    assert_eq!(counts(c, "q").await, (32, 0));
}

async fn pools(c: &mut Client) {
    c.call(Request::Credit(Credit::Pool(PoolId(1), Some(3)))).await.expect("set");
    for id in [2, 3] {
        let consume = Consume { pool: Some(PoolId(1)), ..consumer(id, "q", Some(2)) };
        c.call(Request::Consume(consume)).await.expect("consuming");
    }
    let held = deliveries(c, 3).await;
    nothing_waits(c, "the pool is used up").await;
    assert!(held.iter().filter(|d| d.consumer == ConsumerId(2)).count() <= 2, "the consumer's own limit");
    c.settle(&[&held[0]], Outcome::Ack).await.expect("acked");
    let more = c.delivery().await;
    nothing_waits(c, "one for one").await;
    for d in held[1..].iter().chain([&more]) {
        c.call(Request::Cancel(d.consumer)).await.ok();
        c.settle(&[d], Outcome::Ack).await.expect("acked");
    }
    c.call(Request::Cancel(ConsumerId(2))).await.ok();
    c.call(Request::Cancel(ConsumerId(3))).await.ok();
    c.call(Request::Recover(None)).await.expect("what came meanwhile is returned");
    c.pending();
}

async fn settling(c: &mut Client, other: &mut Client) {
    let (ready, unacked) = counts(c, "q").await;
    assert_eq!(unacked, 0, "everything is settled or returned");
    other.consume(4, "q", Some(6)).await;
    let held = deliveries(other, 6).await;
    let positions: Vec<Seq> = held.iter().map(seq).collect();
    let settle = |consumer, positions: Vec<Seq>| {
        let lease = Lease::Positions(ConsumerId(consumer), positions);
        Request::Settle(Settle { lease, outcome: Outcome::Ack, answer: true })
    };
    let mut unknown = positions.clone();
    unknown.push(Seq(9999));
    let refused = |result| assert!(matches!(result, Err(BrokerError::UnknownDelivery)), "{result:?}");
    refused(other.call(settle(4, unknown)).await);
    assert_eq!(counts(c, "q").await, (ready - 6, 6), "all or nothing");
    refused(other.call(settle(5, positions.clone())).await);
    refused(c.call(settle(4, positions.clone())).await);
    refused(c.call(settle(2, positions.clone())).await);
    let done = other.call(settle(4, positions.clone())).await;
    assert!(matches!(done, Ok(Reply::Settled { count: 6 })), "several at once: {done:?}");
    refused(other.call(settle(4, positions)).await);
    let next = deliveries(other, 6).await;
    assert_eq!(seq(&next[0]).0, seq(&held[5]).0 + 1, "on {}", name("q"));
}
