//! The fold's thread: takes what waits, reads the clock once a pass, blocks on its inbox and on nothing else.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use framegate_storage::BlockFlags;
use tokio::sync::oneshot;

use super::inbox::Inbox;
use super::{Core, Now};
use crate::broker::Shared;
use crate::limits::{PASS_BYTES_MAX, PASS_REQUESTS_MAX};
use crate::record::Record;

/// Longest sleep without a timer.
const IDLE: Duration = Duration::from_secs(3600);

/// Starts the thread.
///
/// # Errors
/// It could not be started.
pub(crate) fn spawn(
    core: Core,
    inbox: Receiver<Inbox>,
    shared: Arc<Shared>,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("fold".to_owned()).spawn(move || run(core, &inbox, &shared))
}

/// The system's clocks.
pub(crate) struct Clock {
    started: Instant,
}

impl Clock {
    /// Monotonic time counts from here.
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// Both times.
    pub(crate) fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        Now { wall_ms: ms(wall), mono_ms: ms(self.started.elapsed()) }
    }
}

fn run(mut core: Core, inbox: &Receiver<Inbox>, shared: &Arc<Shared>) {
    let clock = Clock::start();
    core.end_pass();
    loop {
        let first = match next(&core, inbox, &clock) {
            Next::Message(message) => Some(message),
            Next::Due => None,
            Next::Ended => return,
        };
        let now = clock.now();
        let mut stop = None;
        let mut taken = 0;
        let mut message = first;
        while let Some(some) = message.take() {
            taken += match &some {
                Inbox::Batch(batch) => batch.tasks.len(),
                _ => 1,
            };
            match some {
                Inbox::Stop(reply) => {
                    stop = Some(reply);
                    break;
                }
                Inbox::Abandon => {
                    core.close_feeds();
                    drop(core);
                    return shared.ended();
                }
                some => core.take(some, now),
            }
            if taken >= PASS_REQUESTS_MAX || core.open_bytes() >= PASS_BYTES_MAX {
                break;
            }
            message = inbox.try_recv().ok();
        }
        core.timer(now);
        core.end_pass();
        if let Some(reply) = stop {
            return end(core, inbox, &clock, reply, shared);
        }
    }
}

#[expect(clippy::large_enum_variant, reason = "it lives on the stack of one loop")]
enum Next {
    Message(Inbox),
    Due,
    Ended,
}

fn next(core: &Core, inbox: &Receiver<Inbox>, clock: &Clock) -> Next {
    if core.has_more() {
        return inbox.try_recv().map_or(Next::Due, Next::Message);
    }
    let until = core.next_timer().map(|due| Duration::from_millis(due.saturating_sub(clock.now().mono_ms)));
    match inbox.recv_timeout(until.unwrap_or(IDLE)) {
        Ok(message) => Next::Message(message),
        Err(RecvTimeoutError::Timeout) => Next::Due,
        Err(RecvTimeoutError::Disconnected) => Next::Ended,
    }
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
