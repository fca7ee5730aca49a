//! Faults of real files, for tests that run the whole binary. Never compiled into a release.
//!
//! Owns a wrapper around another file layer. Faults touch segment files only (`full_when` every write), so
//! that a store can still be opened and claimed while they are on.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// A write to the log fails with EIO when this file exists.
    pub fail_write_when: Option<PathBuf>,
    /// There is no free space to be seen while this file exists; writes succeed.
    pub low_when: Option<PathBuf>,
    /// Bytes that all files of the store may take together. A write beyond it is short, and then fails with ENOSPC; what is
    /// free is what is left of it.
    pub quota: Option<u64>,
}

impl Faults {
    pub(crate) fn any(&self) -> bool {
        self.hold_unsynced
            || self.block_sync_while.is_some()
            || self.fail_sync_when.is_some()
            || self.full_when.is_some()
            || self.fail_write_when.is_some()
            || self.low_when.is_some()
            || self.quota.is_some()
    }
}

fn exists(condition: Option<&PathBuf>) -> bool {
    condition.is_some_and(|path| path.exists())
}

/// Bytes that were written and not yet synced, in order.
type Held = Arc<Mutex<Vec<(u64, Vec<u8>)>>>;

/// What files take, and may take.
#[derive(Default)]
struct Quota {
    most: Option<u64>,
    /// Bytes with room of their own, by file.
    taken: Mutex<HashMap<u64, u64>>,
}

impl Quota {
    fn free(&self) -> Option<u64> {
        let taken: u64 = lock(&self.taken).values().sum();
        self.most.map(|most| most.saturating_sub(taken))
    }

    /// Makes room up to `end`; gives the byte up to which there is room.
    fn grow(&self, file: u64, end: u64) -> u64 {
        let Some(most) = self.most else { return end };
        let mut taken = lock(&self.taken);
        let all: u64 = taken.values().sum();
        let own = taken.entry(file).or_default();
        let end = end.min(*own + most.saturating_sub(all));
        *own = end.max(*own);
        *own
    }

    fn cut(&self, file: u64, len: u64) {
        if let Some(own) = lock(&self.taken).get_mut(&file) {
            *own = len.min(*own);
        }
    }

    fn free_file(&self, file: u64) {
        lock(&self.taken).remove(&file);
    }
}

/// What is known of a file, whatever its name is by now.
#[derive(Clone, Default)]
struct Known {
    /// For the quota.
    number: u64,
    held: Held,
}

pub(crate) struct FaultyFiles {
    inner: Arc<dyn Files>,
    faults: Arc<Faults>,
    known: Mutex<HashMap<PathBuf, Known>>,
    numbers: AtomicU64,
    quota: Arc<Quota>,
}

impl FaultyFiles {
    pub(crate) fn new(inner: Arc<dyn Files>, faults: Faults) -> Self {
        let quota = Arc::new(Quota { most: faults.quota, taken: Mutex::default() });
        Self { inner, faults: Arc::new(faults), known: Mutex::default(), numbers: AtomicU64::new(0), quota }
    }

    fn wrap(&self, path: &Path, inner: Arc<dyn FileHandle>) -> Arc<dyn FileHandle> {
        let known = lock(&self.known).entry(path.to_owned()).or_insert_with(|| self.fresh()).clone();
        if let Ok(size) = inner.size() {
            lock(&self.quota.taken).entry(known.number).or_insert(size);
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // A spare becomes a segment by a rename, under the same handle.
        let log = name.starts_with("seg-") || name.starts_with("spare-");
        let (faults, quota) = (Arc::clone(&self.faults), Arc::clone(&self.quota));
        Arc::new(FaultyFile { inner, faults, known, quota, log })
    }

    fn fresh(&self) -> Known {
        Known { number: self.numbers.fetch_add(1, Ordering::Relaxed), held: Held::default() }
    }

    fn forget(&self, path: &Path) {
        if let Some(known) = lock(&self.known).remove(path) {
            self.quota.free_file(known.number);
        }
    }
}

impl Files for FaultyFiles {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn FileHandle>> {
        self.forget(path);
        Ok(self.wrap(path, self.inner.create(path)?))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn FileHandle>> {
        Ok(self.wrap(path, self.inner.open(path, write)?))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = self.inner.list(dir)?;
        if self.quota.most.is_some() {
            for name in &names {
                // what was there before counts
                drop(self.open(&dir.join(name), false));
            }
        }
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)?;
        let mut known = lock(&self.known);
        let moved = known.remove(from);
        let replaced = moved.and_then(|moved| known.insert(to.to_owned(), moved));
        if let Some(replaced) = replaced {
            self.quota.free_file(replaced.number);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.forget(path);
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        self.inner.lock(path)
    }

    fn free_bytes(&self, dir: &Path) -> Option<u64> {
        let none = exists(self.faults.full_when.as_ref()) || exists(self.faults.low_when.as_ref());
        if none { Some(0) } else { self.quota.free().or_else(|| self.inner.free_bytes(dir)) }
    }

    fn random(&self) -> io::Result<u64> {
        self.inner.random()
    }
}

struct FaultyFile {
    inner: Arc<dyn FileHandle>,
    faults: Arc<Faults>,
    known: Known,
    quota: Arc<Quota>,
    /// Whether it is a file of the log.
    log: bool,
}

impl FileHandle for FaultyFile {
    fn write_at(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if exists(self.faults.full_when.as_ref()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if self.log && exists(self.faults.fail_write_when.as_ref()) {
            return Err(io::Error::from_raw_os_error(5));
        }
        let wanted: usize = parts.iter().map(|part| part.len()).sum();
        let room = self.quota.grow(self.known.number, offset + wanted as u64).saturating_sub(offset) as usize;
        if room == 0 && wanted > 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if !self.faults.hold_unsynced && room >= wanted {
            return self.inner.write_at(offset, parts);
        }
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).take(room).collect();
        if !self.faults.hold_unsynced {
            return self.inner.write_at(offset, &[IoSlice::new(&bytes)]);
        }
        let len = bytes.len();
        lock(&self.known.held).push((offset, bytes));
        Ok(len)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let held = lock(&self.known.held);
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
        let held =
            lock(&self.known.held).iter().map(|(at, bytes)| at + bytes.len() as u64).max().unwrap_or(0);
        Ok(self.inner.size()?.max(held))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.quota.cut(self.known.number, len);
        let mut held = lock(&self.known.held);
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
        let mut held = lock(&self.known.held);
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

    #[test]
    fn a_quota_makes_a_write_short_and_then_fails_it_until_a_file_goes() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let old = dir.path().join("old");
        std::fs::write(&old, [0; 40]).expect("written");
        let files = FaultyFiles::new(Arc::new(DiskFiles), Faults { quota: Some(100), ..Faults::default() });
        files.list(dir.path()).expect("listed");
        assert_eq!(files.free_bytes(dir.path()), Some(60));
        let path = dir.path().join("new.tmp");
        let file = files.create(&path).expect("creates");
        file.set_len(1000).expect("no room is set aside");
        assert_eq!(file.write_at(0, &[IoSlice::new(&[1; 50])]).expect("fits"), 50);
        assert_eq!(file.write_at(0, &[IoSlice::new(&[2; 50])]).expect("the same room"), 50);
        assert_eq!(file.write_at(50, &[IoSlice::new(&[3; 6]), IoSlice::new(&[4; 44])]).expect("short"), 10);
        let full = file.write_at(60, &[IoSlice::new(&[4; 40])]).expect_err("full");
        assert!(crate::files::is_full(&full), "{full}");
        files.rename(&path, &dir.path().join("new")).expect("renames");
        files.remove(&old).expect("removes");
        assert_eq!(file.write_at(60, &[IoSlice::new(&[4; 40])]).expect("there is room again"), 40);
        file.set_len(10).expect("cut");
        assert_eq!(files.free_bytes(dir.path()), Some(90));
    }
}
