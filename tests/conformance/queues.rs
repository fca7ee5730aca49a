//! Q1 and Q9: order, the old place of what is requeued, dead letters; purge and delete.

use framegate_broker::{
    BindTarget, BindingSpec, BrokerError, ConsumerId, DeathReason, Define, Delivery, Effect, ExchangeKind,
    ExchangeSpec, Outcome, Publish, Query, QueueInfo, QueueProperties, QueueSpec, Reply, Request,
};

use crate::home::Home;
use crate::support::{Client, frame, name, seq, text};

/// A queue as it is now.
pub(crate) async fn info(client: &mut Client, queue: &str) -> QueueInfo {
    match client.call(Request::Query(Query::Queue(name(queue)))).await {
        Ok(Reply::Queue(info)) => info,
        other => panic!("{queue}: {other:?}"),
    }
}

/// Ready and leased messages of a queue.
pub(crate) async fn counts(client: &mut Client, queue: &str) -> (u64, u64) {
    let info = info(client, queue).await;
    (info.ready, info.unacked)
}

/// The next so many deliveries.
pub(crate) async fn deliveries(client: &mut Client, n: usize) -> Vec<Delivery> {
    let mut found = Vec::with_capacity(n);
    for _ in 0..n {
        found.push(client.delivery().await);
    }
    found
}

/// Their texts.
pub(crate) fn texts(of: &[Delivery]) -> Vec<String> {
    of.iter().map(|d| text(&d.frame)).collect()
}

fn numbers(range: impl Iterator<Item = u32>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

async fn dead_lettering(client: &mut Client, queue: &str, to: &str) {
    let properties = QueueProperties {
        dead_letter_exchange: Some(name("")),
        dead_letter_key: Some(name(to)),
        ..QueueProperties::default()
    };
    client.declare_with(queue, properties).await;
}

/// Everything about the deaths of a message that must not change.
fn deaths(of: &Delivery) -> Vec<(String, DeathReason, String, Vec<String>, u64)> {
    let deaths = of.envelope.deaths.iter();
    let keys = |d: &framegate_broker::Death| d.keys.iter().map(ToString::to_string).collect();
    deaths.map(|d| (d.queue.to_string(), d.reason, d.exchange.to_string(), keys(d), d.count)).collect()
}

/// Q1.
pub(crate) async fn q1_order_and_dead_letters(home: &mut Home) -> String {
    let broker = home.fresh().await;
    let mut c = Client::new(&broker);
    c.declare("q").await;
    for n in 0..40 {
        c.put("q", &n.to_string()).await;
    }
    c.consume(1, "q", Some(10)).await;
    let held = deliveries(&mut c, 10).await;
    assert_eq!(texts(&held), numbers(0..10));
    assert!(held.iter().all(|d| !d.redelivered && d.attempt == 1), "first deliveries");
    let back: Vec<&Delivery> = [7, 2, 5].iter().map(|n| &held[*n]).collect();
    c.settle(&back, Outcome::Requeue { delay_ms: 0 }).await.expect("requeued");
    let again = deliveries(&mut c, 3).await;
    assert_eq!(texts(&again), ["2", "5", "7"], "the old places");
    assert!(again.iter().all(|d| d.redelivered && d.attempt == 2), "marked");
    assert_eq!(seq(&again[0]), seq(&held[2]), "the same position");
    let rest: Vec<&Delivery> = (0..10).filter(|n| ![2, 5, 7].contains(n)).map(|n| &held[n]).collect();
    c.settle(&rest, Outcome::Ack).await.expect("acked");
    assert_eq!(c.texts(7).await, numbers(10..17));
    let _ = c.call(Request::Cancel(ConsumerId(1))).await;
    drop(c);
    // a later persistent confirm makes the acks safe
    let mut c = Client::new(&broker);
    c.put("q", "40").await;
    drop(c);
    let broker = home.crash().await;
    let mut c = Client::new(&broker);
    c.consume(1, "q", None).await;
    let all = deliveries(&mut c, 34).await;
    assert_eq!(texts(&all), numbers([2, 5, 7].into_iter().chain(10..=40)), "after a kill");
    drop(c);
    dead_letters(home).await;
    String::new()
}

async fn dead_letters(home: &mut Home) {
    let broker = home.fresh().await;
    let mut c = Client::new(&broker);
    let exchange = ExchangeSpec {
        name: name("orders"),
        kind: ExchangeKind::Direct,
        durable: true,
        auto_delete: false,
        internal: false,
        alternate: None,
    };
    c.call(Request::Define(Define::Exchange(exchange))).await.expect("declared");
    dead_lettering(&mut c, "q", "dead").await;
    dead_lettering(&mut c, "dead", "q").await;
    let (exchange, target) = (name("orders"), BindTarget::Queue(name("q")));
    let binding = BindingSpec { exchange, target, key: name("new"), arguments: Vec::new() };
    c.call(Request::Define(Define::Bind(binding))).await.expect("bound");
    let answer = framegate_broker::Answer::Reply;
    let publish =
        Publish { persistent: true, answer, ..Publish::new(name("orders"), name("new"), frame("poison")) };
    c.call(Request::Publish(publish)).await.expect("published");
    c.consume(1, "q", None).await;
    c.consume(2, "dead", None).await;
    let first =
        |count| ("q".to_owned(), DeathReason::Rejected, "orders".to_owned(), vec!["new".to_owned()], count);
    let d = c.delivery().await;
    c.settle(&[&d], Outcome::Reject).await.expect("rejected");
    let d = c.delivery().await;
    assert_eq!((d.consumer, deaths(&d)), (ConsumerId(2), vec![first(1)]));
    c.settle(&[&d], Outcome::Reject).await.expect("rejected");
    let d = c.delivery().await;
    let second = ("dead".to_owned(), DeathReason::Rejected, String::new(), vec!["dead".to_owned()], 1);
    assert_eq!((d.consumer, deaths(&d)), (ConsumerId(1), vec![second.clone(), first(1)]));
    c.settle(&[&d], Outcome::Reject).await.expect("rejected");
    let d = c.delivery().await;
    let newest = deaths(&d);
    assert_eq!((newest[0].0.as_str(), newest[0].4, newest.len()), ("q", 2, 2), "the count grows: {newest:?}");
    c.put("q", "safe").await;
    drop(c);
    let broker = home.crash().await;
    let mut c = Client::new(&broker);
    c.consume(2, "dead", None).await;
    let d = c.delivery().await;
    assert_eq!((text(&d.frame), deaths(&d)), ("poison".to_owned(), newest), "after a kill");
}

/// Q9, the part that exists.
pub(crate) async fn q9_purge_and_delete(home: &mut Home) -> String {
    let broker = home.fresh().await;
    let (mut a, mut b) = (Client::new(&broker), Client::new(&broker));
    a.declare("q").await;
    for n in 0..1500 {
        a.publish("q", &n.to_string(), framegate_broker::Answer::None).await;
    }
    a.put("q", "1500").await;
    b.consume(1, "q", Some(3)).await;
    let held = deliveries(&mut b, 3).await;
    let purge = Request::Define(Define::Purge(name("q")));
    let purged = a.call(purge.clone()).await;
    assert!(matches!(purged, Ok(Reply::Removed { messages: 1498 })), "only ready ones: {purged:?}");
    assert_eq!(counts(&mut a, "q").await, (0, 3));
    let delete =
        |if_unused, if_empty| Request::Define(Define::DeleteQueue { name: name("q"), if_unused, if_empty });
    assert!(matches!(a.call(delete(true, false)).await, Err(BrokerError::InUse { .. })));
    b.settle(&[&held[0], &held[1]], Outcome::Ack).await.expect("acked");
    b.settle(&[&held[2]], Outcome::Requeue { delay_ms: 0 }).await.expect("requeued");
    b.call(Request::Cancel(ConsumerId(1))).await.expect("cancelled");
    drop(b);
    let mut b = Client::new(&broker);
    while counts(&mut a, "q").await != (1, 0) {}
    let refused = a.call(delete(false, true)).await;
    assert!(matches!(refused, Err(BrokerError::NotEmpty { messages: 1, .. })), "{refused:?}");
    let again = a.call(purge).await;
    assert!(matches!(again, Ok(Reply::Removed { messages: 1 })), "{again:?}");
    a.put("q", "after the purge").await;
    drop(a);
    drop(b);
    let broker = home.crash().await;
    (a, b) = (Client::new(&broker), Client::new(&broker));
    assert_eq!(counts(&mut a, "q").await, (1, 0), "what was purged does not come back");
    b.consume(7, "q", None).await;
    assert_eq!(b.texts(1).await, ["after the purge"]);
    a.call(delete(false, false)).await.expect("deleted");
    assert!(matches!(b.effect().await, Effect::Cancelled { consumer: ConsumerId(7), .. }));
    let spec = QueueSpec { name: name("empty"), durable: true, ..QueueSpec::default() };
    a.call(Request::Define(Define::Queue(spec))).await.expect("declared");
    let delete = Define::DeleteQueue { name: name("empty"), if_unused: true, if_empty: true };
    a.call(Request::Define(delete)).await.expect("empty and unused");
    drop(a);
    drop(b);
    let broker = home.crash().await;
    let mut a = Client::new(&broker);
    for gone in ["q", "empty"] {
        let passive = Request::Define(Define::QueuePassive(name(gone)));
        assert!(matches!(a.call(passive).await, Err(BrokerError::NotFound { .. })), "{gone} is gone");
    }
    "purge and delete; pause, drain, obliterate, clean, retry and groups do not exist yet".to_owned()
}
