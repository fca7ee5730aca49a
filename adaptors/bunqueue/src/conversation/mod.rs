//! What a client that is logged in and the broker have going. Starts commands and turns the broker's effects into replies and
//! events. Never reads packets.

mod session;

use framegate_adaptor_api::{Outbound, SessionContext};
use framegate_broker::{Effect, HeaderTable};

use crate::commands::{Fields, Op, Refusal};
use crate::pending::InProgress;
use crate::reply::{ReqId, put_error};

/// State of a connection that is logged in.
pub(crate) struct Conversation {
    in_progress: InProgress<Waiting>,
    headers: HeaderTable,
    /// The client looks for a job's name in its data.
    is_legacy: bool,
}

/// What is to be made of the broker's reply.
#[derive(Debug)]
pub(crate) enum Waiting {}

/// A command that is being started.
pub(crate) struct Call<'c, 'a> {
    pub(crate) req_id: &'c ReqId,
    pub(crate) fields: &'c Fields<'a>,
    pub(crate) out: &'c mut Outbound,
}

impl Conversation {
    pub(crate) fn new(context: &SessionContext) -> Self {
        Self { in_progress: InProgress::default(), headers: context.headers.clone(), is_legacy: false }
    }

    /// A command that comes now can be started.
    pub(crate) fn has_room(&self) -> bool {
        self.in_progress.has_room()
    }

    /// No command is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_progress.is_empty()
    }

    /// Starts a command. It is answered at once or when the broker has said something.
    pub(crate) fn start(&mut self, op: Op, req_id: &ReqId, fields: &Fields<'_>, out: &mut Outbound) {
        let mut call = Call { req_id, fields, out };
        if let Err(Refusal(text)) = self.run(op, &mut call) {
            put_error(req_id, &text, out);
        }
    }

    fn run(&mut self, op: Op, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        match op {
            // The session has answered it.
            Op::Auth => Ok(()),
            Op::Hello => self.hello(call),
            Op::Ping => Self::ping(call),
        }
    }

    /// Something the broker says.
    pub(crate) fn effect(&mut self, effect: Effect, out: &mut Outbound) {
        match effect {
            _ => {}
        }
    }
}
