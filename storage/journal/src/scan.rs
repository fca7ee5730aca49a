//! Walks the batches of one segment in order. Reads in large steps; decides nothing about what is bad.

use std::io;

use crate::batch::{BATCH_BYTES, BatchHeader};
use crate::files::{FileHandle, read_full};
use crate::header::u32_at;

/// What stands at an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// An intact batch.
    Batch(BatchHeader, u64),
    /// Length 0, or no more bytes.
    End(u64),
    /// Something that is no intact batch, and what is wrong with it.
    Bad(u64, &'static str),
}

/// A walk over `file` from an offset up to a limit.
pub(crate) struct Scan<'a> {
    file: &'a dyn FileHandle,
    seed: u32,
    offset: u64,
    limit: u64,
    step_bytes: usize,
    buffer: Vec<u8>,
    /// File offset of the first byte in `buffer`.
    start: u64,
    body: std::ops::Range<usize>,
}

impl<'a> Scan<'a> {
    /// Reads nothing at or above `limit`, and at least `step_bytes` at a time below it.
    pub(crate) fn new(
        file: &'a dyn FileHandle,
        seed: u32,
        offset: u64,
        limit: u64,
        step_bytes: usize,
    ) -> Self {
        Self { file, seed, offset, limit, step_bytes, buffer: Vec::new(), start: 0, body: 0..0 }
    }

    /// The records of the batch that the last step returned.
    pub(crate) fn body(&self) -> &[u8] {
        &self.buffer[self.body.clone()]
    }

    /// Goes to the next batch. After `End` or `Bad` it stays there.
    pub(crate) fn step(&mut self) -> io::Result<Step> {
        let at = self.offset;
        let head = self.bytes(at, BATCH_BYTES)?;
        if head.len() < 4 || u32_at(head, 0) == 0 {
            return Ok(Step::End(at));
        }
        let seed = self.seed;
        let head = self.bytes(at, BATCH_BYTES)?;
        let Some(header) = BatchHeader::decode(head, seed, at) else {
            return Ok(Step::Bad(at, "the batch header does not match its checksum"));
        };
        let stored = header.stored_bytes();
        let whole = self.bytes(at, stored)?;
        if (whole.len() as u64) < stored {
            return Ok(Step::Bad(at, "the batch is cut off"));
        }
        if crc32c::crc32c_append(seed, &whole[BATCH_BYTES as usize..]) != header.body_crc {
            return Ok(Step::Bad(at, "the records do not match their checksum"));
        }
        let from = (at - self.start) as usize;
        self.body = from + BATCH_BYTES as usize..from + stored as usize;
        self.offset = at + stored;
        Ok(Step::Batch(header, at))
    }

    /// Up to `need` bytes at `at`; fewer only at the limit or the end of the file.
    fn bytes(&mut self, at: u64, need: u64) -> io::Result<&[u8]> {
        let need = need.min(self.limit.saturating_sub(at)) as usize;
        let have = self.start + self.buffer.len() as u64;
        if at < self.start || at + need as u64 > have {
            let len = (need.max(self.step_bytes) as u64).min(self.limit.saturating_sub(at)) as usize;
            self.buffer.resize(len, 0);
            let read = read_full(self.file, at, &mut self.buffer)?;
            self.buffer.truncate(read);
            self.start = at;
        }
        let from = (at - self.start) as usize;
        Ok(&self.buffer[from..self.buffer.len().min(from + need)])
    }
}
