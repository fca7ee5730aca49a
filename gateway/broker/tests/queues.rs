//! Queues: order, requeue, leases, credit, loss of a connection, deletion, restart.

mod support;

use framegate_broker::{
    Answer, BrokerError, Consume, ConsumerId, Credit, Define, Effect, Fetch, Lease, Limits, Outcome, PoolId,
    QueueProperties, QueueSpec, Reply, Request, Settle,
};
use framegate_storage_memory::MemoryStore;
use support::{Client, anyone, consumer, name, start, start_on, text};

#[tokio::test]
async fn messages_come_in_order_and_a_requeued_one_keeps_its_place() {
    let (broker, _store) = start();
    let mut c = Client::new(&broker);
    c.declare("q").await;
    for n in 0..6 {
        c.put("q", &n.to_string()).await;
    }
    c.consume(1, "q", Some(3)).await;
    let held = [c.delivery().await, c.delivery().await, c.delivery().await];
    assert_eq!(held.iter().map(|d| text(&d.frame)).collect::<Vec<_>>(), ["0", "1", "2"]);
    c.settle(&[&held[1], &held[0]], Outcome::Requeue { delay_ms: 0 }).await.expect("requeued");
    let again = [c.delivery().await, c.delivery().await];
    assert_eq!(
        again.iter().map(|d| (text(&d.frame), d.redelivered, d.attempt)).collect::<Vec<_>>(),
        [("0".to_owned(), true, 2), ("1".to_owned(), true, 2)]
    );
    c.settle(&[&held[2], &again[0], &again[1]], Outcome::Ack).await.expect("acked");
    assert_eq!(c.texts(3).await, ["3", "4", "5"]);
}

#[tokio::test]
async fn settling_is_all_or_nothing_and_an_unknown_delivery_is_an_error() {
    let (broker, _store) = start();
    let mut c = Client::new(&broker);
    c.declare("q").await;
    c.put("q", "a").await;
    c.consume(1, "q", None).await;
    let d = c.delivery().await;
    let lease = Lease::Positions(ConsumerId(1), vec![support::seq(&d), framegate_broker::Seq(99)]);
    let settle = Settle { lease, outcome: Outcome::Ack, answer: true };
    assert!(matches!(c.call(Request::Settle(settle)).await, Err(BrokerError::UnknownDelivery)));
    c.settle(&[&d], Outcome::Ack).await.expect("still leased");
    assert!(matches!(c.settle(&[&d], Outcome::Ack).await, Err(BrokerError::UnknownDelivery)));
}

#[tokio::test]
async fn a_lost_connection_returns_its_leases_in_order() {
    let (broker, _store) = start();
    let (mut a, mut b) = (Client::new(&broker), Client::new(&broker));
    a.declare("q").await;
    for n in 0..5 {
        a.put("q", &n.to_string()).await;
    }
    b.consume(1, "q", Some(3)).await;
    let held = [b.delivery().await, b.delivery().await, b.delivery().await];
    b.settle(&[&held[1]], Outcome::Ack).await.expect("acked");
    let _ = b.delivery().await;
    drop(b);
    a.consume(1, "q", None).await;
    let mut got = Vec::new();
    for _ in 0..4 {
        let d = a.delivery().await;
        got.push((text(&d.frame), d.redelivered));
    }
    assert_eq!(got, [("0".into(), true), ("2".into(), true), ("3".into(), true), ("4".into(), false)]);
}

#[tokio::test]
async fn a_pool_bounds_its_consumers_together() {
    let (broker, _store) = start();
    let mut c = Client::new(&broker);
    c.declare("q").await;
    for n in 0..6 {
        c.put("q", &n.to_string()).await;
    }
    c.call(Request::Credit(Credit::Pool(PoolId(1), Some(2)))).await.expect("set");
    for id in [1, 2] {
        let consume = Consume { pool: Some(PoolId(1)), ..consumer(id, "q", None) };
        c.call(Request::Consume(consume)).await.expect("consuming");
    }
    let (first, second) = (c.delivery().await, c.delivery().await);
    c.call(Request::Query(framegate_broker::Query::Stats)).await.expect("stats");
    assert_eq!(c.pending(), 0, "the pool is used up");
    c.settle(&[&first], Outcome::Ack).await.expect("acked");
    assert_eq!(c.texts(1).await, ["2"]);
    c.settle(&[&second], Outcome::Ack).await.expect("acked");
    assert_eq!(c.texts(1).await, ["3"]);
}

#[tokio::test]
async fn consumers_are_served_in_turn_and_higher_priority_first() {
    let (broker, _store) = start();
    let mut c = Client::new(&broker);
    c.declare("q").await;
    c.consume(1, "q", None).await;
    c.consume(2, "q", None).await;
    let high = Consume { priority: 5, ..consumer(3, "q", Some(1)) };
    c.call(Request::Consume(high)).await.expect("consuming");
    for n in 0..5 {
        c.put("q", &n.to_string()).await;
    }
    let mut order = Vec::new();
    for _ in 0..5 {
        order.push(c.delivery().await.consumer.0);
    }
    assert_eq!(order, [3, 1, 2, 1, 2]);
}

#[tokio::test]
async fn a_pull_takes_what_is_there_or_waits_for_the_first() {
    let (broker, _store) = start();
    let mut c = Client::new(&broker);
    c.declare("q").await;
    let fetch = |max, wait_ms| {
        Request::Fetch(Fetch {
            consumer: ConsumerId(9),
            queue: name("q"),
            max,
            wait_ms,
            auto_ack: true,
            lease_ms: None,
            tokens: false,
        })
    };
    let Ok(Reply::Fetched { messages, .. }) = c.call(fetch(1, 0)).await else { panic!("fetched") };
    assert!(messages.is_empty());
    let waiting = c.send(fetch(5, 60_000)).await;
    c.put("q", "a").await;
    let Ok(Reply::Fetched { messages, remaining }) = c.reply(waiting).await else { panic!("fetched") };
    assert_eq!((messages.len(), remaining), (1, 0));
    let waiting = c.send(fetch(5, 1)).await;
    let Ok(Reply::Fetched { messages, .. }) = c.reply(waiting).await else { panic!("the wait passes") };
    assert!(messages.is_empty());
}

#[tokio::test]
async fn a_token_settles_from_another_connection_and_a_lease_runs_out() {
    let (broker, _store) = start();
    let (mut a, mut b) = (Client::new(&broker), Client::new(&broker));
    a.declare("q").await;
    a.put("q", "x").await;
    let consume = Consume { tokens: true, lease_ms: Some(1), ..consumer(1, "q", Some(1)) };
    a.call(Request::Consume(consume)).await.expect("consuming");
    let first = a.delivery().await;
    let again = a.delivery().await;
    assert_eq!((again.redelivered, again.attempt >= 2), (true, true), "the lease ran out");
    a.call(Request::Cancel(ConsumerId(1))).await.expect("cancelled");
    let fetched = broker
        .call(
            &anyone(),
            &name("/"),
            Request::Fetch(Fetch {
                consumer: ConsumerId(0),
                queue: name("q"),
                max: 1,
                wait_ms: 60_000,
                auto_ack: false,
                lease_ms: None,
                tokens: true,
            }),
        )
        .await;
    let Ok(Reply::Fetched { messages, .. }) = fetched else { panic!("{fetched:?}") };
    let settle =
        |token| Request::Settle(Settle { lease: Lease::Token(token), outcome: Outcome::Ack, answer: true });
    b.call(settle(messages[0].token.expect("token"))).await.expect("settled from elsewhere");
    assert!(b.call(settle(first.token.expect("token"))).await.is_err(), "an old token settles nothing");
}

#[tokio::test]
async fn a_rejected_message_is_dead_lettered_with_its_history() {
    let (broker, _store) = start();
    let mut c = Client::new(&broker);
    c.declare("dead").await;
    let properties = QueueProperties {
        dead_letter_exchange: Some(name("")),
        dead_letter_key: Some(name("dead")),
        ..QueueProperties::default()
    };
    c.declare_with("q", properties).await;
    c.put("q", "poison").await;
    c.consume(1, "q", None).await;
    c.consume(2, "dead", None).await;
    let d = c.delivery().await;
    c.settle(&[&d], Outcome::Reject).await.expect("rejected");
    let dead = c.delivery().await;
    assert_eq!((dead.consumer, text(&dead.frame)), (ConsumerId(2), "poison".to_owned()));
    let death = &dead.envelope.deaths[0];
    assert_eq!((death.queue.as_str(), death.count, death.keys[0].as_str()), ("q", 1, "q"));
}

#[tokio::test]
async fn the_third_time_that_no_protocol_can_carry_it_a_message_is_taken_out() {
    let (broker, _store) = start();
    let mut c = Client::new(&broker);
    c.declare("q").await;
    c.put("q", "odd").await;
    c.put("q", "next").await;
    c.consume(1, "q", Some(1)).await;
    for _ in 0..3 {
        let d = c.delivery().await;
        assert_eq!(text(&d.frame), "odd");
        c.settle(&[&d], Outcome::Undeliverable).await.expect("settled");
    }
    assert_eq!(c.texts(1).await, ["next"]);
}

#[tokio::test]
async fn exclusive_auto_delete_and_server_named_queues_live_and_go_as_declared() {
    let (broker, _store) = start();
    let (mut a, mut b) = (Client::new(&broker), Client::new(&broker));
    let spec = QueueSpec { prefix: "gen-", exclusive: true, ..QueueSpec::default() };
    let Ok(Reply::Queue(info)) = a.call(Request::Define(Define::Queue(spec))).await else {
        panic!("declared")
    };
    assert!(info.name.starts_with("gen-"));
    let passive = |n: &str| Request::Define(Define::QueuePassive(name(n)));
    assert!(matches!(b.call(passive(&info.name)).await, Err(BrokerError::Locked { .. })));
    drop(a);
    let auto = QueueSpec { name: name("auto"), auto_delete: true, durable: true, ..QueueSpec::default() };
    b.call(Request::Define(Define::Queue(auto))).await.expect("declared");
    b.consume(1, "auto", None).await;
    b.call(Request::Cancel(ConsumerId(1))).await.expect("cancelled");
    assert!(matches!(b.call(passive("auto")).await, Err(BrokerError::NotFound { .. })));
    assert!(matches!(b.call(passive(&info.name)).await, Err(BrokerError::NotFound { .. })));
}

#[tokio::test]
async fn deleting_and_purging_obey_their_conditions_and_cancel_consumers() {
    let (broker, _store) = start();
    let (mut a, mut b) = (Client::new(&broker), Client::new(&broker));
    a.declare("q").await;
    for n in 0..3000 {
        a.publish("q", &n.to_string(), Answer::None).await;
    }
    let delete =
        |if_unused, if_empty| Request::Define(Define::DeleteQueue { name: name("q"), if_unused, if_empty });
    assert!(matches!(a.call(delete(false, true)).await, Err(BrokerError::NotEmpty { messages: 3000, .. })));
    let purged = a.call(Request::Define(Define::Purge(name("q")))).await;
    assert!(matches!(purged, Ok(Reply::Removed { messages: 3000 })), "{purged:?}");
    b.consume(1, "q", None).await;
    assert!(matches!(a.call(delete(true, false)).await, Err(BrokerError::InUse { .. })));
    a.call(delete(false, false)).await.expect("deleted");
    assert!(matches!(b.effect().await, Effect::Cancelled { consumer: ConsumerId(1), .. }));
}

/// Lets everything that is written become durable while it is on.
struct Pump(std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Pump {
    fn start(store: &MemoryStore) -> Self {
        let on = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let (store, of_thread) = (store.clone(), std::sync::Arc::clone(&on));
        std::thread::spawn(move || {
            while std::sync::Arc::strong_count(&of_thread) > 1 {
                if of_thread.load(std::sync::atomic::Ordering::Acquire) && store.waiting() > 0 {
                    store.release(1);
                }
                std::thread::yield_now();
            }
        });
        Self(on)
    }

    fn set(&self, on: bool) {
        self.0.store(on, std::sync::atomic::Ordering::Release);
    }
}

#[tokio::test]
async fn confirms_come_in_order_and_only_when_durable() {
    let store = MemoryStore::paused();
    let pump = Pump::start(&store);
    let broker = start_on(&store, Limits::default());
    let mut c = Client::new(&broker);
    c.declare("q").await;
    pump.set(false);
    let first = c.publish("q", "a", Answer::Watermark).await;
    let publish = framegate_broker::Publish {
        answer: Answer::Watermark,
        ..framegate_broker::Publish::new(name(""), name("q"), support::frame("transient"))
    };
    let second = c.send(Request::Publish(publish)).await;
    broker.call(&anyone(), &name("/"), Request::Query(framegate_broker::Query::Stats)).await.expect("stats");
    assert_eq!(c.pending(), 0, "the transient one waits behind the persistent one");
    pump.set(true);
    let Effect::Confirmed { upto } = c.effect().await else { panic!("a confirm") };
    assert!(upto == first || upto == second);
    if upto == first {
        assert!(matches!(c.effect().await, Effect::Confirmed { upto } if upto == second));
    }
}

#[tokio::test]
async fn after_a_restart_durable_messages_are_there_and_numbers_do_not_repeat() {
    let (broker, store) = start();
    let mut c = Client::new(&broker);
    c.declare("q").await;
    for n in 0..10 {
        c.put("q", &n.to_string()).await;
    }
    c.consume(1, "q", Some(10)).await;
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(c.delivery().await);
    }
    let even: Vec<_> = held.iter().step_by(2).collect();
    c.settle(&even, Outcome::Ack).await.expect("acked");
    c.put("q", "last").await;
    drop(c);
    drop(broker);
    let broker = start_on(&store, Limits::default());
    let mut c = Client::new(&broker);
    c.put("q", "after").await;
    c.consume(1, "q", None).await;
    let mut got = Vec::new();
    for _ in 0..7 {
        got.push(c.delivery().await);
    }
    assert_eq!(
        got.iter().map(|d| text(&d.frame)).collect::<Vec<_>>(),
        ["1", "3", "5", "7", "9", "last", "after"]
    );
    assert!(support::seq(&got[6]).0 >= 1 << 20, "numbers jump after an unclean stop");
    broker.stop().await.expect("clean stop");
}

#[tokio::test]
async fn bodies_that_do_not_fit_the_cache_are_read_back_in_order() {
    let store = MemoryStore::new();
    let limits = Limits { cache_bytes_max: 64 * 1024, ..Limits::default() };
    let broker = start_on(&store, limits);
    let mut c = Client::new(&broker);
    c.declare("q").await;
    let body = "x".repeat(1000);
    for n in 0..1000 {
        c.put("q", &format!("{n}-{body}")).await;
    }
    assert!(broker.metrics().cache_bytes.load(std::sync::atomic::Ordering::Relaxed) <= 64 * 1024 + 2048);
    c.consume(1, "q", Some(50)).await;
    for n in 0..1000 {
        let d = c.delivery().await;
        assert!(text(&d.frame).starts_with(&format!("{n}-")));
        c.settle(&[&d], Outcome::Ack).await.expect("acked");
    }
}

#[tokio::test]
async fn transient_messages_that_do_not_fit_the_cache_wait_in_the_log_and_are_gone_after_a_restart() {
    let store = MemoryStore::new();
    let limits = Limits { cache_bytes_max: 64 * 1024, ..Limits::default() };
    let broker = start_on(&store, limits);
    let mut c = Client::new(&broker);
    c.declare("durable").await;
    let spec = QueueSpec { name: name("volatile"), ..QueueSpec::default() };
    c.call(Request::Define(Define::Queue(spec))).await.expect("declared");
    let body = "x".repeat(1000);
    for n in 0..500 {
        for queue in ["durable", "volatile"] {
            let publish = framegate_broker::Publish {
                answer: Answer::Reply,
                ..framegate_broker::Publish::new(
                    name(""),
                    name(queue),
                    support::frame(&format!("{n}-{body}")),
                )
            };
            c.call(Request::Publish(publish)).await.expect("published");
        }
    }
    // what is written out leaves the memory as soon as the store has taken the block
    while broker.metrics().cache_bytes.load(std::sync::atomic::Ordering::Relaxed) > 64 * 1024 + 4096 {
        c.call(Request::Query(framegate_broker::Query::Stats)).await.expect("stats");
    }
    for (id, queue) in [(1, "durable"), (2, "volatile")] {
        c.consume(id, queue, Some(50)).await;
        for n in 0..500 {
            let d = c.delivery().await;
            assert!(text(&d.frame).starts_with(&format!("{n}-")));
            if n < 400 {
                c.settle(&[&d], Outcome::Ack).await.expect("acked");
            } else if n % 50 == 49 {
                c.call(Request::Credit(Credit::Consumer(ConsumerId(id), None))).await.expect("set");
            }
        }
    }
    c.put("durable", "kept").await;
    drop(c);
    drop(broker);
    let broker = start_on(&store, Limits::default());
    let mut c = Client::new(&broker);
    c.consume(1, "durable", None).await;
    assert_eq!(c.texts(1).await, ["kept"]);
}
