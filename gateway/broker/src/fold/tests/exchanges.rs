//! Exchanges: declared again, deleted with their last binding, closed to clients, before each other.

use super::rig::{Peer, Rig, frame, name, pull, queue, text};
use crate::definition::{
    BindTarget, BindingSpec, ExchangeKind, ExchangeSpec, HashOn, HashProperty, QueueProperties, QueueSpec,
};
use crate::error::{BrokerError, Kind};
use crate::request::{Answer, Define, Effect, Publish, Query, Reply, Request};

fn spec(name_: &str, kind: ExchangeKind) -> ExchangeSpec {
    let (durable, auto_delete, internal, alternate) = (true, false, false, None);
    ExchangeSpec { name: name(name_), kind, durable, auto_delete, internal, alternate }
}

fn declare(rig: &mut Rig, peer: &mut Peer, spec: ExchangeSpec) -> Result<Reply, BrokerError> {
    rig.call(peer, Request::Define(Define::Exchange(spec)))
}

fn binding(exchange: &str, target: BindTarget, key: &str) -> BindingSpec {
    BindingSpec { exchange: name(exchange), target, key: name(key), arguments: Vec::new() }
}

fn bind(rig: &mut Rig, peer: &mut Peer, binding: BindingSpec) {
    rig.call(peer, Request::Define(Define::Bind(binding))).expect("bound");
}

fn to_queue(name_: &str) -> BindTarget {
    BindTarget::Queue(name(name_))
}

fn to_exchange(name_: &str) -> BindTarget {
    BindTarget::Exchange(name(name_))
}

fn exchanges(rig: &mut Rig, peer: &mut Peer) -> Vec<String> {
    match rig.call(peer, Request::Query(Query::Exchanges)) {
        Ok(Reply::Exchanges(all)) => {
            let own = all.into_iter().filter(|e| !e.name.is_empty() && !e.name.starts_with("amq."));
            own.map(|e| e.name.to_string()).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn declaring_again_names_what_differs_in_the_order_of_its_weight() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let hash = |header: &str| ExchangeKind::ConsistentHash(HashOn::Header(name(header)));
    let first = ExchangeSpec { alternate: Some(name("alt")), ..spec("x", hash("h")) };
    declare(&mut rig, &mut peer, first.clone()).expect("declared");
    let Ok(Reply::Exchange(again)) = declare(&mut rig, &mut peer, first.clone()) else { panic!("declared") };
    assert_eq!((again.kind.clone(), again.alternate.as_deref()), (hash("h"), Some("alt")));
    let shown: Vec<_> = again.arguments().iter().map(|(n, v)| format!("{n}={v:?}")).collect();
    assert_eq!(shown, ["hash-header=Text(\"h\")", "alternate-exchange=Text(\"alt\")"]);
    let all_wrong = ExchangeSpec {
        kind: ExchangeKind::Topic,
        durable: false,
        auto_delete: true,
        internal: true,
        alternate: None,
        ..first.clone()
    };
    let cases = [
        (all_wrong.clone(), ("type", "x-consistent-hash", "topic")),
        (ExchangeSpec { kind: hash("g"), ..all_wrong.clone() }, ("hash-header", "h", "g")),
        (
            ExchangeSpec {
                kind: ExchangeKind::ConsistentHash(HashOn::Property(HashProperty::MessageId)),
                ..first.clone()
            },
            ("hash-header", "h", "none"),
        ),
        (ExchangeSpec { kind: hash("h"), ..all_wrong }, ("durable", "true", "false")),
        (ExchangeSpec { auto_delete: true, ..first.clone() }, ("auto_delete", "false", "true")),
        (ExchangeSpec { internal: true, ..first.clone() }, ("internal", "false", "true")),
        (ExchangeSpec { alternate: None, ..first.clone() }, ("alternate-exchange", "alt", "none")),
        (ExchangeSpec { alternate: Some(name("b")), ..first }, ("alternate-exchange", "alt", "b")),
    ];
    for (given, (wrong, now, wanted)) in cases {
        match declare(&mut rig, &mut peer, given.clone()) {
            Err(BrokerError::Inequivalent { kind: Kind::Exchange, name, argument, current, given }) => {
                assert_eq!((&*name, &*argument, &*current, &*given), ("x", wrong, now, wanted));
            }
            other => panic!("{given:?}: {other:?}"),
        }
    }
    let delayed = |inner| ExchangeKind::Delayed(Box::new(inner));
    declare(&mut rig, &mut peer, spec("d", delayed(ExchangeKind::Direct))).expect("declared");
    let refused = declare(&mut rig, &mut peer, spec("d", delayed(ExchangeKind::Topic))).expect_err("refused");
    assert_eq!(refused.to_string(), "exchange 'd' exists with x-delayed-type 'direct', not 'topic'");
    let refused = declare(&mut rig, &mut peer, spec("d", ExchangeKind::Direct)).expect_err("refused");
    assert_eq!(refused.to_string(), "exchange 'd' exists with type 'x-delayed-message', not 'direct'");
    declare(&mut rig, &mut peer, spec("amq.topic", ExchangeKind::Topic)).expect("the same as it is");
}

#[test]
fn kinds_with_their_arguments_are_there_after_a_restart() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let hash = ExchangeKind::ConsistentHash(HashOn::Property(HashProperty::CorrelationId));
    let kinds = [hash.clone(), ExchangeKind::Delayed(Box::new(hash))];
    for (i, kind) in kinds.iter().enumerate() {
        declare(&mut rig, &mut peer, spec(&format!("x{i}"), kind.clone())).expect("declared");
    }
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    for (i, kind) in kinds.iter().enumerate() {
        declare(&mut rig, &mut peer, spec(&format!("x{i}"), kind.clone())).expect("the same as before");
    }
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn an_auto_delete_exchange_goes_with_its_last_binding_and_not_before_it_had_one() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    for x in ["a", "b", "c"] {
        declare(&mut rig, &mut peer, ExchangeSpec { auto_delete: true, ..spec(x, ExchangeKind::Fanout) })
            .expect("declared");
    }
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    bind(&mut rig, &mut peer, binding("amq.direct", to_exchange("a"), "k"));
    assert_eq!(exchanges(&mut rig, &mut peer), ["a", "b", "c"], "a binding to it is none from it");
    // a leads to b leads to q: when q goes, b goes, and then a
    bind(&mut rig, &mut peer, binding("a", to_exchange("b"), ""));
    bind(&mut rig, &mut peer, binding("b", to_queue("q"), ""));
    bind(&mut rig, &mut peer, binding("c", to_queue("q"), "1"));
    bind(&mut rig, &mut peer, binding("c", to_queue("q"), "2"));
    rig.call(&mut peer, Request::Define(Define::Unbind(binding("c", to_queue("q"), "1")))).expect("unbound");
    assert_eq!(exchanges(&mut rig, &mut peer), ["a", "b", "c"]);
    rig.call(&mut peer, Request::Define(Define::Unbind(binding("c", to_queue("q"), "2")))).expect("unbound");
    assert_eq!(exchanges(&mut rig, &mut peer), ["a", "b"]);
    let delete = Define::DeleteQueue { name: name("q"), if_unused: false, if_empty: false };
    rig.call(&mut peer, Request::Define(delete)).expect("deleted");
    assert!(exchanges(&mut rig, &mut peer).is_empty());
    assert_eq!(rig.hashes().0, rig.hashes().1);
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    assert!(exchanges(&mut rig, &mut peer).is_empty(), "what was decided is in the log");
}

#[test]
fn an_auto_delete_exchange_goes_with_the_connection_of_its_only_queue() {
    let mut rig = Rig::new();
    let (mut owner, mut other) = (rig.connect(), rig.connect());
    let mine = QueueSpec { name: name("mine"), exclusive: true, ..QueueSpec::default() };
    rig.call(&mut owner, Request::Define(Define::Queue(mine))).expect("declared");
    declare(&mut rig, &mut owner, ExchangeSpec { auto_delete: true, ..spec("x", ExchangeKind::Topic) })
        .expect("declared");
    bind(&mut rig, &mut owner, binding("x", to_queue("mine"), "#"));
    rig.disconnect(owner);
    assert!(exchanges(&mut rig, &mut other).is_empty());
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn an_internal_exchange_is_for_exchanges_and_dead_letters_only() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    declare(&mut rig, &mut peer, ExchangeSpec { internal: true, ..spec("inner", ExchangeKind::Fanout) })
        .expect("declared");
    rig.call(&mut peer, queue("all", QueueProperties::default())).expect("declared");
    let properties =
        QueueProperties { dead_letter_exchange: Some(name("inner")), ..QueueProperties::default() };
    rig.call(&mut peer, queue("short", properties)).expect("declared");
    bind(&mut rig, &mut peer, binding("inner", to_queue("all"), ""));
    bind(&mut rig, &mut peer, binding("amq.direct", to_exchange("inner"), "k"));
    let publish = |exchange: &str, body: &str| Publish {
        persistent: true,
        answer: Answer::Reply,
        ..Publish::new(name(exchange), name("k"), frame(body))
    };
    let refused = rig.call(&mut peer, Request::Publish(publish("inner", "direct"))).expect_err("refused");
    assert!(matches!(refused, BrokerError::Reserved { kind: Kind::Exchange, .. }), "{refused}");
    rig.call(&mut peer, Request::Publish(publish("amq.direct", "through"))).expect("published");
    let expiring = Publish { ttl_ms: Some(1), ..Publish::new(name(""), name("short"), frame("dead")) };
    rig.put(&mut peer, expiring);
    rig.wait(1);
    rig.settle();
    let Ok(Reply::Fetched { messages, .. }) = rig.call(&mut peer, pull(9, "all", 9, 0, true)) else {
        panic!("fetched")
    };
    assert_eq!(messages.iter().map(text).collect::<Vec<_>>(), ["through", "dead"]);
}

#[test]
fn what_matches_nothing_goes_along_the_alternates_and_is_returned_at_their_end() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    let with = |x: &str, alternate: &str| ExchangeSpec {
        alternate: Some(name(alternate)),
        ..spec(x, ExchangeKind::Direct)
    };
    for spec in [with("a", "b"), with("b", "c"), with("c", "a"), with("d", "nowhere")] {
        declare(&mut rig, &mut peer, spec).expect("declared");
    }
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    bind(&mut rig, &mut peer, binding("c", to_queue("q"), "k"));
    for (exchange, key, back) in [("a", "k", false), ("a", "other", true), ("d", "k", true)] {
        let publish = Publish { mandatory: true, ..Publish::new(name(exchange), name(key), frame("m")) };
        rig.put(&mut peer, publish);
        let returned = peer.effects().iter().any(|e| matches!(e, Effect::Returned { .. }));
        assert_eq!(returned, back, "{exchange} {key}");
    }
}
