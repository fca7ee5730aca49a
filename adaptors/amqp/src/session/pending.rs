//! What a channel has to say, in order: answers of the broker that are still to come, and behind them what it could say at once.

use framegate_broker::{ConsumerId, RequestId};

use crate::codec::{Method, MethodId};
use crate::failure::Failure;

/// Something that will be said.
#[derive(Debug)]
pub(super) enum Pending {
    /// When the broker has answered.
    Broker { id: RequestId, method: MethodId, waiting: Waiting },
    /// When it is its turn.
    Local(Local),
}

/// What can be said without the broker.
#[derive(Debug)]
pub(super) enum Local {
    Send(Method<'static>),
    DeclareOk { queue: Box<str>, consumers: u32 },
    CancelOk(Box<str>),
    CloseOk,
    Fail(Failure),
}

/// What an answer of the broker is for.
#[derive(Debug)]
pub(super) enum Waiting {
    /// Said when it went well. `lenient`: also when something is not there.
    Plain {
        ok: Option<Method<'static>>,
        lenient: bool,
    },
    /// A queue is declared or looked at.
    Declared {
        nowait: bool,
        asked: Box<str>,
    },
    Purged {
        nowait: bool,
    },
    Deleted {
        nowait: bool,
    },
    /// The queue of a consumer that starts.
    Looked(ConsumerId),
    /// The queue that takes direct replies.
    ReplyQueue {
        consumer: ConsumerId,
        nowait: bool,
    },
    Consuming {
        consumer: ConsumerId,
        nowait: bool,
    },
    Cancelling {
        consumer: ConsumerId,
        nowait: bool,
    },
    Got {
        consumer: ConsumerId,
        no_ack: bool,
    },
    Committed,
    /// What a channel held has been given back.
    Closed,
}
