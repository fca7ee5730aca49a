//! Measures the frame alone: parse, build, lookups and what a delivery does, for an event of ten attributes and 256
//! bytes of data. Prints one JSON object per path; the time is the median of the batches.
//!
//! ```text
//! cargo run --release -p framegate-frame --example frame_bench
//! valgrind --tool=callgrind target/release/examples/frame_bench --iterations 100000 --path parse
//! ```
//!
//! With `--iterations N` each path (or the one named) runs N times in one batch, for instruction counts. Never a
//! test: it asserts nothing about time.

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use framegate_frame::{Event, Extensions, Frame, FrameBuilder, FrameHead, FrameKind, Limits, Private};

const BATCHES: usize = 41;
const BATCH_ITERATIONS: u64 = 20_000;

const ATTRS: [(&str, &str); 10] = [
    ("specversion", "1.0"),
    ("id", "0198f2a4-77aa-7d10-9c7f-2f6f6f3f1a2b"),
    ("source", "/checkout"),
    ("type", "com.example.order.created"),
    ("datacontenttype", "application/json"),
    ("subject", "orders"),
    ("time", "2026-01-01T00:00:05.120Z"),
    ("emttl", "60000"),
    ("emcorrelationid", "corr-1"),
    ("partitionkey", "cust-7"),
];

struct Path<'a> {
    name: &'static str,
    run: Box<dyn FnMut() + 'a>,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut iterations, mut only) = (None, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--iterations" => iterations = arguments.next().and_then(|count| count.parse::<u64>().ok()),
            "--path" => only = arguments.next(),
            other => return eprintln!("unknown argument {other}"),
        }
    }
    let data = [b'd'; 256];
    let limits = Limits::GATEWAY;
    let frame = Frame::build(FrameKind::Event, ATTRS, &data, &limits).expect("the event is legal");
    let shared = frame.clone();
    let mut foreign = ATTRS;
    foreign[9].1 = "kunde-\u{fc}";
    let foreign = Frame::build(FrameKind::Event, foreign, &data, &limits).expect("the event is legal");
    let mut twice = ATTRS;
    twice[0].0 = "id";
    let twice = Frame::build(FrameKind::Event, twice, &data, &limits).expect("the event is legal");
    let _shared = (foreign.clone(), twice.clone());
    for mut path in paths(&frame, &foreign, &twice, &data, limits) {
        if only.as_ref().is_some_and(|only| only != path.name) {
            continue;
        }
        match iterations {
            Some(iterations) => (0..iterations).for_each(|_| (path.run)()),
            None => println!("{{\"path\":\"{}\",\"ns\":{:.1}}}", path.name, median_ns(&mut path.run)),
        }
    }
    drop(shared);
}

fn paths<'a>(
    frame: &'a Frame,
    foreign: &'a Frame,
    twice: &'a Frame,
    data: &'a [u8],
    limits: Limits,
) -> Vec<Path<'a>> {
    fn path<'a, T>(name: &'static str, mut run: impl FnMut() -> T + 'a) -> Path<'a> {
        Path { name, run: Box::new(move || drop(black_box(run()))) }
    }
    let parse = |frame: &Frame, limits: Limits| {
        let bytes: Bytes = frame.as_bytes().clone();
        move || Frame::parse(black_box(&bytes).clone(), &limits)
    };
    let bytes = frame.as_bytes().clone();
    let private =
        FrameHead::new(FrameKind::Event).private(Some(Private::bytes("amqp", b"\x90\x00\x10text/plain")));
    vec![
        path("clone_bytes", move || black_box(&bytes).clone()),
        path("parse", parse(frame, limits)),
        path("parse_public", parse(frame, limits.public())),
        path("parse_non_ascii", parse(foreign, limits)),
        path("build", move || Frame::build(FrameKind::Event, black_box(ATTRS), data, &limits)),
        path("build_public", move || {
            Frame::build(FrameKind::Event, black_box(ATTRS), data, &limits.public())
        }),
        path("build_private", move || {
            let mut builder = FrameBuilder::new(private, black_box(ATTRS), data.len(), &limits)?;
            builder.push(data)?;
            builder.finish()
        }),
        path("attr_first", move || black_box(frame).attr(black_box("specversion")).map(str::len)),
        path("attr_middle", move || black_box(frame).attr(black_box("datacontenttype")).map(str::len)),
        path("attr_last", move || black_box(frame).attr(black_box("partitionkey")).map(str::len)),
        path("attr_absent", move || black_box(frame).attr(black_box("replyto")).map(str::len)),
        path("attr_of_duplicates", move || black_box(twice).attr(black_box("partitionkey")).map(str::len)),
        path("attrs_walk", move || {
            black_box(frame).attrs().map(|(name, value)| name.len() + value.len()).sum::<usize>()
        }),
        path("event_view", move || Event::from_frame(black_box(frame)).map(|event| event.id.map(str::len))),
        path("event_build", move || {
            let [_, id, source, kind, .., ttl, correlation, key] = black_box(ATTRS);
            Event {
                id: Some(id.1),
                source: Some(source.1),
                event_type: Some(kind.1),
                extensions: Extensions::from(&[ttl, correlation, key][..]),
                data,
                ..Event::default()
            }
            .to_frame(&limits)
        }),
        path("event_to_frame", move || Event::from_frame(black_box(frame))?.to_frame(&limits)),
        path("clone", move || black_box(frame).clone()),
    ]
}

fn median_ns(run: &mut dyn FnMut()) -> f64 {
    let mut batches = [0.0; BATCHES];
    for batch in &mut batches {
        let start = Instant::now();
        for _ in 0..BATCH_ITERATIONS {
            run();
        }
        *batch = start.elapsed().as_nanos() as f64 / BATCH_ITERATIONS as f64;
    }
    batches.sort_by(f64::total_cmp);
    batches[BATCHES / 2]
}
