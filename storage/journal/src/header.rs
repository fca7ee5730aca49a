//! The header of a segment file: 64 bytes, little-endian, written and synced before the file gets its name.
//!
//! ```text
//!  0  magic "FGSEG01\0"  8     24  base LSN  u64     48  created, ms  u64
//!  8  format version   u16     32  epoch     u64     56  reserved     u32
//! 10  flags            u16     40  salt      u64     60  crc32c       u32 of bytes 0..60
//! 12  shard            u32
//! 16  segment number   u64
//! ```
//! The salt is random and seeds every checksum of the segment, so that neither bytes left over from
//! another file nor bytes a client sends can pass for a batch.

use framegate_storage::{Epoch, Lsn};

pub(crate) const HEADER_BYTES: u64 = 64;
/// Newest format that is read; the one that is written.
pub(crate) const FORMAT: u16 = 1;
const MAGIC: &[u8; 8] = b"FGSEG01\0";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) shard: u32,
    pub(crate) number: u64,
    pub(crate) base: Lsn,
    pub(crate) epoch: Epoch,
    pub(crate) salt: u64,
    pub(crate) created_ms: u64,
}

/// Why 64 bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadHeader {
    NotASegment,
    Version(u16),
    Checksum,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut out = [0; HEADER_BYTES as usize];
        out[0..8].copy_from_slice(MAGIC);
        out[8..10].copy_from_slice(&FORMAT.to_le_bytes());
        out[12..16].copy_from_slice(&self.shard.to_le_bytes());
        out[16..24].copy_from_slice(&self.number.to_le_bytes());
        out[24..32].copy_from_slice(&self.base.0.to_le_bytes());
        out[32..40].copy_from_slice(&self.epoch.0.to_le_bytes());
        out[40..48].copy_from_slice(&self.salt.to_le_bytes());
        out[48..56].copy_from_slice(&self.created_ms.to_le_bytes());
        let crc = crc32c::crc32c(&out[..60]);
        out[60..64].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES as usize]) -> Result<Self, BadHeader> {
        if &bytes[0..8] != MAGIC {
            return Err(BadHeader::NotASegment);
        }
        if crc32c::crc32c(&bytes[..60]) != u32_at(bytes, 60) {
            return Err(BadHeader::Checksum);
        }
        let version = u16_at(bytes, 8);
        if version > FORMAT {
            return Err(BadHeader::Version(version));
        }
        Ok(Self {
            shard: u32_at(bytes, 12),
            number: u64_at(bytes, 16),
            base: Lsn(u64_at(bytes, 24)),
            epoch: Epoch(u64_at(bytes, 32)),
            salt: u64_at(bytes, 40),
            created_ms: u64_at(bytes, 48),
        })
    }
}

/// Seed of every checksum in a segment with this salt.
pub(crate) fn seed(salt: u64) -> u32 {
    crc32c::crc32c(&salt.to_le_bytes())
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the slice has the length of the array")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_header_survives_a_round_trip_and_no_flipped_bit(
            shard: u32, number: u64, base: u64, epoch: u64, salt: u64, created_ms: u64, bit in 0usize..512,
        ) {
            let header =
                SegmentHeader { shard, number, base: Lsn(base), epoch: Epoch(epoch), salt, created_ms };
            let mut bytes = header.encode();
            prop_assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(SegmentHeader::decode(&bytes).is_err());
        }
    }
}
