//! F1: lives that end by a kill at a random point. Each next life must find every confirmed message, nothing that was
//! never published, nothing whose ack is safe, and all in order.

use std::collections::{BTreeMap, BTreeSet};

use framegate_broker::{
    Answer, Connection, Delivery, Effect, Lease, Outbox, Outcome, Publish, Query, Reply, Request, RequestId,
    Seq, Settle,
};
use framegate_storage::conformance::SampleRng;

use crate::home::Home;
use crate::support::{Client, anyone, consumer, frame, name, seq, text};
use crate::topics;

/// Kills; on real files fewer, each costs a few syncs of a disk.
const KILLS: u64 = 500;
const KILLS_ON_FILES: u64 = 100;
/// Lives after which a new store is made, so that logs stay short.
const LIVES_OF_A_STORE: u64 = 25;

/// What is known of the messages of one store, by number; in order of publish.
#[derive(Default)]
struct Model {
    next: u64,
    /// Published and not known to be gone; true: confirmed.
    there: BTreeMap<u64, bool>,
    /// Acked in this life; true: a later confirm shows that the ack is stored.
    acked: BTreeMap<u64, bool>,
    /// Events of the topic that are confirmed, by offset.
    events: BTreeMap<u64, String>,
    /// Texts of events ever published.
    posted: BTreeSet<String>,
}

/// One connection of one life.
struct Life {
    connection: Connection,
    outbox: Outbox,
    next: u64,
    /// Publishes under way: number, and the acks sent before it.
    publishing: BTreeMap<RequestId, (u64, Vec<u64>)>,
    posting: BTreeMap<RequestId, String>,
    held: BTreeMap<u64, Seq>,
    acks: Vec<u64>,
}

impl Life {
    /// A request that may come too late: the store can have died already.
    async fn send(&mut self, request: Request) -> RequestId {
        self.next += 1;
        let id = RequestId(self.next);
        let _ = self.connection.submit(vec![(id, request)]).await;
        id
    }

    /// What was heard so far.
    fn hear(&mut self, effects: Vec<Effect>, model: &mut Model) {
        for effect in effects {
            match effect {
                Effect::Delivery(delivery) => self.got(&delivery),
                Effect::Reply(id, Ok(Reply::Published(published))) => {
                    if let Some((number, acks)) = self.publishing.remove(&id) {
                        model.there.insert(number, true);
                        for ack in acks {
                            model.acked.insert(ack, true);
                        }
                    }
                    if let Some(text) = self.posting.remove(&id) {
                        model.events.insert(published.offset.expect("the topic keeps it").0, text);
                    }
                }
                _ => {}
            }
        }
    }

    fn got(&mut self, delivery: &Delivery) {
        self.connection.written(delivery.window_bytes());
        let number = text(&delivery.frame).parse().expect("a number");
        assert!(self.held.insert(number, seq(delivery)).is_none(), "{number} came twice");
    }

    /// A random request.
    async fn act(&mut self, rng: &mut SampleRng, model: &mut Model) {
        match rng.below(10) {
            0..5 => {
                let number = model.next;
                model.next += 1;
                model.there.insert(number, false);
                let answer = Answer::Reply;
                let body = frame(&number.to_string());
                let publish = Publish { persistent: true, answer, ..Publish::new(name(""), name("q"), body) };
                let id = self.send(Request::Publish(publish)).await;
                self.publishing.insert(id, (number, self.acks.clone()));
            }
            5..8 => {
                let some: Vec<u64> =
                    self.held.keys().copied().filter(|_| rng.below(3) == 0).take(4).collect();
                if some.is_empty() {
                    return;
                }
                let positions = some.iter().filter_map(|n| self.held.remove(n)).collect();
                let lease = Lease::Positions(framegate_broker::ConsumerId(1), positions);
                let settle = Settle { lease, outcome: Outcome::Ack, answer: false };
                self.send(Request::Settle(settle)).await;
                model.acked.extend(some.iter().map(|n| (*n, false)));
                self.acks.extend(some);
            }
            8 => {
                let body = format!("event {}", model.posted.len());
                model.posted.insert(body.clone());
                let publish = Publish::to_topic(name("t"), frame(&body));
                let id = self.send(Request::Publish(publish)).await;
                self.posting.insert(id, body);
            }
            _ => {
                // lets some confirms come
                self.send(Request::Query(Query::Stats)).await;
                if let Some(effects) = self.outbox.recv().await {
                    self.hear(effects, model);
                }
            }
        }
        while let Some(effects) = self.outbox.try_recv() {
            self.hear(effects, model);
        }
    }
}

/// F1.
pub(crate) async fn f1_kills(home: &mut Home) -> String {
    let kills = if home.backend() == "journal" { KILLS_ON_FILES } else { KILLS };
    let mut rng = SampleRng(1);
    let (mut found, mut confirmed) = (0, 0);
    let mut model = Model::default();
    let mut broker = home.fresh().await;
    for kill in 0..kills {
        if kill % LIVES_OF_A_STORE == 0 {
            model = Model::default();
            broker = home.fresh().await;
            let mut c = Client::new(&broker);
            c.declare("q").await;
            topics::post(&mut c, "t", "first").await;
            model.events.insert(0, "first".to_owned());
            model.posted.insert("first".to_owned());
        }
        check_topic(&broker, &model, kill).await;
        let (connection, outbox) = broker.connect(&anyone(), &name("/"), "test").expect("connected");
        let mut life = Life {
            connection,
            outbox,
            next: 0,
            publishing: BTreeMap::new(),
            posting: BTreeMap::new(),
            held: BTreeMap::new(),
            acks: Vec::new(),
        };
        check_queue(&mut life, &mut model, kill).await;
        found += life.held.len();
        if rng.below(4) != 0 {
            home.die_after(1 + rng.below(40));
        }
        for _ in 0..rng.below(30) {
            life.act(&mut rng, &mut model).await;
        }
        home.kill().await;
        while let Some(effects) = life.outbox.try_recv() {
            life.hear(effects, &mut model);
        }
        confirmed += model.there.values().filter(|confirmed| **confirmed).count();
        drop(life);
        broker = home.reopen();
    }
    assert!(found > 100 && confirmed > 100, "{found} found, {confirmed} confirmed: the lives did too little");
    format!("{kills} kills")
}

/// What is in the queue, by one consumer that then holds all of it.
async fn check_queue(life: &mut Life, model: &mut Model, kill: u64) {
    let asked = life.send(Request::Query(Query::Queue(name("q")))).await;
    let mut there = None;
    while there.is_none() {
        for effect in life.outbox.recv().await.expect("the broker runs") {
            if let Effect::Reply(id, Ok(Reply::Queue(info))) = effect
                && id == asked
            {
                there = Some(info.ready);
            }
        }
    }
    life.send(Request::Consume(consumer(1, "q", None))).await;
    let mut order = Vec::new();
    while (order.len() as u64) < there.expect("it was asked for") {
        for effect in life.outbox.recv().await.expect("the broker runs") {
            if let Effect::Delivery(delivery) = effect {
                order.push(text(&delivery.frame).parse::<u64>().expect("a number"));
                life.got(&delivery);
            }
        }
    }
    assert!(order.is_sorted_by(|a, b| a < b), "kill {kill}: order {order:?}");
    let present: BTreeSet<u64> = order.into_iter().collect();
    for number in &present {
        assert!(model.there.contains_key(number), "kill {kill}: {number} was not published, or was gone");
        assert_ne!(model.acked.get(number), Some(&true), "kill {kill}: {number} was acked and safe");
    }
    for (number, confirmed) in &model.there {
        let may_be_gone = !confirmed || model.acked.contains_key(number);
        assert!(may_be_gone || present.contains(number), "kill {kill}: {number} was confirmed and is lost");
    }
    // what was recovered is stored from now on, and what is gone stays gone
    model.there = present.into_iter().map(|number| (number, true)).collect();
    model.acked.clear();
}

async fn check_topic(broker: &framegate_broker::Broker, model: &Model, kill: u64) {
    let mut c = Client::new(broker);
    let info = topics::topic(&mut c, "t").await;
    let events = topics::replay(broker, "t", (info.next.0 - info.first.0) as usize).await;
    for (offset, event) in events.iter().enumerate() {
        assert_eq!(event.offset, offset as u64, "kill {kill}: dense");
        assert!(model.posted.contains(&event.text), "kill {kill}: {} was not published", event.text);
    }
    for (offset, text) in &model.events {
        let found = events.get(*offset as usize).map(|e| &e.text);
        assert_eq!(found, Some(text), "kill {kill}: the event with offset {offset}");
    }
}
