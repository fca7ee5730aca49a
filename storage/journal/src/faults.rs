//! Faults of real files, for tests that run the whole binary. Never compiled into a release.
//!
//! Owns a wrapper around another file layer. Faults touch segment files only (`full_when` every write), so
//! that a store can still be opened and claimed while they are on.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::files::{FileHandle, Files, write_all};
use crate::segments::lock;

/// How often a condition file is looked for.
const POLL: Duration = Duration::from_millis(5);

/// Which faults are on. The files named here are conditions: they are only looked for, never read.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Report a group durable before it is synced (a broken server, to show that a test notices).
    pub confirm_before_sync: bool,
    /// Keep written bytes in the process until the sync, so that `kill -9` loses exactly what a power cut
    /// would: everything that is not synced.
    pub hold_unsynced: bool,
    /// A sync waits while this file exists.
    pub block_sync_while: Option<PathBuf>,
    /// A sync fails with EIO when this file exists.
    pub fail_sync_when: Option<PathBuf>,
    /// Writes fail with ENOSPC while this file exists.
    pub full_when: Option<PathBuf>,
}

impl Faults {
    pub(crate) fn any(&self) -> bool {
        self.hold_unsynced
            || self.block_sync_while.is_some()
            || self.fail_sync_when.is_some()
            || self.full_when.is_some()
    }
}

fn exists(condition: Option<&PathBuf>) -> bool {
    condition.is_some_and(|path| path.exists())
}

/// Bytes that were written and not yet synced, in order.
type Held = Arc<Mutex<Vec<(u64, Vec<u8>)>>>;

pub(crate) struct FaultyFiles {
    inner: Arc<dyn Files>,
    faults: Arc<Faults>,
    held: Mutex<HashMap<PathBuf, Held>>,
}

impl FaultyFiles {
    pub(crate) fn new(inner: Arc<dyn Files>, faults: Faults) -> Self {
        Self { inner, faults: Arc::new(faults), held: Mutex::default() }
    }

    fn wrap(&self, path: &Path, inner: Arc<dyn FileHandle>) -> Arc<dyn FileHandle> {
        let held = Arc::clone(lock(&self.held).entry(path.to_owned()).or_default());
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // A spare becomes a segment by a rename, under the same handle.
        let log = name.starts_with("seg-") || name.starts_with("spare-");
        Arc::new(FaultyFile { inner, faults: Arc::clone(&self.faults), held, log })
    }
}

impl Files for FaultyFiles {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn FileHandle>> {
        lock(&self.held).remove(path);
        Ok(self.wrap(path, self.inner.create(path)?))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn FileHandle>> {
        Ok(self.wrap(path, self.inner.open(path, write)?))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)?;
        let mut held = lock(&self.held);
        if let Some(bytes) = held.remove(from) {
            held.insert(to.to_owned(), bytes);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        lock(&self.held).remove(path);
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        self.inner.lock(path)
    }

    fn free_bytes(&self, dir: &Path) -> Option<u64> {
        if exists(self.faults.full_when.as_ref()) { Some(0) } else { self.inner.free_bytes(dir) }
    }

    fn random(&self) -> io::Result<u64> {
        self.inner.random()
    }
}

struct FaultyFile {
    inner: Arc<dyn FileHandle>,
    faults: Arc<Faults>,
    held: Held,
    /// Whether it is a file of the log.
    log: bool,
}

impl FileHandle for FaultyFile {
    fn write_at(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if exists(self.faults.full_when.as_ref()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if !self.faults.hold_unsynced {
            return self.inner.write_at(offset, parts);
        }
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let len = bytes.len();
        lock(&self.held).push((offset, bytes));
        Ok(len)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let held = lock(&self.held);
        let mut read = self.inner.read_at(offset, buffer)?;
        let end = held.iter().map(|(at, bytes)| at + bytes.len() as u64).max().unwrap_or(0);
        if end > offset + read as u64 {
            let want = ((end - offset) as usize).min(buffer.len());
            buffer[read..want].fill(0);
            read = read.max(want);
        }
        for (at, bytes) in held.iter() {
            let (from, to) = (offset.max(*at), (offset + read as u64).min(at + bytes.len() as u64));
            if from < to {
                buffer[(from - offset) as usize..(to - offset) as usize]
                    .copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
            }
        }
        Ok(read)
    }

    fn size(&self) -> io::Result<u64> {
        let held = lock(&self.held).iter().map(|(at, bytes)| at + bytes.len() as u64).max().unwrap_or(0);
        Ok(self.inner.size()?.max(held))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut held = lock(&self.held);
        held.retain(|(at, _)| *at < len);
        for (at, bytes) in held.iter_mut() {
            bytes.truncate((len - *at) as usize);
        }
        self.inner.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        if self.log {
            let never = Mutex::new(());
            let bell = std::sync::Condvar::new();
            while exists(self.faults.block_sync_while.as_ref()) {
                drop(bell.wait_timeout(lock(&never), POLL));
            }
            if exists(self.faults.fail_sync_when.as_ref()) {
                return Err(io::Error::from_raw_os_error(5));
            }
        }
        let mut held = lock(&self.held);
        for (at, bytes) in held.drain(..) {
            write_all(&*self.inner, at, &mut [IoSlice::new(&bytes)])?;
        }
        drop(held);
        self.inner.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::DiskFiles;
    use crate::names;

    #[test]
    fn held_bytes_are_read_back_and_reach_the_file_with_the_sync() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join(names::spare(1));
        let renamed = dir.path().join("seg-00000000000000000001.log");
        let faults = Faults { hold_unsynced: true, ..Faults::default() };
        let files = FaultyFiles::new(Arc::new(DiskFiles), faults);
        let file = files.create(&path).expect("creates");
        write_all(&*file, 10, &mut [IoSlice::new(b"abc"), IoSlice::new(b"def")]).expect("writes");
        files.rename(&path, &renamed).expect("renames");
        let other = files.open(&renamed, false).expect("opens");
        let mut buffer = [9; 8];
        assert_eq!(other.read_at(8, &mut buffer).expect("reads"), 8);
        assert_eq!(&buffer, b"\0\0abcdef");
        assert_eq!(std::fs::read(&renamed).expect("reads"), b"");
        file.sync().expect("syncs");
        assert_eq!(std::fs::read(&renamed).expect("reads"), b"\0\0\0\0\0\0\0\0\0\0abcdef");
    }
}
