//! Any bytes: packets and values are read or refused, never with a panic, at any split. The corpus is what was captured between
//! the published clients and the original server, and seeded damage of it. `FUZZ_SEED` repeats a failure or looks elsewhere.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use framegate_adaptor_api::compliance::Random;
use framegate_bunqueue::{fuzz_packets, fuzz_value};

const MUTATIONS: usize = 20_000;
const VECTORS: [&str; 6] = [
    include_str!("../../../tests/vectors/bunqueue/01-handshake.json"),
    include_str!("../../../tests/vectors/bunqueue/02-push.json"),
    include_str!("../../../tests/vectors/bunqueue/05-queries.json"),
    include_str!("../../../tests/vectors/bunqueue/06-cron.json"),
    include_str!("../../../tests/vectors/bunqueue/30-npm-client-2.9.5.json"),
    include_str!("../../../tests/vectors/bunqueue/31-python-client-0.1.5.json"),
];

/// Every captured packet that is whole.
fn packets() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for text in VECTORS {
        let file: serde_json::Value = serde_json::from_str(text).expect("JSON");
        for entry in file.as_array().expect("a list") {
            for field in ["request_hex", "response_hex"] {
                let hex = entry[field].as_str().unwrap_or_default();
                let octet = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
                let packet: Vec<u8> = (0..hex.len()).step_by(2).map(octet).collect();
                if packet.len() > 5 && fuzz_value(&packet[4..]).is_some() {
                    all.push(packet);
                }
            }
        }
    }
    assert!(all.len() > 300, "{}", all.len());
    all
}

fn mutate(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    const INTERESTING: [u8; 14] =
        [0x00, 0x7F, 0x80, 0x8F, 0x9F, 0xBF, 0xC0, 0xC1, 0xC7, 0xCF, 0xD4, 0xDB, 0xDD, 0xDF];
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

/// Runs damage of the corpus, of which some must be read and some refused.
fn run(corpus: &[Vec<u8>], entry: impl Fn(&[u8]) -> bool) {
    let seed = std::env::var("FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x00B0_6789);
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
fn streams_of_packets_are_cut_or_refused() {
    let corpus = packets();
    run(&corpus, |bytes| fuzz_packets(bytes) > 0);
    assert_eq!(fuzz_packets(&corpus.concat()), corpus.len());
}

#[test]
fn values_are_read_or_refused() {
    let corpus: Vec<_> = packets().into_iter().map(|packet| packet[4..].to_vec()).collect();
    run(&corpus, |bytes| fuzz_value(bytes).is_some());
}

#[test]
fn captured_values_end_nowhere_but_at_their_end() {
    for packet in packets() {
        for end in 4..packet.len() {
            assert!(fuzz_value(&packet[4..end]).is_none(), "{end} of {packet:02x?}");
        }
    }
}

/// What the original and its npm client write comes out of this writer byte for byte. Extensions (`undefined`, dates) aside:
/// `undefined` is left out of what is written here.
#[test]
fn captured_values_are_written_as_they_came() {
    let mut same = 0;
    for packet in packets() {
        let again = fuzz_value(&packet[4..]).expect("whole");
        let has_extension =
            packet.windows(3).any(|bytes| matches!(bytes, [0xD4, 0, 0] | [0xD6 | 0xD7, 0xFF, _]));
        // the Python client writes short maps
        let is_short = packet[4] != 0xDE;
        let has_big = packet.windows(2).any(|bytes| matches!(bytes, [0xCF | 0xD3, 0]));
        if !has_extension && !is_short && !has_big {
            assert_eq!(again, packet[4..], "{packet:02x?}");
            same += 1;
        }
    }
    assert!(same > 150, "{same}");
}
