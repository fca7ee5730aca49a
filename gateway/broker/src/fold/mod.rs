//! The fold: decides what becomes of each request and applies it, in order, alone. `Core` has no thread, no clock and
//! no file; `thread.rs` runs it.

mod block;
mod browse;
mod cache;
mod consume;
mod dead_letter;
mod define;
mod delayed;
mod dispatch;
mod effects;
mod event_body;
mod events;
mod groups;
mod holding;
pub(crate) mod inbox;
mod jobs;
mod keeper;
mod limit;
mod live;
mod load;
mod lookout;
mod mailbox;
#[cfg(test)]
mod model;
mod moves;
mod postponed;
mod publish;
mod query;
mod reader;
mod ready;
mod recovery;
pub(crate) mod seat;
mod settle;
mod single;
mod survey;
#[cfg(test)]
mod tests;
mod thread;
mod timers;
mod topics;
mod usage;
mod volatile_ids;
mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use framegate_storage::{Claim, Lsn, ShardStore};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

pub(crate) use delayed::PARK;
pub(crate) use load::{Loaded, go_on, load, replay};
pub(crate) use lookout::Lookout;
pub(crate) use reader::ReaderPool;
pub(crate) use survey::Survey;
pub(crate) use thread::{Clock, spawn};

use crate::broker::Shared;
use crate::error::BrokerError;
use crate::feed::{RingBudget, Watch};
use crate::ids::{ConnectionId, QueueId, RequestId, Token, WatchId};
use crate::record::Encoder;
use crate::request::Reply;
use crate::routing::TopologyEditor;
use crate::state::{Placed, State, VOLATILE_BIT};
use inbox::{Inbox, ReplyTo, Task};
use live::{ConnectionLive, IdMap, QueueLive, Waiter};

/// The time, as the thread read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Now {
    /// ms since the Unix epoch; never goes back.
    pub(crate) wall_ms: u64,
    /// ms since the start.
    pub(crate) mono_ms: u64,
}

/// Who hears an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerTo {
    /// A connection.
    Request(ConnectionId, RequestId),
    /// A call without connection.
    Call(u64),
    /// Nobody: part of something else.
    Nobody,
}

/// The state machine of one shard.
pub(crate) struct Core {
    pub(crate) durable: State,
    pub(crate) volatile: State,
    live: IdMap<QueueId, QueueLive>,
    connections: IdMap<ConnectionId, ConnectionLive>,
    editor: TopologyEditor,
    shared: Arc<Shared>,
    store: Arc<dyn ShardStore>,
    claim: Claim,
    reader: ReaderPool,
    now: Now,

    // the open block and those in flight
    encoder: Encoder,
    /// Queues and topics whose number stands in the open block.
    numbered_queues: IdMap<QueueId, ()>,
    numbered_topics: IdMap<crate::ids::TopicId, ()>,
    first: Lsn,
    sync: bool,
    placed: Vec<Placed>,
    permits: Vec<OwnedSemaphorePermit>,
    in_flight: VecDeque<block::InFlight>,
    /// Record bytes of them.
    in_flight_bytes: u64,
    durable_to: Lsn,
    failed: bool,
    /// The store has no room: what is appended waits in memory.
    full: bool,

    // effects
    touched: Vec<ConnectionId>,
    gated: BTreeSet<ConnectionId>,
    calls: IdMap<u64, ReplyTo>,
    next_call: u64,
    gated_calls: VecDeque<(Lsn, u64, Result<Reply, BrokerError>)>,
    applied: Vec<oneshot::Sender<()>>,

    // queues
    dirty: Vec<QueueId>,
    /// Queues that hold more than they may.
    overfull: VecDeque<QueueId>,
    /// Messages refused by full queues, on their way to dead-letter exchanges.
    letters: VecDeque<dead_letter::Letter>,
    /// Full queues that are being looked at.
    looks: u8,
    waiters: IdMap<u64, Waiter>,
    next_waiter: u64,
    tokens: IdMap<Token, (ConnectionId, crate::ids::ConsumerId, u64)>,
    cache: cache::CacheOrder,
    gated_visible: VecDeque<(Lsn, QueueId, u64)>,
    delivered: BTreeSet<QueueId>,
    /// Queues of early messages, with those whose time has come.
    parks: IdMap<QueueId, VecDeque<u64>>,
    events: events::Events,
    /// New queues that nothing is delivered from before their definition is durable.
    opening: VecDeque<(Lsn, QueueId)>,
    /// When the next one may be written.
    delivered_mark_ms: u64,
    mark_timer: bool,
    work: VecDeque<work::Work>,
    /// Nothing is delivered before the log is durable up to here: a number of before a crash must not be seen again, and
    /// what keeps it from that is the record of this start.
    opens_at: Lsn,
    /// The last block of an orderly stop is out.
    closing: bool,
    idle_timer: bool,
    idle_seen: Lsn,
    ticked: Lsn,
    timers: timers::Timers,
    next_holder: u32,

    // topics
    watches: BTreeMap<WatchId, Arc<Watch>>,
    rings: Arc<RingBudget>,
    gated_feed: VecDeque<topics::Visible>,
    visible_to: Lsn,
    /// Reads that wait for the open block.
    postponed: Vec<postponed::Postponed>,
    woken: Vec<Arc<Watch>>,
    topic_idle_since: BTreeMap<crate::ids::TopicId, u64>,
    groups: groups::Groups,
    jobs: jobs::JobsLive,
    volatile_ids: volatile_ids::VolatileIds,
    /// Snapshots and disk space.
    keeper: keeper::Keeper,
    /// Why publishers are held.
    holding: holding::Holding,
    /// Looks at the disk; not in a core without threads.
    lookout: Option<Lookout>,
}

/// The detached connection.
const DETACHED: ConnectionId = ConnectionId(0);

impl Core {
    /// Has the disk looked at.
    pub(crate) fn watched_by(&mut self, lookout: Lookout) {
        self.lookout = Some(lookout);
    }

    /// One message. Effects are collected until `end_pass`.
    pub(crate) fn take(&mut self, message: Inbox, now: Now) {
        self.now = Now { wall_ms: now.wall_ms.max(self.now.wall_ms), mono_ms: now.mono_ms };
        match message {
            // after a failure nothing more is decided; sessions hear the end from their outboxes
            Inbox::Batch(_) if self.failed => {}
            Inbox::Batch(batch) => {
                drop(batch.untaken);
                let before = self.encoder.count();
                let vhost = self.connections.get(&batch.connection).map(|c| c.vhost.clone());
                if let Some(vhost) = vhost {
                    for (id, task) in batch.tasks {
                        self.task(AnswerTo::Request(batch.connection, id), batch.connection, &vhost, task);
                    }
                }
                self.keep_permit(batch.permit, before);
                self.applied.extend(batch.applied);
            }
            Inbox::Call { vhost, task, permit, reply } => {
                let before = self.encoder.count();
                self.next_call += 1;
                let call = self.next_call;
                if self.failed {
                    let _ = reply.send(Err(BrokerError::StorageFailed));
                    return;
                }
                self.calls.insert(call, reply);
                self.task(AnswerTo::Call(call), DETACHED, &vhost, task);
                self.keep_permit(permit, before);
            }
            Inbox::Happened(id, what) => self.happened(id, what),
            Inbox::Started(listeners) => self.broker_started(&listeners),
            Inbox::Connect(opened) => self.connect(*opened),
            Inbox::Disconnect(id) => self.disconnect(id),
            Inbox::Waits(id) => self.waits(id),
            Inbox::Looked { free } => self.looked(free),
            Inbox::Resume(id) => self.resume(id),
            Inbox::Report(report) => self.report(report),
            Inbox::Loaded { queue, bodies } => self.loaded(queue, bodies),
            Inbox::Browsed { to, messages, more, jobs } => self.browsed(to, messages, more, jobs),
            Inbox::History { to, history } => self.answer(to, Lsn(0), Ok(Reply::History(history))),
            Inbox::Subscribe { vhost, what, reply } => self.subscribe(&vhost, what, reply),
            Inbox::Kept(kept) => self.kept(kept),
            Inbox::Unwatch(watch) => self.unwatch(watch),
            Inbox::Page { watch, after, told, events_max, bytes_max, reply } => {
                self.page(postponed::PageWanted { watch, after, told, events_max, bytes_max, reply });
            }
            // the thread handles the end
            Inbox::Stop(_) | Inbox::Abandon => {}
        }
    }

    fn keep_permit(&mut self, permit: Option<OwnedSemaphorePermit>, records_before: u32) {
        if self.encoder.count() != records_before {
            self.permits.extend(permit);
        }
    }

    fn task(&mut self, to: AnswerTo, connection: ConnectionId, vhost: &crate::name::Name, task: Task) {
        match task {
            Task::Publish(publish) => {
                let (publish, targets) = *publish;
                self.publish(to, connection, vhost, publish, targets);
            }
            Task::Atomic(tasks) => self.atomic(to, connection, vhost, tasks),
            Task::Refused(error) => self.answer(to, Lsn(0), Err(error)),
            Task::RefusedPublish(error) => self.refuse_publish(to, error),
            Task::Job(request, principal) => self.job(to, connection, vhost, *request, &principal),
            Task::Request(request) => self.request(to, connection, vhost, request),
        }
        self.relieve();
    }

    fn state(&self, queue: QueueId) -> &State {
        if queue.0 & VOLATILE_BIT != 0 { &self.volatile } else { &self.durable }
    }
}
