//! From a store to a running broker.

use std::sync::{Arc, OnceLock, Weak, mpsc};

use framegate_storage::{ReportFn, ShardId, ShardStore, StoreError};

use super::{Alive, Broker, Shared};
use crate::fold::inbox::Inbox;
use crate::fold::{Clock, Core, Lookout, Now, spawn};
use crate::headers::HeaderTable;
use crate::limits::Limits;
use crate::name::Name;
use crate::routing::TopologyEditor;

/// What a broker is made of.
pub struct Startup {
    /// Where the log is.
    pub store: Arc<dyn ShardStore>,
    /// Bounds.
    pub limits: Limits,
    /// How headers are read.
    pub headers: HeaderTable,
    /// Vhosts that exist; at least `/`.
    pub vhosts: Vec<Name>,
}

/// Why a broker did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Storage could not be claimed or recovered.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log holds something that this version does not understand.
    #[error("record {lsn} of the log cannot be read: {detail}")]
    Record {
        /// Which record.
        lsn: u64,
        /// What is wrong.
        detail: String,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

pub(super) fn start(startup: Startup) -> Result<Broker, StartError> {
    let Startup { store, limits, headers, vhosts } = startup;
    let (inbox, receiver) = mpsc::channel();
    let line: Arc<OnceLock<Weak<Shared>>> = Arc::default();
    let reports = (Arc::clone(&line), inbox.clone());
    let report: ReportFn = Box::new(move |report| {
        let (line, inbox) = &reports;
        match line.get().map(Weak::upgrade) {
            Some(Some(shared)) => shared.report(report),
            // after the end nobody listens, and nothing is promised
            Some(None) => {}
            None => drop(inbox.send(Inbox::Report(report))),
        }
    });
    let claim = store.claim(ShardId(0), report)?;
    let (state, time_ms) = crate::fold::replay(&*store, &claim)?;
    let topology = TopologyEditor::new(&vhosts).publish().unwrap_or_default();
    let shared = Shared::new(limits, headers, vhosts, claim.generation, topology, inbox);
    let _ = line.set(Arc::downgrade(&shared));
    // the clock of the log never goes back
    let now = Now { wall_ms: time_ms.max(Clock::start().now().wall_ms), mono_ms: 0 };
    let mut core = Core::new(state, claim, Arc::clone(&store), Arc::clone(&shared), now)?;
    core.watched_by(Lookout::start(&store, ShardId(0), &shared)?);
    spawn(core, receiver, Arc::clone(&shared))?;
    let alive = Arc::new(Alive(Arc::clone(&shared)));
    Ok(Broker { shared, store, alive })
}
