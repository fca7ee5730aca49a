//! Runs the conformance suite on the volatile backend, through one handle that outlives its claims.

use std::sync::Arc;

use framegate_storage::conformance::{
    Factory, Fault, IDS, Injected, Loss, Unsupported, failures, run, table,
};
use framegate_storage::{ShardStore, StoreError};
use framegate_storage_memory::{MemoryOptions, MemoryStore};

struct Memory {
    store: MemoryStore,
}

fn small() -> MemoryStore {
    MemoryStore::with_options(MemoryOptions { block_bytes_max: 1 << 20, ..MemoryOptions::default() })
}

impl Factory for Memory {
    fn backend(&self) -> String {
        "memory".to_owned()
    }

    fn create(&mut self) -> Result<Arc<dyn ShardStore>, StoreError> {
        self.store = small();
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

#[test]
fn memory_passes_the_suite() {
    let rows = run(&mut Memory { store: small() });
    println!("{}", table(&rows));
    let failed = failures(IDS, "memory", &rows);
    assert!(failed.is_empty(), "{}", table(&failed));
}
