//! The reader pool: two plain threads that read bodies, so that the fold never does.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use framegate_frame::{Frame, Limits};
use framegate_storage::{BodyRef, Lsn, ShardId, ShardStore};
use tokio::sync::oneshot;

use super::inbox::Inbox;
use crate::broker::Shared;
use crate::error::BrokerError;
use crate::feed::{Cursor, FeedEvent, Page};
use crate::ids::{Offset, QueueId, Seq, TopicId};
use crate::message::{Envelope, Origin};
use crate::name::Name;

/// Threads of the pool.
const READERS: usize = 2;
/// Jobs that wait at most; each is bounded by a queue's one read-ahead or a subscription's one page.
const JOBS_MAX: usize = 65_536;

/// An event of a page before its frame is read.
pub(super) type Unread = (BodyRef, Name, Option<(TopicId, Offset)>, Cursor, Envelope, Origin);

/// A page to read.
pub(super) struct PageJob {
    pub(super) events: Vec<Unread>,
    pub(super) complete_to: Lsn,
    pub(super) gone_to: Option<Lsn>,
    pub(super) reply: oneshot::Sender<Result<Page, BrokerError>>,
}

enum Job {
    Queue { queue: QueueId, wanted: Vec<(Seq, BodyRef)> },
    Page(PageJob),
}

/// See the module. Dropping it ends the threads.
pub(crate) struct ReaderPool {
    jobs: Option<SyncSender<Job>>,
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
        let (jobs, receiver) = sync_channel(JOBS_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for n in 0..READERS {
            let (receiver, store, shared) = (Arc::clone(&receiver), Arc::clone(store), Weak::clone(shared));
            let thread = std::thread::Builder::new()
                .name(format!("reader-{n}"))
                .spawn(move || run(&receiver, &*store, shard, &shared))?;
            threads.push(thread);
        }
        Ok(Self { jobs: Some(jobs), threads })
    }

    /// Reads bodies of a queue; they come back through the inbox.
    pub(super) fn load(&self, queue: QueueId, wanted: Vec<(Seq, BodyRef)>) {
        self.send(Job::Queue { queue, wanted });
    }

    /// Reads a page and answers it.
    pub(super) fn page(&self, job: PageJob) {
        if job.events.is_empty() {
            let page = Page { events: Vec::new(), complete_to: job.complete_to, gone_to: job.gone_to };
            let _ = job.reply.send(Ok(page));
            return;
        }
        self.send(Job::Page(job));
    }

    fn send(&self, job: Job) {
        let refused = self.jobs.as_ref().map(|jobs| jobs.try_send(job));
        if let Some(Err(TrySendError::Full(Job::Page(job)))) = refused {
            let max = JOBS_MAX as u64;
            let _ = job.reply.send(Err(BrokerError::Limit { what: "reads that wait", max }));
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

fn run(receiver: &Mutex<Receiver<Job>>, store: &dyn ShardStore, shard: ShardId, shared: &Weak<Shared>) {
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
            Ok(Job::Page(job)) => read_page(job, store, shard),
            Err(_) => return,
        }
    }
}

fn read_page(job: PageJob, store: &dyn ShardStore, shard: ShardId) {
    let refs: Vec<BodyRef> = job.events.iter().map(|e| e.0).collect();
    let limits = Limits::gateway(Limits::GATEWAY_DATA_BYTES_CEILING);
    let mut page = Page { events: Vec::new(), complete_to: job.complete_to, gone_to: job.gone_to };
    for ((_, key, kept, cursor, envelope, origin), bytes) in
        job.events.into_iter().zip(store.fetch(shard, &refs))
    {
        let frame = bytes
            .map_err(|e| e.to_string())
            .and_then(|b| Frame::parse(b, &limits).map_err(|e| e.to_string()));
        match frame {
            Ok(frame) => {
                page.events.push(Arc::new(FeedEvent::new(key, kept, cursor, envelope, frame, origin)));
            }
            // one damaged event ends no stream: the subscriber hears of a loss
            Err(error) => {
                tracing::error!(topic = %origin.name, offset = origin.seq, %error, "a stored event cannot be read");
                page.gone_to = page.gone_to.max(Some(cursor.position));
            }
        }
    }
    let _ = job.reply.send(Ok(page));
}
