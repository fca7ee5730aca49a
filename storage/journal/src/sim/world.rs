//! The state behind all simulated handles: file contents, what of them is synced, and the faults.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::PathBuf;

/// EIO, as Linux numbers it.
const EIO: i32 = 5;

/// A change that is not yet on stable storage.
#[derive(Clone)]
pub(super) enum Change {
    Write(usize, Vec<u8>),
    SetLen(usize),
}

impl Change {
    pub(super) fn apply(&self, data: &mut Vec<u8>) {
        match self {
            Change::Write(at, bytes) => {
                let end = at + bytes.len();
                if data.len() < end {
                    data.resize(end, 0);
                }
                data[*at..end].copy_from_slice(bytes);
            }
            Change::SetLen(len) => data.resize(*len, 0),
        }
    }
}

#[derive(Clone, Default)]
pub(super) struct Node {
    pub(super) data: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) unsynced: Vec<Change>,
    /// Bytes that have room of their own.
    pub(super) allocated: usize,
}

#[derive(Default)]
pub(super) struct World {
    pub(super) boot: u64,
    pub(super) random: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) names: BTreeMap<PathBuf, usize>,
    pub(super) durable_names: BTreeMap<PathBuf, usize>,
    pub(super) locks: HashSet<PathBuf>,
    pub(super) faults: SimFaults,
}

/// Faults of the simulated files, set while they are in use.
#[derive(Debug, Clone, Default)]
pub struct SimFaults {
    /// The next sync of a file of the log fails with EIO, and so does every later one.
    pub fail_sync: bool,
    /// The next write to a file of the log fails with EIO, and so does every later one.
    pub fail_write: bool,
    /// Writes that need new room fail with ENOSPC; so do writes to the log when `full_log` is set.
    pub full: bool,
    /// With `full`: room that was set aside is gone too.
    pub full_log: bool,
    /// A write takes at most this many bytes.
    pub write_bytes_max: Option<usize>,
    /// The next rename fails with EIO.
    pub fail_rename: bool,
    /// The next sync of a directory fails with EIO.
    pub fail_sync_dir: bool,
    /// After this many more changes everything fails, the last write being torn.
    pub crash_after: Option<u64>,
}

/// What a crash takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process: everything written stays.
    Process,
    /// The power: every unsynced change may be there, be missing or be torn, by this seed.
    Power(u64),
}

impl World {
    pub(super) fn random(&mut self) -> u64 {
        // splitmix64
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A copy; files without a name, which nobody can open in it, are empty there.
    pub(super) fn without_lost_files(&self) -> Self {
        let named: HashSet<usize> = self.names.values().chain(self.durable_names.values()).copied().collect();
        let node = |(index, node): (usize, &Node)| {
            if named.contains(&index) { node.clone() } else { Node::default() }
        };
        let nodes = self.nodes.iter().enumerate().map(node).collect();
        Self {
            boot: self.boot,
            random: self.random,
            nodes,
            names: self.names.clone(),
            durable_names: self.durable_names.clone(),
            locks: self.locks.clone(),
            faults: self.faults.clone(),
        }
    }

    /// Counts a change; false when the crash comes before it.
    pub(super) fn change(&mut self) -> bool {
        match &mut self.faults.crash_after {
            None => true,
            Some(left) => {
                *left -= 1;
                *left > 0
            }
        }
    }

    pub(super) fn lose_unsynced(&mut self, seed: u64) {
        self.random ^= seed.wrapping_mul(0x2545_f491_4f6c_dd1d);
        let mode = self.random() % 4;
        for index in 0..self.nodes.len() {
            let unsynced = std::mem::take(&mut self.nodes[index].unsynced);
            let mut data = self.nodes[index].durable.clone();
            let prefix = self.random() as usize % (unsynced.len() + 1);
            for (at, change) in unsynced.into_iter().enumerate() {
                let fate = match mode {
                    0 => 0,
                    1 => u64::from(at < prefix),
                    _ => self.random() % 3,
                };
                match (fate, change) {
                    (0, _) => {}
                    (2, Change::Write(from, mut bytes)) => {
                        bytes.truncate(self.random() as usize % (bytes.len() + 1));
                        Change::Write(from, bytes).apply(&mut data);
                    }
                    (_, change) => change.apply(&mut data),
                }
            }
            let node = &mut self.nodes[index];
            node.durable.clone_from(&data);
            node.allocated = data.len();
            node.data = data;
        }
        if self.random().is_multiple_of(2) {
            self.names.clone_from(&self.durable_names);
        } else {
            self.durable_names.clone_from(&self.names);
        }
    }
}

pub(super) fn eio() -> io::Error {
    io::Error::from_raw_os_error(EIO)
}

pub(super) fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}
