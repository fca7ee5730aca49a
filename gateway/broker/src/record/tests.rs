//! Records as bytes: the checked-in ones, every kind there and back, and bytes that are none.

use framegate_frame::{Frame, FrameKind, Limits};
use framegate_storage::{BodyRef, Lsn, Pos};

use super::*;
use crate::definition::{
    BindTarget, ExchangeKind, HashOn, HeaderValue, Overflow, PriorityMode, QueueProperties,
};
use crate::group::{Distribution, GroupCounts, GroupSpec, GroupStart, KeySource, Retry};
use crate::message::{Death, DeathReason, Dedup};
use crate::state::OPEN_BLOCK;

const NEXT: u64 = 7;

struct Known;

impl Expected for Known {
    fn queue(&self, _: QueueId) -> Option<(u64, Name)> {
        Some((NEXT, name("q")))
    }

    fn topic(&self, _: TopicId) -> Option<(u64, Name)> {
        Some((NEXT, name("q")))
    }
}

fn name(text: &str) -> Name {
    Name::new(text).expect("short")
}

fn frame() -> Frame {
    Frame::build(FrameKind::Event, [("subject", "s")], b"data", &Limits::GATEWAY).expect("frame")
}

fn plain() -> Envelope {
    Envelope {
        keys: smallvec::smallvec![name("q")],
        persistent: true,
        time_ms: 1_780_000_000_000,
        ..Envelope::default()
    }
}

fn full() -> Envelope {
    let death = Death {
        queue: name("old"),
        reason: DeathReason::Rejected,
        exchange: name("x"),
        keys: smallvec::smallvec![name("k")],
        count: 3,
        time_ms: 9,
        ttl_ms: Some(u64::MAX - 1),
    };
    Envelope {
        exchange: name("x"),
        keys: smallvec::smallvec![name("a.b"), name("c")],
        priority: Some(-5),
        deliver_at_ms: 1000,
        expires_at_ms: u64::MAX,
        ttl_ms: Some(u64::MAX - 1),
        time_ms: 1,
        dedup: Some(Dedup { key: [3; 16], content: 4 }),
        publisher: Some(name("guest")),
        attempts: 2,
        deaths: vec![death],
        ..plain()
    }
}

fn here() -> Body {
    Body::Memory { len: frame().as_bytes().len() as u32 }
}

fn samples() -> Vec<(&'static str, Record)> {
    let vhost = name("/");
    let at = |block| Body::At(BodyRef { block: Pos(block), offset: 40, len: 30 });
    let (queue, topic, seq, offset) = (QueueId(3), TopicId(4), Seq(NEXT), Offset(NEXT));
    let mut seqs = SeqSet::one(Seq(5));
    assert!(seqs.push_run(8, 300));
    let spec = QueueSpec {
        name: name("q"),
        durable: true,
        auto_delete: true,
        properties: QueueProperties {
            deliver_durable: true,
            dead_letter_exchange: Some(name("dlx")),
            dead_letter_key: Some(name("dead")),
            arguments: vec![(name("x-max-length"), "5".to_owned())],
            ..QueueProperties::default()
        },
        ..QueueSpec::default()
    };
    let limited = QueueSpec {
        properties: QueueProperties {
            priority: PriorityMode::Max(9),
            message_ttl_ms: Some(0),
            expires_ms: Some(300),
            length_max: Some(u64::MAX),
            bytes_max: Some(1),
            overflow: Overflow::RejectPublishDeadLetter,
            single_active: true,
            delivery_limit: Some(20),
            ..QueueProperties::default()
        },
        ..spec.clone()
    };
    let all_priorities = QueueProperties {
        priority: PriorityMode::Full,
        overflow: Overflow::RejectPublish,
        ..QueueProperties::default()
    };
    let all_priorities = QueueSpec { properties: all_priorities, ..spec.clone() };
    let exchange = ExchangeSpec {
        name: name("x"),
        kind: ExchangeKind::Headers,
        durable: true,
        auto_delete: false,
        internal: true,
        alternate: Some(name("alt")),
    };
    let inner = ExchangeKind::ConsistentHash(HashOn::Header(name("h")));
    let delayed =
        ExchangeSpec { kind: ExchangeKind::Delayed(Box::new(inner)), alternate: None, ..exchange.clone() };
    let arguments = vec![
        (name("a"), HeaderValue::Null),
        (name("b"), HeaderValue::Bool(true)),
        (name("c"), HeaderValue::Int(-1)),
        (name("d"), HeaderValue::Float(0.5)),
        (name("e"), HeaderValue::Text("t".into())),
        (name("f"), HeaderValue::Bytes(vec![0, 255].into())),
        (name("g"), HeaderValue::Time(12)),
    ];
    let target = BindTarget::Exchange(name("y"));
    let binding = BindingSpec { exchange: name("x"), target, key: name("#"), arguments };
    let remembered = Dedup { key: [7; 16], content: 8 };
    let of_topic = TopicSpec { name: name("q"), age_ms_max: Some(5), bytes_max: None };
    let limits = Envelope { expires_at_ms: 5000, ttl_ms: None, data_bytes: 300, ..plain() };
    let in_topic = Envelope { exchange: name(crate::AMQ_TOPIC), ..plain() };
    vec![
        ("enqueue", Record::Enqueue { queue, seq, envelope: plain(), body: here() }),
        ("enqueue-full", Record::Enqueue { queue, seq: Seq(90), envelope: full(), body: here() }),
        ("enqueue-limits", Record::Enqueue { queue, seq, envelope: limits, body: here() }),
        ("enqueue-ref", Record::Enqueue { queue, seq, envelope: plain(), body: at(77) }),
        ("enqueue-ref-here", Record::Enqueue { queue, seq, envelope: plain(), body: at(OPEN_BLOCK) }),
        ("ack", Record::Ack { queue, seqs: seqs.clone() }),
        ("return", Record::Return { queue, seqs }),
        ("delivered", Record::Delivered { queue, upto: Seq(300) }),
        ("append", Record::Append { topic, offset, envelope: in_topic.clone(), body: here() }),
        ("append-ref", Record::Append { topic, offset, envelope: in_topic, body: at(0) }),
        ("retain", Record::Retain { topic, first: Offset(6) }),
        ("define-queue", Record::DefineQueue { id: queue, vhost: vhost.clone(), spec: Box::new(spec) }),
        (
            "define-queue-limits",
            Record::DefineQueue { id: queue, vhost: vhost.clone(), spec: Box::new(limited) },
        ),
        (
            "define-queue-full",
            Record::DefineQueue { id: queue, vhost: vhost.clone(), spec: Box::new(all_priorities) },
        ),
        ("delete-queue", Record::DeleteQueue { id: queue }),
        ("define-exchange", Record::DefineExchange { vhost: vhost.clone(), spec: exchange }),
        ("define-exchange-arguments", Record::DefineExchange { vhost: vhost.clone(), spec: delayed }),
        ("delete-exchange", Record::DeleteExchange { vhost: vhost.clone(), name: name("x") }),
        ("bind", Record::Bind { vhost: vhost.clone(), binding: binding.clone() }),
        ("unbind", Record::Unbind { vhost: vhost.clone(), binding }),
        ("define-topic", Record::DefineTopic { id: topic, vhost, spec: of_topic }),
        ("delete-topic", Record::DeleteTopic { id: topic }),
        ("start", Record::Start { clean: true }),
        ("tick", Record::Tick),
        ("spill", Record::Spill { queue, seq, body: here() }),
        ("move", Record::Move { queue, seq, body: here() }),
        ("move-ref", Record::Move { queue, seq, body: at(77) }),
        ("move-event", Record::MoveEvent { topic, offset, body: here() }),
        ("move-event-ref", Record::MoveEvent { topic, offset, body: at(OPEN_BLOCK) }),
        ("standing", Record::Standing { queues: 300, topics: 4, time_ms: 1_700_000_000_000 }),
        ("at", Record::At { lsn: Lsn(4_000_000_000) }),
        ("queue-numbers", Record::QueueNumbers { queue, next: seq, delivered: Seq(6) }),
        ("topic-numbers", Record::TopicNumbers { topic, next: offset, gone_to: Lsn(5) }),
        ("lost", Record::Lost),
        (
            "remembered",
            Record::Remembered { dedup: remembered, lsn: Lsn(9), offset: Some(offset), time_ms: 77 },
        ),
    ]
    .into_iter()
    .chain(group_samples())
    .collect()
}

fn group_samples() -> Vec<(&'static str, Record)> {
    let (id, topic, vhost) = (QueueId(crate::state::GROUP_BIT | 2), TopicId(3), name("/"));
    let plain = GroupSpec { start: GroupStart::Offset(Offset(9)), ..GroupSpec::new(name("t"), name("g")) };
    let sticky = GroupSpec {
        distribution: Distribution::Sticky(KeySource::Attribute(name("partitionkey"))),
        dead_letter_topic: Some(name("d")),
        ttl_ms: Some(7),
        lease_ms: Some(8),
        retry: Retry { attempts_max: 300, base_ms: 1, max_ms: u64::MAX, jitter_percent: 100 },
        ..plain.clone()
    };
    let filtered = GroupSpec { distribution: Distribution::Filtered, retry: Retry::AT_ONCE, ..plain.clone() };
    let define =
        |spec| Record::DefineGroup { id, topic, vhost: vhost.clone(), spec: Box::new(spec), floor: 9 };
    let offsets = SeqSet::from_unsorted(vec![Seq(0), Seq(1), Seq(400)]);
    let counts = GroupCounts {
        lost: 1,
        skipped: 2,
        expired: 3,
        dead_lettered: 4,
        dropped: 5,
        dropped_nested: 6,
        damaged: 7,
    };
    vec![
        ("define-group", define(plain)),
        ("define-group-sticky", define(sticky)),
        ("define-group-filtered", define(filtered)),
        ("delete-group", Record::DeleteGroup { id }),
        ("seek-group", Record::SeekGroup { id, floor: 300 }),
        ("settle-group", Record::SettleGroup { id, how: Settled::DroppedNested, offsets: offsets.clone() }),
        ("fail-group", Record::FailGroup { id, failed: vec![(0, 0), (1, 1_780_000_000_000), (400, 5)] }),
        (
            "group-stands",
            Record::GroupStands {
                id,
                seen: 401,
                counts,
                settled: offsets,
                failed: vec![(2, 3, 4), (9, 1, 0)],
            },
        ),
    ]
}

fn encode(record: &Record) -> (Vec<u8>, Option<Body>) {
    let mut encoder = Encoder::default();
    let written = encoder.put(record, Some(&frame()), NEXT, "q");
    (encoder.take().0.concat(), written)
}

/// Reads until the end or the first error; gives how many records there were.
fn read_all(bytes: &[u8]) -> Result<usize, String> {
    let mut reader = Reader::new(bytes);
    let mut count = 0;
    while reader.next(&Known).map_err(|e| e.0)?.is_some() {
        count += 1;
    }
    Ok(count)
}

#[test]
fn the_bytes_of_every_kind_are_those_checked_in() {
    let mut text = String::new();
    for (label, record) in samples() {
        let hex: String = encode(&record).0.iter().map(|b| format!("{b:02x}")).collect();
        text += &format!("{label} {hex}\n");
    }
    assert_eq!(text, include_str!("../../tests/vectors/records.txt"), "the format changed:\n{text}");
}

#[test]
fn every_kind_comes_back_as_it_was_written() {
    for (label, record) in samples() {
        let (bytes, written) = encode(&record);
        let mut expected = record;
        if let Record::Enqueue { body, .. }
        | Record::Append { body, .. }
        | Record::Move { body, .. }
        | Record::MoveEvent { body, .. } = &mut expected
        {
            *body = match *body {
                Body::At(at) if at.block.0 == OPEN_BLOCK => Body::Here { offset: at.offset, len: at.len },
                body => written.unwrap_or(body),
            };
            if let Body::Here { offset, len } = *body
                && written.is_some()
            {
                let stands = &bytes[offset as usize..][..len as usize];
                assert_eq!(stands, &frame().as_bytes()[..], "{label}");
            }
        }
        let read = Reader::new(&bytes).next(&Known).expect(label).expect("one record");
        let is_spill = matches!(expected, Record::Spill { .. });
        assert_eq!(read, (!is_spill).then_some(expected), "{label}");
        assert_eq!(read_all(&bytes), Ok(1), "{label}");
    }
}

#[test]
fn a_plain_message_costs_8_to_12_bytes_beside_its_frame() {
    let record = Record::Enqueue { queue: QueueId(3), seq: Seq(NEXT), envelope: plain(), body: here() };
    let cost = encode(&record).0.len() - frame().as_bytes().len();
    assert!((8..=12).contains(&cost), "{cost} bytes");
}

#[test]
fn an_unknown_kind_is_passed_over_only_when_it_says_that_it_may_be() {
    assert_eq!(read_all(&[200, 0x80, 2, 9, 9, 33, 0x80, 0]), Ok(2));
    let error = read_all(&[200, 0, 2, 9, 9]).expect_err("unknown");
    assert!(error.contains("200"), "{error}");
}

#[test]
fn whatever_is_cut_or_changed_gives_records_or_an_error() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound as u64) as usize
    };
    let all: Vec<Vec<u8>> = samples().iter().map(|(_, record)| encode(record).0).collect();
    for bytes in &all {
        for cut in 1..bytes.len() {
            assert!(read_all(&bytes[..cut]).is_err(), "a record that is cut is no record");
        }
    }
    for _ in 0..20_000 {
        let mut bytes = all[next(all.len())].clone();
        for _ in 0..=next(3) {
            let at = next(bytes.len());
            match next(3) {
                0 => bytes[at] ^= 1 << next(8),
                1 => bytes[at] = next(256) as u8,
                _ => bytes.insert(at, 0xff),
            }
        }
        let _ = read_all(&bytes);
    }
}
