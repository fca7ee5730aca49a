//! A store that can be taken away from a running broker: what a kill is, seen from the store. Owns the moment of the
//! kill; what is lost is decided by the backend's factory.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use framegate_storage::{Caps, Front, ShardStore, StoreError};

/// Passes every call on until the store is taken.
pub(crate) struct Gate {
    name: &'static str,
    caps: Caps,
    inner: Mutex<Option<Arc<dyn ShardStore>>>,
}

impl Gate {
    /// In front of a store.
    pub(crate) fn new(store: Arc<dyn ShardStore>) -> Arc<Self> {
        Arc::new(Self { name: store.name(), caps: store.caps(), inner: Mutex::new(Some(store)) })
    }

    /// Takes the store: calls from now on fail. Gives it when the calls under way have ended, as its last handle.
    pub(crate) fn take(&self) -> Option<Arc<dyn ShardStore>> {
        let store = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        while Arc::strong_count(&store) > 1 {
            std::thread::yield_now();
        }
        Some(store)
    }
}

impl Front for Gate {
    fn behind(&self) -> Result<Arc<dyn ShardStore>, StoreError> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner).clone();
        inner.ok_or_else(|| StoreError::Fatal {
            action: "use",
            path: PathBuf::from("gate"),
            detail: "the store was taken away".to_owned(),
        })
    }

    fn name(&self) -> &'static str {
        self.name
    }
    fn caps(&self) -> Caps {
        self.caps
    }
}
