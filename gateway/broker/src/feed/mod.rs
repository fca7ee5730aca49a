//! Feeds: live and replayed topic events, outside the fold. A subscriber reads shared events at its own
//! pace; it never acks and never holds anybody up.

mod cursor;
mod event;
mod hub;
#[cfg(feature = "measure")]
#[doc(hidden)]
pub mod measure;
mod parts;
mod replay;
mod ring;
mod subscribe;
mod subscription;
#[cfg(test)]
mod tests;
mod waiters;
mod watch;

pub use cursor::Cursor;
pub use event::{FeedEvent, FeedItem};
pub use subscribe::{From, Subscribe};
pub use subscription::Subscription;

pub(crate) use hub::Hub;
pub(crate) use parts::{Parts, Start};
pub(crate) use replay::{Page, PageFuture, Replay};
pub(crate) use watch::{RingBudget, Watch};
