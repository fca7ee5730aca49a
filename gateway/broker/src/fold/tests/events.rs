//! Broker events: which, in which order, with what in them; and none when nobody asked.

use std::sync::atomic::Ordering;

use super::rig::{Peer, Rig, consumer, frame, message, name, pull, queue, settlement, text};
use crate::definition::{BindTarget, BindingSpec, ExchangeKind, ExchangeSpec, QueueProperties, QueueSpec};
use crate::event::{AMQ_EVENT, EventKind, Happening, Said, Word};
use crate::feed::{From, Subscribe};
use crate::ids::Seq;
use crate::limits::EVENTS_KEPT_MAX;
use crate::request::{Define, Effect, Outcome, Publish, Query, Reply, Request};

fn binding(exchange: &str, queue: &str, key: &str) -> BindingSpec {
    let target = BindTarget::Queue(name(queue));
    BindingSpec { exchange: name(exchange), target, key: name(key), arguments: Vec::new() }
}

fn define(rig: &mut Rig, peer: &mut Peer, define: Define) {
    rig.call(peer, Request::Define(define)).expect("defined");
}

/// A volatile queue for events of a pattern.
fn watch(rig: &mut Rig, pattern: &str) -> Peer {
    let mut peer = rig.connect();
    let spec = QueueSpec { name: name("events"), ..QueueSpec::default() };
    define(rig, &mut peer, Define::Queue(spec));
    define(rig, &mut peer, Define::Bind(binding(AMQ_EVENT, "events", pattern)));
    peer
}

/// Events so far: key, subject and body of each, taken.
fn taken(rig: &mut Rig, watcher: &mut Peer) -> Vec<(String, String, String)> {
    rig.settle();
    match rig.call(watcher, pull(900, "events", 1000, 0, true)) {
        Ok(Reply::Fetched { messages, .. }) => messages
            .iter()
            .map(|d| {
                assert_eq!((d.envelope.exchange.as_str(), d.envelope.persistent), (AMQ_EVENT, false));
                assert_eq!(d.frame.attr("type"), Some(d.envelope.key()));
                assert_eq!(d.frame.attr("datacontenttype"), Some("application/json"));
                let subject = d.frame.attr("subject").unwrap_or_default();
                (d.envelope.key().to_owned(), subject.to_owned(), text(d))
            })
            .collect(),
        other => panic!("{other:?}"),
    }
}

fn keys(events: &[(String, String, String)]) -> Vec<&str> {
    events.iter().map(|(key, ..)| key.as_str()).collect()
}

fn built(rig: &Rig) -> u64 {
    rig.shared().metrics.events.load(Ordering::Relaxed)
}

/// Something of everything.
fn live_a_little(rig: &mut Rig) {
    let mut peer = rig.connect();
    let properties = QueueProperties::default();
    rig.call(&mut peer, queue("q", properties)).expect("declared");
    define(rig, &mut peer, Define::Bind(binding("amq.direct", "q", "k")));
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", None))]);
    for body in ["a", "b", "c"] {
        rig.put(&mut peer, message("q", body));
    }
    let seqs: Vec<Seq> = peer.deliveries().iter().map(super::rig::seq).collect();
    for (seq, outcome) in seqs.iter().zip([Outcome::Ack, Outcome::Reject, Outcome::Requeue { delay_ms: 0 }]) {
        rig.call(&mut peer, Request::Settle(settlement(1, &[*seq], outcome))).expect("settled");
    }
    let nobody = Publish { mandatory: true, ..Publish::new(name("amq.direct"), name("none"), frame("m")) };
    rig.put(&mut peer, nobody);
    define(rig, &mut peer, Define::Purge(name("q")));
    define(rig, &mut peer, Define::DeleteQueue { name: name("q"), if_unused: false, if_empty: false });
    rig.disconnect(peer);
}

#[test]
fn nothing_is_built_while_nobody_is_bound_for_it() {
    let mut rig = Rig::new();
    live_a_little(&mut rig);
    assert_eq!(built(&rig), 0);
    // bound, but for something else
    let mut watcher = watch(&mut rig, "channel.*");
    live_a_little(&mut rig);
    assert_eq!((built(&rig), taken(&mut rig, &mut watcher).len()), (0, 0));
    define(&mut rig, &mut watcher, Define::Bind(binding(AMQ_EVENT, "events", "queue.purged")));
    live_a_little(&mut rig);
    assert_eq!(built(&rig), 1);
    assert_eq!(keys(&taken(&mut rig, &mut watcher)), ["queue.purged"]);
    define(&mut rig, &mut watcher, Define::Unbind(binding(AMQ_EVENT, "events", "queue.purged")));
    live_a_little(&mut rig);
    assert_eq!(built(&rig), 1);
}

#[test]
fn everything_that_happens_is_told_in_its_order() {
    let mut rig = Rig::new();
    let mut watcher = watch(&mut rig, "#");
    taken(&mut rig, &mut watcher);
    live_a_little(&mut rig);
    let events = taken(&mut rig, &mut watcher);
    let of_message = ["message.published", "message.routed", "message.delivered"];
    let mut expected = vec!["connection.open", "queue.created", "binding.created", "consumer.created"];
    expected.extend(of_message.iter().chain(&of_message).chain(&of_message));
    expected.extend(["message.acked", "message.rejected", "message.nacked", "message.delivered"]);
    expected.extend(["message.published", "message.returned", "queue.purged", "consumer.cancelled"]);
    expected.extend(["binding.deleted", "queue.deleted", "connection.close"]);
    assert_eq!(keys(&events), expected);
    let body = |key: &str| events.iter().find(|(k, ..)| k == key).map(|(_, _, body)| body.as_str());
    let subject = |key: &str| events.iter().find(|(k, ..)| k == key).map(|(_, subject, _)| subject.as_str());
    assert_eq!(
        body("queue.created"),
        Some(r#"{"queue":"q","durable":true,"exclusive":false,"auto_delete":false}"#)
    );
    assert_eq!(subject("queue.created"), Some("q"));
    assert_eq!(body("binding.created"), Some(r#"{"exchange":"amq.direct","queue":"q","routing_key":"k"}"#));
    assert_eq!(
        body("message.published"),
        Some(r#"{"message":null,"exchange":"","routing_key":"q","bytes":1}"#)
    );
    assert_eq!(
        body("message.routed"),
        Some(r#"{"message":null,"exchange":"","routing_key":"q","queues":["q"],"topic":null}"#)
    );
    assert_eq!(
        body("message.delivered"),
        Some(r#"{"message":null,"queue":"q","tag":1,"connection":2,"consumer":1,"redelivered":false}"#)
    );
    assert_eq!(
        body("message.acked"),
        Some(r#"{"queue":"q","tag":1,"count":1,"connection":2,"consumer":1,"multiple":false}"#)
    );
    assert_eq!(
        body("message.nacked"),
        Some(
            r#"{"queue":"q","tag":3,"count":1,"connection":2,"consumer":1,"multiple":false,"requeue":true}"#
        )
    );
    assert_eq!(
        body("message.returned"),
        Some(r#"{"message":null,"exchange":"amq.direct","routing_key":"none","code":312,"text":"NO_ROUTE"}"#)
    );
    assert_eq!(
        body("connection.close"),
        Some(r#"{"connection":2,"label":"test","user":"test","reason":"the connection ended"}"#)
    );
}

#[test]
fn what_a_protocol_reports_and_how_it_said_it_is_passed_on() {
    let mut rig = Rig::new();
    let mut watcher = watch(&mut rig, "#");
    let mut peer = rig.connect();
    taken(&mut rig, &mut watcher);
    let reports = [
        Happening::ChannelOpened(3),
        Happening::ChannelFlow { channel: 3, active: false },
        Happening::ChannelClosed(3),
        Happening::Closing("bye".to_owned()),
    ];
    rig.send(&mut peer, reports.into_iter().map(Request::Report).collect());
    rig.settle();
    assert!(!peer.effects().iter().any(|e| matches!(e, Effect::Reply(..))), "a report is not answered");
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.put(&mut peer, message("q", "a"));
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", None))]);
    rig.settle();
    let said = Said { word: Word::Nack, channel: Some(3), tag: Some(77), multiple: true };
    rig.call(&mut peer, Request::SettleAs(settlement(1, &[Seq(1)], Outcome::Reject), said)).expect("settled");
    rig.disconnect(peer);
    let failing = rig.connect();
    rig.core.take(
        crate::fold::inbox::Inbox::Happened(failing.id, Happening::Failed("odd byte".to_owned())),
        rig.now,
    );
    rig.disconnect(failing);
    let events = taken(&mut rig, &mut watcher);
    let body = |key: &str| {
        let found = events.iter().rev().find(|(k, ..)| k == key);
        found.map_or_else(|| panic!("no {key} in {events:?}"), |(_, _, body)| body.clone())
    };
    assert_eq!(keys(&events)[..3], ["channel.open", "channel.flow", "channel.close"]);
    assert!(body("channel.flow").ends_with(r#""channel":3,"active":false}"#));
    assert!(body("message.nacked").ends_with(
        r#""tag":77,"count":1,"connection":2,"consumer":1,"channel":3,"multiple":true,"requeue":false}"#
    ));
    assert!(
        events.iter().any(|(key, _, body)| key == "connection.close" && body.contains(r#""reason":"bye""#))
    );
    assert!(body("connection.error").contains(r#""error":"odd byte""#));
    assert!(body("connection.close").contains(r#""reason":"odd byte""#));
}

#[test]
fn an_event_causes_no_event() {
    let mut rig = Rig::new();
    let mut watcher = watch(&mut rig, "#");
    let properties = QueueProperties {
        dead_letter_exchange: Some(name("")),
        dead_letter_key: Some(name("grave")),
        message_ttl_ms: Some(10),
        ..QueueProperties::default()
    };
    rig.call(&mut watcher, queue("second", properties)).expect("declared");
    rig.call(&mut watcher, queue("grave", QueueProperties::default())).expect("declared");
    define(&mut rig, &mut watcher, Define::Bind(binding(AMQ_EVENT, "second", "#")));
    rig.call(&mut watcher, queue("more", QueueProperties::default())).expect("declared");
    rig.send(&mut watcher, vec![Request::Consume(consumer(1, "second", Some(1)))]);
    rig.settle();
    let before = built(&rig);
    // delivered, acked, rejected, requeued, expired and delivered again in the grave: all of them are events
    for outcome in [Outcome::Ack, Outcome::Reject, Outcome::Requeue { delay_ms: 0 }] {
        let seq = super::rig::seq(&watcher.deliveries()[0]);
        rig.call(&mut watcher, Request::Settle(settlement(1, &[seq], outcome))).expect("settled");
    }
    rig.wait(20);
    rig.settle();
    rig.call(&mut watcher, pull(901, "grave", 100, 0, true)).expect("pulled");
    rig.settle();
    assert_eq!(built(&rig), before);
    let events = taken(&mut rig, &mut watcher);
    assert!(keys(&events).iter().all(|key| !key.starts_with("message.")), "{:?}", keys(&events));
}

#[test]
fn expiry_is_told_and_what_was_made_can_be_asked_for_again() {
    let mut rig = Rig::new();
    let mut watcher = watch(&mut rig, "message.expired");
    rig.call(&mut watcher, queue("q", QueueProperties::default())).expect("declared");
    rig.put(&mut watcher, Publish { ttl_ms: Some(5), ..message("q", "a") });
    rig.wait(5);
    let events = taken(&mut rig, &mut watcher);
    assert_eq!(events[0].2, r#"{"message":null,"queue":"q","tag":1}"#);
    let ask = |after, max| Request::Query(Query::Events { after, max });
    let Ok(Reply::Events(kept)) = rig.call(&mut watcher, ask(0, 10)) else { panic!("events") };
    assert_eq!(kept.iter().map(|e| (e.seq, e.kind)).collect::<Vec<_>>(), [(1, EventKind::MessageExpired)]);
    assert_eq!((kept[0].time_ms, &kept[0].body), (rig.now.wall_ms, &events[0].2));
    define(&mut rig, &mut watcher, Define::Bind(binding(AMQ_EVENT, "events", "channel.flow")));
    let many = EVENTS_KEPT_MAX as u32 + 5;
    for first in (0..many).step_by(500) {
        let reports = (first..many.min(first + 500))
            .map(|channel| Request::Report(Happening::ChannelFlow { channel, active: true }));
        rig.send(&mut watcher, reports.collect());
        rig.settle();
    }
    let Ok(Reply::Events(kept)) = rig.call(&mut watcher, ask(0, u32::MAX)) else { panic!("events") };
    assert_eq!((kept.len(), kept[0].seq), (1000, 7), "the oldest have gone");
    let Ok(Reply::Events(kept)) = rig.call(&mut watcher, ask(10_003, 2)) else { panic!("events") };
    assert_eq!(kept.iter().map(|e| e.seq).collect::<Vec<_>>(), [10_004, 10_005]);
}

#[test]
fn start_and_stop_are_the_first_and_the_last_and_the_last_survives() {
    let mut rig = Rig::new();
    let mut watcher = rig.connect();
    rig.call(&mut watcher, queue("log", QueueProperties::default())).expect("declared");
    define(&mut rig, &mut watcher, Define::Bind(binding(AMQ_EVENT, "log", "broker.*")));
    let listeners = vec![("http".to_owned(), "127.0.0.1:1".to_owned())];
    rig.core.take(crate::fold::inbox::Inbox::Started(listeners), rig.now);
    rig.settle();
    let Ok(Reply::Fetched { messages, .. }) = rig.call(&mut watcher, pull(1, "log", 9, 0, true)) else {
        panic!("pulled")
    };
    assert_eq!(messages.iter().map(text).collect::<Vec<_>>(), [r#"{"listeners":{"http":"127.0.0.1:1"}}"#]);
    rig.core.finish();
    while rig.store.release(usize::MAX) > 0 {}
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "log", None))]);
    rig.pass();
    let last = rig.until(&mut peer);
    assert_eq!(last.iter().map(|d| d.envelope.key().to_owned()).collect::<Vec<_>>(), ["broker.stopped"]);
}

#[test]
fn a_topic_subscriber_sees_events_when_their_exchange_is_bound_to_the_topics() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let (reply, mut parts) = tokio::sync::oneshot::channel();
    let what = Subscribe { patterns: vec![name("queue.*"), name("queue.deleted")], from: From::Latest };
    rig.core.take(crate::fold::inbox::Inbox::Subscribe { vhost: name("/"), what, reply }, rig.now);
    rig.settle();
    let _parts = parts.try_recv().expect("answered").expect("subscribed");
    let bridge = BindingSpec {
        exchange: name(AMQ_EVENT),
        target: BindTarget::Exchange(name("amq.topic")),
        key: name("#"),
        arguments: Vec::new(),
    };
    define(&mut rig, &mut peer, Define::Bind(bridge));
    let fed = |rig: &Rig| rig.shared().metrics.feed_events.load(Ordering::Relaxed);
    let before = fed(&rig);
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    define(&mut rig, &mut peer, Define::DeleteQueue { name: name("q"), if_unused: false, if_empty: false });
    rig.settle();
    assert_eq!(fed(&rig), before + 2);
    let Ok(Reply::Topic(topic)) = rig.call(&mut peer, Request::Query(Query::Topic(name("queue.deleted"))))
    else {
        panic!("a topic")
    };
    assert_eq!(topic.next.0, 0, "events are not kept by topics, though one has that name");
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn clients_cannot_publish_events() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let forged = Publish {
        answer: crate::request::Answer::Reply,
        ..Publish::new(name(AMQ_EVENT), name("queue.created"), frame("x"))
    };
    assert!(rig.call(&mut peer, Request::Publish(forged)).is_err());
    let spec = ExchangeSpec {
        name: name("amq.framegate.other"),
        kind: ExchangeKind::Topic,
        durable: true,
        auto_delete: false,
        internal: false,
        alternate: None,
    };
    assert!(rig.call(&mut peer, Request::Define(Define::Exchange(spec))).is_err());
}
