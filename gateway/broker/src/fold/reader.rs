//! The reader pool: two plain threads that read bodies, so that the fold never does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use framegate_frame::{Frame, Limits};
use framegate_storage::{BodyRef, Lsn, ShardId, ShardStore};
use tokio::sync::oneshot;

use super::AnswerTo;
use super::browse::BrowseJob;
use super::inbox::Inbox;
use super::live::IdMap;
use crate::broker::Shared;
use crate::error::BrokerError;
use crate::feed::{Cursor, FeedEvent, Page};
use crate::group::History;
use crate::ids::{Offset, QueueId, Seq, TopicId};
use crate::message::{Envelope, Origin, SharedEvent};
use crate::name::Name;

/// Threads of the pool.
const READERS: usize = 2;
/// Pages that wait at most. A queue has one read-ahead that waits, so that their number is bounded by that of queues.
const PAGES_MAX: usize = 65_536;
/// Fewer frames are freed by whoever has them.
const BURY_MIN: usize = 1024;

/// An event of a page before its frame is read.
pub(super) type Unread = (BodyRef, Name, Option<(TopicId, Offset)>, Cursor, Envelope, Origin);

/// A page to read.
pub(super) struct PageJob {
    pub(super) events: Vec<Unread>,
    pub(super) after: Lsn,
    pub(super) complete_to: Lsn,
    pub(super) gone_to: Option<Lsn>,
    pub(super) told: Lsn,
    pub(super) reply: oneshot::Sender<Result<Page, BrokerError>>,
}

/// Kept events to read.
pub(super) struct HistoryJob {
    pub(super) to: AnswerTo,
    pub(super) events: Vec<Unread>,
    pub(super) next: Option<Offset>,
}

enum Job {
    Queue { queue: QueueId, wanted: Vec<(Seq, BodyRef)> },
    Page(PageJob),
    Browse(BrowseJob),
    History(HistoryJob),
    Bury(IdMap<u64, Frame>),
}

/// See the module. Dropping it ends the threads.
pub(crate) struct ReaderPool {
    jobs: Option<Sender<Job>>,
    pages: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl ReaderPool {
    /// Starts the threads.
    ///
    /// # Errors
    /// A thread could not be started.
    pub(crate) fn start(
        store: &Arc<dyn ShardStore>,
        shard: ShardId,
        shared: &Weak<Shared>,
    ) -> std::io::Result<Self> {
        let (jobs, receiver) = channel();
        let pages = Arc::new(AtomicUsize::new(0));
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for n in 0..READERS {
            let (receiver, store, shared) = (Arc::clone(&receiver), Arc::clone(store), Weak::clone(shared));
            let pages = Arc::clone(&pages);
            let thread = std::thread::Builder::new()
                .name(format!("reader-{n}"))
                .spawn(move || run(&receiver, &*store, shard, &shared, &pages))?;
            threads.push(thread);
        }
        Ok(Self { jobs: Some(jobs), pages, threads })
    }

    /// Reads bodies of a queue; they come back through the inbox.
    pub(super) fn load(&self, queue: QueueId, wanted: Vec<(Seq, BodyRef)>) {
        self.send(Job::Queue { queue, wanted });
    }

    /// Reads a page and answers it.
    pub(super) fn page(&self, job: PageJob) {
        if job.events.is_empty() {
            let PageJob { complete_to, gone_to, told, reply, .. } = job;
            let _ = reply.send(Ok(Page { events: Vec::new(), complete_to, gone_to, told }));
            return;
        }
        match self.count_in() {
            Ok(()) => self.send(Job::Page(job)),
            Err(error) => {
                let _ = job.reply.send(Err(error));
            }
        }
    }

    /// Reads messages to show; they come back through the inbox.
    ///
    /// # Errors
    /// `Limit`: too many reads wait.
    pub(super) fn browse(&self, job: BrowseJob) -> Result<(), BrokerError> {
        self.count_in()?;
        self.send(Job::Browse(job));
        Ok(())
    }

    /// One more page or browse that waits.
    fn count_in(&self) -> Result<(), BrokerError> {
        if self.pages.fetch_add(1, Ordering::AcqRel) < PAGES_MAX {
            return Ok(());
        }
        self.pages.fetch_sub(1, Ordering::AcqRel);
        Err(BrokerError::Limit { what: "reads that wait", max: PAGES_MAX as u64 })
    }

    /// Reads kept events; they come back through the inbox.
    ///
    /// # Errors
    /// `Limit`: too many reads wait.
    pub(super) fn history(&self, job: HistoryJob) -> Result<(), BrokerError> {
        self.count_in()?;
        self.send(Job::History(job));
        Ok(())
    }

    /// Frees the frames of a queue that is gone, away from the fold.
    pub(super) fn bury(&self, frames: IdMap<u64, Frame>) {
        if frames.len() >= BURY_MIN {
            self.send(Job::Bury(frames));
        }
    }

    fn send(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // the readers live as long as the pool
            let _ = jobs.send(job);
        }
    }
}

impl Drop for ReaderPool {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn run(
    receiver: &Mutex<Receiver<Job>>,
    store: &dyn ShardStore,
    shard: ShardId,
    shared: &Weak<Shared>,
    pages: &AtomicUsize,
) {
    loop {
        let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            Ok(Job::Queue { queue, wanted }) => {
                let refs: Vec<BodyRef> = wanted.iter().map(|w| w.1).collect();
                let bodies = wanted.into_iter().map(|w| w.0).zip(store.fetch(shard, &refs)).collect();
                if let Some(shared) = shared.upgrade() {
                    shared.send(Inbox::Loaded { queue, bodies });
                }
            }
            Ok(Job::Page(job)) => {
                pages.fetch_sub(1, Ordering::AcqRel);
                read_page(job, store, shard);
            }
            Ok(Job::Browse(job)) => {
                pages.fetch_sub(1, Ordering::AcqRel);
                if let Some(shared) = shared.upgrade() {
                    shared.send(read_browse(job, store, shard));
                }
            }
            Ok(Job::History(job)) => {
                pages.fetch_sub(1, Ordering::AcqRel);
                let history = History { events: read_events(job.events, store, shard), next: job.next };
                if let Some(shared) = shared.upgrade() {
                    shared.send(Inbox::History { to: job.to, history });
                }
            }
            Ok(Job::Bury(frames)) => drop(frames),
            Err(_) => return,
        }
    }
}

fn read_browse(job: BrowseJob, store: &dyn ShardStore, shard: ShardId) -> Inbox {
    let refs: Vec<BodyRef> = job.messages.iter().filter_map(|m| m.frame.as_ref().err().copied()).collect();
    let mut bodies = store.fetch(shard, &refs).into_iter();
    let limits = Limits::gateway(Limits::GATEWAY_DATA_BYTES_CEILING);
    let mut messages = Vec::new();
    for message in job.messages {
        let frame = match message.frame {
            Ok(frame) => Some(frame),
            // settled and collected meanwhile, or damaged: whoever takes it next finds out
            Err(_) => bodies.next().and_then(Result::ok).and_then(|b| Frame::parse(b, &limits).ok()),
        };
        messages.extend(frame.map(message.shown));
    }
    Inbox::Browsed { to: job.to, messages, more: job.more, jobs: job.jobs }
}

fn read_page(job: PageJob, store: &dyn ShardStore, shard: ShardId) {
    let PageJob { events, after, complete_to, gone_to, told, reply } = job;
    let wanted = events.len();
    let events = read_events(events, store, shard);
    // one damaged event ends no stream: the subscriber hears of a loss
    let gone_to = gone_to.or((events.len() < wanted).then_some(after));
    let _ = reply.send(Ok(Page { events, complete_to, gone_to, told }));
}

/// Reads events. Those that cannot be read are left out.
fn read_events(events: Vec<Unread>, store: &dyn ShardStore, shard: ShardId) -> Vec<SharedEvent> {
    let refs: Vec<BodyRef> = events.iter().map(|e| e.0).collect();
    let limits = Limits::gateway(Limits::GATEWAY_DATA_BYTES_CEILING);
    let mut read = Vec::new();
    for ((_, key, kept, cursor, envelope, origin), bytes) in events.into_iter().zip(store.fetch(shard, &refs))
    {
        let frame = bytes
            .map_err(|e| e.to_string())
            .and_then(|b| Frame::parse(b, &limits).map_err(|e| e.to_string()));
        match frame {
            Ok(frame) => read.push(Arc::new(FeedEvent::new(key, kept, cursor, envelope, frame, origin))),
            Err(error) => {
                tracing::error!(topic = %origin.name, offset = origin.seq, %error, "a stored event cannot be read");
            }
        }
    }
    read
}
