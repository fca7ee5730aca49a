//! Any bytes: frames, methods and tables are read or refused, never with a panic, and what is read comes back. The corpus is
//! what was captured, and seeded damage of it. `FUZZ_SEED` repeats a failure or looks elsewhere.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use framegate_adaptor_api::compliance::Random;
use framegate_amqp::{fuzz_content_header, fuzz_frames, fuzz_method, fuzz_table};

const MUTATIONS: usize = 20_000;
const VECTORS: [&str; 2] = [
    include_str!("../../../tests/vectors/amqp/pika-rabbitmq.json"),
    include_str!("../../../tests/vectors/amqp/amqplib-rabbitmq.json"),
];

/// Every captured frame.
fn frames() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for text in VECTORS {
        let file: serde_json::Value = serde_json::from_str(text).expect("JSON");
        for vector in file["vectors"].as_array().expect("vectors") {
            let hex = vector["hex"].as_str().expect("hex");
            let octet = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
            let frame: Vec<u8> = (0..hex.len()).step_by(2).map(octet).collect();
            if !frame.starts_with(b"AMQP") {
                all.push(frame);
            }
        }
    }
    all
}

/// Payloads of the frames of one kind.
fn payloads(kind: u8) -> Vec<Vec<u8>> {
    frames().iter().filter(|f| f[0] == kind).map(|f| f[7..f.len() - 1].to_vec()).collect()
}

/// Header tables of the captured contents, and one with a value of every letter.
fn tables() -> Vec<Vec<u8>> {
    let mut all = vec![
        [
            &b"\x01aV\x01bt\x01\x01cb\xff\x01dB\xff\x01es\xff\xfe\x01fu\xff\xfe\x01gI\xff\xff\xff\xfe"[..],
            b"\x01hi\xff\xff\xff\xfe\x01ll\x80\0\0\0\0\0\0\0\x01kL\0\0\0\0\0\0\0\x01\x01mf\x3f\x80\0\0",
            b"\x01nd\x7f\xf0\0\0\0\0\0\0\x01oD\x02\0\0\x01\0\x01pT\0\0\0\0\x65\0\0\0\x01qS\0\0\0\x02\xff\xfe",
            b"\x01rx\0\0\0\x01\0\x01sA\0\0\0\x07I\0\0\0\x01t\0\x01tF\0\0\0\x04\x01vt\x01",
        ]
        .concat(),
    ];
    for header in payloads(2).iter().filter(|h| u16::from_be_bytes([h[12], h[13]]) & 0x2000 != 0) {
        let mut at = 14;
        for flag in [0x80, 0x40] {
            if header[12] & flag != 0 {
                at += 1 + usize::from(header[at]);
            }
        }
        let size = u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]) as usize;
        all.push(header[at + 4..at + 4 + size].to_vec());
    }
    all
}

fn mutate(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    const INTERESTING: [u8; 12] = [0x00, 0x01, 0x7F, 0x80, 0xCE, 0xFF, b'A', b'F', b'S', b'T', b'D', 0x20];
    let at = random.below(bytes.len() + 1);
    let Some(byte) = bytes.get_mut(at) else { return bytes.push(random.bytes(1)[0]) };
    match random.below(12) {
        0..=2 => *byte ^= 1 << random.below(8),
        3..=5 => *byte = INTERESTING[random.below(INTERESTING.len())],
        6 | 7 => *byte = random.bytes(1)[0],
        8 => bytes.truncate(at),
        9 => drop(bytes.remove(at)),
        10 => bytes.insert(at, INTERESTING[random.below(INTERESTING.len())]),
        _ => {
            let other = &corpus[random.below(corpus.len())];
            bytes.truncate(at);
            bytes.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
    }
}

/// Runs the corpus, which must all be read, and damage of it, of which some must be read and some refused.
fn run(corpus: &[Vec<u8>], entry: impl Fn(&[u8]) -> bool) {
    assert!(corpus.iter().all(|bytes| entry(bytes)), "what was captured can be read");
    let seed = std::env::var("FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x00A1_0901);
    let mut random = Random::new(seed);
    let mut read = 0;
    for round in 0..MUTATIONS {
        let mut bytes = corpus[random.below(corpus.len())].clone();
        for _ in 0..=random.below(3) {
            mutate(&mut bytes, corpus, &mut random);
        }
        match catch_unwind(AssertUnwindSafe(|| entry(&bytes))) {
            Ok(is_read) => read += usize::from(is_read),
            Err(panic) => {
                eprintln!("FUZZ_SEED={seed} round {round}: {bytes:02x?}");
                resume_unwind(panic);
            }
        }
    }
    println!("seed {seed}: {read} of {MUTATIONS} read");
    assert!(read > MUTATIONS / 20 && read < MUTATIONS, "{read}");
}

#[test]
fn streams_of_frames_are_cut_or_refused() {
    let corpus = frames();
    run(&corpus, |bytes| fuzz_frames(bytes) > 0);
    let all = corpus.concat();
    assert_eq!(fuzz_frames(&all), corpus.len());
}

#[test]
fn methods_are_read_or_refused() {
    run(&payloads(1), fuzz_method);
}

#[test]
fn content_headers_are_read_or_refused() {
    run(&payloads(2), fuzz_content_header);
}

#[test]
fn tables_are_read_or_refused() {
    let corpus = tables();
    assert!(corpus.len() > 10, "{}", corpus.len());
    run(&corpus, fuzz_table);
}
