//! What a channel has to say, in order: answers of the broker that are still to come, and behind them what it could say at once.

use framegate_broker::{ConsumerId, Name, RequestId};

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
    DeclareOk {
        queue: Box<str>,
        consumers: u32,
    },
    CancelOk(Box<str>),
    /// The broker has ended a consumer.
    Cancel(Box<str>),
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
    /// A stream is declared or looked at.
    StreamLooked {
        nowait: bool,
        name: Name,
    },
    /// The stream of a consumer that starts.
    StreamFound {
        consumer: ConsumerId,
        nowait: bool,
        name: Name,
    },
    /// What a stream cannot do was asked of a name that is no queue's.
    Refusing {
        what: &'static str,
        name: Name,
    },
    Purged {
        nowait: bool,
    },
    Deleted {
        nowait: bool,
        name: Name,
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
    /// The queue of a pull.
    LookedToGet,
    Got {
        consumer: ConsumerId,
        no_ack: bool,
    },
    Committed,
    /// What a channel held has been given back.
    Closed,
}
