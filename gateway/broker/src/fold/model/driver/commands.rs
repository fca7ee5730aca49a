//! What the driver can do, and random sequences of it. A command says everything by small numbers that are taken modulo
//! what there is, so that a sequence still makes sense when some of it is left out.

use super::groups::GroupCommand;
use super::requests::QUEUES;
use crate::request::Outcome;

/// Few queues that have to do with each other: rings of dead letters, and limits with what becomes of the rest.
const FEW: [&[&str]; 4] = [
    &["round", "turn"],
    &["round", "turn", "a", "dead"],
    &["short", "d.short", "strict", "letters", "d.letters"],
    &["gated", "single", "brief", "limited", "d.brief", "d.limited"],
];

/// Connections that there are.
pub(super) const PEERS: u64 = 3;

/// One command. Numbers choose among names, connections and deliveries; see `requests`.
#[derive(Debug, Clone)]
pub(super) enum Command {
    /// Publishes of one batch.
    Publish(u64, Vec<Message>),
    /// All or nothing: publishes and settlements.
    Atomic(u64, Vec<Part>),
    Consume {
        peer: u64,
        consumer: u64,
        queue: u64,
        prefetch: Option<u64>,
        pool: u64,
        terms: Terms,
        rank: u64,
    },
    Fetch {
        peer: u64,
        holder: u64,
        queue: u64,
        max: u64,
        wait_ms: u64,
        terms: Terms,
    },
    Cancel {
        peer: u64,
        consumer: u64,
    },
    Credit {
        peer: u64,
        consumer: u64,
        limit: Option<u64>,
    },
    PoolCredit {
        peer: u64,
        pool: u64,
        limit: Option<u64>,
    },
    Settle(u64, Settlement),
    /// Several settlements in one batch.
    Settles(u64, Vec<Settlement>),
    Recover {
        peer: u64,
        consumer: Option<u64>,
    },
    DeclareQueue {
        peer: u64,
        queue: u64,
        other: bool,
    },
    PassiveQueue {
        peer: u64,
        queue: u64,
    },
    DeleteQueue {
        peer: u64,
        queue: u64,
        if_unused: bool,
        if_empty: bool,
    },
    Purge {
        peer: u64,
        queue: u64,
    },
    DeclareExchange {
        peer: u64,
        exchange: u64,
        other: bool,
    },
    DeleteExchange {
        peer: u64,
        exchange: u64,
        if_unused: bool,
    },
    Bind {
        peer: u64,
        binding: Binding,
        undo: bool,
    },
    DeclareTopic {
        peer: u64,
        topic: u64,
        other: bool,
    },
    DeleteTopic {
        peer: u64,
        topic: u64,
    },
    Subscribe {
        slot: u64,
        patterns: u64,
        from: u64,
        at: u64,
    },
    Unsubscribe {
        slot: u64,
    },
    /// Looks at messages of a queue.
    Browse {
        peer: u64,
        queue: u64,
        max: u64,
    },
    /// Looks at events of a topic.
    History {
        topic: u64,
        max: u64,
        last: bool,
    },
    /// Something with consumer groups.
    Group(u64, GroupCommand),
    Wait(u64),
    /// Until the next thing is due, or the moment before.
    WaitDue(bool),
    /// So many blocks become durable.
    Release(u64),
    /// A connection is lost, and another one comes.
    Lose(u64),
    /// The process ends in order, by a kill, or by a power cut, and starts again.
    Stop,
    Kill,
    Cut,
}

/// One message.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) to: u64,
    pub(super) key: u64,
    pub(super) flags: u64,
    pub(super) ttl_ms: Option<u64>,
    pub(super) delay_ms: u64,
    pub(super) dedup: Option<(u64, u64)>,
    pub(super) size: u64,
}

/// A part of an atomic request.
#[derive(Debug, Clone)]
pub(super) enum Part {
    Publish(Message),
    Settle(Settlement),
}

/// How messages are handed over.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    pub(super) auto_ack: bool,
    pub(super) lease_ms: Option<u64>,
    pub(super) tokens: bool,
    pub(super) exclusive: bool,
}

/// A settlement of what somebody holds.
#[derive(Debug, Clone)]
pub(super) struct Settlement {
    pub(super) pick: u64,
    pub(super) count: u64,
    pub(super) outcome: Outcome,
    /// 0: by token, maybe from elsewhere; 1: one that is not held; 2: one of them twice; otherwise by position.
    pub(super) how: u64,
}

/// A binding.
#[derive(Debug, Clone)]
pub(super) struct Binding {
    pub(super) exchange: u64,
    pub(super) to_queue: bool,
    pub(super) target: u64,
    pub(super) key: u64,
    pub(super) arguments: u64,
}

impl Command {
    /// Its word, for counting.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Publish(..) => "publish",
            Self::Atomic(..) => "atomic",
            Self::Consume { .. } => "consume",
            Self::Fetch { .. } => "fetch",
            Self::Cancel { .. } => "cancel",
            Self::Credit { .. } => "credit",
            Self::PoolCredit { .. } => "credit of a pool",
            Self::Settle(..) => "settle",
            Self::Settles(..) => "settles",
            Self::Recover { .. } => "recover",
            Self::DeclareQueue { .. } => "declare a queue",
            Self::PassiveQueue { .. } => "look for a queue",
            Self::DeleteQueue { .. } => "delete a queue",
            Self::Purge { .. } => "purge",
            Self::DeclareExchange { .. } => "declare an exchange",
            Self::DeleteExchange { .. } => "delete an exchange",
            Self::Bind { undo: false, .. } => "bind",
            Self::Bind { .. } => "unbind",
            Self::DeclareTopic { .. } => "declare a topic",
            Self::DeleteTopic { .. } => "delete a topic",
            Self::Subscribe { .. } => "subscribe",
            Self::Unsubscribe { .. } => "unsubscribe",
            Self::Group(_, command) => command.word(),
            Self::Browse { .. } => "browse",
            Self::History { .. } => "ask for the history",
            Self::Wait(_) => "wait",
            Self::WaitDue(_) => "wait until something is due",
            Self::Release(_) => "release",
            Self::Lose(_) => "lose a connection",
            Self::Stop => "stop",
            Self::Kill => "kill",
            Self::Cut => "cut",
        }
    }
}

/// Random numbers by a seed (splitmix64), and what a life prefers.
#[derive(Debug, Clone)]
pub(super) struct Random {
    state: u64,
    /// Queues that this life knows, when it knows few; all otherwise.
    queues: &'static [&'static str],
    /// Topics and groups more than anything else.
    groups: bool,
}

impl Random {
    /// Every third life knows few queues, so that more happens in each.
    pub(super) fn new(seed: u64) -> Self {
        let queues = if seed.is_multiple_of(3) { FEW[(seed / 3) as usize % FEW.len()] } else { &[] };
        Self { state: seed, queues, groups: seed % 3 == 1 }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Chooses among whatever there is.
    pub(super) fn any(&mut self) -> u64 {
        self.below(100_800)
    }

    /// Chooses a queue.
    fn queue(&mut self) -> u64 {
        let any = self.any();
        let count = QUEUES.len() as u64;
        let known = self.queues.get((any % (self.queues.len() as u64).max(1)) as usize);
        let at = known.and_then(|name| QUEUES.iter().position(|q| q == name));
        at.map_or(any, |at| any / count * count + at as u64)
    }

    pub(super) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    pub(super) fn maybe<T>(&mut self, one_in: u64, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.one_in(one_in).then(|| value(self))
    }

    fn message(&mut self) -> Message {
        Message {
            to: if self.groups && !self.one_in(3) { self.below(3) } else { self.any() },
            key: self.queue(),
            flags: self.any(),
            ttl_ms: self.maybe(6, |r| 1 + r.below(2000)),
            delay_ms: self.maybe(10, |r| 1 + r.below(1500)).unwrap_or(0),
            dedup: self.maybe(8, |r| (r.below(60), r.below(20) / 19)),
            size: self.maybe(12, |r| r.below(3000)).unwrap_or(0),
        }
    }

    pub(super) fn terms(&mut self) -> Terms {
        Terms {
            auto_ack: self.one_in(4),
            lease_ms: self.maybe(3, |r| 50 + r.below(2000)),
            tokens: self.one_in(3),
            exclusive: self.one_in(12),
        }
    }

    pub(super) fn settlement(&mut self) -> Settlement {
        let outcome = match self.below(13) {
            0..=4 => Outcome::Ack,
            5 => Outcome::Requeue { delay_ms: 0 },
            6 => Outcome::Requeue { delay_ms: 1 + self.below(1000) },
            7..=9 => Outcome::Reject,
            10 | 11 => Outcome::Undeliverable,
            _ => Outcome::Extend { lease_ms: 1 + self.below(2000) },
        };
        Settlement { pick: self.any(), count: 1 + self.below(5), outcome, how: self.below(16) }
    }

    /// The next command.
    pub(super) fn command(&mut self) -> Command {
        let peer = self.below(PEERS);
        let (consumer, queue) = (self.below(4), self.queue());
        match self.below(if self.groups { 320 } else { 238 }) {
            208..=211 => Command::Browse { peer, queue, max: 1 + self.below(9) },
            212..=214 => Command::History { topic: self.any(), max: 1 + self.below(9), last: self.one_in(2) },
            215.. => Command::Group(peer, GroupCommand::any(self)),
            0..=49 => {
                let count = 1 + self.below(4);
                Command::Publish(peer, (0..count).map(|_| self.message()).collect())
            }
            50..=56 => {
                let count = 1 + self.below(4);
                let part = |r: &mut Self| match r.below(3) {
                    0 => Part::Settle(r.settlement()),
                    _ => Part::Publish(r.message()),
                };
                Command::Atomic(peer, (0..count).map(|_| part(self)).collect())
            }
            57..=68 => Command::Consume {
                peer,
                consumer,
                queue,
                prefetch: self.maybe(2, |r| r.below(6)),
                pool: self.below(5),
                terms: self.terms(),
                rank: self.below(6),
            },
            69..=80 => Command::Fetch {
                peer,
                holder: self.below(7),
                queue,
                max: 1 + self.below(5),
                wait_ms: self.maybe(2, |r| r.below(1200)).unwrap_or(0),
                terms: self.terms(),
            },
            81..=84 => Command::Cancel { peer, consumer },
            85..=87 => Command::Credit { peer, consumer, limit: self.maybe(2, |r| r.below(5)) },
            88..=90 => {
                Command::PoolCredit { peer, pool: self.below(2), limit: self.maybe(2, |r| r.below(5)) }
            }
            91..=116 => Command::Settle(peer, self.settlement()),
            117..=118 => {
                let count = 2 + self.below(3);
                Command::Settles(peer, (0..count).map(|_| self.settlement()).collect())
            }
            119..=121 => Command::Recover { peer, consumer: self.maybe(2, |r| r.below(4)) },
            122..=130 => Command::DeclareQueue { peer, queue, other: self.one_in(8) },
            131 => Command::PassiveQueue { peer, queue },
            132..=134 => {
                let (if_unused, if_empty) = (self.one_in(3), self.one_in(3));
                Command::DeleteQueue { peer, queue, if_unused, if_empty }
            }
            135..=137 => Command::Purge { peer, queue },
            138..=140 => Command::DeclareExchange { peer, exchange: self.any(), other: self.one_in(6) },
            141 => Command::DeleteExchange { peer, exchange: self.any(), if_unused: self.one_in(2) },
            142..=151 => {
                let binding = Binding {
                    exchange: self.any(),
                    to_queue: !self.one_in(5),
                    target: self.queue(),
                    key: self.any(),
                    arguments: self.any(),
                };
                Command::Bind { peer, binding, undo: self.one_in(4) }
            }
            152 => Command::DeclareTopic { peer, topic: self.any(), other: self.one_in(3) },
            153 => Command::DeleteTopic { peer, topic: self.any() },
            154..=158 => Command::Subscribe {
                slot: self.below(5),
                patterns: self.any(),
                from: self.any(),
                at: self.any(),
            },
            159..=161 => Command::Unsubscribe { slot: self.below(5) },
            162..=165 => Command::WaitDue(self.one_in(2)),
            166..=173 => Command::Wait(match self.below(40) {
                0 => 700_000,
                1 => 70_000,
                2..=8 => self.below(4000),
                _ => 1 + self.below(300),
            }),
            174..=200 => Command::Release(match self.below(3) {
                0 => u64::MAX,
                _ => 1 + self.below(3),
            }),
            201..=202 => Command::Lose(peer),
            203 if self.one_in(2) => Command::Stop,
            204 if self.one_in(2) => Command::Kill,
            205 if self.one_in(2) => Command::Cut,
            _ => Command::Release(1),
        }
    }
}
