//! One open simulated file: reads and writes the world's node, with its faults.

use std::io::{self, IoSlice};

use super::SimFiles;
use super::world::{Change, eio};
use crate::files::FileHandle;

pub(super) struct SimFile {
    pub(super) files: SimFiles,
    pub(super) node: usize,
    /// Whether it is a file of the log.
    pub(super) log: bool,
}

impl FileHandle for SimFile {
    fn write_at(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut world = self.files.alive()?;
        let mut bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        if let Some(most) = world.faults.write_bytes_max {
            bytes.truncate(most.max(1));
        }
        if self.log && world.faults.fail_write {
            return Err(eio());
        }
        let end = offset as usize + bytes.len();
        if world.faults.full
            && (end > world.nodes[self.node].allocated || (world.faults.full_log && self.log))
        {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let alive = world.change();
        if !alive {
            let torn = world.random() as usize % (bytes.len() + 1);
            bytes.truncate(torn);
        }
        let len = bytes.len();
        let change = Change::Write(offset as usize, bytes);
        let node = &mut world.nodes[self.node];
        change.apply(&mut node.data);
        node.allocated = node.allocated.max(offset as usize + len);
        node.unsynced.push(change);
        drop(world);
        self.files.changed();
        if alive { Ok(len) } else { Err(eio()) }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let world = self.files.alive()?;
        let data = &world.nodes[self.node].data;
        let from = (offset as usize).min(data.len());
        let len = buffer.len().min(data.len() - from);
        buffer[..len].copy_from_slice(&data[from..from + len]);
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.files.alive()?.nodes[self.node].data.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut world = self.files.changing()?;
        let node = &mut world.nodes[self.node];
        let change = Change::SetLen(len as usize);
        change.apply(&mut node.data);
        node.allocated = node.allocated.min(len as usize);
        node.unsynced.push(change);
        drop(world);
        self.files.changed();
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.files.changing()?;
        if self.log && world.faults.fail_sync {
            return Err(eio());
        }
        let node = &mut world.nodes[self.node];
        for change in std::mem::take(&mut node.unsynced) {
            change.apply(&mut node.durable);
        }
        drop(world);
        self.files.changed();
        Ok(())
    }
}
