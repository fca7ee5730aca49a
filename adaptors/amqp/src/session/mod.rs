//! One AMQP connection, without I/O: the handshake, methods of the connection, heartbeats, the end. What goes on in channels is
//! the conversation's.
//!
//! ```text
//! Header -> AwaitingStartOk -> LoggingIn -> AwaitingTuneOk -> AwaitingOpen -> Opening -> Open -> Closing -> Closed
//!                                  |-> Refusing -> Closing
//! ```
//!
//! Credentials come before the vhost, so there are two logins: the first checks the credentials, the second enters the vhost.

mod ack_timeout;
mod channel;
mod consume;
mod content;
mod conversation;
mod exchange;
mod handshake;
mod heartbeat;
mod link;
mod pending;
mod queue;
mod settle;
mod stream;
mod stream_filter;
mod tx;

use std::time::Duration;

use framegate_adaptor_api::{
    Credentials, Login, LoginError, Outbound, Progress, Session, SessionContext, SessionError, Subscribed,
    Welcome,
};
use framegate_broker::{BrokerError, ConsumerId, Effect, FeedItem};
use framegate_frame::Limits;

use self::conversation::{Conversation, Taken};
use self::heartbeat::{Beat, Heartbeat};
use self::link::Link;
use crate::codec::{
    CutFrame, FrameType, HEARTBEAT, Method, MethodId, PROTOCOL_HEADER, Short, next_frame, put_method,
};
use crate::failure::{Code, Failure};
use crate::limits::{ACK_LOOK, CLOSE_TIMEOUT, FRAME_BYTES_MAX_AT_FIRST, HANDSHAKE_TIMEOUT};
use crate::settings::Settings;

/// How long a connection without heartbeats waits for its next tick.
const TICK_MAX: Duration = Duration::from_secs(60);
/// Version 0-9, which is answered as 0-9-1.
const OLDER_HEADER: [u8; 8] = *b"AMQP\x01\x01\x00\x09";
/// `connection.open`: what failures to enter a vhost name.
const OPEN: MethodId = MethodId::new(10, 40);

/// Where the connection stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Header,
    AwaitingStartOk,
    /// The first login is under way, by this mechanism.
    LoggingIn(Credentials, Box<str>),
    /// A refused login waits for its answer; the first tick sets the time.
    Refusing {
        mechanism: Box<str>,
        until: Option<Duration>,
    },
    AwaitingTuneOk,
    AwaitingOpen,
    /// The second login is under way.
    Opening,
    Open,
    /// Our close is out; the first tick sets the time that is waited for an answer.
    Closing {
        until: Option<Duration>,
    },
    Closed,
}

impl State {
    /// RabbitMQ's word for it.
    fn word(&self) -> &'static str {
        match self {
            Self::Header => "pre_init",
            Self::AwaitingStartOk | Self::LoggingIn(..) | Self::Refusing { .. } => "starting",
            Self::AwaitingTuneOk => "tuning",
            Self::AwaitingOpen | Self::Opening => "opening",
            Self::Open => "running",
            Self::Closing { .. } => "closing",
            Self::Closed => "closed",
        }
    }
}

/// See the top of the file.
pub(crate) struct AmqpSession {
    state: State,
    settings: Settings,
    heartbeat: Heartbeat,
    heartbeat_s: u16,
    conversation: Conversation,
    credentials: Option<Credentials>,
    blocked: bool,
    blocked_is_told: bool,
    now: Duration,
    next_ack_look: Duration,
}

impl AmqpSession {
    pub(crate) fn new(context: &SessionContext) -> Self {
        let limits = Limits::gateway(context.message_bytes_max.min(Limits::GATEWAY.data_bytes_max));
        Self {
            state: State::Header,
            // The server has checked them at its start.
            settings: Settings::parse(&context.settings).unwrap_or_default(),
            heartbeat: Heartbeat::default(),
            heartbeat_s: 0,
            conversation: Conversation::new(Link::new(context.headers.clone(), limits)),
            credentials: None,
            blocked: false,
            blocked_is_told: false,
            now: Duration::ZERO,
            next_ack_look: Duration::ZERO,
        }
    }

    fn frame_max(&self) -> usize {
        match self.conversation.link.frame_max {
            0 => FRAME_BYTES_MAX_AT_FIRST,
            negotiated => negotiated,
        }
    }

    /// The protocol header. How many bytes of it are consumed; None: more must come.
    fn header(&mut self, input: &[u8], out: &mut Outbound) -> Result<Option<usize>, SessionError> {
        let known = |header: &[u8; 8]| header.starts_with(input.get(..8).unwrap_or(input));
        let is_known = known(&PROTOCOL_HEADER) || known(&OLDER_HEADER);
        if is_known && input.len() < PROTOCOL_HEADER.len() {
            return Ok(None);
        }
        if !is_known {
            out.put(&PROTOCOL_HEADER);
            return Err(SessionError::new("the protocol header is not AMQP 0-9-1"));
        }
        handshake::put_start(out);
        self.state = State::AwaitingStartOk;
        Ok(Some(PROTOCOL_HEADER.len()))
    }

    fn frame(
        &mut self,
        kind: FrameType,
        channel: u16,
        payload: &[u8],
        out: &mut Outbound,
    ) -> Result<Taken, Failure> {
        if kind == FrameType::Heartbeat {
            return match channel {
                0 => Ok(Taken::Yes),
                _ => Err(Failure::unexpected(MethodId::NONE, "type 8, all octets = <<>>")),
            };
        }
        if channel != 0 && self.state == State::Open {
            return self.conversation.frame(kind, channel, payload, out);
        }
        if kind != FrameType::Method {
            let text = "expected method frame, got non method frame instead";
            return Err(Failure::unexpected(MethodId::NONE, text));
        }
        let id = MethodId::of(payload);
        let method = Method::decode(payload).map_err(|error| Failure::of_payload(error, id))?;
        self.connection_method(channel, &method, out).map(|()| Taken::Yes)
    }

    fn connection_method(
        &mut self,
        channel: u16,
        method: &Method<'_>,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        match (&self.state, *method) {
            (_, Method::ConnectionClose { .. }) if channel == 0 => {
                put_method(out.buffer(), 0, &Method::ConnectionCloseOk {});
                self.close(out);
            }
            (
                State::AwaitingStartOk,
                Method::ConnectionStartOk { client_properties, mechanism, response, .. },
            ) if channel == 0 => {
                self.conversation.link.capabilities = handshake::capabilities(&client_properties);
                let word: Box<str> = String::from_utf8_lossy(mechanism.0).into();
                match handshake::credentials(mechanism.0, response.0) {
                    Ok(credentials) => {
                        out.login = Some(Login { credentials: credentials.clone(), vhost: None });
                        self.state = State::LoggingIn(credentials, word);
                    }
                    // no guess at a password: it is answered at once, to those who can hear it
                    Err(failure) => {
                        if !self.conversation.link.capabilities.authentication_failure_close {
                            self.state = State::Closed;
                        }
                        return Err(failure);
                    }
                }
            }
            (State::AwaitingTuneOk, Method::ConnectionTuneOk { channel_max, frame_max, heartbeat })
                if channel == 0 =>
            {
                handshake::check_tune(&self.settings, channel_max, frame_max)?;
                self.conversation.link.channel_max = channel_max;
                self.conversation.link.frame_max = frame_max as usize;
                self.heartbeat_s = heartbeat;
                self.state = State::AwaitingOpen;
            }
            (State::AwaitingOpen, Method::ConnectionOpen { vhost, .. }) if channel == 0 => {
                let vhost = String::from_utf8_lossy(vhost.0).into_owned();
                let credentials = self.credentials.take().unwrap_or(Credentials::Anonymous);
                out.login = Some(Login { credentials, vhost: Some(vhost) });
                self.state = State::Opening;
            }
            (State::Open, Method::ConnectionUpdateSecret { .. }) if channel == 0 => {
                put_method(out.buffer(), 0, &Method::ConnectionUpdateSecretOk {});
            }
            (state, method) => {
                let text = format!("unexpected method in connection state {}", state.word());
                return Err(Failure::new(Code::ChannelError, method.id(), text));
            }
        }
        Ok(())
    }

    /// While our close is out nothing but its answer, or a close of the client's, means anything.
    fn closing(&mut self, kind: FrameType, channel: u16, payload: &[u8], out: &mut Outbound) {
        if kind != FrameType::Method || channel != 0 {
            return;
        }
        match Method::decode(payload) {
            Ok(Method::ConnectionCloseOk {}) => self.close(out),
            Ok(Method::ConnectionClose { .. }) => {
                put_method(out.buffer(), 0, &Method::ConnectionCloseOk {});
                self.close(out);
            }
            _ => {}
        }
    }

    fn close(&mut self, out: &mut Outbound) {
        self.state = State::Closed;
        out.close(1000, "");
    }

    /// Closes for a reason: no channel says anything any more.
    fn fail(&mut self, failure: &Failure, out: &mut Outbound) {
        let close = Method::ConnectionClose {
            code: failure.code.number(),
            text: Short::text(&failure.text),
            class: failure.method.class,
            method: failure.method.method,
        };
        put_method(out.buffer(), 0, &close);
        if self.state == State::Open {
            self.conversation.abandon(out);
        }
        self.state = State::Closing { until: None };
    }

    /// A refused login is answered now.
    fn refuse(&mut self, mechanism: &str, out: &mut Outbound) -> Result<(), SessionError> {
        let text = format!(
            "Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
        );
        if !self.conversation.link.capabilities.authentication_failure_close {
            self.state = State::Closed;
            return Err(SessionError::new(text));
        }
        self.fail(&Failure::new(Code::AccessRefused, MethodId::NONE, text), out);
        Ok(())
    }

    fn tell_blocked(&mut self, out: &mut Outbound) {
        let link = &self.conversation.link;
        let tells = link.capabilities.connection_blocked && self.state == State::Open;
        let should = self.blocked && link.has_published;
        if tells && should != self.blocked_is_told {
            self.blocked_is_told = should;
            let method = match should {
                true => Method::ConnectionBlocked { reason: Short(b"low on disk or memory") },
                false => Method::ConnectionUnblocked {},
            };
            put_method(out.buffer(), 0, &method);
        }
    }

    /// What a call has made is complete.
    fn end_call(&mut self, out: &mut Outbound) {
        self.conversation.link.flush(out);
        if !out.is_empty() {
            self.heartbeat.sent();
        }
    }

    fn read_on(&mut self, input: &[u8], out: &mut Outbound) -> Result<Progress, SessionError> {
        let mut consumed = 0;
        loop {
            let rest = input.get(consumed..).unwrap_or_default();
            match self.state {
                State::Header => match self.header(rest, out)? {
                    Some(bytes) => consumed += bytes,
                    None => return Ok(Progress { consumed, need: 0 }),
                },
                State::LoggingIn(..) | State::Refusing { .. } | State::Opening => {
                    return Ok(Progress { consumed, need: 0 });
                }
                State::Closed => return Ok(Progress { consumed: input.len(), need: 0 }),
                _ if self.conversation.is_held() => return Ok(Progress { consumed, need: 0 }),
                _ => {}
            }
            let rest = input.get(consumed..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(Progress { consumed, need: 0 });
            }
            let (kind, channel, payload, bytes) = match next_frame(rest, self.frame_max()) {
                CutFrame::Whole { kind, channel, payload, bytes } => (kind, channel, payload, bytes),
                CutFrame::Partial { need } => return Ok(Progress { consumed, need }),
                CutFrame::Bad(fault) => {
                    let failure = Failure::of_frame(fault);
                    if !matches!(self.state, State::Closing { .. }) {
                        self.fail(&failure, out);
                    }
                    self.end_call(out);
                    return Err(SessionError::new(failure.text));
                }
            };
            if matches!(self.state, State::Closing { .. }) {
                self.closing(kind, channel, payload, out);
                consumed += bytes;
                continue;
            }
            match self.frame(kind, channel, payload, out) {
                Ok(Taken::Yes) => {
                    consumed += bytes;
                }
                Ok(Taken::Later) => return Ok(Progress { consumed, need: 0 }),
                Err(failure) => {
                    consumed += bytes;
                    if self.state == State::Closed {
                        return Err(SessionError::new(failure.text));
                    }
                    self.fail(&failure, out);
                }
            }
        }
    }
}

impl Session for AmqpSession {
    fn open(&mut self, _out: &mut Outbound) {}

    fn read(&mut self, input: &[u8], out: &mut Outbound) -> Result<Progress, SessionError> {
        self.heartbeat.heard();
        let progress = self.read_on(input, out);
        if self.blocked {
            self.tell_blocked(out);
        }
        self.end_call(out);
        progress
    }

    fn logged_in(
        &mut self,
        result: Result<Welcome, LoginError>,
        out: &mut Outbound,
    ) -> Result<(), SessionError> {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::LoggingIn(credentials, mechanism) => match result {
                // Not let into the default vhost is no matter: it may want another one.
                Ok(_) | Err(LoginError::Broker(_)) => {
                    self.credentials = Some(credentials);
                    handshake::put_tune(&self.settings, out);
                    self.state = State::AwaitingTuneOk;
                }
                Err(_) => self.state = State::Refusing { mechanism, until: None },
            },
            State::Opening => match result {
                Ok(welcome) => {
                    self.conversation.link.user = welcome.user;
                    self.conversation.link.vhost = welcome.vhost;
                    self.heartbeat.set(self.heartbeat_s, self.now);
                    self.state = State::Open;
                    put_method(out.buffer(), 0, &Method::ConnectionOpenOk { reserved_1: Short(&[]) });
                }
                Err(error) => {
                    self.state = State::Opening;
                    let failure = match error {
                        LoginError::Broker(error) => self.conversation.link.failure(error, OPEN),
                        error => Failure::new(Code::NotAllowed, OPEN, error.to_string()),
                    };
                    self.fail(&failure, out);
                }
            },
            // It was told to drain meanwhile.
            state => self.state = state,
        }
        self.end_call(out);
        Ok(())
    }

    fn effect(&mut self, effect: Effect, out: &mut Outbound) -> Result<(), SessionError> {
        if let Effect::Blocked(blocked) = effect {
            self.blocked = blocked;
            self.tell_blocked(out);
        } else if self.state == State::Open
            && let Err(failure) = self.conversation.effect(effect, out)
        {
            self.fail(&failure, out);
        }
        self.end_call(out);
        Ok(())
    }

    fn subscribed(
        &mut self,
        consumer: ConsumerId,
        result: Result<Subscribed, BrokerError>,
        out: &mut Outbound,
    ) -> Result<(), SessionError> {
        if self.state == State::Open {
            self.conversation.subscribed(consumer, result, out);
        }
        self.end_call(out);
        Ok(())
    }

    fn feed(
        &mut self,
        consumer: ConsumerId,
        item: &FeedItem,
        out: &mut Outbound,
    ) -> Result<bool, SessionError> {
        let has_room = self.state == State::Open && self.conversation.item(consumer, item, out);
        self.end_call(out);
        Ok(has_room)
    }

    fn unread(&mut self) {
        self.heartbeat.heard();
    }

    fn tick(&mut self, now: Duration, out: &mut Outbound) -> Result<Duration, SessionError> {
        self.now = now;
        // Heartbeats of a client that is held lie unread: its silence is ours.
        if self.blocked || self.conversation.is_held() {
            self.heartbeat.heard();
        }
        let wait = match &mut self.state {
            State::Refusing { mechanism, until } => {
                let until = *until.get_or_insert(now + self.settings.login_refusal_delay);
                if now < until {
                    return Ok(until - now);
                }
                let mechanism = mechanism.clone();
                self.refuse(&mechanism, out)?;
                CLOSE_TIMEOUT
            }
            State::Closing { until } => {
                let until = *until.get_or_insert(now + CLOSE_TIMEOUT);
                if now >= until {
                    self.close(out);
                }
                until.saturating_sub(now)
            }
            State::Open => match self.heartbeat.tick(now) {
                Beat::PeerIsGone => return Err(SessionError::new("missed heartbeats from client")),
                beat => {
                    if beat == Beat::Send {
                        out.put(&HEARTBEAT);
                    }
                    let timeout = self.settings.ack_timeout;
                    if now >= self.next_ack_look {
                        self.next_ack_look = now + ACK_LOOK;
                        self.conversation.check_acks(now, timeout, out);
                        self.conversation.link.flush(out);
                    }
                    self.heartbeat.wait(now).unwrap_or(TICK_MAX).min(ACK_LOOK)
                }
            },
            State::Closed => TICK_MAX,
            _ => {
                if now >= HANDSHAKE_TIMEOUT {
                    return Err(SessionError::new("the handshake took more than 10 s"));
                }
                HANDSHAKE_TIMEOUT - now
            }
        };
        Ok(wait)
    }

    fn drain(&mut self, out: &mut Outbound) {
        match self.state {
            State::Open => self.fail(&Failure::forced(), out),
            State::Closing { .. } | State::Closed => {}
            _ => self.close(out),
        }
        self.end_call(out);
    }

    fn unfinished_bytes(&self) -> usize {
        self.conversation.link.unfinished
    }
}
