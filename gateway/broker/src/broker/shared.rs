//! What every handle and the fold share: inbox, topology, admission, counters, the end.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use framegate_storage::{Generation, Lsn, Report, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::error::BrokerError;
use crate::feed::{Hub, PageFuture, Replay};
use crate::fold::inbox::Inbox;
use crate::fold::seat::Seat;
use crate::headers::HeaderTable;
use crate::hold::Gate;
use crate::ids::{ConnectionId, WatchId};
use crate::limits::{Limits, OWN_PASS_BYTES_MAX, OWN_PASS_REQUESTS_MAX};
use crate::metrics::Metrics;
use crate::name::Name;
use crate::routing::Topology;

/// Bytes that one permit of the admission budget stands for.
const PERMIT_BYTES: usize = 1024;

/// See the module.
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) headers: HeaderTable,
    pub(crate) vhosts: Vec<Name>,
    pub(crate) generation: Generation,
    pub(crate) topology: ArcSwap<Topology>,
    pub(crate) metrics: Metrics,
    pub(crate) stopping: AtomicBool,
    /// Where publishers wait while they are held.
    pub(crate) gate: Gate,
    pub(crate) hub: Hub,
    pub(crate) seat: Seat,
    /// None once the fold has ended: nobody waits for an answer that cannot come.
    inbox: Mutex<Option<Sender<Inbox>>>,
    admission: Arc<Semaphore>,
    permits_max: u32,
    connections: AtomicU64,
    next_connection: AtomicU64,
    subscriptions: AtomicI64,
    failed: AtomicBool,
    failure: watch::Sender<Option<StoreError>>,
    this: Weak<Shared>,
}

impl Shared {
    /// Shared by everybody.
    pub(crate) fn new(
        limits: Limits,
        headers: HeaderTable,
        vhosts: Vec<Name>,
        generation: Generation,
        topology: Arc<Topology>,
        inbox: Sender<Inbox>,
    ) -> Arc<Self> {
        let permits_max =
            u32::try_from(limits.admission_bytes_max / PERMIT_BYTES).unwrap_or(u32::MAX >> 3).max(1);
        Arc::new_cyclic(|this| Self {
            limits,
            headers,
            vhosts,
            generation,
            topology: ArcSwap::new(topology),
            metrics: Metrics::default(),
            stopping: AtomicBool::new(false),
            gate: Gate::default(),
            hub: Hub::default(),
            seat: Seat::default(),
            inbox: Mutex::new(Some(inbox)),
            admission: Arc::new(Semaphore::new(permits_max as usize)),
            permits_max,
            connections: AtomicU64::new(0),
            next_connection: AtomicU64::new(1),
            subscriptions: AtomicI64::new(0),
            failed: AtomicBool::new(false),
            failure: watch::channel(None).0,
            this: Weak::clone(this),
        })
    }

    /// Puts a message into the inbox; false when the fold has ended.
    pub(crate) fn send(&self, message: Inbox) -> bool {
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = inbox.as_ref().is_some_and(|inbox| inbox.send(message).is_ok());
        drop(inbox);
        self.seat.wake();
        sent
    }

    /// The same for requests: so many, with so many frame bytes. A few are done here and now, if the fold sits idle.
    pub(crate) fn hand_over(&self, message: Inbox, requests: usize, bytes: usize) -> bool {
        if requests > OWN_PASS_REQUESTS_MAX || bytes > OWN_PASS_BYTES_MAX {
            return self.send(message);
        }
        self.seat.run(message, |_| true).is_none_or(|message| self.send(message))
    }

    /// The store reports. What is durable leaves on the store's own thread, if that has nothing else to write.
    pub(crate) fn report(&self, report: Report) {
        let message = Inbox::Report(report);
        let is_last = |core: &crate::fold::Core| core.blocks_in_flight() <= 1;
        let left = match message {
            Inbox::Report(Report::Durable { .. }) => self.seat.run(message, is_last),
            message => Some(message),
        };
        if let Some(message) = left {
            self.send(message);
        }
    }

    /// The fold has ended.
    pub(crate) fn ended(&self) {
        *self.inbox.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.admission.close();
        self.gate.open_for_good();
    }

    /// The shard failed.
    pub(crate) fn fail(&self, error: StoreError) {
        self.failed.store(true, Ordering::Release);
        self.admission.close();
        self.gate.open_for_good();
        self.failure.send_replace(Some(error));
    }

    /// The shard failed: nothing is taken any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Hears of a failure.
    pub(crate) fn failure(&self) -> watch::Receiver<Option<StoreError>> {
        self.failure.subscribe()
    }

    /// Why nothing is taken any more.
    pub(crate) fn why_ended(&self) -> BrokerError {
        if self.failure.borrow().is_some() { BrokerError::StorageFailed } else { BrokerError::Stopping }
    }

    /// Waits for room for so many bytes of publishes; nothing is needed for none. A message larger than the whole budget
    /// passes alone.
    pub(crate) async fn admit(&self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, BrokerError> {
        if bytes == 0 {
            return Ok(None);
        }
        let wanted = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX).min(self.permits_max);
        let permit = Arc::clone(&self.admission).acquire_many_owned(wanted).await;
        permit.map(Some).map_err(|_| self.why_ended())
    }

    /// Bytes that are accepted and not yet durable.
    pub(crate) fn admission_held(&self) -> u64 {
        let free = self.admission.available_permits();
        ((self.permits_max as usize).saturating_sub(free) * PERMIT_BYTES) as u64
    }

    /// Counts a connection in.
    pub(crate) fn open_connection(&self) -> Result<ConnectionId, BrokerError> {
        let max = self.limits.connections_max as u64;
        if self.connections.fetch_add(1, Ordering::Relaxed) >= max {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            return Err(BrokerError::Limit { what: "connections", max });
        }
        Ok(ConnectionId(self.next_connection.fetch_add(1, Ordering::Relaxed)))
    }

    /// Counts a connection out.
    pub(crate) fn close_connection(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts subscriptions in and out.
    pub(crate) fn subscribed(&self, change: i64) {
        self.subscriptions.fetch_add(change, Ordering::Relaxed);
    }

    /// Live subscriptions.
    pub(crate) fn subscriptions(&self) -> u64 {
        u64::try_from(self.subscriptions.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Reads kept events for subscriptions.
    pub(crate) fn replay(&self) -> Arc<dyn Replay> {
        Arc::new(ByInbox(Weak::clone(&self.this)))
    }
}

/// Reads pages by asking the fold.
struct ByInbox(Weak<Shared>);

impl Replay for ByInbox {
    fn page(&self, watch: WatchId, after: Lsn, told: Lsn, events_max: usize, bytes_max: usize) -> PageFuture {
        let shared = self.0.upgrade();
        Box::pin(async move {
            let shared = shared.ok_or(BrokerError::Stopping)?;
            let (reply, answer) = oneshot::channel();
            if !shared.send(Inbox::Page { watch, after, told, events_max, bytes_max, reply }) {
                return Err(shared.why_ended());
            }
            answer.await.unwrap_or_else(|_| Err(shared.why_ended()))
        })
    }
}
