//! A state as a snapshot: frozen without copying what is large, then written as the records of a compacted log.
//!
//! Freezing clones pointers of queues, topics and pages; whoever changes one of them afterwards copies that page. Both
//! steps take their types apart field by field, so that a field that is forgotten here does not compile.
//!
//! ```text
//! page = version u8 (1), records of `record/` to the end
//! ```
//! The first record of a snapshot is STANDING. Replaying all of them gives a state with an equal `content_hash`.

use std::collections::BTreeMap;

use bytes::Bytes;
use framegate_storage::{BodyRef, Lsn, Pos};

use super::dedup::Remembered;
use super::jobs::FrozenJobs;
use super::pages::Pages;
use super::table::Table;
use super::{GroupState, Placed, QueueState, State, TopicState};
use crate::definition::{BindingSpec, ExchangeSpec};
use crate::ids::{Offset, Seq};
use crate::message::Dedup;
use crate::name::Name;
use crate::record::{Body, Encoder, Record};

/// Version of a page, its first byte.
pub(crate) const PAGE_VERSION: u8 = 1;
/// Record bytes after which a page ends.
const PAGE_BYTES: usize = 256 * 1024;

/// A state that does not change any more.
#[derive(Debug, Clone)]
pub(crate) struct Frozen {
    pub(crate) queues: Table<QueueState>,
    pub(crate) topics: Table<TopicState>,
    groups: Table<GroupState>,
    exchanges: BTreeMap<(Name, Name), ExchangeSpec>,
    bindings: Vec<(Name, BindingSpec)>,
    dedups: Pages<Remembered>,
    jobs: FrozenJobs,
}

impl State {
    /// Shares the state with a snapshot.
    pub(crate) fn freeze(&self) -> Frozen {
        // what follows a snapshot speaks of nothing that it does not know
        let Self { queues, topics, groups, exchanges, bindings, dedups, jobs, holes: _ } = self;
        Frozen {
            jobs: jobs.freeze(),
            queues: queues.clone(),
            topics: topics.clone(),
            groups: groups.clone(),
            exchanges: exchanges.clone(),
            bindings: bindings.iter().cloned().collect(),
            dedups: dedups.freeze(),
        }
    }
}

impl Frozen {
    /// Every message and event whose body stands in the log.
    pub(crate) fn bodies(&self, see: &mut dyn FnMut(Placed, BodyRef)) {
        for queue in self.queues.iter() {
            for (number, slot) in queue.slots.iter() {
                if let Some(body) = slot.body() {
                    see(Placed::Queue(queue.id, Seq(number)), body);
                }
            }
        }
        for topic in self.topics.iter() {
            for (number, entry) in topic.entries.iter() {
                see(Placed::Topic(topic.id, Offset(number)), entry.body());
            }
        }
    }
}

/// What is written next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Standing,
    /// Definitions that need no page of their own.
    Definitions,
    /// The first queue at or after an index; 0: its definition, else messages from that number on.
    Queue(u32, u64),
    /// The first topic at or after an index; `None`: its definition, else events from that offset on.
    Topic(u32, Option<u64>),
    /// The first group at or after an index: what it is and what it remembers, at most a few MiB.
    Group(u32),
    /// Bindings from that one on, after the queues and topics that they lead to.
    Bindings(usize),
    Dedups(u64),
    /// A table of jobs by index.
    Jobs(usize),
    Done,
}

/// The pages of a snapshot, one after the other.
pub(crate) struct Export {
    state: Frozen,
    time_ms: u64,
    stage: Stage,
    encoder: Encoder,
    /// Number that a reader expects next of the queue or topic that is being written.
    next: u64,
}

impl Export {
    /// `time_ms`: clock of the newest block.
    pub(crate) fn new(state: Frozen, time_ms: u64) -> Self {
        Self { state, time_ms, stage: Stage::Standing, encoder: Encoder::default(), next: 0 }
    }

    fn put(encoder: &mut Encoder, record: &Record) {
        encoder.put(record, None, 0, "");
    }

    /// Writes until the page is full or the stage is over; gives what comes next.
    fn step(&mut self) -> Stage {
        let encoder = &mut self.encoder;
        match self.stage {
            Stage::Standing => {
                let (queues, topics) = (self.state.queues.given(), self.state.topics.given());
                Self::put(encoder, &Record::Standing { queues, topics, time_ms: self.time_ms });
                Stage::Definitions
            }
            Stage::Definitions => {
                for ((vhost, _), spec) in &self.state.exchanges {
                    let (vhost, spec) = (vhost.clone(), spec.clone());
                    Self::put(encoder, &Record::DefineExchange { vhost, spec });
                }
                Stage::Queue(0, 0)
            }
            Stage::Queue(at, from) => match self.state.queues.at_or_after(at) {
                None => Stage::Topic(0, None),
                Some((at, queue)) => match queue_page(encoder, queue, from, &mut self.next) {
                    Some(from) => Stage::Queue(at, from),
                    None => Stage::Queue(at + 1, 0),
                },
            },
            Stage::Topic(at, from) => match self.state.topics.at_or_after(at) {
                None => Stage::Group(0),
                Some((at, topic)) => match topic_page(encoder, topic, from, &mut self.next) {
                    Some(from) => Stage::Topic(at, Some(from)),
                    None => Stage::Topic(at + 1, None),
                },
            },
            Stage::Group(at) => match self.state.groups.at_or_after(at) {
                None => Stage::Bindings(0),
                Some((at, group)) => {
                    group.records().iter().for_each(|record| Self::put(encoder, record));
                    Stage::Group(at + 1)
                }
            },
            Stage::Bindings(from) => {
                for (at, (vhost, binding)) in self.state.bindings.iter().enumerate().skip(from) {
                    if encoder.len() >= PAGE_BYTES {
                        return Stage::Bindings(at);
                    }
                    Self::put(encoder, &Record::Bind { vhost: vhost.clone(), binding: binding.clone() });
                }
                Stage::Dedups(0)
            }
            Stage::Dedups(from) => {
                let mut at = from;
                while let Some((number, remembered)) = self.state.dedups.at_or_after(at) {
                    if encoder.len() >= PAGE_BYTES {
                        return Stage::Dedups(number);
                    }
                    let Remembered { key, known, time_ms } = *remembered;
                    let dedup = Dedup { key, content: known.content };
                    let (lsn, offset) = (known.lsn, known.offset);
                    Self::put(encoder, &Record::Remembered { dedup, lsn, offset, time_ms });
                    at = number + 1;
                }
                Stage::Jobs(0)
            }
            Stage::Jobs(at) => match self.state.jobs.tables.get(at) {
                None => {
                    for (queue, rules) in &self.state.jobs.rules {
                        Self::put(encoder, &Record::JobRules { queue: *queue, rules: *rules });
                    }
                    for (queue, care) in &self.state.jobs.cares {
                        Self::put(encoder, &Record::JobCare { queue: *queue, care: *care });
                    }
                    for queue in &self.state.jobs.paused {
                        Self::put(encoder, &Record::PauseJobs { queue: *queue, paused: true });
                    }
                    Stage::Done
                }
                Some(table) => {
                    // in the order of their ids, so that the same state gives the same pages
                    let mut entries: Vec<_> = table.values().collect();
                    entries.sort_unstable_by(|a, b| (&a.vhost, &a.job.id).cmp(&(&b.vhost, &b.job.id)));
                    for entry in entries {
                        Self::put(encoder, &Record::Job(Box::new((**entry).clone())));
                    }
                    Stage::Jobs(at + 1)
                }
            },
            Stage::Done => Stage::Done,
        }
    }
}

impl Iterator for Export {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        while self.encoder.len() < PAGE_BYTES && self.stage != Stage::Done {
            self.stage = self.step();
        }
        let (chunks, count) = self.encoder.take();
        if count == 0 {
            return None;
        }
        let mut page = vec![PAGE_VERSION];
        chunks.iter().for_each(|chunk| page.extend_from_slice(chunk));
        Some(Bytes::from(page))
    }
}

/// Messages of a queue that the log knows, from a number on; gives the number to go on with, if there is more.
fn queue_page(encoder: &mut Encoder, state: &QueueState, from: u64, next: &mut u64) -> Option<u64> {
    // count and bytes follow from the slots, routes and what stands aside from the envelopes
    let QueueState {
        id,
        vhost,
        spec,
        slots,
        count: _,
        bytes: _,
        next_logged,
        delivered,
        routes: _,
        route_of: _,
        aside: _,
    } = state;
    let queue = *id;
    let mut at = from;
    if from == 0 {
        let spec = Box::new(spec.clone());
        Export::put(encoder, &Record::DefineQueue { id: queue, vhost: vhost.clone(), spec });
        *next = 1;
    }
    while let Some((number, slot)) = slots.at_or_after(at) {
        if encoder.len() >= PAGE_BYTES {
            return Some(number);
        }
        at = number + 1;
        let seq = Seq(number);
        let (Some(body), false, Some(envelope)) = (slot.body(), slot.is_transient(), state.envelope(seq))
        else {
            continue;
        };
        let record = Record::Enqueue { queue, seq, envelope, body: Body::At(body) };
        encoder.put(&record, None, *next, &state.spec.name);
        *next = number + 1;
    }
    let (next, delivered) = (Seq(*next_logged), Seq(*delivered));
    Export::put(encoder, &Record::QueueNumbers { queue, next, delivered });
    None
}

/// Events of a topic from an offset on; gives the offset to go on with, if there is more.
fn topic_page(encoder: &mut Encoder, state: &TopicState, from: Option<u64>, next: &mut u64) -> Option<u64> {
    let TopicState { id, vhost, spec, entries, bytes: _, gone_to, gone_at: _, aside: _ } = state;
    let topic = *id;
    if from.is_none() {
        Export::put(encoder, &Record::DefineTopic { id: topic, vhost: vhost.clone(), spec: spec.clone() });
        *next = 0;
    }
    let mut at = from.unwrap_or(0);
    while let Some((number, entry)) = entries.at_or_after(at) {
        if encoder.len() >= PAGE_BYTES {
            return Some(number);
        }
        at = number + 1;
        Export::put(encoder, &Record::At { lsn: Lsn(entry.lsn) });
        let offset = Offset(number);
        let envelope = state.envelope(offset);
        let body = Body::At(BodyRef { block: Pos(entry.block), offset: entry.offset, len: entry.len });
        let record = Record::Append { topic, offset, envelope, body };
        encoder.put(&record, None, *next, &state.spec.name);
        *next = number + 1;
    }
    let next = Offset(entries.next());
    Export::put(encoder, &Record::TopicNumbers { topic, next, gone_to: *gone_to });
    None
}
