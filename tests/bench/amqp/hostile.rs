//! What badly behaved clients cost the others: the 99th percentile of the others' latency with them and without, in alternating
//! rounds of one server. The binary is the one with storage faults, since one of the kinds needs a full disk.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, timeout};

use super::flow::{self, Load, Pace};
use super::wire::{CHANNELS_MAX, Link, open_channel, publish, publish_mandatory};
use super::{line, p99_us};
use crate::servers::Server;

const ROUNDS: usize = 5;
/// With the hostile clients against without, at most.
const RATIO_AIM: f64 = 1.3;
/// Hostile connections at one time.
const CLIENTS: usize = 4;
/// Body of a message that a hostile client sends.
const BODY_BYTES: usize = 16 * 1024;
/// Between two attempts of one client.
const PAUSE: Duration = Duration::from_millis(50);
/// A confirm that has not come by then does not come.
const NO_CONFIRM: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Has messages returned to it and reads none of them.
    NeverReads,
    /// Publishes on while the disk is full.
    FloodsWhileBlocked,
    /// Opens every channel that it negotiated and one more, again and again.
    EveryChannelAndOne,
}

impl Kind {
    const ALL: [Self; 3] = [Self::NeverReads, Self::FloodsWhileBlocked, Self::EveryChannelAndOne];

    fn name(self) -> &'static str {
        match self {
            Self::NeverReads => "hostile-amqp never reads",
            Self::FloodsWhileBlocked => "hostile-amqp floods while publishers are blocked",
            Self::EveryChannelAndOne => "hostile-amqp opens every channel and one more",
        }
    }
}

/// A line for each kind. `only`: kinds with this in their name.
///
/// # Errors
/// A server does not start, or what the others do fails.
pub(crate) fn run(runtime: &Runtime, quick: bool, only: Option<&str>) -> io::Result<()> {
    let (rounds, count) = if quick { (1, 1000) } else { (ROUNDS, 4000) };
    for kind in Kind::ALL.into_iter().filter(|kind| only.is_none_or(|only| kind.name().contains(only))) {
        let folder = tempfile::tempdir()?;
        let full = folder.path().join("full");
        let server =
            Server::framegate_with(&[("FRAMEGATE_FAULTS", &format!("full-when={}", full.display()))])?;
        let (without, with) = runtime.block_on(async {
            let held = match kind {
                Kind::FloodsWhileBlocked => Some(fill_disk(&server.amqp, &full).await?),
                _ => None,
            };
            let (mut without, mut with) = (Vec::new(), Vec::new());
            for round in 0..rounds {
                let turns = if round % 2 == 0 { [false, true] } else { [true, false] };
                for is_hostile in turns {
                    let mut clients = JoinSet::new();
                    for _ in 0..if is_hostile { CLIENTS } else { 0 } {
                        clients.spawn(attack(kind, server.amqp.clone()));
                    }
                    let latencies = others(kind, &server.amqp, count).await?;
                    let rounds = if is_hostile { &mut with } else { &mut without };
                    rounds.push(p99_us(latencies));
                    clients.shutdown().await;
                }
            }
            drop(held);
            Ok::<_, io::Error>((middle(without), middle(with)))
        })?;
        let ratio = with / without;
        line(
            kind.name(),
            "p99 us, beside the p99 without",
            with,
            Some(without),
            Some((RATIO_AIM, ratio <= RATIO_AIM)),
        );
    }
    Ok(())
}

fn middle(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds.get(rounds.len() / 2).copied().unwrap_or(0.0)
}

/// What well behaved clients do meanwhile; their latencies in microseconds. Messages at a steady rate, or while nothing can be
/// published a question and its answer.
async fn others(kind: Kind, address: &str, count: u64) -> io::Result<Vec<u32>> {
    if kind != Kind::FloodsWhileBlocked {
        let load = Load {
            queue: "others".to_owned(),
            consumer_tag: "others",
            count,
            body_bytes: 256,
            persistent: false,
            pace: Pace::Steady,
        };
        return flow::run(address, load).await;
    }
    let mut link = Link::open(address).await?;
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut latencies = Vec::with_capacity(count as usize);
    link.declare("asked", false, false).await?;
    for _ in 0..count {
        ticks.tick().await;
        let asked = Instant::now();
        link.declare("asked", false, true).await?;
        latencies.push(asked.elapsed().as_micros() as u32);
    }
    Ok(latencies)
}

/// From here on nothing is confirmed. The publisher that waits for its confirm.
async fn fill_disk(address: &str, full: &std::path::Path) -> io::Result<Link> {
    let mut publisher = Link::open(address).await?;
    publisher.declare("full", true, false).await?;
    publisher.select_confirms().await?;
    fs::write(full, "")?;
    publisher.write(&publish("full", true, &[b'x'; 256])).await?;
    match timeout(NO_CONFIRM, publisher.read(|_| Ok(()))).await {
        Err(_) => Ok(publisher),
        Ok(_) => Err(io::Error::other(
            "the disk is full and a message was confirmed; FRAMEGATE_BIN must name the binary with faults",
        )),
    }
}

/// One hostile client, until it is stopped.
async fn attack(kind: Kind, address: String) {
    loop {
        // whatever the server makes of it, it comes again
        let _ = match kind {
            Kind::NeverReads => {
                write_only(&address, &publish_mandatory("nobody", &vec![b'x'; BODY_BYTES])).await
            }
            Kind::FloodsWhileBlocked => {
                write_only(&address, &publish("full", true, &vec![b'x'; BODY_BYTES])).await
            }
            Kind::EveryChannelAndOne => open_too_many(&address).await,
        };
        tokio::time::sleep(PAUSE).await;
    }
}

async fn write_only(address: &str, message: &[u8]) -> io::Result<()> {
    let mut link = Link::open(address).await?;
    loop {
        link.write(message).await?;
    }
}

async fn open_too_many(address: &str) -> io::Result<()> {
    let mut link = Link::connect(address).await?;
    let opens: Vec<u8> = (1..=CHANNELS_MAX + 1).flat_map(open_channel).collect();
    link.write(&opens).await?;
    loop {
        link.read(|_| Ok(())).await?;
    }
}
