//! Random lives: whatever happens, a reader of the log knows what the core knows, and no message is lost or in two places.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::rig::{Peer, Rig, consumer, message, name, pull, queue, seq, settlement};
use crate::definition::{Overflow, PriorityMode, QueueProperties};
use crate::ids::Seq;
use crate::message::Dedup;
use crate::request::{Define, Effect, Outcome, Publish, Query, Reply, Request};

const QUEUES: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone)]
enum Step {
    Publish { queue: usize, persistent: bool, ttl: bool, delay: bool, priority: i32 },
    Topic { key: u8 },
    Consume { peer: usize, queue: usize, prefetch: u32 },
    Pull { peer: usize, queue: usize, auto_ack: bool },
    Settle { peer: usize, how: u8, count: usize },
    Lose { peer: usize },
    Purge { queue: usize },
    Delete { queue: usize },
    Wait { ms: u64 },
    Durable,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let (queue, peer) = (0..QUEUES.len(), 0..3_usize);
    prop_oneof![
        8 => (queue.clone(), any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.2), 0..5_i32)
            .prop_map(|(queue, persistent, ttl, delay, priority)| {
                Step::Publish { queue, persistent, ttl, delay, priority }
            }),
        2 => (0..4_u8).prop_map(|key| Step::Topic { key }),
        3 => (peer.clone(), queue.clone(), 1..5_u32)
            .prop_map(|(peer, queue, prefetch)| Step::Consume { peer, queue, prefetch }),
        2 => (peer.clone(), queue.clone(), any::<bool>())
            .prop_map(|(peer, queue, auto_ack)| Step::Pull { peer, queue, auto_ack }),
        6 => (peer.clone(), 0..6_u8, 1..4_usize)
            .prop_map(|(peer, how, count)| Step::Settle { peer, how, count }),
        1 => peer.prop_map(|peer| Step::Lose { peer }),
        1 => queue.clone().prop_map(|queue| Step::Purge { queue }),
        1 => queue.prop_map(|queue| Step::Delete { queue }),
        2 => (1..3000_u64).prop_map(|ms| Step::Wait { ms }),
        3 => Just(Step::Durable),
        1 => Just(Step::Restart),
    ]
}

/// What a peer holds, by holder.
type HeldBy = BTreeMap<u32, Vec<Seq>>;

struct Life {
    rig: Rig,
    peers: Vec<(Peer, HeldBy)>,
    next: u32,
}

impl Life {
    fn new(rig: Rig) -> Self {
        let mut life = Self { rig, peers: Vec::new(), next: 0 };
        for _ in 0..3 {
            let peer = life.rig.connect();
            life.peers.push((peer, HeldBy::new()));
        }
        life
    }

    fn declare(&mut self) {
        let dead = QueueProperties {
            dead_letter_exchange: Some(name("")),
            dead_letter_key: Some(name("b")),
            delivery_limit: Some(2),
            ..QueueProperties::default()
        };
        let gated = QueueProperties {
            deliver_durable: true,
            message_ttl_ms: Some(4000),
            bytes_max: Some(9),
            overflow: Overflow::RejectPublish,
            ..QueueProperties::default()
        };
        let ranked = QueueProperties {
            priority: PriorityMode::Max(3),
            length_max: Some(4),
            dead_letter_exchange: Some(name("")),
            dead_letter_key: Some(name("c")),
            ..QueueProperties::default()
        };
        let requests = vec![queue("a", dead), queue("b", ranked), queue("c", gated)];
        self.rig.send(&mut self.peers[0].0, requests);
    }

    fn hear(&mut self) {
        for (peer, held) in &mut self.peers {
            for effect in peer.effects() {
                let deliveries = match effect {
                    Effect::Delivery(d) => vec![d],
                    Effect::Reply(_, Ok(Reply::Fetched { messages, .. })) => messages,
                    _ => continue,
                };
                for d in deliveries {
                    // even holders settle as they are delivered
                    if d.consumer.0 % 2 == 1 {
                        held.entry(d.consumer.0).or_default().push(seq(&d));
                    }
                }
            }
        }
    }

    fn run(&mut self, step: &Step) {
        self.next += 1;
        match *step {
            Step::Publish { queue, persistent, ttl, delay, priority } => {
                let publish = Publish {
                    persistent,
                    priority: Some(priority),
                    ttl_ms: ttl.then_some(800),
                    delay_ms: if delay { 700 } else { 0 },
                    ..message(QUEUES[queue], &self.next.to_string())
                };
                self.rig.send(&mut self.peers[0].0, vec![Request::Publish(publish)]);
            }
            Step::Topic { key } => {
                let dedup = Some(Dedup { key: [key; 16], content: 1 });
                let body = super::rig::frame("event");
                let publish = Publish { dedup, ..Publish::to_topic(name(&format!("t{}", key % 2)), body) };
                self.rig.send(&mut self.peers[0].0, vec![Request::Publish(publish)]);
            }
            Step::Consume { peer, queue, prefetch } => {
                let consume = consumer(self.next * 2 + 1, QUEUES[queue], Some(prefetch));
                self.rig.send(&mut self.peers[peer].0, vec![Request::Consume(consume)]);
            }
            Step::Pull { peer, queue, auto_ack } => {
                let holder = self.next * 2 + u32::from(!auto_ack);
                self.rig.send(&mut self.peers[peer].0, vec![pull(holder, QUEUES[queue], 2, 0, auto_ack)]);
            }
            Step::Settle { peer, how, count } => {
                let Some((holder, mut seqs)) = self.peers[peer].1.pop_first() else { return };
                let rest = seqs.split_off(count.min(seqs.len()));
                if !rest.is_empty() {
                    self.peers[peer].1.insert(holder, rest);
                }
                let outcome = match how {
                    0..=2 => Outcome::Ack,
                    3 => Outcome::Requeue { delay_ms: 0 },
                    4 => Outcome::Requeue { delay_ms: 600 },
                    _ => Outcome::Reject,
                };
                let settle = settlement(holder, &seqs, outcome);
                self.rig.send(&mut self.peers[peer].0, vec![Request::Settle(settle)]);
            }
            Step::Lose { peer } => {
                let fresh = self.rig.connect();
                let (old, _) = std::mem::replace(&mut self.peers[peer], (fresh, HeldBy::new()));
                self.rig.disconnect(old);
            }
            Step::Purge { queue } => {
                let purge = Request::Define(Define::Purge(name(QUEUES[queue])));
                self.rig.send(&mut self.peers[0].0, vec![purge]);
            }
            Step::Delete { queue } => {
                let delete =
                    Define::DeleteQueue { name: name(QUEUES[queue]), if_unused: false, if_empty: false };
                self.rig.send(&mut self.peers[0].0, vec![Request::Define(delete)]);
                self.declare();
            }
            Step::Wait { ms } => self.rig.wait(ms),
            Step::Durable => self.rig.settle(),
            Step::Restart => {
                self.rig.settle();
                let (replayed, live) = self.rig.hashes();
                assert_eq!(replayed, live);
                let (store, now) = (self.rig.store.clone(), self.rig.now);
                *self = Self::new(Rig::on(&store, now));
            }
        }
        self.rig.pass();
        self.hear();
    }

    /// Ready, leased and held back together are what is there.
    fn check_counts(&mut self) {
        self.rig.settle();
        self.hear();
        for queue in QUEUES {
            let peer = &mut self.peers[0].0;
            let Ok(Reply::Queue(info)) = self.rig.call(peer, Request::Query(Query::Queue(name(queue))))
            else {
                panic!("a queue")
            };
            let held = self.rig.core.held_back(&name(queue));
            assert_eq!(info.ready + info.unacked + held.1, held.0, "{queue}: {info:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_reader_of_the_log_knows_what_the_core_knows(steps in prop::collection::vec(step(), 1..120)) {
        let mut life = Life::new(Rig::new());
        life.declare();
        for step in &steps {
            life.run(step);
        }
        life.check_counts();
        let (replayed, live) = life.rig.hashes();
        prop_assert_eq!(replayed, live);
    }
}
