//! The tables of a snapshot against a model that reads the list of bindings, after any sequence of definitions.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::pattern::tests::naive_text;
use super::{Targets, TopologyEditor};
use crate::definition::{BindTarget, BindingSpec, ExchangeKind, ExchangeSpec};
use crate::ids::{QueueId, TopicId, WatchId};
use crate::name::Name;

const V: &str = "/";
const EXCHANGES: [(&str, ExchangeKind); 5] = [
    ("d", ExchangeKind::Direct),
    ("f", ExchangeKind::Fanout),
    ("t", ExchangeKind::Topic),
    ("amq.direct", ExchangeKind::Direct),
    ("amq.topic", ExchangeKind::Topic),
];
const KEYS: [&str; 6] = ["a", "a.b", "q1", "#", "*.b", "q0"];

#[derive(Debug, Clone)]
enum Step {
    Declare { exchange: usize, alternate: Option<usize>, auto_delete: bool },
    Delete(usize),
    Bind { exchange: usize, queue: bool, target: usize, key: usize },
    Unbind { exchange: usize, queue: bool, target: usize, key: usize },
    AddQueue(u32),
    RemoveQueue(u32),
    AddTopic(usize),
    RemoveTopic(usize),
    AddWatch(usize),
    RemoveWatch(usize),
    Publish,
}

fn step() -> impl Strategy<Value = Step> {
    let binding = || (0..5_usize, any::<bool>(), 0..5_usize, 0..6_usize);
    prop_oneof![
        2 => (0..3_usize, proptest::option::of(0..5_usize), any::<bool>())
            .prop_map(|(exchange, alternate, auto_delete)| Step::Declare { exchange, alternate, auto_delete }),
        1 => (0..3_usize).prop_map(Step::Delete),
        8 => binding().prop_map(|(exchange, queue, target, key)| Step::Bind { exchange, queue, target, key }),
        3 => binding().prop_map(|(exchange, queue, target, key)| Step::Unbind { exchange, queue, target, key }),
        2 => (0..3_u32).prop_map(Step::AddQueue),
        1 => (0..3_u32).prop_map(Step::RemoveQueue),
        1 => (0..6_usize).prop_map(Step::AddTopic),
        1 => (0..6_usize).prop_map(Step::RemoveTopic),
        1 => (0..6_usize).prop_map(Step::AddWatch),
        1 => (0..6_usize).prop_map(Step::RemoveWatch),
        1 => Just(Step::Publish),
    ]
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn queue(id: u32) -> Name {
    name(&format!("q{id}"))
}

fn binding(exchange: usize, to_queue: bool, target: usize, key: usize) -> BindingSpec {
    let target = match to_queue {
        true if target % 4 == 3 => BindTarget::Topic(name(KEYS[target % KEYS.len()])),
        true => BindTarget::Queue(queue(target as u32 % 3)),
        false => BindTarget::Exchange(name(EXCHANGES[target].0)),
    };
    BindingSpec { exchange: name(EXCHANGES[exchange].0), target, key: name(KEYS[key]), arguments: Vec::new() }
}

/// What is declared, kept by hand; bindings are asked of the editor.
#[derive(Default)]
struct Model {
    exchanges: BTreeMap<&'static str, ExchangeSpec>,
    queues: BTreeMap<Name, QueueId>,
    topics: BTreeMap<&'static str, TopicId>,
    watches: Vec<(WatchId, &'static str)>,
}

impl Model {
    fn route(&self, editor: &TopologyEditor, exchange: &str, key: &str) -> Targets {
        let mut out = Targets::default();
        let (mut visit, mut at) = (vec![exchange.to_owned()], 0);
        while let Some(exchange) = visit.get(at).cloned() {
            at += 1;
            let follow = |name: &str, visit: &mut Vec<String>| {
                let exists = self.exchanges.contains_key(name) || name.starts_with("amq.");
                if exists && !visit.iter().any(|met| met == name) {
                    visit.push(name.to_owned());
                }
            };
            let kind = &EXCHANGES.iter().find(|(name, _)| *name == exchange).unwrap().1;
            let (mut matched, before) = (false, out.topics.len());
            for info in editor.bindings(V, Some(&exchange), None) {
                let fits = match kind {
                    ExchangeKind::Direct => *info.key == *key,
                    ExchangeKind::Topic => naive_text(&info.key, key),
                    _ => true,
                };
                if fits {
                    matched = true;
                    match &info.target {
                        BindTarget::Queue(queue) => out.queues.push(self.queues[queue]),
                        BindTarget::Exchange(to) => follow(to, &mut visit),
                        BindTarget::Topic(topic) => out.topics.push(self.topics[topic.as_str()]),
                    }
                }
            }
            if exchange == "amq.topic" {
                let named = self.topics.get(key).copied();
                named.into_iter().for_each(|id| out.topics.insert(before, id));
                let mut seen = self.watches.clone();
                seen.sort_unstable();
                out.watches.extend(seen.into_iter().filter(|(_, p)| naive_text(p, key)).map(|(id, _)| id));
                matched |= named.is_some() || !out.watches.is_empty();
            }
            if !matched
                && let Some(alternate) = self.exchanges.get(&*exchange).and_then(|e| e.alternate.clone())
            {
                follow(&alternate, &mut visit);
            }
        }
        out.dedup();
        out
    }
}

proptest! {
    #[test]
    fn every_route_agrees_with_the_list_of_bindings(steps in proptest::collection::vec(step(), 0..60)) {
        let mut editor = TopologyEditor::new(&[name(V)]);
        let mut model = Model::default();
        let mut bound = 0;
        for step in steps {
            match step {
                Step::Declare { exchange, alternate, auto_delete } => {
                    let (text, kind) = EXCHANGES[exchange].clone();
                    let alternate = alternate.map(|i| name(EXCHANGES[i].0));
                    let (durable, internal) = (true, false);
                    let spec = ExchangeSpec { name: name(text), kind, durable, auto_delete, internal, alternate };
                    let new = !model.exchanges.contains_key(text);
                    prop_assert_eq!(editor.declare_exchange(V, spec.clone()), new);
                    if new {
                        model.exchanges.insert(text, spec);
                    }
                }
                Step::Delete(exchange) => {
                    let mut doomed = vec![name(EXCHANGES[exchange].0)];
                    while let Some(exchange) = doomed.pop() {
                        let removed = editor.delete_exchange(V, &exchange);
                        model.exchanges.remove(&*exchange);
                        bound -= removed.bindings.len();
                        doomed.extend(removed.unused);
                    }
                }
                Step::Bind { exchange, queue, target, key } => {
                    let spec = binding(exchange, queue, target, key);
                    let expected = editor.check_bind(&name(V), &spec) == Ok(true);
                    prop_assert_eq!(editor.bind(V, &spec), expected);
                    bound += usize::from(expected);
                }
                Step::Unbind { exchange, queue, target, key } => {
                    bound -= editor.unbind(V, &binding(exchange, queue, target, key)).bindings.len();
                }
                Step::AddQueue(id) if !model.queues.contains_key(&queue(id)) => {
                    editor.add_queue(V, queue(id), QueueId(id));
                    model.queues.insert(queue(id), QueueId(id));
                }
                Step::AddQueue(_) => {}
                Step::RemoveQueue(id) => {
                    let removed = editor.remove_queue(V, &queue(id));
                    model.queues.remove(&queue(id));
                    bound -= removed.bindings.len();
                    for exchange in &removed.unused {
                        prop_assert!(model.exchanges[&**exchange].auto_delete && !editor.is_used(V, exchange));
                    }
                }
                Step::AddTopic(key) => {
                    editor.add_topic(V, name(KEYS[key]), TopicId(key as u32));
                    model.topics.insert(KEYS[key], TopicId(key as u32));
                }
                Step::RemoveTopic(key) => {
                    bound -= editor.remove_topic(V, &name(KEYS[key])).bindings.len();
                    model.topics.remove(KEYS[key]);
                }
                Step::AddWatch(key) => {
                    let (id, new) = editor.add_watch(&name(V), &[name(KEYS[key])]);
                    prop_assert_eq!(new, !model.watches.iter().any(|(known, _)| *known == id));
                    if new {
                        model.watches.push((id, KEYS[key]));
                    } else {
                        prop_assert!(!editor.remove_watch(id));
                    }
                }
                Step::RemoveWatch(at) => {
                    if at < model.watches.len() {
                        prop_assert!(editor.remove_watch(model.watches.remove(at).0));
                    }
                }
                Step::Publish => drop(editor.publish()),
            }
            prop_assert_eq!(editor.counts(V).bindings, bound);
        }
        let topology = editor.current();
        for (exchange, _) in EXCHANGES.iter().filter(|(text, _)| topology.exchange(V, text).is_some()) {
            for key in KEYS {
                let mut out = Targets::default();
                topology.route(V, exchange, &[name(key)], &|_| {}, &mut out).unwrap();
                (out.comparisons, out.version) = (0, 0);
                prop_assert_eq!(out, model.route(&editor, exchange, key), "{} {}", exchange, key);
            }
        }
    }
}
