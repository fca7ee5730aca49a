//! One publisher and one consumer over one queue at the same time. Counts only when every body came back once, whole
//! and in order, every publish was confirmed and the queue is empty at the end.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

use super::wire::{Incoming, Link, ack_up_to, publish};

/// Unacked messages at a consumer that acks.
const PREFETCH: u16 = 1000;
/// Deliveries of one ack. Fewer would let a peer confirm a message because it is acked already, without a sync.
const ACK_EVERY: u64 = 100;
/// Messages on the way when nothing confirms them.
pub(super) const UNCONFIRMED_MAX: u64 = 10_000;
/// Bytes that one write sends at most.
pub(super) const WRITE_BYTES: usize = 64 * 1024;
/// Digits of the number that begins a body.
pub(super) const DIGITS: usize = 10;
/// Publishes of each millisecond at the steady rate: 2,000 a second.
const PER_TICK: u64 = 2;

/// How the publisher goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// So many unconfirmed messages at most.
    Confirmed { window: u64 },
    /// As fast as the consumer takes them.
    Unconfirmed,
    /// 2,000 a second, unconfirmed.
    Steady,
}

/// A load on one queue.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) queue: String,
    pub(crate) consumer_tag: &'static str,
    pub(crate) count: u64,
    pub(crate) body_bytes: usize,
    /// Durable queue, persistent messages, manual acks; else transient ones, acked by being sent.
    pub(crate) persistent: bool,
    pub(crate) pace: Pace,
}

/// What both ends share.
#[derive(Debug)]
pub(super) struct Progress {
    started: Instant,
    pub(super) consumed: AtomicU64,
    pub(super) more: Notify,
    /// When each message was sent at the steady rate, in nanoseconds.
    sent_ns: Vec<AtomicU64>,
}

impl Progress {
    /// Nothing is done. `steady`: messages whose time of sending is kept.
    pub(super) fn start(steady: u64) -> Self {
        Self {
            started: Instant::now(),
            consumed: AtomicU64::new(0),
            more: Notify::new(),
            sent_ns: (0..steady).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

/// Runs it. Gives latencies in microseconds: to the confirm, or at the steady rate to the delivery.
///
/// # Errors
/// The run is not complete, in order and whole.
pub(crate) async fn run(address: &str, load: Load) -> io::Result<Vec<u32>> {
    let mut consumer = Link::open(address).await?;
    consumer.declare(&load.queue, load.persistent, false).await?;
    let prefetch = load.persistent.then_some(PREFETCH);
    consumer.consume(&load.queue, load.consumer_tag, prefetch).await?;
    let mut publisher = Link::open(address).await?;
    if let Pace::Confirmed { .. } = load.pace {
        publisher.select_confirms().await?;
    }
    let steady = if load.pace == Pace::Steady { load.count } else { 0 };
    let progress = Arc::new(Progress::start(steady));
    let consumed = tokio::spawn(consume(consumer, load.clone(), Arc::clone(&progress)));
    let to_confirm = match load.pace {
        Pace::Confirmed { window } => confirmed(&mut publisher, &load, window).await?,
        Pace::Unconfirmed => unconfirmed(&mut publisher, &load, &progress).await?,
        Pace::Steady => steadily(&mut publisher, &load, &progress).await?,
    };
    let (mut consumer, to_delivery) = consumed.await.map_err(io::Error::other)??;
    let ready = consumer.declare(&load.queue, load.persistent, true).await?;
    if ready != 0 {
        return Err(io::Error::other(format!("{ready} messages are left in {}", load.queue)));
    }
    consumer.delete(&load.queue).await?;
    Ok(if load.pace == Pace::Steady { to_delivery } else { to_confirm })
}

/// Publishes, one after the other, from one encoded message whose number is written anew.
pub(super) struct Encoder {
    message: Vec<u8>,
    number_at: usize,
}

impl Encoder {
    fn new(load: &Load) -> Self {
        let message = publish(&load.queue, load.persistent, &vec![b'x'; load.body_bytes]);
        let number_at = message.len() - 1 - load.body_bytes;
        Self { message, number_at }
    }

    /// Of any protocol's message; the body begins at `number_at`.
    pub(super) fn of(message: Vec<u8>, number_at: usize) -> Self {
        Self { message, number_at }
    }

    pub(super) fn write(&mut self, number: u64, out: &mut Vec<u8>) {
        self.message[self.number_at..self.number_at + DIGITS].copy_from_slice(&digits(number));
        out.extend_from_slice(&self.message);
    }
}

fn digits(mut number: u64) -> [u8; DIGITS] {
    let mut out = [b'0'; DIGITS];
    for digit in out.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    out
}

async fn confirmed(publisher: &mut Link, load: &Load, window: u64) -> io::Result<Vec<u32>> {
    let mut encoder = Encoder::new(load);
    let (mut sent, mut open, mut first) = (0, 0, 1);
    // from the tag `first` on: when it was sent, nothing once it is confirmed
    let mut waiting: VecDeque<Option<Instant>> = VecDeque::new();
    let mut latencies_us = Vec::with_capacity(load.count as usize);
    let mut out = Vec::new();
    while sent < load.count || open > 0 {
        while sent < load.count && open < window && out.len() < WRITE_BYTES {
            encoder.write(sent, &mut out);
            waiting.push_back(Some(Instant::now()));
            (sent, open) = (sent + 1, open + 1);
        }
        publisher.write(&out).await?;
        out.clear();
        if sent < load.count && open < window {
            continue;
        }
        publisher
            .read(|incoming| {
                let Incoming::Ack { tag, multiple } = incoming else {
                    return Err(io::Error::other(format!("a confirm is expected, there came {incoming:?}")));
                };
                let last = tag.checked_sub(first).map(|last| last as usize);
                let last = last.filter(|last| *last < waiting.len());
                let Some(last) = last else {
                    return Err(io::Error::other(format!("confirm of {tag}, which is not open")));
                };
                let from = if multiple { 0 } else { last };
                for at in waiting.range_mut(from..=last) {
                    if let Some(at) = at.take() {
                        latencies_us.push(at.elapsed().as_micros() as u32);
                        open -= 1;
                    }
                }
                while waiting.front().is_some_and(Option::is_none) {
                    waiting.pop_front();
                    first += 1;
                }
                Ok(())
            })
            .await?;
    }
    Ok(latencies_us)
}

async fn unconfirmed(publisher: &mut Link, load: &Load, progress: &Progress) -> io::Result<Vec<u32>> {
    let mut encoder = Encoder::new(load);
    let mut out = Vec::new();
    let mut sent = 0;
    while sent < load.count {
        let more = progress.more.notified();
        let limit = load.count.min(progress.consumed.load(Ordering::Acquire) + UNCONFIRMED_MAX);
        if sent >= limit {
            more.await;
            continue;
        }
        while sent < limit && out.len() < WRITE_BYTES {
            encoder.write(sent, &mut out);
            sent += 1;
        }
        publisher.write(&out).await?;
        out.clear();
    }
    Ok(Vec::new())
}

async fn steadily(publisher: &mut Link, load: &Load, progress: &Progress) -> io::Result<Vec<u32>> {
    let mut encoder = Encoder::new(load);
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    // a late tick is not made up for: a burst would measure itself
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut out = Vec::new();
    let mut sent = 0;
    while sent < load.count {
        ticks.tick().await;
        out.clear();
        for _ in 0..PER_TICK.min(load.count - sent) {
            encoder.write(sent, &mut out);
            let now = progress.started.elapsed().as_nanos() as u64;
            progress.sent_ns[sent as usize].store(now, Ordering::Release);
            sent += 1;
        }
        publisher.write(&out).await?;
    }
    Ok(Vec::new())
}

async fn consume(mut consumer: Link, load: Load, progress: Arc<Progress>) -> io::Result<(Link, Vec<u32>)> {
    let filling = vec![b'x'; load.body_bytes - DIGITS];
    let mut body = Vec::new();
    let (mut next, mut acked, mut newest_tag) = (0, 0, 0);
    let mut latencies_us = Vec::with_capacity(progress.sent_ns.len());
    while next < load.count {
        let before = next;
        consumer
            .read(|incoming| {
                match incoming {
                    Incoming::Deliver { tag } => newest_tag = tag,
                    Incoming::Header { size } if size == load.body_bytes as u64 => body.clear(),
                    Incoming::Body(part) if part.len() == load.body_bytes => {
                        whole(part, next, &filling)?;
                        next += 1;
                    }
                    Incoming::Body(part) => {
                        body.extend_from_slice(part);
                        if body.len() >= load.body_bytes {
                            whole(&body, next, &filling)?;
                            next += 1;
                        }
                    }
                    other => {
                        return Err(io::Error::other(format!(
                            "a delivery is expected, there came {other:?}"
                        )));
                    }
                }
                Ok(())
            })
            .await?;
        if load.pace == Pace::Steady {
            let now = progress.started.elapsed().as_nanos() as u64;
            for sent in &progress.sent_ns[before as usize..next as usize] {
                latencies_us.push(((now - sent.load(Ordering::Acquire)) / 1000) as u32);
            }
        }
        if load.persistent && (next - acked >= ACK_EVERY || next == load.count) {
            // the content of the newest delivery may still be on its way: its tag is one too many then
            acked = next.min(newest_tag);
            consumer.write(&ack_up_to(acked)).await?;
        }
        progress.consumed.store(next, Ordering::Release);
        progress.more.notify_one();
    }
    Ok((consumer, latencies_us))
}

/// Whether a body is the one of that number.
pub(super) fn whole(body: &[u8], number: u64, filling: &[u8]) -> io::Result<()> {
    if body[..DIGITS] == digits(number) && body[DIGITS..] == *filling {
        return Ok(());
    }
    Err(io::Error::other(format!("message {number} is missing, doubled, damaged or out of order")))
}
