//! One HTTP connection: HTTP/1.1 or HTTP/2 with prior knowledge, told apart by its first bytes. It ends politely when
//! the server stops. A request over HTTP/1.1 that is answered by an event stream takes the socket with it.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::ConnectInfo;
use axum::http::{Method, Response, Version as HttpVersion};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::watch;
use tower::{BoxError, ServiceExt as _};

use super::event_stream::{EventStream, is_event_stream};
use super::opening::{HttpStream, Version, open};
use crate::config::HttpSection;
use crate::listeners::{HeldStream, StreamSlot};
use crate::shutdown::{told, unless_told};

/// Streams that an HTTP/2 connection may have open.
const HTTP2_STREAMS_MAX: u32 = 256;
/// How often an idle HTTP/2 peer is asked for a sign of life, and how long it may take.
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(60);
const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves the connections of one listener. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Server(Arc<Shared>);

struct Shared {
    name: &'static str,
    router: Router,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
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
        let opening_timeout = Duration::from_millis(section.head_timeout_ms);
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(opening_timeout)
            .max_headers(section.headers_max)
            // answers are small: one copy costs less than handing the kernel three pieces
            .writev(false)
            .max_buf_size(section.head_bytes_max.max(8192));
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .keep_alive_interval(HTTP2_PING_INTERVAL)
            .keep_alive_timeout(HTTP2_PING_TIMEOUT)
            .max_concurrent_streams(HTTP2_STREAMS_MAX)
            .max_header_list_size(u32::try_from(section.head_bytes_max).unwrap_or(u32::MAX));
        Self(Arc::new(Shared { name, router, http1, http2, opening_timeout, stopping }))
    }

    /// Serves one connection until it ends or the server stops and it is idle.
    pub(crate) async fn serve(self, stream: HeldStream, peer: SocketAddr) {
        // Boxed: what an HTTP server needs is gone when a stream outlives it.
        let ended = match Box::pin(self.0.run(stream, peer)).await {
            Ok(Some(events)) => events.run().await.map_err(BoxError::from),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::debug!("{}: {peer}: {error}", self.0.name);
        }
    }
}

impl Shared {
    /// Serves until the connection ends, or an event stream takes it over.
    async fn run(
        &self,
        stream: HeldStream,
        peer: SocketAddr,
    ) -> Result<Option<EventStream<HeldStream>>, BoxError> {
        let slot = stream.slot();
        let opened = pin!(tokio::time::timeout(self.opening_timeout, open(stream)));
        let Some(opened) = unless_told(&mut self.stopping.clone(), opened).await else { return Ok(None) };
        let (stream, version) = opened??;
        match version {
            Version::Http1 => Ok(self.http1(stream, slot, peer).await?),
            Version::Http2 => Ok(self.http2(stream, slot, peer).await.map(|()| None)?),
        }
    }

    async fn http1(
        &self,
        stream: HttpStream,
        slot: StreamSlot,
        peer: SocketAddr,
    ) -> hyper::Result<Option<EventStream<HeldStream>>> {
        let unflushed = stream.unflushed();
        let handover = Handover::default();
        let (router, to_stream) = (self.router.clone(), handover.clone());
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let streams = request.version() == HttpVersion::HTTP_11 && request.method() == Method::GET;
            let to_stream = streams.then(|| to_stream.clone());
            let answer = router.clone().oneshot(prepared(request, peer, &slot));
            async move {
                let response = answer.await?;
                let endless = is_event_stream(response.headers()) && response.size_hint().exact().is_none();
                match to_stream.filter(|_| endless) {
                    Some(to_stream) => to_stream.give(response).await,
                    None => Ok(response),
                }
            }
        });
        let mut connection = self.http1.serve_connection(TokioIo::new(stream), service).with_upgrades();
        let mut stopping = self.stopping.clone();
        let mut told_it = false;
        let response = loop {
            let step = pin!(poll_fn(|context| match Pin::new(&mut connection).poll(context) {
                Poll::Ready(ended) => Poll::Ready(ended.map(|()| None)),
                // an earlier answer leaves first
                Poll::Pending if unflushed.get() => Poll::Pending,
                Poll::Pending => handover.take().map_or(Poll::Pending, |given| Poll::Ready(Ok(Some(given)))),
            }));
            if told_it {
                break step.await?;
            }
            match unless_told(&mut stopping, step).await {
                Some(ended) => break ended?,
                None => {
                    told_it = true;
                    Pin::new(&mut connection).graceful_shutdown();
                }
            }
        };
        let socket = connection.into_parts().map(|parts| parts.io.into_inner().into_socket());
        Ok(response.zip(socket).map(|(response, socket)| EventStream::new(socket, response)))
    }

    async fn http2(&self, stream: HttpStream, slot: StreamSlot, peer: SocketAddr) -> hyper::Result<()> {
        let router = self.router.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            router.clone().oneshot(prepared(request, peer, &slot))
        });
        let mut connection = pin!(self.http2.serve_connection(TokioIo::new(stream), service));
        let mut stopping = self.stopping.clone();
        tokio::select! {
            served = connection.as_mut() => return served,
            () = told(&mut stopping) => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    }
}

/// A request as the routes see it.
fn prepared(request: hyper::Request<Incoming>, peer: SocketAddr, slot: &StreamSlot) -> hyper::Request<Body> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(ConnectInfo(peer));
    request.extensions_mut().insert(Arc::clone(slot));
    request
}

/// An answer on its way past the server that has read its request.
#[derive(Clone, Default)]
struct Handover(Arc<Mutex<Option<Response<Body>>>>);

impl Handover {
    /// Gives the answer away. The server waits for it until it is dropped.
    async fn give(self, response: Response<Body>) -> Result<Response<Body>, Infallible> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(response);
        std::future::pending().await
    }

    fn take(&self) -> Option<Response<Body>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::CONTENT_TYPE;
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
        let peer = async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.to_string();
        serving(Router::new().route("/", get(peer)), section).await
    }

    async fn serving(router: Router, section: HttpSection) -> Running {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let addr = socket.local_addr().expect("an address");
        let (stop, stopping) = watch::channel(false);
        let (cut_sender, cut) = watch::channel(false);
        let gate = Gate::new(8, 1);
        let server = Server::new("toy", router, &section, stopping.clone());
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

    /// A server of one large answer at `/large` and one stream of two events at `/stream`.
    async fn streaming() -> Running {
        let events = || async {
            let events = futures_util::stream::iter(["data: 1\n\n", "data: 2\n\n"].map(Ok::<_, Infallible>));
            ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(events))
        };
        let router =
            Router::new().route("/stream", get(events)).route("/large", get(async || "x".repeat(LARGE)));
        serving(router, HttpSection::default()).await
    }

    const LARGE: usize = 8 * 1024 * 1024;

    async fn all(addr: SocketAddr, requests: &str) -> String {
        let mut client = TcpStream::connect(addr).await.expect("connected");
        client.write_all(requests.as_bytes()).await.expect("written");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("read");
        answer
    }

    const CHUNKS: &str = "\r\n\r\n9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n";

    #[tokio::test]
    async fn an_event_stream_takes_the_socket_and_gives_its_place_back() {
        let running = streaming().await;
        let answer = all(running.addr, "GET /stream HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"), "{answer}");
        assert!(answer.ends_with(CHUNKS), "{answer}");
        running.gate.empty().await;
    }

    #[tokio::test]
    async fn a_stream_behind_an_answer_that_still_waits_does_not_cut_it() {
        let running = streaming().await;
        let requests = "GET /large HTTP/1.1\r\nhost: a\r\n\r\nGET /stream HTTP/1.1\r\nhost: a\r\n\r\n";
        let answer = all(running.addr, requests).await;
        let (large, stream) = answer.rsplit_once("xHTTP/1.1 200 OK\r\n").expect("two answers");
        let (_, body) = large.split_once("\r\n\r\n").expect("a body");
        assert_eq!(body.len() + 1, LARGE);
        assert!(stream.ends_with(CHUNKS), "{stream}");
        running.gate.empty().await;
    }

    #[tokio::test]
    async fn who_cannot_read_chunks_or_wants_the_head_only_is_served_by_the_server() {
        let running = streaming().await;
        let old = all(running.addr, "GET /stream HTTP/1.0\r\n\r\n").await;
        assert!(old.ends_with("\r\n\r\ndata: 1\n\ndata: 2\n\n"), "{old}");
        let head = all(running.addr, "HEAD /stream HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
        assert!(head.contains("text/event-stream") && head.ends_with("\r\n\r\n"), "{head}");
        running.gate.empty().await;
    }
}
