//! Latency at a steady rate that no server finds hard: from publish to delivery, over framed JSON.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::MissedTickBehavior;

use crate::load::bodies;
use crate::messagex::{Packets, Promise, consume, declare, publish_command, start_consumer, succeeded};
use crate::report::Figures;
use crate::servers::Server;

/// Each tick of a millisecond publishes so many: 2,000 a second.
const PER_TICK: usize = 2;
const TICK: Duration = Duration::from_millis(1);

/// Publishes `count` messages and measures how long each takes to its consumer.
pub(crate) async fn run(server: &Server, promise: Promise, count: u64) -> io::Result<Figures> {
    declare(&server.messagex, promise).await?;
    let bodies = bodies(count);
    let consumer = start_consumer(&server.messagex, promise).await?;
    let started = Instant::now();
    let sent_ns: Arc<Vec<AtomicU64>> = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
    let latencies = Arc::new(Mutex::new(Vec::with_capacity(bodies.len())));
    let (sent, found) = (Arc::clone(&sent_ns), Arc::clone(&latencies));
    let consumed = tokio::spawn(consume(consumer, promise, Arc::clone(&bodies), move |number| {
        let age = started.elapsed().as_nanos() as u64 - sent[number as usize].load(Ordering::Acquire);
        found.lock().unwrap_or_else(PoisonError::into_inner).push((age / 1000) as u32);
    }));
    let cpu = server.tree().cpu_seconds();
    let (mut confirms, mut socket) = {
        let socket = TcpStream::connect(&server.messagex).await?;
        socket.set_nodelay(true)?;
        socket.into_split()
    };
    let confirmed = tokio::spawn(async move {
        let (mut packets, mut seen, mut failed) = (Packets::default(), 0, false);
        while seen < count {
            seen += packets.read(&mut confirms, |packet| failed |= !succeeded(packet)).await?;
        }
        if failed { Err(io::Error::other("a publish failed")) } else { Ok(()) }
    });
    let mut ticks = tokio::time::interval(TICK);
    // a late tick is not made up for: a burst would measure itself
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for (tick, chunk) in bodies.chunks(PER_TICK).enumerate() {
        ticks.tick().await;
        let mut out = Vec::new();
        for (n, body) in chunk.iter().enumerate() {
            let number = tick * PER_TICK + n;
            out.extend(publish_command(number as u64 + 1, promise, body));
            sent_ns[number].store(started.elapsed().as_nanos() as u64, Ordering::Release);
        }
        socket.write_all(&out).await?;
    }
    confirmed.await.map_err(io::Error::other)??;
    consumed.await.map_err(io::Error::other)??;
    let latencies_us = std::mem::take(&mut *latencies.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Figures {
        path: format!("messagex {}, 2,000/s, to delivery", promise.name()),
        server: server.name,
        count,
        seconds: started.elapsed().as_secs_f64(),
        cpu_seconds: server.tree().cpu_seconds() - cpu,
        peak_kib: server.tree().peak_kib(),
        latencies_us,
        ..Figures::default()
    })
}
