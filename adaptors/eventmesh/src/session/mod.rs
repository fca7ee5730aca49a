//! One TCP connection: HELLO, heartbeats, goodbye, and the way of each package. What a client that is logged in has going is in
//! `conversation`. Never touches a socket or a clock.

mod call;
mod conversation;
mod publish;
mod push;
mod subscribe;

use std::time::Duration;

use framegate_adaptor_api::{
    Credentials, Login, LoginError, Outbound, Progress, Session, SessionContext, SessionError, Subscribed,
    Welcome,
};
use framegate_broker::{BrokerError, ConsumerId, Effect, FeedItem};

use crate::agent::UserAgent;
use crate::command::Command;
use crate::header::{FAIL, Header, SUCCESS, put_answer};
use crate::limits::{DRAIN_TIMEOUT, GOODBYE_TIMEOUT, HELLO_TIMEOUT, IN_PROGRESS_MAX, TICK};
use crate::package::{Cut, Generation, next_package, put_package};
use crate::settings::Settings;
use conversation::Conversation;

/// Where the connection stands.
enum State {
    /// Nobody has said hello.
    AwaitingHello,
    /// A login is under way, for the HELLO_REQUEST with this sequence.
    LoggingIn { seq: String, agent: Box<UserAgent> },
    /// Commands are taken.
    Open(Box<Conversation>),
    /// The client said goodbye, or was told; it is closed when it does not close first.
    Goodbye { since: Option<Duration> },
    /// The server stops: what is in progress is answered first.
    Draining { conversation: Box<Conversation>, since: Option<Duration> },
    /// The close was asked for.
    Closed,
}

pub(crate) struct EventMeshSession {
    state: State,
    context: SessionContext,
    settings: Settings,
    /// How this client counts lengths; known from its first package on.
    generation: Option<Generation>,
    was_heard: bool,
    last_heard: Duration,
    /// Numbers the server's own packages.
    goodbyes: u32,
}

/// Writes the answer to a request.
fn put_reply(out: &mut Outbound, generation: Generation, command: Command, status: (i64, &str), seq: &str) {
    // A status and its words always fit.
    let _ =
        put_package(out.buffer(), generation, |buffer| put_answer(buffer, command, status, seq), |_| false);
    out.end_packet();
}

impl EventMeshSession {
    pub(crate) fn new(context: &SessionContext) -> Self {
        Self {
            state: State::AwaitingHello,
            context: context.clone(),
            // The server has checked them at its start.
            settings: Settings::parse(&context.settings).unwrap_or_default(),
            generation: None,
            was_heard: false,
            last_heard: Duration::ZERO,
            goodbyes: 0,
        }
    }

    fn generation(&self) -> Generation {
        self.generation.unwrap_or(Generation::B)
    }

    fn reply(&self, out: &mut Outbound, command: Command, status: (i64, &str), seq: &str) {
        put_reply(out, self.generation(), command, status, seq);
    }

    /// Tells the client why it is closed, in a package that it need not answer.
    fn say_goodbye(&mut self, out: &mut Outbound, code: i64, reason: &str) {
        self.goodbyes += 1;
        let seq = format!("goodbye-{}", self.goodbyes);
        self.reply(out, Command::ServerGoodbyeRequest, (code, reason), &seq);
    }

    fn package(&mut self, header: &Header<'_>, body: &[u8], out: &mut Outbound) {
        match header.command {
            Command::HeartbeatRequest => self.reply(out, Command::HeartbeatResponse, SUCCESS, &header.seq),
            Command::RecommendRequest => self.recommend(header, body, out),
            Command::HelloRequest => self.hello(header, body, out),
            Command::ClientGoodbyeRequest => self.goodbye(&header.seq, out),
            Command::ServerGoodbyeResponse => {}
            command => match &mut self.state {
                State::Open(conversation) => conversation.package(header, body, out),
                _ => {
                    if let Some(answer) = command.answer() {
                        self.reply(out, answer, (FAIL, "no session is found"), &header.seq);
                    }
                }
            },
        }
    }

    fn hello(&mut self, header: &Header<'_>, body: &[u8], out: &mut Outbound) {
        let agent = match (&self.state, UserAgent::parse(body)) {
            (State::AwaitingHello, Ok(agent)) => agent,
            (State::AwaitingHello, Err(reason)) => {
                self.reply(out, Command::HelloResponse, (FAIL, &reason), &header.seq);
                self.state = State::Closed;
                return out.close(1008, reason);
            }
            _ => {
                let words = (FAIL, "this connection has a session already");
                return self.reply(out, Command::HelloResponse, words, &header.seq);
            }
        };
        out.login = Some(Login { credentials: agent.credentials(), vhost: None });
        self.state = State::LoggingIn { seq: header.seq.to_string(), agent: Box::new(agent) };
    }

    fn recommend(&mut self, header: &Header<'_>, body: &[u8], out: &mut Outbound) {
        let fail = |reason: &str, out: &mut Outbound| {
            self.reply(out, Command::RecommendResponse, (FAIL, reason), &header.seq);
        };
        if let Err(reason) = UserAgent::parse(body) {
            return fail(&reason, out);
        }
        let Some(address) = &self.settings.advertise else {
            return fail("no recommendation: this server stands alone", out);
        };
        let _ = put_package(
            out.buffer(),
            self.generation(),
            |buffer| put_answer(buffer, Command::RecommendResponse, SUCCESS, &header.seq),
            |buffer| {
                crate::text::put_json(buffer, address);
                true
            },
        );
        out.end_packet();
    }

    fn goodbye(&mut self, seq: &str, out: &mut Outbound) {
        if let State::Open(conversation) = &mut self.state {
            conversation.leave(out);
        }
        self.reply(out, Command::ClientGoodbyeResponse, SUCCESS, seq);
        self.state = State::Goodbye { since: None };
    }

    /// The server stops and nothing is in progress any more.
    fn close_when_done(&mut self, out: &mut Outbound) {
        if matches!(&self.state, State::Draining { conversation, .. } if conversation.is_idle()) {
            self.state = State::Closed;
            out.close(1001, "shutdown");
        }
    }

    fn conversation(&mut self) -> Option<&mut Conversation> {
        match &mut self.state {
            State::Open(conversation) | State::Draining { conversation, .. } => Some(conversation),
            _ => None,
        }
    }

    fn is_full(&self) -> bool {
        matches!(&self.state, State::Open(conversation) if conversation.in_progress() >= IN_PROGRESS_MAX)
    }
}

impl Session for EventMeshSession {
    /// Nothing is sent: the client speaks first.
    fn open(&mut self, _out: &mut Outbound) {}

    fn read(&mut self, input: &[u8], out: &mut Outbound) -> Result<Progress, SessionError> {
        self.was_heard = true;
        let mut consumed = 0;
        loop {
            match self.state {
                State::Draining { .. } | State::Closed => {
                    return Ok(Progress { consumed: input.len(), need: 0 });
                }
                State::LoggingIn { .. } => return Ok(Progress { consumed, need: 0 }),
                _ if self.is_full() => return Ok(Progress { consumed, need: 0 }),
                _ => {}
            }
            let rest = input.get(consumed..).unwrap_or_default();
            let (header, body) = match next_package(rest, self.generation) {
                Ok(Cut::Partial { need }) => return Ok(Progress { consumed, need }),
                Ok(Cut::Whole { header, body, generation, consumed: bytes }) => {
                    self.generation = Some(generation);
                    consumed += bytes;
                    (header, body)
                }
                Err(error) => {
                    self.say_goodbye(out, FAIL, &error.to_string());
                    return Err(SessionError::new(error.to_string()));
                }
            };
            // Generation A writes `null` where there is no body.
            let body = if body == b"null" { &[] } else { body };
            match Header::parse(header) {
                Ok(header) => self.package(&header, body, out),
                Err(error) => {
                    self.say_goodbye(out, FAIL, &error.to_string());
                    return Err(SessionError::new(error.to_string()));
                }
            }
        }
    }

    fn logged_in(
        &mut self,
        result: Result<Welcome, LoginError>,
        out: &mut Outbound,
    ) -> Result<(), SessionError> {
        let State::LoggingIn { seq, agent } = std::mem::replace(&mut self.state, State::Closed) else {
            // The server began to stop meanwhile.
            return Ok(());
        };
        match result {
            Ok(_) => {
                self.reply(out, Command::HelloResponse, SUCCESS, &seq);
                let conversation =
                    Conversation::new(*agent, self.generation(), &self.settings, &self.context);
                self.state = State::Open(Box::new(conversation));
                Ok(())
            }
            // Clients always send some name and password; where everybody is let in they do not count.
            Err(LoginError::Refused)
                if self.context.anonymous && agent.credentials() != Credentials::Anonymous =>
            {
                out.login = Some(Login { credentials: Credentials::Anonymous, vhost: None });
                let agent = UserAgent { username: None, token: None, ..*agent };
                self.state = State::LoggingIn { seq, agent: Box::new(agent) };
                Ok(())
            }
            Err(error) => {
                let reason = error.to_string();
                self.reply(out, Command::HelloResponse, (FAIL, &reason), &seq);
                Err(SessionError::new(reason))
            }
        }
    }

    fn effect(&mut self, effect: Effect, out: &mut Outbound) -> Result<(), SessionError> {
        if let Some(conversation) = self.conversation() {
            conversation.effect(effect, out);
        }
        self.close_when_done(out);
        Ok(())
    }

    fn subscribed(
        &mut self,
        consumer: ConsumerId,
        result: Result<Subscribed, BrokerError>,
        out: &mut Outbound,
    ) -> Result<(), SessionError> {
        if let Some(conversation) = self.conversation() {
            conversation.subscribed(consumer, result.map(drop), out);
        }
        Ok(())
    }

    fn feed(
        &mut self,
        consumer: ConsumerId,
        item: &FeedItem,
        out: &mut Outbound,
    ) -> Result<bool, SessionError> {
        Ok(match self.conversation() {
            Some(conversation) => conversation.feed(consumer, item, out),
            None => false,
        })
    }

    fn tick(&mut self, now: Duration, out: &mut Outbound) -> Result<Duration, SessionError> {
        if std::mem::take(&mut self.was_heard) {
            self.last_heard = now;
        }
        match &mut self.state {
            State::AwaitingHello | State::LoggingIn { .. } => {
                if now >= HELLO_TIMEOUT {
                    self.say_goodbye(out, FAIL, "no HELLO_REQUEST came in time");
                    return Err(SessionError::new("no HELLO_REQUEST within 30 s"));
                }
                return Ok(HELLO_TIMEOUT - now);
            }
            State::Goodbye { since } => {
                let since = *since.get_or_insert(now);
                if now.saturating_sub(since) >= GOODBYE_TIMEOUT {
                    self.state = State::Closed;
                    out.close(1000, "goodbye");
                }
                return Ok(TICK);
            }
            State::Draining { since, .. } => {
                let since = *since.get_or_insert(now);
                if now.saturating_sub(since) >= DRAIN_TIMEOUT {
                    return Err(SessionError::new("requests in progress were not answered in time"));
                }
                return Ok(TICK);
            }
            State::Closed => return Ok(Duration::MAX),
            State::Open(conversation) => conversation.tick(now, out),
        }
        let idle = self.settings.idle_close;
        if !idle.is_zero() && now.saturating_sub(self.last_heard) >= idle {
            self.say_goodbye(out, FAIL, "nothing was heard for too long, not even a heartbeat");
            self.state = State::Closed;
            out.close(1000, "idle");
        }
        Ok(TICK)
    }

    fn drain(&mut self, out: &mut Outbound) {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Closed => return,
            State::Open(mut conversation) => {
                self.say_goodbye(out, SUCCESS.0, "graceful normal quit from eventmesh");
                conversation.stop(out);
                self.state = State::Draining { conversation, since: None };
            }
            State::Draining { conversation, since } => self.state = State::Draining { conversation, since },
            State::AwaitingHello | State::LoggingIn { .. } | State::Goodbye { .. } => {
                self.say_goodbye(out, SUCCESS.0, "graceful normal quit from eventmesh");
                out.close(1001, "shutdown");
            }
        }
        self.close_when_done(out);
    }
}
