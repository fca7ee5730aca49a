//! The connection's side towards the broker: login, one batch at a time, effects, the window. Never touches the session.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use framegate_broker::{
    BrokerError, ConnectionId, Delivery, Effect, Happening, JobInfo, JobReply, Name, Principal, Reply,
    Request, RequestId,
};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt as _;

use super::answers::AnswersDue;
use super::limits::{PASSES_WAITING_MAX, REQUESTS_WAITING_MAX};
use super::port::{Effects, Line, Port};
use crate::session::{Credentials, Login, LoginError, Welcome};

/// Something that the connection must know.
#[derive(Debug)]
pub(super) enum Event {
    /// A batch was handed over.
    Submitted,
    /// A login has ended. `renewed`: same user, same vhost as before.
    LoggedIn { result: Result<Welcome, LoginError>, user: String, renewed: bool },
    /// The broker takes nothing more.
    Failed(BrokerError),
}

struct Seat<L> {
    line: L,
    effects: Effects,
    principal: Principal,
    vhost: Name,
}

struct Attempt {
    user: String,
    vhost: Result<Name, BrokerError>,
    principal: BoxFuture<'static, Result<Principal, LoginError>>,
}

/// See the top of the file.
pub(super) struct Uplink<P: Port> {
    // Dropped first: the batch in flight belongs to the line.
    submitting: Option<BoxFuture<'static, Result<(), BrokerError>>>,
    seat: Option<Seat<P::Line>>,
    queued: Vec<(RequestId, Request)>,
    /// Effects that wait for output to be written.
    stocked: VecDeque<Vec<Effect>>,
    login: Option<Login>,
    attempt: Option<Attempt>,
    owed: usize,
    answers: AnswersDue,
    port: P,
    label: String,
    vhost: Name,
}

impl<P: Port> Uplink<P> {
    /// `vhost`: where logins go that name none.
    pub(super) fn new(port: P, label: String, vhost: Name) -> Self {
        Self {
            submitting: None,
            seat: None,
            queued: Vec::new(),
            stocked: VecDeque::new(),
            login: None,
            attempt: None,
            owed: 0,
            answers: AnswersDue::default(),
            port,
            label,
            vhost,
        }
    }

    /// Queues requests. False when nobody is logged in: a bug of the session.
    pub(super) fn push(&mut self, requests: Vec<(RequestId, Request)>) -> bool {
        if self.seat.is_none() {
            return false;
        }
        for (id, request) in &requests {
            self.answers.asked(*id, request);
        }
        if self.queued.is_empty() {
            self.queued = requests;
        } else {
            self.queued.extend(requests);
        }
        true
    }

    /// Starts a login behind the requests that are queued.
    pub(super) fn login(&mut self, login: Login) {
        self.login = Some(login);
    }

    /// Whether more input may be turned into requests.
    pub(super) fn idle(&self) -> bool {
        self.submitting.is_none() && self.queued.is_empty() && self.login.is_none() && self.attempt.is_none()
    }

    /// Whether effects may be turned into more requests.
    pub(super) fn takes_effects(&self, requests: usize) -> bool {
        self.queued.len() + requests < REQUESTS_WAITING_MAX
    }

    /// Whether answers will come soon.
    pub(super) fn answers_due(&self) -> bool {
        self.answers.soon()
    }

    /// Whether answers will come at any time.
    pub(super) fn asked(&self) -> bool {
        self.answers.ever()
    }

    pub(super) fn connection(&self) -> Option<ConnectionId> {
        self.seat.as_ref().map(|seat| seat.line.id())
    }

    /// Who is logged in, and where.
    pub(super) fn principal(&self) -> Option<(&Principal, &Name)> {
        self.seat.as_ref().map(|seat| (&seat.principal, &seat.vhost))
    }

    pub(super) fn port(&self) -> &P {
        &self.port
    }

    /// Goes on with what is under way; pending when there is nothing or it waits.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Some(submitting) = &mut self.submitting {
            let Poll::Ready(result) = submitting.poll_unpin(cx) else { return Poll::Pending };
            self.submitting = None;
            return Poll::Ready(result.map_or_else(Event::Failed, |()| Event::Submitted));
        }
        if let Some(seat) = self.seat.as_ref().filter(|_| !self.queued.is_empty()) {
            let mut submitting = seat.line.submit(std::mem::take(&mut self.queued));
            if let Poll::Ready(result) = submitting.poll_unpin(cx) {
                return Poll::Ready(result.map_or_else(Event::Failed, |()| Event::Submitted));
            }
            self.submitting = Some(submitting);
            return Poll::Pending;
        }
        if let Some(login) = self.login.take() {
            self.attempt = Some(self.begin(login));
        }
        let Some(attempt) = &mut self.attempt else { return Poll::Pending };
        let Poll::Ready(result) = attempt.principal.poll_unpin(cx) else { return Poll::Pending };
        let Some(attempt) = self.attempt.take() else { return Poll::Pending };
        Poll::Ready(self.finish(attempt, result))
    }

    /// The next pass; `Ready(None)` when the broker has stopped. Pending while nobody is logged in.
    pub(super) fn poll_effects(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<Effect>>> {
        if let Some(effects) = self.stocked.pop_front() {
            return Poll::Ready(Some(effects));
        }
        match &mut self.seat {
            Some(seat) => seat.effects.poll_next_unpin(cx),
            None => Poll::Pending,
        }
    }

    /// Whether more effects wait than may, while nothing takes them. The end of the broker is none.
    pub(super) fn is_overstocked(&mut self, cx: &mut Context<'_>) -> bool {
        while self.stocked.len() < PASSES_WAITING_MAX
            && let Some(seat) = &mut self.seat
            && let Poll::Ready(Some(effects)) = seat.effects.poll_next_unpin(cx)
        {
            self.stocked.push_back(effects);
        }
        self.stocked.len() >= PASSES_WAITING_MAX
    }

    /// Notes an effect that goes to the session now.
    pub(super) fn heard(&mut self, effect: &Effect) {
        match effect {
            Effect::Delivery(delivery) => self.owed += delivery.window_bytes(),
            Effect::Reply(_, Ok(Reply::Job(JobReply::Pulled(jobs)))) => {
                self.owed += jobs.iter().map(JobInfo::window_bytes).sum::<usize>();
            }
            Effect::Reply(_, Ok(Reply::Fetched { messages, .. })) => {
                self.owed += messages.iter().map(Delivery::window_bytes).sum::<usize>();
            }
            _ => {}
        }
        self.answers.heard(effect);
    }

    /// Everything that was handed to the session has been written: the window opens again.
    pub(super) fn written(&mut self) {
        if let Some(seat) = self.seat.as_ref().filter(|_| self.owed > 0) {
            seat.line.written(self.owed);
        }
        self.owed = 0;
    }

    /// Tells the broker why the connection is about to end.
    pub(super) fn report(&self, what: Happening) {
        if let Some(seat) = &self.seat {
            seat.line.report(what);
        }
    }

    /// Gives up a login that is under way.
    pub(super) fn cancel_login(&mut self) {
        self.login = None;
        self.attempt = None;
    }

    /// Leaves the broker: leases return, what was not handed over is dropped.
    pub(super) fn leave(&mut self) {
        self.submitting = None;
        self.queued = Vec::new();
        self.stocked.clear();
        self.cancel_login();
        self.seat = None;
        self.owed = 0;
    }

    fn begin(&self, login: Login) -> Attempt {
        let vhost = login.vhost.as_deref().map_or_else(|| Ok(self.vhost.clone()), Name::new);
        let user = match &login.credentials {
            Credentials::Password { user, .. } => user.chars().take(80).collect(),
            Credentials::Token(_) => "(token)".to_owned(),
            Credentials::Certificate(name) => name.chars().take(80).collect(),
            Credentials::Anonymous => "(anonymous)".to_owned(),
        };
        Attempt { user, vhost, principal: self.port.authenticate(login.credentials) }
    }

    fn finish(&mut self, attempt: Attempt, result: Result<Principal, LoginError>) -> Event {
        let Attempt { user, vhost, .. } = attempt;
        let connected = result.and_then(|principal| {
            let vhost = vhost?;
            let before = self.principal().map(|(p, v)| (p.name().clone(), v.clone()));
            let renewed = before.is_some_and(|(name, old)| name == *principal.name() && old == vhost);
            // The old connection goes first, so that its leases are back before the new one asks.
            self.leave();
            self.answers = AnswersDue::default();
            let (line, effects) = self.port.connect(&principal, &vhost, &self.label)?;
            let user = principal.name().clone();
            let welcome = Welcome { connection: line.id(), user, vhost: vhost.clone() };
            self.seat = Some(Seat { line, effects, principal, vhost });
            Ok((welcome, renewed))
        });
        match connected {
            Ok((welcome, renewed)) => Event::LoggedIn { result: Ok(welcome), user, renewed },
            Err(error) => Event::LoggedIn { result: Err(error), user, renewed: false },
        }
    }
}
