//! Why publishers are held, and the gate that they wait at. Owns who may pass, not when the gate closes: the fold decides
//! that. Consumers and settlements never come here.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// Why publishers are held. Each clears itself, and none of them is an error of the publisher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// A write of the log found no room.
    DiskFull,
    /// Less than `Limits::disk_free_min_bytes` is free.
    DiskLow,
    /// The index of messages and events takes more than `Limits::index_bytes_max`.
    IndexMemory,
    /// More than `Limits::log_queue_bytes_max` record bytes wait for the log.
    LogQueue,
}

impl Hold {
    /// All of them, the most urgent one first.
    pub const ALL: [Self; 4] = [Self::DiskFull, Self::DiskLow, Self::IndexMemory, Self::LogQueue];

    /// What is short, for messages.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Self::DiskFull => "the disk is full",
            Self::DiskLow => "the disk has little room",
            Self::IndexMemory => "the index of messages is at its limit",
            Self::LogQueue => "the log is behind",
        }
    }

    /// What an operator can do about it.
    pub(crate) fn way_out(self) -> &'static str {
        match self {
            Self::DiskFull => "free disk space; what was accepted is kept and written then",
            Self::DiskLow => {
                "free disk space, let consumers drain queues, or lower limits.disk_free_min_bytes"
            }
            Self::IndexMemory => {
                "let consumers drain queues, shorten retention, or raise limits.index_bytes_max"
            }
            Self::LogQueue => {
                "the disk is slower than the load: look at framegate_storage_syncs_total and the disk"
            }
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what())
    }
}

/// Several of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Holds(u8);

impl Holds {
    pub(crate) fn set(&mut self, hold: Hold, on: bool) {
        self.0 = if on { self.0 | hold.bit() } else { self.0 & !hold.bit() };
    }

    pub(crate) fn has(self, hold: Hold) -> bool {
        self.0 & hold.bit() != 0
    }

    /// The most urgent one.
    pub(crate) fn first(self) -> Option<Hold> {
        Hold::ALL.into_iter().find(|hold| self.has(*hold))
    }
}

/// Where publishers wait while they are held.
pub(crate) struct Gate {
    hold: watch::Sender<Option<Hold>>,
    /// For those who need not wait.
    closed: AtomicBool,
    /// Nobody waits here any more: the broker stops.
    over: AtomicBool,
}

impl Default for Gate {
    fn default() -> Self {
        Self { hold: watch::channel(None).0, closed: AtomicBool::new(false), over: AtomicBool::new(false) }
    }
}

impl Gate {
    /// Closes it for a reason, or opens it.
    pub(crate) fn set(&self, hold: Option<Hold>) {
        let hold = hold.filter(|_| !self.over.load(Ordering::SeqCst));
        self.closed.store(hold.is_some(), Ordering::SeqCst);
        self.hold.send_replace(hold);
        if self.over.load(Ordering::SeqCst) && hold.is_some() {
            self.open_for_good();
        }
    }

    /// Opens it and keeps it open.
    pub(crate) fn open_for_good(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.closed.store(false, Ordering::SeqCst);
        self.hold.send_replace(None);
    }

    /// Why publishers wait, if they do.
    pub(crate) fn closed_for(&self) -> Option<Hold> {
        if self.closed.load(Ordering::SeqCst) { *self.hold.borrow() } else { None }
    }

    /// Waits until it is open.
    pub(crate) async fn pass(&self) {
        // the sender is this gate's own
        let _ = self.hold.subscribe().wait_for(Option::is_none).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_urgent_reason_is_named_and_the_last_one_to_clear_opens() {
        let mut holds = Holds::default();
        assert_eq!(holds.first(), None);
        holds.set(Hold::LogQueue, true);
        holds.set(Hold::DiskLow, true);
        assert_eq!(holds.first(), Some(Hold::DiskLow));
        holds.set(Hold::DiskLow, false);
        assert_eq!((holds.first(), holds.has(Hold::DiskLow)), (Some(Hold::LogQueue), false));
        holds.set(Hold::LogQueue, false);
        assert_eq!(holds, Holds::default());
    }

    #[test]
    fn a_gate_that_was_opened_for_good_does_not_close_again() {
        let gate = Gate::default();
        gate.set(Some(Hold::DiskLow));
        assert_eq!(gate.closed_for(), Some(Hold::DiskLow));
        gate.open_for_good();
        gate.set(Some(Hold::DiskFull));
        assert_eq!(gate.closed_for(), None);
    }
}
