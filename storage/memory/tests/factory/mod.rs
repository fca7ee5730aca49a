//! How the conformance suite opens, kills and damages the volatile backend. Shared with the suite of the whole tree.

#![allow(dead_code, unreachable_pub, missing_docs)]

use std::sync::Arc;

use framegate_storage::conformance::{Factory, Fault, Injected, Loss, Unsupported};
use framegate_storage::{ShardStore, StoreError};
use framegate_storage_memory::{MemoryOptions, MemoryStore};

/// One handle that outlives its claims.
pub struct Memory {
    store: MemoryStore,
    options: MemoryOptions,
}

impl Memory {
    /// A store with these settings.
    pub fn new(options: MemoryOptions) -> Self {
        Self { store: MemoryStore::with_options(options.clone()), options }
    }

    /// A store with small blocks.
    pub fn small() -> Self {
        Self::new(MemoryOptions { block_bytes_max: 1 << 20, ..MemoryOptions::default() })
    }
}

impl Factory for Memory {
    fn backend(&self) -> String {
        "memory".to_owned()
    }

    fn create(&mut self) -> Result<Arc<dyn ShardStore>, StoreError> {
        self.store = MemoryStore::with_options(self.options.clone());
        self.open()
    }

    fn open(&mut self) -> Result<Arc<dyn ShardStore>, StoreError> {
        Ok(Arc::new(self.store.clone()))
    }

    fn kill(&mut self, store: Arc<dyn ShardStore>, loss: Loss) -> Result<(), Unsupported> {
        drop(store);
        match loss {
            Loss::Process => self.store.cut_unwritten(),
            Loss::Power { .. } => self.store.cut_unsynced(),
        }
        Ok(())
    }

    fn inject(&mut self, fault: Fault) -> Result<Injected, Unsupported> {
        match fault {
            Fault::FailNextSync => self.store.fail_next_sync(),
            Fault::NoRoom => self.store.set_full(true),
            Fault::Room => self.store.set_full(false),
            Fault::CorruptSnapshot => assert!(self.store.corrupt_snapshot(), "there is a snapshot"),
            Fault::TearBlock { .. } => {
                return Err(Unsupported("a block in memory is there or not, never torn"));
            }
            Fault::FlipBit { .. } => return Err(Unsupported("blocks in memory have no checksum")),
            Fault::NewerFormat | Fault::UnknownFlag { .. } => return Err(Unsupported("it writes no files")),
        }
        Ok(Injected::Done)
    }
}
