//! The snapshot file: written whole under a temporary name, checked whole before a part is handed out.
//!
//! ```text
//! header, 64 bytes, little-endian
//!  0  magic "FGSNAP1\0"  8     16  upto LSN       u64     40  generation  u64
//!  8  format version   u16     24  replay from    u64     48  reserved     12
//! 10  flags            u16     32  epoch          u64     60  crc32c      u32 of bytes 0..60
//! 12  shard            u32
//! then each part:  length u32, crc32c u32 (seeded with the header's crc), bytes
//! then the end:    0xFFFFFFFF, crc32c u32 of the 8 bytes that follow, number of parts u64
//! ```

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use framegate_storage::{Epoch, Generation, Lsn, Pos, StoreError};

use crate::files::{FileHandle, Files, read_full, write_all};
use crate::header::{FORMAT, u16_at, u32_at, u64_at};
use crate::manifest::io_error;
use crate::segments::corrupt;

const HEADER_BYTES: usize = 64;
const MAGIC: &[u8; 8] = b"FGSNAP1\0";
const END: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SnapshotHeader {
    pub(crate) shard: u32,
    pub(crate) upto: Lsn,
    pub(crate) replay_from: Pos,
    pub(crate) epoch: Epoch,
    pub(crate) generation: Generation,
}

impl SnapshotHeader {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0..8].copy_from_slice(MAGIC);
        out[8..10].copy_from_slice(&FORMAT.to_le_bytes());
        out[12..16].copy_from_slice(&self.shard.to_le_bytes());
        out[16..24].copy_from_slice(&self.upto.0.to_le_bytes());
        out[24..32].copy_from_slice(&self.replay_from.0.to_le_bytes());
        out[32..40].copy_from_slice(&self.epoch.0.to_le_bytes());
        out[40..48].copy_from_slice(&self.generation.0.to_le_bytes());
        let crc = crc32c::crc32c(&out[..60]);
        out[60..64].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8; HEADER_BYTES], path: &Path) -> Result<Self, StoreError> {
        if &bytes[0..8] != MAGIC || crc32c::crc32c(&bytes[..60]) != u32_at(bytes, 60) {
            return Err(corrupt(path, 0, "the snapshot header is damaged"));
        }
        let found = u16_at(bytes, 8);
        if found > FORMAT {
            return Err(StoreError::Version { path: path.to_owned(), found, supported: FORMAT });
        }
        Ok(Self {
            shard: u32_at(bytes, 12),
            upto: Lsn(u64_at(bytes, 16)),
            replay_from: Pos(u64_at(bytes, 24)),
            epoch: Epoch(u64_at(bytes, 32)),
            generation: Generation(u64_at(bytes, 40)),
        })
    }
}

/// Writes a whole snapshot and syncs it; returns its size.
pub(crate) fn write(
    file: &dyn FileHandle,
    header: &SnapshotHeader,
    parts: &mut dyn Iterator<Item = Bytes>,
) -> io::Result<u64> {
    let head = header.encode();
    let seed = u32_at(&head, 60);
    write_all(file, 0, &mut [IoSlice::new(&head)])?;
    let mut offset = HEADER_BYTES as u64;
    let mut count = 0u64;
    for part in parts {
        let len = u32::try_from(part.len()).ok().filter(|len| *len != END);
        let len = len.ok_or_else(|| io::Error::other("a snapshot part is larger than 4 GiB"))?;
        let crc = crc32c::crc32c_append(seed, &part);
        let (len, crc) = (len.to_le_bytes(), crc.to_le_bytes());
        write_all(file, offset, &mut [IoSlice::new(&len), IoSlice::new(&crc), IoSlice::new(&part)])?;
        offset += 8 + part.len() as u64;
        count += 1;
    }
    let count = count.to_le_bytes();
    let crc = crc32c::crc32c_append(seed, &count).to_le_bytes();
    write_all(
        file,
        offset,
        &mut [IoSlice::new(&END.to_le_bytes()), IoSlice::new(&crc), IoSlice::new(&count)],
    )?;
    file.sync()?;
    Ok(offset + 16)
}

/// Reads the parts of a snapshot file one after the other; ends after the first error.
pub(crate) struct Parts {
    file: Arc<dyn FileHandle>,
    path: Arc<Path>,
    pub(crate) header: SnapshotHeader,
    len: u64,
    seed: u32,
    offset: u64,
    count: u64,
    over: bool,
}

impl Parts {
    /// Opens a snapshot and checks its header.
    pub(crate) fn open(files: &dyn Files, path: &Path) -> Result<Self, StoreError> {
        let mut bytes = [0; HEADER_BYTES];
        let mut read = || {
            let file = files.open(path, false)?;
            read_full(&*file, 0, &mut bytes)?;
            let len = file.size()?;
            Ok((file, len))
        };
        let (file, len) = read().map_err(|error| io_error("read", path, &error))?;
        let header = SnapshotHeader::decode(&bytes, path)?;
        let seed = u32_at(&bytes, 60);
        let offset = HEADER_BYTES as u64;
        Ok(Self { file, path: path.into(), header, len, seed, offset, count: 0, over: false })
    }

    /// Size of the file in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Reads everything once; afterwards the parts come from the beginning again.
    pub(crate) fn check(&mut self) -> Result<(), StoreError> {
        for part in &mut *self {
            part?;
        }
        self.offset = HEADER_BYTES as u64;
        self.count = 0;
        self.over = false;
        Ok(())
    }

    fn damaged(&self, detail: &str) -> StoreError {
        corrupt(&self.path, self.offset, detail)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        match read_full(&*self.file, offset, buffer) {
            Ok(read) if read == buffer.len() => Ok(()),
            Ok(_) => Err(self.damaged("the snapshot is cut off")),
            Err(error) => Err(io_error("read", &self.path, &error)),
        }
    }

    fn part(&mut self) -> Result<Option<Bytes>, StoreError> {
        let mut head = [0; 8];
        self.read(self.offset, &mut head)?;
        let (len, crc) = (u32_at(&head, 0), u32_at(&head, 4));
        let body_at = self.offset + 8;
        if len == END {
            let mut count = [0; 8];
            self.read(body_at, &mut count)?;
            if crc32c::crc32c_append(self.seed, &count) != crc || u64::from_le_bytes(count) != self.count {
                return Err(self.damaged("the end of the snapshot is damaged"));
            }
            return Ok(None);
        }
        if body_at + u64::from(len) > self.len {
            return Err(self.damaged("a part is longer than the snapshot"));
        }
        let mut part = vec![0; len as usize];
        self.read(body_at, &mut part)?;
        if crc32c::crc32c_append(self.seed, &part) != crc {
            return Err(self.damaged("a part does not match its checksum"));
        }
        self.offset = body_at + u64::from(len);
        self.count += 1;
        Ok(Some(Bytes::from(part)))
    }
}

impl Iterator for Parts {
    type Item = Result<Bytes, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let part = self.part().transpose();
        self.over = !matches!(part, Some(Ok(_)));
        part
    }
}
