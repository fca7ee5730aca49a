//! The spare segment: a file of zeros that were really written, so that syncs of the log change no
//! file-system metadata. At most one is kept. Without one the writer makes a file of its own.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::files::{FileHandle, Files, write_all};
use crate::names;
use crate::segments::lock;

/// Zeros written at once, and between two syncs of a spare.
const ZERO_BYTES: usize = 1 << 20;
const SYNC_EVERY_BYTES: u64 = 8 << 20;

/// A prepared file without a segment's name.
pub(crate) struct Spare {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn FileHandle>,
    pub(crate) capacity: u64,
}

#[derive(Default)]
struct Shelf {
    spare: Option<Spare>,
    preparing: bool,
    made: u64,
}

#[derive(Default)]
pub(crate) struct Spares {
    shelf: Mutex<Shelf>,
    ready: Condvar,
}

impl Spares {
    /// A spare is about to be prepared.
    pub(crate) fn begin(&self) {
        lock(&self.shelf).preparing = true;
    }

    /// No spare is being prepared any more.
    pub(crate) fn finish(&self) {
        lock(&self.shelf).preparing = false;
        self.ready.notify_all();
    }

    /// Waits until none is being prepared.
    pub(crate) fn wait(&self) {
        let shelf = lock(&self.shelf);
        drop(self.ready.wait_while(shelf, |shelf| shelf.preparing).unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn take(&self, capacity: u64) -> Option<Spare> {
        lock(&self.shelf).spare.take_if(|spare| spare.capacity == capacity)
    }

    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.shelf).spare.as_ref().map_or(0, |spare| spare.capacity)
    }

    /// Removes the spare, if it can.
    pub(crate) fn clear(&self, files: &dyn Files) {
        if let Some(spare) = lock(&self.shelf).spare.take() {
            let _ = files.remove(&spare.path);
        }
    }

    /// Makes a spare of this size, replacing one of another size. Ends early when `stop` is set.
    pub(crate) fn prepare(
        &self,
        files: &dyn Files,
        dir: &Path,
        capacity: u64,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let made = self.make(files, dir, capacity, stop);
        self.finish();
        made
    }

    fn make(&self, files: &dyn Files, dir: &Path, capacity: u64, stop: &AtomicBool) -> io::Result<()> {
        let path = {
            let mut shelf = lock(&self.shelf);
            if shelf.spare.as_ref().is_some_and(|spare| spare.capacity == capacity) {
                return Ok(());
            }
            shelf.made += 1;
            dir.join(names::spare(shelf.made))
        };
        self.clear(files);
        match fill(files, &path, capacity, stop) {
            Ok(Some(file)) => lock(&self.shelf).spare = Some(Spare { path, file, capacity }),
            Ok(None) => {}
            Err(error) => {
                let _ = files.remove(&path);
                return Err(error);
            }
        }
        Ok(())
    }
}

/// A synced file of zeros; `None` when told to stop.
fn fill(
    files: &dyn Files,
    path: &Path,
    capacity: u64,
    stop: &AtomicBool,
) -> io::Result<Option<Arc<dyn FileHandle>>> {
    let file = files.create(path)?;
    let zeros = vec![0; ZERO_BYTES.min(capacity as usize)];
    let mut offset = 0;
    while offset < capacity {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let len = (capacity - offset).min(zeros.len() as u64);
        write_all(&*file, offset, &mut [IoSlice::new(&zeros[..len as usize])])?;
        offset += len;
        if offset % SYNC_EVERY_BYTES == 0 || offset == capacity {
            file.sync()?;
        }
    }
    Ok(Some(file))
}
