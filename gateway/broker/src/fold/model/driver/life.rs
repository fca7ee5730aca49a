//! One life after another of a broker over one log, step by step beside the model.

use std::collections::BTreeMap;

use framegate_storage_memory::MemoryStore;

use super::super::Model;
use super::commands::{Command, PEERS, Part};
use super::requests;
use crate::feed::{From, Subscribe, Subscription};
use crate::fold::Now;
use crate::fold::tests::rig::{Peer, Rig, name};
use crate::fold::tests::store::Store;
use crate::ids::{ConsumerId, Offset, PoolId};
use crate::limits::Limits;
use crate::request::{Credit, Define, Request};

/// What a life is given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Frame bytes in memory.
    pub(super) cache_bytes: usize,
    /// Bytes on the way to a connection.
    pub(super) window_bytes: usize,
}

/// See the module.
pub(super) struct Life {
    pub(super) rig: Rig,
    pub(super) model: Model,
    pub(super) peers: Vec<Peer>,
    pub(super) subscriptions: BTreeMap<u32, Subscription>,
    pub(super) room: Room,
    snapshot_bytes: u64,
    /// A count of the store, and the position that a power cut leaves.
    synced: (u64, u64),
    messages: u64,
    steps: u64,
}

impl Life {
    pub(super) fn new(room: Room) -> Result<Self, String> {
        Self::over(Store::Memory(MemoryStore::paused()), room, u64::MAX)
    }

    /// `snapshot_bytes`: bytes of log from snapshot to snapshot.
    pub(super) fn over(store: Store, room: Room, snapshot_bytes: u64) -> Result<Self, String> {
        let now = Now { wall_ms: 1_000_000, mono_ms: 10 };
        let limits = limits(room, snapshot_bytes);
        let rig = Rig::start(&store, now, limits.clone());
        let model = Model::new(limits, now);
        let (peers, subscriptions) = (Vec::new(), BTreeMap::new());
        let synced = (0, 0);
        let mut life =
            Self { rig, model, peers, subscriptions, room, snapshot_bytes, synced, messages: 0, steps: 0 };
        life.model.is_tight = room.cache_bytes < 1 << 20 || room.window_bytes < 1 << 20;
        life.started()?;
        Ok(life)
    }

    /// A broker has started: its connections come.
    fn started(&mut self) -> Result<(), String> {
        self.synced = (0, self.rig.claim.next.0 - 1);
        self.subscriptions.clear();
        self.model.opens_at(self.rig.claim.next.0);
        self.begin_at(self.synced.1);
        self.peers.clear();
        for _ in 0..PEERS {
            let peer = self.rig.connect_with(self.room.window_bytes);
            self.model.connect(peer.id);
            self.peers.push(peer);
        }
        self.passes()?;
        self.compare_content()
    }

    fn begin(&mut self) {
        self.begin_at(self.rig.core.newest().0);
    }

    fn begin_at(&mut self, newest: u64) {
        self.model.begin(newest, self.rig.reported(), self.synced.1, self.rig.now);
    }

    /// One command to its end.
    pub(super) fn step(&mut self, command: &Command) -> Result<(), String> {
        self.steps += 1;
        self.model.met(command.word());
        match command {
            Command::Stop => return self.stop(),
            Command::Kill => return self.crash(Store::cut_unwritten, self.rig.reported()),
            Command::Cut => return self.crash(Store::cut_unsynced, self.synced.1),
            Command::Release(blocks) => self.release(usize::try_from(*blocks).unwrap_or(usize::MAX)),
            Command::Wait(ms) => self.rig.wait(*ms),
            Command::WaitDue(before) => {
                let due = self.model.next_due().unwrap_or(0);
                let ms = due.saturating_sub(self.rig.now.mono_ms + u64::from(*before));
                self.rig.wait(ms);
            }
            _ => {}
        }
        self.begin();
        self.perform(command)?;
        self.passes()?;
        self.compare_counts()?;
        self.compare_groups()?;
        if self.steps.is_multiple_of(64) {
            self.compare_content()?;
        }
        Ok(())
    }

    /// Passes until nothing is left to do.
    fn passes(&mut self) -> Result<(), String> {
        loop {
            self.model.tick();
            self.rig.pass();
            self.adopt_dead()?;
            let more = self.judge()?;
            self.resolve_gates();
            self.adopt_groups()?;
            self.model.end(self.rig.core.newest().0);
            if !more && !self.rig.core.has_more() {
                return self.model.settled();
            }
            self.begin();
        }
    }

    fn release(&mut self, blocks: usize) {
        self.rig.store.release(blocks);
        self.synced = self.rig.store.synced(self.rig.reported(), self.synced);
    }

    /// An orderly end.
    fn stop(&mut self) -> Result<(), String> {
        self.begin();
        self.rig.core.finish();
        self.model.tick();
        self.model.end(self.rig.core.newest().0);
        self.release(usize::MAX);
        self.begin();
        self.model.closes();
        self.rig.pass();
        self.judge()?;
        self.model.end(self.rig.core.newest().0);
        self.model.all_answered()?;
        self.restart(self.synced.1, true)
    }

    fn crash(&mut self, how: fn(&Store), left: u64) -> Result<(), String> {
        how(&self.rig.store);
        self.restart(left, false)
    }

    fn restart(&mut self, left: u64, orderly: bool) -> Result<(), String> {
        self.subscriptions.clear();
        self.peers.clear();
        let (store, now) = (self.rig.store.clone(), self.rig.now);
        self.rig = Rig::start(&store, now, limits(self.room, self.snapshot_bytes));
        let next = self.rig.claim.next.0;
        // files may keep more than was promised
        let is_left = next == left + 1 || (next > left && matches!(store, Store::Files(_)));
        if !is_left {
            return Err(format!("the log ends before {next}, not after {left}"));
        }
        let left = next - 1;
        self.model.restart(left, orderly, now)?;
        self.started()
    }

    fn perform(&mut self, command: &Command) -> Result<(), String> {
        let (peer, requests) = match command {
            Command::Publish(peer, messages) => {
                let publishes = messages.iter().map(|m| {
                    self.messages += 1;
                    Request::Publish(requests::publish(&self.model, m, self.messages))
                });
                (*peer, routed_alike(&self.model, publishes.collect()))
            }
            Command::Atomic(peer, parts) => {
                let id = self.peers[*peer as usize].id;
                let part = |part: &Part| match part {
                    Part::Publish(message) => {
                        self.messages += 1;
                        Some(Request::Publish(requests::publish(&self.model, message, self.messages)))
                    }
                    Part::Settle(settlement) => requests::settle(&self.model, id, settlement),
                };
                (
                    *peer,
                    vec![Request::Atomic(routed_alike(&self.model, parts.iter().filter_map(part).collect()))],
                )
            }
            Command::Consume { peer, consumer, queue, prefetch, pool, terms, rank } => (
                *peer,
                vec![Request::Consume(requests::consume(*consumer, *queue, *prefetch, *pool, terms, *rank))],
            ),
            Command::Fetch { peer, holder, queue, max, wait_ms, terms } => {
                (*peer, vec![Request::Fetch(requests::fetch(*holder, *queue, *max, *wait_ms, terms))])
            }
            Command::Cancel { peer, consumer } => {
                (*peer, vec![Request::Cancel(ConsumerId(*consumer as u32))])
            }
            Command::Credit { peer, consumer, limit } => {
                let credit = Credit::Consumer(ConsumerId(*consumer as u32), limit.map(|l| l as u32));
                (*peer, vec![Request::Credit(credit)])
            }
            Command::PoolCredit { peer, pool, limit } => {
                let credit = Credit::Pool(PoolId(*pool as u32), limit.map(|l| l as u32));
                (*peer, vec![Request::Credit(credit)])
            }
            Command::Settle(peer, settlement) => {
                let id = self.peers[*peer as usize].id;
                (*peer, requests::settle(&self.model, id, settlement).into_iter().collect())
            }
            Command::Settles(peer, settlements) => {
                let id = self.peers[*peer as usize].id;
                let all = settlements.iter().filter_map(|s| requests::settle(&self.model, id, s));
                (*peer, requests::settled_once(&self.model, id, all.collect()))
            }
            Command::Recover { peer, consumer } => {
                (*peer, vec![Request::Recover(consumer.map(|c| ConsumerId(c as u32)))])
            }
            Command::Group(peer, command) => {
                let id = self.peers[*peer as usize].id;
                (*peer, command.requests(&self.model, id))
            }
            Command::Browse { peer, queue, max } => {
                return self.browse(self.peers[*peer as usize].id, *queue, *max);
            }
            Command::History { topic, max, last } => return self.history(*topic, *max, *last),
            Command::Subscribe { .. } | Command::Unsubscribe { .. } => return self.perform_feed(command),
            Command::Lose(peer) => {
                let at = *peer as usize;
                let fresh = self.rig.connect_with(self.room.window_bytes);
                self.model.connect(fresh.id);
                let lost = std::mem::replace(&mut self.peers[at], fresh);
                self.rig.drop_connection(lost.id);
                self.model.disconnect(lost.id);
                return Ok(());
            }
            command => match definition(command) {
                Some((peer, define)) => (peer, vec![Request::Define(define)]),
                None => return Ok(()),
            },
        };
        let peer = &mut self.peers[peer as usize];
        let ids = self.rig.send(peer, requests.clone());
        for (id, request) in ids.iter().zip(&requests) {
            self.model.request(peer.id, *id, request);
        }
        Ok(())
    }

    fn perform_feed(&mut self, command: &Command) -> Result<(), String> {
        match command {
            Command::Subscribe { slot, patterns, from, at } => {
                let slot = *slot as u32;
                // the place is free, whoever had it
                if self.subscriptions.remove(&slot).is_some() {
                    self.model.unsubscribe(slot);
                    self.rig.take_inbox();
                }
                let patterns = requests::patterns(*patterns);
                let from = self.from(*from, *at, &patterns);
                let what = Subscribe { patterns: patterns.clone(), from: from.clone() };
                let subscription = self.rig.subscribe(what).map_err(|e| format!("subscribe: {e}"))?;
                self.model.subscribe(slot, &patterns, &from);
                self.subscriptions.insert(slot, subscription);
            }
            Command::Unsubscribe { slot } => {
                let slot = *slot as u32;
                self.subscriptions.remove(&slot);
                self.model.unsubscribe(slot);
                self.rig.take_inbox();
            }
            _ => {}
        }
        Ok(())
    }

    fn from(&self, from: u64, at: u64, patterns: &[crate::name::Name]) -> From {
        let one = patterns.len() == 1 && !patterns[0].contains(['*', '#']);
        match from % 7 {
            0 => From::Latest,
            1 => From::Earliest,
            2 if one => From::Ago(at % 10_000),
            2 => From::Time(self.rig.now.wall_ms.saturating_sub(at % 10_000)),
            3 => From::Last((at % 6) as u32),
            4 if one => From::Offset(Offset(at % 20)),
            5 => From::After("nonsense".to_owned()),
            _ => {
                let told: Vec<_> = self.model.events.iter().filter_map(|e| e.cursor).collect();
                let newest = told.len().saturating_sub(1 + (at % 40) as usize);
                told.get(newest).map_or(From::Latest, |c| From::After(c.to_string()))
            }
        }
    }
}

/// A batch is routed before any of it is taken: beside a publish that makes its target stand only others that do.
fn routed_alike(model: &Model, mut requests: Vec<Request>) -> Vec<Request> {
    let makes = |r: &Request| matches!(r, Request::Publish(p) if p.create_queue || p.create_topic);
    if requests.iter().any(makes) {
        requests.retain(|r| makes(r) || !matches!(r, Request::Publish(_)));
    }
    // whether a queue is full hangs on what others take of it in between
    if requests.iter().any(|r| model.is_limited(r)) {
        requests.truncate(1);
    }
    requests
}

fn definition(command: &Command) -> Option<(u64, Define)> {
    Some(match command {
        Command::DeclareQueue { peer, queue, other } => {
            (*peer, Define::Queue(requests::queue_spec(*queue, *other)))
        }
        Command::PassiveQueue { peer, queue } => (*peer, Define::QueuePassive(requests::queue_name(*queue))),
        Command::DeleteQueue { peer, queue, if_unused, if_empty } => {
            let (name, if_unused, if_empty) = (requests::queue_name(*queue), *if_unused, *if_empty);
            (*peer, Define::DeleteQueue { name, if_unused, if_empty })
        }
        Command::Purge { peer, queue } => (*peer, Define::Purge(requests::queue_name(*queue))),
        Command::DeclareExchange { peer, exchange, other } => {
            (*peer, Define::Exchange(requests::exchange_spec(*exchange, *other)))
        }
        Command::DeleteExchange { peer, exchange, if_unused } => {
            let name = requests::exchange_spec(*exchange, false).name;
            (*peer, Define::DeleteExchange { name, if_unused: *if_unused })
        }
        Command::Bind { peer, binding, undo } => {
            let binding = requests::binding(binding);
            (*peer, if *undo { Define::Unbind(binding) } else { Define::Bind(binding) })
        }
        Command::DeclareTopic { peer, topic, other } => {
            (*peer, Define::Topic(requests::topic_spec(*topic, *other)))
        }
        Command::DeleteTopic { peer, topic } => {
            (*peer, Define::DeleteTopic(name(&requests::topic_spec(*topic, false).name)))
        }
        _ => return None,
    })
}

fn limits(room: Room, snapshot_log_bytes: u64) -> Limits {
    Limits {
        snapshot_log_bytes,
        cache_bytes_max: room.cache_bytes,
        topic_idle_ms: 60_000,
        ..Limits::default()
    }
}
