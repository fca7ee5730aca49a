//! Rendezvous hashing: each key goes to the member whose hash with it is the highest. When a member leaves, only its
//! keys have another highest; when one joins, only those go to it that are higher with it. No state, no table.

use framegate_frame::Frame;

use crate::definition::HeaderValue;
use crate::group::KeySource;
use crate::headers::HeaderTable;
use crate::message::Envelope;

/// Hash of an event's key; None when it has none.
pub(super) fn key_of(
    source: &KeySource,
    envelope: &Envelope,
    frame: &Frame,
    headers: &HeaderTable,
) -> Option<u64> {
    match source {
        KeySource::RoutingKey => Some(hash_of(envelope.key().as_bytes())),
        KeySource::Attribute(name) => frame.attr(name).map(|value| hash_of(value.as_bytes())),
        KeySource::Header(name) => {
            let mut key = None;
            headers.read(frame, &mut |header, value| {
                if header == &**name {
                    key = match value {
                        HeaderValue::Null => None,
                        HeaderValue::Bool(v) => Some(hash_of(&[u8::from(v)])),
                        HeaderValue::Int(v) => Some(hash_of(&v.to_le_bytes())),
                        HeaderValue::Float(v) => Some(hash_of(&v.to_bits().to_le_bytes())),
                        HeaderValue::Text(v) => Some(hash_of(v.as_bytes())),
                        HeaderValue::Bytes(v) => Some(hash_of(&v)),
                        HeaderValue::Time(v) => Some(hash_of(&v.to_le_bytes())),
                    };
                }
            });
            key
        }
    }
}

/// Hash of some bytes: FNV-1a, mixed, so that close keys are far apart.
pub(super) fn hash_of(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mix(fnv)
}

/// How strongly a key is drawn to a member.
pub(super) fn weight(key: u64, member: u64) -> u64 {
    mix(key ^ member.rotate_left(32))
}

/// Spreads every bit over all (the finalizer of SplitMix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(key: u64, members: &[u64]) -> u64 {
        members.iter().copied().max_by_key(|m| weight(key, hash_of(&m.to_le_bytes()))).expect("members")
    }

    #[test]
    fn keys_spread_evenly_and_only_those_of_a_leaver_move() {
        let members: Vec<u64> = (1..=10).collect();
        let keys: Vec<u64> = (0..10_000).map(|k| hash_of(format!("key-{k}").as_bytes())).collect();
        let mut counts = [0; 11];
        for key in &keys {
            counts[owner(*key, &members) as usize] += 1;
        }
        assert!(counts[1..].iter().all(|c| (850..1150).contains(c)), "{counts:?}");
        let rest: Vec<u64> = members.iter().copied().filter(|m| *m != 4).collect();
        let moved = keys.iter().filter(|k| owner(**k, &members) != owner(**k, &rest)).count();
        assert_eq!(moved, counts[4]);
    }
}
