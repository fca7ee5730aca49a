//! Inputs made from samples: damaged ones, and ones that claim names which no client may use.

use framegate_frame::names::RESERVED;

use super::random::Random;

/// One damaged copy: a byte changed, a piece removed, doubled, or replaced by noise.
pub(super) fn damaged(sample: &[u8], random: &mut Random) -> Vec<u8> {
    let mut copy = sample.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(copy.len());
        let end = (at + 1 + random.below(16)).min(copy.len());
        match random.below(5) {
            _ if copy.is_empty() => copy = random.bytes(8),
            0 => copy.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.number() as u8),
            1 => copy.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
            2 => drop(copy.drain(at..end)),
            3 => {
                let piece = copy.get(at..end).unwrap_or_default().to_vec();
                copy.splice(at..at, piece);
            }
            _ => {
                let noise = random.bytes(end - at);
                copy.splice(at..end, noise);
            }
        }
    }
    copy
}

/// Copies in which one word after the other stands for a name that no client may send: reserved ones, `~` before the
/// word, `~` instead of its first letter (for formats with lengths).
pub(super) fn claiming(sample: &[u8]) -> Vec<Vec<u8>> {
    let mut copies = Vec::new();
    for (start, end) in words(sample) {
        let word = sample.get(start..end).unwrap_or_default();
        let mut names = vec![[b"~", word].concat(), [b"~", word.get(1..).unwrap_or_default()].concat()];
        names.extend(RESERVED.iter().map(|name| name.as_bytes().to_vec()));
        names.push(b"~other".to_vec());
        for name in names {
            let (before, after) =
                (sample.get(..start).unwrap_or_default(), sample.get(end..).unwrap_or_default());
            copies.push([before, &name, after].concat());
        }
    }
    copies
}

/// Runs of letters and digits, two bytes and longer; at most 64.
fn words(sample: &[u8]) -> Vec<(usize, usize)> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, byte) in sample.iter().copied().chain([0]).enumerate() {
        match (byte.is_ascii_alphanumeric(), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                if at - from >= 2 {
                    words.push((from, at));
                }
                start = None;
            }
            _ => {}
        }
    }
    words.truncate(64);
    words
}
