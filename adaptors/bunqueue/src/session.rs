//! A connection's protocol state: packets in, the login, the end. What goes on after the login is the conversation's. No I/O.
//!
//! ```text
//! Waiting --any command where anonymous clients are let in, or Auth--> LoggingIn --ok--> Open --drain--> Draining
//!    ^------------------------------ refused --------------------------|
//! ```

use std::time::Duration;

use framegate_adaptor_api::{
    Credentials, Login, LoginError, Outbound, Progress, Secret, Session, SessionContext, SessionError,
    Welcome,
};
use framegate_broker::Effect;
use subtle::ConstantTimeEq as _;

use crate::codec::{Cut, Item, Whole, next_packet, whole};
use crate::commands::{Command, Fields, Op, command};
use crate::conversation::Conversation;
use crate::limits::{
    AUTH_FAILURES_MAX, AUTH_TIMEOUT, CREDENTIAL_BYTES_MAX, DRAIN_TIMEOUT, PAYLOAD_BYTES_MAX, REQ_ID_BYTES_MAX,
};
use crate::reply::{ReqId, put_done, put_error};

/// How long a quiet connection waits for its next tick.
const TICK_MAX: Duration = Duration::from_secs(60);

/// Where the connection stands.
#[derive(Debug)]
enum State {
    /// Nobody is logged in.
    Waiting,
    /// A login is under way.
    LoggingIn(Attempt),
    /// Commands are taken.
    Open,
    /// No command is taken any more; those in progress are answered, then the connection closes.
    Draining {
        /// First tick that saw it.
        since: Option<Duration>,
    },
    /// The close was asked for.
    Closed,
}

/// Whose login it is.
#[derive(Debug)]
enum Attempt {
    /// Of the command that is read next.
    Anonymous,
    /// Of an Auth.
    Token(ReqId, Secret),
    /// Of an Auth whose token is unknown, where clients without one are let in.
    Needless(ReqId),
}

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// It is done with.
    Yes,
    /// It comes again: after a login, or when there is room for a command.
    Later,
}

pub(crate) struct BunqueueSession {
    state: State,
    /// Clients without credentials are let in.
    anonymous: bool,
    /// The token that let this client in.
    token: Option<Secret>,
    auth_failures: u32,
    conversation: Conversation,
}

impl BunqueueSession {
    pub(crate) fn new(context: &SessionContext) -> Self {
        Self {
            state: State::Waiting,
            anonymous: context.anonymous,
            token: None,
            auth_failures: 0,
            conversation: Conversation::default(),
        }
    }

    fn packet(&mut self, payload: &[u8], out: &mut Outbound) -> Taken {
        let map = match whole(payload) {
            Some(Whole { raw, rest: [] }) => match raw.item() {
                Item::Map(map) => Some(map),
                _ => None,
            },
            // a value that cannot begin is no value, one that does not end is no packet
            None if payload == [0xC1] => None,
            _ => {
                put_error(&ReqId::default(), "Invalid command format", out);
                return Taken::Yes;
            }
        };
        let fields = map.map(Fields::of).unwrap_or_default();
        let req_id = fields.raw("reqId").filter(|raw| raw.bytes().len() <= REQ_ID_BYTES_MAX);
        let req_id = ReqId::of(req_id);
        match fields.text("cmd").filter(|name| !name.is_empty()) {
            Some(name) => self.command(name, req_id, &fields, out),
            None => {
                put_error(&req_id, "Invalid command", out);
                Taken::Yes
            }
        }
    }

    fn command(&mut self, name: &str, req_id: ReqId, fields: &Fields<'_>, out: &mut Outbound) -> Taken {
        let command = command(name);
        if matches!(command, Some(Command { op: Op::Auth, .. })) {
            self.auth(req_id, fields, out);
            return Taken::Yes;
        }
        if matches!(self.state, State::Waiting) {
            if self.anonymous {
                self.log_in(Credentials::Anonymous, Attempt::Anonymous, out);
                return Taken::Later;
            }
            put_error(&req_id, "Not authenticated", out);
            return Taken::Yes;
        }
        let Some(command) = command else {
            put_error(&req_id, &format!("Unknown command: {name}"), out);
            return Taken::Yes;
        };
        if !self.conversation.has_room() {
            return Taken::Later;
        }
        self.conversation.start(command.op, &req_id, fields, out);
        Taken::Yes
    }

    fn auth(&mut self, req_id: ReqId, fields: &Fields<'_>, out: &mut Outbound) {
        let token =
            fields.text("token").filter(|token| token.len() <= CREDENTIAL_BYTES_MAX).unwrap_or_default();
        let secret = Secret(token.to_owned());
        if matches!(self.state, State::Waiting) && !token.is_empty() {
            let credentials = Credentials::Token(secret.clone());
            return self.log_in(credentials, Attempt::Token(req_id, secret), out);
        }
        // Who was let in without a token has all rights, so that none that it may show changes anything.
        let is_in = match &self.token {
            Some(own) => own.0.as_bytes().ct_eq(token.as_bytes()).into(),
            None => matches!(self.state, State::Open),
        };
        match is_in {
            true => put_done(&req_id, out),
            false => put_error(&req_id, "Invalid token", out),
        }
    }

    fn log_in(&mut self, credentials: Credentials, attempt: Attempt, out: &mut Outbound) {
        out.login = Some(Login { credentials, vhost: None });
        self.state = State::LoggingIn(attempt);
    }

    fn close_when_done(&mut self, out: &mut Outbound) {
        if matches!(self.state, State::Draining { .. }) && self.conversation.is_idle() {
            out.close(1001, "stopping");
            self.state = State::Closed;
        }
    }
}

impl Session for BunqueueSession {
    /// Nothing is sent. An anonymous client is logged in with its first command, so that one that begins with Auth is logged in
    /// once.
    fn open(&mut self, _out: &mut Outbound) {}

    fn read(&mut self, input: &[u8], out: &mut Outbound) -> Result<Progress, SessionError> {
        let mut consumed = 0;
        loop {
            match self.state {
                State::Draining { .. } | State::Closed => {
                    return Ok(Progress { consumed: input.len(), need: 0 });
                }
                State::LoggingIn(_) => return Ok(Progress { consumed, need: 0 }),
                State::Waiting | State::Open => {}
            }
            match next_packet(input.get(consumed..).unwrap_or_default()) {
                Cut::Whole { payload, bytes } => {
                    if self.packet(payload, out) == Taken::Later {
                        return Ok(Progress { consumed, need: 0 });
                    }
                    consumed += bytes;
                }
                Cut::Partial { need } => return Ok(Progress { consumed, need }),
                Cut::TooLong { bytes } => {
                    let error = format!("Frame too large: {bytes} bytes exceeds maximum {PAYLOAD_BYTES_MAX}");
                    put_error(&ReqId::default(), &error, out);
                    return Err(SessionError::new(format!("packet of {bytes} bytes")));
                }
            }
        }
    }

    fn logged_in(
        &mut self,
        result: Result<Welcome, LoginError>,
        out: &mut Outbound,
    ) -> Result<(), SessionError> {
        let attempt = match std::mem::replace(&mut self.state, State::Waiting) {
            State::LoggingIn(attempt) => attempt,
            // The connection was told to drain meanwhile.
            other => {
                self.state = other;
                return Ok(());
            }
        };
        match (result, attempt) {
            (Ok(_), attempt) => {
                self.state = State::Open;
                match attempt {
                    Attempt::Anonymous => {}
                    Attempt::Needless(req_id) => put_done(&req_id, out),
                    Attempt::Token(req_id, secret) => {
                        self.token = Some(secret);
                        put_done(&req_id, out);
                    }
                }
            }
            (Err(LoginError::Refused), Attempt::Token(req_id, _)) if self.anonymous => {
                self.log_in(Credentials::Anonymous, Attempt::Needless(req_id), out);
            }
            (Err(error), attempt) => {
                let text = match &error {
                    LoginError::Broker(error) => error.to_string(),
                    _ => "Invalid token".to_owned(),
                };
                match attempt {
                    Attempt::Token(req_id, _) | Attempt::Needless(req_id) => put_error(&req_id, &text, out),
                    // The command that waits is answered when it comes again.
                    Attempt::Anonymous => self.anonymous = false,
                }
                self.auth_failures += 1;
                if self.auth_failures >= AUTH_FAILURES_MAX {
                    return Err(SessionError::new(format!("{} logins were refused", self.auth_failures)));
                }
            }
        }
        Ok(())
    }

    fn effect(&mut self, effect: Effect, out: &mut Outbound) -> Result<(), SessionError> {
        self.conversation.effect(effect, out);
        self.close_when_done(out);
        Ok(())
    }

    fn tick(&mut self, now: Duration, _out: &mut Outbound) -> Result<Duration, SessionError> {
        match &mut self.state {
            State::Waiting | State::LoggingIn(_) if !self.anonymous => {
                if now >= AUTH_TIMEOUT {
                    return Err(SessionError::new("no Auth in time"));
                }
                Ok(AUTH_TIMEOUT - now)
            }
            State::Draining { since } => {
                let since = *since.get_or_insert(now);
                if now.saturating_sub(since) >= DRAIN_TIMEOUT {
                    return Err(SessionError::new("commands in progress were not answered in time"));
                }
                Ok(DRAIN_TIMEOUT)
            }
            State::Waiting | State::LoggingIn(_) | State::Open | State::Closed => Ok(TICK_MAX),
        }
    }

    fn drain(&mut self, out: &mut Outbound) {
        if matches!(self.state, State::Closed | State::Draining { .. }) {
            return;
        }
        self.state = State::Draining { since: None };
        self.close_when_done(out);
    }
}
