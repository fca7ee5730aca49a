//! One HTTP connection: HTTP/1.1 or HTTP/2 with prior knowledge, told apart by its first bytes. It ends politely when
//! the server stops.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::sync::watch;
use tower::ServiceExt as _;

use crate::config::HttpSection;
use crate::listeners::HeldStream;
use crate::shutdown::unless_told;

/// Streams that an HTTP/2 connection may have open.
const HTTP2_STREAMS_MAX: u32 = 256;
/// How often an idle HTTP/2 peer is asked for a sign of life, and how long it may take.
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(60);
const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves the connections of one listener. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Server {
    name: &'static str,
    router: Router,
    builder: Arc<Builder<TokioExecutor>>,
    opening_timeout: Duration,
    stopping: watch::Receiver<bool>,
}

impl Server {
    /// A server of these routes.
    pub(crate) fn new(
        name: &'static str,
        router: Router,
        section: &HttpSection,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let head_timeout = Duration::from_millis(section.head_timeout_ms);
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(head_timeout)
            .max_headers(section.headers_max)
            // answers and events are small: one copy costs less than handing the kernel three pieces
            .writev(false)
            .max_buf_size(section.head_bytes_max.max(8192));
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(HTTP2_PING_INTERVAL)
            .keep_alive_timeout(HTTP2_PING_TIMEOUT)
            .max_concurrent_streams(HTTP2_STREAMS_MAX)
            .max_header_list_size(u32::try_from(section.head_bytes_max).unwrap_or(u32::MAX));
        Self { name, router, builder: Arc::new(builder), opening_timeout: head_timeout, stopping }
    }

    /// Serves one connection until it ends or the server stops and it is idle.
    pub(crate) async fn serve(self, stream: HeldStream, peer: SocketAddr) {
        let slot = stream.slot();
        let router = self.router;
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            request.extensions_mut().insert(Arc::clone(&slot));
            router.clone().oneshot(request.map(Body::new))
        });
        let io = TokioIo::new(stream.with_opening_timeout(self.opening_timeout));
        let mut connection = pin!(self.builder.serve_connection_with_upgrades(io, service));
        let mut stopping = self.stopping;
        let served = match unless_told(&mut stopping, connection.as_mut()).await {
            Some(served) => served,
            None => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = served {
            tracing::debug!("{}: {peer}: {error}", self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::listeners::{Accepting, Gate, ListenerStats, accept};

    struct Running {
        addr: SocketAddr,
        gate: Gate,
        stop: watch::Sender<bool>,
        _cut: watch::Sender<bool>,
    }

    async fn running(section: HttpSection) -> Running {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let addr = socket.local_addr().expect("an address");
        let (stop, stopping) = watch::channel(false);
        let (cut_sender, cut) = watch::channel(false);
        let gate = Gate::new(8, 1);
        let peer = async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.to_string();
        let server = Server::new("toy", Router::new().route("/", get(peer)), &section, stopping.clone());
        let stats = Arc::new(ListenerStats::new("toy"));
        let accepting = Accepting { gate: gate.clone(), stats, stopping, cut };
        tokio::spawn(accept(socket, accepting, move |s, peer| server.clone().serve(s, peer)));
        Running { addr, gate, stop, _cut: cut_sender }
    }

    async fn ask(stream: &mut TcpStream, head: &str) -> String {
        stream.write_all(head.as_bytes()).await.expect("written");
        let mut answer = Vec::new();
        loop {
            let mut buffer = [0_u8; 1024];
            let read = stream.read(&mut buffer).await.expect("read");
            answer.extend_from_slice(&buffer[..read]);
            let text = String::from_utf8_lossy(&answer);
            let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
                let length = head
                    .lines()
                    .find_map(|l| l.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
                length.is_none_or(|l| l.parse() == Ok(body.len()))
            });
            if read == 0 || whole {
                return text.into_owned();
            }
        }
    }

    #[tokio::test]
    async fn a_route_sees_the_peer_and_an_idle_connection_ends_at_a_stop() {
        let running = running(HttpSection::default()).await;
        let mut idle = TcpStream::connect(running.addr).await.expect("connected");
        let mut silent = TcpStream::connect(running.addr).await.expect("connected");
        let answer = ask(&mut idle, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(answer.ends_with(&idle.local_addr().expect("an address").to_string()), "{answer}");
        running.stop.send_replace(true);
        assert_eq!(idle.read(&mut [0_u8; 1]).await.expect("ended"), 0);
        // Reset or ended: the accept may not have happened yet.
        let _ = silent.read(&mut [0_u8; 1]).await;
        running.gate.empty().await;
    }

    #[tokio::test]
    async fn a_peer_that_says_nothing_is_let_go() {
        let section = HttpSection { head_timeout_ms: 20, ..HttpSection::default() };
        let running = running(section).await;
        for opening in ["", "PRI * HT", "GET / HTT"] {
            let mut peer = TcpStream::connect(running.addr).await.expect("connected");
            peer.write_all(opening.as_bytes()).await.expect("written");
            let mut answer = Vec::new();
            let _ = peer.read_to_end(&mut answer).await;
            assert!(!answer.starts_with(b"HTTP/1.1 200"), "{opening}");
        }
        running.gate.empty().await;
    }

    #[tokio::test]
    async fn more_header_fields_than_allowed_are_refused() {
        let section = HttpSection { headers_max: 16, ..HttpSection::default() };
        let running = running(section).await;
        let mut peer = TcpStream::connect(running.addr).await.expect("connected");
        let fields: String = (0..20).map(|n| format!("x-{n}: 1\r\n")).collect();
        let answer = ask(&mut peer, &format!("GET / HTTP/1.1\r\nhost: a\r\n{fields}\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
}
