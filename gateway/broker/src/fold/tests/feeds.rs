//! Subscriptions to several topics of which one keeps less than another.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Wake, Waker};

use super::rig::{Peer, Rig, frame, name};
use crate::definition::TopicSpec;
use crate::feed::{FeedItem, From, Subscribe, Subscription};
use crate::fold::inbox::Inbox;
use crate::request::{Define, Publish, Request};

struct Bell(Sender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

fn subscribe(rig: &mut Rig, from: From) -> Subscription {
    let (reply, mut parts) = tokio::sync::oneshot::channel();
    let what = Subscribe { patterns: vec![name("short"), name("long")], from };
    rig.core.take(Inbox::Subscribe { vhost: name("/"), what, reply }, rig.now);
    Subscription::new(parts.try_recv().expect("answered").expect("subscribed"))
}

/// Everything up to the event "end": texts of events, and `lost` for each notice.
fn read(rig: &mut Rig, mut subscription: Subscription) -> (Vec<String>, u64) {
    let (bell, rung) = channel();
    let waker = Waker::from(Arc::new(Bell(bell)));
    let (mut seen, mut last) = (Vec::new(), 0);
    while seen.last().map(String::as_str) != Some("end") {
        let mut items = Vec::new();
        // one at a time, so that the place is one between two events
        if subscription.poll_next(&mut Context::from_waker(&waker), &mut items, 1).is_pending() {
            rig.pass();
            rung.recv().expect("a reader answers");
        }
        for item in items {
            seen.push(match item {
                FeedItem::Event(event) => String::from_utf8(event.frame.data().to_vec()).expect("text"),
                FeedItem::Lost { .. } => "lost".to_owned(),
            });
        }
        last = subscription.cursor().position.0;
    }
    drop(subscription);
    (seen, last)
}

fn publish(rig: &mut Rig, peer: &mut Peer, topic: &str, body: &str) {
    rig.call(peer, Request::Publish(Publish::to_topic(name(topic), frame(body)))).expect("published");
}

/// `short` has lost what came before "s2", `long` keeps everything. Gives the cursor behind "l1".
fn world() -> (Rig, Peer, String) {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let spec = TopicSpec { name: name("short"), age_ms_max: Some(10_000), bytes_max: None };
    rig.call(&mut peer, Request::Define(Define::Topic(spec))).expect("declared");
    publish(&mut rig, &mut peer, "long", "l1");
    let after = subscribe(&mut rig, From::Latest).cursor().to_string();
    publish(&mut rig, &mut peer, "short", "s0");
    publish(&mut rig, &mut peer, "long", "l2");
    publish(&mut rig, &mut peer, "short", "s1");
    publish(&mut rig, &mut peer, "long", "l3");
    rig.wait(9000);
    publish(&mut rig, &mut peer, "short", "s2");
    publish(&mut rig, &mut peer, "long", "l4");
    rig.wait(2000);
    rig.settle();
    publish(&mut rig, &mut peer, "long", "end");
    (rig, peer, after)
}

#[test]
fn the_earliest_of_several_topics_passes_over_nothing_that_one_of_them_keeps() {
    let (mut rig, _peer, _) = world();
    let subscription = subscribe(&mut rig, From::Earliest);
    assert_eq!(read(&mut rig, subscription).0, ["l1", "l2", "l3", "s2", "l4", "end"]);
}

#[test]
fn a_lost_cursor_of_several_topics_gives_one_notice_and_all_that_is_kept_above_it() {
    let (mut rig, _peer, after) = world();
    let subscription = subscribe(&mut rig, From::After(after));
    assert!(!subscription.resumed_exactly());
    assert_eq!(read(&mut rig, subscription).0, ["lost", "l2", "l3", "s2", "l4", "end"]);
    let subscription = subscribe(&mut rig, From::After("nonsense".to_owned()));
    assert_eq!(read(&mut rig, subscription).0, ["lost", "l1", "l2", "l3", "s2", "l4", "end"]);
}

#[test]
fn what_goes_while_a_subscription_reads_is_told_once_and_nothing_else_is_passed_over() {
    let (mut rig, mut peer, _) = world();
    let subscription = subscribe(&mut rig, From::Earliest);
    rig.wait(9000);
    rig.settle();
    // "s2" is gone, and `long` keeps what stands before and behind it
    assert_eq!(read(&mut rig, subscription).0, ["lost", "l1", "l2", "l3", "l4", "end"]);
    publish(&mut rig, &mut peer, "short", "s3");
}
