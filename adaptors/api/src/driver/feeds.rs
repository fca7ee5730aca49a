//! The subscriptions of one connection: starting, live, paused. Each gives items in turn; what was taken but not wanted yet
//! waits here, at most one helping a subscription.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use framegate_broker::{BrokerError, ConsumerId, FeedItem, Name, Principal, Subscribe};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use super::limits::{FEED_ITEMS_MAX, SUBSCRIPTIONS_MAX};
use super::port::{Feed, Port};
use crate::outbound::Outbound;
use crate::session::{Session, SessionError, Subscribed};

type Started<F> = (ConsumerId, u64, Result<F, BrokerError>);

struct Live<F> {
    consumer: ConsumerId,
    feed: F,
    paused: bool,
    taken: VecDeque<FeedItem>,
}

/// How one look at the feeds ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fed {
    /// Nothing is there.
    Idle,
    /// The session got something.
    Some,
    /// The broker has stopped.
    Stopped,
}

/// See the top of the file.
pub(super) struct Feeds<F> {
    live: Vec<Live<F>>,
    starting: FuturesUnordered<BoxFuture<'static, Started<F>>>,
    /// Those of `starting` that nobody has ended meanwhile.
    wanted: Vec<(ConsumerId, u64)>,
    refused: Vec<(ConsumerId, BrokerError)>,
    serial: u64,
    next: usize,
}

impl<F: Feed + 'static> Feeds<F> {
    pub(super) fn new() -> Self {
        Self {
            live: Vec::new(),
            starting: FuturesUnordered::new(),
            wanted: Vec::new(),
            refused: Vec::new(),
            serial: 0,
            next: 0,
        }
    }

    /// Starts one, or notes why not; `poll_started` says which.
    pub(super) fn start<P: Port<Feed = F>>(
        &mut self,
        port: &P,
        principal: &Principal,
        vhost: &Name,
        consumer: ConsumerId,
        what: Subscribe,
    ) {
        let known = self.live.iter().any(|l| l.consumer == consumer)
            || self.wanted.iter().any(|(w, _)| *w == consumer);
        if known {
            return self.refused.push((consumer, BrokerError::ConsumerExists));
        }
        if self.live.len() + self.starting.len() >= SUBSCRIPTIONS_MAX {
            let max = SUBSCRIPTIONS_MAX as u64;
            let limit = BrokerError::Limit { what: "subscriptions of a connection", max };
            return self.refused.push((consumer, limit));
        }
        self.serial += 1;
        let serial = self.serial;
        self.wanted.push((consumer, serial));
        let started = port.subscribe(principal.clone(), vhost.clone(), what);
        self.starting.push(started.map(move |result| (consumer, serial, result)).boxed());
    }

    /// Ends one, live or starting. False when there is none.
    pub(super) fn end(&mut self, consumer: ConsumerId) -> bool {
        let before = self.live.len() + self.wanted.len();
        self.live.retain(|l| l.consumer != consumer);
        self.wanted.retain(|(w, _)| *w != consumer);
        self.live.len() + self.wanted.len() < before
    }

    /// Ends all.
    pub(super) fn end_all(&mut self) {
        self.live = Vec::new();
        self.wanted = Vec::new();
        self.starting = FuturesUnordered::new();
    }

    /// Lets a paused one go on.
    pub(super) fn resume(&mut self, consumer: ConsumerId) {
        if let Some(live) = self.live.iter_mut().find(|l| l.consumer == consumer) {
            live.paused = false;
        }
    }

    /// One that has started or was refused, for the session.
    pub(super) fn poll_started(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<(ConsumerId, Result<Subscribed, BrokerError>)> {
        if let Some((consumer, error)) = self.refused.pop() {
            return Poll::Ready((consumer, Err(error)));
        }
        while let Poll::Ready(Some((consumer, serial, result))) = self.starting.poll_next_unpin(cx) {
            let Some(at) = self.wanted.iter().position(|w| *w == (consumer, serial)) else { continue };
            self.wanted.swap_remove(at);
            let result = result.map(|feed| {
                let subscribed = Subscribed { cursor: feed.cursor(), exact: feed.exact() };
                self.live.push(Live { consumer, feed, paused: false, taken: VecDeque::new() });
                subscribed
            });
            return Poll::Ready((consumer, result));
        }
        Poll::Pending
    }

    /// Gives each subscription in turn one helping, until there is enough output.
    ///
    /// # Errors
    /// The session's.
    pub(super) fn feed(
        &mut self,
        cx: &mut Context<'_>,
        session: &mut dyn Session,
        out: &mut Outbound,
        output_max: usize,
    ) -> Result<Fed, SessionError> {
        let mut fed = Fed::Idle;
        let count = self.live.len();
        self.next = self.next.wrapping_add(1);
        for turn in 0..count {
            let at = (self.next.wrapping_add(turn)) % count;
            let Some(live) = self.live.get_mut(at).filter(|l| !l.paused) else { continue };
            if out.len() >= output_max {
                break;
            }
            if live.taken.is_empty() {
                let mut items = Vec::new();
                match live.feed.poll_next(cx, &mut items, FEED_ITEMS_MAX) {
                    Poll::Ready(true) => live.taken = items.into(),
                    Poll::Ready(false) => return Ok(Fed::Stopped),
                    Poll::Pending => continue,
                }
            }
            while let Some(item) = live.taken.pop_front() {
                fed = Fed::Some;
                live.paused = !session.feed(live.consumer, &item, out)?;
                let interrupted = !out.unsubscribe.is_empty() || out.close.is_some();
                if live.paused || interrupted || out.len() >= output_max {
                    break;
                }
            }
            if live.taken.is_empty() {
                live.taken = VecDeque::new();
            }
        }
        Ok(fed)
    }
}
