//! What interrupts a stream that has no events: the stop, the end of its lifetime, heartbeats. A busy stream asks after
//! each event, so clocks that are armed and not due are not touched. Never writes anything.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tick {
    /// The server stops.
    Stopping,
    /// The stream has lived long enough.
    LifetimeOver,
    /// It is time for a sign of life.
    Heartbeat,
}

/// See the top of the file.
pub(super) struct Clocks {
    heartbeat: Option<(Duration, Instant)>,
    ends_at: Option<Instant>,
    stopping: watch::Receiver<bool>,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// One timer for whatever is due first.
    sleep: Option<Pin<Box<Sleep>>>,
    /// When it rings.
    due: Option<Instant>,
    /// The task that signal and timer wake.
    armed: Option<Waker>,
}

impl Clocks {
    /// Clocks that start now.
    pub(super) fn new(
        heartbeat: Option<Duration>,
        lifetime: Option<Duration>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let now = Instant::now();
        let heartbeat = heartbeat.map(|period| (period, now + period));
        let ends_at = lifetime.map(|lifetime| now + lifetime);
        let mut signal = stopping.clone();
        let stopped = Box::pin(async move {
            if signal.wait_for(|stopping| *stopping).await.is_err() {
                std::future::pending::<()>().await; // whoever stops the server is gone
            }
        });
        let due = first(heartbeat, ends_at);
        let sleep = due.map(|at| Box::pin(sleep_until(at)));
        Self { heartbeat, ends_at, stopping, stopped, sleep, due, armed: None }
    }

    /// Whether the server stops.
    pub(super) fn stopping(&mut self) -> bool {
        self.stopping.has_changed().unwrap_or(false) && *self.stopping.borrow_and_update()
    }

    /// What has happened; else sees to it that the task is woken when it does.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Tick> {
        let armed = self.armed.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
        // The timer is not asked: it lies elsewhere, and is woken by others.
        let due = armed && self.due.is_some_and(|due| due <= Instant::now());
        if armed && !due && !self.stopping.has_changed().unwrap_or(false) {
            return Poll::Pending;
        }
        self.armed = None;
        // Not within the task's turn: one that has used it up is told to come back, but nothing would be armed.
        if pin!(unconstrained(self.stopped.as_mut())).poll(context).is_ready() {
            return Poll::Ready(Tick::Stopping);
        }
        if let Some(sleep) = &mut self.sleep
            && pin!(unconstrained(sleep.as_mut())).poll(context).is_ready()
        {
            let now = Instant::now();
            if self.ends_at.is_some_and(|at| at <= now) {
                return Poll::Ready(Tick::LifetimeOver);
            }
            if let Some((period, at)) = &mut self.heartbeat {
                *at = now + *period;
            }
            self.due = first(self.heartbeat, self.ends_at);
            if let Some(at) = self.due {
                sleep.as_mut().reset(at);
            }
            return Poll::Ready(Tick::Heartbeat);
        }
        self.armed = Some(context.waker().clone());
        Poll::Pending
    }
}

fn first(heartbeat: Option<(Duration, Instant)>, ends_at: Option<Instant>) -> Option<Instant> {
    heartbeat.map(|(_, at)| at).into_iter().chain(ends_at).min()
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use tokio::task::coop::{consume_budget, has_budget_remaining};

    use super::*;

    fn clocks(heartbeat: Option<u64>, lifetime: Option<u64>) -> (Clocks, watch::Sender<bool>) {
        let (stop, stopping) = watch::channel(false);
        let seconds = |s: Option<u64>| s.map(Duration::from_secs);
        (Clocks::new(seconds(heartbeat), seconds(lifetime), stopping), stop)
    }

    async fn next(clocks: &mut Clocks) -> Tick {
        poll_fn(|context| clocks.poll(context)).await
    }

    /// Polls once when the task's turn is used up.
    async fn poll_without_budget(clocks: &mut Clocks) {
        poll_fn(|context| {
            while has_budget_remaining() {
                assert!(pin!(consume_budget()).poll(context).is_ready());
            }
            assert!(clocks.poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
    }

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_come_until_the_lifetime_is_over() {
        let start = Instant::now();
        let (mut clocks, _stop) = clocks(Some(20), Some(50));
        assert_eq!(next(&mut clocks).await, Tick::Heartbeat);
        assert_eq!(next(&mut clocks).await, Tick::Heartbeat);
        assert_eq!(next(&mut clocks).await, Tick::LifetimeOver);
        assert_eq!(start.elapsed().as_secs(), 50);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_has_used_up_its_turn_still_hears_timer_and_stop() {
        let (mut timed, _stop) = clocks(Some(20), None);
        poll_without_budget(&mut timed).await;
        assert_eq!(next(&mut timed).await, Tick::Heartbeat);
        let (mut told, stop) = clocks(None, None);
        poll_without_budget(&mut told).await;
        let stopping = tokio::spawn(async move { next(&mut told).await });
        tokio::task::yield_now().await;
        stop.send_replace(true);
        assert_eq!(stopping.await.unwrap(), Tick::Stopping);
    }

    #[tokio::test(start_paused = true)]
    async fn the_task_that_asked_last_is_woken() {
        let (mut clocks, _stop) = clocks(Some(20), None);
        let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
        for task in [&first, &second, &second] {
            let waker = Waker::from(Arc::clone(task));
            assert!(clocks.poll(&mut Context::from_waker(&waker)).is_pending());
        }
        tokio::time::sleep(Duration::from_secs(21)).await;
        assert_eq!((first.0.load(Ordering::SeqCst), second.0.load(Ordering::SeqCst)), (0, 1));
        assert_eq!(next(&mut clocks).await, Tick::Heartbeat);
    }
}
