//! One subscriber's way through a feed: what is kept first, then what comes. Owns the place of the subscriber; never
//! holds anybody up.
//!
//! ```text
//!             the ring holds all above the place
//! Replaying ------------------------------------> Live -----> Ended  (watch closed, or a page failed)
//!     ^                                            |
//!     +--------------------------------------------+
//!       the place was evicted from the ring
//! ```
//! The fence: a subscription joins its watch before it looks at the store, so whatever is published meanwhile is in
//! the ring or was evicted from it, and the ring knows up to which position it evicted (its floor). Pages are read
//! until that floor is reached, and nothing above it is taken from them. Events in the ring at or below the place are
//! passed over.
//!
//! An event that no topic keeps is delivered to those that joined before it came. When it is evicted from the ring
//! before one of them read it, that one gets a loss notice.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use framegate_storage::Lsn;

use super::cursor::Cursor;
use super::event::FeedItem;
use super::parts::{Parts, Start};
use super::replay::{Page, PageFuture, Replay};
use super::waiters::Slot;
use super::watch::Watch;
use crate::ids::WatchId;
use crate::limits::READ_AHEAD_BYTES;

/// Events of one page at most.
const PAGE_EVENTS_MAX: usize = 256;

/// A live or replaying subscription to topics. Dropping it ends it.
pub struct Subscription {
    watch: Arc<Watch>,
    replay: Arc<dyn Replay>,
    slot: Slot,
    phase: Phase,
    /// Items found and not yet handed out.
    ready: VecDeque<FeedItem>,
    /// Place after which to go on when `ready` is handed out.
    position: Lsn,
    /// Place after the last item handed out.
    cursor: Cursor,
    /// While live: index in the ring of the next event to look at.
    next: u64,
    /// Index in the ring from which live-only events are wanted.
    live_from: u64,
    /// Live-only events pushed before `live_from` and before `next`.
    live_seen: u64,
    exact: bool,
    /// Losses up to this record are told.
    told: Lsn,
    ended: Option<Box<dyn FnOnce(WatchId) + Send>>,
}

enum Phase {
    Replaying {
        page: Option<PageFuture>,
        /// A loss of live-only events was reported in this phase; one notice is enough.
        noticed: bool,
    },
    Live,
    Ended,
}

/// What a look into the ring found.
enum Look {
    Found,
    Nothing,
    Behind,
    Closed,
}

impl Subscription {
    /// Joins the watch. Everything kept above the start, and everything pushed from now on, will be yielded.
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { watch, replay, start, lost, told, generation, ended } = parts;
        let slot = watch.join();
        let (live_from, live_seen, head) = {
            let state = watch.state();
            let end = state.ring.end();
            (end, state.ring.live_before(end), state.ring.head())
        };
        let (position, phase) = match start {
            Start::Live => (head, Phase::Live),
            Start::After(position) => (position, Phase::Replaying { page: None, noticed: false }),
        };
        let exact = lost.is_none();
        let notice = lost.map(|(requested, resumed_from)| FeedItem::Lost { requested, resumed_from });
        let cursor = Cursor { generation, position };
        let (ready, ended) = (notice.into_iter().collect(), Some(ended));
        Self {
            watch,
            replay,
            slot,
            phase,
            ready,
            position,
            cursor,
            next: live_from,
            live_from,
            live_seen,
            exact,
            told,
            ended,
        }
    }

    /// Appends the next items to `into` (at most `max`, at least one) and waits while there is none; false when the
    /// broker has stopped. Cancel-safe: an item is either in `into` or comes again.
    pub async fn next(&mut self, into: &mut Vec<FeedItem>, max: usize) -> bool {
        poll_fn(|context| self.poll_next(context, into, max)).await
    }

    /// Like `next` without an async function's future: for bodies and drivers that poll many subscriptions.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        into: &mut Vec<FeedItem>,
        max: usize,
    ) -> Poll<bool> {
        let max = max.max(1);
        loop {
            if !self.ready.is_empty() {
                self.hand_out(into, max);
                return Poll::Ready(true);
            }
            self.cursor.position = self.cursor.position.max(self.position);
            match &mut self.phase {
                Phase::Live => match self.look(context, into, max) {
                    Look::Found => return Poll::Ready(true),
                    Look::Nothing => return Poll::Pending,
                    Look::Behind => self.phase = Phase::Replaying { page: None, noticed: false },
                    Look::Closed => self.phase = Phase::Ended,
                },
                Phase::Replaying { page, .. } => {
                    let answer = match page {
                        Some(page) => page.as_mut().poll(context),
                        None => {
                            self.ask_or_go_live();
                            continue;
                        }
                    };
                    match answer {
                        Poll::Ready(Ok(page)) => self.take_page(page),
                        Poll::Ready(Err(_)) => self.phase = Phase::Ended,
                        Poll::Pending => {
                            let mut watch = self.watch.state();
                            if !watch.closed {
                                watch.waiters.wait(self.slot, context.waker(), false);
                                return Poll::Pending;
                            }
                            drop(watch);
                            self.phase = Phase::Ended;
                        }
                    }
                }
                Phase::Ended => return Poll::Ready(false),
            }
        }
    }

    /// Cursor after which the subscription stands now.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Whether the start that was asked for was found (false: a loss notice comes first).
    #[must_use]
    pub fn resumed_exactly(&self) -> bool {
        self.exact
    }

    /// It reads what is kept, and a page is under way.
    #[cfg(test)]
    pub(crate) fn is_replaying(&self) -> bool {
        matches!(self.phase, Phase::Replaying { page: Some(_), .. })
    }

    fn hand_out(&mut self, into: &mut Vec<FeedItem>, max: usize) {
        for item in self.ready.drain(..max.min(self.ready.len())) {
            let position = match &item {
                FeedItem::Event(event) => event.cursor.position,
                FeedItem::Lost { resumed_from, .. } => resumed_from.position,
            };
            self.cursor.position = self.cursor.position.max(position);
            into.push(item);
        }
    }

    /// Live: copies what the ring has, or registers for the next wake.
    fn look(&mut self, context: &Context<'_>, into: &mut Vec<FeedItem>, max: usize) -> Look {
        let mut state = self.watch.state();
        if state.ring.first() > self.next {
            return Look::Behind;
        }
        let full = into.len() + max;
        for event in state.ring.from(self.next) {
            if into.len() == full {
                break;
            }
            let position = event.cursor.position;
            let wanted = match event.kept {
                Some(_) => position > self.position,
                None => self.next >= self.live_from,
            };
            if event.kept.is_none() && wanted {
                self.live_seen += 1;
            }
            self.next += 1;
            if wanted {
                self.position = self.position.max(position);
                into.push(FeedItem::Event(Arc::clone(event)));
            }
        }
        self.live_from = self.live_from.max(self.next);
        self.cursor.position = self.position;
        if into.len() > full - max {
            Look::Found
        } else if state.closed {
            Look::Closed
        } else {
            state.waiters.wait(self.slot, context.waker(), true);
            Look::Nothing
        }
    }

    /// Replaying, and no page under way: goes live when the ring holds all above the place, else asks for a page.
    fn ask_or_go_live(&mut self) {
        let (first, live_before, above, floor, closed) = {
            let state = self.watch.state();
            let ring = &state.ring;
            let first = ring.first();
            (first, ring.live_before(first), ring.index_above(self.position), ring.floor(), state.closed)
        };
        let Phase::Replaying { page, noticed } = &mut self.phase else { return };
        let mut lost_live_only = false;
        if first > self.live_from {
            lost_live_only = live_before > self.live_seen && !std::mem::replace(noticed, true);
            (self.live_from, self.live_seen) = (first, live_before);
        }
        if self.position >= floor {
            self.next = above.min(self.live_from);
            self.phase = Phase::Live;
        } else if closed {
            self.phase = Phase::Ended;
        } else {
            let (id, told) = (self.watch.id(), self.told);
            *page = Some(self.replay.page(id, self.position, told, PAGE_EVENTS_MAX, READ_AHEAD_BYTES));
        }
        if lost_live_only {
            self.lose();
        }
    }

    fn take_page(&mut self, read: Page) {
        let before = self.position;
        if let Some(gone_to) = read.gone_to {
            self.position = before.max(gone_to);
            self.lose();
        }
        self.told = self.told.max(read.told);
        // The ring has what is above its floor, with the encodings that others have made.
        let floor = self.watch.state().ring.floor();
        let upto = read.complete_to.min(floor);
        for event in read.events {
            let position = event.cursor.position;
            if position > self.position && position <= upto {
                self.position = position;
                self.ready.push_back(FeedItem::Event(event));
            }
        }
        self.position = self.position.max(upto);
        if self.position == before && before < floor {
            // The store does not reach what the ring has evicted. Going on with a notice beats asking for ever.
            self.position = floor;
            self.lose();
        }
        self.phase = Phase::Replaying {
            page: None,
            noticed: matches!(self.phase, Phase::Replaying { noticed: true, .. }),
        };
    }

    /// A loss notice: the feed goes on after `position`. Two losses without an event between them are one.
    fn lose(&mut self) {
        let resumed_from = Cursor { position: self.position, ..self.cursor };
        if let Some(FeedItem::Lost { resumed_from: known, .. }) = self.ready.back_mut() {
            *known = resumed_from;
        } else {
            self.ready.push_back(FeedItem::Lost { requested: None, resumed_from });
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.watch.leave(self.slot);
        if let Some(ended) = self.ended.take() {
            ended(self.watch.id());
        }
    }
}
