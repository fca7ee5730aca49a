//! The file layer: everything the journal asks of a file system, as two traits, and the real one.
//!
//! Errors are the system's own, unchanged and never retried here, except that an interrupted call goes on.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, IoSlice, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// A directory tree. All calls block.
pub trait Files: Send + Sync + 'static {
    /// Makes `dir` and its parents.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes an empty file, or empties the one that is there; for reading and writing.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn FileHandle>>;
    /// Opens an existing file; for reading, and for writing when `write` is set.
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn FileHandle>>;
    /// File names in `dir`, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Renames a file, replacing `to`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes creations, renames and removals in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes an exclusive lock, held until the guard is dropped; `None` when another has it.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>>;
    /// Free bytes on the file system of `dir`.
    fn free_bytes(&self, dir: &Path) -> Option<u64>;
    /// 64 unpredictable bits.
    fn random(&self) -> io::Result<u64>;
}

/// An open file. Positional: calls of several threads do not disturb each other.
pub trait FileHandle: Send + Sync {
    /// Writes from `parts`, in order, at `offset`; returns how many bytes, which may be fewer.
    fn write_at(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<usize>;
    /// Reads into `buffer` from `offset`; returns how many bytes, 0 at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Length in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Cuts or extends (with zeros, without room being set aside).
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Waits until data and length are on stable storage. Never call it again after an error.
    fn sync(&self) -> io::Result<()>;
}

/// Writes all of `parts` at `offset`.
pub(crate) fn write_all(file: &dyn FileHandle, mut offset: u64, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    let mut parts = parts;
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        let written = file.write_at(offset, parts)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        offset += written as u64;
        IoSlice::advance_slices(&mut parts, written);
    }
    Ok(())
}

/// Reads until `buffer` is full or the file ends; returns how many bytes.
pub(crate) fn read_full(file: &dyn FileHandle, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(offset + filled as u64, &mut buffer[filled..])? {
            0 => break,
            more => filled += more,
        }
    }
    Ok(filled)
}

/// Whether an error means that there is no room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The real files.
#[derive(Debug, Default, Clone, Copy)]
pub struct DiskFiles;

impl Files for DiskFiles {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        std::fs::create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn FileHandle>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        Ok(Arc::new(DiskFile(file)))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn FileHandle>> {
        Ok(Arc::new(DiskFile(OpenOptions::new().read(true).write(write).open(path)?)))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        // A name that is not UTF-8 is none of ours.
        let names =
            std::fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn free_bytes(&self, dir: &Path) -> Option<u64> {
        let stat = rustix::fs::statvfs(dir).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn random(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Most parts that one system call takes (IOV_MAX).
const PARTS_MAX: usize = 1024;

struct DiskFile(File);

impl FileHandle for DiskFile {
    fn write_at(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let parts = &parts[..parts.len().min(PARTS_MAX)];
        Ok(rustix::io::retry_on_intr(|| rustix::io::pwritev(&self.0, parts, offset))?)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read_at(buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
