//! Turns a run of blocks of one segment into one vectored write.
//!
//! Headers and chunks below 4 KiB are gathered in a buffer that is kept; larger chunks are written from
//! where they are. Owns that layout in memory and the count of copied bytes, not the file.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;

use framegate_storage::{Epoch, Lsn};

use crate::batch::{BATCH_BYTES, BatchHeader, CLEAN, MARK};
use crate::files::{FileHandle, write_all};
use crate::pending::Pending;

/// Chunks of this size and more are not copied.
pub(crate) const COPY_BELOW: usize = 4096;
/// A gather buffer that grew beyond this is given back.
const GATHER_KEEP: usize = 4 << 20;

enum Piece {
    Gathered(Range<usize>),
    /// Chunk of a block, both by index.
    Chunk(usize, usize),
}

#[derive(Default)]
pub(crate) struct Commit {
    gather: Vec<u8>,
    pieces: Vec<Piece>,
}

/// What one write did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Written {
    pub(crate) bytes: u64,
    pub(crate) copied: u64,
}

impl Commit {
    /// Lays out `run`. `synced` is the highest LSN known durable now.
    pub(crate) fn encode(&mut self, seed: u32, epoch: Epoch, synced: Lsn, run: &[Arc<Pending>]) -> Written {
        self.gather.clear();
        self.gather.shrink_to(GATHER_KEEP);
        self.pieces.clear();
        let mut written = Written::default();
        for (index, pending) in run.iter().enumerate() {
            let block = &pending.block;
            let body_crc = block.records.iter().fold(seed, |crc, chunk| crc32c::crc32c_append(crc, chunk));
            let len = block.len() as u32;
            let mark = if pending.is_mark() { MARK } else { 0 };
            let clean = if block.flags.clean_shutdown { CLEAN } else { 0 };
            let header = BatchHeader {
                time_ms: block.time_ms,
                count: block.count,
                flags: mark | clean,
                ..BatchHeader::new(len, body_crc, block.first, epoch, synced)
            };
            let start = self.gather.len();
            header.encode(seed, pending.offset, &mut self.gather);
            self.gathered(start);
            for (at, chunk) in block.records.iter().enumerate() {
                if chunk.len() >= COPY_BELOW {
                    self.pieces.push(Piece::Chunk(index, at));
                } else {
                    let start = self.gather.len();
                    self.gather.extend_from_slice(chunk);
                    self.gathered(start);
                    written.copied += chunk.len() as u64;
                }
            }
            written.bytes += BATCH_BYTES + u64::from(len);
        }
        written
    }

    /// The bytes of the gather buffer from `start` on come next.
    fn gathered(&mut self, start: usize) {
        let end = self.gather.len();
        match self.pieces.last_mut() {
            Some(Piece::Gathered(range)) if range.end == start => range.end = end,
            _ => self.pieces.push(Piece::Gathered(start..end)),
        }
    }

    /// Writes what was laid out, `run` being the same blocks. May be called again after an error.
    pub(crate) fn write(&self, file: &dyn FileHandle, run: &[Arc<Pending>]) -> io::Result<()> {
        let Some(first) = run.first() else { return Ok(()) };
        let slice = |piece: &Piece| match piece {
            Piece::Gathered(range) => IoSlice::new(&self.gather[range.clone()]),
            Piece::Chunk(index, at) => IoSlice::new(&run[*index].block.records[*at]),
        };
        let mut parts: Vec<IoSlice<'_>> = self.pieces.iter().map(slice).collect();
        write_all(file, first.offset, &mut parts)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use framegate_storage::{Block, BlockFlags};

    use super::*;
    use crate::files::{DiskFiles, Files};
    use crate::names::pack;
    use crate::scan::{Scan, Step};

    #[test]
    fn large_chunks_are_not_copied_and_what_is_written_is_read() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = DiskFiles.create(&dir.path().join("file")).expect("a new file");
        let small = Bytes::from(vec![1; COPY_BELOW - 1]);
        let large = Bytes::from(vec![2; COPY_BELOW]);
        let records = vec![small.clone(), large, Bytes::new(), small];
        let mut run = Vec::new();
        let mut offset = 64;
        for first in 1..=3 {
            let flags = BlockFlags { clean_shutdown: first == 3 };
            let block = Block {
                first: Lsn(first),
                count: 1,
                time_ms: 9,
                records: records.clone(),
                sync: true,
                flags,
            };
            let stored = BATCH_BYTES + block.len() as u64;
            run.push(Arc::new(Pending { pos: pack(1, offset), segment: 1, offset, capacity: 0, block }));
            offset += stored;
        }
        let mut commit = Commit::default();
        let written = commit.encode(7, Epoch(5), Lsn(0), &run);
        assert_eq!(written.copied, 3 * 2 * (COPY_BELOW as u64 - 1));
        assert_eq!(written.bytes, offset - 64);
        // header + small | large | small + header + small | ...
        assert_eq!(commit.pieces.len(), 7);
        commit.write(&*file, &run).expect("writes");
        let mut scan = Scan::new(&*file, 7, 64, u64::MAX, 100);
        for (index, pending) in run.iter().enumerate() {
            let Step::Batch(header, at) = scan.step().expect("reads") else { panic!("batch {index}") };
            assert_eq!((at, header.base, header.epoch), (pending.offset, pending.block.first, Epoch(5)));
            assert_eq!(header.block_flags().clean_shutdown, index == 2);
            assert_eq!(scan.body(), pending.block.records.concat());
        }
        assert_eq!(scan.step().expect("reads"), Step::End(offset));
    }
}
