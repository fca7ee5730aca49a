//! Consistent-hash exchanges: how keys spread, and what moves.

use super::{Parts, Targets, TopologyEditor};
use crate::definition::{
    BindTarget, BindingSpec, ExchangeKind, ExchangeSpec, HashOn, HashProperty, HeaderValue,
};
use crate::ids::QueueId;
use crate::name::Name;

const V: &str = "/";
const KEYS: usize = 20_000;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn binding(queue: u32, weight: &str) -> BindingSpec {
    let target = BindTarget::Queue(name(&format!("q{queue}")));
    BindingSpec { exchange: name("x"), target, key: name(weight), arguments: Vec::new() }
}

fn exchange(kind: ExchangeKind) -> TopologyEditor {
    let mut editor = TopologyEditor::new(&[name(V)]);
    let (durable, auto_delete, internal, alternate) = (true, false, false, None);
    editor.declare_exchange(
        V,
        ExchangeSpec { name: name("x"), kind, durable, auto_delete, internal, alternate },
    );
    for id in 0..20 {
        editor.add_queue(V, name(&format!("q{id}")), QueueId(id));
    }
    editor
}

fn by_key(bindings: &[(u32, &str)]) -> TopologyEditor {
    let mut editor = exchange(ExchangeKind::ConsistentHash(HashOn::Key));
    for (queue, weight) in bindings {
        assert!(editor.bind(V, &binding(*queue, weight)));
    }
    editor
}

/// The queue of each of many keys.
fn places(editor: &TopologyEditor) -> Vec<u32> {
    let place = |i| {
        let mut out = Targets::default();
        let key = [name(&format!("customer-{i}"))];
        editor
            .current()
            .route(V, "x", &key, &|_: &mut dyn FnMut(&str, HeaderValue<'_>)| {}, &mut out)
            .unwrap();
        assert_eq!(out.queues.len(), 1, "one queue a message");
        out.queues[0].0
    };
    (0..KEYS).map(place).collect()
}

fn share(places: &[u32], queue: u32) -> f64 {
    places.iter().filter(|q| **q == queue).count() as f64 / places.len() as f64
}

#[test]
fn keys_spread_by_weight() {
    let places = places(&by_key(&[(0, "1"), (1, "1"), (2, "2"), (3, "4")]));
    for (queue, expected) in [(0, 0.125), (1, 0.125), (2, 0.25), (3, 0.5)] {
        let share = share(&places, queue);
        // five standard deviations of so many draws
        let bound = 5.0 * (expected * (1.0 - expected) / KEYS as f64).sqrt();
        assert!((share - expected).abs() < bound, "queue {queue} has {share}, not {expected}");
    }
}

#[test]
fn the_order_of_binding_changes_nothing() {
    let forth = [(0, "1"), (1, "3"), (2, "1"), (3, "3"), (4, "10")];
    let mut back = forth;
    back.reverse();
    assert_eq!(places(&by_key(&forth)), places(&by_key(&back)));
}

#[test]
fn only_the_keys_of_a_removed_queue_move() {
    let all: Vec<(u32, &str)> = (0..10).map(|queue| (queue, "1")).collect();
    let mut editor = by_key(&all);
    let before = places(&editor);
    editor.unbind(V, &binding(4, "1"));
    let after = places(&editor);
    let moved = before.iter().zip(&after).filter(|(a, b)| a != b).count();
    assert_eq!(moved, before.iter().filter(|q| **q == 4).count());
    assert!(before.iter().zip(&after).all(|(a, b)| a == b || *a == 4), "nobody else lost a key");
    editor.bind(V, &binding(4, "1"));
    assert_eq!(places(&editor), before, "and they come back");
}

#[test]
fn a_higher_weight_only_draws_keys() {
    let light = places(&by_key(&[(0, "1"), (1, "1"), (2, "1")]));
    let heavy = places(&by_key(&[(0, "1"), (1, "1"), (2, "5")]));
    assert!(light.iter().zip(&heavy).all(|(a, b)| a == b || *b == 2));
    assert!(share(&heavy, 2) > 0.65);
}

#[test]
fn the_places_are_the_same_in_every_process() {
    let places = places(&by_key(&[(0, "1"), (1, "1"), (2, "1"), (3, "2")]));
    assert_eq!(places[..12], FIXED, "queues of a running system would change their keys");
}

/// Where the first keys are.
const FIXED: [u32; 12] = [0, 0, 3, 3, 3, 3, 3, 1, 2, 3, 1, 3];

#[test]
fn a_header_or_a_property_can_be_hashed() {
    let route = |editor: &TopologyEditor, key: &str, header: i64, id: &str| {
        let headers = |visit: &mut dyn FnMut(&str, HeaderValue<'_>)| {
            visit("other", HeaderValue::Int(1));
            visit("customer", HeaderValue::Int(header));
        };
        let property = |property| (property == HashProperty::MessageId).then(|| id.to_owned());
        let keys = [name(key)];
        let parts = Parts { keys: &keys, headers: &headers, property: &property, delayed: false };
        let mut out = Targets::default();
        editor.current().route_parts(V, "x", &parts, &mut out).unwrap();
        out.queues[0].0
    };
    let all = |on| {
        let mut editor = exchange(ExchangeKind::ConsistentHash(on));
        (0..10).for_each(|queue| assert!(editor.bind(V, &binding(queue, "1"))));
        editor
    };
    let different = |places: Vec<u32>| places.iter().any(|q| *q != places[0]);
    let header = all(HashOn::Header(name("customer")));
    assert!(!different((0..50).map(|i| route(&header, &i.to_string(), 7, &i.to_string())).collect()));
    assert!(different((0..50).map(|i| route(&header, "k", i, "id")).collect()));
    let property = all(HashOn::Property(HashProperty::MessageId));
    assert!(!different((0..50).map(|i| route(&property, &i.to_string(), i, "id")).collect()));
    assert!(different((0..50).map(|i| route(&property, "k", 7, &i.to_string())).collect()));
    let missing = all(HashOn::Property(HashProperty::Timestamp));
    assert!(!different((0..50).map(|i| route(&missing, &i.to_string(), i, &i.to_string())).collect()));
}

#[test]
fn a_binding_key_must_be_a_weight() {
    let editor = by_key(&[]);
    for key in ["", "0", "-1", "1.5", "abc", "1000001", "#"] {
        let refused = editor.check_bind(&name(V), &binding(1, key)).unwrap_err().to_string();
        let expected = format!("binding key '{key}' is no weight: a whole number from 1 to 1000000");
        assert_eq!(refused, expected);
    }
    assert_eq!(editor.check_bind(&name(V), &binding(1, "1000000")), Ok(true));
    let mut out = Targets::default();
    let none = |_: &mut dyn FnMut(&str, HeaderValue<'_>)| {};
    editor.current().route(V, "x", &[name("k")], &none, &mut out).unwrap();
    assert!(out.is_empty(), "without bindings it is unroutable");
}

#[test]
fn a_delayed_exchange_notes_what_is_early_and_routes_the_rest() {
    let mut editor = exchange(ExchangeKind::Delayed(Box::new(ExchangeKind::Topic)));
    editor.bind(V, &binding(3, "a.*"));
    let to_x = BindingSpec {
        exchange: name("amq.fanout"),
        target: BindTarget::Exchange(name("x")),
        key: name(""),
        arguments: Vec::new(),
    };
    editor.bind(V, &to_x);
    let route = |exchange: &str, delayed| {
        let keys = [name("a.b")];
        let parts = Parts { keys: &keys, headers: &|_| {}, property: &|_| None, delayed };
        let mut out = Targets::default();
        editor.current().route_parts(V, exchange, &parts, &mut out).unwrap();
        (out.queues.to_vec(), out.parked)
    };
    for exchange in ["x", "amq.fanout"] {
        assert_eq!(route(exchange, false), (vec![QueueId(3)], vec![]));
        assert_eq!(route(exchange, true), (vec![], vec![name("x")]));
    }
}
