//! A thread that looks at the disk now and then and tells the fold, which never asks a file system. It decides nothing.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use framegate_storage::{ShardId, ShardStore};

use super::inbox::Inbox;
use crate::broker::Shared;

/// The disk has so many times the least room at most: look more often.
const NEAR: u64 = 8;
/// How many times as often.
const NEAR_PARTS: u64 = 20;

/// Ends its thread when dropped.
pub(crate) struct Lookout {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Lookout {
    /// Starts it. An idle shard on a disk with room is not woken.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(crate) fn start(
        store: &Arc<dyn ShardStore>,
        shard: ShardId,
        shared: &Arc<Shared>,
    ) -> std::io::Result<Self> {
        let (end, ended) = channel::<()>();
        let (store, shared): (_, Weak<Shared>) = (Arc::clone(store), Arc::downgrade(shared));
        let thread = std::thread::Builder::new().name("lookout".to_owned()).spawn(move || {
            let mut seen = None;
            loop {
                let Some(shared) = shared.upgrade() else { return };
                let free = store.usage(shard).free_bytes;
                let records = shared.metrics.records.load(Ordering::Relaxed);
                let is_low = free.is_some_and(|free| free < shared.limits.disk_free_min_bytes);
                if is_low || shared.gate.closed_for().is_some() || seen != Some(records) {
                    seen = Some(records);
                    shared.send(Inbox::Looked { free });
                }
                // near the mark it looks more often: what was accepted is still being written
                let near = free.is_some_and(|free| free / NEAR < shared.limits.disk_free_min_bytes);
                let parts = if near { NEAR_PARTS } else { 1 };
                let every = Duration::from_millis((shared.limits.look_every_ms / parts).max(1));
                drop(shared);
                if ended.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
