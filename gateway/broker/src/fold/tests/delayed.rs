//! Exchanges for delayed messages: held, routed when due, over restarts.

use super::rig::{Peer, Rig, consumer, frame, name, queue, text};
use crate::definition::{BindTarget, BindingSpec, ExchangeKind, ExchangeSpec, HeaderValue, QueueProperties};
use crate::error::BrokerError;
use crate::request::{Answer, Define, Effect, Publish, Query, Reply, Request};

fn delayed(name_: &str, inner: ExchangeKind) -> Request {
    let spec = ExchangeSpec {
        name: name(name_),
        kind: ExchangeKind::Delayed(Box::new(inner)),
        durable: true,
        auto_delete: false,
        internal: false,
        alternate: None,
    };
    Request::Define(Define::Exchange(spec))
}

fn bind(exchange: &str, queue: &str, key: &str) -> Request {
    let target = BindTarget::Queue(name(queue));
    let binding = BindingSpec { exchange: name(exchange), target, key: name(key), arguments: Vec::new() };
    Request::Define(Define::Bind(binding))
}

fn later(exchange: &str, key: &str, body: &str, delay_ms: u64) -> Publish {
    Publish {
        persistent: true,
        delay_ms,
        answer: Answer::Reply,
        ..Publish::new(name(exchange), name(key), frame(body))
    }
}

/// Bodies of everything in a queue, taken.
fn drain(rig: &mut Rig, peer: &mut Peer, queue: &str) -> Vec<String> {
    let pull = super::rig::pull(900, queue, 1000, 0, true);
    match rig.call(peer, pull) {
        Ok(Reply::Fetched { messages, .. }) => messages.iter().map(text).collect(),
        other => panic!("{other:?}"),
    }
}

fn setup(inner: ExchangeKind) -> (Rig, Peer) {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, delayed("later", inner)).expect("declared");
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.call(&mut peer, bind("later", "q", "k")).expect("bound");
    (rig, peer)
}

#[test]
fn messages_come_at_their_times_and_in_the_order_of_their_times() {
    let (mut rig, mut peer) = setup(ExchangeKind::Direct);
    for (body, delay) in [("c", 300), ("a", 100), ("b", 200), ("a2", 100), ("now", 0)] {
        let published = rig.call(&mut peer, Request::Publish(later("later", "k", body, delay)));
        let Ok(Reply::Published(published)) = published else { panic!("{published:?}") };
        assert!(published.routed, "mandatory is answered as routed");
        assert_eq!(published.queues, u32::from(delay == 0));
    }
    assert_eq!(drain(&mut rig, &mut peer, "q"), ["now"]);
    rig.wait(99);
    rig.settle();
    assert!(drain(&mut rig, &mut peer, "q").is_empty(), "none early");
    rig.wait(1);
    rig.settle();
    assert_eq!(drain(&mut rig, &mut peer, "q"), ["a", "a2"]);
    rig.wait(10_000);
    rig.settle();
    assert_eq!(drain(&mut rig, &mut peer, "q"), ["b", "c"]);
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn a_held_message_survives_a_restart_and_comes_once() {
    let (mut rig, mut peer) = setup(ExchangeKind::Topic);
    for (body, delay) in [("c", 300), ("a", 100), ("b", 200)] {
        rig.put(&mut peer, later("later", "k", body, delay));
    }
    let transient = Publish { persistent: false, ..later("later", "k", "lost", 100) };
    rig.put(&mut peer, transient);
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    rig.wait(99);
    rig.settle();
    assert!(drain(&mut rig, &mut peer, "q").is_empty());
    rig.wait(1);
    rig.settle();
    // another start, with everything due meanwhile
    rig.wait(500);
    rig = Rig::on(&rig.store, rig.now);
    rig.settle();
    let mut peer = rig.connect();
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", None))]);
    rig.pass();
    let mut got = Vec::new();
    while got.len() < 3 {
        got.extend(rig.until(&mut peer).iter().map(text));
    }
    assert_eq!(got, ["a", "b", "c"]);
    rig.settle();
    assert!(peer.deliveries().is_empty(), "none twice");
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn it_is_routed_by_the_bindings_of_its_time() {
    let (mut rig, mut peer) = setup(ExchangeKind::Direct);
    rig.call(&mut peer, queue("r", QueueProperties::default())).expect("declared");
    rig.put(&mut peer, later("later", "k", "a", 100));
    rig.put(&mut peer, later("later", "other", "b", 100));
    let Request::Define(Define::Bind(first)) = bind("later", "q", "k") else { panic!("a binding") };
    rig.call(&mut peer, Request::Define(Define::Unbind(first))).expect("unbound");
    rig.call(&mut peer, bind("later", "r", "k")).expect("bound");
    rig.call(&mut peer, bind("later", "r", "other")).expect("bound");
    rig.wait(100);
    rig.settle();
    assert!(drain(&mut rig, &mut peer, "q").is_empty());
    assert_eq!(drain(&mut rig, &mut peer, "r"), ["a", "b"]);
    rig.put(&mut peer, later("later", "k", "gone", 100));
    let name_ = name("later");
    rig.call(&mut peer, Request::Define(Define::DeleteExchange { name: name_, if_unused: false }))
        .expect("gone");
    rig.wait(100);
    rig.settle();
    assert!(drain(&mut rig, &mut peer, "r").is_empty());
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn time_to_live_begins_when_it_is_routed() {
    let (mut rig, mut peer) = setup(ExchangeKind::Fanout);
    rig.put(&mut peer, Publish { ttl_ms: Some(50), ..later("later", "k", "a", 100) });
    rig.wait(100);
    rig.settle();
    rig.wait(49);
    rig.settle();
    let ready = |rig: &mut Rig, peer: &mut Peer| match rig.call(peer, Request::Query(Query::Queue(name("q"))))
    {
        Ok(Reply::Queue(info)) => info.ready,
        other => panic!("{other:?}"),
    };
    assert_eq!(ready(&mut rig, &mut peer), 1);
    rig.wait(1);
    rig.settle();
    assert_eq!(ready(&mut rig, &mut peer), 0);
}

#[test]
fn headers_are_read_when_it_is_routed_though_its_frame_has_left_memory() {
    let (mut rig, mut peer) = setup(ExchangeKind::Headers);
    let target = BindTarget::Queue(name("q"));
    let arguments = vec![(name("color"), HeaderValue::Text("red".into()))];
    let binding = BindingSpec { exchange: name("later"), target: target.clone(), key: name(""), arguments };
    rig.call(&mut peer, Request::Define(Define::Bind(binding))).expect("bound");
    // the binding of the set-up has no criteria and matches everything
    let all = BindingSpec { exchange: name("later"), target, key: name("k"), arguments: Vec::new() };
    rig.call(&mut peer, Request::Define(Define::Unbind(all))).expect("unbound");
    for color in ["red", "blue"] {
        let attributes = [("datacontenttype", "text/plain"), ("color", color)];
        let limits = framegate_frame::Limits::GATEWAY;
        let frame = framegate_frame::Frame::build(
            framegate_frame::FrameKind::Event,
            attributes,
            color.as_bytes(),
            &limits,
        );
        rig.put(&mut peer, Publish { frame: frame.expect("a frame"), ..later("later", "k", "", 100) });
    }
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    rig.wait(100);
    rig.settle();
    assert_eq!(drain(&mut rig, &mut peer, "q"), ["red"]);
}

#[test]
fn the_hidden_queue_is_nobodys() {
    let (mut rig, mut peer) = setup(ExchangeKind::Direct);
    rig.put(&mut peer, later("later", "k", "a", 100));
    let Ok(Reply::Queues(queues)) = rig.call(&mut peer, Request::Query(Query::Queues)) else {
        panic!("queues")
    };
    assert_eq!(queues.iter().map(|q| q.name.as_str()).collect::<Vec<_>>(), ["q"]);
    let Ok(Reply::Stats(stats)) = rig.call(&mut peer, Request::Query(Query::Stats)) else { panic!("stats") };
    assert_eq!((stats.queues, stats.ready), (1, 0));
    let hidden = "amq.framegate.delayed";
    let taken = rig.call(&mut peer, super::rig::pull(1, hidden, 1, 0, true));
    assert!(matches!(taken, Err(BrokerError::NotFound { .. })), "{taken:?}");
    let declared = rig.call(&mut peer, queue(hidden, QueueProperties::default()));
    assert!(matches!(declared, Err(BrokerError::Reserved { .. })), "{declared:?}");
    let push = Publish { create_queue: true, ..later("", hidden, "x", 0) };
    let pushed = rig.call(&mut peer, Request::Publish(push));
    assert!(matches!(pushed, Err(BrokerError::Reserved { .. })), "{pushed:?}");
}

#[test]
fn a_thousand_due_at_once_come_in_order_and_a_duplicate_is_known_before_it_is_routed() {
    let (mut rig, mut peer) = setup(ExchangeKind::Direct);
    let dedup = |i: u32| Some(crate::message::Dedup { key: [(i % 251) as u8; 16], content: i.into() });
    rig.put(&mut peer, Publish { dedup: dedup(7), ..later("later", "k", "first", 50) });
    let again = Publish { dedup: dedup(7), ..later("later", "k", "first", 50) };
    let Ok(Reply::Published(known)) = rig.call(&mut peer, Request::Publish(again)) else {
        panic!("published")
    };
    assert!(known.duplicate);
    let many: Vec<Request> =
        (0..1500).map(|i| Request::Publish(later("later", "k", &i.to_string(), 100))).collect();
    rig.send(&mut peer, many);
    rig.settle();
    rig.wait(100);
    rig.settle();
    let mut expected = vec!["first".to_owned()];
    expected.extend((0..1500).map(|i| i.to_string()));
    let mut got = Vec::new();
    while got.len() < expected.len() {
        let more = drain(&mut rig, &mut peer, "q");
        assert!(!more.is_empty(), "{} came", got.len());
        got.extend(more);
    }
    assert_eq!(got, expected);
    let returned = |e: &Effect| matches!(e, Effect::Returned { .. });
    assert!(!peer.effects().iter().any(returned));
}
