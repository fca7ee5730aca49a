//! Commands in progress: which request of the broker answers which command. Long waits are counted apart, so that they take no
//! command's place.

use std::collections::HashMap;

use framegate_broker::RequestId;

use crate::limits::{COMMANDS_IN_PROGRESS_MAX, WAITS_IN_PROGRESS_MAX};
use crate::reply::ReqId;

/// A command that is not answered yet.
#[derive(Debug)]
pub(crate) struct Pending<W> {
    /// Goes with the reply.
    pub(crate) req_id: ReqId,
    /// What is to be made of the broker's reply.
    pub(crate) waiting: W,
    is_wait: bool,
}

/// All commands in progress of a connection.
#[derive(Debug)]
pub(crate) struct InProgress<W> {
    by_request: HashMap<RequestId, Pending<W>>,
    waits: usize,
    last: u64,
}

impl<W> Default for InProgress<W> {
    fn default() -> Self {
        Self { by_request: HashMap::new(), waits: 0, last: 0 }
    }
}

impl<W> InProgress<W> {
    /// A command that comes now can be started.
    pub(crate) fn has_room(&self) -> bool {
        self.by_request.len() - self.waits < COMMANDS_IN_PROGRESS_MAX && self.waits < WAITS_IN_PROGRESS_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_request.is_empty()
    }

    /// Notes a command; the request that answers it gets this id. A long wait takes no command's place.
    pub(crate) fn start(&mut self, req_id: &ReqId, waiting: W, is_wait: bool) -> RequestId {
        let id = self.untracked();
        self.waits += usize::from(is_wait);
        self.by_request.insert(id, Pending { req_id: req_id.clone(), waiting, is_wait });
        id
    }

    /// An id for a request that nobody waits for.
    pub(crate) fn untracked(&mut self) -> RequestId {
        self.last += 1;
        RequestId(self.last)
    }

    /// The command that a reply is for; it is no longer in progress.
    pub(crate) fn take(&mut self, id: RequestId) -> Option<Pending<W>> {
        let pending = self.by_request.remove(&id)?;
        self.waits -= usize::from(pending.is_wait);
        Some(pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_waits_leave_room_for_commands() {
        let mut pending = InProgress::default();
        let waits: Vec<_> = (0..200).map(|_| pending.start(&ReqId::default(), (), true)).collect();
        assert!(pending.has_room());
        let commands: Vec<_> =
            (0..COMMANDS_IN_PROGRESS_MAX).map(|_| pending.start(&ReqId::default(), (), false)).collect();
        assert!(!pending.has_room());
        assert!(pending.take(waits[0]).is_some());
        assert!(!pending.has_room(), "a wait that ends makes no room for a command");
        assert!(pending.take(commands[0]).is_some());
        assert!(pending.has_room());
        assert!(pending.take(commands[0]).is_none());
    }

    #[test]
    fn long_waits_are_bounded_too() {
        let mut pending = InProgress::default();
        for _ in 0..WAITS_IN_PROGRESS_MAX {
            pending.start(&ReqId::default(), (), true);
        }
        assert!(!pending.has_room());
    }
}
