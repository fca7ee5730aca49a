//! How a subscription reads what is no longer in a ring. The broker answers from its index and the store; a
//! subscription sees pages.

use std::future::Future;
use std::pin::Pin;

use framegate_storage::Lsn;

use crate::error::BrokerError;
use crate::ids::WatchId;
use crate::message::SharedEvent;

/// Events of one watch, read back from the store.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// In order of position; all above `after`.
    pub(crate) events: Vec<SharedEvent>,
    /// Every event of the watch that is kept and stands at or below this is in this page or in one before. Not below
    /// `after`; a page that was not cut short reaches at least the newest event pushed into the watch before the call.
    pub(crate) complete_to: Lsn,
    /// Set when events above `after` are not kept any more and went later than `told`. Nothing that is kept stands above
    /// `after` and at or below this; `after` itself when a kept event follows it.
    pub(crate) gone_to: Option<Lsn>,
    /// Position of the newest record: a loss that stands at or below it is told with this page.
    pub(crate) told: Lsn,
}

/// The answer to come.
pub(crate) type PageFuture = Pin<Box<dyn Future<Output = Result<Page, BrokerError>> + Send>>;

/// Reads events back.
pub(crate) trait Replay: Send + Sync {
    /// The next events of a watch above a position: at most `events_max` (at least one, if there is one), and no more
    /// once `bytes_max` frame bytes are passed. A loss is told once: `told` is that of the page before. The future holds no lock and may be dropped.
    ///
    /// # Errors
    /// Any error ends the subscription: the broker is stopping, or storage failed.
    fn page(&self, watch: WatchId, after: Lsn, told: Lsn, events_max: usize, bytes_max: usize) -> PageFuture;
}
