//! The life of an ownership: claim (fence the old owner, recover, start the committer) and the end of it.

use std::sync::Arc;
use std::thread::JoinHandle;

use framegate_storage::{Claim, Epoch, Lsn, ReportFn, ShardId, StoreError};

use crate::committer::Committer;
use crate::manifest::io_error;
use crate::recovery::recover;
use crate::segments::lock;
use crate::shared::Shared;
use crate::state::{Phase, Stop};
use crate::writer::Writer;

/// The committer of the live claim.
#[derive(Default)]
pub(crate) struct Owner {
    committer: Option<JoinHandle<Result<(), StoreError>>>,
}

impl Owner {
    /// Becomes the only writer; the previous owner's unwritten blocks are dropped.
    pub(crate) fn claim(
        &mut self,
        shared: &Arc<Shared>,
        shard: ShardId,
        report: ReportFn,
    ) -> Result<Claim, StoreError> {
        let dir = &shared.options.dir;
        let refused =
            |detail: &str| StoreError::Io { action: "claim", path: dir.clone(), detail: detail.into() };
        if shard.0 != 0 {
            return Err(refused("only shard 0 exists"));
        }
        if shared.read_only {
            return Err(refused("it was opened for reading only"));
        }
        let mut manifest = *lock(&shared.manifest);
        let was_clean = manifest.clean;
        manifest.epoch = Epoch(manifest.epoch.0 + 1);
        manifest.clean = false;
        // From here on the old owner is fenced.
        lock(&shared.state).epoch = manifest.epoch;
        let _ = self.stop(shared, Stop::Abandon);
        shared.segments.load(dir, shard)?;
        shared.snapshots.load(shared)?;
        let recovered = recover(&*shared.files, &shared.options, &shared.segments, shared.snapshots.known())?;
        manifest.store(&*shared.files, dir)?;
        *lock(&shared.manifest) = manifest;
        let clean = recovered.next == Lsn(1) || (recovered.clean && was_clean);
        let capacity = {
            let mut state = lock(&shared.state);
            state.open(manifest.epoch, recovered.next, shared.segments.last_number(), recovered.clean);
            state.next_capacity(&shared.options)
        };
        shared.maintenance.prepare(capacity);
        shared.maintenance.wait_ready();
        let writer = Writer::new(Arc::clone(shared), report, shard, manifest.epoch, recovered.next);
        let committer = Committer::new(writer);
        let thread = std::thread::Builder::new()
            .name("journal-commit".to_owned())
            .spawn(move || committer.run())
            .map_err(|error| io_error("start a thread for", dir, &error))?;
        self.committer = Some(thread);
        let (epoch, generation) = (manifest.epoch, manifest.generation);
        Ok(Claim { shard, epoch, generation, next: recovered.next, clean })
    }

    /// Ends the claim: everything is written and synced, and the stop is noted as clean if the last block
    /// says so.
    pub(crate) fn shut_down(&mut self, shared: &Shared) -> Result<(), StoreError> {
        if self.committer.is_none() {
            return Ok(());
        }
        let outcome = self.stop(shared, Stop::Drain);
        outcome?;
        let clean = lock(&shared.state).last_flags.clean_shutdown;
        let mut manifest = lock(&shared.manifest);
        if clean {
            manifest.clean = true;
            manifest.store(&*shared.files, &shared.options.dir)?;
        }
        Ok(())
    }

    /// Stops the committer and closes the claim.
    pub(crate) fn stop(&mut self, shared: &Shared, how: Stop) -> Result<(), StoreError> {
        let Some(thread) = self.committer.take() else { return Ok(()) };
        lock(&shared.state).stop = how;
        shared.wake.notify_all();
        let outcome = thread.join().unwrap_or_else(|_| {
            let detail = "the committer thread panicked".to_owned();
            Err(StoreError::Fatal { action: "write to", path: shared.options.dir.clone(), detail })
        });
        let mut state = lock(&shared.state);
        if let Phase::Open = state.phase {
            state.phase = Phase::Closed;
        }
        state.pending.clear();
        shared.settled.notify_all();
        outcome
    }
}
