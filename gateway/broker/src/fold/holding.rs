//! When publishers are held and when they go on: no room on the disk or little of it, an index at its limit, a log that is
//! behind. What closes the gate opens it again at a second mark, so that it does not swing. Consumers are never held, and
//! while the disk is short snapshots follow each other, so that what they drained comes back as room.

use std::sync::atomic::Ordering;

use super::Core;
use crate::hold::{Hold, Holds};
use crate::ids::ConnectionId;
use crate::metrics::Metrics;
use crate::request::Effect;

/// Time between snapshots while the disk is short, when the usual one is longer.
const SHORT_DISK_MS: u64 = 5000;
/// Records that a shard writes by itself after a snapshot: without more there is nothing to see.
const OWN_RECORDS: u64 = 2;

/// What the fold knows of its resources.
#[derive(Debug, Default)]
pub(super) struct Holding {
    holds: Holds,
}

impl Core {
    /// Publishers are held.
    pub(super) fn is_held(&self) -> bool {
        self.holding.holds.first().is_some()
    }

    /// A publisher waits at the gate: it is told as the others were.
    pub(super) fn waits(&mut self, id: ConnectionId) {
        let held = self.is_held();
        let Some(live) = self.connections.get_mut(&id) else { return };
        if !std::mem::replace(&mut live.publishes, true) && held {
            self.push_effect(id, Effect::Blocked(true));
        }
    }

    /// A look at the resources that change by themselves. `free`: bytes free on the disk, if known.
    pub(super) fn looked(&mut self, free: Option<u64>) {
        if self.failed {
            return;
        }
        let limits = &self.shared.limits;
        let (least, most) = (limits.disk_free_min_bytes, limits.index_bytes_max as u64);
        if let Some(free) = free {
            let low = self.holding.holds.has(Hold::DiskLow);
            // a quarter more than what closed it
            let enough = if low { least.saturating_add(least / 4) } else { least };
            self.set_hold(Hold::DiskLow, free < enough, free, least);
        }
        let index = self.durable.index_bytes() + self.volatile.index_bytes();
        self.shared.metrics.index_bytes.store(index, Ordering::Relaxed);
        let at_limit = self.holding.holds.has(Hold::IndexMemory);
        let allowed = if at_limit { most - most / 10 } else { most };
        self.set_hold(Hold::IndexMemory, index > allowed, index, most);
        self.make_room();
    }

    /// Looks at what waits for the log.
    pub(super) fn look_at_log(&mut self) {
        let waits = self.in_flight_bytes + self.open_bytes() as u64;
        self.shared.metrics.log_queue_bytes.store(waits, Ordering::Relaxed);
        let most = self.shared.limits.log_queue_bytes_max as u64;
        let allowed = if self.holding.holds.has(Hold::LogQueue) { most / 2 } else { most };
        self.set_hold(Hold::LogQueue, waits > allowed, waits, most);
    }

    /// Holds publishers for a reason, or no longer for it.
    pub(super) fn set_hold(&mut self, hold: Hold, on: bool, now: u64, limit: u64) {
        if on == self.holding.holds.has(hold) {
            return;
        }
        let before = self.holding.holds.first();
        self.holding.holds.set(hold, on);
        let after = self.holding.holds.first();
        // whoever reads that publishers are held finds the gate closed
        self.shared.gate.set(after);
        let metrics = &self.shared.metrics;
        let gauge = match hold {
            Hold::DiskFull => &metrics.held_disk_full,
            Hold::DiskLow => &metrics.held_disk_low,
            Hold::IndexMemory => &metrics.held_index_memory,
            Hold::LogQueue => &metrics.held_log_queue,
        };
        gauge.store(u64::from(on), Ordering::Relaxed);
        if on {
            Metrics::add(&metrics.holds, 1);
            if limit > 0 {
                tracing::warn!(now, limit, "publishers are held: {hold}; {}", hold.way_out());
            } else {
                tracing::warn!("publishers are held: {hold}; {}", hold.way_out());
            }
            self.broker_error(&format!("publishers are held: {hold}"));
        } else {
            tracing::info!("no longer so: {hold}");
        }
        if before.is_some() != after.is_some() {
            self.tell_publishers(after.is_some());
            if after.is_none() {
                tracing::info!("publishers go on");
            }
        }
    }

    /// While the disk is short, what was drained is given back soon.
    fn make_room(&mut self) {
        let holds = self.holding.holds;
        let changed = self.first.0 > self.keeper.covered().0 + OWN_RECORDS;
        if changed && (holds.has(Hold::DiskFull) || holds.has(Hold::DiskLow)) {
            self.snapshot_within(SHORT_DISK_MS);
        }
    }

    fn tell_publishers(&mut self, held: bool) {
        let publishers: Vec<_> =
            self.connections.iter().filter(|(_, c)| c.publishes).map(|(id, _)| *id).collect();
        for id in publishers {
            self.push_effect(id, Effect::Blocked(held));
        }
    }
}
