//! AMQP 0-9-1: each path that the budgets name, ours and a peer's in turns with the same load, and whether the aims are
//! met.

mod flow;
mod hostile;
mod nats;
mod redis;
mod wire;

pub(crate) use hostile::run as hostile;

use std::io;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::runtime::Runtime;

use crate::report::{Figures, median};
use crate::servers::Server;
use flow::{Load, Pace};
use wire::Link;

const REPETITIONS: usize = 3;
/// A run that takes longer counts as failed.
const RUN_MAX: Duration = Duration::from_secs(120);
const IDLE_CONNECTIONS: u64 = 1000;
/// KiB of an idle connection, at most.
const IDLE_KIB_AIM: f64 = 10.0;

/// What a row is to reach.
#[derive(Debug, Clone, Copy, Default)]
struct Aims {
    /// Rate against the peer's, at least.
    rate_ratio: Option<f64>,
    /// CPU of a message against the peer's, at most.
    cpu_ratio: Option<f64>,
    /// CPU of a message in microseconds, at most.
    cpu_us: Option<f64>,
    /// Median latency in microseconds, at most.
    p50_us: Option<f64>,
}

struct Row {
    name: &'static str,
    load: Load,
    /// Queues, each with a publisher and a consumer of its own.
    queues: u64,
    aims: Aims,
}

/// Which rows mean the same at a peer.
type Comparable = fn(&Row) -> bool;

fn rows(quick: bool) -> Vec<Row> {
    let scale = if quick { 10 } else { 1 };
    let load = |count: u64, persistent, pace| Load {
        queue: "bench".to_owned(),
        consumer_tag: "consumer",
        count: count / scale,
        body_bytes: 256,
        persistent,
        pace,
    };
    let window = |window| Pace::Confirmed { window };
    vec![
        Row {
            name: "amqp persistent, confirms, window 1000, manual ack",
            load: load(100_000, true, window(1000)),
            queues: 1,
            aims: Aims {
                rate_ratio: Some(8.0),
                cpu_ratio: Some(1.0 / 15.0),
                cpu_us: Some(5.5),
                ..Aims::default()
            },
        },
        Row {
            name: "amqp persistent, confirms, window 1",
            load: load(3_000, true, window(1)),
            queues: 1,
            aims: Aims { rate_ratio: Some(4.0), p50_us: Some(600.0), ..Aims::default() },
        },
        Row {
            name: "amqp persistent, confirms, 16 KiB",
            load: Load { body_bytes: 16 * 1024, ..load(20_000, true, window(1000)) },
            queues: 1,
            aims: Aims { rate_ratio: Some(3.0), cpu_ratio: Some(1.0 / 6.0), ..Aims::default() },
        },
        Row {
            name: "amqp transient, auto-ack",
            load: load(300_000, false, Pace::Unconfirmed),
            queues: 1,
            aims: Aims { rate_ratio: Some(8.0), cpu_us: Some(2.1), ..Aims::default() },
        },
        Row {
            name: "amqp 2,000/s, to delivery",
            load: load(10_000, false, Pace::Steady),
            queues: 1,
            aims: Aims { p50_us: Some(300.0), cpu_ratio: Some(0.2), ..Aims::default() },
        },
        Row {
            name: "amqp two connections, one consumer tag",
            load: load(20_000, true, window(1000)),
            queues: 2,
            aims: Aims::default(),
        },
    ]
}

/// Every row, then the memory of idle connections. `only`: rows with this in their name.
///
/// # Errors
/// A run is not complete and in order, or a server does not start.
pub(crate) fn run(runtime: &Runtime, peer: Option<&str>, quick: bool, only: Option<&str>) -> io::Result<()> {
    let (start, comparable): (fn() -> io::Result<Server>, Comparable) = match peer {
        None | Some("rabbitmq") => (Server::rabbitmq, |_| true),
        // other protocols, so only what means the same there
        Some("redis") => (Server::redis, |row| row.load.persistent && row.queues == 1),
        Some("nats") => (Server::nats, |row| row.load.pace == Pace::Unconfirmed),
        Some(other) => {
            return Err(io::Error::other(format!("'{other}' is no peer; rabbitmq, redis, nats")));
        }
    };
    let repetitions = if quick { 1 } else { REPETITIONS };
    // one for all rows: it takes long to start, and each row leaves it empty
    let theirs = peer.map(|_| start()).transpose()?;
    let chosen = |row: &Row| comparable(row) && only.is_none_or(|only| row.name.contains(only));
    for row in rows(quick).into_iter().filter(chosen) {
        let ours = Server::framegate()?;
        let (mut our_runs, mut their_runs) = (Vec::new(), Vec::new());
        for repetition in 0..repetitions {
            let mut turns = vec![(&ours, &mut our_runs)];
            turns.extend(theirs.as_ref().map(|server| (server, &mut their_runs)));
            if repetition % 2 == 1 {
                turns.reverse();
            }
            for (server, runs) in turns {
                runs.push(runtime.block_on(measure(server, &row))?);
            }
        }
        let Some(ours) = median(our_runs) else { continue };
        ours.print();
        let theirs = median(their_runs);
        if let Some(theirs) = &theirs {
            theirs.print();
        }
        // the aims of a comparison are against RabbitMQ
        let absolute = Aims { rate_ratio: None, cpu_ratio: None, ..row.aims };
        judge(&ours, theirs.as_ref(), if peer == Some("rabbitmq") { row.aims } else { absolute });
    }
    drop(theirs);
    match peer {
        None | Some("rabbitmq") if only.is_none() => idle(runtime, peer.is_some()),
        _ => Ok(()),
    }
}

async fn measure(server: &Server, row: &Row) -> io::Result<Figures> {
    let (cpu, started) = (server.tree().cpu_seconds(), Instant::now());
    let mut running = Vec::new();
    for number in 0..row.queues {
        let load = Load { queue: format!("{}-{number}", row.load.queue), ..row.load.clone() };
        let (name, amqp, own) = (server.name, server.amqp.clone(), server.own.clone());
        running.push(tokio::spawn(async move {
            match name {
                "redis" => redis::run(&own, load).await,
                "nats" => nats::run(&own, load).await,
                _ => flow::run(&amqp, load).await,
            }
        }));
    }
    let mut latencies_us = Vec::new();
    for one in running {
        let ended = tokio::time::timeout(RUN_MAX, one).await;
        let ended = ended.map_err(|_| io::Error::other(format!("{}: took {RUN_MAX:?}", row.name)))?;
        latencies_us.extend(ended.map_err(io::Error::other)??);
    }
    Ok(Figures {
        path: row.name.to_owned(),
        server: server.name,
        count: row.load.count * row.queues,
        seconds: started.elapsed().as_secs_f64(),
        cpu_seconds: server.tree().cpu_seconds() - cpu,
        peak_kib: server.tree().peak_kib(),
        latencies_us,
        ..Figures::default()
    })
}

/// Prints a line per aim: ours, the peer's, the ratio, the aim, met or missed.
fn judge(ours: &Figures, peer: Option<&Figures>, aims: Aims) {
    let path = &ours.path;
    if let Some(peer) = peer {
        let (rate, cpu) = (ours.rate() / peer.rate(), ours.cpu_us() / peer.cpu_us());
        line(
            path,
            "rate a second",
            ours.rate(),
            Some(peer.rate()),
            aims.rate_ratio.map(|aim| (aim, rate >= aim)),
        );
        line(path, "cpu us", ours.cpu_us(), Some(peer.cpu_us()), aims.cpu_ratio.map(|aim| (aim, cpu <= aim)));
    }
    if let Some(aim) = aims.cpu_us {
        line(path, "cpu us, absolute", ours.cpu_us(), None, Some((aim, ours.cpu_us() <= aim)));
    }
    if let Some(aim) = aims.p50_us {
        let p50 = ours.p50_us();
        line(path, "p50 us", p50, peer.map(Figures::p50_us), Some((aim, p50 <= aim)));
    }
}

/// The 99th percentile of latencies.
fn p99_us(latencies_us: Vec<u32>) -> f64 {
    Figures { latencies_us, ..Figures::default() }.p99_us()
}

fn line(path: &str, what: &str, ours: f64, peer: Option<f64>, aim: Option<(f64, bool)>) {
    let ratio = peer.map(|peer| ours / peer);
    let result = aim.map(|(_, met)| if met { "met" } else { "missed" });
    let object = json!({
        "path": path, "figure": what, "ours": ours, "peer": peer, "ratio": ratio,
        "aim": aim.map(|(aim, _)| aim), "result": result,
    });
    println!("{object}");
    let peer = peer.map_or_else(String::new, |peer| format!(", peer {peer:.1}, ratio {:.3}", ours / peer));
    let aim = aim.map_or_else(String::new, |(aim, met)| {
        format!(", aim {aim:.3}: {}", if met { "met" } else { "missed" })
    });
    eprintln!("{path}: {what}: ours {ours:.1}{peer}{aim}");
}

fn idle(runtime: &Runtime, with_peer: bool) -> io::Result<()> {
    let ours = idle_kib(runtime, &Server::framegate()?)?;
    let peer = if with_peer { Some(idle_kib(runtime, &Server::rabbitmq()?)?) } else { None };
    line("amqp idle connection", "KiB", ours, peer, Some((IDLE_KIB_AIM, ours <= IDLE_KIB_AIM)));
    Ok(())
}

fn idle_kib(runtime: &Runtime, server: &Server) -> io::Result<f64> {
    let before = server.tree().rss_kib();
    let links = runtime.block_on(async {
        let mut links = Vec::new();
        for _ in 0..IDLE_CONNECTIONS {
            links.push(Link::connect(&server.amqp).await?);
        }
        Ok::<_, io::Error>(links)
    })?;
    let grown = server.tree().rss_kib().saturating_sub(before);
    drop(links);
    Ok(grown as f64 / IDLE_CONNECTIONS as f64)
}
