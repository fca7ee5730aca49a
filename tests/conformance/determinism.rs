//! F7: the same log folded several times, over different stores, gives the same content.

use std::sync::Arc;

use framegate_broker::{
    BindTarget, BindingSpec, Broker, ConsumerId, Define, ExchangeKind, ExchangeSpec, Outcome, Publish, Query,
    QueueProperties, Request,
};
use framegate_storage::conformance::SampleRng;
use framegate_storage::{Pos, ShardId, ShardStore, StoredBlock};

use crate::home::{self, Home};
use crate::queues::{counts, deliveries};
use crate::replica::Replica;
use crate::support::{Client, frame, name};
use crate::topics;

const SHARD: ShardId = ShardId(0);
const QUEUES: [&str; 3] = ["one", "two", "dead"];
const TOPICS: [&str; 2] = ["t.one", "t.two"];

/// F7.
pub(crate) async fn f7_same_log_same_state(home: &mut Home) -> String {
    let broker = home.fresh().await;
    work(&broker, 7).await;
    let broker = home.crash().await;
    work(&broker, 8).await;
    drop(broker);
    home.kill().await;
    // with or without the record of this start, which changes nothing that can be seen
    let broker = home.reopen();
    let log = log_of(home.store());
    let original = content(&broker).await;
    for copy in 0..2 {
        let store = Arc::new(Replica::new(home.store().caps(), &log));
        let again = home::start(store, home.limits.clone());
        let folded = content(&again).await;
        again.stop().await.expect("a clean stop");
        assert_eq!(folded.len(), original.len(), "copy {copy}");
        for (line, expected) in folded.iter().zip(&original) {
            assert_eq!(line, expected, "copy {copy}");
        }
    }
    format!("{} blocks, {} facts compared, original and two copies", log.len(), original.len())
}

/// Definitions, publishes and settlements of every kind that is logged.
async fn work(broker: &Broker, seed: u64) {
    let mut c = Client::new(broker);
    let mut rng = SampleRng(seed);
    let dead = QueueProperties {
        dead_letter_exchange: Some(name("")),
        dead_letter_key: Some(name("dead")),
        ..QueueProperties::default()
    };
    c.declare_with("one", dead.clone()).await;
    c.declare_with("two", dead).await;
    c.declare("dead").await;
    c.declare(&format!("gone-{seed}")).await;
    let exchange = ExchangeSpec {
        name: name("events"),
        kind: ExchangeKind::Topic,
        durable: true,
        auto_delete: false,
        internal: false,
        alternate: None,
    };
    c.call(Request::Define(Define::Exchange(exchange))).await.expect("declared");
    for (queue, key) in [("one", "#"), ("two", "*.two")] {
        let target = BindTarget::Queue(name(queue));
        let binding = BindingSpec { exchange: name("events"), target, key: name(key), arguments: Vec::new() };
        c.call(Request::Define(Define::Bind(binding))).await.expect("bound");
    }
    for n in 0..60 {
        let key = ["a.one", "a.two"][rng.below(2) as usize];
        let answer = framegate_broker::Answer::Reply;
        let body = frame(&format!("{seed} {n} {}", "x".repeat(rng.below(300) as usize)));
        let publish = Publish { persistent: true, answer, ..Publish::new(name("events"), name(key), body) };
        c.call(Request::Publish(publish)).await.expect("published");
        topics::post(&mut c, TOPICS[rng.below(2) as usize], &format!("{seed} {n}")).await;
    }
    for (id, queue) in [(1, "one"), (2, "two")] {
        c.consume(id, queue, Some(10)).await;
        let held = deliveries(&mut c, 10).await;
        c.call(Request::Cancel(ConsumerId(id))).await.expect("cancelled");
        for (n, delivery) in held.iter().enumerate() {
            let outcome = match n % 4 {
                0 => Outcome::Ack,
                1 => Outcome::Requeue { delay_ms: 0 },
                2 => Outcome::Reject,
                _ => continue,
            };
            c.settle(&[delivery], outcome).await.expect("settled");
        }
    }
    let delete = Define::DeleteQueue { name: name(&format!("gone-{seed}")), if_unused: true, if_empty: true };
    c.call(Request::Define(delete)).await.expect("deleted");
    c.put("dead", "the last").await;
}

/// Everything that can be seen, one fact a line.
async fn content(broker: &Broker) -> Vec<String> {
    let mut c = Client::new(broker);
    let mut facts = Vec::new();
    let bindings = Query::Bindings { exchange: None, queue: None };
    for query in [Query::Queues, Query::Exchanges, bindings, Query::Topics] {
        facts.push(format!("{:?}", c.call(Request::Query(query)).await.expect("an answer")));
    }
    for (id, queue) in (1..).zip(QUEUES) {
        let (ready, unacked) = counts(&mut c, queue).await;
        assert_eq!(unacked, 0, "nothing is leased after a start");
        c.consume(id, queue, None).await;
        for d in deliveries(&mut c, ready as usize).await {
            let (attempt, redelivered) = (d.attempt, d.redelivered);
            let (seq, envelope, frame) = (d.position, d.envelope, d.frame.as_bytes().to_vec());
            facts.push(format!("{queue} {seq:?} {attempt} {redelivered} {envelope:?} {frame:?}"));
        }
    }
    for topic in TOPICS {
        let info = topics::topic(&mut c, topic).await;
        let events = topics::replay(broker, topic, (info.next.0 - info.first.0) as usize).await;
        // the generation is another store's
        let place = |cursor: &str| cursor.split_once('.').map(|(_, place)| place.to_owned());
        facts.extend(
            events
                .into_iter()
                .map(|e| format!("{topic} {} {:?} {} {}", e.offset, place(&e.cursor), e.time_ms, e.text)),
        );
    }
    facts
}

fn log_of(store: &dyn ShardStore) -> Vec<StoredBlock> {
    let mut log = Vec::new();
    let mut from = Pos(0);
    loop {
        let blocks = store.read(SHARD, from, 1 << 20).expect("the log is read");
        let Some(last) = blocks.last() else { return log };
        from = store.next_pos(SHARD, last.pos).expect("the next position");
        log.extend(blocks);
    }
}
