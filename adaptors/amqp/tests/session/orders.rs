//! Valid frames in illegal orders: whatever a client sends, the session goes on or closes in the protocol's own words, and after
//! a close nothing counts but close and close-ok. Seeded; `FUZZ_SEED` repeats a failure or looks elsewhere.

use std::collections::BTreeSet;

use framegate_adaptor_api::compliance::Random;
use framegate_adaptor_api::testing::SessionScript;
use framegate_amqp::fuzz_frames;
use framegate_broker::{Effect, Request};

use crate::{VECTORS, delivery, method, methods, opened, script};

const SEQUENCES: u64 = 4000;
const STEPS: usize = 40;
const AMQPLIB: &str = include_str!("../../../../tests/vectors/amqp/amqplib-rabbitmq.json");
const CLOSE: (u16, u16, u16) = (0, 10, 50);
const CLOSE_OK: (u16, u16, u16) = (0, 10, 51);

/// Captured frames of both directions: a client that says what only servers say is out of order too.
fn frames() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for text in [VECTORS, AMQPLIB] {
        let file: serde_json::Value = serde_json::from_str(text).expect("is there");
        for vector in file["vectors"].as_array().expect("is there") {
            let hex = vector["hex"].as_str().expect("is there");
            let octet = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("is there");
            let frame: Vec<u8> = (0..hex.len()).step_by(2).map(octet).collect();
            if !frame.starts_with(b"AMQP") {
                all.push(frame);
            }
        }
    }
    all
}

/// What clients send in one go: a method, or a publish with its content.
fn units(frames: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
    let mut all: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut takes_content = false;
    for frame in frames {
        match methods(frame).first() {
            Some((_, 60, 40)) => {
                all.push(vec![frame.clone()]);
                takes_content = true;
            }
            // methods of clients have round numbers
            Some((_, class, number)) if *class != 10 && number % 10 == 0 => {
                takes_content = false;
                if !matches!((class, number), (20, 10) | (60, 50 | 60)) {
                    all.push(vec![frame.clone()]);
                }
            }
            None if takes_content && frame[0] != 8 => all.last_mut().expect("a publish").push(frame.clone()),
            _ => takes_content = false,
        }
    }
    all
}

/// What has been closed by the server so far.
#[derive(Default)]
struct Closed {
    connection: bool,
    channels: BTreeSet<u16>,
}

/// How often what was reached, so that the test is known to reach it.
#[derive(Debug, Default)]
struct Seen {
    channel_closes: u32,
    connection_closes: u32,
    client_closes: u32,
    ignored: u32,
}

/// Sends one frame and checks what it did.
fn step(script: &mut SessionScript, frame: &[u8], closed: &mut Closed, seen: &mut Seen) {
    let channel = u16::from_be_bytes([frame[1], frame[2]]);
    let said = methods(frame).first().copied();
    let was_closed = closed.channels.contains(&channel);
    script.take_requests();
    script.feed(frame);
    let requests = script.take_requests();
    let output = script.take_output();
    assert!(script.failed.is_none(), "ends without the protocol's close: {:?}", script.failed);
    assert!(script.has_ended() || script.rest().is_empty(), "neither goes on nor closes");
    if closed.connection {
        seen.ignored += 1;
        assert!(requests.is_empty(), "asked after the close: {requests:?}");
        let is_end = matches!(said, Some(CLOSE | CLOSE_OK));
        assert_eq!(script.has_ended(), is_end, "{said:?}");
        let expected: &[_] = if said == Some(CLOSE) { &[CLOSE_OK] } else { &[] };
        assert_eq!(methods(&output), expected, "after the close");
        return;
    }
    if was_closed && !script.has_ended() {
        seen.ignored += 1;
        let of_channel = |id: u64| id & 0xffff == u64::from(channel);
        let asked = requests.iter().any(|(id, r)| of_channel(id.0) && !matches!(r, Request::Report(_)));
        assert!(!asked, "a closed channel asked: {requests:?}");
        match said {
            Some((_, 20, 41)) => drop(closed.channels.remove(&channel)),
            Some((_, 20, 40)) => {
                assert_eq!(methods(&output), [(channel, 20, 41)]);
                closed.channels.remove(&channel);
                return;
            }
            _ => {}
        }
        assert!(output.is_empty(), "a closed channel speaks after {said:?}");
        return;
    }
    hear(&output, closed, seen);
    seen.client_closes += u32::from(script.has_ended());
}

/// Checks what the server says by itself or in answer, and remembers its closes.
fn hear(output: &[u8], closed: &mut Closed, seen: &mut Seen) {
    fuzz_frames(output);
    for (channel, class, number) in methods(output) {
        assert!(!closed.connection, "{class}.{number} behind the close");
        assert!(!closed.channels.contains(&channel), "{class}.{number} on the closed channel {channel}");
        match (class, number) {
            (10, 50) => {
                closed.connection = true;
                seen.connection_closes += 1;
            }
            (20, 40) => {
                closed.channels.insert(channel);
                seen.channel_closes += 1;
            }
            _ => {}
        }
    }
}

/// One sequence.
fn run(seed: u64, frames: &[Vec<u8>], units: &[Vec<Vec<u8>>], seen: &mut Seen) {
    let mut random = Random::new(seed);
    let mut closed = Closed::default();
    let mut script = if random.below(8) == 0 {
        let mut script = script();
        script.feed(b"AMQP\x00\x00\x09\x01");
        script.take_output();
        script
    } else {
        opened()
    };
    let open = |channel| method(channel, 20, 10, b"\0");
    step(&mut script, &open(2), &mut closed, seen);
    for number in 0..STEPS {
        let channel = u16::try_from(random.below(2) + 1).expect("is there");
        let mut unit = match random.below(60) {
            0 => vec![frames[random.below(frames.len())].clone()],
            _ => units[random.below(units.len())].clone(),
        };
        for frame in &mut unit {
            if frame[0] != 8 && (frame[1..3] != [0, 0] || random.below(4) == 0) {
                frame[1..3].copy_from_slice(&channel.to_be_bytes());
            }
        }
        // most clients answer a close and open again
        let is_closed = closed.channels.contains(&channel) && random.below(3) == 0;
        if is_closed {
            unit.push(method(channel, 20, 41, b""));
        }
        if (is_closed || methods(&unit[0])[..] == [(channel, 20, 40)]) && random.below(30) != 0 {
            unit.push(open(channel));
        }
        for frame in unit {
            if !script.has_ended() {
                step(&mut script, &frame, &mut closed, seen);
            }
        }
        if !script.has_ended() && random.below(4) == 0 {
            let consumer = u32::try_from(random.below(4)).expect("is there");
            script.effect(delivery(consumer, number as u64));
            hear(&script.take_output(), &mut closed, seen);
        }
        if !script.has_ended() && random.below(30) == 0 {
            script.effect(Effect::Blocked(random.below(2) == 0));
            hear(&script.take_output(), &mut closed, seen);
        }
        if script.has_ended() {
            return;
        }
    }
    let goodbye = method(0, 10, 50, b"\0\xc8\0\0\0\0\0");
    script.feed(&goodbye);
    assert_eq!(methods(&script.take_output()).last(), Some(&CLOSE_OK), "a client can always leave");
    assert!(script.has_ended());
}

#[test]
fn illegal_orders_are_answered_or_closed_and_nothing_counts_behind_a_close() {
    let frames = frames();
    let units = units(&frames);
    assert!(units.len() > 80, "{}", units.len());
    let first = std::env::var("FUZZ_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = first.map_or(1..=SEQUENCES, |seed| seed..=seed);
    let mut seen = Seen::default();
    for seed in seeds {
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut own = Seen::default();
            run(seed, &frames, &units, &mut own);
            own
        }));
        let own = panicked.unwrap_or_else(|panic| {
            eprintln!("FUZZ_SEED={seed}");
            std::panic::resume_unwind(panic)
        });
        seen.channel_closes += own.channel_closes;
        seen.connection_closes += own.connection_closes;
        seen.client_closes += own.client_closes;
        seen.ignored += own.ignored;
    }
    println!("{seen:?}");
    if first.is_none() {
        let Seen { channel_closes, connection_closes, client_closes, ignored } = seen;
        assert!(channel_closes > 500 && connection_closes > 500 && client_closes > 10 && ignored > 500);
    }
}
