//! How the conformance suite opens, kills and damages a journal, on simulated and on real files. Shared with the suite
//! of the whole tree.

#![allow(dead_code, unreachable_pub, missing_docs)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use framegate_storage::conformance::{Factory, Fault, Injected, Loss, Unsupported};
use framegate_storage::{Pos, ShardStore, StoreError};
use framegate_storage_journal::sim::{Crash, SimFiles};
use framegate_storage_journal::{Faults, Journal, Options, damage};

/// Files of a store at rest.
type AtRest = BTreeMap<PathBuf, Vec<u8>>;

fn options(dir: &Path) -> Options {
    let mut options = Options::new(dir);
    options.segment_bytes = 64 << 10;
    options.first_segment_bytes = 16 << 10;
    options.block_bytes_max = 256 << 10;
    options.full_retry = Duration::from_millis(1);
    options.idle_mark = None;
    options
}

/// Applies a fault at rest to the files that hold it.
fn damage_files(files: &mut AtRest, fault: Fault) -> Injected {
    let find = |files: &AtRest, pos: Pos| {
        let found = files.iter().find_map(|(path, bytes)| Some((path.clone(), damage::locate(bytes, pos)?)));
        found.expect("the block is stored")
    };
    match fault {
        Fault::TearBlock { pos, keep } => {
            let (path, place) = find(files, pos);
            if keep as usize >= place.len {
                return Injected::OutOfRange;
            }
            let bytes = files.get_mut(&path).expect("just found");
            bytes[place.offset + keep as usize..].fill(0);
        }
        Fault::FlipBit { pos, byte } => {
            let (path, place) = find(files, pos);
            if byte as usize >= place.len {
                return Injected::OutOfRange;
            }
            files.get_mut(&path).expect("just found")[place.offset + byte as usize] ^= 1 << (byte % 8);
        }
        Fault::UnknownFlag { pos, may_skip } => {
            let (path, place) = find(files, pos);
            let bytes = files.get_mut(&path).expect("just found");
            assert!(damage::set_flags(bytes, place, if may_skip { 1 << 15 } else { 1 << 7 }));
        }
        Fault::CorruptSnapshot => {
            let newest = files.iter_mut().rfind(|(path, _)| path.extension().is_some_and(|ext| ext == "fgs"));
            let (_, bytes) = newest.expect("there is a snapshot");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x10;
        }
        Fault::NewerFormat => {
            let (_, bytes) =
                files.iter_mut().find(|(path, _)| path.ends_with("MANIFEST")).expect("a manifest");
            *bytes = b"framegate-journal 2\nwritten by the future\n".to_vec();
        }
        live => panic!("{live:?} is not a fault at rest"),
    }
    Injected::Done
}

/// Simulated files.
pub struct Simulated {
    name: &'static str,
    options: Options,
    pub write_bytes_max: Option<usize>,
    files: SimFiles,
    killed: SimFiles,
}

impl Simulated {
    pub fn new(name: &'static str, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = options(Path::new("/sim"));
        change(&mut options);
        Self { name, options, write_bytes_max: None, files: SimFiles::new(), killed: SimFiles::new() }
    }

    /// The store that is open dies at this many more changes, the last write being torn. At least 1.
    pub fn crash_after(&self, changes: u64) {
        self.files.faults(|faults| faults.crash_after = Some(changes));
    }
}

impl Factory for Simulated {
    fn backend(&self) -> String {
        self.name.to_owned()
    }

    fn create(&mut self) -> Result<Arc<dyn ShardStore>, StoreError> {
        self.files = SimFiles::new();
        self.open()
    }

    fn open(&mut self) -> Result<Arc<dyn ShardStore>, StoreError> {
        self.files.faults(|faults| faults.write_bytes_max = self.write_bytes_max);
        Ok(Arc::new(Journal::open_with(Arc::new(self.files.clone()), self.options.clone())?))
    }

    fn kill(&mut self, store: Arc<dyn ShardStore>, loss: Loss) -> Result<(), Unsupported> {
        self.files = self.files.crash(match loss {
            Loss::Process => Crash::Process,
            Loss::Power { seed } => Crash::Power(seed),
        });
        drop(store);
        self.killed = self.files.copy();
        Ok(())
    }

    fn inject(&mut self, fault: Fault) -> Result<Injected, Unsupported> {
        match fault {
            Fault::FailNextSync => self.files.faults(|faults| faults.fail_sync = true),
            Fault::NoRoom => self.files.faults(|faults| faults.full = true),
            Fault::Room => self.files.faults(|faults| faults.full = false),
            at_rest => {
                self.files = self.killed.copy();
                let read = |path: PathBuf| self.files.bytes(&path).map(|bytes| (path, bytes));
                let mut files: AtRest = self.files.paths().into_iter().filter_map(read).collect();
                let done = damage_files(&mut files, at_rest);
                files.into_iter().for_each(|(path, bytes)| self.files.set_bytes(&path, bytes));
                return Ok(done);
            }
        }
        Ok(Injected::Done)
    }
}

/// Real files. With `held`, what is not synced stays in the process, so that a kill is a power cut.
pub struct Real {
    held: bool,
    change: fn(&mut Options),
    dir: tempfile::TempDir,
    number: u32,
    killed: AtRest,
}

impl Real {
    pub fn new(held: bool, change: fn(&mut Options)) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self { held, change, dir, number: 0, killed: AtRest::new() }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join(format!("data-{}", self.number))
    }

    fn condition(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Factory for Real {
    fn backend(&self) -> String {
        if self.held { "journal-held" } else { "journal-files" }.to_owned()
    }

    fn create(&mut self) -> Result<Arc<dyn ShardStore>, StoreError> {
        let _ = std::fs::remove_dir_all(self.data());
        for condition in ["full", "fail-sync"] {
            let _ = std::fs::remove_file(self.condition(condition));
        }
        self.number += 1;
        self.open()
    }

    fn open(&mut self) -> Result<Arc<dyn ShardStore>, StoreError> {
        let mut options = options(&self.data());
        (self.change)(&mut options);
        options.faults = Faults {
            hold_unsynced: self.held,
            full_when: Some(self.condition("full")),
            fail_sync_when: Some(self.condition("fail-sync")),
            ..Faults::default()
        };
        Ok(Arc::new(Journal::open(options)?))
    }

    fn kill(&mut self, store: Arc<dyn ShardStore>, loss: Loss) -> Result<(), Unsupported> {
        drop(store);
        let _ = std::fs::remove_file(self.condition("fail-sync"));
        let entries = std::fs::read_dir(self.data()).expect("the data directory");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        self.killed = paths.map(|path| (path.clone(), std::fs::read(&path).expect("a file"))).collect();
        match loss {
            Loss::Power { .. } if !self.held => Err(Unsupported("the power of real files cannot be cut")),
            Loss::Process if self.held => {
                Err(Unsupported("unsynced bytes are held back, each kill is a power cut"))
            }
            _ => Ok(()),
        }
    }

    fn inject(&mut self, fault: Fault) -> Result<Injected, Unsupported> {
        match fault {
            Fault::FailNextSync => std::fs::write(self.condition("fail-sync"), b"").expect("writes"),
            Fault::NoRoom => std::fs::write(self.condition("full"), b"").expect("writes"),
            Fault::Room => drop(std::fs::remove_file(self.condition("full"))),
            at_rest => {
                std::fs::remove_dir_all(self.data()).expect("removes");
                std::fs::create_dir(self.data()).expect("makes");
                let mut files = self.killed.clone();
                let done = damage_files(&mut files, at_rest);
                for (path, bytes) in files {
                    std::fs::write(path, bytes).expect("writes");
                }
                return Ok(done);
            }
        }
        Ok(Injected::Done)
    }
}
