//! The fold's thread: runs passes while there is something to do, then sleeps until somebody wakes it or a timer is due. It reads
//! the clock once a pass and waits for nothing else.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use framegate_storage::BlockFlags;
use tokio::sync::oneshot;

use super::inbox::Inbox;
use super::seat::{Fold, Then};
use super::{Core, Now};
use crate::broker::Shared;
use crate::record::Record;

/// Longest sleep without a timer.
const IDLE: Duration = Duration::from_secs(3600);

/// Starts the thread.
///
/// # Errors
/// It could not be started.
pub(crate) fn spawn(
    mut core: Core,
    inbox: Receiver<Inbox>,
    shared: Arc<Shared>,
) -> std::io::Result<JoinHandle<()>> {
    core.end_pass();
    let fold = Fold::new(core, inbox);
    let (sender, receiver) = std::sync::mpsc::channel();
    let of_thread = Arc::clone(&shared);
    let handle = std::thread::Builder::new().name("fold".to_owned()).spawn(move || {
        // it sits when this is heard
        if receiver.recv().is_ok() {
            run(&of_thread);
        }
    })?;
    shared.seat.sit(fold, handle.thread().clone());
    let _ = sender.send(());
    Ok(handle)
}

/// The system's clocks. Their milliseconds begin together, so that what is due at a time of the one is not early by the other.
pub(crate) struct Clock {
    started: Instant,
    /// How far the wall clock was in its millisecond then.
    phase: Duration,
}

impl Clock {
    /// Monotonic time counts from here.
    pub(crate) fn start() -> Self {
        let started = Instant::now();
        let phase = Duration::from_nanos(u64::from(wall().subsec_nanos() % 1_000_000));
        Self { started, phase }
    }

    /// Both times.
    pub(crate) fn now(&self) -> Now {
        let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        Now { wall_ms: ms(wall()), mono_ms: ms(self.started.elapsed() + self.phase) }
    }
}

/// Time since the Unix epoch.
fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn run(shared: &Arc<Shared>) {
    while let Some((then, fold)) = shared.seat.pass() {
        match (then, fold) {
            (Then::Again, _) => {}
            (Then::Idle(Some(until)), _) => std::thread::park_timeout(until),
            (Then::Idle(None), _) => std::thread::park(),
            (Then::Stop(reply), Some(Fold { core, inbox, clock, .. })) => {
                return end(core, &inbox, &clock, reply, shared);
            }
            (Then::Abandon, Some(Fold { mut core, .. })) => {
                core.close_feeds();
                drop(core);
                break;
            }
            (Then::Stop(_) | Then::Abandon, None) => break,
        }
    }
    shared.ended();
}

/// The last block, marked as the end of a clean log; then everything that it promised leaves.
fn end(
    mut core: Core,
    inbox: &Receiver<Inbox>,
    clock: &Clock,
    reply: oneshot::Sender<()>,
    shared: &Arc<Shared>,
) {
    while core.has_unfinished() {
        core.end_pass();
    }
    let last = core.finish();
    let wait = Duration::from_millis(shared.limits.stop_full_ms);
    let mut give_up = None;
    let mut snapshot = false;
    loop {
        if core.is_settled(last) {
            // the next start then reads little of the log
            if !std::mem::replace(&mut snapshot, true) {
                core.keep_at_stop();
            }
            if !core.keeps() {
                break;
            }
        }
        // without room it waits for a while, and what waits then was never confirmed
        let until = core.has_no_room().then(|| *give_up.get_or_insert_with(|| Instant::now() + wait));
        let left = until.map_or(IDLE, |until| until.saturating_duration_since(Instant::now()));
        match inbox.recv_timeout(left) {
            Ok(message @ (Inbox::Report(_) | Inbox::Kept(_))) => {
                core.take(message, clock.now());
                core.end_pass();
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) if until.is_some() => {
                core.leave_unwritten();
                break;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    core.close_feeds();
    drop(core);
    shared.ended();
    let _ = reply.send(());
}

impl Core {
    /// Blocks on their way to the disk.
    pub(crate) fn blocks_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Record bytes of the open block.
    pub(crate) fn open_bytes(&self) -> usize {
        self.encoder.len()
    }

    /// Closes the log with its last block; gives its position.
    pub(super) fn finish(&mut self) -> framegate_storage::Lsn {
        self.broker_stopped();
        self.write_marks();
        self.closing = true;
        self.log(Record::Tick, None, true);
        if !self.failed {
            self.close_block(BlockFlags { clean_shutdown: true });
        }
        framegate_storage::Lsn(self.first.0 - 1)
    }

    fn has_unfinished(&self) -> bool {
        (self.has_work() || self.is_overfull()) && !self.failed
    }

    pub(super) fn is_settled(&self, last: framegate_storage::Lsn) -> bool {
        self.failed || self.durable_to >= last
    }

    fn has_no_room(&self) -> bool {
        self.full
    }

    /// A snapshot is being written.
    fn keeps(&self) -> bool {
        self.keeper.is_running()
    }

    /// The end on a full disk.
    fn leave_unwritten(&mut self) {
        let records = (self.first.0 - 1).saturating_sub(self.durable_to.0);
        tracing::error!(records, "stopped on a full disk: these records are not written, none was confirmed");
        self.keeper.let_go();
    }

    fn close_feeds(&mut self) {
        for watch in self.watches.values() {
            watch.close();
        }
    }
}
