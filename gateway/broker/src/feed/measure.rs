//! What `examples/feeds.rs` measures: a watch with many subscriptions. Only with the feature `measure`.

use std::sync::Arc;

use framegate_frame::{Frame, FrameKind, Limits};
use framegate_storage::{Generation, Lsn};

use super::{Cursor, FeedEvent, Hub, Page, PageFuture, Parts, Replay, Start, Subscription, Watch};
use crate::ids::{Offset, TopicId, WatchId};
use crate::message::{Envelope, Origin, SharedEvent};
use crate::name::Name;

/// A watch to push into and to subscribe to.
pub struct Feed {
    hub: Hub,
    watch: Arc<Watch>,
    frame: Frame,
    position: u64,
}

struct NoStore;

impl Replay for NoStore {
    fn page(&self, _: WatchId, _: Lsn, _: Lsn, _: usize, _: usize) -> PageFuture {
        Box::pin(async { Ok(Page::default()) })
    }
}

impl Feed {
    /// A watch whose events have `bytes` bytes of data; None when a frame cannot be that large.
    #[must_use]
    pub fn new(bytes: usize) -> Option<Self> {
        let frame = Frame::build(FrameKind::Event, [("id", "1")], &vec![7; bytes], &Limits::GATEWAY).ok()?;
        Some(Self {
            hub: Hub::default(),
            watch: Watch::new(WatchId(1), Lsn(0), &Arc::default()),
            frame,
            position: 0,
        })
    }

    /// The next event.
    pub fn event(&mut self) -> SharedEvent {
        self.position += 1;
        let cursor = Cursor { generation: Generation(1), position: Lsn(self.position) };
        let kept = Some((TopicId(1), Offset(self.position)));
        let origin = Origin { vhost: Name::default(), name: Name::default(), id: 1, seq: self.position };
        Arc::new(FeedEvent::new(
            Name::default(),
            kept,
            cursor,
            Envelope::default(),
            self.frame.clone(),
            origin,
        ))
    }

    /// Pushes and wakes, as a pass with one event; by the hub, or at once.
    pub fn publish(&mut self, by_hub: bool) {
        let event = self.event();
        self.watch.push([event]);
        if by_hub {
            self.hub.wake(&self.watch);
        } else {
            self.watch.wake();
        }
    }

    /// Runs the hub.
    pub fn hub(&self) -> impl Future<Output = ()> + Send + use<> {
        self.hub.clone().run()
    }

    /// Subscriptions that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.watch.waiting()
    }

    /// One more subscription, from now on.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        Subscription::new(Parts {
            watch: Arc::clone(&self.watch),
            replay: Arc::new(NoStore),
            start: Start::Live,
            lost: None,
            told: Lsn(0),
            generation: Generation(1),
            ended: Box::new(drop),
        })
    }

    /// Ends all subscriptions.
    pub fn close(&self) {
        self.watch.close();
    }
}
