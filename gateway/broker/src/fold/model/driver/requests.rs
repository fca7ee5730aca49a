//! From a command's small numbers to names and requests.

use framegate_frame::{Frame, FrameKind, Limits as FrameLimits};

use super::super::Model;
use super::commands::{Binding, Message, Settlement, Terms};
use crate::definition::{
    Arguments, BindTarget, BindingSpec, ExchangeKind, ExchangeSpec, HeaderValue, Overflow, PriorityMode,
    QueueProperties, QueueSpec, TopicSpec,
};
use crate::fold::tests::rig::name;
use crate::ids::{ConnectionId, ConsumerId, PoolId, Seq, Token};
use crate::message::Dedup;
use crate::name::Name;
use crate::request::{Answer, Consume, Fetch, Lease, Outcome, Publish, Request, Settle};

/// Queues by what they are.
pub(super) const QUEUES: [&str; 24] = [
    "plain",
    "a",
    "dead",
    "gated",
    "volatile",
    "auto",
    "mine",
    "ttl",
    "made",
    "ranked",
    "brief",
    "limited",
    "short",
    "heavy",
    "strict",
    "letters",
    "single",
    "fleeting",
    "d.brief",
    "d.limited",
    "d.short",
    "d.letters",
    "round",
    "turn",
];
const EXCHANGES: [&str; 9] =
    ["", "direct", "fanout", "topic", "headers", "passing", "inner", "amq.topic", "amq.direct"];
const KEYS: [&str; 6] = ["k", "k.l", "*.l", "#", "k.#", "t.a"];
const TOPICS: [&str; 4] = ["t.a", "t.b", "short", "small"];

pub(super) fn pick<'a>(from: &[&'a str], number: u64) -> &'a str {
    from[(number % from.len() as u64) as usize]
}

pub(super) fn queue_name(number: u64) -> Name {
    name(pick(&QUEUES, number))
}

/// Only one message list grows without bound otherwise.
const MESSAGES_MAX: usize = 40;

/// A queue by its name; `other`: with a property that it does not have.
pub(super) fn queue_spec(number: u64, other: bool) -> QueueSpec {
    let text = pick(&QUEUES, number);
    let dead = |key: &str| QueueProperties {
        dead_letter_exchange: Some(name("")),
        dead_letter_key: Some(name(key)),
        ..QueueProperties::default()
    };
    let properties = match text {
        "a" => dead("dead"),
        // round and round
        "dead" => dead("a"),
        "gated" => QueueProperties { deliver_durable: true, ..QueueProperties::default() },
        // by its own key, through a fanout
        "ttl" => QueueProperties { dead_letter_exchange: Some(name("fanout")), ..QueueProperties::default() },
        "ranked" => QueueProperties { priority: PriorityMode::Max(3), ..QueueProperties::default() },
        "brief" => {
            QueueProperties { message_ttl_ms: Some(600), priority: PriorityMode::Full, ..dead("d.brief") }
        }
        "limited" => QueueProperties { delivery_limit: Some(1), ..dead("d.limited") },
        "short" => QueueProperties { length_max: Some(3), ..dead("d.short") },
        // what expires in both comes back and ends there
        "round" => QueueProperties { message_ttl_ms: Some(250), ..dead("turn") },
        "turn" => QueueProperties { message_ttl_ms: Some(300), delivery_limit: Some(2), ..dead("round") },
        "heavy" => QueueProperties { bytes_max: Some(60), ..QueueProperties::default() },
        "strict" => QueueProperties {
            length_max: Some(2),
            overflow: Overflow::RejectPublish,
            ..QueueProperties::default()
        },
        "letters" => QueueProperties {
            length_max: Some(2),
            overflow: Overflow::RejectPublishDeadLetter,
            ..dead("d.letters")
        },
        "single" => QueueProperties { single_active: true, ..QueueProperties::default() },
        "fleeting" => QueueProperties { expires_ms: Some(1500), ..QueueProperties::default() },
        _ => QueueProperties::default(),
    };
    QueueSpec {
        name: name(text),
        durable: text != "volatile",
        exclusive: text == "mine",
        auto_delete: (text == "auto") != other,
        properties,
        ..QueueSpec::default()
    }
}

/// An exchange by its name; `other`: with a property that it does not have.
pub(super) fn exchange_spec(number: u64, other: bool) -> ExchangeSpec {
    let text = pick(&EXCHANGES, number);
    let kind = match text {
        "fanout" | "passing" => ExchangeKind::Fanout,
        "topic" | "amq.topic" => ExchangeKind::Topic,
        "headers" => ExchangeKind::Headers,
        _ => ExchangeKind::Direct,
    };
    ExchangeSpec {
        name: name(text),
        kind,
        durable: (text != "passing") != other,
        auto_delete: matches!(text, "passing" | "topic"),
        internal: text == "inner",
        alternate: (text == "direct").then(|| name("fanout")),
    }
}

/// A topic by its name; `other`: with a retention that it does not have.
pub(super) fn topic_spec(number: u64, other: bool) -> TopicSpec {
    let text = pick(&TOPICS, number);
    TopicSpec {
        name: name(text),
        age_ms_max: (text == "short").then_some(if other { 9 } else { 3000 }),
        bytes_max: (text == "small").then_some(if other { 9 } else { 400 }),
    }
}

fn header(text: &'static str) -> HeaderValue<'static> {
    HeaderValue::Text(text.into())
}

fn arguments(number: u64) -> Arguments {
    let mut arguments = match number % 6 {
        0 => vec![],
        1 => vec![(name("colour"), header("red")), (name("size"), header("big"))],
        2 => vec![
            (name("x-match"), header("any")),
            (name("colour"), header("red")),
            (name("size"), header("big")),
        ],
        3 => vec![(name("x-match"), header("all")), (name("size"), HeaderValue::Null)],
        4 => vec![(name("x-match"), header("any-with-x")), (name("size"), header("small"))],
        _ => vec![(name("x-match"), header("some"))],
    };
    if (number / 6).is_multiple_of(2) {
        arguments.reverse();
    }
    arguments
}

pub(super) fn binding(wanted: &Binding) -> BindingSpec {
    let exchange = name(pick(&EXCHANGES, wanted.exchange));
    let target = match wanted.to_queue {
        // not to a queue that weighs what comes: a dead letter needs its frame there too
        true => BindTarget::Queue(match queue_name(wanted.target) {
            heavy if matches!(heavy.as_str(), "heavy" | "letters") => name("plain"),
            // nor to one that dead letters of another queue come to: whose are first at one time is open
            dead if dead.starts_with("d.") || matches!(dead.as_str(), "round" | "turn") => name("plain"),
            // a stream is bound by a queue's name
            _ if wanted.key % 16 == 3 => name(pick(&TOPICS, wanted.target)),
            queue => queue,
        }),
        // not where a dead letter needs its frame: it moves when that has been read
        false => BindTarget::Exchange(name(match pick(&EXCHANGES, wanted.target) {
            "amq.topic" | "headers" => "amq.direct",
            exchange => exchange,
        })),
    };
    let arguments = if exchange.as_str() == "headers" { arguments(wanted.arguments) } else { vec![] };
    BindingSpec { exchange, target, key: name(pick(&KEYS, wanted.key)), arguments }
}

/// Patterns of a subscription.
pub(super) fn patterns(number: u64) -> Vec<Name> {
    let texts: &[&str] = match number % 8 {
        0 => &["t.a"],
        1 => &["t.b"],
        2 => &["t.*"],
        3 => &["#"],
        4 => &["short"],
        5 => &["small"],
        6 => &["t.a", "t.b"],
        _ => &["k.#", "live"],
    };
    texts.iter().map(|t| name(t)).collect()
}

/// A message. `number`: makes its text unlike any other.
pub(super) fn publish(model: &Model, wanted: &Message, number: u64) -> Publish {
    let mut attributes = Vec::new();
    if wanted.key.is_multiple_of(2) {
        attributes.push(("colour", "red"));
    }
    match (wanted.key / 2) % 3 {
        0 => attributes.push(("size", "big")),
        1 => attributes.push(("size", "small")),
        _ => {}
    }
    let mut text = format!("m{number}");
    text.extend(std::iter::repeat_n('.', wanted.size as usize));
    let frame =
        Frame::build(FrameKind::Event, attributes, text.as_bytes(), &FrameLimits::GATEWAY).expect("a frame");
    let mut publish = match wanted.to % 24 {
        0..=2 => {
            let key = if wanted.key.is_multiple_of(8) { "live" } else { pick(&TOPICS, wanted.key) };
            let create_topic = key != "live" && wanted.key % 16 > 2;
            Publish { create_topic, ..Publish::new(name("amq.topic"), name(key), frame) }
        }
        3..=10 => {
            let exchange =
                if wanted.to.is_multiple_of(97) { "missing" } else { pick(&EXCHANGES[1..], wanted.to / 24) };
            Publish::new(name(exchange), name(pick(&KEYS, wanted.key)), frame)
        }
        11 => Publish::new(name(""), name(pick(&TOPICS, wanted.key)), frame),
        12 => Publish { create_queue: true, ..Publish::new(name(""), name("made"), frame) },
        _ => Publish::new(name(""), queue_name(wanted.key), frame),
    };
    let full = model.world.queues.values().any(|q| q.messages.len() > MESSAGES_MAX);
    if full && publish.keys[0].as_str() != "volatile" {
        // a queue that is long enough: to one that is not there
        publish.exchange = name("");
        publish.keys = smallvec::smallvec![name("nowhere")];
        publish.create_queue = false;
        publish.create_topic = false;
    }
    publish.persistent = !wanted.flags.is_multiple_of(3);
    publish.mandatory = (wanted.flags / 3).is_multiple_of(3);
    publish.answer = [Answer::None, Answer::Watermark, Answer::Watermark, Answer::Reply]
        [((wanted.flags / 9) % 4) as usize];
    publish.priority = (wanted.flags / 36).is_multiple_of(5).then_some((wanted.flags / 180 % 10) as i32);
    publish.publisher = (wanted.flags / 1800).is_multiple_of(9).then(|| name("user"));
    publish.ttl_ms = wanted.ttl_ms;
    publish.delay_ms = wanted.delay_ms;
    publish.dedup = wanted.dedup.map(|(key, content)| Dedup { key: [key as u8; 16], content });
    publish
}

pub(super) fn consume(
    consumer: u64,
    queue: u64,
    prefetch: Option<u64>,
    pool: u64,
    terms: &Terms,
    rank: u64,
) -> Consume {
    Consume {
        consumer: ConsumerId(consumer as u32),
        queue: queue_name(queue),
        prefetch: prefetch.map(|p| p as u32),
        pool: (pool < 2).then_some(PoolId(pool as u32)),
        exclusive: terms.exclusive,
        auto_ack: terms.auto_ack,
        lease_ms: terms.lease_ms,
        tokens: terms.tokens,
        priority: if rank == 0 { 5 } else { 0 },
    }
}

/// Holders of pulled messages: some are consumers too.
pub(super) fn fetch(holder: u64, queue: u64, max: u64, wait_ms: u64, terms: &Terms) -> Fetch {
    Fetch {
        consumer: ConsumerId(holder as u32 + 3),
        queue: queue_name(queue),
        max: max as u32,
        wait_ms,
        auto_ack: terms.auto_ack,
        lease_ms: terms.lease_ms,
        tokens: terms.tokens,
    }
}

/// A settlement of something that is held, if anything is.
pub(super) fn settle(model: &Model, id: ConnectionId, wanted: &Settlement) -> Option<Request> {
    let ids = model.connections.keys();
    let tokens: Vec<_> = ids.flat_map(|id| model.held_by(*id)).filter_map(|h| h.2).collect();
    settle_of(&model.held_by(id), &tokens, wanted)
}

/// Settlements of one batch. What returns to a queue with a limit may be with its consumer again before the next of them,
/// under the same number: that one does not name it then.
pub(super) fn settled_once(model: &Model, id: ConnectionId, mut requests: Vec<Request>) -> Vec<Request> {
    let mut returned: Vec<(ConsumerId, Seq)> = Vec::new();
    requests.retain(|request| {
        let Request::Settle(settle) = request else { return true };
        let Lease::Positions(consumer, seqs) = &settle.lease else { return true };
        if seqs.iter().any(|seq| returned.contains(&(*consumer, *seq))) {
            return false;
        }
        let returns = matches!(settle.outcome, Outcome::Requeue { .. } | Outcome::Undeliverable);
        if returns && model.is_limited_for(id, *consumer) {
            returned.extend(seqs.iter().map(|seq| (*consumer, *seq)));
        }
        true
    });
    requests
}

/// The same of what is held, by position or by one of all tokens.
pub(super) fn settle_of(
    held: &[(ConsumerId, Seq, Option<Token>)],
    tokens: &[Token],
    wanted: &Settlement,
) -> Option<Request> {
    let answer = !wanted.pick.is_multiple_of(3);
    if wanted.how == 0 {
        let token = *tokens.get((wanted.pick % (tokens.len() as u64).max(1)) as usize)?;
        let lease = Lease::Token(token);
        return Some(Request::Settle(Settle { lease, outcome: wanted.outcome, answer }));
    }
    let (consumer, _, _) = held.get((wanted.pick % (held.len() as u64).max(1)) as usize)?;
    let mut seqs: Vec<Seq> = held.iter().filter(|h| h.0 == *consumer).map(|h| h.1).collect();
    let first = (wanted.pick / 7) as usize % seqs.len();
    seqs.rotate_left(first);
    seqs.truncate(wanted.count as usize);
    match wanted.how {
        1 => seqs.push(Seq(seqs[0].0 + 1_000_000_000)),
        2 => seqs.push(seqs[0]),
        _ => {}
    }
    let lease = Lease::Positions(*consumer, seqs);
    Some(Request::Settle(Settle { lease, outcome: wanted.outcome, answer }))
}
