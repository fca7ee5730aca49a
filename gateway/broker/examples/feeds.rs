//! Prints what waking and reading cost with many subscriptions, beside two ready-made ways to wake:
//! `cargo run --release -p framegate-broker --features measure --example feeds`.
//!
//! Tasks do nothing but read; one event a pass, published from a thread outside the runtime, as the fold does. `paced`
//! publishes when all tasks have read what was there, `burst` publishes as fast as it can.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use framegate_broker::{SharedEvent, measure_feed::Feed};
use tokio::sync::{Notify, watch};

const SUBSCRIBERS: usize = 5000;
const EVENTS: u64 = 1000;

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    println!(
        "{SUBSCRIBERS} tasks, {EVENTS} events\n                     publisher us/event   total ns/delivery"
    );
    for paced in [true, false] {
        for (name, run) in [
            ("own list", own as fn(_, _) -> _),
            ("own list, hub", hub),
            ("Notify", notify),
            ("watch channel", channel),
        ] {
            let (publishing, total) = run(&runtime, paced);
            let pace = if paced { "paced" } else { "burst" };
            println!(
                "{name:14} {pace} {:19.1} {:19.0}",
                publishing.as_secs_f64() * 1e6 / EVENTS as f64,
                total.as_nanos() as f64 / (EVENTS as f64 * SUBSCRIBERS as f64)
            );
        }
    }
    Ok(())
}

/// CPU time of this thread so far: wall time would count what preempts it. Zero where there is no procfs.
fn on_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

/// Publishes all events; CPU time spent publishing and time until all were read.
fn drive(paced: bool, read: &AtomicU64, mut publish: impl FnMut()) -> (Duration, Duration) {
    let (start, mut publishing) = (Instant::now(), Duration::ZERO);
    for n in 1..=EVENTS {
        let before = on_cpu();
        publish();
        publishing += on_cpu().saturating_sub(before);
        while paced && read.load(Ordering::Relaxed) < n * SUBSCRIBERS as u64 {
            std::thread::yield_now();
        }
    }
    while read.load(Ordering::Relaxed) < EVENTS * SUBSCRIBERS as u64 {
        std::thread::yield_now();
    }
    (publishing, start.elapsed())
}

fn own(runtime: &tokio::runtime::Runtime, paced: bool) -> (Duration, Duration) {
    feed(runtime, paced, false)
}

fn hub(runtime: &tokio::runtime::Runtime, paced: bool) -> (Duration, Duration) {
    feed(runtime, paced, true)
}

fn feed(runtime: &tokio::runtime::Runtime, paced: bool, by_hub: bool) -> (Duration, Duration) {
    let Some(mut feed) = Feed::new(256) else { return Default::default() };
    let read = Arc::new(AtomicU64::new(0));
    for _ in 0..SUBSCRIBERS {
        let (mut subscription, read) = (feed.subscribe(), Arc::clone(&read));
        runtime.spawn(async move {
            let mut into = Vec::new();
            while subscription.next(&mut into, 64).await {
                read.fetch_add(into.len() as u64, Ordering::Relaxed);
                into.clear();
            }
        });
    }
    while feed.waiting() < SUBSCRIBERS {
        std::thread::yield_now();
    }
    if by_hub {
        runtime.spawn(feed.hub());
    }
    let figures = drive(paced, &read, || feed.publish(by_hub));
    feed.close();
    figures
}

type Shared = Arc<Mutex<VecDeque<SharedEvent>>>;

fn copy(shared: &Shared, from: &mut usize, into: &mut Vec<SharedEvent>) {
    let ring = shared.lock().unwrap_or_else(PoisonError::into_inner);
    into.extend(ring.range(*from..).take(64).cloned());
    *from += into.len();
}

fn notify(runtime: &tokio::runtime::Runtime, paced: bool) -> (Duration, Duration) {
    let Some(mut feed) = Feed::new(256) else { return Default::default() };
    let (read, ring, bell) = (Arc::new(AtomicU64::new(0)), Shared::default(), Arc::new(Notify::new()));
    let waiting = Arc::new(AtomicUsize::new(0));
    for _ in 0..SUBSCRIBERS {
        let (read, ring, bell, waiting) = (read.clone(), ring.clone(), bell.clone(), waiting.clone());
        runtime.spawn(async move {
            let (mut from, mut into) = (0, Vec::new());
            while from < EVENTS as usize {
                let notified = bell.notified();
                copy(&ring, &mut from, &mut into);
                if into.is_empty() {
                    waiting.fetch_add(1, Ordering::Relaxed);
                    notified.await;
                    waiting.fetch_sub(1, Ordering::Relaxed);
                }
                read.fetch_add(into.len() as u64, Ordering::Relaxed);
                into.clear();
            }
        });
    }
    while waiting.load(Ordering::Relaxed) < SUBSCRIBERS {
        std::thread::yield_now();
    }
    let publish = || {
        let event = feed.event();
        ring.lock().unwrap_or_else(PoisonError::into_inner).push_back(event);
        bell.notify_waiters();
    };
    drive(paced, &read, publish)
}

fn channel(runtime: &tokio::runtime::Runtime, paced: bool) -> (Duration, Duration) {
    let Some(mut feed) = Feed::new(256) else { return Default::default() };
    let (read, ring) = (Arc::new(AtomicU64::new(0)), Shared::default());
    let (sender, receiver) = watch::channel(0_u64);
    for _ in 0..SUBSCRIBERS {
        let (read, ring, mut receiver) = (read.clone(), ring.clone(), receiver.clone());
        runtime.spawn(async move {
            let (mut from, mut into) = (0, Vec::new());
            while receiver.changed().await.is_ok() {
                loop {
                    copy(&ring, &mut from, &mut into);
                    if into.is_empty() {
                        break;
                    }
                    read.fetch_add(into.len() as u64, Ordering::Relaxed);
                    into.clear();
                }
            }
        });
    }
    let publish = || {
        let event = feed.event();
        ring.lock().unwrap_or_else(PoisonError::into_inner).push_back(event);
        sender.send_modify(|n| *n += 1);
    };
    drive(paced, &read, publish)
}
