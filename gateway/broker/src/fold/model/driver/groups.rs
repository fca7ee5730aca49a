//! Consumer groups in the driver: what it asks for, and what the broker's groups show beside the model's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framegate_frame::Frame;

use super::super::{GroupKey, Model, Shown};
use super::commands::{Random, Settlement, Terms};
use super::life::Life;
use super::requests::{consume, fetch, pick, settle_of};
use crate::fold::tests::rig::name;
use crate::group::{Distribution, Filter, GroupSpec, GroupStart, KeySource, Member, MemberState, Retry};
use crate::ids::{ConnectionId, Offset};
use crate::limits::SLOW_MEMBER_MS;
use crate::message::Envelope;
use crate::name::Name;
use crate::request::{Consume, Define, Fetch, Outcome, Query, Reply, Request};

/// Topics and groups.
const GROUPS: [(&str, &str); 8] = [
    ("t.a", "balanced"),
    ("t.a", "sticky"),
    ("t.a", "filtered"),
    ("t.b", "retry"),
    ("t.b", "strict"),
    ("short", "aged"),
    ("small", "lossy"),
    ("dead.t", "again"),
];
/// Dead-letter topics.
const DEAD: [&str; 2] = ["dead.t", "deader"];

/// What the driver does with groups; see `Command`.
#[derive(Debug, Clone)]
pub(super) enum GroupCommand {
    Declare { group: u64, start: u64, at: u64, other: bool },
    Delete { group: u64 },
    Seek { group: u64, to: u64, at: u64 },
    Consume { consumer: u64, group: u64, prefetch: Option<u64>, pool: u64, terms: Terms, filter: u64 },
    Fetch { holder: u64, group: u64, max: u64, wait_ms: u64, terms: Terms, filter: u64 },
    Settle(Vec<Settlement>),
}

impl GroupCommand {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Declare { .. } => "declare a group",
            Self::Delete { .. } => "delete a group",
            Self::Seek { .. } => "seek",
            Self::Consume { .. } => "join a group",
            Self::Fetch { .. } => "pull from a group",
            Self::Settle(_) => "settle in a group",
        }
    }

    pub(super) fn any(r: &mut Random) -> Self {
        let group = r.any();
        match r.below(60) {
            0..=7 => Self::Declare { group, start: r.any(), at: r.any(), other: r.one_in(12) },
            8 => Self::Delete { group },
            9..=10 => Self::Seek { group, to: r.any(), at: r.any() },
            11..=22 => Self::Consume {
                consumer: r.below(4),
                group,
                prefetch: r.maybe(2, |r| r.below(4)),
                pool: r.below(6),
                terms: Terms { exclusive: false, ..r.terms() },
                filter: r.any(),
            },
            23..=30 => Self::Fetch {
                holder: r.below(7),
                group,
                max: 1 + r.below(4),
                wait_ms: r.maybe(2, |r| r.below(1200)).unwrap_or(0),
                terms: Terms { exclusive: false, ..r.terms() },
                filter: r.any(),
            },
            _ => {
                let count = 1 + r.below(2);
                Self::Settle((0..count).map(|_| r.settlement()).collect())
            }
        }
    }

    pub(super) fn requests(&self, model: &Model, id: ConnectionId) -> Vec<Request> {
        match self {
            Self::Declare { group, start, at, other } => {
                vec![Request::Define(Define::Group(spec(*group, place(model, *start, *at), *other)))]
            }
            Self::Delete { group } => {
                let (topic, group) = named(*group);
                vec![Request::Define(Define::DeleteGroup { topic, group })]
            }
            Self::Seek { group, to, at } => {
                let (topic, group) = named(*group);
                vec![Request::Define(Define::SeekGroup { topic, group, to: place(model, *to, *at) })]
            }
            Self::Consume { consumer, group, prefetch, pool, terms, filter } => {
                let (topic, group) = named(*group);
                let consume = consume(*consumer, 0, *prefetch, *pool, terms, 1);
                vec![Request::ConsumeGroup(Consume { queue: topic, ..consume }, member(group, *filter))]
            }
            Self::Fetch { holder, group, max, wait_ms, terms, filter } => {
                let (topic, group) = named(*group);
                let fetch = fetch(*holder, 0, *max, *wait_ms, terms);
                vec![Request::FetchGroup(Fetch { queue: topic, ..fetch }, member(group, *filter))]
            }
            Self::Settle(settlements) => {
                let tokens = model.connections.keys().flat_map(|id| model.group_held_by(*id));
                let tokens: Vec<_> = tokens.filter_map(|held| held.2).collect();
                let one = |s: &Settlement| {
                    // a lease that is kept for long keeps the group from getting anywhere
                    let outcome = match s.outcome {
                        Outcome::Extend { lease_ms } => Outcome::Extend { lease_ms: lease_ms.min(500) },
                        outcome => outcome,
                    };
                    settle_of(&model.group_held_by(id), &tokens, &Settlement { outcome, ..s.clone() })
                };
                settlements.iter().filter_map(one).collect()
            }
        }
    }
}

fn named(number: u64) -> GroupKey {
    let (topic, group) = GROUPS[(number % GROUPS.len() as u64) as usize];
    (name(topic), name(group))
}

fn place(model: &Model, kind: u64, at: u64) -> GroupStart {
    match kind % 5 {
        0 | 1 => GroupStart::Earliest,
        2 => GroupStart::Latest,
        3 => GroupStart::Offset(Offset(at % 40)),
        _ => GroupStart::Time(model.now.wall_ms.saturating_sub(at % 5000)),
    }
}

fn spec(number: u64, start: GroupStart, other: bool) -> GroupSpec {
    let (topic, group) = named(number);
    let spec = GroupSpec { start, retry: Retry::AT_ONCE, ..GroupSpec::new(topic, group.clone()) };
    let retry = |attempts_max, base_ms, max_ms, jitter_percent| Retry {
        attempts_max,
        base_ms,
        max_ms,
        jitter_percent,
    };
    let dead = |topic: &str| Some(name(topic));
    let spec = match group.as_str() {
        "sticky" => GroupSpec {
            distribution: Distribution::Sticky(KeySource::Attribute(name("size"))),
            retry: retry(0, 200, 1000, 50),
            ..spec
        },
        "filtered" => GroupSpec {
            distribution: Distribution::Filtered,
            retry: retry(2, 0, 0, 0),
            dead_letter_topic: dead("dead.t"),
            ..spec
        },
        "retry" => GroupSpec {
            retry: retry(4, 100, 300, 20),
            lease_ms: Some(700),
            dead_letter_topic: dead("dead.t"),
            ..spec
        },
        "strict" => GroupSpec { retry: retry(2, 300, 300, 0), ttl_ms: Some(900), ..spec },
        "again" => GroupSpec { retry: retry(2, 0, 0, 0), dead_letter_topic: dead("deader"), ..spec },
        _ => spec,
    };
    if other { GroupSpec { ttl_ms: Some(77), ..spec } } else { spec }
}

fn member(group: Name, filter: u64) -> Member {
    let filters: [(&str, &str); 3] = [("colour", "red"), ("size", "big"), ("size", "small")];
    let wanted = filters.get((filter % 4) as usize);
    let filter = wanted.map(|(attribute, value)| Arc::new(Attribute(attribute, value)) as Arc<dyn Filter>);
    Member { filter, ..Member::of(group) }
}

/// Takes events with that value of an attribute.
struct Attribute(&'static str, &'static str);

impl Filter for Attribute {
    fn matches(&self, _: &Envelope, frame: &Frame) -> bool {
        frame.attr(self.0) == Some(self.1)
    }
}

impl Life {
    fn shown_groups(&self) -> BTreeMap<GroupKey, Shown> {
        let show = |g: &crate::state::GroupState| {
            let settled = g.settled().iter().flat_map(|(first, end)| first..end).collect();
            let failed = g.failed().map(|(offset, f)| (offset, f.attempts, f.due_ms)).collect();
            let key = (g.spec.topic.clone(), g.spec.name.clone());
            (key, Shown { floor: g.floor(), settled, failed, counts: g.counts })
        };
        self.rig.core.durable.groups().map(show).collect()
    }

    /// Dead letters of groups that this pass brought.
    pub(super) fn adopt_dead(&mut self) -> Result<(), String> {
        let mut came = Vec::new();
        for topic in DEAD.map(name) {
            let core = &self.rig.core;
            let id = core.editor.current().topic("/", &topic);
            let Some(state) = id.and_then(|id| core.durable.topic(id)) else { continue };
            let known = self.model.world.topics.get(&topic).map_or(0, |t| t.next);
            let entries = state.entries.iter().filter(|(offset, _)| *offset >= known);
            let one = |(o, entry): (u64, &crate::state::TopicEntry)| {
                (entry.lsn, topic.clone(), state.envelope(Offset(o)), entry.body())
            };
            came.extend(entries.map(one));
        }
        came.sort_by_key(|(lsn, ..)| *lsn);
        let came = came.into_iter().map(|(_, topic, envelope, body)| (topic, envelope, body)).collect();
        let shown = self.shown_groups();
        let mut bodies = BTreeMap::new();
        for (key, group) in &self.model.world.groups {
            let core = &self.rig.core;
            let topic = core.editor.current().topic("/", &key.0).and_then(|id| core.durable.topic(id));
            for offset in group.dying.keys() {
                if let Some(entry) = topic.and_then(|t| t.entries.get(*offset)) {
                    bodies.insert((key.clone(), *offset), entry.body());
                }
            }
        }
        self.model.adopt_dead(came, &shown, &bodies)
    }

    /// What the broker chose in this pass.
    pub(super) fn adopt_groups(&mut self) -> Result<(), String> {
        let shown = self.shown_groups();
        let keys: Vec<GroupKey> = self.model.world.groups.keys().cloned().collect();
        if !keys.iter().eq(shown.keys()) {
            return Err(format!("groups {:?}, not {keys:?}", shown.keys()));
        }
        shown.iter().try_for_each(|(key, shown)| self.model.adopt(key, shown))
    }

    /// Groups as anybody can ask for them.
    pub(super) fn compare_groups(&mut self) -> Result<(), String> {
        let Ok(Reply::Groups(groups)) = self.rig.core.query(&name("/"), Query::Groups(None)) else {
            return Err("no list of groups".to_owned());
        };
        for info in groups {
            let key = (info.spec.topic.clone(), info.spec.name.clone());
            let group = self.model.world.groups.get(&key).ok_or(format!("{key:?} is not known"))?;
            let wall_ms = self.model.now.wall_ms;
            let seen = (info.floor.0, info.settled_above, info.lag, info.unacked, info.waiting);
            let settled = group.settled.len() as u64;
            let lag = self.model.lag(group);
            let wanted = (group.floor, settled, lag, group.leases.len() as u64, group.waiting(wall_ms));
            if seen != wanted {
                return Err(format!(
                    "{key:?} (floor, settled, lag, unacked, waiting) {seen:?}, not {wanted:?}"
                ));
            }
            let runs = group.settled.iter().filter(|o| !group.settled.contains(&(**o + 1))).count() as u64;
            if info.gaps != runs {
                return Err(format!("{key:?} has {} gaps, not {runs}", info.gaps));
            }
            let seen: BTreeSet<_> = info.members.iter().map(|m| (m.connection, m.consumer)).collect();
            let wanted: BTreeSet<_> = group.members.keys().copied().collect();
            if seen != wanted {
                return Err(format!("{key:?} has members {seen:?}, not {wanted:?}"));
            }
            for member in &info.members {
                let whom = (member.connection, member.consumer);
                let held =
                    group.leases.values().filter(|l| (l.connection, l.consumer) == whom).count() as u64;
                if member.unacked != held {
                    return Err(format!("{whom:?} of {key:?} holds {held}, not {}", member.unacked));
                }
                if member.state == MemberState::Slow {
                    self.model.counts.entry("a slow member").and_modify(|n| *n += 1).or_insert(1);
                    let fresh = wall_ms.saturating_sub(member.since_ms) <= SLOW_MEMBER_MS;
                    if fresh || !self.model.is_full(whom) {
                        return Err(format!("{whom:?} of {key:?} is called slow"));
                    }
                }
            }
        }
        let count = pick(&["t.a", "t.b"], self.model.now.wall_ms);
        if let Some(topic) = self.model.world.topics.get(&name(count)) {
            let Ok(Reply::Presence(presence)) = self.rig.core.query(&name("/"), Query::Presence(name(count)))
            else {
                return Err(format!("no presence of {count}"));
            };
            let of = self.model.world.groups.iter().filter(|(key, _)| key.0 == topic.spec.name);
            let wanted: usize = of.map(|(_, g)| g.members.len()).sum();
            let subscribers = self.model.subscribers(count);
            if (presence.members.len(), presence.subscribers) != (wanted, subscribers) {
                return Err(format!("presence of {count} {presence:?}, not {wanted} and {subscribers}"));
            }
        }
        Ok(())
    }
}
