//! The stop: signals, the words to everybody, the grace period, the cut, the last sync.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Poll, Waker};
use std::time::Duration;

use framegate_broker::Broker;
use framegate_storage::StoreError;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::coop::unconstrained;

use crate::exit::{Ending, Exit};
use crate::listeners::Gate;
use crate::storage::what_to_do;

/// How long connections that are cut may take to be gone, and those that storage failed under to say goodbye.
const CUT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the broker may take to stop after a storage failure.
const FAILED_STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// SIGTERM and SIGINT. Installed before recovery, so that a stop that comes early is carried out late, but whole.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes the signals over.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn install() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Everything a stop needs.
pub(crate) struct Shutdown {
    /// The broker.
    pub(crate) broker: Broker,
    /// Every connection.
    pub(crate) gate: Gate,
    /// Tells everybody to stop.
    pub(crate) stopping: watch::Sender<bool>,
    /// Drops whoever did not.
    pub(crate) cut: watch::Sender<bool>,
    /// Time between the two.
    pub(crate) grace: Duration,
}

impl Shutdown {
    /// Serves until a signal or a storage failure, then stops.
    ///
    /// # Errors
    /// An ending with its message: connections were cut, or storage failed.
    pub(crate) async fn wait(self, mut signals: Signals) -> Result<Exit, Ending> {
        let mut failure = self.broker.failure();
        tokio::select! {
            name = signals.next() => self.orderly(name, signals).await,
            error = failed(&mut failure) => self.after_failure(&error).await,
        }
    }

    async fn orderly(self, name: &str, mut signals: Signals) -> Result<Exit, Ending> {
        let grace_ms = self.grace.as_millis();
        tracing::info!("{name}: stopping; {} connections have {grace_ms} ms to end", self.gate.connections());
        self.stopping.send_replace(true);
        self.broker.refuse_publishes();
        let mut failure = self.broker.failure();
        let waited = tokio::select! {
            biased;
            () = self.gate.empty() => "",
            error = failed(&mut failure) => return self.after_failure(&error).await,
            () = tokio::time::sleep(self.grace) => "after the grace period of shutdown.grace_ms",
            _ = signals.next() => "by a second signal",
        };
        let left = self.gate.connections();
        self.cut_connections().await;
        if let Err(error) = self.broker.stop().await {
            return Err(Ending::storage(what_to_do(&error)));
        }
        if left > 0 {
            let what = if left == 1 { "connection was" } else { "connections were" };
            return Err(Ending::failed(format!("{left} {what} cut {waited}")));
        }
        tracing::info!("stopped");
        Ok(Exit::Done)
    }

    /// Nothing that was not confirmed is promised: close everything and say where it happened.
    async fn after_failure(self, error: &StoreError) -> Result<Exit, Ending> {
        let message = what_to_do(error);
        tracing::error!("{message}");
        self.stopping.send_replace(true);
        drop(tokio::time::timeout(CUT_TIMEOUT, self.gate.empty()).await);
        self.cut_connections().await;
        drop(tokio::time::timeout(FAILED_STOP_TIMEOUT, self.broker.stop()).await);
        Err(Ending::storage(message))
    }

    async fn cut_connections(&self) {
        self.cut.send_replace(true);
        drop(tokio::time::timeout(CUT_TIMEOUT, self.gate.empty()).await);
    }
}

/// Waits until the shard has failed.
async fn failed(failure: &mut watch::Receiver<Option<StoreError>>) -> StoreError {
    match failure.wait_for(Option::is_some).await {
        Ok(error) => match &*error {
            Some(error) => error.clone(),
            None => StoreError::Fatal { action: "run", path: "the shard".into(), detail: "ended".to_owned() },
        },
        // The sender goes with the broker only; then nothing can fail any more.
        Err(_) => std::future::pending().await,
    }
}

/// Waits until the signal is given, or until nobody can give it any more. Cancel-safe.
pub(crate) async fn told(signal: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, and the server with it.
    drop(signal.wait_for(|told| *told).await);
}

/// `work` until it ends or the signal is given: None. Work that wakes often does not look at the signal each time, only
/// when it has changed or when the task that waits is another one.
pub(crate) async fn unless_told<F: Future + Unpin>(
    signal: &mut watch::Receiver<bool>,
    mut work: F,
) -> Option<F::Output> {
    let changes = signal.clone();
    // Not within the task's turn: one that has used it up is told to come back, but nobody would listen to the signal.
    let mut told = pin!(unconstrained(told(signal)));
    let mut waits: Option<Waker> = None;
    poll_fn(|context| {
        if let Poll::Ready(output) = Pin::new(&mut work).poll(context) {
            return Poll::Ready(Some(output));
        }
        let known = waits.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
        if known && matches!(changes.has_changed(), Ok(false)) {
            return Poll::Pending;
        }
        waits = Some(context.waker().clone());
        told.as_mut().poll(context).map(|()| None)
    })
    .await
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::task::coop::{consume_budget, has_budget_remaining};

    use super::*;

    #[tokio::test]
    async fn work_that_never_wakes_is_ended_by_the_signal() {
        let (give, mut signal) = watch::channel(false);
        let work = tokio::spawn(async move { unless_told(&mut signal, std::future::pending::<()>()).await });
        tokio::task::yield_now().await;
        give.send_replace(true);
        assert_eq!(work.await.expect("joined"), None);
    }

    #[tokio::test]
    async fn a_signal_given_before_or_by_one_who_left_is_heard_too() {
        let (give, mut signal) = watch::channel(false);
        give.send_replace(true);
        assert_eq!(unless_told(&mut signal, std::future::pending::<()>()).await, None);
        let (give, mut signal) = watch::channel(false);
        drop(give);
        assert_eq!(unless_told(&mut signal, std::future::pending::<()>()).await, None);
    }

    #[tokio::test]
    async fn work_that_wakes_often_ends_by_itself_or_by_the_signal() {
        let (give, mut signal) = watch::channel(false);
        let busy = Box::pin(async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            7
        });
        assert_eq!(unless_told(&mut signal, busy).await, Some(7));
        let endless = Box::pin(async {
            let mut give = Some(give);
            for turn in 0.. {
                tokio::task::yield_now().await;
                if turn == 100 {
                    give.take().expect("once").send_replace(true);
                }
            }
        });
        assert_eq!(unless_told(&mut signal, endless).await, None);
    }

    #[tokio::test]
    async fn work_that_uses_up_the_turn_of_its_task_does_not_make_it_deaf() {
        let (give, mut signal) = watch::channel(false);
        let (begun, begins) = oneshot::channel();
        let greedy = Box::pin(async move {
            poll_fn(|context| {
                while has_budget_remaining() {
                    assert!(pin!(consume_budget()).poll(context).is_ready());
                }
                Poll::Ready(())
            })
            .await;
            begun.send(()).expect("somebody waits");
            std::future::pending::<()>().await;
        });
        let work = tokio::spawn(async move { unless_told(&mut signal, greedy).await });
        begins.await.expect("begun");
        give.send_replace(true);
        assert_eq!(work.await.expect("joined"), None);
    }
}
