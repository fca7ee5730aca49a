//! What a subscription is made of: the broker finds out where it starts, and hands over where events come from.

use std::sync::Arc;

use framegate_storage::{Generation, Lsn};

use super::cursor::Cursor;
use super::replay::Replay;
use super::watch::Watch;
use crate::ids::WatchId;

/// Where a subscription starts, as the broker found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// With what is pushed from now on.
    Live,
    /// With the first kept event above this position.
    After(Lsn),
}

/// What a subscription is made of.
pub(crate) struct Parts {
    /// Where the events come from.
    pub(crate) watch: Arc<Watch>,
    /// Where older ones are read.
    pub(crate) replay: Arc<dyn Replay>,
    /// Where it starts.
    pub(crate) start: Start,
    /// A loss to report first: the cursor asked for, if any, and where the feed goes on instead.
    pub(crate) lost: Option<(Option<String>, Cursor)>,
    /// Position of the newest record: losses before it are told already, or are no losses.
    pub(crate) told: Lsn,
    /// Store that the cursors name.
    pub(crate) generation: Generation,
    /// Told when the subscription ends, so that an unused watch can be removed.
    pub(crate) ended: Box<dyn FnOnce(WatchId) + Send>,
}
