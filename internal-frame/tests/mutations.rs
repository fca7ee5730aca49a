//! Damaged frames: a parse gives a frame or an error, never a panic, and every frame keeps all invariants.
//! The corpus is the golden vectors, legal and malformed.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use bytes::Bytes;
use framegate_frame::{Frame, Limits, fuzz_parse};
use support::{bytes_of, vectors};

const MUTATIONS: u32 = 20_000;

fn corpus() -> Vec<Vec<u8>> {
    [legal(), bytes("frames-invalid.json")].concat()
}

fn legal() -> Vec<Vec<u8>> {
    bytes("frames.json")
}

fn bytes(file: &str) -> Vec<Vec<u8>> {
    vectors(file).iter().map(bytes_of).collect()
}

#[test]
fn every_truncation_of_a_frame_is_an_error() {
    let mut cuts = 0;
    for bytes in legal() {
        let whole = Bytes::from(bytes);
        for end in 0..whole.len() {
            for limits in [Limits::EVENTMESH, Limits::GATEWAY.public()] {
                assert!(Frame::parse(whole.slice(..end), &limits).is_err(), "{end} of {}", whole.len());
            }
            cuts += 1;
        }
    }
    println!("{cuts} truncations refused");
}

/// All 255 other values of every byte. Within long runs of the same attribute value only the first and last 64
/// bytes of a vector are replaced by all values, and the rest by the bytes that matter to UTF-8.
#[test]
fn every_single_byte_mutation_gives_a_frame_or_an_error() {
    const UTF8: [u8; 6] = [0x00, 0x7F, 0x80, 0xC3, 0xED, 0xFF];
    let (mut frames, mut errors) = (0u32, 0u32);
    for bytes in corpus() {
        let mut damaged = bytes.clone();
        for (index, &original) in bytes.iter().enumerate() {
            let edge = bytes.len() <= 1024 || index < 64 || index + 64 >= bytes.len();
            let all: Vec<u8> = (0..=255).collect();
            for &value in if edge { all.as_slice() } else { &UTF8 } {
                damaged[index] = value;
                for limits in [Limits::EVENTMESH, Limits::GATEWAY.public()] {
                    match Frame::parse(Bytes::copy_from_slice(&damaged), &limits) {
                        Ok(frame) => {
                            assert_eq!(frame.attrs().count(), frame.attr_count());
                            frames += 1;
                        }
                        Err(error) => {
                            assert!(error.offset().is_none_or(|offset| offset <= damaged.len()), "{error}");
                            errors += 1;
                        }
                    }
                }
            }
            damaged[index] = original;
        }
    }
    println!("{frames} frames, {errors} errors");
    assert!(frames > 0 && errors > 0);
}

#[test]
fn corpus_keeps_all_invariants() {
    let frames = corpus().iter().filter(|bytes| fuzz_parse(bytes)).count();
    println!("{frames} frames under the gateway's limits");
}

/// One to three random edits of a random vector, three times in four a legal one. Set `FUZZ_SEED` to repeat a failure
/// or to look elsewhere.
#[test]
fn random_mutations_keep_all_invariants() {
    let seed = std::env::var("FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x00EF_0103);
    let (legal, corpus) = (legal(), corpus());
    let mut random = XorShift(seed);
    let mut frames = 0;
    for round in 0..MUTATIONS {
        let from = if random.below(4) > 0 { &legal } else { &corpus };
        let mut bytes = from[random.below(from.len())].clone();
        for _ in 0..=random.below(3) {
            mutate(&mut bytes, &corpus, &mut random);
        }
        match catch_unwind(AssertUnwindSafe(|| fuzz_parse(&bytes))) {
            Ok(is_frame) => frames += u32::from(is_frame),
            Err(panic) => {
                eprintln!("FUZZ_SEED={seed} round {round}: {bytes:02x?}");
                resume_unwind(panic);
            }
        }
    }
    println!("seed {seed}: {frames} frames in {MUTATIONS} mutations");
    assert!(frames > MUTATIONS / 5, "mutations no longer reach frames: {frames}");
}

fn mutate(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut XorShift) {
    const INTERESTING: [u8; 10] = [0x00, 0x01, 0x02, 0x7E, 0x7F, 0x80, 0xC3, 0xEF, 0xFE, 0xFF];
    let at = random.below(bytes.len() + 1);
    let Some(byte) = bytes.get_mut(at) else {
        return bytes.push(random.below(256) as u8);
    };
    match random.below(16) {
        0..=2 => *byte ^= 1 << random.below(8),
        3 | 4 => *byte = INTERESTING[random.below(INTERESTING.len())],
        5..=7 => *byte = random.below(256) as u8,
        8 => bytes.truncate(at),
        9 => drop(bytes.remove(at)),
        10 => bytes.insert(at, INTERESTING[random.below(INTERESTING.len())]),
        11 => {
            let other = &corpus[random.below(corpus.len())];
            let from = random.below(other.len() + 1);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        _ => repeat_first_attribute(bytes),
    }
}

/// Makes legal frames with duplicate names: the first attribute once more, and the count raised.
fn repeat_first_attribute(bytes: &mut Vec<u8>) {
    let Ok(frame) = Frame::parse(Bytes::copy_from_slice(bytes), &Limits::GATEWAY) else { return };
    let Some((name, value)) = frame.attrs().next() else { return };
    let (end, count) = (14 + 6 + name.len() + value.len(), frame.attr_count() + 1);
    let attribute = bytes[14..end].to_vec();
    bytes.splice(end..end, attribute);
    bytes.splice(8..10, (count as u16).to_be_bytes());
}

struct XorShift(u64);

impl XorShift {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}
