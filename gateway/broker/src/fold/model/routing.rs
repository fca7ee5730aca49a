//! Exchanges and bindings as lists, read from front to back.

use std::collections::BTreeMap;

use framegate_frame::Frame;

use crate::definition::{Arguments, BindTarget, BindingSpec, ExchangeKind, ExchangeSpec, HeaderValue};
use crate::name::Name;

/// Predeclared exchanges that the driver uses.
const PREDECLARED: [(&str, ExchangeKind); 6] = [
    ("", ExchangeKind::Direct),
    ("amq.direct", ExchangeKind::Direct),
    ("amq.fanout", ExchangeKind::Fanout),
    ("amq.topic", ExchangeKind::Topic),
    ("amq.headers", ExchangeKind::Headers),
    ("amq.match", ExchangeKind::Headers),
];

/// All of it.
#[derive(Debug, Clone, Default)]
pub(in crate::fold) struct Routing {
    pub(in crate::fold) exchanges: BTreeMap<Name, ExchangeSpec>,
    /// In the order in which they were made.
    pub(in crate::fold) bindings: Vec<BindingSpec>,
}

/// Where a message goes by exchanges and bindings; which of the names are queues or topics is not known here.
#[derive(Debug, Default)]
pub(super) struct Reached {
    /// Queues by binding.
    pub(super) queues: Vec<Name>,
    /// Keys that the default exchange looks up.
    pub(super) named: bool,
    /// Keys that `amq.topic` looks up among topics and subscriptions.
    pub(super) topics: bool,
    /// Topics in the order in which they are met: None is what the keys name, else by binding.
    pub(super) met: Vec<Option<Name>>,
}

pub(super) fn is_predeclared(name: &Name) -> bool {
    name.is_empty() || name.starts_with("amq.")
}

impl Routing {
    pub(super) fn new() -> Self {
        let spec = |(name, kind): (&'static str, ExchangeKind)| {
            let (name, durable, auto_delete) = (Name::from_static(name), true, false);
            ExchangeSpec { name, kind, durable, auto_delete, internal: false, alternate: None }
        };
        let exchanges = PREDECLARED.map(spec).map(|s| (s.name.clone(), s)).into_iter().collect();
        Self { exchanges, bindings: Vec::new() }
    }

    /// What a message reaches; `hit` says whether a key finds something in the default exchange (true) or in
    /// `amq.topic`, so that alternates are followed only when nothing was found.
    pub(super) fn route(
        &self,
        exchange: &Name,
        keys: &[Name],
        frame: &Frame,
        hit: impl Fn(bool) -> bool,
    ) -> Reached {
        let mut reached = Reached::default();
        let (mut visit, mut at) = (vec![exchange.clone()], 0);
        while let Some(name) = visit.get(at).cloned() {
            at += 1;
            let Some(spec) = self.exchanges.get(&name) else { continue };
            let mut any = false;
            if name.is_empty() {
                reached.named = true;
                reached.met.push(None);
                any = hit(true);
            } else if name == crate::AMQ_TOPIC {
                reached.topics = true;
                reached.met.push(None);
                any = hit(false);
            }
            let mut next = Vec::new();
            for binding in self.bindings.iter().filter(|b| b.exchange == name) {
                if fits(&spec.kind, binding, keys, frame) {
                    any = true;
                    match &binding.target {
                        BindTarget::Queue(queue) => reached.queues.push(queue.clone()),
                        BindTarget::Exchange(exchange) => next.push(exchange.clone()),
                        BindTarget::Topic(topic) => reached.met.push(Some(topic.clone())),
                    }
                }
            }
            if !any {
                next.extend(spec.alternate.clone());
            }
            for name in next {
                if !visit.contains(&name) {
                    visit.push(name);
                }
            }
        }
        reached
    }

    pub(super) fn is_bound(&self, binding: &BindingSpec) -> bool {
        self.bindings.iter().any(|b| same(b, binding))
    }

    /// Removes bindings; exchanges that lived by them go too, and so on.
    pub(super) fn unbind(&mut self, gone: impl Fn(&BindingSpec) -> bool) {
        let lost: Vec<Name> = self.bindings.iter().filter(|b| gone(b)).map(|b| b.exchange.clone()).collect();
        self.bindings.retain(|b| !gone(b));
        for exchange in lost {
            let lives = self.bindings.iter().any(|b| b.exchange == exchange);
            if !lives && self.exchanges.get(&exchange).is_some_and(|e| e.auto_delete) {
                self.delete(&exchange);
            }
        }
    }

    /// Removes an exchange with all bindings on it and to it.
    pub(super) fn delete(&mut self, name: &Name) {
        self.exchanges.remove(name);
        let target = BindTarget::Exchange(name.clone());
        self.bindings.retain(|b| b.exchange != *name);
        self.unbind(|b| b.target == target);
    }

    /// What a restart leaves. `is_stored`: the queue survives.
    pub(super) fn restart(&mut self, is_stored: impl Fn(&Name) -> bool) {
        self.exchanges.retain(|_, e| e.durable);
        let exchanges = &self.exchanges;
        self.bindings.retain(|b| {
            let there = match &b.target {
                BindTarget::Queue(queue) => is_stored(queue),
                BindTarget::Exchange(exchange) => exchanges.contains_key(exchange),
                // a topic is always stored, and one that is gone took its bindings with it
                BindTarget::Topic(_) => true,
            };
            there && exchanges.contains_key(&b.exchange)
        });
    }
}

/// The same binding, whatever the order of its arguments.
pub(in crate::fold) fn same(a: &BindingSpec, b: &BindingSpec) -> bool {
    let within = |a: &Arguments, b: &Arguments| a.iter().all(|x| b.contains(x));
    a.exchange == b.exchange
        && a.target == b.target
        && a.key == b.key
        && within(&a.arguments, &b.arguments)
        && within(&b.arguments, &a.arguments)
}

fn fits(kind: &ExchangeKind, binding: &BindingSpec, keys: &[Name], frame: &Frame) -> bool {
    match kind {
        ExchangeKind::Direct => keys.contains(&binding.key),
        ExchangeKind::Fanout => true,
        ExchangeKind::Topic => keys.iter().any(|key| matches(&binding.key, key)),
        ExchangeKind::Headers => headers_fit(&binding.arguments, frame),
        _ => false,
    }
}

/// A pattern against a key, word by word: `*` one word, `#` any number.
pub(super) fn matches(pattern: &str, key: &str) -> bool {
    fn words(pattern: &[&str], key: &[&str]) -> bool {
        match pattern.split_first() {
            None => key.is_empty(),
            Some((&"#", rest)) => (0..=key.len()).any(|n| words(rest, &key[n..])),
            Some((&"*", rest)) => !key.is_empty() && words(rest, &key[1..]),
            Some((word, rest)) => key.first() == Some(word) && words(rest, &key[1..]),
        }
    }
    let split = |text: &'_ str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
    let (pattern, key) = (split(pattern), split(key));
    let pattern: Vec<&str> = pattern.iter().map(String::as_str).collect();
    let key: Vec<&str> = key.iter().map(String::as_str).collect();
    words(&pattern, &key)
}

/// Binding arguments against the text headers of a frame.
fn headers_fit(arguments: &Arguments, frame: &Frame) -> bool {
    let mode = arguments.iter().find(|(name, _)| name.as_str() == "x-match");
    let mode = match mode.map(|(_, value)| value) {
        Some(HeaderValue::Text(word)) => word.to_string(),
        _ => "all".to_owned(),
    };
    let with_x = mode.ends_with("-with-x");
    let counts = |name: &str| name != "x-match" && (with_x || !name.starts_with("x-"));
    let hit = |(name, wanted): &(Name, HeaderValue<'_>)| {
        let header = frame.attrs().find(|(n, _)| *n == name.as_str()).map(|(_, value)| value.to_owned());
        match (header, wanted) {
            (Some(_), HeaderValue::Null) => true,
            (Some(value), HeaderValue::Text(text)) => value == *text,
            _ => false,
        }
    };
    let mut criteria = arguments.iter().filter(|(name, _)| counts(name));
    if mode.starts_with("any") { criteria.any(hit) } else { criteria.all(hit) }
}
