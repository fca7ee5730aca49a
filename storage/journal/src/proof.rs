//! Tells a torn tail from corruption: looks for batches behind a bad one and what they say was synced.

use std::io;

use framegate_storage::Lsn;

use crate::batch::{BATCH_BYTES, BatchHeader, plausible};
use crate::files::{FileHandle, read_full};

const WINDOW: usize = 1 << 20;

/// What stands behind an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Remains {
    /// Highest LSN that a batch header behind it says was durable.
    pub(crate) synced: Lsn,
    /// Whether there is anything but zeros.
    pub(crate) garbage: bool,
}

/// Looks at every byte from `from` to `limit`. A header with a good checksum counts even if its records are
/// damaged: it was written by an owner of this segment, and what it says was true then.
pub(crate) fn search(file: &dyn FileHandle, seed: u32, from: u64, limit: u64) -> io::Result<Remains> {
    let mut remains = Remains::default();
    let mut buffer = vec![0; WINDOW];
    let mut start = from;
    while start < limit {
        let want = WINDOW.min((limit - start) as usize);
        let read = read_full(file, start, &mut buffer[..want])?;
        let window = &buffer[..read];
        if window.iter().any(|byte| *byte != 0) {
            remains.garbage = true;
            for at in 0..read.saturating_sub(BATCH_BYTES as usize - 1) {
                let candidate = &window[at..];
                if plausible(candidate)
                    && let Some(header) = BatchHeader::decode(candidate, seed, start + at as u64)
                {
                    remains.synced = remains.synced.max(header.synced);
                }
            }
        }
        if read < want || start + read as u64 >= limit {
            break;
        }
        // Windows overlap, so that a header across the border is seen.
        start += read as u64 - (BATCH_BYTES - 1);
    }
    Ok(remains)
}
