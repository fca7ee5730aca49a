//! A feed without the events that a subscription's filters refuse. Loss notices always pass.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use framegate_broker::{FeedItem, HeaderTable};

use super::sse_body::Feed;
use crate::filter::Filters;

/// Polls of the feed in a row that gave nothing to hand out, before other streams of the thread get their turn.
const BARREN_MAX: usize = 16;

/// See the module.
pub(crate) struct Filtered<F> {
    feed: F,
    filters: Filters,
    headers: Arc<HeaderTable>,
}

impl<F: Feed> Filtered<F> {
    /// What of `feed` passes `filters`.
    pub(crate) fn new(feed: F, filters: Filters, headers: Arc<HeaderTable>) -> Self {
        Self { feed, filters, headers }
    }
}

impl<F: Feed> Feed for Filtered<F> {
    fn poll_next(&mut self, context: &mut Context<'_>, into: &mut Vec<FeedItem>, max: usize) -> Poll<bool> {
        for _ in 0..BARREN_MAX {
            let more = ready!(self.feed.poll_next(context, into, max));
            if !self.filters.is_empty() {
                into.retain(|item| match item {
                    FeedItem::Event(event) => self.filters.pass_event(event, &self.headers),
                    FeedItem::Lost { .. } => true,
                });
            }
            if !more || !into.is_empty() {
                return Poll::Ready(more);
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::Waker;

    use framegate_broker::{Cursor, Envelope, FeedEvent, Name, Origin};
    use framegate_frame::{Frame, FrameKind, Limits};

    use super::*;

    /// Gives one list of items a poll, then ends.
    struct Script(VecDeque<Vec<FeedItem>>);

    impl Feed for Script {
        fn poll_next(&mut self, _: &mut Context<'_>, into: &mut Vec<FeedItem>, _: usize) -> Poll<bool> {
            let items = self.0.pop_front();
            let more = items.is_some();
            into.extend(items.unwrap_or_default());
            Poll::Ready(more)
        }
    }

    fn event(id: &str) -> FeedItem {
        let attributes = [("id", id), ("source", "/t"), ("type", "com.x")];
        let frame = Frame::build(FrameKind::Event, attributes, b"", &Limits::GATEWAY).unwrap();
        let name = Name::from_static("t");
        let origin = Origin { vhost: Name::from_static("/"), name: name.clone(), id: 1, seq: 1 };
        let cursor: Cursor = "a.0:1".parse().unwrap();
        FeedItem::Event(Arc::new(FeedEvent::new(name, None, cursor, Envelope::default(), frame, origin)))
    }

    fn filters(json: &str) -> Filters {
        Filters::parse(&serde_json::from_str(json).unwrap()).unwrap()
    }

    fn polled(filtered: &mut Filtered<Script>) -> (Poll<bool>, Vec<String>) {
        let (mut context, mut items) = (Context::from_waker(Waker::noop()), Vec::new());
        let poll = filtered.poll_next(&mut context, &mut items, 64);
        let ids = items.iter().map(|item| match item {
            FeedItem::Event(event) => event.frame.attr("id").unwrap_or_default().to_owned(),
            FeedItem::Lost { .. } => "lost".to_owned(),
        });
        (poll, ids.collect())
    }

    #[test]
    fn only_what_passes_is_handed_out_and_order_stays() {
        let script = Script([vec![event("1"), event("2")], vec![event("3")], vec![event("4")]].into());
        let keep = filters(r#"{"sql": "id IN ('2', '4')"}"#);
        let mut filtered = Filtered::new(script, keep, Arc::default());
        assert_eq!(polled(&mut filtered), (Poll::Ready(true), vec!["2".to_owned()]));
        assert_eq!(polled(&mut filtered), (Poll::Ready(true), vec!["4".to_owned()]));
        assert_eq!(polled(&mut filtered), (Poll::Ready(false), vec![]));
    }

    #[test]
    fn a_stream_whose_events_are_all_refused_lets_others_run() {
        let script = Script((0..100).map(|_| vec![event("1")]).collect());
        let mut filtered = Filtered::new(script, filters(r#"{"exact": {"id": "2"}}"#), Arc::default());
        assert_eq!(polled(&mut filtered), (Poll::Pending, vec![]));
        let mut pending = 1;
        while polled(&mut filtered).0.is_pending() {
            pending += 1;
        }
        assert_eq!(pending, 100 / BARREN_MAX);
    }
}
