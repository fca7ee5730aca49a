//! Routing through the editor and the snapshot, as the broker uses them.

use std::collections::BTreeSet;

use proptest::prelude::*;
use smallvec::SmallVec;

use super::headers::HeadersOf;
use super::pattern::tests::{OBSERVED, naive_text, text};
use super::topology::PREDECLARED;
use super::{Targets, Topology, TopologyEditor, is_predeclared};
use crate::definition::{Arguments, BindTarget, BindingSpec, ExchangeKind, ExchangeSpec, HeaderValue};
use crate::error::BrokerError;
use crate::ids::{QueueId, TopicId, WatchId};
use crate::name::Name;

const V: &str = "/";

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn exchange(text: &str, kind: ExchangeKind) -> ExchangeSpec {
    ExchangeSpec {
        name: name(text),
        kind,
        durable: true,
        auto_delete: false,
        internal: false,
        alternate: None,
    }
}

fn to_queue(exchange: &str, queue: &str, key: &str) -> BindingSpec {
    let target = BindTarget::Queue(name(queue));
    BindingSpec { exchange: name(exchange), target, key: name(key), arguments: Vec::new() }
}

fn to_exchange(exchange: &str, target: &str, key: &str) -> BindingSpec {
    BindingSpec { target: BindTarget::Exchange(name(target)), ..to_queue(exchange, "", key) }
}

/// A broker with queues q0 to q9 (ids 0 to 9).
fn editor() -> TopologyEditor {
    let mut editor = TopologyEditor::new(&[name(V), name("other")]);
    for id in 0..10 {
        editor.add_queue(V, name(&format!("q{id}")), QueueId(id));
    }
    editor
}

fn no_headers(_: &mut dyn FnMut(&str, HeaderValue<'_>)) {}

fn route_all(topology: &Topology, exchange: &str, keys: &[&str], headers: &HeadersOf<'_>) -> Targets {
    let keys: Vec<Name> = keys.iter().map(|key| name(key)).collect();
    let mut out = Targets::default();
    topology.route(V, exchange, &keys, headers, &mut out).unwrap();
    out
}

fn queues(topology: &Topology, exchange: &str, key: &str) -> Vec<u32> {
    route_all(topology, exchange, &[key], &no_headers).queues.iter().map(|id| id.0).collect()
}

#[test]
fn predeclared_exchanges_are_there_in_every_vhost() {
    let mut editor = editor();
    let topology = editor.publish().unwrap();
    assert!(editor.publish().is_none());
    for (exchange, _, internal) in PREDECLARED {
        let spec = topology.exchange("other", exchange).unwrap();
        assert!(spec.durable && !spec.auto_delete && is_predeclared(exchange));
        assert_eq!(spec.internal, internal);
    }
    assert!(!is_predeclared("amq.other") && topology.has_vhost("other") && !topology.has_vhost("none"));
    assert_eq!(editor.exchanges(V).len(), PREDECLARED.len());
}

#[test]
fn what_is_missing_is_named() {
    let topology = editor().publish().unwrap();
    let error = topology.route(V, "x", &[name("k")], &no_headers, &mut Targets::default()).unwrap_err();
    assert_eq!(error.to_string(), "exchange 'x' does not exist in vhost '/'");
    let error = topology.route("v", "x", &[name("k")], &no_headers, &mut Targets::default()).unwrap_err();
    assert_eq!(error.to_string(), "vhost 'v' does not exist in vhost 'v'");
}

#[test]
fn default_exchange_finds_the_queue_then_the_topic() {
    let mut editor = editor();
    editor.add_topic(V, name("q1"), TopicId(1));
    editor.add_topic(V, name("news"), TopicId(2));
    let (watch, _) = editor.add_watch(&name(V), &[name("*")]);
    let topology = editor.publish().unwrap();
    let to = |key| route_all(&topology, "", &[key], &no_headers);
    assert_eq!((to("q1").queues.as_slice(), to("q1").topics.is_empty()), (&[QueueId(1)][..], true));
    assert!(to("q1").watches.is_empty());
    let news = to("news");
    assert_eq!((news.topics.as_slice(), news.watches.as_slice()), (&[TopicId(2)][..], &[watch][..]));
    assert!(to("none").is_empty() && to("").is_empty());
    assert!(queues(&topology, "", "q1.").is_empty());
}

#[test]
fn direct_and_fanout_keep_the_order_of_bindings_and_give_each_queue_once() {
    let mut editor = editor();
    for (queue, key) in [("q3", "a"), ("q1", "a"), ("q2", "b"), ("q1", "b"), ("q1", "")] {
        assert!(editor.bind(V, &to_queue("amq.direct", queue, key)));
        assert!(
            !editor.bind(V, &to_queue("amq.direct", queue, key)),
            "again is no error and changes nothing"
        );
        assert!(editor.bind(V, &to_queue("amq.fanout", queue, key)));
    }
    let topology = editor.publish().unwrap();
    assert_eq!(queues(&topology, "amq.direct", "a"), [3, 1]);
    assert_eq!(queues(&topology, "amq.direct", ""), [1]);
    assert_eq!(route_all(&topology, "amq.direct", &["b", "a"], &no_headers).queues.len(), 3);
    assert_eq!(queues(&topology, "amq.fanout", "whatever"), [3, 1, 2]);
    assert_eq!(editor.unbind(V, &to_queue("amq.direct", "q3", "a")).bindings.len(), 1);
    assert!(editor.unbind(V, &to_queue("amq.direct", "q3", "a")).bindings.is_empty());
    assert_eq!(queues(&topology, "amq.direct", "a"), [3, 1], "a snapshot never changes");
    assert_eq!(queues(&editor.publish().unwrap(), "amq.direct", "a"), [1]);
}

#[test]
fn topic_patterns_match_as_observed_on_rabbitmq() {
    for (key, matching, others) in OBSERVED {
        for (pattern, matches) in matching.iter().map(|p| (p, true)).chain(others.iter().map(|p| (p, false)))
        {
            let mut editor = editor();
            editor.bind(V, &to_queue("amq.topic", "q1", pattern));
            let found = queues(editor.current(), "amq.topic", key);
            assert_eq!(found.len(), usize::from(matches), "{pattern:?} {key:?}");
        }
    }
}

#[test]
fn overlapping_patterns_of_one_queue_give_one_copy() {
    let mut editor = editor();
    for pattern in ["#", "a.#", "#.#", "*.b", "a.b", "#.b", "a.*"] {
        editor.bind(V, &to_queue("amq.topic", "q5", pattern));
    }
    editor.bind(V, &to_queue("amq.topic", "q4", "a.b"));
    assert_eq!(queues(editor.current(), "amq.topic", "a.b"), [5, 4]);
    assert_eq!(queues(editor.current(), "amq.topic", "a..b"), [5]);
    for pattern in ["#", "#.#", "a.#", "#.b"] {
        editor.unbind(V, &to_queue("amq.topic", "q5", pattern));
    }
    assert!(queues(editor.current(), "amq.topic", "a..b").is_empty());
    assert_eq!(queues(editor.current(), "amq.topic", "a.b"), [5, 4]);
}

#[test]
fn longest_keys_and_hostile_patterns_route_at_once() {
    let mut editor = editor();
    let (dots, words) = (".".repeat(255), ["a"; 128].join("."));
    for pattern in [["#.a"; 64].join("."), ["*"; 128].join("."), ["#.*"; 64].join("."), dots.clone()] {
        editor.bind(V, &to_queue("amq.topic", "q1", &pattern));
    }
    assert_eq!(queues(editor.current(), "amq.topic", &dots), [1]);
    assert_eq!(queues(editor.current(), "amq.topic", &words), [1]);
    let targets = route_all(editor.current(), "amq.topic", &[&words], &no_headers);
    assert!(targets.comparisons < 128 * 300, "{} comparisons", targets.comparisons);
}

#[test]
fn ten_thousand_bindings_that_do_not_match_cost_what_ten_cost() {
    let fill = |count: u32, kind: ExchangeKind, turned: bool| {
        let mut editor = TopologyEditor::new(&[name(V)]);
        editor.declare_exchange(V, exchange("x", kind));
        for i in 0..count {
            editor.add_queue(V, name(&format!("q{i}")), QueueId(i));
            let mut binding = to_queue("x", &format!("q{i}"), &format!("orders.{i}.*"));
            binding.arguments = vec![
                (name("kind"), HeaderValue::Text("order".into())),
                (name("number"), HeaderValue::Int(i.into())),
            ];
            if turned {
                binding.arguments.reverse();
            }
            editor.bind(V, &binding);
        }
        editor.publish().unwrap()
    };
    let headers = |visit: &mut dyn FnMut(&str, HeaderValue<'_>)| {
        visit("kind", HeaderValue::Text("order".into()));
        visit("number", HeaderValue::Int(-1));
    };
    let headers_kind = || ExchangeKind::Headers;
    for (kind, turned) in [
        (ExchangeKind::Direct, false),
        (ExchangeKind::Topic, false),
        (headers_kind(), false),
        (headers_kind(), true),
    ] {
        let comparisons = |count| {
            let targets = route_all(&fill(count, kind.clone(), turned), "x", &["orders.none.paid"], &headers);
            assert!(targets.is_empty());
            targets.comparisons
        };
        assert_eq!(comparisons(10), comparisons(10_000), "{kind:?}");
        assert!(comparisons(10) <= 6);
    }
}

#[test]
fn exchanges_lead_to_exchanges_and_cycles_end() {
    let mut editor = editor();
    for x in ["a", "b", "c"] {
        editor.declare_exchange(V, exchange(x, ExchangeKind::Fanout));
    }
    for (from, to) in [("a", "b"), ("b", "c"), ("c", "a"), ("a", "a"), ("c", "amq.direct")] {
        assert!(editor.bind(V, &to_exchange(from, to, "")));
    }
    editor.bind(V, &to_queue("b", "q1", ""));
    editor.bind(V, &to_queue("c", "q1", ""));
    editor.bind(V, &to_queue("amq.direct", "q2", "k"));
    assert_eq!(queues(editor.current(), "a", "k"), [1, 2]);
    assert_eq!(queues(editor.current(), "c", "other"), [1]);
}

#[test]
fn a_chain_of_a_thousand_exchanges_is_followed() {
    let mut editor = editor();
    for i in 0..1000 {
        editor.declare_exchange(V, exchange(&format!("x{i}"), ExchangeKind::Fanout));
    }
    for i in 1..1000 {
        editor.bind(V, &to_exchange(&format!("x{}", i - 1), &format!("x{i}"), ""));
    }
    editor.bind(V, &to_queue("x999", "q7", ""));
    assert_eq!(queues(editor.current(), "x0", ""), [7]);
}

#[test]
fn alternate_exchange_takes_what_matched_nothing() {
    let mut editor = editor();
    let with = |name_: &str, alternate: &str| ExchangeSpec {
        alternate: Some(name(alternate)),
        ..exchange(name_, ExchangeKind::Direct)
    };
    editor.declare_exchange(V, with("a", "b"));
    editor.declare_exchange(V, with("b", "a"));
    editor.declare_exchange(V, with("c", "missing"));
    editor.declare_exchange(V, with("d", ""));
    editor.declare_exchange(V, with("e", "amq.topic"));
    editor.add_topic(V, name("t"), TopicId(3));
    editor.bind(V, &to_queue("a", "q1", "k"));
    editor.bind(V, &to_queue("b", "q2", "k"));
    editor.bind(V, &to_queue("b", "q2", "other"));
    let topology = editor.publish().unwrap();
    assert_eq!(queues(&topology, "a", "k"), [1]);
    assert_eq!(queues(&topology, "a", "other"), [2]);
    assert!(queues(&topology, "a", "none").is_empty(), "a cycle of alternates ends");
    assert!(queues(&topology, "c", "k").is_empty());
    assert_eq!(queues(&topology, "d", "q3"), [3]);
    assert_eq!(route_all(&topology, "e", &["t"], &no_headers).topics.as_slice(), [TopicId(3)]);
}

#[test]
fn amq_topic_keeps_by_exact_name_and_shows_watches_all_that_matches() {
    let mut editor = editor();
    editor.add_topic(V, name("orders.eu"), TopicId(4));
    editor.bind(V, &to_queue("amq.topic", "q1", "orders.*"));
    editor.declare_exchange(V, exchange("x", ExchangeKind::Topic));
    let (all, new) = editor.add_watch(&name(V), &[name("orders.#"), name("orders.eu"), name("orders.#")]);
    let (again, second) = editor.add_watch(&name(V), &[name("orders.eu"), name("orders.#")]);
    assert!(new && !second && all == again, "one set of patterns is one watch");
    let (exact, _) = editor.add_watch(&name(V), &[name("orders.eu")]);
    let (elsewhere, _) = editor.add_watch(&name("other"), &[name("#")]);
    assert!(elsewhere != all && elsewhere != exact);
    let topology = editor.publish().unwrap();
    let eu = route_all(&topology, "amq.topic", &["orders.eu"], &no_headers);
    assert_eq!(
        (eu.queues.as_slice(), eu.topics.as_slice(), eu.watches.as_slice()),
        (&[QueueId(1)][..], &[TopicId(4)][..], &[all, exact][..])
    );
    let us = route_all(&topology, "amq.topic", &["orders.us"], &no_headers);
    assert_eq!((us.topics.is_empty(), us.watches.as_slice()), (true, &[all][..]));
    assert!(route_all(&topology, "x", &["orders.eu"], &no_headers).is_empty());
    let mut watches = SmallVec::new();
    topology.watches(V, "orders.eu", &mut watches);
    assert_eq!(watches.as_slice(), [all, exact]);
    assert_eq!((editor.subscribers(V, "orders.eu"), editor.subscribers(V, "orders.us")), (3, 2));
    assert_eq!(editor.counts(V).watches, 2);
    assert_eq!(editor.topics_of(all), [(name("orders.eu"), TopicId(4))]);
    assert_eq!(editor.topics_of(exact), [(name("orders.eu"), TopicId(4))]);
    assert!(!editor.remove_watch(all) && editor.remove_watch(all) && !editor.remove_watch(all));
    assert!(editor.watch(all).is_none() && editor.watch(exact).is_some());
    let topology = editor.publish().unwrap();
    assert_eq!(route_all(&topology, "amq.topic", &["orders.eu"], &no_headers).watches.as_slice(), [exact]);
    editor.remove_topic(V, &name("orders.eu"));
    assert!(route_all(editor.current(), "amq.topic", &["orders.eu"], &no_headers).topics.is_empty());
}

#[test]
fn a_topic_route_stays_on_the_stack() {
    let mut editor = editor();
    editor.bind(V, &to_queue("amq.topic", "q1", "orders.*.paid"));
    editor.bind(V, &to_queue("amq.topic", "q2", "orders.#"));
    editor.add_watch(&name(V), &[name("#")]);
    let targets = route_all(editor.current(), "amq.topic", &["orders.eu.paid"], &no_headers);
    assert_eq!(targets.queues.len() + targets.watches.len(), 3);
    assert!(!targets.queues.spilled() && !targets.watches.spilled());
}

#[test]
fn a_removed_queue_takes_its_bindings_and_names_exchanges_left_unused() {
    let mut editor = editor();
    for (x, kind) in [("a", ExchangeKind::Direct), ("b", ExchangeKind::Topic), ("c", ExchangeKind::Fanout)] {
        editor.declare_exchange(V, ExchangeSpec { auto_delete: true, ..exchange(x, kind) });
        editor.bind(V, &to_queue(x, "q1", "k"));
    }
    editor.bind(V, &to_queue("b", "q2", "k"));
    editor.bind(V, &to_exchange("amq.direct", "a", "k"));
    assert_eq!(editor.bindings(V, None, Some(&name("q1"))).len(), 3);
    assert_eq!(editor.bindings(V, Some("b"), Some(&name("q1"))).len(), 1);
    assert_eq!((editor.bindings(V, Some("b"), None).len(), editor.counts(V).bindings), (2, 5));
    let removed = editor.remove_queue(V, &name("q1"));
    assert_eq!(removed.bindings.iter().map(|b| b.exchange.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(removed.unused, [name("a"), name("c")]);
    assert!(!editor.is_used(V, "a") && editor.is_used(V, "b"));
    assert_eq!(queues(editor.current(), "b", "k"), [2]);
    assert!(queues(editor.current(), "", "q1").is_empty());
    let removed = editor.delete_exchange(V, &name("a"));
    assert_eq!(removed.bindings, [to_exchange("amq.direct", "a", "k")]);
    assert!(editor.current().exchange(V, "a").is_none() && editor.counts(V).bindings == 1);
    assert_eq!(editor.delete_exchange(V, &name("a")), super::Removed::default());
}

#[test]
fn binding_is_checked_before_it_is_made() {
    let mut editor = editor();
    let vhost = name(V);
    let check = |editor: &TopologyEditor, binding: &BindingSpec| editor.check_bind(&vhost, binding);
    assert_eq!(check(&editor, &to_queue("amq.direct", "q1", "k")), Ok(true));
    editor.bind(V, &to_queue("amq.direct", "q1", "k"));
    assert_eq!(check(&editor, &to_queue("amq.direct", "q1", "k")), Ok(false));
    assert!(matches!(check(&editor, &to_queue("", "q1", "k")), Err(BrokerError::Reserved { .. })));
    assert!(matches!(check(&editor, &to_exchange("amq.direct", "", "k")), Err(BrokerError::Reserved { .. })));
    for missing in
        [to_queue("x", "q1", "k"), to_queue("amq.direct", "x", "k"), to_exchange("amq.direct", "x", "k")]
    {
        assert!(matches!(check(&editor, &missing), Err(BrokerError::NotFound { .. })), "{missing:?}");
        assert!(!editor.bind(V, &missing));
    }
    let mut odd = to_queue("amq.headers", "q1", "");
    odd.arguments = vec![(name("x-match"), HeaderValue::Text("zzz".into()))];
    let refused = check(&editor, &odd).unwrap_err().to_string();
    assert_eq!(refused, "x-match 'zzz' is none of all, any, all-with-x, any-with-x");
    odd.exchange = name("amq.direct");
    assert_eq!(check(&editor, &odd), Ok(true), "only headers exchanges read arguments");
}

#[test]
fn arguments_make_bindings_different_but_not_their_order() {
    let mut editor = editor();
    let with = |arguments: Arguments| BindingSpec { arguments, ..to_queue("amq.headers", "q1", "") };
    let (a, b) = ((name("a"), HeaderValue::Int(1)), (name("b"), HeaderValue::Float(1.0)));
    assert!(editor.bind(V, &with(vec![a.clone(), b.clone()])));
    assert!(!editor.bind(V, &with(vec![b.clone(), a.clone()])));
    assert!(editor.bind(V, &with(vec![a.clone()])));
    assert!(editor.bind(V, &with(vec![(name("a"), HeaderValue::Float(1.0))])));
    assert_eq!(editor.counts(V).bindings, 3);
    assert_eq!(editor.unbind(V, &with(vec![b, a])).bindings.len(), 1);
}

/// The rules of reference/amqp.md 5, read aloud.
fn naive_headers(arguments: &Arguments, headers: &[(String, HeaderValue<'static>)]) -> bool {
    let mode = match arguments.iter().find(|(name, _)| name == "x-match") {
        Some((_, HeaderValue::Text(mode))) => mode.to_string(),
        _ => "all".to_owned(),
    };
    let mut known = BTreeSet::new();
    let mut results = arguments
        .iter()
        .filter(|(name, _)| known.insert(name.clone()))
        .filter(|(name, _)| name != "x-match" && (mode.ends_with("-with-x") || !name.starts_with("x-")))
        .map(|(name, wanted)| match headers.iter().find(|(header, _)| *name == header.as_str()) {
            None => false,
            Some((_, value)) => *wanted == HeaderValue::Null || wanted == value,
        });
    if mode.starts_with("all") { results.all(|fits| fits) } else { results.any(|fits| fits) }
}

fn value() -> impl Strategy<Value = HeaderValue<'static>> {
    proptest::sample::select(vec![
        HeaderValue::Null,
        HeaderValue::Bool(true),
        HeaderValue::Int(0),
        HeaderValue::Int(1),
        HeaderValue::Float(0.0),
        HeaderValue::Float(-0.0),
        HeaderValue::Float(1.0),
        HeaderValue::Time(1),
        HeaderValue::Text("1".into()),
        HeaderValue::Bytes(b"1"[..].into()),
    ])
}

fn arguments() -> impl Strategy<Value = Arguments> {
    let names = proptest::sample::select(vec!["a", "b", "c", "x-a"]);
    let mode = proptest::sample::select(vec!["", "all", "any", "all-with-x", "any-with-x"]);
    (mode, proptest::collection::vec((names, value()), 0..4)).prop_map(|(mode, rest)| {
        let rest = rest.into_iter().map(|(key, value)| (name(key), value));
        let mode = Some((name("x-match"), HeaderValue::Text(mode.into()))).filter(|_| !mode.is_empty());
        rest.chain(mode).collect()
    })
}

proptest! {
    #[test]
    fn topic_routes_agree_with_the_definition(
        bindings in proptest::collection::vec((text(true), 0_u32..10, any::<bool>()), 0..12),
        keys in proptest::collection::vec(text(false), 1..6),
    ) {
        let mut editor = editor();
        for (pattern, queue, _) in &bindings {
            editor.bind(V, &to_queue("amq.topic", &format!("q{queue}"), pattern));
        }
        let gone = |pattern: &str, queue: u32| {
            bindings.iter().any(|(p, q, remove)| *remove && p == pattern && *q == queue)
        };
        for (pattern, queue, _) in bindings.iter().filter(|(_, _, remove)| *remove) {
            editor.unbind(V, &to_queue("amq.topic", &format!("q{queue}"), pattern));
        }
        let topology = editor.publish().unwrap();
        for key in keys {
            let mut expected: Vec<u32> = Vec::new();
            for (pattern, queue, _) in &bindings {
                if naive_text(pattern, &key) && !gone(pattern, *queue) && !expected.contains(queue) {
                    expected.push(*queue);
                }
            }
            prop_assert_eq!(queues(&topology, "amq.topic", &key), expected, "{}", key);
        }
    }

    #[test]
    fn headers_routes_agree_with_the_definition(
        bindings in proptest::collection::vec((arguments(), 0_u32..10, any::<bool>()), 0..10),
        headers in proptest::collection::vec((proptest::sample::select(vec!["a", "b", "c", "d", "x-a", "x-match"]), value()), 0..6),
    ) {
        let mut editor = editor();
        let spec = |queue: u32, arguments: &Arguments| {
            BindingSpec { arguments: arguments.clone(), ..to_queue("amq.match", &format!("q{queue}"), "") }
        };
        for (arguments, queue, _) in &bindings {
            editor.bind(V, &spec(*queue, arguments));
        }
        let mut left = editor.bindings(V, Some("amq.match"), None);
        for (arguments, queue, _) in bindings.iter().filter(|(_, _, remove)| *remove) {
            let removed = editor.unbind(V, &spec(*queue, arguments)).bindings;
            left.retain(|info| !removed.iter().any(|r| r.target == info.target && r.arguments == info.arguments));
        }
        let headers: Vec<(String, HeaderValue<'static>)> = headers.into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
        let visit = |visit: &mut dyn FnMut(&str, HeaderValue<'_>)| {
            headers.iter().for_each(|(name, value)| visit(name, value.clone()));
        };
        let found = route_all(editor.current(), "amq.match", &[""], &visit);
        let mut expected: Vec<String> = Vec::new();
        for info in &left {
            let BindTarget::Queue(queue) = &info.target else { continue };
            if naive_headers(&info.arguments, &headers) && !expected.contains(&queue.to_string()) {
                expected.push(queue.to_string());
            }
        }
        let found: Vec<String> = found.queues.iter().map(|id| format!("q{}", id.0)).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn watch_ids_are_not_given_twice() {
    let mut editor = editor();
    let ids: BTreeSet<WatchId> = (0..100)
        .map(|i| {
            let (id, new) = editor.add_watch(&name(V), &[name(&format!("t{}", i % 50))]);
            if i < 50 {
                assert!(new && editor.remove_watch(id));
            }
            id
        })
        .collect();
    assert_eq!(ids.len(), 100);
}
