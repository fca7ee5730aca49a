//! Edges of queues: numbers after crashes, pulls that share a holder, pools of a deleted queue, order of answers, stop.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use framegate_broker::{
    Answer, BrokerError, Consume, ConsumerId, Credit, Define, Effect, Fetch, Lease, Limits, Outcome, PoolId,
    Publish, Query, QueueProperties, QueueSpec, Reply, Request, Settle,
};
use framegate_storage_memory::MemoryStore;
use support::{Client, anyone, consumer, frame, name, seq, start, start_on, text};

fn transient(queue: &str, body: &str, answer: Answer) -> Request {
    Request::Publish(Publish { answer, ..Publish::new(name(""), name(queue), frame(body)) })
}

fn fetch(queue: &str, wait_ms: u64, auto_ack: bool) -> Request {
    Request::Fetch(Fetch {
        consumer: ConsumerId(9),
        queue: name(queue),
        max: 1,
        wait_ms,
        auto_ack,
        lease_ms: None,
        tokens: false,
    })
}

#[tokio::test]
async fn a_number_that_was_seen_is_not_used_again_after_a_second_crash() {
    let (broker, store) = start();
    let mut c = Client::new(&broker);
    c.declare("q").await;
    drop((c, broker));
    let mut seen = Vec::new();
    for _ in 0..3 {
        let broker = start_on(&store, Limits::default());
        let mut c = Client::new(&broker);
        c.consume(1, "q", None).await;
        c.send(transient("q", "t", Answer::None)).await;
        seen.push(seq(&c.delivery().await).0);
    }
    assert!(seen[0] < seen[1] && seen[1] < seen[2], "{seen:?}");
}

#[tokio::test]
async fn a_call_is_answered_whatever_answer_the_publish_asks_for() {
    let (broker, _store) = start();
    let mut c = Client::new(&broker);
    c.declare("q").await;
    for answer in [Answer::None, Answer::Watermark, Answer::Reply] {
        let reply = broker.call(&anyone(), &name("/"), transient("q", "m", answer)).await;
        assert!(matches!(reply, Ok(Reply::Published(_))), "{answer:?} {reply:?}");
    }
    broker.refuse_publishes();
    let reply = broker.call(&anyone(), &name("/"), transient("q", "m", Answer::Watermark)).await;
    assert!(matches!(reply, Err(BrokerError::Stopping)), "{reply:?}");
}

#[tokio::test]
async fn two_pulls_of_one_holder_get_a_message_each() {
    let (broker, _store) = start();
    let mut c = Client::new(&broker);
    c.declare("q").await;
    c.declare("other").await;
    let first = c.send(fetch("q", 60_000, true)).await;
    let second = c.send(fetch("q", 60_000, true)).await;
    let elsewhere = c.call(fetch("other", 0, true)).await;
    assert!(matches!(elsewhere, Err(BrokerError::ConsumerExists)), "its pulls wait at another queue");
    c.put("q", "a").await;
    c.put("q", "b").await;
    for (id, expected) in [(first, "a"), (second, "b")] {
        let Ok(Reply::Fetched { messages, .. }) = c.reply(id).await else { panic!("fetched") };
        assert_eq!(messages.iter().map(|m| text(&m.frame)).collect::<Vec<_>>(), [expected]);
    }
}

#[tokio::test]
async fn a_pull_takes_as_it_says_and_not_as_the_pull_before() {
    let (broker, _store) = start();
    let mut c = Client::new(&broker);
    c.declare("q").await;
    c.put("q", "held").await;
    c.put("q", "settled at once").await;
    c.call(fetch("q", 0, false)).await.expect("fetched");
    c.call(fetch("q", 0, true)).await.expect("fetched");
    let Ok(Reply::Queue(info)) = c.call(Request::Query(Query::Queue(name("q")))).await else {
        panic!("there")
    };
    assert_eq!((info.ready, info.unacked), (0, 1));
}

#[tokio::test]
async fn what_a_deleted_queue_held_of_a_pool_is_free_for_its_other_consumers() {
    let (broker, _store) = start();
    let mut c = Client::new(&broker);
    c.call(Request::Credit(Credit::Pool(PoolId(1), Some(1)))).await.expect("set");
    for (id, queue) in [(1, "gone"), (2, "stays")] {
        c.declare(queue).await;
        let consume = Consume { pool: Some(PoolId(1)), ..consumer(id, queue, None) };
        c.call(Request::Consume(consume)).await.expect("consuming");
    }
    c.put("gone", "a").await;
    let held = c.delivery().await;
    c.put("stays", "b").await;
    let delete = Define::DeleteQueue { name: name("gone"), if_unused: false, if_empty: false };
    c.call(Request::Define(delete)).await.expect("deleted");
    assert_eq!(c.texts(1).await, ["b"]);
    assert!(matches!(c.settle(&[&held], Outcome::Ack).await, Err(BrokerError::UnknownDelivery)));
}

#[tokio::test]
async fn one_delivery_is_not_settled_twice_by_an_atomic_request() {
    let (broker, _store) = start();
    let mut c = Client::new(&broker);
    c.declare("q").await;
    c.put("q", "a").await;
    c.consume(1, "q", None).await;
    let d = c.delivery().await;
    let ack = || {
        let lease = Lease::Positions(ConsumerId(1), vec![seq(&d)]);
        Request::Settle(Settle { lease, outcome: Outcome::Ack, answer: false })
    };
    let reply = c.call(Request::Atomic(vec![ack(), ack()])).await;
    assert!(matches!(reply, Err(BrokerError::UnknownDelivery)), "{reply:?}");
    c.settle(&[&d], Outcome::Ack).await.expect("nothing of it was done");
}

#[tokio::test]
async fn a_dead_letter_whose_frame_is_not_in_memory_reaches_a_volatile_queue() {
    let store = MemoryStore::new();
    let broker = start_on(&store, Limits { cache_bytes_max: 0, ..Limits::default() });
    let mut c = Client::new(&broker);
    let dead = QueueSpec { name: name("dead"), exclusive: true, ..QueueSpec::default() };
    c.call(Request::Define(Define::Queue(dead))).await.expect("declared");
    let properties = QueueProperties {
        dead_letter_exchange: Some(name("")),
        dead_letter_key: Some(name("dead")),
        ..QueueProperties::default()
    };
    c.declare_with("q", properties).await;
    c.put("q", "poison").await;
    c.consume(1, "q", None).await;
    let d = c.delivery().await;
    // passes in which the frame leaves the memory
    for _ in 0..3 {
        c.call(Request::Query(Query::Stats)).await.expect("stats");
    }
    c.settle(&[&d], Outcome::Reject).await.expect("rejected");
    c.consume(2, "dead", None).await;
    assert_eq!(c.texts(1).await, ["poison"]);
}

#[tokio::test]
async fn after_an_orderly_stop_what_was_seen_is_marked_and_numbers_go_on() {
    let (broker, store) = start();
    let mut c = Client::new(&broker);
    c.declare("q").await;
    c.put("q", "seen").await;
    c.put("q", "new").await;
    c.consume(1, "q", Some(1)).await;
    let first = c.delivery().await;
    assert!(!first.redelivered);
    broker.stop().await.expect("clean stop");
    let broker = start_on(&store, Limits::default());
    let mut c = Client::new(&broker);
    c.put("q", "last").await;
    c.consume(1, "q", None).await;
    let mut got = Vec::new();
    for _ in 0..3 {
        let d = c.delivery().await;
        got.push((text(&d.frame), d.redelivered, seq(&d).0));
    }
    assert_eq!(got, [("seen".into(), true, 1), ("new".into(), false, 2), ("last".into(), false, 3)]);
}

#[tokio::test]
async fn a_consumer_hears_that_it_started_before_its_first_delivery() {
    let store = MemoryStore::paused();
    let (on, gone) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let pump = {
        let (store, on, gone) = (store.clone(), Arc::clone(&on), Arc::clone(&gone));
        std::thread::spawn(move || {
            while !gone.load(Ordering::Acquire) {
                if on.load(Ordering::Acquire) {
                    store.release(1);
                }
                std::thread::yield_now();
            }
        })
    };
    let broker = start_on(&store, Limits::default());
    let mut c = Client::new(&broker);
    c.declare("q").await;
    c.put("q", "there").await;
    on.store(false, Ordering::Release);
    c.publish("q", "unsafe", Answer::Watermark).await;
    let consuming = c.send(Request::Consume(consumer(1, "q", None))).await;
    broker.call(&anyone(), &name("/"), Request::Query(Query::Stats)).await.expect("stats");
    on.store(true, Ordering::Release);
    loop {
        match c.effect().await {
            Effect::Reply(id, Ok(Reply::Done)) if id == consuming => break,
            Effect::Confirmed { .. } => {}
            other => panic!("before the reply: {other:?}"),
        }
    }
    assert_eq!(c.texts(2).await, ["there", "unsafe"]);
    gone.store(true, Ordering::Release);
    pump.join().expect("pump");
}
