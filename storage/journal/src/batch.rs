//! The header of a batch, the stored form of one block: 52 bytes, little-endian, then the records.
//!
//! ```text
//!  0  length      u32  bytes after this field; 0 = end of written data
//!  4  header crc  u32  over salt, file offset, bytes 0..4 and 8..52
//!  8  body crc    u32  over salt and records
//! 12  base LSN    u64
//! 20  epoch       u64
//! 28  synced LSN  u64  highest LSN known durable when this batch was written
//! 36  time, ms    u64
//! 44  count       u32  records; 0 in a mark
//! 48  flags       u16  bit 2 clean shutdown, bit 3 mark; bits 8 to 15 may be skipped when unknown
//! 50  version     u16
//! ```
//! The header has a checksum of its own, so that a search for batches costs 52 bytes a try, a reader knows
//! a real position from a wrong one without the records, and `synced LSN` counts even if the records are
//! damaged. A mark holds no records: it only says that everything before it had been synced.

use framegate_storage::{BlockFlags, Epoch, Lsn};

use crate::header::{u16_at, u32_at, u64_at};

pub(crate) const BATCH_BYTES: u64 = 52;
const BATCH_LEN: usize = BATCH_BYTES as usize;
const VERSION: u16 = 1;

pub(crate) const CLEAN: u16 = 1 << 2;
pub(crate) const MARK: u16 = 1 << 3;
/// Bits that must be understood: the low byte.
const KNOWN: u16 = CLEAN | MARK;
const MUST_UNDERSTAND: u16 = 0x00ff;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    /// Bytes of the records.
    pub(crate) len: u32,
    pub(crate) body_crc: u32,
    pub(crate) base: Lsn,
    pub(crate) epoch: Epoch,
    pub(crate) synced: Lsn,
    pub(crate) time_ms: u64,
    pub(crate) count: u32,
    pub(crate) flags: u16,
    pub(crate) version: u16,
}

impl BatchHeader {
    /// A header of this version; `body_crc` covers the records.
    pub(crate) fn encode(&self, seed: u32, offset: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&(self.len + BATCH_BYTES as u32 - 4).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.body_crc.to_le_bytes());
        out.extend_from_slice(&self.base.0.to_le_bytes());
        out.extend_from_slice(&self.epoch.0.to_le_bytes());
        out.extend_from_slice(&self.synced.0.to_le_bytes());
        out.extend_from_slice(&self.time_ms.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.flags.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        let crc = header_crc(&out[start..], seed, offset);
        out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    }

    /// The header in `bytes`, which were read at `offset`; `None` when they are none.
    pub(crate) fn decode(bytes: &[u8], seed: u32, offset: u64) -> Option<Self> {
        let bytes = bytes.get(..BATCH_LEN)?;
        let length = u32_at(bytes, 0);
        if length < BATCH_BYTES as u32 - 4 || u32_at(bytes, 4) != header_crc(bytes, seed, offset) {
            return None;
        }
        Some(Self {
            len: length - (BATCH_BYTES as u32 - 4),
            body_crc: u32_at(bytes, 8),
            base: Lsn(u64_at(bytes, 12)),
            epoch: Epoch(u64_at(bytes, 20)),
            synced: Lsn(u64_at(bytes, 28)),
            time_ms: u64_at(bytes, 36),
            count: u32_at(bytes, 44),
            flags: u16_at(bytes, 48),
            version: u16_at(bytes, 50),
        })
    }

    pub(crate) fn new(len: u32, body_crc: u32, base: Lsn, epoch: Epoch, synced: Lsn) -> Self {
        Self { len, body_crc, base, epoch, synced, time_ms: 0, count: 0, flags: 0, version: VERSION }
    }

    /// Bytes of header and records.
    pub(crate) fn stored_bytes(&self) -> u64 {
        BATCH_BYTES + u64::from(self.len)
    }

    /// LSN after the last record.
    pub(crate) fn next(&self) -> Option<Lsn> {
        self.base.0.checked_add(u64::from(self.count)).map(Lsn)
    }

    pub(crate) fn is_mark(&self) -> bool {
        self.flags & MARK != 0
    }

    pub(crate) fn block_flags(&self) -> BlockFlags {
        BlockFlags { clean_shutdown: self.flags & CLEAN != 0 }
    }

    /// Flag bits that this version does not know and must not skip.
    pub(crate) fn unknown_flags(&self) -> u16 {
        self.flags & MUST_UNDERSTAND & !KNOWN
    }

    pub(crate) fn newer_version(&self) -> Option<u16> {
        (self.version > VERSION).then_some(self.version)
    }
}

/// Newest batch version that is read.
pub(crate) const fn supported_version() -> u16 {
    VERSION
}

/// Whether a header could start here at all: cheap, so that a search skips most offsets.
pub(crate) fn plausible(bytes: &[u8]) -> bool {
    bytes.len() >= BATCH_LEN && bytes[51] == 0 && bytes[50] != 0 && u32_at(bytes, 0) >= BATCH_BYTES as u32 - 4
}

fn header_crc(bytes: &[u8], seed: u32, offset: u64) -> u32 {
    let crc = crc32c::crc32c_append(seed, &offset.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &bytes[0..4]);
    crc32c::crc32c_append(crc, &bytes[8..BATCH_LEN])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_header_is_valid_only_unchanged_in_its_place_and_segment(
            len in 0u32..1 << 30, body_crc: u32, base: u64, epoch: u64, synced: u64, time_ms: u64,
            count: u32, flags: u16, seed: u32, offset in 0u64..1 << 31, bit in 0usize..BATCH_LEN * 8,
        ) {
            let (base, epoch, synced) = (Lsn(base), Epoch(epoch), Lsn(synced));
            let header = BatchHeader { time_ms, count, flags, ..BatchHeader::new(len, body_crc, base, epoch, synced) };
            let mut bytes = Vec::new();
            header.encode(seed, offset, &mut bytes);
            prop_assert_eq!(bytes.len(), BATCH_LEN);
            prop_assert!(plausible(&bytes));
            prop_assert_eq!(BatchHeader::decode(&bytes, seed, offset), Some(header));
            prop_assert_eq!(BatchHeader::decode(&bytes, seed, offset + 1), None);
            prop_assert_eq!(BatchHeader::decode(&bytes, !seed, offset), None);
            prop_assert_eq!(BatchHeader::decode(&bytes[..BATCH_LEN - 1], seed, offset), None);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(BatchHeader::decode(&bytes, seed, offset), None);
        }
    }
}
