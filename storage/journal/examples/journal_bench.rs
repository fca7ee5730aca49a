//! Appends N messages of 256 B in synced groups and prints one line of JSON: rate, CPU a message, syncs.
//!
//! `cargo run --release -p framegate-storage-journal --example journal_bench -- [messages] [group] [dir] [in flight]`
//! A group is one block of `group` messages; at most `in flight` blocks wait (default 2: one is written while
//! the next is made). CPU is user and system time of the whole process, preallocation included.

use std::sync::mpsc;
use std::time::Instant;

use bytes::Bytes;
use framegate_storage::{Block, BlockFlags, Lsn, Report, ShardId, ShardStore, StoreError};
use framegate_storage_journal::{Journal, Options};

const MESSAGE_BYTES: usize = 256;
/// Clock ticks a second in /proc/self/stat, on every Linux.
const TICKS: u64 = 100;

fn main() -> Result<(), StoreError> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (messages, group) = (number(1_000_000), number(256));
    let directory = std::env::args().nth(3).unwrap_or_else(|| "target/journal-bench".to_owned());
    let in_flight = std::env::args().nth(4).and_then(|text| text.parse().ok()).unwrap_or(2u64);
    let _ = std::fs::remove_dir_all(&directory);
    let store = Journal::open(Options::new(&directory))?;
    let (sender, reports) = mpsc::channel();
    let claim = store.claim(ShardId(0), Box::new(move |report| drop(sender.send(report))))?;

    let records = Bytes::from(vec![0xa5; MESSAGE_BYTES * group as usize]);
    let (start, cpu_start) = (Instant::now(), cpu_ticks());
    let (mut next, mut durable) = (1u64, 0u64);
    let mut latencies_us = Vec::new();
    let mut sent_at = std::collections::VecDeque::new();
    while durable < messages {
        while next <= messages && next - 1 - durable < in_flight * group {
            let count = group.min(messages + 1 - next) as u32;
            let records = vec![records.slice(..MESSAGE_BYTES * count as usize)];
            let flags = BlockFlags::default();
            store
                .append(&claim, Block { first: Lsn(next), count, time_ms: 0, records, sync: true, flags })?;
            next += u64::from(count);
            sent_at.push_back((next - 1, Instant::now()));
        }
        match reports.recv() {
            Ok(Report::Durable { upto }) => durable = upto.0,
            Ok(Report::Failed(error)) => return Err(error),
            Ok(Report::Full(_) | Report::Room) => {}
            Err(_) => break,
        }
        while let Some((last, sent)) = sent_at.front().filter(|(last, _)| *last <= durable) {
            let _ = last;
            latencies_us.push(sent.elapsed().as_micros() as u64);
            sent_at.pop_front();
        }
    }
    let (seconds, ticks) = (start.elapsed().as_secs_f64(), cpu_ticks() - cpu_start);
    latencies_us.sort_unstable();
    let percentile = |of: usize| latencies_us.get(latencies_us.len() * of / 100).copied().unwrap_or(0);
    let usage = store.usage(ShardId(0));
    let cpu_us = ticks as f64 * 1e6 / TICKS as f64 / messages as f64;
    let copied = store.metrics().bytes_copied.load(std::sync::atomic::Ordering::Relaxed);
    println!(
        "{{\"messages\":{messages},\"group\":{group},\"in_flight\":{in_flight},\"msg_per_s\":{:.0},\"cpu_us_per_msg\":{cpu_us:.3},\
         \"syncs\":{},\"writes\":{},\"bytes_copied\":{copied},\"commit_p50_us\":{},\"commit_p99_us\":{}}}",
        messages as f64 / seconds,
        usage.syncs,
        usage.writes,
        percentile(50),
        percentile(99),
    );
    store.shutdown()
}

/// User and system time of this process.
fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}
