//! Where a broker lives during a case: one backend, its store behind a gate, and the ways to start, stop and kill it.

use std::sync::Arc;

use framegate_broker::{Broker, HeaderTable, Limits, Startup};
use framegate_storage::ShardStore;
use framegate_storage::conformance::{Factory, Loss};

use crate::gate::Gate;
use crate::journal::Simulated;
use crate::support::name;

/// A backend under test.
pub(crate) enum Backend {
    /// Nothing is lost but what a kill between two calls loses.
    Any(Box<dyn Factory>),
    /// Simulated files can die at any change.
    Simulated(Box<Simulated>),
}

impl Backend {
    fn factory(&mut self) -> &mut dyn Factory {
        match self {
            Self::Any(factory) => &mut **factory,
            Self::Simulated(factory) => &mut **factory,
        }
    }
}

/// See the module.
pub(crate) struct Home {
    backend: &'static str,
    factory: Backend,
    running: Option<(Broker, Arc<Gate>)>,
    kills: u64,
    /// Bounds of the next start.
    pub(crate) limits: Limits,
}

impl Home {
    /// Nothing runs.
    pub(crate) fn new(backend: &'static str, factory: Backend) -> Self {
        Self { backend, factory, running: None, kills: 0, limits: Limits::default() }
    }

    /// Name for the table.
    pub(crate) fn backend(&self) -> &'static str {
        self.backend
    }

    /// A broker over a new, empty store with the default bounds.
    pub(crate) async fn fresh(&mut self) -> Broker {
        self.limits = Limits::default();
        self.fresh_with_limits().await
    }

    /// A broker over a new, empty store.
    pub(crate) async fn fresh_with_limits(&mut self) -> Broker {
        self.end().await;
        let store = self.factory.factory().create().expect("a new store opens");
        self.start(store)
    }

    /// Stops in order and starts again.
    pub(crate) async fn restart(&mut self) -> Broker {
        let (broker, gate) = self.running.take().expect("a broker runs");
        broker.stop().await.expect("a clean stop");
        drop(gate.take());
        self.reopen()
    }

    /// Kills and starts again. What the kill takes is chosen by the number of the kill.
    pub(crate) async fn crash(&mut self) -> Broker {
        self.kill().await;
        self.reopen()
    }

    /// Kills: the store is gone between two calls, with whatever was under way. When this returns nothing of the
    /// broker runs, and everything that left it is in the outboxes.
    pub(crate) async fn kill(&mut self) {
        let (broker, gate) = self.running.take().expect("a broker runs");
        self.kills += 1;
        let power = Loss::Power { seed: self.kills };
        let process = self.kills.is_multiple_of(2) && self.backend != "journal";
        let loss = if process { Loss::Process } else { power };
        if let Some(store) = gate.take() {
            self.factory.factory().kill(store, loss).expect("the backend has such kills");
        }
        let _ = broker.stop().await;
    }

    /// Lets the store die within so many changes of its files, where that can be had; what lives on is the broker.
    pub(crate) fn die_after(&mut self, changes: u64) {
        if let Backend::Simulated(factory) = &self.factory {
            factory.crash_after(changes);
        }
    }

    /// Starts over what the last life left.
    pub(crate) fn reopen(&mut self) -> Broker {
        let store = self.factory.factory().open().expect("what was left opens");
        self.start(store)
    }

    /// The store of the running broker.
    pub(crate) fn store(&self) -> &dyn ShardStore {
        &*self.running.as_ref().expect("a broker runs").1
    }

    /// Ends what runs, if something does.
    pub(crate) async fn end(&mut self) {
        if let Some((broker, gate)) = self.running.take() {
            let _ = broker.stop().await;
            drop(gate.take());
        }
    }

    fn start(&mut self, store: Arc<dyn ShardStore>) -> Broker {
        let gate = Gate::new(store);
        let broker = start(Arc::clone(&gate) as _, self.limits.clone());
        self.running = Some((broker.clone(), gate));
        broker
    }
}

/// Starts a broker over any store.
pub(crate) fn start(store: Arc<dyn ShardStore>, limits: Limits) -> Broker {
    let headers = HeaderTable::default();
    Broker::start(Startup { store, limits, headers, vhosts: vec![name("/")] }).expect("the broker starts")
}
