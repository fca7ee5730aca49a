//! The hash of names: seeded once a process, a few nanoseconds for a short name. Owns nothing else; it is no
//! checksum and nothing stored depends on it.
//!
//! Names come from peers, so the seed is random: whoever may declare cannot choose names that collide.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// Odd constants with well-spread bits (digits of pi).
const MIX: u64 = 0x2438_6a88_85a3_08d3;
const LAST: u64 = 0x1319_8a2e_0370_7345;

/// Makes hashers with the seed of this process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seed(u64);

impl Default for Seed {
    fn default() -> Self {
        static SEED: OnceLock<u64> = OnceLock::new();
        Self(*SEED.get_or_init(|| RandomState::new().hash_one(MIX)))
    }
}

impl BuildHasher for Seed {
    type Hasher = NameHasher;

    fn build_hasher(&self) -> NameHasher {
        NameHasher(self.0)
    }
}

/// Folds eight bytes at a time into the state by one wide multiplication.
#[derive(Debug)]
pub(super) struct NameHasher(u64);

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.0 = fold(self.0 ^ u64::from_le_bytes(*word), MIX);
        }
        let mut tail = [0_u8; 8];
        tail[..rest.len()].copy_from_slice(rest);
        // The length keeps "a" and "a\0" apart.
        self.0 = fold(self.0 ^ u64::from_le_bytes(tail), LAST ^ bytes.len() as u64);
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = fold(self.0 ^ value, MIX);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn similar_names_spread_over_the_low_bits_and_over_the_shards() {
        let seed = Seed::default();
        let hashes: Vec<u64> = (0..4096).map(|i| seed.hash_one(format!("orders.{i}").as_str())).collect();
        let low: HashSet<u64> = hashes.iter().map(|h| h & 0xfff).collect();
        let shard: HashSet<u64> = hashes.iter().map(|h| (h >> 32) & 63).collect();
        assert!(low.len() > 2000, "{} of 4096 low parts", low.len());
        assert_eq!(shard.len(), 64);
    }

    #[test]
    fn zero_bytes_and_lengths_count() {
        let seed = Seed::default();
        let texts = ["", "\0", "\0\0", "a", "a\0", "aaaaaaaa", "aaaaaaaa\0", "aaaaaaaaa"];
        let hashes: HashSet<u64> = texts.iter().map(|t| seed.hash_one(*t)).collect();
        assert_eq!(hashes.len(), texts.len());
    }
}
