//! A simulated file system in memory, for crash tests: it knows what is written and what is synced.
//!
//! Owns the handles and crashes. A crash makes every handle of that time dead (its calls fail and change
//! nothing), so that threads of the crashed journal cannot touch what the next one sees.

mod file;
mod world;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use self::file::SimFile;
pub use self::world::{Crash, SimFaults};
use self::world::{Node, World, eio, missing};
use crate::files::{FileHandle, Files};
use crate::segments::lock;

/// Handle of a simulated file system; clones are the same one.
#[derive(Clone, Default)]
pub struct SimFiles {
    world: Arc<Mutex<World>>,
    boot: u64,
    observer: Option<Observer>,
}

/// Called after each change of a file or a directory, on the thread that made it.
pub type Observer = Arc<dyn Fn() + Send + Sync>;

impl SimFiles {
    /// An empty file system.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes the faults.
    pub fn faults(&self, change: impl FnOnce(&mut SimFaults)) {
        change(&mut lock(&self.world).faults);
    }

    /// A handle whose changes are watched: a crash at that moment is that of a copy.
    #[must_use]
    pub fn observed(&self, observer: Observer) -> Self {
        Self { observer: Some(observer), ..self.clone() }
    }

    fn changed(&self) {
        if let Some(observer) = &self.observer {
            observer();
        }
    }

    /// An independent copy of the present state.
    #[must_use]
    pub fn copy(&self) -> Self {
        let world = lock(&self.world).without_lost_files();
        // the locks are those of the process that crashes
        Self { boot: world.boot, world: Arc::new(Mutex::new(world)), observer: None }
    }

    /// Crashes and returns the file system as the next process finds it, without faults.
    #[must_use]
    pub fn crash(&self, crash: Crash) -> Self {
        let mut world = lock(&self.world);
        world.boot += 1;
        world.locks.clear();
        world.faults = SimFaults::default();
        if let Crash::Power(seed) = crash {
            world.lose_unsynced(seed);
        }
        Self { world: Arc::clone(&self.world), boot: world.boot, observer: None }
    }

    /// Current bytes of a file.
    #[must_use]
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let world = lock(&self.world);
        world.names.get(path).map(|node| world.nodes[*node].data.clone())
    }

    /// Replaces a file's bytes, durably.
    pub fn set_bytes(&self, path: &Path, data: Vec<u8>) {
        let mut world = lock(&self.world);
        let index = world.nodes.len();
        let allocated = data.len();
        world.nodes.push(Node { durable: data.clone(), data, unsynced: Vec::new(), allocated });
        world.names.insert(path.to_owned(), index);
        world.durable_names.insert(path.to_owned(), index);
    }

    /// Paths of all files.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        lock(&self.world).names.keys().cloned().collect()
    }

    fn alive(&self) -> io::Result<MutexGuard<'_, World>> {
        let world = lock(&self.world);
        if world.boot == self.boot && world.faults.crash_after != Some(0) { Ok(world) } else { Err(eio()) }
    }

    /// The world for a change of names.
    fn changing(&self) -> io::Result<MutexGuard<'_, World>> {
        let mut world = self.alive()?;
        if world.change() { Ok(world) } else { Err(eio()) }
    }
}

impl Files for SimFiles {
    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        self.alive().map(drop)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn FileHandle>> {
        let mut world = self.changing()?;
        let node = world.nodes.len();
        world.nodes.push(Node::default());
        world.names.insert(path.to_owned(), node);
        drop(world);
        self.changed();
        Ok(Arc::new(SimFile { files: self.clone(), node, log: is_log(path) }))
    }

    fn open(&self, path: &Path, _write: bool) -> io::Result<Arc<dyn FileHandle>> {
        let world = self.alive()?;
        let node = *world.names.get(path).ok_or_else(missing)?;
        Ok(Arc::new(SimFile { files: self.clone(), node, log: is_log(path) }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let world = self.alive()?;
        let inside = world.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.changing()?;
        if std::mem::take(&mut world.faults.fail_rename) {
            return Err(eio());
        }
        let node = world.names.remove(from).ok_or_else(missing)?;
        world.names.insert(to.to_owned(), node);
        drop(world);
        self.changed();
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.changing()?.names.remove(path).map(drop).ok_or_else(missing);
        self.changed();
        removed
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.changing()?;
        if std::mem::take(&mut world.faults.fail_sync_dir) {
            return Err(eio());
        }
        let World { names, durable_names, .. } = &mut *world;
        durable_names.retain(|path, _| path.parent() != Some(dir));
        let inside = names.iter().filter(|(path, _)| path.parent() == Some(dir));
        durable_names.extend(inside.map(|(path, node)| (path.clone(), *node)));
        drop(world);
        self.changed();
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let mut world = self.alive()?;
        let free = world.locks.insert(path.to_owned());
        Ok(free.then(|| Box::new(SimLock { files: self.clone(), path: path.to_owned() }) as Box<_>))
    }

    fn free_bytes(&self, _dir: &Path) -> Option<u64> {
        let full = lock(&self.world).faults.full;
        Some(if full { 0 } else { 1 << 40 })
    }

    fn random(&self) -> io::Result<u64> {
        Ok(lock(&self.world).random())
    }
}

fn is_log(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("seg-") || name.starts_with("spare-")
}

struct SimLock {
    files: SimFiles,
    path: PathBuf,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        if let Ok(mut world) = self.files.alive() {
            world.locks.remove(&self.path);
        }
    }
}
