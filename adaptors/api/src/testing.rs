//! A session driven without a socket, as the driver does it: input in any pieces, logins answered at once, requests answered by
//! a closure, everything that it says collected. For tests of sessions in any crate (feature `compliance`).

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use framegate_broker::{
    BrokerError, ConnectionId, ConsumerId, Effect, FeedItem, Name, Request, RequestId, Subscribe,
};

use crate::budget::UnfinishedBudget;
use crate::outbound::{Chunk, Close, Outbound};
use crate::registry::{Adaptors, RegistryError};
use crate::session::{
    Credentials, Login, LoginError, Session, SessionContext, SessionError, Subscribed, Welcome,
};

/// A context as the driver would give it: a loopback peer, vhost `/`, anonymous clients let in, messages up to 64 MiB.
///
/// # Errors
/// What is wrong with the registry.
pub fn session_context(
    listener: &'static str,
    settings: serde_json::Value,
) -> Result<SessionContext, RegistryError> {
    let adaptors = Adaptors::collect()?;
    Ok(SessionContext {
        peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000)),
        listener,
        vhost: Name::from_static("/"),
        anonymous: true,
        headers: adaptors.headers().clone(),
        adaptors,
        budget: UnfinishedBudget::default(),
        settings: Arc::new(settings),
        message_bytes_max: 64 * 1024 * 1024,
    })
}

type Answer = Box<dyn FnMut(RequestId, &Request) -> Vec<Effect> + Send>;
type Gate = Box<dyn FnMut(&Login) -> Result<Welcome, LoginError> + Send>;

/// A session under test. Make it, say how the broker answers, then `open` it.
pub struct SessionScript {
    session: Box<dyn Session>,
    out: Outbound,
    rest: Vec<u8>,
    need: usize,
    open_packet: Vec<u8>,
    effects: VecDeque<Effect>,
    answer: Answer,
    gate: Gate,
    /// Packets that have ended, in order.
    pub packets: Vec<Vec<u8>>,
    /// All output, packet boundaries aside.
    pub output: Vec<u8>,
    /// Requests in order, those of before a login too.
    pub requests: Vec<(RequestId, Request)>,
    /// Logins in order.
    pub logins: Vec<Login>,
    /// Subscriptions that were started and not answered yet; see `subscribed`.
    pub subscriptions: Vec<(ConsumerId, Subscribe)>,
    /// Subscriptions that were ended.
    pub unsubscribed: Vec<ConsumerId>,
    /// Subscriptions that were let go on.
    pub resumed: Vec<ConsumerId>,
    /// How the session closed.
    pub closed: Option<Close>,
    /// How the session failed.
    pub failed: Option<SessionError>,
    /// The session asked the broker for something before anybody was logged in.
    pub asked_before_login: bool,
    logged_in: bool,
}

impl SessionScript {
    /// A script whose broker lets everybody in as connection 1 in the vhost asked for, else `/`, and answers nothing.
    #[must_use]
    pub fn new(session: Box<dyn Session>) -> Self {
        Self {
            session,
            out: Outbound::default(),
            rest: Vec::new(),
            need: 0,
            open_packet: Vec::new(),
            effects: VecDeque::new(),
            answer: Box::new(|_, _| Vec::new()),
            gate: Box::new(welcome),
            packets: Vec::new(),
            output: Vec::new(),
            requests: Vec::new(),
            logins: Vec::new(),
            subscriptions: Vec::new(),
            unsubscribed: Vec::new(),
            resumed: Vec::new(),
            closed: None,
            failed: None,
            asked_before_login: false,
            logged_in: false,
        }
    }

    /// Answers requests with effects, which the session hears before its next input.
    #[must_use]
    pub fn answering(
        mut self,
        answer: impl FnMut(RequestId, &Request) -> Vec<Effect> + Send + 'static,
    ) -> Self {
        self.answer = Box::new(answer);
        self
    }

    /// Decides about logins.
    #[must_use]
    pub fn admitting(
        mut self,
        gate: impl FnMut(&Login) -> Result<Welcome, LoginError> + Send + 'static,
    ) -> Self {
        self.gate = Box::new(gate);
        self
    }

    /// Opens the session.
    pub fn open(&mut self) {
        self.session.open(&mut self.out);
        self.settle(Ok(()));
    }

    /// Input of a byte stream: offered with the rest that was not consumed, unless the session needs more than there is.
    /// Ignored once the session has ended.
    pub fn feed(&mut self, input: &[u8]) {
        if self.has_ended() {
            return;
        }
        self.rest.extend_from_slice(input);
        self.offer();
    }

    /// As `feed`, in pieces of at most `size` bytes.
    pub fn feed_in_pieces(&mut self, input: &[u8], size: usize) {
        for piece in input.chunks(size.max(1)) {
            self.feed(piece);
        }
    }

    /// As `feed`, but the session is asked even when it has said that it needs more.
    pub fn feed_eagerly(&mut self, input: &[u8]) {
        self.need = 0;
        self.feed(input);
    }

    /// A WebSocket message: offered once.
    pub fn message(&mut self, input: &[u8]) {
        if self.has_ended() {
            return;
        }
        let result = self.session.read(input, &mut self.out).map(drop);
        self.settle(result);
    }

    /// Something the broker says unasked, such as a delivery.
    pub fn effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
        self.settle(Ok(()));
        self.offer();
    }

    /// Answers the subscription of this consumer.
    pub fn subscribed(&mut self, consumer: ConsumerId, result: Result<Subscribed, BrokerError>) {
        self.subscriptions.retain(|(waiting, _)| *waiting != consumer);
        let result = self.session.subscribed(consumer, result, &mut self.out);
        self.settle(result);
        self.offer();
    }

    /// An item of a subscription; whether the session wants more.
    pub fn item(&mut self, consumer: ConsumerId, item: &FeedItem) -> bool {
        let result = self.session.feed(consumer, item, &mut self.out);
        let more = *result.as_ref().unwrap_or(&false);
        self.settle(result.map(drop));
        more
    }

    /// Time since the start; how long the session wants to wait for the next call. None when it has failed.
    pub fn tick(&mut self, now: Duration) -> Option<Duration> {
        let result = self.session.tick(now, &mut self.out);
        let wait = result.as_ref().ok().copied();
        self.settle(result.map(drop));
        wait
    }

    /// The server stops.
    pub fn drain(&mut self) {
        self.session.drain(&mut self.out);
        self.settle(Ok(()));
    }

    /// Takes the packets that have ended since the last call.
    pub fn take_packets(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.packets)
    }

    /// Takes the output since the last call.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Takes the requests since the last call.
    pub fn take_requests(&mut self) -> Vec<(RequestId, Request)> {
        std::mem::take(&mut self.requests)
    }

    /// Closed or failed.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.closed.is_some() || self.failed.is_some()
    }

    /// Input that the session has not consumed.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.rest
    }

    /// The session, for what the script does not cover.
    pub fn session(&mut self) -> &mut dyn Session {
        &mut *self.session
    }

    fn offer(&mut self) {
        while !self.has_ended() && !self.rest.is_empty() && self.rest.len() >= self.need {
            let result = self.session.read(&self.rest, &mut self.out);
            let progress = *result.as_ref().unwrap_or(&crate::session::Progress::default());
            assert!(
                progress.consumed <= self.rest.len(),
                "consumed {} of {}",
                progress.consumed,
                self.rest.len()
            );
            self.rest.drain(..progress.consumed);
            self.need = progress.need;
            let answered = self.settle(result.map(drop));
            if progress.consumed == 0 && !answered {
                return;
            }
        }
    }

    /// Does what the session wants until it wants no more. Whether it was answered something.
    fn settle(&mut self, mut result: Result<(), SessionError>) -> bool {
        let mut answered = false;
        loop {
            self.collect();
            if let Err(error) = result {
                self.failed.get_or_insert(error);
                return answered;
            }
            if let Some(login) = self.out.login.take() {
                let answer = (self.gate)(&login);
                self.logged_in |= answer.is_ok();
                self.logins.push(login);
                answered = true;
                result = self.session.logged_in(answer, &mut self.out);
                continue;
            }
            let Some(effect) = self.effects.pop_front() else { return answered };
            answered = true;
            result = self.session.effect(effect, &mut self.out);
        }
    }

    fn collect(&mut self) {
        for chunk in self.out.take_chunks() {
            match chunk {
                Chunk::Bytes(bytes) => {
                    self.output.extend_from_slice(&bytes);
                    self.open_packet.extend_from_slice(&bytes);
                }
                Chunk::EndPacket => self.packets.push(std::mem::take(&mut self.open_packet)),
            }
        }
        for (id, request) in std::mem::take(&mut self.out.requests) {
            self.asked_before_login |= !self.logged_in;
            self.effects.extend((self.answer)(id, &request));
            self.requests.push((id, request));
        }
        self.asked_before_login |= !self.logged_in && !self.out.subscribe.is_empty();
        self.subscriptions.append(&mut self.out.subscribe);
        self.unsubscribed.append(&mut self.out.unsubscribe);
        self.resumed.append(&mut self.out.resume_feed);
        if let Some(close) = self.out.close.take() {
            self.closed.get_or_insert(close);
        }
    }
}

fn welcome(login: &Login) -> Result<Welcome, LoginError> {
    let user = match &login.credentials {
        Credentials::Password { user, .. } | Credentials::Certificate(user) => user.as_str(),
        Credentials::Token(_) => "token",
        Credentials::Anonymous => "anonymous",
    };
    let vhost = login.vhost.as_deref().unwrap_or("/");
    Ok(Welcome { connection: ConnectionId(1), user: Name::new(user)?, vhost: Name::new(vhost)? })
}
