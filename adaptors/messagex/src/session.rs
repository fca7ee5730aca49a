//! A connection's protocol state: packets in, login, the end. What goes on after the login is the conversation's. No I/O.
//!
//! ```text
//! AwaitingAuth --AUTH, or any command where anonymous clients are let in--> LoggingIn --ok--> Open --DISCONNECT, drain--> Draining
//!      ^------------------------------- refused (three times: close) -----------|
//! ```

use std::sync::Arc;
use std::time::Duration;

use framegate_adaptor_api::{
    Credentials, Login, LoginError, Outbound, Packet as Cut, Progress, Session, SessionContext, SessionError,
    Welcome,
};
use framegate_broker::Effect;
use uuid::Uuid;

use crate::codec::{next_packet, put_event, put_failure, put_success};
use crate::commands::{Call, Op, login_of, put_pong, put_welcome};
use crate::conversation::Conversation;
use crate::envelope::{self, Envelope};
use crate::errors::{Code, Failure};
use crate::json::Object;
use crate::limits::{AUTH_FAILURES_MAX, AUTH_TIMEOUT, BAD_JSON_MAX, COMMANDS_IN_PROGRESS_MAX, DRAIN_TIMEOUT};
use crate::schema::Payload;
use crate::settings::Settings;

/// How long a quiet connection waits for its next tick.
const TICK_MAX: Duration = Duration::from_secs(60);

/// Where the connection stands.
#[derive(Debug)]
enum State {
    /// Nobody is logged in.
    AwaitingAuth,
    /// A login is under way: AUTH with its request id, or an anonymous one for the command that is read next.
    LoggingIn(Option<Arc<str>>),
    /// Commands are taken.
    Open,
    /// No command is taken any more; those in progress are answered, then `goodbye`, then the connection closes.
    Draining {
        /// Request id of the DISCONNECT.
        goodbye: Option<Arc<str>>,
        /// First tick that saw it.
        since: Option<Duration>,
    },
    /// The close was asked for.
    Closed,
}

/// What became of a packet.
enum Taken {
    /// It is done with.
    Yes,
    /// It comes again after a login.
    AfterLogin,
}

pub(crate) struct MessagexSession {
    state: State,
    /// Clients without credentials are let in.
    anonymous: bool,
    settings: Settings,
    conversation: Conversation,
    /// Payloads that were no JSON, in a row.
    bad_json: u32,
    auth_failures: u32,
    /// `returnEvents` of the AUTH under way.
    wants_events: bool,
    /// Something came since the last tick.
    was_heard: bool,
    last_heard: Duration,
}

impl MessagexSession {
    pub(crate) fn new(context: &SessionContext) -> Self {
        Self {
            state: State::AwaitingAuth,
            anonymous: context.anonymous,
            // The server has checked them at its start.
            settings: Settings::parse(&context.settings).unwrap_or_default(),
            conversation: Conversation::new(context.headers.clone(), Uuid::new_v4().as_u64_pair().0),
            bad_json: 0,
            auth_failures: 0,
            wants_events: false,
            was_heard: false,
            last_heard: Duration::ZERO,
        }
    }

    fn packet(&mut self, payload: &[u8], out: &mut Outbound) -> Result<Taken, SessionError> {
        let envelope = match envelope::parse(payload) {
            Ok(envelope) => envelope,
            Err(refusal) => {
                put_failure(refusal.request_id.as_deref(), &refusal.failure, out);
                return self.count_bad_json(refusal.failure.code);
            }
        };
        self.bad_json = 0;
        let request_id = &*envelope.request_id;
        if self.conversation.in_progress.contains(request_id) {
            let message = format!("Request '{request_id}' is in progress");
            put_failure(Some(request_id), &Failure::new(Code::DuplicateRequest, message), out);
            return Ok(Taken::Yes);
        }
        if self.needs_login(&envelope, out) {
            return Ok(Taken::AfterLogin);
        }
        if let Err(failure) = self.command(&envelope, out) {
            put_failure(Some(request_id), &failure, out);
        }
        Ok(Taken::Yes)
    }

    fn count_bad_json(&mut self, code: Code) -> Result<Taken, SessionError> {
        if code != Code::InvalidJson {
            self.bad_json = 0;
            return Ok(Taken::Yes);
        }
        self.bad_json += 1;
        if self.bad_json > BAD_JSON_MAX {
            return Err(SessionError::new(format!("{} payloads in a row were no JSON", self.bad_json)));
        }
        Ok(Taken::Yes)
    }

    /// The first command of a client that may be anonymous, and did not begin with AUTH, logs it in.
    fn needs_login(&mut self, envelope: &Envelope<'_>, out: &mut Outbound) -> bool {
        let is_own = matches!(envelope.command.op, Op::Auth | Op::Ping | Op::Disconnect);
        if is_own || !self.anonymous || !matches!(self.state, State::AwaitingAuth) {
            return false;
        }
        out.login = Some(Login { credentials: Credentials::Anonymous, vhost: None });
        self.state = State::LoggingIn(None);
        true
    }

    fn command(&mut self, envelope: &Envelope<'_>, out: &mut Outbound) -> Result<(), Failure> {
        let request_id = &*envelope.request_id;
        let op = envelope.command.op;
        if matches!(self.state, State::AwaitingAuth) && !matches!(op, Op::Auth | Op::Ping | Op::Disconnect) {
            return Err(Failure::new(Code::Unauthorized, "AUTH must come first"));
        }
        let payload = Payload::parse(envelope.command.fields, envelope.payload)?;
        match op {
            Op::Ping => put_success(request_id, out, put_pong),
            Op::Auth => self.auth(request_id, &payload, out)?,
            Op::Disconnect => {
                self.state = State::Draining { goodbye: Some(Arc::from(request_id)), since: None };
                self.close_when_done(out);
            }
            _ => self.conversation.start(op, &mut Call { request_id, payload: &payload, out })?,
        }
        Ok(())
    }

    fn auth(&mut self, request_id: &str, payload: &Payload<'_>, out: &mut Outbound) -> Result<(), Failure> {
        if !matches!(self.state, State::AwaitingAuth) {
            return Err(Failure::new(Code::PreconditionFailed, "This connection is logged in already"));
        }
        let login = login_of(payload, self.anonymous)?;
        self.wants_events = payload.flag(crate::schema::Key::ReturnEvents);
        self.state = State::LoggingIn(Some(Arc::from(request_id)));
        out.login = Some(login);
        Ok(())
    }

    fn close_when_done(&mut self, out: &mut Outbound) {
        if !self.conversation.in_progress.is_empty() {
            return;
        }
        if let State::Draining { goodbye, .. } = &self.state {
            if let Some(request_id) = goodbye {
                put_success(request_id, out, |buffer| buffer.extend_from_slice(b"{}"));
            }
            out.close(1000, "");
            self.state = State::Closed;
        }
    }

    fn is_idle(&self, now: Duration) -> bool {
        let idle = self.settings.idle_close;
        !idle.is_zero()
            && self.conversation.consumers.is_empty()
            && now.saturating_sub(self.last_heard) >= idle
    }
}

impl Session for MessagexSession {
    /// Nothing is sent. An anonymous client is logged in with its first command, so that one that begins with AUTH is logged in
    /// once.
    fn open(&mut self, _out: &mut Outbound) {}

    fn read(&mut self, input: &[u8], out: &mut Outbound) -> Result<Progress, SessionError> {
        self.was_heard = true;
        let mut consumed = 0;
        loop {
            match self.state {
                State::Draining { .. } | State::Closed => {
                    return Ok(Progress { consumed: input.len(), need: 0 });
                }
                State::LoggingIn(_) => return Ok(Progress { consumed, need: 0 }),
                State::AwaitingAuth | State::Open => {}
            }
            if self.conversation.in_progress.len() >= COMMANDS_IN_PROGRESS_MAX {
                return Ok(Progress { consumed, need: 0 });
            }
            match next_packet(input.get(consumed..).unwrap_or_default()) {
                Ok(Cut::Whole { payload, consumed: bytes }) => match self.packet(payload, out)? {
                    Taken::Yes => consumed += bytes,
                    Taken::AfterLogin => {}
                },
                Ok(Cut::Partial { need }) => return Ok(Progress { consumed, need }),
                Err(failure) => {
                    put_failure(None, &failure, out);
                    return Err(SessionError::new(failure.to_string()));
                }
            }
        }
    }

    fn logged_in(
        &mut self,
        result: Result<Welcome, LoginError>,
        out: &mut Outbound,
    ) -> Result<(), SessionError> {
        let request_id = match &mut self.state {
            State::LoggingIn(request_id) => request_id.take(),
            // The connection was told to drain meanwhile.
            _ => return Ok(()),
        };
        match result {
            Ok(welcome) => {
                self.state = State::Open;
                self.conversation.user = welcome.user.clone();
                self.conversation.return_events = self.wants_events;
                if let Some(request_id) = request_id {
                    put_success(&request_id, out, |buffer| put_welcome(buffer, &welcome));
                }
            }
            Err(error) => {
                self.state = State::AwaitingAuth;
                self.auth_failures += 1;
                let failure = Failure::from(error);
                match request_id {
                    Some(request_id) => put_failure(Some(&request_id), &failure, out),
                    // The command that waits is answered UNAUTHORIZED when it comes again.
                    None => self.anonymous = false,
                }
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

    fn tick(&mut self, now: Duration, out: &mut Outbound) -> Result<Duration, SessionError> {
        if std::mem::take(&mut self.was_heard) {
            self.last_heard = now;
        }
        match &mut self.state {
            State::AwaitingAuth | State::LoggingIn(_) if !self.anonymous => {
                if now >= AUTH_TIMEOUT {
                    let failure = Failure::new(Code::Unauthorized, "AUTH did not come in time");
                    put_failure(None, &failure, out);
                    return Err(SessionError::new("no AUTH within 10 s"));
                }
                return Ok(AUTH_TIMEOUT - now);
            }
            State::Draining { since, .. } => {
                let since = *since.get_or_insert(now);
                if now.saturating_sub(since) >= DRAIN_TIMEOUT {
                    return Err(SessionError::new("commands in progress were not answered in time"));
                }
                return Ok(DRAIN_TIMEOUT);
            }
            State::AwaitingAuth | State::LoggingIn(_) | State::Open | State::Closed => {}
        }
        if self.is_idle(now) {
            out.close(1000, "idle");
            self.state = State::Closed;
        }
        Ok(if self.settings.idle_close.is_zero() { TICK_MAX } else { TICK_MAX.min(self.settings.idle_close) })
    }

    fn drain(&mut self, out: &mut Outbound) {
        if matches!(self.state, State::Closed) {
            return;
        }
        put_event("SERVER_SHUTDOWN", out, |buffer| {
            let mut object = Object::begin(buffer);
            object.text("reason", "SHUTDOWN");
            object.end();
        });
        if !matches!(self.state, State::Draining { .. }) {
            self.state = State::Draining { goodbye: None, since: None };
        }
        self.close_when_done(out);
    }
}
