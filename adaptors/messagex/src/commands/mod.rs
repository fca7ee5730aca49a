//! Commands: the table, and one file per group that turns payloads into requests and replies into responses. Never cuts
//! packets and never checks the envelope.

mod arguments;
mod consume;
mod exchange;
mod publish;
mod queue;
mod queue_arguments;
mod session;
mod settle;
mod table;

pub(crate) use exchange::put_exchange;
pub(crate) use publish::Publication;
pub(crate) use queue::{put_binding, put_queue};
pub(crate) use session::{login_of, put_pong, put_stats, put_welcome};
pub(crate) use settle::{Settlement, Verb};
pub(crate) use table::{Command, find};

use framegate_adaptor_api::Outbound;

use crate::conversation::Conversation;
use crate::errors::{Code, Failure};
use crate::limits::{LIST_RESERVE_BYTES, PAYLOAD_BYTES_MAX};
use crate::schema::Payload;

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Ack,
    Auth,
    BindingList,
    Cancel,
    Consume,
    Disconnect,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeList,
    ExchangeUnbind,
    Get,
    Nack,
    Ping,
    Publish,
    Qos,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueGet,
    QueueList,
    QueuePurge,
    QueueUnbind,
    Recover,
    Reject,
    Stats,
}

/// What a command works with.
pub(crate) struct Call<'c> {
    /// Goes with the response.
    pub(crate) request_id: &'c str,
    /// Fits the command's schema.
    pub(crate) payload: &'c Payload<'c>,
    /// Where requests and responses go.
    pub(crate) out: &'c mut Outbound,
}

impl Conversation {
    /// Starts a command of a connection that is logged in. AUTH, PING and DISCONNECT are the session's own.
    ///
    /// # Errors
    /// The failure to answer at once.
    pub(crate) fn start(&mut self, op: Op, call: &mut Call<'_>) -> Result<(), Failure> {
        match op {
            Op::Publish => self.publish(call),
            Op::Ack => self.settle(Verb::Ack, call),
            Op::Nack => self.settle(Verb::Nack, call),
            Op::Reject => self.settle(Verb::Reject, call),
            Op::Recover => self.recover(call),
            Op::Get => self.get(call),
            Op::Consume => self.consume(call),
            Op::Cancel => self.cancel(call),
            Op::Qos => self.qos(call),
            Op::QueueDeclare => self.queue_declare(call),
            Op::QueueDelete => self.queue_delete(call),
            Op::QueuePurge => self.queue_purge(call),
            Op::QueueList => self.queue_list(call),
            Op::QueueGet => self.queue_get(call),
            Op::QueueBind => self.bind(call, true),
            Op::QueueUnbind => self.bind(call, false),
            Op::BindingList => self.binding_list(call),
            Op::ExchangeDeclare => self.exchange_declare(call),
            Op::ExchangeDelete => self.exchange_delete(call),
            Op::ExchangeList => self.exchange_list(call),
            Op::ExchangeBind => self.exchange_bind(call, true),
            Op::ExchangeUnbind => self.exchange_bind(call, false),
            Op::Stats => self.stats(call),
            Op::Auth | Op::Ping | Op::Disconnect => {
                Err(Failure::new(Code::InternalError, "The command belongs to the session"))
            }
        }
    }
}

/// Room for another item of a list response: what is over it is left out, and the response says so.
pub(crate) fn has_list_room(written: usize) -> bool {
    written < PAYLOAD_BYTES_MAX - LIST_RESERVE_BYTES
}
