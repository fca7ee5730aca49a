//! The newest events of a watch, in order, under an index that only grows. Evicts the oldest; remembers up to where.

use std::collections::VecDeque;

use framegate_storage::Lsn;

use crate::limits::{RING_BYTES_MAX, RING_FRAMES_MAX};
use crate::message::SharedEvent;

/// Frame bytes that a ring may keep even when all rings together are over their budget.
const SHARE_BYTES: usize = 64 * 1024;

/// An event with its place.
#[derive(Debug)]
struct Held {
    event: SharedEvent,
    /// Live-only events pushed before it.
    live_before: u64,
}

/// The ring. Index n is the n-th event pushed, from 0.
#[derive(Debug)]
pub(super) struct Ring {
    held: VecDeque<Held>,
    /// Index of the oldest event held.
    first: u64,
    /// Frame bytes held.
    bytes: usize,
    /// Live-only events pushed so far.
    live: u64,
    /// Every kept event of the watch above this position is held, or will be pushed.
    floor: Lsn,
    /// Position of the newest event, or where the watch began.
    head: Lsn,
}

impl Ring {
    /// Empty. `floor`: every kept event above it will be pushed.
    pub(super) fn new(floor: Lsn) -> Self {
        Self { held: VecDeque::new(), first: 0, bytes: 0, live: 0, floor, head: floor }
    }

    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Index of the next event to be pushed.
    pub(super) fn end(&self) -> u64 {
        self.first + self.held.len() as u64
    }

    pub(super) fn floor(&self) -> Lsn {
        self.floor
    }

    pub(super) fn head(&self) -> Lsn {
        self.head
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Live-only events with an index below `index`, which is not below `first`.
    pub(super) fn live_before(&self, index: u64) -> u64 {
        let at = (index - self.first) as usize;
        self.held.get(at).map_or(self.live, |held| held.live_before)
    }

    /// Events from `index` on, which is not below `first`.
    pub(super) fn from(&self, index: u64) -> impl Iterator<Item = &SharedEvent> {
        self.held.range((index - self.first) as usize..).map(|held| &held.event)
    }

    /// Index of the oldest event held whose position is above `position`, or `end`.
    pub(super) fn index_above(&self, position: Lsn) -> u64 {
        self.first + self.held.partition_point(|held| held.event.cursor.position <= position) as u64
    }

    /// Adds an event and evicts what no longer fits: never the newest. `tight`: all rings together are over their
    /// budget, and this one has to do with a small share.
    pub(super) fn push(&mut self, event: SharedEvent, tight: bool) {
        self.bytes += bytes_of(&event);
        self.head = self.head.max(event.cursor.position);
        let live_before = self.live;
        self.live += u64::from(event.kept.is_none());
        self.held.push_back(Held { event, live_before });
        let bytes_max = if tight { SHARE_BYTES } else { RING_BYTES_MAX };
        while self.held.len() > 1 && (self.held.len() > RING_FRAMES_MAX || self.bytes > bytes_max) {
            let Some(Held { event, .. }) = self.held.pop_front() else { break };
            self.first += 1;
            self.bytes -= bytes_of(&event);
            self.floor = self.floor.max(event.cursor.position);
        }
    }
}

fn bytes_of(event: &SharedEvent) -> usize {
    event.frame.as_bytes().len()
}
