//! The stream's body over a list of items: what is written, when it ends, and that paused time makes heartbeats.

use framegate_broker::{Cursor, Envelope, FeedEvent, Name, Offset, Origin, TopicId};
use framegate_frame::{Frame as Message, FrameKind, Limits};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::sse_encode::tests::parse;
use super::*;

/// Items from a channel; the end of the channel is the end of the broker.
struct Queue(mpsc::UnboundedReceiver<FeedItem>);

impl Feed for Queue {
    fn poll_next(&mut self, context: &mut Context<'_>, into: &mut Vec<FeedItem>, max: usize) -> Poll<bool> {
        match ready!(self.0.poll_recv(context)) {
            None => return Poll::Ready(false),
            Some(item) => into.push(item),
        }
        while into.len() < max {
            let Ok(item) = self.0.try_recv() else { break };
            into.push(item);
        }
        Poll::Ready(true)
    }
}

struct Stream {
    body: SseBody<Queue>,
    items: Option<mpsc::UnboundedSender<FeedItem>>,
    stop: watch::Sender<bool>,
}

fn stream(heartbeat: Option<u64>, lifetime: Option<u64>) -> Stream {
    let (items, receiver) = mpsc::unbounded_channel();
    let (stop, stopping) = watch::channel(false);
    let options = Options {
        opening: Bytes::from_static(b"retry: 3000\n:\n"),
        format: Format::Typed,
        headers: Arc::default(),
        heartbeat: heartbeat.map(Duration::from_secs),
        lifetime: lifetime.map(Duration::from_secs),
        stopping,
    };
    Stream { body: SseBody::new(Queue(receiver), options), items: Some(items), stop }
}

impl Stream {
    fn send(&self, item: FeedItem) {
        self.items.as_ref().unwrap().send(item).unwrap();
    }

    async fn next(&mut self) -> Option<Bytes> {
        std::future::poll_fn(|context| Pin::new(&mut self.body).poll_frame(context))
            .await
            .map(|frame| frame.unwrap().into_data().unwrap())
    }

    async fn text(&mut self) -> String {
        String::from_utf8(self.next().await.unwrap().to_vec()).unwrap()
    }
}

fn event(n: u64, data: &[u8]) -> Arc<FeedEvent> {
    let attributes =
        [("id", "x"), ("source", "/t"), ("type", "com.x"), ("datacontenttype", "application/json")];
    let frame = Message::build(FrameKind::Event, attributes, data, &Limits::GATEWAY).unwrap();
    let origin = Origin { vhost: Name::from_static("/"), name: Name::from_static("t"), id: 1, seq: n };
    let cursor: Cursor = format!("a.0:{n}").parse().unwrap();
    Arc::new(FeedEvent::new(
        Name::from_static("t"),
        Some((TopicId(1), Offset(n))),
        cursor,
        Envelope::default(),
        frame,
        origin,
    ))
}

#[tokio::test]
async fn one_event_is_the_shared_buffer_and_several_are_one() {
    let (mut a, mut b) = (stream(None, None), stream(None, None));
    assert_eq!(a.text().await, "retry: 3000\n:\n");
    b.next().await;
    let first = event(1, b"1");
    a.send(FeedItem::Event(Arc::clone(&first)));
    b.send(FeedItem::Event(Arc::clone(&first)));
    let (of_a, of_b) = (a.next().await.unwrap(), b.next().await.unwrap());
    assert_eq!(of_a.as_ptr(), of_b.as_ptr(), "encoded once, written twice");
    for n in 2..=4 {
        a.send(FeedItem::Event(event(n, b"{\r\n\"a\":\r1}")));
    }
    let events = parse(&a.text().await);
    assert_eq!(events.len(), 3);
    assert_eq!((events[0].0.as_str(), events[2].2.as_str()), ("com.x", "a.0:4"));
    assert!(serde_json::from_str::<serde_json::Value>(&events[0].1).is_ok(), "{events:?}");
}

#[tokio::test]
async fn large_events_are_not_copied_together() {
    let mut s = stream(None, None);
    s.next().await;
    let large = format!("\"{}\"", "x".repeat(70_000));
    s.send(FeedItem::Event(event(1, b"1")));
    s.send(FeedItem::Event(event(2, large.as_bytes())));
    s.send(FeedItem::Event(event(3, b"3")));
    let mut all = String::new();
    let mut sizes = Vec::new();
    for _ in 0..3 {
        let text = s.text().await;
        sizes.push(text.len());
        all.push_str(&text);
    }
    assert!(sizes[0] < 1000 && sizes[1] > 70_000 && sizes[2] < 1000, "{sizes:?}");
    assert_eq!(
        parse(&all).iter().map(|event| event.2.clone()).collect::<Vec<_>>(),
        ["a.0:1", "a.0:2", "a.0:3"]
    );
}

#[tokio::test]
async fn a_loss_is_a_control_message_with_the_place_where_it_goes_on() {
    let mut s = stream(None, None);
    s.next().await;
    let resumed_from: Cursor = "a.0:9".parse().unwrap();
    s.send(FeedItem::Lost { requested: Some("old\n".to_owned()), resumed_from });
    s.send(FeedItem::Event(event(10, b"1")));
    let events = parse(&s.text().await);
    assert_eq!((events[0].0.as_str(), events[0].2.as_str()), ("framegate", "a.0:9"));
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&events[0].1).unwrap(),
        json!({"lost": true, "requested": "old\n", "resumedFrom": "a.0:9"})
    );
    assert_eq!(events[1].0, "com.x");
}

#[tokio::test]
async fn what_cannot_be_carried_is_skipped() {
    let mut s = stream(None, None);
    s.next().await;
    let piece = event(1, b"1");
    let frame = Message::build(FrameKind::StreamChunk, [("sid", "x")], b"", &Limits::GATEWAY).unwrap();
    let piece = FeedEvent::new(
        piece.topic.clone(),
        piece.kept,
        piece.cursor,
        Envelope::default(),
        frame,
        piece.origin.clone(),
    );
    s.send(FeedItem::Event(Arc::new(piece)));
    s.send(FeedItem::Event(event(2, b"2")));
    assert_eq!(parse(&s.text().await).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn heartbeats_come_in_silence_and_the_stream_ends_by_itself() {
    let mut s = stream(Some(20), Some(50));
    s.next().await;
    let start = Instant::now();
    assert_eq!(s.text().await, ": heartbeat\n");
    assert_eq!(s.text().await, ": heartbeat\n");
    assert_eq!(start.elapsed().as_secs(), 40);
    let end = parse(&s.text().await);
    assert_eq!(end[0].0, "framegate");
    assert!(end[0].1.contains("lifetime_over"), "{end:?}");
    assert_eq!(s.next().await, None);
    assert!(s.body.is_end_stream());
}

#[tokio::test]
async fn a_stop_ends_the_stream_with_a_blank_line() {
    let mut s = stream(None, None);
    s.next().await;
    s.stop.send(true).unwrap();
    let text = s.text().await;
    assert!(text.ends_with("\n\n") && text.contains("draining"), "{text}");
    assert_eq!(s.next().await, None);
    let mut s = stream(None, None);
    s.next().await;
    s.items = None;
    assert!(s.text().await.contains("draining"), "the broker has stopped");
    assert_eq!(s.next().await, None);
}
