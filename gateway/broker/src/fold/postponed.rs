//! Reads of kept events whose next body is being written again. It stands in the open block, which nobody can read: they
//! wait until that block has gone to the log, and are then answered as if they had come in that moment. They end with
//! the shard.

use framegate_storage::Lsn;
use tokio::sync::oneshot;

use super::{AnswerTo, Core};
use crate::error::BrokerError;
use crate::feed::Page;
use crate::group::HistoryQuery;
use crate::ids::WatchId;
use crate::name::Name;

/// Reads that wait at most; each is the only one of its subscription, or a query of a connection.
const POSTPONED_MAX: usize = 65_536;

/// What a subscription asks for.
pub(super) struct PageWanted {
    pub(super) watch: WatchId,
    pub(super) after: Lsn,
    pub(super) told: Lsn,
    pub(super) events_max: usize,
    pub(super) bytes_max: usize,
    pub(super) reply: oneshot::Sender<Result<Page, BrokerError>>,
}

/// See the module.
pub(super) enum Postponed {
    Page(PageWanted),
    History(AnswerTo, Name, HistoryQuery),
}

impl Core {
    /// Puts a read aside until the open block is closed.
    pub(super) fn postpone(&mut self, read: Postponed) {
        if self.postponed.len() < POSTPONED_MAX {
            return self.postponed.push(read);
        }
        let error = BrokerError::Limit { what: "reads that wait", max: POSTPONED_MAX as u64 };
        match read {
            Postponed::Page(page) => {
                let _ = page.reply.send(Err(error));
            }
            Postponed::History(to, ..) => self.answer(to, Lsn(0), Err(error)),
        }
    }

    /// The open block was closed: what it holds can be read.
    pub(super) fn go_on_reading(&mut self) {
        for read in std::mem::take(&mut self.postponed) {
            match read {
                Postponed::Page(page) => self.page(page),
                Postponed::History(to, vhost, query) => self.history(to, &vhost, query),
            }
        }
    }
}
