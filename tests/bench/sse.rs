//! Fan-out over Server-Sent Events: every subscriber gets every event, in order; the publisher keeps a window of events
//! that not everybody has yet.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::load::{Finder, body};
use crate::report::{Figures, compare, median};
use crate::servers::Server;

/// Events on the way to the slowest subscriber: with one, neither server can send several in one write.
const WINDOW: u64 = 1;

/// Events before the measured ones: every subscriber is really in when it has seen the last of them.
const WARM_UP: u64 = 5;
/// Longest wait for that.
const WARM_UP_MAX: Duration = Duration::from_secs(20);

/// Where to subscribe and publish.
struct Paths {
    subscribe: &'static str,
    publish: &'static str,
}

fn paths(server: &Server) -> Paths {
    if server.name == "nchan" {
        Paths { subscribe: "/sub?id=bench", publish: "/pub?id=bench" }
    } else {
        Paths { subscribe: "/v1/sse?topic=bench", publish: "/v1/topics/bench/events" }
    }
}

/// Three repetitions each, alternating, medians.
pub(crate) fn run(runtime: &Runtime, peer: Option<&str>, quick: bool) -> io::Result<()> {
    let sizes: &[(u64, u64)] = if quick { &[(100, 500)] } else { &[(100, 2000), (1000, 300), (5000, 100)] };
    for (subscribers, events) in sizes {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            ours.push(runtime.block_on(fan_out(&Server::framegate()?, *subscribers, *events))?);
            match peer {
                Some("nchan") => {
                    theirs.push(runtime.block_on(fan_out(&Server::nchan()?, *subscribers, *events))?);
                }
                Some(other) => {
                    return Err(io::Error::other(format!("there is no peer '{other}'; there is: nchan")));
                }
                None => {}
            }
        }
        let (Some(ours), theirs) = (median(ours), median(theirs)) else { continue };
        ours.print();
        if let Some(theirs) = theirs {
            theirs.print();
            compare(&ours, &theirs, 0.8, if *subscribers == 5000 { 1.2 } else { 1.0 });
        }
    }
    Ok(())
}

struct Shared {
    delivered: AtomicU64,
    ready: AtomicU64,
    warm: AtomicU64,
    progress: Notify,
    started: Instant,
    published_ns: Vec<AtomicU64>,
    subscribers: u64,
}

async fn fan_out(server: &Server, subscribers: u64, events: u64) -> io::Result<Figures> {
    let Paths { subscribe, publish } = paths(server);
    let shared = Arc::new(Shared {
        delivered: AtomicU64::new(0),
        ready: AtomicU64::new(0),
        warm: AtomicU64::new(0),
        progress: Notify::new(),
        started: Instant::now(),
        published_ns: (0..WARM_UP + events).map(|_| AtomicU64::new(0)).collect(),
        subscribers,
    });
    let mut readers = Vec::new();
    for n in 0..subscribers {
        // each is in before the next connects: no listen queue runs over
        let socket = open(&server.http, subscribe).await?;
        readers.push(tokio::spawn(read(socket, Arc::clone(&shared), events, n % 16 == 0)));
    }
    while shared.ready.load(Ordering::Acquire) < subscribers {
        shared.progress.notified().await;
    }
    let mut publisher = TcpStream::connect(&server.http).await?;
    publisher.set_nodelay(true)?;
    warm_up(&mut publisher, publish, &shared).await?;
    let cpu = server.tree().cpu_seconds();
    let started = Instant::now();
    for number in WARM_UP..WARM_UP + events {
        while (number + 1 - WARM_UP).saturating_sub(WINDOW) * subscribers
            > shared.delivered.load(Ordering::Acquire)
        {
            shared.progress.notified().await;
        }
        post(&mut publisher, publish, &shared, number).await?;
    }
    let mut latencies_us = Vec::new();
    for reader in readers {
        latencies_us.extend(reader.await.map_err(io::Error::other)??);
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(Figures {
        path: format!("sse {subscribers} subscribers"),
        server: server.name,
        count: subscribers * events,
        seconds,
        cpu_seconds: server.tree().cpu_seconds() - cpu,
        peak_kib: server.tree().peak_kib(),
        latencies_us,
    })
}

async fn open(address: &str, path: &str) -> io::Result<TcpStream> {
    let mut socket = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    Ok(socket)
}

async fn read(mut socket: TcpStream, shared: Arc<Shared>, events: u64, sample: bool) -> io::Result<Vec<u32>> {
    let mut buffer = vec![0; 8 * 1024];
    let mut finder = Finder::default();
    let mut latencies = Vec::new();
    let mut head = true;
    while finder.next < WARM_UP + events {
        let n = socket.read(&mut buffer).await?;
        if n == 0 {
            return Err(io::Error::other(format!("the stream ended after {} events", finder.next)));
        }
        if std::mem::take(&mut head) {
            shared.ready.fetch_add(1, Ordering::AcqRel);
            shared.progress.notify_one();
        }
        let before = finder.next;
        finder.take(&buffer[..n], |number| {
            if sample && number >= WARM_UP {
                let published = shared.published_ns[number as usize].load(Ordering::Acquire);
                let now = shared.started.elapsed().as_nanos() as u64;
                latencies.push((now.saturating_sub(published) / 1000) as u32);
            }
        })?;
        if before < WARM_UP && finder.next >= WARM_UP {
            shared.warm.fetch_add(1, Ordering::AcqRel);
            shared.progress.notify_one();
        }
        let found = finder.next.max(WARM_UP) - before.max(WARM_UP);
        if found == 0 {
            continue;
        }
        let all = shared.delivered.fetch_add(found, Ordering::AcqRel) + found;
        if all / shared.subscribers != (all - found) / shared.subscribers {
            shared.progress.notify_one();
        }
    }
    Ok(latencies)
}

async fn warm_up(publisher: &mut TcpStream, path: &str, shared: &Shared) -> io::Result<()> {
    for number in 0..WARM_UP {
        tokio::time::sleep(Duration::from_millis(200)).await;
        post(publisher, path, shared, number).await?;
    }
    let everybody = async {
        while shared.warm.load(Ordering::Acquire) < shared.subscribers {
            shared.progress.notified().await;
        }
    };
    tokio::time::timeout(WARM_UP_MAX, everybody).await.map_err(|_| {
        let (warm, all) = (shared.warm.load(Ordering::Acquire), shared.subscribers);
        io::Error::other(format!("{warm} of {all} subscribers saw the last event before the measured ones"))
    })
}

async fn post(socket: &mut TcpStream, path: &str, shared: &Shared, number: u64) -> io::Result<()> {
    let body = body(number);
    let head = "Host: bench\r\nContent-Type: text/plain\r\nContent-Length";
    let mut request = format!("POST {path} HTTP/1.1\r\n{head}: {}\r\n\r\n", body.len()).into_bytes();
    request.extend_from_slice(&body);
    shared.published_ns[number as usize].store(shared.started.elapsed().as_nanos() as u64, Ordering::Release);
    socket.write_all(&request).await?;
    let mut answer = [0; 4096];
    let n = socket.read(&mut answer).await?;
    if !answer[..n].starts_with(b"HTTP/1.1 20") {
        return Err(io::Error::other(format!("publish: {}", String::from_utf8_lossy(&answer[..n]))));
    }
    Ok(())
}

/// Memory of idle connections.
pub(crate) fn idle(runtime: &Runtime) -> io::Result<()> {
    const CONNECTIONS: u64 = 2000;
    let server = Server::framegate()?;
    for (kind, address, request) in [
        ("messagex", &server.messagex, String::new()),
        ("sse", &server.http, "GET /v1/sse?topic=idle HTTP/1.1\r\nHost: b\r\n\r\n".to_owned()),
        ("websocket", &server.http, websocket_upgrade()),
    ] {
        let before = server.tree().rss_kib();
        let sockets = runtime.block_on(async {
            let mut sockets = Vec::new();
            for _ in 0..CONNECTIONS {
                let mut socket = TcpStream::connect(address).await?;
                if !request.is_empty() {
                    socket.write_all(request.as_bytes()).await?;
                    let mut head = [0; 512];
                    let _ = socket.read(&mut head).await?;
                }
                sockets.push(socket);
            }
            io::Result::Ok(sockets)
        })?;
        let grown = server.tree().rss_kib().saturating_sub(before);
        let each = grown as f64 / CONNECTIONS as f64;
        println!(
            "{}",
            serde_json::json!({"path": format!("idle {kind}"), "connections": CONNECTIONS, "kib_each": each})
        );
        eprintln!("idle {kind}: {each:.1} KiB a connection");
        drop(sockets);
    }
    Ok(())
}

fn websocket_upgrade() -> String {
    "GET /v1/ws HTTP/1.1\r\nHost: b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: framegate.v1.json\r\n\r\n"
        .to_owned()
}
