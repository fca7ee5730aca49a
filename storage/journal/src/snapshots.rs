//! The two snapshots that are kept: which exist, which is served, what recovery may conclude from them.

use std::io;
use std::sync::Mutex;

use bytes::Bytes;
use framegate_storage::{Claim, Lsn, Pos, Resource, Snapshot, StoreError};

use crate::files::is_full;
use crate::manifest::io_error;
use crate::names;
use crate::recovery::Known;
use crate::segments::{corrupt, lock};
use crate::shared::Shared;
use crate::snapshot_file::{Parts, SnapshotHeader, write};

const KEPT: usize = 2;

#[derive(Debug, Clone, Copy)]
struct Entry {
    upto: Lsn,
    replay_from: Pos,
    bytes: u64,
}

/// Snapshots with an intact header, oldest first.
#[derive(Default)]
pub(crate) struct Snapshots {
    entries: Mutex<Vec<Entry>>,
    /// One snapshot is written at a time.
    writing: Mutex<()>,
}

impl Snapshots {
    /// Looks at what is in the directory. A damaged file is left alone until the next snapshot is out.
    pub(crate) fn load(&self, shared: &Shared) -> Result<(), StoreError> {
        let mut entries = Vec::new();
        for upto in listed(shared)? {
            let path = shared.options.dir.join(names::snapshot(upto));
            match Parts::open(&*shared.files, &path) {
                Ok(parts) if parts.header.upto == upto && parts.header.generation == shared.generation => {
                    entries.push(Entry { upto, replay_from: parts.header.replay_from, bytes: parts.len() });
                }
                Ok(_) => tracing::warn!(file = %path.display(), "this snapshot belongs to another store"),
                Err(error @ StoreError::Corrupt { .. }) => tracing::warn!(%error, "a snapshot is damaged"),
                Err(error) => return Err(error),
            }
        }
        *lock(&self.entries) = entries;
        self.set_floor(shared);
        Ok(())
    }

    /// What recovery may start from and rely on.
    pub(crate) fn known(&self) -> Known {
        let entries = lock(&self.entries);
        let start =
            entries.get(entries.len().saturating_sub(KEPT)).map(|entry| (entry.replay_from, entry.upto));
        let durable = entries.last().map_or(Lsn(0), |entry| Lsn(entry.upto.0.saturating_sub(1)));
        Known { start: start.filter(|(pos, _)| pos.0 != 0), durable }
    }

    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.entries).iter().map(|entry| entry.bytes).sum()
    }

    /// Writes a snapshot, waits until everything it covers is durable, then gives it its name.
    pub(crate) fn put(
        &self,
        shared: &Shared,
        claim: &Claim,
        upto: Lsn,
        replay_from: Pos,
        parts: &mut dyn Iterator<Item = Bytes>,
    ) -> Result<(), StoreError> {
        let _writing = lock(&self.writing);
        let dir = &shared.options.dir;
        let path = dir.join(names::snapshot(upto));
        let temporary = dir.join(names::temporary(&names::snapshot(upto)));
        let failed = |action, error: &io::Error| {
            let _ = shared.files.remove(&temporary);
            if is_full(error) {
                StoreError::Full { what: Resource::Disk }
            } else {
                io_error(action, &path, error)
            }
        };
        let header = SnapshotHeader {
            shard: u32::from(claim.shard.0),
            upto,
            replay_from,
            epoch: claim.epoch,
            generation: shared.generation,
        };
        let written = shared.files.create(&temporary).and_then(|file| write(&*file, &header, parts));
        let bytes = written.map_err(|error| failed("write", &error))?;
        if let Err(error) = shared.wait_synced(claim, Lsn(upto.0.saturating_sub(1))) {
            let _ = shared.files.remove(&temporary);
            return Err(error);
        }
        shared.files.rename(&temporary, &path).map_err(|error| failed("rename into place", &error))?;
        shared.files.sync_dir(dir).map_err(|error| failed("sync the directory of", &error))?;
        {
            let mut entries = lock(&self.entries);
            entries.retain(|entry| entry.upto < upto);
            entries.push(Entry { upto, replay_from, bytes });
            let surplus = entries.len().saturating_sub(KEPT);
            entries.drain(..surplus);
        }
        self.set_floor(shared);
        self.remove_others(shared)?;
        shared.maintenance.reclaim();
        Ok(())
    }

    /// The newest snapshot that is intact in every part.
    pub(crate) fn newest(&self, shared: &Shared) -> Result<Option<Snapshot>, StoreError> {
        let entries = lock(&self.entries).clone();
        for entry in entries.iter().rev() {
            let path = shared.options.dir.join(names::snapshot(entry.upto));
            let checked = Parts::open(&*shared.files, &path).and_then(|mut parts| {
                parts.check()?;
                Ok(parts)
            });
            match checked {
                Ok(parts) => {
                    return Ok(Some(Snapshot {
                        upto: entry.upto,
                        replay_from: entry.replay_from,
                        parts: Box::new(parts),
                    }));
                }
                Err(error @ StoreError::Corrupt { .. }) => {
                    tracing::warn!(%error, "a snapshot is damaged, the one before it is used");
                    lock(&self.entries).retain(|other| other.upto != entry.upto);
                }
                Err(error) => return Err(error),
            }
        }
        let begins = shared.segments.at_or_after(0).map_or(Lsn(1), |segment| segment.base);
        if begins > Lsn(1) && !listed(shared)?.is_empty() {
            let detail = format!("no snapshot is intact and the log begins with LSN {begins}");
            return Err(corrupt(&shared.options.dir, 0, detail));
        }
        Ok(None)
    }

    fn set_floor(&self, shared: &Shared) {
        let floor = lock(&self.entries).first().map_or(u64::MAX, |entry| entry.replay_from.0);
        shared.maintenance.upkeep.floor.store(floor, std::sync::atomic::Ordering::Release);
    }

    fn remove_others(&self, shared: &Shared) -> Result<(), StoreError> {
        let kept: Vec<Lsn> = lock(&self.entries).iter().map(|entry| entry.upto).collect();
        for upto in listed(shared)?.into_iter().filter(|upto| !kept.contains(upto)) {
            let path = shared.options.dir.join(names::snapshot(upto));
            shared.files.remove(&path).map_err(|error| io_error("remove", &path, &error))?;
        }
        Ok(())
    }
}

/// LSNs of the snapshot files, oldest first.
fn listed(shared: &Shared) -> Result<Vec<Lsn>, StoreError> {
    let dir = &shared.options.dir;
    let names = shared.files.list(dir).map_err(|error| io_error("list", dir, &error))?;
    let mut found: Vec<Lsn> = names.iter().filter_map(|name| names::parse_snapshot(name)).collect();
    found.sort_unstable();
    Ok(found)
}
