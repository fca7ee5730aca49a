//! The one connection loop. One poll goes round until nothing moves: write, timers, broker, effects, feeds, read. All that a
//! round makes is written with one call at the start of the next. Input is not read while a batch waits for
//! the broker or a login is under way; the way out never waits for the way in.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use framegate_broker::BrokerError;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::Instant;

use super::alarm::Alarm;
use super::end::{End, Phase};
use super::feeds::{Fed, Feeds};
use super::limits::{
    CLOSING_TIMEOUT, HALF_CLOSED_TIMEOUT, LINGER_TIMEOUT, OUTPUT_BYTES_MAX, OUTPUT_WHILE_READING_BYTES,
    READ_BUFFER_BYTES, ROUNDS_MAX, SCRATCH_BYTES_MAX, TICK_MIN, UNCHARGED_BYTES, UNFINISHED_TIMEOUT,
    WRITE_TIMEOUT,
};
use super::metrics::DriverMetrics;
use super::port::Port;
use super::uplink::{Event, Uplink};
use super::wire::{Input, Wire};
use crate::budget::{Reservation, UnfinishedBudget};
use crate::outbound::{Close, Outbound};
use crate::session::{LoginError, Session, SessionContext, SessionError};

thread_local! {
    /// What sessions encode into; lent for one poll.
    static SCRATCH: Cell<BytesMut> = Cell::new(BytesMut::new());
}

enum Step {
    Busy,
    Idle,
    Done,
}

/// A connection and everything that it holds. Dropping it at any point returns its leases.
pub(super) struct Connection<P: Port, W> {
    uplink: Uplink<P>,
    feeds: Feeds<P::Feed>,
    session: Box<dyn Session>,
    wire: W,
    out: Outbound,
    phase: Phase,
    end: Option<End>,
    opened: bool,
    /// Input that was left over is offered once more.
    again: bool,
    stop: Option<BoxFuture<'static, ()>>,
    room: Option<BoxFuture<'static, ()>>,
    budget: UnfinishedBudget,
    reservation: Reservation,
    metrics: Arc<DriverMetrics>,
    span: tracing::Span,
    started: Instant,
    tick_at: Option<Instant>,
    /// When the unfinished message last grew.
    unfinished_since: Option<Instant>,
    /// The socket is not read because of us; nobody is to blame for an unfinished message then.
    paused: bool,
    /// The socket has been read since the transport's last deadline.
    reading: bool,
    /// Since when the peer takes nothing.
    blocked_since: Option<Instant>,
    alarm: Alarm,
}

impl<P: Port, W: Wire> Connection<P, W>
where
    P::Feed: 'static,
{
    pub(super) fn new(
        session: Box<dyn Session>,
        wire: W,
        port: P,
        context: &SessionContext,
        mut stop: watch::Receiver<bool>,
        metrics: Arc<DriverMetrics>,
    ) -> Self {
        let label = format!("{} {}", context.listener, context.peer);
        let span = tracing::info_span!(
            "connection",
            listener = context.listener,
            peer = %context.peer,
            connection = tracing::field::Empty
        );
        let stopped = async move {
            if stop.wait_for(|stop| *stop).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let started = Instant::now();
        Self {
            uplink: Uplink::new(port, label, context.vhost.clone()),
            feeds: Feeds::new(),
            session,
            out: wire.outbound(),
            wire,
            phase: Phase::Open,
            end: None,
            opened: false,
            again: false,
            stop: Some(stopped.boxed()),
            room: None,
            budget: context.budget.clone(),
            reservation: context.budget.reservation(),
            metrics,
            span,
            started,
            tick_at: Some(started),
            unfinished_since: None,
            paused: false,
            reading: false,
            blocked_since: None,
            alarm: Alarm::default(),
        }
    }

    pub(super) fn span(&self) -> &tracing::Span {
        &self.span
    }

    /// Drives the connection to its end.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let mut scratch = SCRATCH.take();
        if scratch.capacity() == 0 {
            scratch = BytesMut::with_capacity(READ_BUFFER_BYTES);
        }
        self.out.lend(scratch);
        let result = self.rounds(cx);
        if let Some(scratch) = self.out.reclaim().filter(|s| s.capacity() <= SCRATCH_BYTES_MAX) {
            SCRATCH.set(scratch);
        }
        result
    }

    fn rounds(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if !self.opened {
            self.opened = true;
            self.session.open(&mut self.out);
            self.absorb(Ok(()), Instant::now());
        }
        self.poll_stop(cx);
        for _ in 0..ROUNDS_MAX {
            match self.round(cx) {
                Step::Busy => {}
                Step::Idle => return Poll::Pending,
                Step::Done => return Poll::Ready(self.end.take().unwrap_or(End::Session)),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn round(&mut self, cx: &mut Context<'_>) -> Step {
        let now = Instant::now();
        let mut busy = self.write(cx, now);
        busy |= self.expire(now);
        match self.phase {
            Phase::Open | Phase::HalfClosed { .. } => {
                busy |= self.poll_uplink(cx, now);
                busy |= self.poll_effects(cx, now);
                busy |= self.poll_feeds(cx, now);
                busy |= self.offer_again(cx, now);
                busy |= self.read(cx, now);
                busy = busy || self.half_closed_is_over(now);
            }
            Phase::Closing { .. } => busy |= self.hand_over(cx, now),
            Phase::Leaving { ref close, .. } => {
                if self.wire.poll_close(cx, close).is_ready() {
                    self.phase = Phase::Gone;
                }
            }
            Phase::Gone => {}
        }
        if matches!(self.phase, Phase::Gone) {
            return Step::Done;
        }
        if !busy && let Some(deadline) = self.deadline() {
            busy = self.alarm.poll(cx, deadline);
        }
        if busy { Step::Busy } else { Step::Idle }
    }

    fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::HalfClosed { .. })
    }

    fn write(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut busy = false;
        if self.wire.waiting() > 0 {
            let written = self.wire.poll_write(cx);
            DriverMetrics::add(&self.metrics.bytes_out_total, written.bytes);
            match written.rest {
                Poll::Ready(Ok(())) => busy = true,
                Poll::Ready(Err(error)) => self.gone(End::Failed(error)),
                Poll::Pending if written.bytes > 0 => self.blocked_since = Some(now),
                Poll::Pending => self.blocked_since = self.blocked_since.or(Some(now)),
            }
        }
        if self.wire.waiting() == 0 {
            self.blocked_since = None;
            self.uplink.written();
        }
        busy
    }

    fn deadline(&self) -> Option<Instant> {
        let blocked = self.blocked_since.map(|since| since + WRITE_TIMEOUT);
        let phase = self.phase.until();
        let (mut tick, mut unfinished, mut wire) = (None, None, None);
        if self.is_live() {
            tick = self.tick_at;
            wire = self.wire.deadline();
            unfinished = self.unfinished_at();
        }
        [blocked, phase, tick, unfinished, wire].into_iter().flatten().min()
    }

    /// When the unfinished message has stood still for too long. Nobody is to blame while we do not read, or while the
    /// session waits for the broker with input that it could use.
    fn unfinished_at(&self) -> Option<Instant> {
        let since = self.unfinished_since.filter(|_| !self.paused && !self.is_held_back());
        since.map(|since| since + UNFINISHED_TIMEOUT)
    }

    fn is_held_back(&self) -> bool {
        self.wire.is_held_back() && self.uplink.asked()
    }

    fn expire(&mut self, now: Instant) -> bool {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return false;
        }
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(self.blocked_since.map(|since| since + WRITE_TIMEOUT)) {
            DriverMetrics::add(&self.metrics.slow_closed_total, 1);
            self.gone(End::SlowConsumer { waiting: self.wire.waiting() });
            return true;
        }
        match self.phase {
            Phase::HalfClosed { until } if until <= now => self.close(End::Peer, Close::normal(), now),
            Phase::Closing { until, .. } if due(until) => self.uplink.leave(),
            Phase::Leaving { until, .. } if until <= now => self.gone(End::Session),
            _ => {}
        }
        if !self.is_live() {
            return true;
        }
        if due(self.unfinished_at()) {
            DriverMetrics::add(&self.metrics.stalled_closed_total, 1);
            let close = Close { code: 1008, reason: "message not finished in time".to_owned() };
            self.close(End::Unfinished { bytes: self.unfinished() }, close, now);
            return true;
        }
        if due(self.wire.deadline()) {
            let reading = std::mem::take(&mut self.reading);
            if let Some(close) = self.wire.expired(now, reading) {
                DriverMetrics::add(&self.metrics.stalled_closed_total, 1);
                self.close(End::Misbehaved(close.reason.clone()), close, now);
                return true;
            }
        }
        if due(self.tick_at) {
            self.tick(now);
        }
        true
    }

    fn tick(&mut self, now: Instant) {
        let age = now.duration_since(self.started);
        if self.paused || self.room.is_some() {
            self.session.unread();
        }
        let result = self.session.tick(age, &mut self.out);
        if let Ok(wait) = result {
            self.tick_at = now.checked_add(wait.max(TICK_MIN));
        }
        self.absorb(result.map(drop), now);
    }

    fn poll_stop(&mut self, cx: &mut Context<'_>) {
        if self.is_live() && self.stop.as_mut().is_some_and(|stop| stop.poll_unpin(cx).is_ready()) {
            self.stop = None;
            self.session.drain(&mut self.out);
            let now = Instant::now();
            self.tick_at = Some(now);
            self.absorb(Ok(()), now);
        }
    }

    fn poll_uplink(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        if !self.is_live() {
            return false;
        }
        match self.uplink.poll(cx) {
            Poll::Pending => return false,
            Poll::Ready(Event::Submitted) => {}
            Poll::Ready(Event::Failed(error)) => self.broker_gone(Some(error), now),
            Poll::Ready(Event::LoggedIn { result, user, renewed }) => {
                self.note_login(result.as_ref().err(), &user);
                // Subscriptions were granted to the user of before; they stay only if that is the user of now.
                if !renewed && (result.is_ok() || self.uplink.principal().is_none()) {
                    self.feeds.end_all();
                }
                let result = self.session.logged_in(result, &mut self.out);
                self.again = true;
                self.tick_at = Some(now);
                self.absorb(result, now);
            }
        }
        true
    }

    fn note_login(&self, error: Option<&LoginError>, user: &str) {
        let Some(error) = error else {
            if let Some(id) = self.uplink.connection() {
                self.span.record("connection", id.0);
            }
            return;
        };
        DriverMetrics::add(&self.metrics.refused_total, 1);
        self.span.in_scope(|| match error {
            // Clients without credentials are told to send some; that is no incident.
            LoginError::Required => tracing::debug!(user, "login needs credentials"),
            _ => tracing::warn!(user, %error, "login failed; check the user's entry in the configuration"),
        });
    }

    fn poll_effects(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        if !self.is_live() || self.wire.waiting() > 0 {
            return false;
        }
        let mut busy = false;
        while self.out.len() < OUTPUT_BYTES_MAX
            && self.uplink.takes_effects(self.out.requests.len())
            && self.out.close.is_none()
        {
            match self.uplink.poll_effects(cx) {
                Poll::Pending => break,
                Poll::Ready(None) => {
                    self.broker_gone(None, now);
                    return true;
                }
                Poll::Ready(Some(effects)) => {
                    busy = true;
                    for effect in effects {
                        self.uplink.heard(&effect);
                        if let Err(error) = self.session.effect(effect, &mut self.out) {
                            self.absorb(Err(error), now);
                            return true;
                        }
                    }
                }
            }
        }
        if busy {
            self.again = true;
            self.absorb(Ok(()), now);
        }
        busy
    }

    fn poll_feeds(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        if !self.is_live() || self.wire.waiting() > 0 {
            return false;
        }
        let mut busy = false;
        while let Poll::Ready((consumer, result)) = self.feeds.poll_started(cx) {
            let result = self.session.subscribed(consumer, result, &mut self.out);
            self.again = true;
            busy = true;
            self.absorb(result, now);
            if !self.is_live() {
                return true;
            }
        }
        match self.feeds.feed(cx, &mut *self.session, &mut self.out, OUTPUT_BYTES_MAX) {
            Ok(Fed::Idle) => return busy,
            Ok(Fed::Some) => self.absorb(Ok(()), now),
            Ok(Fed::Stopped) => self.broker_gone(None, now),
            Err(error) => self.absorb(Err(error), now),
        }
        true
    }

    /// Whether input may become requests now. What the broker says of them piles up while output waits.
    fn takes_input(&mut self, cx: &mut Context<'_>) -> bool {
        let waiting = self.wire.waiting();
        self.uplink.idle()
            && waiting <= OUTPUT_WHILE_READING_BYTES
            && (waiting == 0 || !self.uplink.is_overstocked(cx))
    }

    fn offer_again(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        if !self.again || !self.is_live() || !self.takes_input(cx) {
            return false;
        }
        self.again = false;
        if self.wire.unfinished() == 0 {
            return false;
        }
        let before = self.wire.unfinished();
        let result = self.wire.offer_again(&mut *self.session, &mut self.out);
        let moved = self.wire.unfinished() != before || !self.out.is_empty() || !self.out.requests.is_empty();
        self.absorb(result, now);
        self.note_unfinished(now);
        moved
    }

    fn read(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        if !matches!(self.phase, Phase::Open) {
            return false;
        }
        let full = self.wire.unfinished() >= READ_BUFFER_BYTES && self.is_held_back();
        if full || !self.takes_input(cx) {
            self.paused = true;
            return false;
        }
        if !self.has_room(cx) {
            return false;
        }
        if std::mem::take(&mut self.paused) {
            self.unfinished_since = self.unfinished_since.map(|_| now);
        }
        self.reading = true;
        let Poll::Ready(input) = self.wire.poll_read(cx, &mut *self.session, &mut self.out) else {
            return false;
        };
        match input {
            Input::Read(bytes) => {
                DriverMetrics::add(&self.metrics.bytes_in_total, bytes);
                DriverMetrics::add(&self.metrics.reads_total, 1);
                self.absorb(Ok(()), now);
                self.note_unfinished(now);
            }
            Input::End => self.phase = Phase::HalfClosed { until: now + HALF_CLOSED_TIMEOUT },
            Input::Gone => self.gone(End::Peer),
            Input::Failed(error) => self.gone(End::Failed(error)),
            Input::Session(error) => self.absorb(Err(error), now),
            Input::Close(close) => {
                self.absorb(Ok(()), now);
                self.close(End::Misbehaved(close.reason.clone()), close, now);
            }
        }
        true
    }

    fn unfinished(&self) -> usize {
        self.wire.unfinished() + self.session.unfinished_bytes()
    }

    fn note_unfinished(&mut self, now: Instant) {
        if !self.is_live() {
            return;
        }
        let bytes = self.unfinished();
        self.reservation.set(bytes.saturating_sub(UNCHARGED_BYTES));
        self.unfinished_since = (bytes > 0).then_some(now);
    }

    /// Whether the budget lets a message that has begun go on.
    fn has_room(&mut self, cx: &mut Context<'_>) -> bool {
        if self.budget.has_room() || self.unfinished() == 0 {
            self.room = None;
            return true;
        }
        let budget = &self.budget;
        let room = self.room.get_or_insert_with(|| {
            let budget = budget.clone();
            async move { budget.room().await }.boxed()
        });
        let ready = room.poll_unpin(cx).is_ready();
        if ready {
            self.room = None;
        }
        ready
    }

    fn half_closed_is_over(&mut self, now: Instant) -> bool {
        let over = matches!(self.phase, Phase::HalfClosed { .. })
            && self.uplink.idle()
            && !self.uplink.answers_due()
            && self.wire.waiting() == 0;
        if over {
            self.close(End::Peer, Close::normal(), now);
        }
        over
    }

    /// Closing: what was asked is handed over, what was said is written, then the broker is left.
    fn hand_over(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        while let Poll::Ready(event) = self.uplink.poll(cx) {
            if !matches!(event, Event::Submitted) {
                self.uplink.leave();
            }
        }
        if !self.uplink.idle() {
            return false;
        }
        self.uplink.leave();
        let Phase::Closing { close, until } = &mut self.phase else { return false };
        *until = None;
        if self.wire.waiting() > 0 {
            return false;
        }
        self.phase = Phase::Leaving { close: close.clone(), until: now + LINGER_TIMEOUT };
        true
    }

    fn broker_gone(&mut self, error: Option<BrokerError>, now: Instant) {
        self.session.drain(&mut self.out);
        self.absorb(Ok(()), now);
        let error = error.unwrap_or(BrokerError::Stopping);
        self.close(End::Broker(error.clone()), Close { code: 1012, reason: error.to_string() }, now);
    }

    fn gone(&mut self, end: End) {
        self.ends(end);
        self.phase = Phase::Gone;
    }

    /// Notes why the connection ends, the first time, and tells the broker.
    fn ends(&mut self, end: End) {
        if self.end.is_none() {
            self.uplink.report(end.happening());
            self.end = Some(end);
        }
    }

    fn close(&mut self, end: End, close: Close, now: Instant) {
        if !self.is_live() {
            return;
        }
        self.ends(end);
        self.phase = Phase::Closing { close, until: Some(now + CLOSING_TIMEOUT) };
        self.feeds.end_all();
        self.uplink.cancel_login();
        self.wire.discard();
        self.reservation.set(0);
        self.room = None;
    }

    /// Takes what a call of the session wants done.
    fn absorb(&mut self, result: Result<(), SessionError>, now: Instant) {
        if !self.out.is_empty() {
            self.wire.enqueue(self.out.take_chunks());
        }
        for consumer in self.out.unsubscribe.drain(..) {
            if !self.feeds.end(consumer) {
                self.out.subscribe.retain(|(starting, _)| *starting != consumer);
            }
        }
        for consumer in self.out.resume_feed.drain(..) {
            self.feeds.resume(consumer);
        }
        let requests = std::mem::take(&mut self.out.requests);
        let mut early = !requests.is_empty() && !self.uplink.push(requests);
        for (consumer, what) in std::mem::take(&mut self.out.subscribe) {
            match self.uplink.principal() {
                Some((principal, vhost)) => {
                    self.feeds.start(self.uplink.port(), principal, vhost, consumer, what);
                }
                None => early = true,
            }
        }
        if let Some(login) = self.out.login.take() {
            self.uplink.login(login);
        }
        let close = self.out.close.take();
        if early {
            let close = Close { code: 1011, reason: "internal error".to_owned() };
            return self.close(End::RequestBeforeLogin, close, now);
        }
        match (result, close) {
            (Ok(()), None) => {}
            (Ok(()), Some(close)) => self.close(End::Session, close, now),
            (Err(error), close) => {
                let close = close.unwrap_or_else(|| Close { code: 1002, reason: error.reason.clone() });
                self.close(End::Misbehaved(error.reason), close, now);
            }
        }
    }
}
