//! Fan-out: every subscriber gets every event, in order. Ours, a peer and a server without logic in turns, medians of
//! three.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::load::bodies;
use crate::publisher::{Progress, answered, publish};
use crate::report::{Figures, compare, median};
use crate::servers::Server;
use crate::subscriber::{Hello, read, text_message, upgrade};

const REPETITIONS: usize = 3;
/// Subscribers whose requests are under way at once.
const CONNECTING_MAX: u64 = 64;
/// A run that takes longer counts as failed.
const RUN_MAX: Duration = Duration::from_secs(90);
/// Server CPU of a delivery against the peer's, at most.
const CPU_AIM: f64 = 0.8;
/// Rate against the peer's, at least: with many subscribers, and with few.
const RATE_AIM_MANY: f64 = 1.2;
const RATE_AIM_FEW: f64 = 1.0;
/// Subscribers from which the stricter aim holds.
const MANY: u64 = 5000;

/// What the command line asks for.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) peer: Option<String>,
    pub(crate) quick: bool,
    /// Only rows with this in their name.
    pub(crate) only: Option<String>,
    /// Only this number of subscribers.
    pub(crate) subscribers: Option<u64>,
    /// Events on the way to the slowest subscriber. With one, no server can send several in one write.
    pub(crate) window: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { peer: None, quick: false, only: None, subscribers: None, window: 1 }
    }
}

/// How events reach a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Server-Sent Events.
    Sse,
    /// WebSocket: `framegate.v1.json` with us.
    WebSocket,
}

/// The servers of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Framegate,
    Nchan,
    Null,
}

impl Kind {
    fn start(self) -> io::Result<Server> {
        match self {
            Self::Framegate => Server::framegate(),
            Self::Nchan => Server::nchan(),
            Self::Null => Server::null(),
        }
    }

    fn publish_path(self) -> &'static str {
        if self == Self::Framegate { "/v1/topics/bench/events" } else { "/pub?id=bench" }
    }

    fn hello(self, transport: Transport) -> Hello {
        match (self, transport) {
            (Self::Framegate, Transport::Sse) => {
                Hello::get("/v1/sse?topic=bench", "Accept: text/event-stream\r\n")
            }
            (Self::Framegate, Transport::WebSocket) => {
                let hello = Hello::get("/v1/ws", &upgrade("Sec-WebSocket-Protocol: framegate.v1.json\r\n"));
                let subscribe =
                    r#"{"op":"subscribe","id":1,"sub":"s","topic":"bench","ack":"auto","credit":1000}"#;
                Hello { then: text_message(subscribe), ready: r#""op":"ok""#, ..hello }
            }
            (_, Transport::Sse) => Hello::get("/sub?id=bench", "Accept: text/event-stream\r\n"),
            (_, Transport::WebSocket) => Hello::get("/sub?id=bench", &upgrade("")),
        }
    }
}

/// All sizes.
///
/// # Errors
/// A server does not start, or a run is not complete and in order.
pub(crate) fn run(runtime: &Runtime, transport: Transport, options: &Options) -> io::Result<()> {
    let peers: &[Kind] = match options.peer.as_deref() {
        None => &[],
        Some("null") => &[Kind::Null],
        Some("nchan") => &[Kind::Nchan, Kind::Null],
        Some(other) => {
            return Err(io::Error::other(format!("there is no peer '{other}'; there are: nchan, null")));
        }
    };
    let kinds: Vec<Kind> = std::iter::once(Kind::Framegate).chain(peers.iter().copied()).collect();
    let sizes = if options.quick { vec![100] } else { vec![100, 1000, MANY] };
    for subscribers in options.subscribers.map_or(sizes, |one| vec![one]) {
        // about as many deliveries at each size
        let events = if options.quick { 500 } else { (500_000 / subscribers).clamp(100, 5000) };
        let mut runs = vec![Vec::new(); kinds.len()];
        for repetition in 0..REPETITIONS {
            for turn in 0..kinds.len() {
                let at = (turn + repetition) % kinds.len();
                let server = kinds[at].start()?;
                let one = one(&server, kinds[at], transport, subscribers, events, options.window);
                let limited = async { tokio::time::timeout(RUN_MAX, one).await };
                let figures = runtime
                    .block_on(limited)
                    .map_err(|_| io::Error::other(format!("{}: not done after {RUN_MAX:?}", server.name)))?;
                match figures {
                    Ok(figures) => runs[at].push(figures),
                    // a peer that loses events is no comparison, but no reason to stop either
                    Err(error) if kinds[at] != Kind::Framegate => eprintln!("{}: {error}", server.name),
                    Err(error) => return Err(error),
                }
            }
        }
        let medians: Vec<Option<Figures>> = runs.into_iter().map(median).collect();
        medians.iter().flatten().for_each(Figures::print);
        let Some(Some(ours)) = medians.first() else { continue };
        for peer in medians[1..].iter().flatten() {
            let rate_aim = if subscribers >= MANY { RATE_AIM_MANY } else { RATE_AIM_FEW };
            let aims = (peer.server == "nchan").then_some((CPU_AIM, rate_aim));
            compare(ours, peer, aims);
        }
    }
    Ok(())
}

async fn one(
    server: &Server,
    kind: Kind,
    transport: Transport,
    subscribers: u64,
    events: u64,
    window: u64,
) -> io::Result<Figures> {
    let progress = Arc::new(Progress::new(subscribers, events));
    let (bodies, hello) = (bodies(events), Arc::new(kind.hello(transport)));
    let empty_kib = server.tree().rss_kib();
    let mut readers = Vec::new();
    for n in 0..subscribers {
        let socket = hello.connect(&server.http).await?;
        let (hello, bodies) = (Arc::clone(&hello), Arc::clone(&bodies));
        readers.push(tokio::spawn(read(socket, hello, Arc::clone(&progress), bodies, n % 16 == 0)));
        // no listen queue and no limit of requests at once runs over
        progress.ready((n + 1).saturating_sub(CONNECTING_MAX)).await?;
    }
    progress.ready(subscribers).await?;
    if kind == Kind::Nchan {
        joined(&server.http, subscribers).await?;
    }
    let idle_kib = server.tree().rss_kib();
    let cpu = server.tree().cpu_seconds();
    let started = Instant::now();
    publish(&server.http, kind.publish_path(), &progress, window, &bodies).await?;
    let mut latencies_us = Vec::new();
    for reader in readers {
        latencies_us.extend(reader.await.map_err(io::Error::other)??);
    }
    let seconds = started.elapsed().as_secs_f64();
    let name = if transport == Transport::Sse { "sse" } else { "ws" };
    Ok(Figures {
        path: format!("{name} {subscribers} subscribers, window {window}"),
        server: server.name,
        count: subscribers * events,
        seconds,
        cpu_seconds: server.tree().cpu_seconds() - cpu,
        peak_kib: server.tree().peak_kib(),
        idle_kib_each: Some(idle_kib.saturating_sub(empty_kib) as f64 / subscribers as f64),
        latencies_us,
    })
}

/// nchan answers before a subscriber is in its channel: waits until it counts all of them.
async fn joined(address: &str, subscribers: u64) -> io::Result<()> {
    let mut answer = Vec::new();
    for _ in 0..500 {
        let mut socket = TcpStream::connect(address).await?;
        socket.write_all(b"GET /pub?id=bench HTTP/1.1\r\nHost: bench\r\n\r\n").await?;
        let text = answered(&mut socket, &mut answer).await.unwrap_or_default();
        if text.contains(&format!("active subscribers: {subscribers}")) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(io::Error::other(format!("nchan does not count {subscribers} subscribers")))
}
