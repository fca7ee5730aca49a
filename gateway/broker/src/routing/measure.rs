//! What `examples/routes.rs` measures: nanoseconds of a route and of a change, with few and with many bindings. Only
//! with the feature `measure`.

use std::hint::black_box;
use std::time::Instant;

use super::{Targets, TopologyEditor};
use crate::definition::{BindTarget, BindingSpec, ExchangeKind, ExchangeSpec, HeaderValue};
use crate::ids::QueueId;
use crate::name::Name;

/// One line of the table.
#[derive(Debug)]
pub struct Row {
    /// Kind of the exchange.
    pub kind: &'static str,
    /// Bindings that it has.
    pub bindings: u32,
    /// Nanoseconds of a route that gives one queue.
    pub hit_ns: f64,
    /// Nanoseconds of a route that gives nothing.
    pub miss_ns: f64,
    /// Look-ups and comparisons of the latter.
    pub miss_comparisons: u64,
    /// Nanoseconds of unbinding, binding and publishing the snapshot, while another snapshot is held.
    pub change_ns: f64,
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap_or_default()
}

/// Measures one kind.
#[must_use]
pub fn row(kind: ExchangeKind, bindings: u32, rounds: u32) -> Row {
    let vhost = name("/");
    let mut editor = TopologyEditor::new(std::slice::from_ref(&vhost));
    let (word, is_topic) = (kind.as_str(), kind == ExchangeKind::Topic);
    let (durable, auto_delete, internal, alternate) = (true, false, false, None);
    editor.declare_exchange(
        "/",
        ExchangeSpec { name: name("x"), kind, durable, auto_delete, internal, alternate },
    );
    let spec = |i: u32| BindingSpec {
        exchange: name("x"),
        target: BindTarget::Queue(name(&format!("queue-{i}"))),
        key: name(&format!("orders.{i}.{}", if is_topic { "*" } else { "paid" })),
        arguments: vec![(name("number"), HeaderValue::Int(i.into()))],
    };
    for i in 0..bindings {
        editor.add_queue("/", name(&format!("queue-{i}")), QueueId(i));
        editor.bind("/", &spec(i));
    }
    let topology = editor.publish().unwrap_or_default();
    let mut out = Targets::default();
    let mut time = |key: Name, number: i64, wanted: usize| {
        let keys = [key];
        let start = Instant::now();
        for _ in 0..rounds {
            out.clear();
            let headers =
                |visit: &mut dyn FnMut(&str, HeaderValue<'_>)| visit("number", HeaderValue::Int(number));
            let routed = topology.route("/", "x", black_box(&keys), &headers, &mut out);
            assert!(routed.is_ok() && out.queues.len() == wanted, "{word} {out:?}");
        }
        (start.elapsed().as_nanos() as f64 / f64::from(rounds), out.comparisons)
    };
    let (hit_ns, _) = time(name("orders.7.paid"), 7, 1);
    let (miss_ns, miss_comparisons) = time(name("orders.none.paid"), -1, 0);
    let changes = rounds.min(2000);
    let mut held = editor.publish();
    let start = Instant::now();
    for i in 0..changes {
        let binding = spec(i % bindings);
        editor.unbind("/", &binding);
        editor.bind("/", &binding);
        held = editor.publish();
    }
    drop(held);
    let change_ns = start.elapsed().as_nanos() as f64 / f64::from(changes);
    Row { kind: word, bindings, hit_ns, miss_ns, miss_comparisons, change_ns }
}
